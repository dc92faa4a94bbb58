//! Events as NDJSON: one object a line, each with an `event`. `docs/events.md` is the schema.

use std::net::SocketAddr;

use ketch::{
    swarm::{BufferSize, Circuit, Controller, Effective, PathStatistics, PeerId},
    transfer::{ChannelReport, ConnectionCounts, Direction, Event, Progress, Report},
    tree::{Undone, Unfinished},
    trust::PeerName,
};
use ketch_protocol::{
    message::{Congestion, Counts, Totals},
    path::{EntryPath, escape},
    problem::Problem,
};
use serde_json::{Value, json};

use super::join::Told;

/// An event; `None` for what is no event of this interface.
pub(super) fn event(event: &Event) -> Option<Value> {
    Some(match event {
        Event::Counted(totals) => with("counted", totals_of(totals)),
        Event::Connected(route) => json!({
            "event": "connected",
            "peer_id": route.peer.to_string(),
            "transport": route.transport.to_string(),
            "address": route.address.to_string(),
            "relay": route.circuit.as_ref().map(relay),
            "controller": controller(route.asked, route.effective.as_ref()),
            "buffers": route.effective.as_ref().map(buffers),
            "dial_s": route.dialed.as_secs_f64(),
        }),
        Event::TurnedAway { peer, why } => turned_away(*peer, why),
        Event::Began { place, direction, preview } => json!({
            "event": "began",
            "share": place.share.as_str(),
            "path": place.path.as_ref().map(ToString::to_string),
            "direction": match direction {
                Direction::Pull => "pull",
                Direction::Push => "push",
            },
            "preview": preview,
        }),
        Event::Retrying { why, wait, limit } => json!({
            "event": "retrying",
            "why": why,
            "wait_s": wait.as_secs_f64(),
            "limit_s": limit.map(|limit| limit.as_secs_f64()),
        }),
        Event::Again(report) => with("again", report_of(report)),
        Event::Changed { change, path } => {
            let mut fields = path_of(path);
            fields["change"] = change.to_string().into();
            with("changed", fields)
        }
        Event::Admitted { peer, estimate } => json!({
            "event": "admitted",
            "peer_id": peer.to_string(),
            "estimate": estimate.as_ref().map(totals_of),
        }),
        Event::Consult(_) => return None,
        Event::Agreed => json!({ "event": "agreed" }),
        Event::Progress(progress) => with("progress", progress_of(progress)),
        Event::Problem(found) => problem(found),
        Event::SessionEnded { peer, outcome } => match outcome {
            Ok(report) => {
                let mut done = done(report);
                done["peer_id"] = peer.to_string().into();
                done
            }
            Err(error) => json!({
                "event": "session_ended",
                "peer_id": peer.to_string(),
                "error": error.to_string(),
            }),
        },
    })
}

/// The end of a session that came to its end.
pub(super) fn done(report: &Report) -> Value {
    with("done", report_of(report))
}

fn report_of(report: &Report) -> Value {
    let mut fields = counts_of(&report.counts);
    fields["moved_bytes"] = report.moved_bytes.into();
    fields["found_bytes"] = report.found_bytes.into();
    fields["preview"] = report.planned_bytes.is_some().into();
    fields["planned_bytes"] = report.planned_bytes.unwrap_or(0).into();
    fields["connections"] = connections_of(report.connections);
    fields["ready_s"] = report.ready.as_secs_f64().into();
    fields["durable_s"] = report.durable.as_secs_f64().into();
    fields["channel"] = channel(&report.channel);
    fields
}

fn channel(channel: &ChannelReport) -> Value {
    let ChannelReport { transport, asked, effective, peer, statistics } = channel;
    let peer = peer.as_ref().map(|Congestion { controller, problem }| {
        let got = (!controller.is_empty()).then(|| escape(controller.as_bytes()).to_string());
        let problem = (!problem.is_empty()).then(|| escape(problem.as_bytes()).to_string());
        json!({ "got": got, "problem": problem })
    });
    json!({
        "transport": transport.to_string(),
        "controller": controller(*asked, effective.as_ref()),
        "peer_controller": peer,
        "buffers": effective.as_ref().map(buffers),
        "path": statistics.as_ref().map(path_statistics),
    })
}

fn controller(asked: Option<Controller>, effective: Option<&Effective>) -> Value {
    json!({
        "asked": asked.map(Controller::name),
        "got": effective.map(|effective| escape(effective.controller.as_bytes()).to_string()),
    })
}

fn buffers(effective: &Effective) -> Value {
    let buffer = |BufferSize { asked, effective, limit }: BufferSize| json!({ "asked": asked, "effective": effective, "limit": limit });
    json!({ "send": buffer(effective.send_buffer), "receive": buffer(effective.receive_buffer) })
}

fn path_statistics(statistics: &PathStatistics) -> Value {
    let PathStatistics { rtt, window_bytes, lost_packets, sent_packets, rate_bytes_per_s } = statistics;
    json!({
        "rtt_s": rtt.map(|rtt| rtt.as_secs_f64()),
        "window_bytes": window_bytes,
        "lost_packets": lost_packets,
        "sent_packets": sent_packets,
        "rate_bytes_per_s": rate_bytes_per_s,
    })
}

/// What is kept of large files that are not whole yet.
pub(super) fn unfinished(unfinished: &Unfinished) -> Value {
    json!({ "event": "unfinished", "files": unfinished.files, "bytes": unfinished.bytes })
}

/// A ticket that was made or reopened.
pub(super) fn offered(ticket: &str, reopened: bool, addresses: &[String], expires_s: Option<u64>) -> Value {
    json!({
        "event": "offered",
        "ticket": ticket,
        "reopened": reopened,
        "addresses": addresses,
        "expires_s": expires_s,
    })
}

/// The relay that a connection goes through, and what it allows.
fn relay(circuit: &Circuit) -> Value {
    let Circuit { relay, limit } = circuit;
    json!({
        "peer_id": relay.to_string(),
        "limit_bytes": limit.bytes,
        "limit_s": limit.time.map(|time| time.as_secs()),
    })
}

/// A relay through which others reach this node from now on.
pub(super) fn reserved(relay: &str, addresses: &[String]) -> Value {
    json!({ "event": "reserved", "relay": relay, "addresses": addresses })
}

/// A relay through which others reach this node no longer.
pub(super) fn reservation_lost(relay: &str, why: &str) -> Value {
    json!({ "event": "reservation_lost", "relay": relay, "why": why })
}

/// What `ketch relay` says at its start, and when its addresses change.
pub(super) fn relaying(peer: &str, addresses: &[String], metrics: Option<SocketAddr>) -> Value {
    let metrics = metrics.map(|address| address.to_string());
    json!({ "event": "relaying", "peer_id": peer, "addresses": addresses, "metrics": metrics })
}

/// A code or a ticket that waits for a guest.
pub(super) fn invited(told: &Told, addresses: &[String], expires_s: Option<u64>) -> Value {
    let mut fields = json!({ "addresses": addresses, "expires_s": expires_s });
    let (kind, text) = match told {
        Told::Code(code) => ("code", code.to_string()),
        Told::Ticket(ticket) => ("ticket", ticket.to_string()),
    };
    fields[kind] = text.into();
    with("invited", fields)
}

/// A guest has proved that it knows the code or the ticket.
pub(super) fn introduced(peer: PeerId) -> Value {
    json!({ "event": "introduced", "peer_id": peer.to_string() })
}

/// A peer that was not introduced.
pub(super) fn turned_away(peer: PeerId, why: &str) -> Value {
    json!({ "event": "turned_away", "peer_id": peer.to_string(), "why": why })
}

/// A peer that is in the address book now.
pub(super) fn paired(name: &PeerName, peer: PeerId, addresses: &[String]) -> Value {
    json!({ "event": "paired", "name": name.as_str(), "peer_id": peer.to_string(), "addresses": addresses })
}

/// A node that serves shares.
pub(super) fn serving(peer: &str, shares: &[String], addresses: &[String]) -> Value {
    json!({ "event": "serving", "peer_id": peer, "shares": shares, "addresses": addresses })
}

/// A session that was undone.
pub(super) fn undone(undone: &Undone) -> Value {
    json!({
        "event": "undone",
        "session": undone.session,
        "target": escape(undone.target.as_os_str().as_encoded_bytes()).to_string(),
        "restored": undone.restored,
        "removed": undone.removed,
        "described": undone.described,
        "problems": undone.problems.len(),
    })
}

/// One entry that is not as it was to be.
pub(super) fn problem(problem: &Problem) -> Value {
    with("problem", problem_of(problem))
}

/// The error that ends the command.
pub(super) fn error(chain: &str, exit_code: u8) -> Value {
    json!({ "event": "error", "error": chain, "exit_code": exit_code })
}

fn with(event: &str, mut fields: Value) -> Value {
    fields["event"] = event.into();
    fields
}

fn totals_of(totals: &Totals) -> Value {
    json!({ "entries": totals.entries, "bytes": totals.bytes, "problems": totals.problems })
}

fn counts_of(counts: &Counts) -> Value {
    let Counts { listed, sent, kept, skipped, failed, removed, problems: _ } = *counts;
    json!({
        "listed": listed,
        "sent": sent,
        "kept": kept,
        "skipped": skipped,
        "failed": failed,
        "removed": removed,
    })
}

fn progress_of(progress: &Progress) -> Value {
    let mut fields = counts_of(&progress.counts);
    fields["entries_listed"] = progress.listed.entries.into();
    fields["bytes_listed"] = progress.listed.bytes.into();
    fields["list_complete"] = progress.list_complete.into();
    fields["moved_bytes"] = progress.moved_bytes.into();
    fields["found_bytes"] = progress.found_bytes.into();
    fields
}

fn connections_of(ConnectionCounts { asked, made, lost }: ConnectionCounts) -> Value {
    json!({ "asked": asked, "made": made, "lost": lost })
}

fn problem_of(problem: &Problem) -> Value {
    let mut fields = path_of(&problem.path);
    fields["cause"] = format!("{:?}", problem.cause).to_lowercase().into();
    fields["detail"] = problem.detail.as_str().into();
    fields["skipped"] = problem.cause.is_skip().into();
    fields
}

/// `path` is escaped for reading; `path_bytes` holds the exact bytes where they are not UTF-8 or were
/// escaped.
fn path_of(path: &EntryPath) -> Value {
    let shown = path.to_string();
    let mut fields = json!({ "path": shown });
    if shown.as_bytes() != path.as_bytes() {
        fields["path_bytes"] = path.as_bytes().into();
    }
    fields
}
