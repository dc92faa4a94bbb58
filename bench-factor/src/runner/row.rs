//! What was observed, as the row that is kept of it.

use std::collections::BTreeMap;

use super::{made_of, plan::Planned, probe::Probed, sampler::Seen, stage::Observed, traces};
use crate::{
    observation::{
        Capacity, End, Factors, Flag, MadeOf, Observation, Outcome, Progress, SCHEMA, Samplers, Setting,
        Times,
    },
    study::{
        CellReport, Condition,
        account::{Account, ConnectionAccount},
        cell_report,
    },
};

/// Rules of the method. A flag excludes nothing.
const STEAL_RULE: &str = "steal above 5 %";
const STEAL_PERCENT: f64 = 5.0;
const UDP_RULE: &str = "datagrams lost to a full buffer";
const PATH_RULE: &str = "path not as asked";

/// What is known before an observation.
#[derive(Debug)]
pub(super) struct Frame<'a> {
    pub(super) run: &'a str,
    pub(super) planned: &'a Planned,
    pub(super) round: u32,
    pub(super) position: u32,
    pub(super) attempt: u32,
    pub(super) attempt_reason: Option<&'a str>,
    pub(super) started: String,
    /// Files and bytes of the source.
    pub(super) content: (u64, u64),
    pub(super) ideal_s: Option<f64>,
}

impl Frame<'_> {
    /// The row.
    pub(super) fn row(self, observed: Observed) -> Observation {
        let Observed { report, seen, probed, capacity, off_path } = observed;
        let Self { run, planned, round, position, attempt, attempt_reason, started, content, ideal_s } = self;
        let samplers = samplers(report.as_ref().ok(), seen, &probed, capacity);
        let flags = flags(&samplers, off_path);
        let made_of = made_of::made_of(report.as_ref().ok());
        let settings = report.as_ref().map(|report| settings(report, planned.condition)).unwrap_or_default();
        let outcome = match report {
            Ok(report) => outcome(report),
            Err(reason) => Outcome::Failed { reason },
        };
        Observation {
            schema: SCHEMA,
            run: run.to_owned(),
            condition: planned.name.clone(),
            role: planned.role,
            factors: factors(planned),
            round,
            position,
            attempt,
            attempt_reason: attempt_reason.map(str::to_owned),
            started,
            files: content.0,
            useful_bytes: content.1,
            outcome,
            ideal_s,
            samplers,
            settings,
            flags,
            made_of,
        }
    }
}

fn factors(planned: &Planned) -> Factors {
    let Condition { layout, transport, controller, connections, profile, udp_buffer_bytes } =
        planned.condition;
    let load = (planned.load_threads > 0).then(|| ("load_threads", planned.load_threads.to_string()));
    let discard = planned.discard.then(|| ("discarded", "yes".to_owned()));
    let buffers = udp_buffer_bytes.map(|bytes| ("udp_buffer_bytes", bytes.to_string()));
    let others: BTreeMap<_, _> = load.into_iter().chain(discard).chain(buffers).collect();
    Factors {
        workload: planned.data.clone(),
        layout: layout.to_string(),
        transport: transport.to_string(),
        controller: controller.to_string(),
        connections: connections.into(),
        profile: profile.to_string(),
        path: planned.link.clone(),
        library: planned.program.clone(),
        target: planned.target.to_string(),
        others: others.into_iter().map(|(name, level)| (name.to_owned(), level)).collect(),
    }
}

fn outcome(report: CellReport) -> Outcome {
    let progress = progress(&report);
    let CellReport { outcome, times, .. } = report;
    let after_s = progress.last().map_or(0.0, |progress| progress.at_s);
    match outcome {
        cell_report::Outcome::Verified | cell_report::Outcome::Discarded => complete(times),
        cell_report::Outcome::Censored { limit_s } => Outcome::Censored { limit_s, progress },
        cell_report::Outcome::Aborted { reason } => Outcome::Aborted { after_s, reason, progress },
        cell_report::Outcome::Failed { reason } => Outcome::Failed { reason },
    }
}

fn complete(times: cell_report::Times) -> Outcome {
    let cell_report::Times { began_s: _, ready_s, acknowledged_s, drain_s, process_s, sync_s, verify_s } =
        times;
    match ready_s {
        Some(ready_s) => {
            Outcome::Complete(Times { ready_s, acknowledged_s, drain_s, process_s, sync_s, verify_s })
        }
        None => Outcome::Failed { reason: "the target reports a copy without a time".into() },
    }
}

fn samplers(report: Option<&CellReport>, seen: Seen, probed: &Probed, capacity: Capacity) -> Samplers {
    let Seen { sender, receiver, mut trace } = seen;
    probed.note(&mut trace);
    let mut sockets = Vec::new();
    if let Some(report) = report {
        // Samplers start with the process of the target.
        let began_s = report.times.began_s.unwrap_or_default();
        traces::note_received(&mut trace, began_s, &progress(report));
        sockets.extend(traces::sockets(End::Sender, began_s, &report.source_sockets));
        sockets.extend(traces::sockets(End::Receiver, began_s, &report.target_sockets));
    }
    Samplers { sender, receiver, round_trip: probed.round_trip(), capacity, trace, sockets }
}

fn progress(report: &CellReport) -> Vec<Progress> {
    let points = report.progress.iter();
    points.map(|&cell_report::Progress { s, files, bytes }| Progress { at_s: s, files, bytes }).collect()
}

fn flags(samplers: &Samplers, off_path: Option<String>) -> Vec<Flag> {
    let Samplers { sender, receiver, .. } = samplers;
    let flag = |rule: &str, seen: String| Flag { rule: rule.into(), seen };
    let steal = sender.steal_percent.into_iter().chain(receiver.steal_percent).reduce(f64::max);
    let steal = steal.filter(|steal| *steal > STEAL_PERCENT);
    let lost: u64 = [sender, receiver]
        .into_iter()
        .flat_map(|host| [host.udp_receive_errors, host.udp_send_errors])
        .flatten()
        .sum();
    let mut flags = Vec::new();
    flags.extend(steal.map(|steal| flag(STEAL_RULE, format!("{steal:.2} %"))));
    flags.extend((lost > 0).then(|| flag(UDP_RULE, format!("{lost} datagrams on both hosts"))));
    flags.extend(off_path.map(|why| flag(PATH_RULE, why)));
    flags
}

fn settings(report: &CellReport, condition: Condition) -> Vec<Setting> {
    let ends = [("sender", report.source.as_ref()), ("receiver", Some(&report.target))];
    let known = ends.into_iter().filter_map(|(end, account)| Some((end, account?)));
    known.flat_map(|(end, account)| of_end(end, account, condition)).collect()
}

/// Each setting of the first connection; those of the others are asked alike, and their controllers were compared by the
/// program itself.
fn of_end(end: &str, account: &Account, condition: Condition) -> Vec<Setting> {
    let setting =
        |name: &str, asked: String, got: String| Setting { end: end.into(), name: name.into(), asked, got };
    let Some(ConnectionAccount { controller, send_buffer, receive_buffer, .. }) = account.connections.first()
    else {
        return Vec::new();
    };
    let asked = |bytes: Option<u32>| bytes.map_or("system".to_owned(), |bytes| bytes.to_string());
    vec![
        setting("controller", condition.controller.to_string(), controller.clone()),
        setting("send buffer bytes", asked(send_buffer.asked), send_buffer.effective.to_string()),
        setting("receive buffer bytes", asked(receive_buffer.asked), receive_buffer.effective.to_string()),
    ]
}

impl MadeOf {
    /// The same for rows whose other end is on this machine too.
    pub(super) fn of(build: &str, lock: String, method: String, libraries: BTreeMap<String, String>) -> Self {
        let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
        let (sender_kernel, receiver_kernel) = (kernel.clone(), kernel);
        Self { build: build.into(), lock, method, sender_kernel, receiver_kernel, libraries }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        observation::{HostSummary, Role},
        runner::plan::Plan,
    };

    fn planned() -> Planned {
        let text = "rounds = 1\nseed = 7\n[data]\nsmall = { shape = 'small' }\n[[conditions]]\ndata = ['small']\n\
            layout = ['bundle']\ntransport = ['quic']\ncontroller = ['bbr']\nload_threads = 2\n";
        Plan::parse(text, std::path::Path::new("plan.toml"), None).unwrap().conditions.remove(0)
    }

    fn row(report: Result<CellReport, String>, off_path: Option<String>) -> Observation {
        let planned = planned();
        let frame = Frame {
            run: "run",
            planned: &planned,
            round: 2,
            position: 3,
            attempt: 1,
            attempt_reason: None,
            started: "2026-01-02T03:04:05Z".into(),
            content: (4, 16),
            ideal_s: None,
        };
        let seen = Seen {
            sender: HostSummary { steal_percent: Some(6.456), ..HostSummary::default() },
            receiver: HostSummary { udp_receive_errors: Some(3), ..HostSummary::default() },
            trace: vec![],
        };
        frame.row(Observed {
            report,
            seen,
            probed: Probed::default(),
            capacity: Capacity::default(),
            off_path,
        })
    }

    #[test]
    fn what_has_no_report_has_failed_and_is_a_row_all_the_same() {
        let row = row(Err("error: no".into()), None);
        assert_eq!(row.outcome, Outcome::Failed { reason: "error: no".into() });
        assert_eq!((row.files, row.useful_bytes, row.role), (4, 16, Role::Study));
        assert_eq!(row.factors.others.get("load_threads").map(String::as_str), Some("2"));
    }

    #[test]
    fn rules_that_an_observation_met_are_flags() {
        let flags = row(Err(String::new()), Some("late packets".into())).flags;
        let said: Vec<_> = flags.iter().map(|flag| (flag.rule.as_str(), flag.seen.as_str())).collect();
        assert_eq!(
            said,
            [(STEAL_RULE, "6.46 %"), (UDP_RULE, "3 datagrams on both hosts"), (PATH_RULE, "late packets")]
        );
        let method = made_of::METHOD;
        assert!([STEAL_RULE, UDP_RULE, PATH_RULE].iter().all(|rule| method.contains(rule)));
    }

    #[test]
    fn a_copy_without_a_time_is_no_success() {
        assert!(matches!(complete(cell_report::Times::default()), Outcome::Failed { .. }));
        let times = cell_report::Times { ready_s: Some(1.5), ..cell_report::Times::default() };
        assert!(matches!(complete(times), Outcome::Complete(Times { ready_s: 1.5, .. })));
    }
}
