//! One result, and the CSV row that keeps it. Every observation has a row, the slow and the failed too.

use std::{fmt, io};

use super::{
    adapter::{Adapter, Timed},
    place::Traffic,
    plan::Scenario,
    process::Usage,
    schedule::{Condition, Turn},
};
use crate::cold_path::ColdPath;

/// What came of one turn.
#[derive(Debug, Clone)]
pub(crate) struct Observation {
    pub(crate) turn: Turn,
    /// Where it ran, in a word.
    pub(crate) place: String,
    /// The path between the ends, as the model sees it.
    pub(crate) cold_path: Option<ColdPath>,
    pub(crate) outcome: Outcome,
}

/// Whether the result can be believed.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    /// The copy's digest is the source's.
    Verified(Measured),
    /// It is not.
    Differs(Measured),
    /// A step failed.
    Failed(String),
}

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Measured {
    /// Regular files in the source.
    pub(crate) files: u64,
    /// Their content.
    pub(crate) content_bytes: u64,
    /// What has to travel at least, whatever the tool.
    pub(crate) least_bytes: u64,
    /// From the start of the server until it was ready.
    pub(crate) prepare_s: f64,
    /// From the start of the timed commands until all had ended.
    pub(crate) wall_s: f64,
    /// What was counted between the ends.
    pub(crate) traffic: Traffic,
    /// What the server's end cost, if there was a server.
    pub(crate) server: Option<Usage>,
    /// What the timed commands cost.
    pub(crate) timed: Usage,
}

/// The columns, in order.
const COLUMNS: &str = "round,position,link,work,scenario,target,tool,encrypted,delta,durability,outcome,prepare_s,wall_s,mb_per_s,files,content_bytes,least_bytes,wire_bytes,sender_cpu_s,receiver_cpu_s,sender_peak_kib,receiver_peak_kib,udp_receive_errors,ideal_s,reason";

/// Writes the line of column names.
pub(crate) fn write_columns(out: &mut impl io::Write) -> io::Result<()> {
    writeln!(out, "{COLUMNS}")
}

impl Observation {
    /// Writes its row.
    pub(crate) fn write_row(&self, out: &mut impl io::Write) -> io::Result<()> {
        let Turn { round, position, condition } = self.turn;
        let Adapter { name, encrypted, delta, durability, .. } = condition.tool.adapter();
        let (work, scenario, target) = (condition.work, condition.scenario, condition.target);
        write!(out, "{round},{position},{},{work},{scenario},{target},{name},", self.place)?;
        write!(out, "{},{delta},{durability},{},", yes_or_no(*encrypted), self.outcome)?;
        match &self.outcome {
            Outcome::Verified(measured) | Outcome::Differs(measured) => self.write_measured(measured, out),
            Outcome::Failed(reason) => writeln!(out, ",,,,,,,,,,,,,{}", quoted(reason)),
        }
    }

    /// What was measured, where that can be believed.
    pub(crate) fn verified(&self) -> Option<&Measured> {
        match &self.outcome {
            Outcome::Verified(measured) => Some(measured),
            Outcome::Differs(_) | Outcome::Failed(_) => None,
        }
    }

    fn write_measured(&self, measured: &Measured, out: &mut impl io::Write) -> io::Result<()> {
        let Measured { files, content_bytes, least_bytes, prepare_s, wall_s, traffic, .. } = measured;
        let Traffic { wire_bytes, udp_receive_errors } = traffic;
        let rate = self.mb_per_s(measured).map(|rate| format!("{rate:.1}")).unwrap_or_default();
        let (sender, receiver) = self.ends(measured);
        let cpu = |end: Option<Usage>| end.map(|usage| format!("{:.3}", usage.cpu_s)).unwrap_or_default();
        let peak = |end: Option<Usage>| end.map(|usage| usage.peak_kib.to_string()).unwrap_or_default();
        write!(out, "{prepare_s:.3},{wall_s:.3},{rate},{files},{content_bytes},{least_bytes},{wire_bytes},")?;
        write!(out, "{},{},{},{},", cpu(sender), cpu(receiver), peak(sender), peak(receiver))?;
        let ideal_s = self.ideal_s(measured).map(|ideal_s| format!("{ideal_s:.3}")).unwrap_or_default();
        writeln!(out, "{udp_receive_errors},{ideal_s},")
    }

    /// How long a perfect program takes over the same path, where all content is copied.
    pub(crate) fn ideal_s(&self, measured: &Measured) -> Option<f64> {
        let is_fresh = self.turn.condition.scenario == Scenario::Fresh;
        self.cold_path.filter(|_| is_fresh).map(|path| path.ideal_s(measured.content_bytes))
    }

    /// Processor seconds of both ends for each decimal gigabyte of content, where all content is copied.
    pub(crate) fn cpu_s_per_gb(&self, measured: &Measured) -> Option<f64> {
        let (sender, receiver) = self.ends(measured);
        let cpu_s: f64 = sender.iter().chain(&receiver).map(|usage| usage.cpu_s).sum();
        let is_fresh = self.turn.condition.scenario == Scenario::Fresh;
        is_fresh.then(|| cpu_s / (measured.content_bytes as f64 / 1e9))
    }

    /// Decimal megabytes of content a second of the timed commands, where all content is copied.
    pub(crate) fn mb_per_s(&self, measured: &Measured) -> Option<f64> {
        match self.turn.condition.scenario {
            Scenario::Fresh => Some(measured.content_bytes as f64 / 1e6 / measured.wall_s),
            Scenario::Unchanged | Scenario::Diverged | Scenario::Inserted => None,
        }
    }

    /// What the sender and the receiver cost. A tool that is both ends in one counts as the receiver.
    pub(crate) fn ends(&self, measured: &Measured) -> (Option<Usage>, Option<Usage>) {
        match self.turn.condition.tool.adapter().timed {
            Timed::Receiver => (measured.server, Some(measured.timed)),
            Timed::Sender => (Some(measured.timed), measured.server),
            Timed::Both => (None, Some(measured.timed)),
        }
    }
}

/// A line of progress.
impl fmt::Display for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Turn { round, condition, .. } = self.turn;
        let Condition { work, scenario, target, tool } = condition;
        write!(f, "round {round}: {tool}, {work}, {scenario}, to {target}: {}", self.outcome)?;
        match &self.outcome {
            Outcome::Verified(measured) | Outcome::Differs(measured) => {
                write!(f, ", {:.3} s", measured.wall_s)
            }
            Outcome::Failed(reason) => write!(f, ": {reason}"),
        }
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Verified(_) => "verified",
            Self::Differs(_) => "differs",
            Self::Failed(_) => "failed",
        })
    }
}

fn yes_or_no(value: bool) -> &'static str {
    if value { "yes" } else { "no" }
}

/// A CSV field of any text on one line (RFC 4180).
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace(['\n', '\r'], " ").replace('"', "\"\""))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;
    use crate::tools::{adapter::Tool, plan::Work, target::FileSystem};

    pub(crate) fn observation(tool: &str, scenario: Scenario, outcome: Outcome) -> Observation {
        let tool = Tool::try_from(tool.to_owned()).unwrap();
        let work = Work::Small { files: 2, bytes: 500_000 };
        let condition = Condition { work, scenario, target: FileSystem::Tmpfs, tool };
        let turn = Turn { round: 1, position: 2, condition };
        Observation { turn, place: "loopback".into(), cold_path: None, outcome }
    }

    pub(crate) fn measured(wall_s: f64) -> Measured {
        Measured {
            files: 2,
            content_bytes: 1_000_000,
            least_bytes: 900_000,
            prepare_s: 0.25,
            wall_s,
            traffic: Traffic { wire_bytes: 1_100_000, udp_receive_errors: 3 },
            server: Some(Usage { cpu_s: 0.125, peak_kib: 2_048 }),
            timed: Usage { cpu_s: 0.5, peak_kib: 1_024 },
        }
    }

    fn row(observation: &Observation) -> String {
        let mut row = Vec::new();
        observation.write_row(&mut row).unwrap();
        String::from_utf8(row).unwrap()
    }

    #[test]
    fn a_row_states_the_rate_in_decimal_megabytes() {
        let row = row(&observation("tar-ssh", Scenario::Fresh, Outcome::Verified(measured(0.5))));
        assert_eq!(
            row,
            "1,2,loopback,small-2x500000,fresh,tmpfs,tar-ssh,yes,none,none,verified,0.250,0.500,2.0,2,1000000,900000,1100000,0.125,0.500,2048,1024,3,,\n"
        );
    }

    #[test]
    fn the_ends_change_sides_with_a_tool_whose_sender_is_timed() {
        let row = row(&observation("ffsync", Scenario::Fresh, Outcome::Verified(measured(0.5))));
        assert!(row.ends_with(",0.500,0.125,1024,2048,3,,\n"), "{row}");
    }

    #[test]
    fn over_a_path_the_perfect_time_stands_beside() {
        let path = ColdPath { bits_per_second: 8_000_000, round_trip: Duration::ZERO };
        let outcome = Outcome::Verified(measured(2.0));
        let over_path = |scenario| {
            let observation = observation("tar-ssh", scenario, outcome.clone());
            row(&Observation { cold_path: Some(path), ..observation })
        };
        assert!(over_path(Scenario::Fresh).ends_with(",3,1.037,\n"), "a megabyte a second, and headers");
        assert!(over_path(Scenario::Unchanged).ends_with(",3,,\n"));
    }

    #[test]
    fn what_copies_nothing_has_no_rate() {
        let row = row(&observation("tar-ssh", Scenario::Unchanged, Outcome::Differs(measured(0.5))));
        assert!(row.contains(",differs,0.250,0.500,,2,"), "{row}");
    }

    #[test]
    fn every_row_has_every_column() {
        let failed = Outcome::Failed("it \"said\"\nno".into());
        let row = row(&observation("tar-ssh", Scenario::Fresh, failed));
        assert!(row.ends_with("\"it \"\"said\"\" no\"\n"), "{row}");
        assert_eq!(row.matches(',').count(), COLUMNS.matches(',').count());
    }
}
