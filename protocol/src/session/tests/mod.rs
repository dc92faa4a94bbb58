//! The two machines by themselves: every state, every message, every input.

mod receiver;
mod sender;
mod table;

use std::time::Duration;

use super::*;
use crate::{
    limits::VERSION,
    manifest::{Entry, EntryKind, Timestamp},
    message::{Ask, Batch, Consent, Offer, Run, Secret, SessionId, Settled, TargetView, Totals, Want},
    problem::{Cause, Problem},
};

const START: Duration = Duration::ZERO;

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn path(name: &str) -> EntryPath {
    EntryPath::parse(name.as_bytes()).unwrap()
}

fn entry(name: &str, kind: EntryKind) -> Entry {
    Entry::new(path(name), kind, 0o644, Timestamp::default())
}

fn file(name: &str) -> Entry {
    entry(name, EntryKind::File { size: 1 })
}

fn ask(consent: Consent, target: TargetView) -> Ask {
    Ask {
        version: VERSION,
        session: SessionId([1; 16]),
        secret: Secret::from_bytes([2; 16]),
        consent,
        target,
    }
}

fn offer() -> Message {
    Message::Offer(Offer { version: VERSION, estimate: None })
}

fn batch(first: u64, entries: &[Entry]) -> Message {
    Message::Manifest(Batch { first: EntryId(first), entries: entries.to_vec(), problems: Vec::new() })
}

fn runs(first: u64, count: u64) -> Vec<Run> {
    vec![Run { first, count }]
}

fn stored(first: u64, count: u64) -> Message {
    Message::Settled(Settled { stored: runs(first, count), ..Settled::default() })
}

fn want(first: u64, count: u64) -> Message {
    Message::Want(Want { content: runs(first, count), ..Want::default() })
}

fn refuse(reason: Reason) -> Message {
    Message::Refuse(Refuse { reason, path: None, detail: String::new() })
}

fn problem(name: &str, cause: Cause) -> Problem {
    Problem::new(path(name), cause, "")
}

/// One of each message, in the order of their numbers on the wire.
fn every_message() -> [Message; 11] {
    [
        Message::Ask(ask(Consent::Given, TargetView::Empty)),
        offer(),
        refuse(Reason::Interrupted),
        Message::Accept,
        batch(0, &[file("f")]),
        Message::ManifestEnd(Totals::default()),
        want(0, 1),
        stored(0, 1),
        Message::Done(Counts::default()),
        Message::Farewell,
        Message::KeepAlive,
    ]
}
