//! What a person or a script sees of a transfer: a live line on a terminal, plain lines elsewhere, NDJSON
//! on request. Results go to standard output, everything else to standard error.

use std::{
    io::{self, IsTerminal as _, Write as _},
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ketch::{
    swarm::{Circuit, TransportKind},
    transfer::{Change, ConnectionCounts, Event, Progress, Report, Route},
    tree::Unfinished,
};
use ketch_protocol::{
    message::{Congestion, Counts, Totals},
    path::escape,
    session::SessionError,
};
use serde_json::Value;

use super::{exit, format, json};

/// Seconds between lines of progress where nobody watches: a log should not drown in them.
const LINE_INTERVAL: Duration = Duration::from_secs(10);

/// Which side of a session speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Sender,
    Receiver,
    /// Either side of a sync: both print the same.
    Sync,
}

/// Renders events.
#[derive(Debug)]
pub(crate) struct Output {
    side: Side,
    form: Form,
    /// Whether every change is shown, or removals alone.
    itemize: bool,
    /// Of a preview: what would change.
    preview: Option<Changes>,
    /// Speed is measured over what crossed since the session was admitted, or a person agreed.
    admitted: Option<Instant>,
    transport: Option<TransportKind>,
    estimate: Option<Totals>,
}

#[derive(Debug)]
enum Form {
    Json,
    Terminal(ProgressBar),
    Lines { last: Instant },
}

impl Output {
    pub(crate) fn new(side: Side, json: bool) -> Self {
        let form = if json {
            Form::Json
        } else if io::stderr().is_terminal() {
            Form::Terminal(ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden()))
        } else {
            Form::Lines { last: Instant::now() }
        };
        Self { side, form, itemize: false, preview: None, admitted: None, transport: None, estimate: None }
    }

    /// Shows every change of the target, or removals alone.
    pub(crate) fn itemizing(self, itemize: bool) -> Self {
        Self { itemize, ..self }
    }

    /// Shows what would change, all of it.
    pub(crate) fn previewing(self) -> Self {
        Self { itemize: true, preview: Some(Changes::default()), ..self }
    }

    /// Shows an event; consent is not asked here.
    pub(crate) fn show(&mut self, event: &Event) {
        if let Event::Changed { change, .. } = event {
            self.preview.iter_mut().for_each(|changes| changes.count(*change));
            if *change != Change::Removed && !self.itemize {
                return;
            }
        }
        if matches!(self.form, Form::Json)
            && let Some(object) = json::event(event)
        {
            print_json(&object);
        }
        match event {
            Event::Connected(route) => {
                self.transport = Some(route.transport);
                self.say(&route_line(route));
            }
            Event::Counted(totals) => {
                self.estimate = Some(*totals);
                if self.side == Side::Sender {
                    self.say(&format!("offering {}", of_totals(totals)));
                }
            }
            Event::Admitted { peer, estimate } => {
                self.estimate = estimate.or(self.estimate);
                if self.side == Side::Sender {
                    self.say(&format!("{peer} has the ticket, sending"));
                }
                self.begin();
            }
            // The time a person took is no part of the rate, and asking took the live line away.
            Event::Agreed => self.begin(),
            Event::Retrying { why, limit, wait: _ } => {
                self.clear();
                let how_long = limit.map(|limit| format!(" for {}", format::rough(limit)));
                self.say(&format!("{why}; trying again{}", how_long.unwrap_or_default()));
            }
            Event::Again(report) => {
                self.clear();
                let line = summary_line(self.side, report);
                self.say(&format!("{line}; entries changed while they were read, comparing once more"));
            }
            Event::TurnedAway { peer, why } => self.say(&format!("turned away {peer}: {why}")),
            Event::Problem(problem) => self.say(&problem.to_string()),
            Event::Progress(progress) => self.progress(progress),
            Event::Changed { change, path } => self.result(&format!("{change:<9} {path}")),
            // Of a node that serves shares, which shows it itself.
            Event::Consult(_) | Event::Began { .. } => {}
            Event::SessionEnded { peer, outcome } => self.session_ended(&peer.to_string(), outcome),
        }
    }

    /// Says something beside the results.
    pub(crate) fn say(&self, line: &str) {
        match &self.form {
            Form::Json => {}
            Form::Terminal(bar) => bar.suspend(|| print_line(line)),
            Form::Lines { .. } => print_line(line),
        }
    }

    /// Prints a line of the results.
    fn result(&self, line: &str) {
        match &self.form {
            Form::Json => {}
            Form::Terminal(bar) => bar.suspend(|| print_result(line)),
            Form::Lines { .. } => print_result(line),
        }
    }

    /// Prints what a session that this side dialed came to; an error is left to whoever prints all of them.
    pub(crate) fn finish(&self, ended: anyhow::Result<Report>) -> anyhow::Result<exit::Exit> {
        self.clear();
        if let Some(unfinished) = ended.as_ref().err().and_then(exit::unfinished) {
            self.unfinished(unfinished);
        }
        let report = ended?;
        self.summary(&report);
        Ok(exit::Exit::of_counts(&report.counts))
    }

    /// Prints the result of a session.
    fn summary(&self, report: &Report) {
        self.clear();
        match &self.form {
            Form::Json => print_json(&json::done(report)),
            Form::Terminal(_) | Form::Lines { .. } => print_result(&match &self.preview {
                Some(changes) => preview_line(changes, report),
                None => summary_line(self.side, report),
            }),
        }
        self.warn(report);
    }

    /// Says what the other side could not do.
    fn warn(&self, report: &Report) {
        if let Some(line) = controller_warning(report) {
            self.say(&line);
        }
    }

    /// Says what is kept of large files that are not whole yet, if anything is.
    fn unfinished(&self, unfinished: &Unfinished) {
        if unfinished.bytes == 0 {
            return;
        }
        match &self.form {
            Form::Json => print_json(&json::unfinished(unfinished)),
            Form::Terminal(_) | Form::Lines { .. } => {
                let kept = format::bytes(unfinished.bytes);
                self.say(&format!("{kept} of unfinished large files are kept for the next try"));
            }
        }
    }

    /// Takes the live line off the screen.
    pub(crate) fn clear(&self) {
        if let Form::Terminal(bar) = &self.form {
            bar.finish_and_clear();
        }
    }

    fn session_ended(&mut self, peer: &str, outcome: &Result<Report, SessionError>) {
        self.clear();
        match outcome {
            Ok(report) => {
                if !matches!(self.form, Form::Json) {
                    print_result(&summary_line(self.side, report));
                }
                self.warn(report);
            }
            Err(error) => self.say(&format!("the session with {peer} ended: {error}")),
        }
        self.admitted = None;
    }

    /// From here on progress is shown, and the rate counts.
    fn begin(&mut self) {
        self.clear();
        self.admitted = Some(Instant::now());
        if let Form::Terminal(bar) = &mut self.form {
            // Not as wide as the terminal: the `^C` that it echoes would begin a line of its own and leave this one.
            let style = ProgressStyle::with_template("{spinner} {msg}")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            *bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
            bar.enable_steady_tick(Duration::from_millis(100));
        }
    }

    fn progress(&mut self, progress: &Progress) {
        let Some(admitted) = self.admitted else { return };
        let line = progress_line(progress, self.estimate, admitted.elapsed(), self.transport);
        match &mut self.form {
            Form::Json => {}
            Form::Terminal(bar) => bar.set_message(line),
            Form::Lines { last } => {
                if last.elapsed() >= LINE_INTERVAL {
                    *last = Instant::now();
                    print_line(&line);
                }
            }
        }
    }
}

/// How many entries change in each way.
#[derive(Debug, Default)]
struct Changes {
    created: u64,
    updated: u64,
    described: u64,
    removed: u64,
}

impl Changes {
    fn count(&mut self, change: Change) {
        *match change {
            Change::Created => &mut self.created,
            Change::Updated => &mut self.updated,
            Change::Described => &mut self.described,
            Change::Removed => &mut self.removed,
        } += 1;
    }
}

fn preview_line(changes: &Changes, report: &Report) -> String {
    let Changes { created, updated, described, removed } = *changes;
    let counted = [(created, "create"), (updated, "update"), (described, "describe"), (removed, "remove")]
        .map(|(number, what)| format!("{what} {}", format::count(number)));
    let Counts { listed, kept, skipped, failed, .. } = report.counts;
    let mut line = format!("would {} of {}", counted.join(", "), format::entries(listed));
    for (number, what) in [(kept, "keep"), (skipped, "skip"), (failed, "fail with")] {
        if number > 0 {
            line.push_str(&format!(", {what} {}", format::count(number)));
        }
    }
    line.push_str(&of_content(report.planned_bytes.unwrap_or(0)));
    line
}

fn of_content(bytes: u64) -> String {
    format!(": {} of content", format::bytes(bytes))
}

/// `offering 1,234 entries, 52.1 MB`.
pub(crate) fn of_totals(totals: &Totals) -> String {
    format!("{}, {}", format::entries(totals.entries), format::bytes(totals.bytes))
}

/// Rate, files, bytes, time left and the way, for instance
/// `1,024 of 65,536 entries, 4.2 MB of 268.4 MB, 145.2 MB/s, 1.8 s left, tcp`.
fn progress_line(
    progress: &Progress,
    estimate: Option<Totals>,
    elapsed: Duration,
    transport: Option<TransportKind>,
) -> String {
    let settled =
        progress.counts.sent + progress.counts.kept + progress.counts.skipped + progress.counts.failed;
    let known = if progress.list_complete { Some(progress.listed) } else { estimate };
    let moved = progress.moved_bytes + progress.found_bytes;
    let mut parts = Vec::new();
    match known {
        Some(all) => {
            parts.push(format!(
                "{} of {}",
                format::count(settled),
                format::entries((all.entries + all.problems).max(settled))
            ));
            parts.push(format!("{} of {}", format::bytes(moved.min(all.bytes)), format::bytes(all.bytes)));
        }
        None => {
            parts.push(format!(
                "{} of {} so far",
                format::count(settled),
                format::entries(progress.listed.entries)
            ));
            parts.push(format::bytes(moved));
        }
    }
    parts.push(format::rate(progress.moved_bytes, elapsed));
    if let Some(left) = known.and_then(|all| time_left(progress, all, elapsed)) {
        parts.push(format!("{} left", format::rough(left)));
    }
    parts.extend(transport.map(|transport| transport.to_string()));
    parts.join(", ")
}

fn time_left(progress: &Progress, all: Totals, elapsed: Duration) -> Option<Duration> {
    let left = all.bytes.checked_sub(progress.moved_bytes + progress.found_bytes)?;
    if progress.moved_bytes == 0 || elapsed < Duration::from_millis(500) {
        return None;
    }
    Some(elapsed.mul_f64(left as f64 / progress.moved_bytes as f64))
}

/// `connected to PEER over tcp with cubic at ADDR`.
fn route_line(route: &Route) -> String {
    let Route { peer, transport, address, effective, circuit, .. } = route;
    if let Some(Circuit { relay, limit }) = circuit {
        return format!(
            "connected to {peer} through the relay {relay}, which carries {limit} on one circuit"
        );
    }
    let controller = effective.as_ref().map(|effective| format!(" with {}", effective.controller));
    format!("connected to {peer} over {transport}{} at {address}", controller.unwrap_or_default())
}

/// Why the other side has another congestion controller than it was asked for.
fn controller_warning(report: &Report) -> Option<String> {
    let Congestion { controller, problem } = report.channel.peer.as_ref()?;
    if problem.is_empty() {
        return None;
    }
    let name = if controller.is_empty() { "another congestion controller" } else { controller };
    let (name, problem) = (escape(name.as_bytes()), escape(problem.as_bytes()));
    Some(format!("warning: the other side has {name}: {problem}"))
}

pub(crate) fn summary_line(side: Side, report: &Report) -> String {
    let Counts { listed, sent, kept, skipped, failed, removed, problems: _ } = report.counts;
    let verb = match (side, report.planned_bytes) {
        (Side::Sender | Side::Receiver | Side::Sync, Some(_)) => "would change",
        (Side::Sender, None) => "sent",
        (Side::Receiver, None) => "stored",
        (Side::Sync, None) => "changed",
    };
    let mut line = format!("{verb} {} of {}", format::count(sent), format::entries(listed));
    for (number, what) in [(kept, "kept"), (skipped, "skipped"), (failed, "failed"), (removed, "removed")] {
        if number > 0 {
            line.push_str(&format!(", {} {what}", format::count(number)));
        }
    }
    if let Some(bytes) = report.planned_bytes {
        return line + &of_content(bytes);
    }
    if report.found_bytes > 0 {
        line.push_str(&format!(", {} were there", format::bytes(report.found_bytes)));
    }
    line.push_str(&of_connections(report.connections));
    let rate = match report.moved_bytes {
        0 => String::new(),
        moved => format!(" ({})", format::rate(moved, report.ready)),
    };
    line.push_str(&format!(
        ": {} in {}{rate}, durable after {}",
        format::bytes(report.moved_bytes),
        format::duration(report.ready),
        format::duration(report.durable),
    ));
    line
}

/// What a person who asked for several connections wants to know of them.
fn of_connections(ConnectionCounts { asked, made, lost }: ConnectionCounts) -> String {
    let made = match (asked, made) {
        (1, 1) => return String::new(),
        (asked, made) if made < asked => format!(", {made} of {asked} connections"),
        (_, made) => format!(", {made} connections"),
    };
    if lost > 0 { format!("{made} of which {lost} were lost") } else { made }
}

/// Prints an error, what led to it, and at most one hint.
pub(crate) fn print_error(error: &anyhow::Error, as_json: bool) {
    let chain = error.chain().map(ToString::to_string).collect::<Vec<_>>().join(": ");
    if as_json {
        print_json(&json::error(&chain, exit::Exit::of(error).code()));
    }
    print_line(&format!("error: {chain}"));
    if let Some(hint) = exit::hint(error) {
        print_line(&format!("hint: {hint}"));
    }
}

/// A line on standard output: a result.
pub(crate) fn print_result(line: &str) {
    // A reader that has gone away does not undo what was done.
    let _ = writeln!(io::stdout().lock(), "{line}");
}

/// A line on standard error: everything else.
pub(crate) fn print_line(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

pub(crate) fn print_json(value: &Value) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{value}");
    let _ = stdout.flush();
}

#[cfg(test)]
mod tests {
    use ketch::{swarm::Controller, transfer::ChannelReport};

    use super::*;

    fn progress(moved_bytes: u64, list_complete: bool) -> Progress {
        Progress {
            listed: Totals { entries: 10, bytes: 2000, problems: 0 },
            list_complete,
            counts: Counts { sent: 3, kept: 1, ..Counts::default() },
            moved_bytes,
            found_bytes: 0,
        }
    }

    fn channel(problem: &str) -> ChannelReport {
        ChannelReport {
            transport: TransportKind::Tcp,
            asked: Some(Controller::Bbr),
            effective: None,
            peer: Some(Congestion { controller: "cubic".into(), problem: problem.into() }),
            statistics: None,
        }
    }

    #[test]
    fn progress_counts_against_the_whole_once_it_is_known() {
        let second = Duration::from_secs(1);
        let line = progress_line(&progress(1000, true), None, second, Some(TransportKind::Tcp));
        assert_eq!(line, "4 of 10 entries, 1.0 kB of 2.0 kB, 1.0 kB/s, 1 s left, tcp");
        let open = progress_line(&progress(1000, false), None, second, None);
        assert_eq!(open, "4 of 10 entries so far, 1.0 kB, 1.0 kB/s");
    }

    #[test]
    fn progress_never_shows_more_than_the_whole() {
        let line = progress_line(&progress(5000, true), None, Duration::from_secs(1), None);
        assert_eq!(line, "4 of 10 entries, 2.0 kB of 2.0 kB, 5.0 kB/s");
    }

    #[test]
    fn the_live_line_comes_back_when_the_person_has_agreed() {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        let mut output = Output { form: Form::Terminal(bar), ..Output::new(Side::Receiver, true) };
        let is_shown = |output: &Output| matches!(&output.form, Form::Terminal(bar) if !bar.is_finished());
        let peer = ketch::swarm::Keypair::generate_ed25519().public().to_peer_id();

        output.show(&Event::Admitted { peer, estimate: None });
        // As when the question is asked.
        output.clear();
        assert!(!is_shown(&output));
        output.show(&Event::Agreed);
        assert!(is_shown(&output));
    }

    #[test]
    fn a_summary_names_what_was_not_stored() {
        let counts = Counts { listed: 5, sent: 2, kept: 1, skipped: 1, failed: 1, removed: 0, problems: 2 };
        let (ready, durable) = (Duration::from_secs(1), Duration::from_secs(2));
        let report = Report {
            counts,
            moved_bytes: 1000,
            found_bytes: 0,
            planned_bytes: None,
            unsettled: ketch::transfer::Unsettled::default(),
            connections: ConnectionCounts { asked: 1, made: 1, lost: 0 },
            ready,
            durable,
            channel: channel("the system has no bbr\n"),
        };
        let expected = "stored 2 of 5 entries, 1 kept, 1 skipped, 1 failed: \
                        1.0 kB in 1.000 s (1.0 kB/s), durable after 2.000 s";
        assert_eq!(summary_line(Side::Receiver, &report), expected);
        assert_eq!(
            controller_warning(&report).unwrap(),
            "warning: the other side has cubic: the system has no bbr\\n"
        );
        let chosen = Report { channel: channel(""), ..report.clone() };
        assert_eq!(controller_warning(&chosen), None);
        let nothing = Report { moved_bytes: 0, ..report.clone() };
        assert!(summary_line(Side::Sync, &nothing).ends_with(": 0 B in 1.000 s, durable after 2.000 s"));
        let preview = Report { planned_bytes: Some(3_000), moved_bytes: 0, ..report };
        let expected = "would change 2 of 5 entries, 1 kept, 1 skipped, 1 failed: 3.0 kB of content";
        assert_eq!(summary_line(Side::Sync, &preview), expected);
    }

    #[test]
    fn a_summary_names_connections_where_several_were_asked_for() {
        let line = |asked, made, lost| of_connections(ConnectionCounts { asked, made, lost });
        assert_eq!(line(1, 1, 0), "");
        assert_eq!(line(4, 4, 0), ", 4 connections");
        assert_eq!(line(16, 4, 1), ", 4 of 16 connections of which 1 were lost");
    }
}
