//! A run that never took place: rows as the study writes them, made from a seed by whole numbers alone, so that they
//! are the same everywhere. What is planted in it is known.

use std::{fmt::Write as _, fs, path::Path};

use serde_json::{Value, json};

/// Content of every data set of the study.
const USEFUL_BYTES: u64 = 268_435_456;

/// When a cell is stopped.
const LIMIT_S: f64 = 900.0;

/// What the ideal is for that content over 200 Mbit/s and 141 ms.
const IDEAL_S: f64 = 12.8;

/// A condition, and how long it takes without noise, in ms.
struct Condition {
    name: &'static str,
    role: &'static str,
    workload: &'static str,
    layout: &'static str,
    transport: &'static str,
    controller: &'static str,
    connections: u32,
    base_ms: u64,
}

const fn condition(
    name: &'static str,
    [workload, layout, transport, controller]: [&'static str; 4],
    connections: u32,
    base_ms: u64,
) -> Condition {
    Condition { name, role: "study", workload, layout, transport, controller, connections, base_ms }
}

/// The study's sixteen conditions, and one of them again under another name.
const CONDITIONS: [Condition; 17] = [
    condition("small-files-tcp-cubic", ["small", "files", "tcp", "cubic"], 1, 96_000),
    condition("small-files-tcp-bbr", ["small", "files", "tcp", "bbr"], 1, 31_000),
    condition("small-files-quic-cubic", ["small", "files", "quic", "cubic"], 1, 104_000),
    condition("small-files-quic-bbr", ["small", "files", "quic", "bbr"], 1, 36_000),
    condition("small-bundle-tcp-cubic", ["small", "bundle", "tcp", "cubic"], 1, 64_000),
    condition("small-bundle-tcp-bbr", ["small", "bundle", "tcp", "bbr"], 1, 14_200),
    condition("small-bundle-quic-cubic", ["small", "bundle", "quic", "cubic"], 1, 71_000),
    condition("small-bundle-quic-bbr", ["small", "bundle", "quic", "bbr"], 1, 16_900),
    condition("large-tcp-cubic", ["large", "bundle", "tcp", "cubic"], 1, 63_000),
    condition("large-tcp-bbr", ["large", "bundle", "tcp", "bbr"], 1, 13_900),
    condition("large-quic-cubic", ["large", "bundle", "quic", "cubic"], 1, 70_000),
    condition("large-quic-bbr", ["large", "bundle", "quic", "bbr"], 1, 16_400),
    condition("small-bundle-tcp-bbr-8", ["small", "bundle", "tcp", "bbr"], 8, 13_600),
    condition("small-bundle-quic-bbr-8", ["small", "bundle", "quic", "bbr"], 8, 15_100),
    condition("large8-tcp-bbr-8", ["large8", "bundle", "tcp", "bbr"], 8, 13_500),
    condition("large8-quic-bbr-8", ["large8", "bundle", "quic", "bbr"], 8, 14_900),
    Condition {
        role: "control",
        ..condition("small-bundle-tcp-bbr-again", ["small", "bundle", "tcp", "bbr"], 1, 14_200)
    },
];

const PLAN: &str = r#"
title = "Small files over a long path"
seed = 42

[[contrast]]
name = "packing over TCP with BBR"
of = "small-bundle-tcp-bbr"
against = "small-files-tcp-bbr"
margin_percent = 5.0

[[contrast]]
name = "BBR for packed files over TCP"
of = "small-bundle-tcp-bbr"
against = "small-bundle-tcp-cubic"

[[contrast]]
name = "QUIC for packed files with BBR"
of = "small-bundle-quic-bbr"
against = "small-bundle-tcp-bbr"
margin_percent = 5.0

[[contrast]]
name = "eight connections for packed files over TCP"
of = "small-bundle-tcp-bbr-8"
against = "small-bundle-tcp-bbr"
margin_percent = 10.0

[[control]]
name = "A/A"
of = "small-bundle-tcp-bbr-again"
against = "small-bundle-tcp-bbr"
margin_percent = 5.0

[[fraction]]
name = "packed small files, TCP, BBR"
of = "small-bundle-tcp-bbr"
against = "large-tcp-bbr"

[[fraction]]
name = "packed small files, QUIC, BBR"
of = "small-bundle-quic-bbr"
against = "large-quic-bbr"

[[fraction]]
name = "packed small files, TCP, BBR, 8 connections"
of = "small-bundle-tcp-bbr-8"
against = "large8-tcp-bbr-8"
"#;

/// Writes the whole study in so many rounds to `folder`, as whole numbers of the seed decide. In the second round
/// one cell is stopped, one aborted and one fails and is repeated; others are flagged.
pub(crate) fn write_study(folder: &Path, rounds: u32, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut rows = vec![pilot()];
    for round in 1..=rounds {
        // A round is as slow as the path is in it.
        let path_permille = random.u64(950..=1_080);
        let mut order: Vec<&Condition> = CONDITIONS.iter().collect();
        random.shuffle(&mut order);
        for (condition, position) in order.into_iter().zip(1..) {
            let noise_permille = random.u64(980..=1_030);
            let ready_ms = condition.base_ms * path_permille * noise_permille / 1_000_000;
            rows.extend(cells(condition, round, position, ready_ms, &mut random));
        }
    }
    write(folder, &rows, PLAN);
}

/// Writes these rows and this plan.
pub(crate) fn write(folder: &Path, rows: &[Value], plan: &str) {
    let mut text = String::new();
    rows.iter().for_each(|row| writeln!(text, "{row}").unwrap());
    fs::write(folder.join("observations.jsonl"), text).unwrap();
    fs::write(folder.join("plan.toml"), plan).unwrap();
}

/// A row without samples of a condition that is all defaults.
pub(crate) fn plain(condition: &str, layout: &str, round: u32, outcome: Value) -> Value {
    json!({
        "schema": 1, "run": "run-by-hand", "condition": condition, "round": round, "position": 1,
        "started": "2026-01-02T03:04:05Z", "files": 1, "useful_bytes": 100_000_000, "outcome": outcome, "made_of": {},
        "factors": { "workload": "small", "layout": layout, "transport": "tcp", "controller": "bbr", "connections": 1,
            "profile": "seed", "path": "lan" },
    })
}

/// An outcome that was verified.
pub(crate) fn complete(ready_s: f64) -> Value {
    json!({ "kind": "complete", "ready_s": ready_s })
}

/// An outcome that was stopped at the usual limit.
pub(crate) fn censored() -> Value {
    json!({ "kind": "censored", "limit_s": LIMIT_S, "progress": [] })
}

fn pilot() -> Value {
    let pilot = Condition { role: "pilot", ..condition("pilot", ["pilot", "files", "tcp", "bbr"], 1, 5_000) };
    let mut row = row(&pilot, 1, 1, 5_000, &mut fastrand::Rng::with_seed(1));
    row["useful_bytes"] = json!(40_960_000);
    row
}

/// The rows of one cell: mostly one.
fn cells(
    condition: &Condition,
    round: u32,
    position: u32,
    ready_ms: u64,
    random: &mut fastrand::Rng,
) -> Vec<Value> {
    let mut row = row(condition, round, position, ready_ms, random);
    match (condition.name, round) {
        ("small-files-tcp-cubic", 2 | 4) => row["outcome"] = stopped(random),
        ("small-files-quic-cubic", 2) => {
            row["outcome"] = json!({ "kind": "aborted", "after_s": 41.25, "reason": "connection lost: <timed out>",
                "progress": progress(41, 21, random) });
        }
        ("large-quic-bbr", 2) => {
            let mut failed = row.clone();
            failed["outcome"] =
                json!({ "kind": "failed", "reason": "the target's file system could not be made" });
            failed["samplers"] = json!({});
            row["attempt"] = json!(2);
            row["attempt_reason"] = json!("the image's folder had been full");
            return vec![failed, row];
        }
        ("large8-quic-bbr-8", 1 | 4) => {
            row["flags"] = json!([{ "rule": "steal above 5 %", "seen": format!("{}.46 %", 5 + round) }]);
        }
        _ => (),
    }
    vec![row]
}

fn row(condition: &Condition, round: u32, position: u32, ready_ms: u64, random: &mut fastrand::Rng) -> Value {
    let minute = (round - 1) * 20 + position;
    let is_quic = condition.transport == "quic";
    json!({
        "schema": 1,
        "run": "run-synthetic",
        "condition": condition.name,
        "role": condition.role,
        "factors": { "workload": condition.workload, "layout": condition.layout, "transport": condition.transport,
            "controller": condition.controller, "connections": condition.connections, "profile": "seed",
            "path": "de-us-200", "library": "current", "target": "btrfs" },
        "round": round,
        "position": position,
        "started": format!("2026-01-02T{:02}:{:02}:00Z", 3 + minute / 60, minute % 60),
        "files": if condition.workload == "small" { 65_536 } else { 1 },
        "useful_bytes": USEFUL_BYTES,
        "outcome": { "kind": "complete", "ready_s": ready_ms as f64 / 1e3, "acknowledged_s": 0.141, "drain_s": 0.3,
            "process_s": ready_ms as f64 / 1e3 + 0.9, "sync_s": 0.4, "verify_s": 1.1 },
        "ideal_s": IDEAL_S,
        "samplers": {
            "sender": { "cpu_percent": random.u32(18..=30), "steal_percent": 0.3, "udp_receive_errors": 0,
                "udp_send_errors": if is_quic { random.u32(0..=90) } else { 0 },
                "tcp_retransmissions": if is_quic { 0 } else { random.u32(0..=400) } },
            "receiver": { "cpu_percent": random.u32(35..=60), "steal_percent": 0.4,
                "udp_receive_errors": if is_quic { random.u32(0..=1_500) } else { 0 }, "udp_send_errors": 0,
                "tcp_retransmissions": 0 },
            "round_trip": { "probes": 20, "lost": 0, "median_ms": 141, "p95_ms": 143, "max_ms": 151 },
            "trace": trace(ready_ms / 1_000, is_quic, random),
        },
        "settings": [
            { "end": "sender", "name": "controller", "asked": condition.controller, "got": condition.controller },
            { "end": "receiver", "name": "udp receive buffer", "asked": "4194304", "got": "212992" },
        ],
        "flags": [],
        "made_of": { "build": "b1a5c3", "lock": "77e0d2", "method": "9f04aa", "sender_kernel": "6.8.0",
            "receiver_kernel": "6.8.0", "libraries": { "noq": "1.4.0", "yamux": "own" } },
    })
}

/// Samples every two seconds.
fn trace(seconds: u64, is_quic: bool, random: &mut fastrand::Rng) -> Vec<Value> {
    let rate = USEFUL_BYTES / seconds.max(1);
    let sample = |at_s: u64| {
        json!({ "at_s": at_s, "sender_cpu_percent": random.u32(15..=35), "receiver_cpu_percent": random.u32(30..=65),
            "steal_percent": random.u32(0..=8) / 4, "round_trip_ms": random.u32(141..=149),
            "udp_errors": if is_quic { random.u32(0..=60) } else { 0 },
            "tcp_retransmissions": if is_quic { 0 } else { random.u32(0..=30) },
            "received_bytes": rate * random.u64(160..=220) / 100 })
    };
    (1..=seconds / 2).map(|index| 2 * index).map(sample).collect()
}

fn stopped(random: &mut fastrand::Rng) -> Value {
    json!({ "kind": "censored", "limit_s": LIMIT_S, "progress": progress(900, 31, random) })
}

/// What is there each second: about `percent_at_end` at the last.
fn progress(seconds: u64, percent_at_end: u64, random: &mut fastrand::Rng) -> Vec<Value> {
    let mut bytes = 0;
    let step = USEFUL_BYTES * percent_at_end / 100 / seconds;
    let point = |at_s: u64| {
        bytes += step * random.u64(0..=200) / 100;
        json!({ "at_s": at_s, "files": bytes / 4_096, "bytes": bytes })
    };
    (1..=seconds).map(point).collect()
}
