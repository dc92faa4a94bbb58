//! One row of a run: everything that is kept of one cell, as a line of JSON. `docs/benchmarks/observation.md` documents
//! it. The study writes rows, the report reads nothing else; so what a reader may want to judge stands in the row.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The version of the row that this program writes and reads. It grows when a field changes its meaning or goes; a
/// reader passes over fields that it does not know.
pub(crate) const SCHEMA: u32 = 1;

/// What became of one cell.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Observation {
    /// [`SCHEMA`].
    pub(crate) schema: u32,
    /// The run that it belongs to.
    pub(crate) run: String,
    /// The condition's name in the plan.
    pub(crate) condition: String,
    /// What it is good for.
    #[serde(default)]
    pub(crate) role: Role,
    /// What the condition consists of.
    pub(crate) factors: Factors,
    /// The repetition of all conditions, from 1.
    pub(crate) round: u32,
    /// When it had its turn in the round, from 1.
    pub(crate) position: u32,
    /// 1, or more where an earlier one failed; the failed keep their rows.
    #[serde(default = "one")]
    pub(crate) attempt: u32,
    /// Why there is another attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attempt_reason: Option<String>,
    /// When it began: UTC, RFC 3339.
    pub(crate) started: String,
    /// Regular files of the source.
    pub(crate) files: u64,
    /// Their content.
    pub(crate) useful_bytes: u64,
    /// How it ended, with what only that end has.
    pub(crate) outcome: Outcome,
    /// Seconds that a perfect program takes over the same cold path, where the path is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) ideal_s: Option<f64>,
    /// What was measured on the two hosts and on the path meanwhile.
    #[serde(default)]
    pub(crate) samplers: Samplers,
    /// Settings of sockets and connections, as asked and as read back.
    #[serde(default)]
    pub(crate) settings: Vec<Setting>,
    /// Rules, fixed before the run, that this cell met. A flag excludes nothing.
    #[serde(default)]
    pub(crate) flags: Vec<Flag>,
    /// What was run, by what it was made from.
    pub(crate) made_of: MadeOf,
}

/// What an observation is good for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Role {
    /// It answers the study's question.
    #[default]
    Study,
    /// It tells what the measurement itself does: the same under two names, a sink, loopback.
    Control,
    /// It was checked and counts in no figure.
    Pilot,
}

/// The levels of a condition. Text, so that a new level needs no new reader.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Factors {
    /// The data set: `small`, `large`, `large8`.
    pub(crate) workload: String,
    /// `files` or `bundle`.
    pub(crate) layout: String,
    /// `tcp` or `quic`.
    pub(crate) transport: String,
    /// `cubic` or `bbr`.
    pub(crate) controller: String,
    /// Parallel connections.
    pub(crate) connections: u32,
    /// The windows: `seed` or `tuned`.
    pub(crate) profile: String,
    /// What carried it: an emulated path, or two named hosts.
    pub(crate) path: String,
    /// Whose implementation: `current`, `replica`, or a library's name.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) library: String,
    /// What the target was made of.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(crate) target: String,
    /// Factors that one plan alone has.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) others: BTreeMap<String, String>,
}

/// How a cell ended.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum Outcome {
    /// Everything arrived, and is verified.
    Complete(Times),
    /// It was stopped at its limit.
    Censored {
        limit_s: f64,
        /// What was there by when, once a second.
        progress: Vec<Progress>,
    },
    /// A connection ended before everything had arrived. That is a result, not a mistake of the study.
    Aborted { after_s: f64, reason: String, progress: Vec<Progress> },
    /// Something went wrong that says nothing of the condition, or a copy that is not the source.
    Failed { reason: String },
}

/// Seconds, each of its own clock; `ready_s` alone makes a speed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Times {
    /// Until every target file was closed and usable.
    pub(crate) ready_s: f64,
    /// From then until the completion of every connection was acknowledged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) acknowledged_s: Option<f64>,
    /// Shutting connections down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) drain_s: Option<f64>,
    /// The receiving process, from start to end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) process_s: Option<f64>,
    /// Syncing the target's file system.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sync_s: Option<f64>,
    /// Comparing file set, lengths and hashes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) verify_s: Option<f64>,
}

/// How far a cell was at a moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) at_s: f64,
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// Both ends and the path between them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Samplers {
    pub(crate) sender: HostSummary,
    pub(crate) receiver: HostSummary,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) round_trip: Option<RoundTrip>,
    #[serde(skip_serializing_if = "Capacity::is_unknown")]
    pub(crate) capacity: Capacity,
    /// Every two seconds.
    pub(crate) trace: Vec<Sample>,
    /// What the data connections did, every two seconds, those of each end in their order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) sockets: Vec<Sockets>,
}

/// What the path carried while nothing else used it, in megabits of IP packets a second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Capacity {
    pub(crate) before_mbit_s: Option<f64>,
    pub(crate) after_mbit_s: Option<f64>,
}

impl Capacity {
    fn is_unknown(&self) -> bool {
        *self == Self::default()
    }
}

/// All data connections of one end at one moment. Packets are those since the entry of that end before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sockets {
    pub(crate) end: End,
    pub(crate) at_s: f64,
    /// How many there are.
    pub(crate) connections: u32,
    /// The longest of their smoothed round trips.
    #[serde(default)]
    pub(crate) round_trip_ms: Option<f64>,
    /// Their congestion windows together.
    #[serde(default)]
    pub(crate) window_bytes: Option<u64>,
    #[serde(default)]
    pub(crate) sent_packets: Option<u64>,
    /// Lost, or sent again.
    #[serde(default)]
    pub(crate) lost_packets: Option<u64>,
}

/// One of the two ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum End {
    Sender,
    Receiver,
}

/// What the counters of one host said, over the whole cell. They are the host's, not the process's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct HostSummary {
    /// Busy processors, in percent of all.
    pub(crate) cpu_percent: Option<f64>,
    /// What the hypervisor took, in percent of all.
    pub(crate) steal_percent: Option<f64>,
    /// Datagrams that found a receive buffer full.
    pub(crate) udp_receive_errors: Option<u64>,
    /// Datagrams that found a send buffer full.
    pub(crate) udp_send_errors: Option<u64>,
    /// Segments that TCP sent again.
    pub(crate) tcp_retransmissions: Option<u64>,
}

/// Round trips of probes beside the transfer.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub(crate) struct RoundTrip {
    pub(crate) probes: u64,
    pub(crate) lost: u64,
    pub(crate) median_ms: f64,
    pub(crate) p95_ms: f64,
    pub(crate) max_ms: f64,
}

/// Both hosts at one moment. Counters are those since the sample before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sample {
    pub(crate) at_s: f64,
    #[serde(default)]
    pub(crate) sender_cpu_percent: Option<f64>,
    #[serde(default)]
    pub(crate) receiver_cpu_percent: Option<f64>,
    #[serde(default)]
    pub(crate) steal_percent: Option<f64>,
    #[serde(default)]
    pub(crate) udp_errors: Option<u64>,
    #[serde(default)]
    pub(crate) tcp_retransmissions: Option<u64>,
    #[serde(default)]
    pub(crate) round_trip_ms: Option<f64>,
    #[serde(default)]
    pub(crate) received_bytes: Option<u64>,
}

/// One setting at one end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Setting {
    /// `sender` or `receiver`.
    pub(crate) end: String,
    pub(crate) name: String,
    pub(crate) asked: String,
    /// Read back from the system or the library.
    pub(crate) got: String,
}

/// A rule that a cell met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Flag {
    /// The rule's name in the method.
    pub(crate) rule: String,
    /// What was seen.
    pub(crate) seen: String,
}

/// Hashes and versions.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct MadeOf {
    /// Of the program's sources.
    pub(crate) build: String,
    /// Of its lock file.
    pub(crate) lock: String,
    /// Of the method document, written before the run.
    pub(crate) method: String,
    pub(crate) sender_kernel: String,
    pub(crate) receiver_kernel: String,
    /// Libraries by name.
    pub(crate) libraries: BTreeMap<String, String>,
}

impl Factors {
    /// All levels by the names of their factors, always the same names in the same order, then the plan's own.
    pub(crate) fn levels(&self) -> Vec<(&str, String)> {
        let own = [
            ("workload", self.workload.clone()),
            ("layout", self.layout.clone()),
            ("transport", self.transport.clone()),
            ("controller", self.controller.clone()),
            ("connections", self.connections.to_string()),
            ("profile", self.profile.clone()),
            ("path", self.path.clone()),
            ("library", self.library.clone()),
            ("target", self.target.clone()),
        ];
        let others = self.others.iter().map(|(name, level)| (name.as_str(), level.clone()));
        own.into_iter().chain(others).collect()
    }
}

fn one() -> u32 {
    1
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A complete observation of a small bundle over TCP, in the first round.
    pub(crate) fn observation(condition: &str, ready_s: f64) -> Observation {
        let times = Times {
            ready_s,
            acknowledged_s: None,
            drain_s: None,
            process_s: None,
            sync_s: None,
            verify_s: None,
        };
        let factors = Factors {
            workload: "small".into(),
            layout: "bundle".into(),
            transport: "tcp".into(),
            controller: "bbr".into(),
            connections: 1,
            profile: "seed".into(),
            path: "de-us-200".into(),
            library: String::new(),
            target: String::new(),
            others: BTreeMap::new(),
        };
        Observation {
            schema: SCHEMA,
            run: "run-1".into(),
            condition: condition.into(),
            role: Role::Study,
            factors,
            round: 1,
            position: 1,
            attempt: 1,
            attempt_reason: None,
            started: "2026-01-02T03:04:05Z".into(),
            files: 10,
            useful_bytes: 100_000_000,
            outcome: Outcome::Complete(times),
            ideal_s: None,
            samplers: Samplers::default(),
            settings: vec![],
            flags: vec![],
            made_of: MadeOf::default(),
        }
    }

    #[test]
    fn a_row_is_read_as_it_was_written() {
        let mut written = observation("a", 2.5);
        written.flags.push(Flag { rule: "steal".into(), seen: "6.5 %".into() });
        written.outcome =
            Outcome::Censored { limit_s: 900.0, progress: vec![Progress { at_s: 1.0, files: 2, bytes: 3 }] };
        let line = serde_json::to_string(&written).unwrap();
        assert_eq!(serde_json::from_str::<Observation>(&line).unwrap(), written);
    }

    #[test]
    fn a_short_row_is_enough_and_fields_of_later_versions_are_passed_over() {
        let line = r#"{"schema":1,"run":"r","condition":"c","round":1,"position":2,"started":"2026-01-02T03:04:05Z",
            "factors":{"workload":"small","layout":"files","transport":"quic","controller":"cubic","connections":1,
            "profile":"seed","path":"lan"},"files":1,"useful_bytes":9,"outcome":{"kind":"complete","ready_s":1.5},
            "made_of":{},"of_later":true}"#;
        let read: Observation = serde_json::from_str(line).unwrap();
        assert_eq!((read.attempt, read.role), (1, Role::Study));
        assert_eq!(read.factors.levels()[1], ("layout", "files".into()));
    }

    /// The names of all fields, however deep.
    fn fields<'a>(value: &'a serde_json::Value, into: &mut Vec<&'a str>) {
        match value {
            serde_json::Value::Object(object) => {
                for (name, value) in object {
                    into.push(name);
                    fields(value, into);
                }
            }
            serde_json::Value::Array(values) => values.iter().for_each(|value| fields(value, into)),
            serde_json::Value::Null
            | serde_json::Value::Bool(_)
            | serde_json::Value::Number(_)
            | serde_json::Value::String(_) => (),
        }
    }

    #[test]
    fn the_document_s_row_is_one_and_has_every_field() {
        let document = include_str!("../../docs/benchmarks/observation.md");
        let example = document.split("```json").nth(1).unwrap().split("```").next().unwrap();
        let shown: serde_json::Value = serde_json::from_str(example).unwrap();
        let row: Observation = serde_json::from_str(example).unwrap();
        assert_eq!(serde_json::to_value(&row).unwrap(), shown);

        let progress = vec![Progress { at_s: 1.0, files: 1, bytes: 1 }];
        let others = [
            Outcome::Censored { limit_s: 900.0, progress: progress.clone() },
            Outcome::Aborted { after_s: 1.0, reason: String::new(), progress },
            Outcome::Failed { reason: String::new() },
        ];
        for outcome in others {
            let outcome = serde_json::to_value(outcome).unwrap();
            let mut names = vec![outcome["kind"].as_str().unwrap()];
            fields(&outcome, &mut names);
            let missing =
                names.into_iter().find(|name| *name != "kind" && !document.contains(&format!("`{name}`")));
            assert_eq!(missing, None);
        }
    }
}
