//! What was observed, as the row that is kept of it.

use std::collections::BTreeMap;

use super::{made_of, probe::Probed, sampler::Seen, stage::Observed};
use crate::{
    observation::{
        Factors, Flag, MadeOf, Observation, Outcome, Progress, SCHEMA, Samplers, Setting, Times,
    },
    study::{self, Account, CellReport, Condition, ConnectionAccount, plan::Planned},
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
        let Observed { report, seen, probed, off_path } = observed;
        let Self { run, planned, round, position, attempt, attempt_reason, started, content, ideal_s } = self;
        let samplers = samplers(seen, &probed);
        let flags = flags(&samplers, off_path);
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
            made_of: made_of::current(),
        }
    }
}

fn factors(planned: &Planned) -> Factors {
    let Condition { layout, transport, controller, connections, profile } = planned.condition;
    let load = (planned.load_threads > 0).then(|| ("load_threads", planned.load_threads.to_string()));
    let discard = planned.discard.then(|| ("discarded", "yes".to_owned()));
    let others: BTreeMap<_, _> = load.into_iter().chain(discard).collect();
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
    let CellReport { outcome, times, progress, .. } = report;
    let progress: Vec<Progress> = progress
        .into_iter()
        .map(|study::Progress { s, files, bytes }| Progress { at_s: s, files, bytes })
        .collect();
    let after_s = progress.last().map_or(0.0, |progress| progress.at_s);
    match outcome {
        study::Outcome::Verified | study::Outcome::Discarded => complete(times),
        study::Outcome::Censored { limit_s } => Outcome::Censored { limit_s, progress },
        study::Outcome::Aborted { reason } => Outcome::Aborted { after_s, reason, progress },
        study::Outcome::Failed { reason } => Outcome::Failed { reason },
    }
}

fn complete(times: study::Times) -> Outcome {
    let study::Times { ready_s, acknowledged_s, drain_s, process_s, sync_s, verify_s } = times;
    match ready_s {
        Some(ready_s) => {
            Outcome::Complete(Times { ready_s, acknowledged_s, drain_s, process_s, sync_s, verify_s })
        }
        None => Outcome::Failed { reason: "the target reports a copy without a time".into() },
    }
}

fn samplers(seen: Seen, probed: &Probed) -> Samplers {
    let Seen { sender, receiver, mut trace } = seen;
    probed.note(&mut trace);
    Samplers { sender, receiver, round_trip: probed.round_trip(), trace }
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
    let setting = |name: &str, asked: String, got: String| Setting {
        end: end.into(),
        name: name.into(),
        asked,
        got,
    };
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
