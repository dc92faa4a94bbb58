//! Asks a person before anything is stored.

use std::io::{self, BufRead as _};

use ketch::transfer::Consultation;
use ketch_protocol::session::receiver::Answer;

use super::{
    format,
    output::{Output, print_line},
};

/// Shows what is offered and waits, on a thread of its own, for a line that says yes. Anything else, and
/// the end of the input, is a no.
pub(super) fn ask(output: &Output, consultation: Consultation) {
    output.clear();
    describe(&consultation).iter().for_each(|line| print_line(line));
    std::thread::spawn(move || {
        let mut line = String::new();
        let answered = io::stdin().lock().read_line(&mut line);
        // The session may have ended meanwhile.
        let _ = consultation.reply.send(answered.map_or(Answer::No, |_| parse(&line)));
    });
}

fn describe(consultation: &Consultation) -> Vec<String> {
    let Consultation { listed, complete, names, .. } = consultation;
    let so_far = if *complete { "" } else { " so far" };
    let mut lines: Vec<String> = names.iter().map(|name| format!("  {name}")).collect();
    let more = listed.entries.saturating_sub(names.len() as u64);
    if more > 0 {
        lines.push(format!("  and {} more", format::entries(more)));
    }
    let what = format!("{}, {}{so_far}", format::entries(listed.entries), format::bytes(listed.bytes));
    lines.push(format!("store {what}? [y/N]"));
    lines
}

fn parse(line: &str) -> Answer {
    match line.trim().to_lowercase().as_str() {
        "y" | "yes" => Answer::Yes,
        _ => Answer::No,
    }
}

#[cfg(test)]
mod tests {
    use ketch_protocol::{message::Totals, path::EntryPath};
    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn only_yes_is_a_yes() {
        for (line, answer) in [
            ("y\n", Answer::Yes),
            (" YES \n", Answer::Yes),
            ("\n", Answer::No),
            ("no\n", Answer::No),
            ("", Answer::No),
        ] {
            assert_eq!(parse(line), answer, "{line:?}");
        }
    }

    #[test]
    fn names_are_escaped_and_the_rest_is_counted() {
        let names = vec![EntryPath::parse(b".ssh/\x1b[2Jkeys").unwrap()];
        let listed = Totals { entries: 3, bytes: 2048, problems: 0 };
        let consultation = Consultation { listed, complete: false, names, reply: oneshot::channel().0 };
        let lines =
            ["  .ssh/\\u{1b}[2Jkeys", "  and 2 entries more", "store 3 entries, 2.0 kB so far? [y/N]"];
        assert_eq!(describe(&consultation), lines);
    }
}
