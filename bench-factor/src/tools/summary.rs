//! The table that a person reads after a run: medians and ranges of the verified observations, and ratios
//! to one tool of the same run. Ratios to figures of any other timer are meaningless and not made.

use std::io;

use super::{
    adapter::{Adapter, Tool},
    observation::{Measured, Observation},
    process::Usage,
    schedule::Condition,
};

/// Writes one table for each work, scenario and target of `observations`, fastest tool first.
pub(crate) fn write(
    observations: &[Observation],
    reference: Tool,
    out: &mut impl io::Write,
) -> io::Result<()> {
    let mut rest: Vec<&Observation> = observations.iter().collect();
    while let Some(first) = rest.first().map(|observation| observation.turn.condition) {
        let (table, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|observation| same_table(&first, &observation.turn.condition));
        write_table(&table, reference, out)?;
        rest = others;
    }
    Ok(())
}

fn same_table(one: &Condition, other: &Condition) -> bool {
    Condition { tool: other.tool, ..*one } == *other
}

/// The medians of one tool.
struct Line<'a> {
    tool: Tool,
    /// All its observations, the failed too.
    total: usize,
    verified: Vec<(&'a Observation, &'a Measured)>,
    wall_s: Option<f64>,
}

fn write_table(observations: &[&Observation], reference: Tool, out: &mut impl io::Write) -> io::Result<()> {
    let Condition { work, scenario, target, .. } = observations[0].turn.condition;
    writeln!(out, "\n{work}, {scenario}, to {target}, over {}", observations[0].place)?;
    writeln!(
        out,
        "{:<20} {:>5} {:>8} {:>17} {:>8} {:>6} {:>6} {:>6} {:>7} {:>6} {:>11} {:>9} {:>7} {:<9} {:<6} {:<7}",
        "tool",
        "n",
        "wall s",
        "min-max",
        "MB/s",
        "ratio",
        "ideal",
        "prep s",
        "CPU s",
        "CPU/GB",
        "peak MiB",
        "wire MB",
        "UDP err",
        "encrypted",
        "delta",
        "durable"
    )?;
    let mut lines = lines(observations);
    // Those without any verified copy last.
    let key = |line: &Line<'_>| line.wall_s.unwrap_or(f64::INFINITY);
    lines.sort_by(|one, other| key(one).total_cmp(&key(other)));
    let reference_s = lines.iter().find(|line| line.tool == reference).and_then(|line| line.wall_s);
    lines.iter().try_for_each(|line| write_line(line, reference_s, out))
}

fn lines<'a>(observations: &[&'a Observation]) -> Vec<Line<'a>> {
    let mut lines: Vec<Line<'a>> = Vec::new();
    for &observation in observations {
        let tool = observation.turn.condition.tool;
        let index = lines.iter().position(|line| line.tool == tool).unwrap_or(lines.len());
        if index == lines.len() {
            lines.push(Line { tool, total: 0, verified: vec![], wall_s: None });
        }
        lines[index].total += 1;
        lines[index].verified.extend(observation.verified().map(|measured| (observation, measured)));
    }
    for line in &mut lines {
        line.wall_s = line.median(|_, measured| Some(measured.wall_s));
    }
    lines
}

impl Line<'_> {
    fn median(&self, value: impl Fn(&Observation, &Measured) -> Option<f64>) -> Option<f64> {
        median(
            self.verified.iter().filter_map(|(observation, measured)| value(observation, measured)).collect(),
        )
    }

    /// How many were verified, and of how many where some were not.
    fn count(&self) -> String {
        let verified = self.verified.len();
        if verified == self.total { verified.to_string() } else { format!("{verified}/{}", self.total) }
    }

    fn range(&self) -> String {
        let mut walls_s: Vec<_> = self.verified.iter().map(|(_, measured)| measured.wall_s).collect();
        walls_s.sort_by(f64::total_cmp);
        match (walls_s.first(), walls_s.last()) {
            (Some(least_s), Some(most_s)) => format!("{least_s:.3}-{most_s:.3}"),
            (None, _) | (_, None) => "-".into(),
        }
    }

    /// The time of a perfect program, divided by the measured one.
    fn ideal(&self) -> Option<f64> {
        self.median(|observation, measured| Some(observation.ideal_s(measured)? / measured.wall_s))
    }

    /// Of both ends together.
    fn cpu_s(&self) -> Option<f64> {
        self.median(|observation, measured| {
            let (sender, receiver) = observation.ends(measured);
            Some(sender.iter().chain(&receiver).map(|usage| usage.cpu_s).sum())
        })
    }

    /// The most that an observation had.
    fn udp_receive_errors(&self) -> String {
        let errors = self.verified.iter().map(|(_, measured)| measured.traffic.udp_receive_errors);
        errors.max().map_or_else(|| "-".into(), |errors| errors.to_string())
    }

    /// Of the sender and of the receiver.
    fn peaks(&self) -> String {
        let mib = |usage: Option<Usage>| usage.map(|usage| usage.peak_kib as f64 / 1024.0);
        let sender = self.median(|observation, measured| mib(observation.ends(measured).0));
        let receiver = self.median(|observation, measured| mib(observation.ends(measured).1));
        format!("{}/{}", shown(sender, 0), shown(receiver, 0))
    }
}

fn write_line(line: &Line<'_>, reference_s: Option<f64>, out: &mut impl io::Write) -> io::Result<()> {
    let Adapter { name, encrypted, delta, durability, .. } = line.tool.adapter();
    writeln!(
        out,
        "{name:<20} {:>5} {:>8} {:>17} {:>8} {:>6} {:>6} {:>6} {:>7} {:>6} {:>11} {:>9} {:>7} {:<9} {delta:<6} {durability}",
        line.count(),
        shown(line.wall_s, 3),
        line.range(),
        shown(line.median(Observation::mb_per_s), 1),
        shown(line.wall_s.zip(reference_s).map(|(wall_s, reference_s)| wall_s / reference_s), 2),
        shown(line.ideal(), 2),
        shown(line.median(|_, measured| Some(measured.prepare_s)), 2),
        shown(line.cpu_s(), 2),
        shown(line.median(Observation::cpu_s_per_gb), 2),
        line.peaks(),
        shown(line.median(|_, measured| Some(measured.traffic.wire_bytes as f64 / 1e6)), 1),
        line.udp_receive_errors(),
        if *encrypted { "yes" } else { "no" },
    )
}

fn shown(value: Option<f64>, digits: usize) -> String {
    value.map_or_else(|| "-".into(), |value| format!("{value:.digits$}"))
}

/// The middle value, or the mean of the two in the middle.
fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => None,
        length if length.is_multiple_of(2) => Some((values[middle - 1] + values[middle]) / 2.0),
        _ => Some(values[middle]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::{
        observation::{
            Outcome,
            tests::{measured, observation},
        },
        plan::Scenario,
    };

    fn written(observations: &[Observation], reference: &str) -> Vec<String> {
        let mut text = Vec::new();
        write(observations, Tool::try_from(reference.to_owned()).unwrap(), &mut text).unwrap();
        String::from_utf8(text).unwrap().lines().map(str::to_owned).collect()
    }

    fn fresh(tool: &str, wall_s: f64) -> Observation {
        observation(tool, Scenario::Fresh, Outcome::Verified(measured(wall_s)))
    }

    #[test]
    fn tools_stand_in_order_of_their_medians_with_ratios_to_the_reference() {
        let rows =
            [fresh("rsync-ssh", 4.0), fresh("tar-ssh", 1.0), fresh("tar-ssh", 3.0), fresh("sftp", 8.0)];
        let lines = written(&rows, "rsync-ssh");
        let columns = |line: &str| line.split_whitespace().take(6).map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(lines[1], "small-2x500000, fresh, to tmpfs, over loopback");
        assert_eq!(columns(&lines[3]), ["tar-ssh", "2", "2.000", "1.000-3.000", "0.7", "0.50"]);
        assert_eq!(columns(&lines[4]), ["rsync-ssh", "1", "4.000", "4.000-4.000", "0.2", "1.00"]);
        assert_eq!(columns(&lines[5]), ["sftp", "1", "8.000", "8.000-8.000", "0.1", "2.00"]);
    }

    #[test]
    fn what_differs_or_failed_counts_for_nothing_but_is_counted() {
        let bad = |outcome| observation("tar-ssh", Scenario::Fresh, outcome);
        let rows =
            [fresh("tar-ssh", 2.0), bad(Outcome::Differs(measured(0.1))), bad(Outcome::Failed("no".into()))];
        let lines = written(&rows, "sftp");
        assert!(
            lines[3].starts_with("tar-ssh                1/3    2.000       2.000-2.000"),
            "{}",
            lines[3]
        );
        assert_eq!(lines[3].split_whitespace().nth(5), Some("-"), "no ratio without the reference");
    }

    #[test]
    fn another_scenario_has_another_table() {
        let unchanged = observation("tar-ssh", Scenario::Unchanged, Outcome::Verified(measured(1.0)));
        let lines = written(&[fresh("tar-ssh", 2.0), unchanged], "tar-ssh");
        assert_eq!(lines.iter().filter(|line| line.starts_with("small-")).count(), 2);
        assert!(lines.iter().filter(|line| line.starts_with("tar-ssh")).all(|line| line.contains("1.00")));
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle() {
        assert_eq!(median(vec![]), None);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
