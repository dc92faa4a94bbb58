//! What an observation says: [`CellReport`], one JSON object. `docs/benchmarks/cell.md` describes it.

use std::{collections::BTreeMap, fmt, time::Duration};

use serde::{Deserialize, Serialize};

use super::{
    account::Account,
    condition::{Asked, Condition},
    error::Trouble,
    manifest::Summary,
    sockets::SocketsSample,
};

/// Version of the format: it grows whenever a field is renamed, removed or means something else.
pub(crate) const FORMAT: u32 = 1;

/// One observation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct CellReport {
    /// [`FORMAT`].
    pub(crate) format: u32,
    /// The program at both ends: bench-factor, or its replica on the libraries of the seed.
    pub(crate) program: String,
    /// What both ends were built from.
    pub(crate) build: String,
    /// SHA-256 of its lock file.
    pub(crate) lock: String,
    /// What it was built with, by name.
    pub(crate) libraries: BTreeMap<String, String>,
    #[serde(flatten)]
    pub(crate) condition: Condition,
    /// What the condition means for its connections, on both sides.
    pub(crate) asked: Asked,
    /// The address that was dialed.
    pub(crate) peer: String,
    /// The source, as its manifest has it.
    pub(crate) data: Summary,
    #[serde(flatten)]
    pub(crate) outcome: Outcome,
    /// Useful bytes / `ready_s` / 1,000,000; of what came whole and took any time.
    pub(crate) mb_per_s: Option<f64>,
    #[serde(flatten)]
    pub(crate) times: Times,
    /// Once a second, and at the end.
    pub(crate) progress: Vec<Progress>,
    /// What the target asked for and got.
    pub(crate) target: Account,
    /// What the source asked for and got; it tells only after a complete transfer.
    pub(crate) source: Option<Account>,
    /// What the target's data connections did meanwhile, every two seconds and at the end.
    pub(crate) target_sockets: Vec<SocketsSample>,
    /// The same of the source's, as far as the target heard of it.
    pub(crate) source_sockets: Vec<SocketsSample>,
}

/// How an observation ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "outcome", rename_all = "lowercase")]
pub(crate) enum Outcome {
    /// File set, lengths and hashes are equal.
    Verified,
    /// All came and nothing was kept, as it was asked for: there is no copy to verify.
    Discarded,
    /// It was stopped at the limit; the progress says how far it came.
    Censored { limit_s: f64 },
    /// A connection was lost.
    Aborted { reason: String },
    /// The copy is wrong, or an end did not do as it was asked.
    Failed { reason: String },
}

/// What took how long, in seconds; what did not come about has no time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// Age of the process when the stopwatch was started.
    pub(crate) began_s: Option<f64>,
    /// See `stopwatch`.
    pub(crate) ready_s: Option<f64>,
    /// From ready until the last connection's completion was acknowledged.
    pub(crate) acknowledged_s: Option<f64>,
    /// Until all data connections were closed.
    pub(crate) drain_s: Option<f64>,
    /// Age of the process then.
    pub(crate) process_s: Option<f64>,
    /// Until the target's file system had everything on its disk.
    pub(crate) sync_s: Option<f64>,
    /// Until the copy was read again and compared.
    pub(crate) verify_s: Option<f64>,
}

/// How far an observation was at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    /// Seconds since the start of the stopwatch.
    pub(crate) s: f64,
    /// Files that were closed.
    pub(crate) files: u64,
    /// Bytes that were written.
    pub(crate) bytes: u64,
}

impl From<Trouble> for Outcome {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Aborted(reason) => Self::Aborted { reason },
            Trouble::Failed(reason) => Self::Failed { reason },
        }
    }
}

/// Decimal megabytes a second; of nothing, or in no time, there is no rate.
pub(super) fn mb_per_s(bytes: u64, ready: Duration) -> Option<f64> {
    let seconds = ready.as_secs_f64();
    (seconds > 0.0 && bytes > 0).then(|| bytes as f64 / seconds / 1e6)
}

impl fmt::Display for CellReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Summary { files, bytes, .. } = &self.data;
        writeln!(f, "{}: {files} files, {bytes} bytes from {}", self.condition, self.peer)?;
        match (&self.outcome, self.mb_per_s, self.progress.last()) {
            (Outcome::Verified, Some(rate), _) => writeln!(f, "  verified: {rate:.3} MB/s"),
            (Outcome::Verified, None, _) => writeln!(f, "  verified"),
            (Outcome::Discarded, Some(rate), _) => writeln!(f, "  discarded: {rate:.3} MB/s"),
            (Outcome::Discarded, None, _) => writeln!(f, "  discarded"),
            (Outcome::Censored { limit_s }, _, Some(Progress { files, bytes, .. })) => {
                writeln!(f, "  censored at {limit_s} s: {files} files closed, {bytes} bytes written")
            }
            (Outcome::Censored { limit_s }, _, None) => writeln!(f, "  censored at {limit_s} s"),
            (Outcome::Aborted { reason }, ..) => writeln!(f, "  aborted: {reason}"),
            (Outcome::Failed { reason }, ..) => writeln!(f, "  failed: {reason}"),
        }?;
        let Times { began_s: _, ready_s, acknowledged_s, drain_s, process_s, sync_s, verify_s } = self.times;
        let times = [
            ("ready", ready_s),
            ("acknowledged", acknowledged_s),
            ("drain", drain_s),
            ("process", process_s),
            ("sync", sync_s),
            ("verify", verify_s),
        ];
        for (name, seconds) in times {
            if let Some(seconds) = seconds {
                writeln!(f, "  {name:<12} {seconds:>9.3} s")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_decimal_megabytes_of_useful_bytes() {
        assert_eq!(mb_per_s(250_000_000, Duration::from_secs(10)), Some(25.0));
        assert_eq!(mb_per_s(1, Duration::ZERO), None);
        assert_eq!(mb_per_s(0, Duration::from_secs(1)), None);
    }

    #[test]
    fn each_outcome_has_a_word_of_its_own() {
        let json = |outcome: Outcome| serde_json::to_string(&outcome).unwrap();
        assert_eq!(json(Outcome::Verified), r#"{"outcome":"verified"}"#);
        assert_eq!(json(Outcome::Censored { limit_s: 900.0 }), r#"{"outcome":"censored","limit_s":900.0}"#);
        assert_eq!(json(Trouble::Aborted("cut".into()).into()), r#"{"outcome":"aborted","reason":"cut"}"#);
        assert_eq!(json(Trouble::Failed("bad".into()).into()), r#"{"outcome":"failed","reason":"bad"}"#);
    }
}
