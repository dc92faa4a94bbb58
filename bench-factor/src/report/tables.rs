//! The tables of the report, as text in cells: made once, written as Markdown and as HTML.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    analysis::{
        Analysis,
        comparison::Comparison,
        condition::{Condition, speed},
    },
    wording,
};
use crate::{
    observation::{Capacity, HostSummary, Observation, Outcome, Role},
    statistics::{Bounds, median::median},
};

/// A table with a heading.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Table {
    pub(crate) columns: Vec<Column>,
    pub(crate) rows: Vec<Vec<String>>,
}

/// A column's name, and how what is below it stands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Column {
    /// Words, which may be broken into lines.
    Text(&'static str),
    /// Names of conditions and levels, one or two with `÷` between them, which are not broken.
    Name(&'static str),
    Number(&'static str),
}

use Column::{Name, Number, Text};

impl Column {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Text(name) | Name(name) | Number(name) => name,
        }
    }
}

/// Where the finding of a comparison stands: it is what a reader looks for.
const FINDING: usize = 2;

/// What stands where there is nothing.
const NOTHING: &str = "–";

/// Every condition: its factors, its median and how its cells ended.
pub(crate) fn conditions(analysis: &Analysis<'_>) -> Table {
    let columns = vec![
        Name("condition"),
        Name("workload"),
        Name("layout"),
        Name("transport"),
        Name("controller"),
        Number("connections"),
        Number("median MB/s"),
        Number("interval of the median (coverage)"),
        Number("ideal / ready"),
        Text("ended"),
    ];
    let row = |condition: &Condition<'_>| {
        let factors = condition.factors;
        vec![
            condition.name.to_owned(),
            factors.workload.clone(),
            factors.layout.clone(),
            factors.transport.clone(),
            factors.controller.clone(),
            factors.connections.to_string(),
            or_nothing(condition.median.map(wording::speed)),
            or_nothing(condition.interval.map(|found| wording::interval(found, |speed| speed))),
            or_nothing(condition.efficiency.map(wording::share)),
            ended(condition),
        ]
    };
    Table { columns, rows: analysis.conditions.iter().map(row).collect() }
}

/// How a condition's cells ended, in words.
fn ended(condition: &Condition<'_>) -> String {
    let counts = condition.counts;
    let kinds = [
        (counts.complete, "verified"),
        (counts.censored, "stopped at the limit"),
        (counts.aborted, "aborted"),
        (counts.failed, "failed"),
    ];
    let some = kinds.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}"));
    some.collect::<Vec<_>>().join(", ")
}

/// The declared contrasts with what may be said of each.
pub(crate) fn contrasts(analysis: &Analysis<'_>) -> Table {
    let columns = vec![
        Text("contrast"),
        Name("speeds divided"),
        Text("finding"),
        Number("rounds"),
        Number("median ratio"),
        Number("interval (coverage)"),
        Number("geometric mean"),
        Number("chance"),
        Number("corrected"),
        Number("within the margin, corrected"),
    ];
    let row = |comparison: &Comparison| {
        let mut row = matched(comparison);
        row.extend([
            or_nothing(comparison.mean.map(|found| {
                let ends = [found.low, found.high].map(|end| wording::ratio(Bounds::exactly(end)));
                format!("{} ({} to {})", wording::ratio(Bounds::exactly(found.mean)), ends[0], ends[1])
            })),
            wording::chance(comparison.chance),
            wording::chance(comparison.corrected),
            or_nothing(comparison.equivalence_corrected.map(wording::chance)),
        ]);
        row.insert(FINDING, wording::verdict(comparison));
        row
    };
    Table { columns, rows: analysis.contrasts.iter().map(row).collect() }
}

/// The controls and whether the same was the same.
pub(crate) fn controls(analysis: &Analysis<'_>) -> Table {
    let columns = vec![
        Text("control"),
        Name("speeds divided"),
        Text("outcome"),
        Number("rounds"),
        Number("median ratio"),
        Number("interval (coverage)"),
        Number("chance"),
        Number("within the margin"),
    ];
    let row = |comparison: &Comparison| {
        let mut row = matched(comparison);
        row.push(wording::chance(comparison.chance));
        row.push(or_nothing(comparison.equivalence.map(wording::chance)));
        row.insert(FINDING, wording::control_verdict(comparison));
        row
    };
    Table { columns, rows: analysis.controls.iter().map(row).collect() }
}

/// Ratios that nobody declared: no finding is made of them.
pub(crate) fn exploratory(analysis: &Analysis<'_>) -> Table {
    let columns = vec![
        Text("pair that differs in one factor"),
        Name("speeds divided"),
        Number("rounds"),
        Number("median ratio"),
        Number("interval (coverage)"),
        Number("chance, uncorrected"),
    ];
    let row = |comparison: &Comparison| {
        let mut row = matched(comparison);
        row.push(wording::chance(comparison.chance));
        row
    };
    Table { columns, rows: analysis.exploratory.iter().map(row).collect() }
}

/// Small files as a share of large ones.
pub(crate) fn fractions(analysis: &Analysis<'_>) -> Table {
    let columns = vec![
        Text("share"),
        Name("speeds divided"),
        Number("rounds"),
        Number("median"),
        Number("interval in % (coverage)"),
    ];
    let row = |comparison: &Comparison| {
        let mut row = matched(comparison);
        row[3] = or_nothing(comparison.median.map(wording::fraction));
        row[4] = or_nothing(
            comparison.interval.map(|found| wording::interval(found, |ratio| 100.0 * ratio.exp())),
        );
        row
    };
    Table { columns, rows: analysis.fractions.iter().map(row).collect() }
}

/// What every comparison has.
fn matched(comparison: &Comparison) -> Vec<String> {
    let rounds = match (comparison.ratios.len(), comparison.rounds_without) {
        (rounds, 0) => rounds.to_string(),
        (rounds, without) => format!("{rounds} of {}", rounds + without),
    };
    vec![
        comparison.question.name.clone(),
        format!("{} ÷ {}", comparison.question.of, comparison.question.against),
        rounds,
        or_nothing(comparison.median.map(wording::ratio)),
        or_nothing(comparison.interval.map(|found| wording::interval(found, f64::exp))),
    ]
}

/// Cells that did not end well, those that a later attempt replaced too.
pub(crate) fn ended_early(analysis: &Analysis<'_>) -> Table {
    let columns =
        vec![Name("condition"), Number("round"), Number("attempt"), Text("ended"), Text("what is known")];
    let row = |row: &Observation| {
        let (ended, known) = match &row.outcome {
            Outcome::Complete(_) => return None,
            Outcome::Censored { limit_s, progress } => {
                let reached = progress.last().map(|last| 100.0 * last.bytes as f64 / row.useful_bytes as f64);
                let reached = reached.map(|share| format!(", {share:.1} % of the bytes were there"));
                let bound = or_nothing(speed(row).map(wording::speed));
                (format!("stopped after {limit_s} s"), format!("{bound} MB/s{}", reached.unwrap_or_default()))
            }
            Outcome::Aborted { after_s, reason, .. } => {
                (format!("aborted after {} s", wording::seconds(*after_s)), reason.clone())
            }
            Outcome::Failed { reason } => ("failed".into(), reason.clone()),
        };
        Some(vec![row.condition.clone(), row.round.to_string(), row.attempt.to_string(), ended, known])
    };
    Table { columns, rows: analysis.rows.rows.iter().filter_map(row).collect() }
}

/// Cells that met a rule which was fixed before the run.
pub(crate) fn flags(analysis: &Analysis<'_>) -> Table {
    let columns = vec![Name("condition"), Number("round"), Number("MB/s"), Text("rule"), Text("seen")];
    let flags = |row: &Observation| {
        let cells =
            [row.condition.clone(), row.round.to_string(), or_nothing(speed(row).map(wording::speed))];
        row.flags
            .iter()
            .map(|flag| [&cells[..], &[flag.rule.clone(), flag.seen.clone()]].concat())
            .collect::<Vec<_>>()
    };
    Table { columns, rows: analysis.rows.rows.iter().flat_map(flags).collect() }
}

/// Medians over the rounds of what the hosts and the path did.
pub(crate) fn hosts(analysis: &Analysis<'_>) -> Table {
    let columns = vec![
        Name("condition"),
        Number("sender CPU %"),
        Number("receiver CPU %"),
        Number("most steal %"),
        Number("UDP receive errors"),
        Number("UDP send errors"),
        Number("TCP sent again"),
        Number("round trip ms"),
        Number("probes lost"),
    ];
    let row = |condition: &Condition<'_>| {
        let of = |value: fn(&Observation) -> Option<f64>| {
            let values = condition.cells.values().filter_map(|row| value(row)).map(Bounds::exactly);
            median(&values.collect::<Vec<_>>()).and_then(Bounds::exact)
        };
        let counted = |value: Option<f64>| or_nothing(value.map(|count| format!("{count:.0}")));
        let measured = |value: Option<f64>| or_nothing(value.map(|value| format!("{value:.1}")));
        vec![
            condition.name.to_owned(),
            measured(of(|row| row.samplers.sender.cpu_percent)),
            measured(of(|row| row.samplers.receiver.cpu_percent)),
            measured(condition.cells.values().filter_map(|row| most_steal(row)).reduce(f64::max)),
            counted(of(|row| sum(row, |host| host.udp_receive_errors))),
            counted(of(|row| sum(row, |host| host.udp_send_errors))),
            counted(of(|row| sum(row, |host| host.tcp_retransmissions))),
            measured(of(|row| row.samplers.round_trip.map(|path| path.median_ms))),
            counted(of(|row| row.samplers.round_trip.map(|path| path.lost as f64))),
        ]
    };
    Table { columns, rows: analysis.conditions.iter().map(row).collect() }
}

/// What paths carried while nothing else used them, wherever that was measured.
pub(crate) fn capacity(analysis: &Analysis<'_>) -> Table {
    let columns = vec![
        Text("path"),
        Number("round"),
        Name("condition"),
        Number("before Mbit/s"),
        Number("after Mbit/s"),
    ];
    let measured = |value: Option<f64>| or_nothing(value.map(|value| format!("{value:.1}")));
    let row = |row: &Observation| {
        let Capacity { before_mbit_s, after_mbit_s } = row.samplers.capacity;
        before_mbit_s.or(after_mbit_s)?;
        let (path, round, condition) =
            (row.factors.path.clone(), row.round.to_string(), row.condition.clone());
        Some(vec![path, round, condition, measured(before_mbit_s), measured(after_mbit_s)])
    };
    Table { columns, rows: analysis.rows.rows.iter().filter_map(row).collect() }
}

fn most_steal(row: &Observation) -> Option<f64> {
    let hosts = [&row.samplers.sender, &row.samplers.receiver];
    hosts.into_iter().filter_map(|host| host.steal_percent).reduce(f64::max)
}

/// Of both hosts together.
fn sum(row: &Observation, counter: fn(&HostSummary) -> Option<u64>) -> Option<f64> {
    let counters = [&row.samplers.sender, &row.samplers.receiver].map(counter);
    counters.into_iter().flatten().map(|count| count as f64).reduce(|one, other| one + other)
}

/// What was run: a line for each thing that conditions are made of, with who was made of it.
pub(crate) fn made_of(analysis: &Analysis<'_>) -> Table {
    let mut users: BTreeMap<(&str, String), BTreeSet<&str>> = BTreeMap::new();
    for row in &analysis.rows.rows {
        let made_of = &row.made_of;
        let libraries = made_of.libraries.iter().map(|(name, version)| format!("{name} {version}"));
        let hashes = [
            ("build", &made_of.build),
            ("lock file", &made_of.lock),
            ("method", &made_of.method),
            ("kernel of the sender", &made_of.sender_kernel),
            ("kernel of the receiver", &made_of.receiver_kernel),
            ("profile of windows", &row.factors.profile),
            ("path", &row.factors.path),
            ("target", &row.factors.target),
        ];
        let all = hashes.into_iter().map(|(what, value)| (what, value.clone()));
        for (what, value) in all.chain(libraries.map(|library| ("library", library))) {
            if !value.is_empty() {
                users.entry((what, value)).or_default().insert(&row.condition);
            }
        }
    }
    let all: BTreeSet<&str> = analysis.rows.rows.iter().map(|row| row.condition.as_str()).collect();
    let row = |((what, value), users): ((&str, String), BTreeSet<&str>)| {
        vec![what.to_owned(), value, those(&users, &all)]
    };
    let columns = vec![Text("what"), Text("which"), Text("conditions")];
    Table { columns, rows: users.into_iter().map(row).collect() }
}

/// Settings as asked and as read back.
pub(crate) fn settings(analysis: &Analysis<'_>) -> Table {
    let mut users: BTreeMap<[&str; 4], BTreeSet<&str>> = BTreeMap::new();
    for row in &analysis.rows.rows {
        for setting in &row.settings {
            let key = [&setting.name, &setting.end, &setting.asked, &setting.got].map(String::as_str);
            users.entry(key).or_default().insert(&row.condition);
        }
    }
    let all: BTreeSet<&str> = analysis.rows.rows.iter().map(|row| row.condition.as_str()).collect();
    let columns = vec![Text("setting"), Text("end"), Text("asked"), Text("read back"), Text("conditions")];
    let row = |(key, users): ([&str; 4], BTreeSet<&str>)| {
        key.into_iter().map(str::to_owned).chain([those(&users, &all)]).collect()
    };
    Table { columns, rows: users.into_iter().map(row).collect() }
}

fn those(users: &BTreeSet<&str>, all: &BTreeSet<&str>) -> String {
    if users == all { "all".into() } else { users.iter().copied().collect::<Vec<_>>().join(", ") }
}

/// Every row, in the order of the rounds.
pub(crate) fn rows(analysis: &Analysis<'_>) -> Table {
    let columns = vec![
        Number("round"),
        Number("position"),
        Name("condition"),
        Number("attempt"),
        Text("began"),
        Text("ended"),
        Number("ready s"),
        Number("MB/s"),
    ];
    let row = |row: &Observation| {
        let (ended, ready_s) = match &row.outcome {
            Outcome::Complete(times) => ("verified", Some(times.ready_s)),
            Outcome::Censored { .. } => ("stopped at the limit", None),
            Outcome::Aborted { .. } => ("aborted", None),
            Outcome::Failed { .. } => ("failed", None),
        };
        let role = match row.role {
            Role::Study => "",
            Role::Control => ", control",
            Role::Pilot => ", pilot",
        };
        let again =
            row.attempt_reason.as_ref().map(|reason| format!(", again as {reason}")).unwrap_or_default();
        vec![
            row.round.to_string(),
            row.position.to_string(),
            row.condition.clone(),
            row.attempt.to_string(),
            row.started.clone(),
            format!("{ended}{role}{again}"),
            or_nothing(ready_s.map(wording::seconds)),
            or_nothing(speed(row).map(wording::speed)),
        ]
    };
    Table { columns, rows: analysis.rows.rows.iter().map(row).collect() }
}

fn or_nothing(text: Option<String>) -> String {
    text.unwrap_or_else(|| NOTHING.into())
}
