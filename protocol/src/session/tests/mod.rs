//! The two machines by themselves: every state, every message, every input.

mod comparing;
mod receiver;
mod sender;
mod table;

use std::{sync::Arc, time::Duration};

use super::*;
use crate::{
    difference::{Catalogue, CatalogueBuilder, RangeHash},
    hash::ContentHash,
    limits::VERSION,
    manifest::{Entry, EntryKind, Timestamp},
    message::{
        Ask, Batch, Claim, Connections, Consent, Expand, List, Nodes, Offer, Place, Policy, Propose, Root,
        Run, Secret, Selection, SessionId, Settled, ShareName, TargetView, Totals, Want,
    },
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
        claim: Claim::Ticket(Secret::from_bytes([2; 16])),
        consent,
        target,
        selection: Selection::default(),
        preview: false,
        connections: Connections::ONE,
        controller: None,
        congestion: None,
        missed: Vec::new(),
    }
}

/// What a sender that dials proposes.
fn proposal(policy: Policy) -> Propose {
    Propose {
        version: VERSION,
        session: SessionId([1; 16]),
        place: Place { share: ShareName::parse("photos").unwrap(), path: None },
        selection: Selection::default(),
        policy,
        connections: Connections::ONE,
        controller: None,
    }
}

/// A receiver's answer to that.
fn answer(target: TargetView) -> Ask {
    Ask { claim: Claim::Proposed, ..ask(Consent::Given, target) }
}

fn offer() -> Message {
    Message::Offer(Offer {
        version: VERSION,
        estimate: None,
        connections: Connections::ONE,
        congestion: None,
        disk: None,
    })
}

fn batch(first: u64, entries: &[Entry]) -> Message {
    Message::Manifest(Batch { first: EntryId(first), entries: entries.to_vec(), problems: Vec::new() })
}

fn runs(first: u64, count: u64) -> Vec<Run> {
    vec![Run { first, count }]
}

fn created(first: u64, count: u64) -> Message {
    Message::Settled(Settled { created: runs(first, count), ..Settled::default() })
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
fn every_message() -> [Message; 16] {
    [
        Message::Ask(ask(Consent::Given, TargetView::Empty)),
        offer(),
        refuse(Reason::Interrupted),
        Message::Accept,
        batch(0, &[file("f")]),
        Message::ManifestEnd(Totals::default()),
        want(0, 1),
        created(0, 1),
        Message::Done(Counts::default()),
        Message::Farewell,
        Message::KeepAlive,
        Message::Propose(proposal(Policy::default())),
        Message::Root(Root { hash: RangeHash([3; 16]), levels: 0, totals: Totals::default() }),
        Message::Expand(Expand { level: 1, nodes: runs(0, 1) }),
        Message::Nodes(Nodes { level: 0, first: 0, hashes: vec![RangeHash([3; 16])] }),
        Message::List(List { leaves: runs(0, 1), complete: true }),
    ]
}

/// A catalogue of `count` files with numbers for names, and with hashes.
fn numbered_catalogue(count: usize) -> Arc<Catalogue> {
    catalogue(&(0..count).map(|index| hashed(&format!("{index:06}"), 7)).collect::<Vec<_>>())
}

fn catalogue(entries: &[Entry]) -> Arc<Catalogue> {
    let mut builder = CatalogueBuilder::new([9; 16]);
    entries.iter().for_each(|entry| builder.push(entry));
    Arc::new(builder.finish())
}

/// A file whose content is known by one byte of its hash.
fn hashed(name: &str, content: u8) -> Entry {
    Entry { hash: Some(ContentHash([content; 32])), ..file(name) }
}
