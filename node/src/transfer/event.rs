//! What a transfer tells whoever started it.

use std::{fmt, time::Duration};

use ketch_protocol::{
    message::{Counts, Fate, Fill, Place, Totals},
    path::EntryPath,
    problem::Problem,
    session::{
        SessionError,
        receiver::{Answer, Outcome},
    },
};
use tokio::sync::oneshot;

use super::channel::{ChannelReport, effective};
use crate::swarm::{Circuit, Connection, Controller, Effective, Multiaddr, PeerId, TransportKind};

/// Names shown to a person who is asked; the rest is counted.
const NAMES_SHOWN: usize = 20;

/// Something happened in a transfer.
#[derive(Debug)]
pub enum Event {
    /// The offered tree was counted.
    Counted(Totals),
    /// A connection with the other peer stands.
    Connected(Route),
    /// A peer asked and was turned away.
    TurnedAway {
        /// Who asked.
        peer: PeerId,
        /// Why, for the local user only.
        why: String,
    },
    /// A peer was admitted to a share.
    Began {
        /// Where it works.
        place: Place,
        /// What it does there.
        direction: Direction,
        /// Whether it only asks what it would do.
        preview: bool,
    },
    /// An entry of the target was changed; in a preview, it would have been.
    Changed {
        /// How.
        change: Change,
        /// Which.
        path: EntryPath,
    },
    /// A connection was lost, and a new one will be made; [`Event::Connected`] says that it stands.
    Retrying {
        /// What was lost.
        why: String,
        /// How long that will be waited with.
        wait: Duration,
        /// How long it will be tried from now on; `None` for as long as it takes.
        limit: Option<Duration>,
    },
    /// A session came to its end, but entries changed or vanished while they were read: another one follows.
    Again(Report),
    /// The sender has admitted the receiver; the session runs.
    Admitted {
        /// The other side.
        peer: PeerId,
        /// What is on offer, as far as the sender has counted.
        estimate: Option<Totals>,
    },
    /// A person must agree before anything is written.
    Consult(Consultation),
    /// The person has agreed; the receiver begins to store.
    Agreed,
    /// How far a session is; several times a second.
    Progress(Progress),
    /// One entry was not stored as listed.
    Problem(Problem),
    /// A session of a sender that goes on offering has ended.
    SessionEnded {
        /// The receiver.
        peer: PeerId,
        /// How it ended.
        outcome: Result<Report, SessionError>,
    },
}

/// What a node that serves shares tells.
#[derive(Debug)]
pub struct ServeEvent {
    /// Which session, by its number since the node began to serve.
    pub session: u64,
    /// With whom.
    pub peer: PeerId,
    /// What happened.
    pub event: Event,
}

/// What became of an entry of the target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It was not there before.
    Created,
    /// It was something different.
    Updated,
    /// Its mode, times, owner or attributes were different.
    Described,
    /// It is gone.
    Removed,
}

impl Change {
    /// What a fate changes, if anything.
    pub(super) fn of(fate: Fate) -> Option<Self> {
        match fate {
            Fate::Created => Some(Self::Created),
            Fate::Updated => Some(Self::Updated),
            Fate::Described => Some(Self::Described),
            Fate::Kept | Fate::Skipped => None,
        }
    }

    /// What an outcome changes, if anything.
    pub(super) fn of_outcome(outcome: &Outcome) -> Option<Self> {
        match outcome {
            Outcome::Created => Some(Self::Created),
            Outcome::Updated => Some(Self::Updated),
            Outcome::Described => Some(Self::Described),
            Outcome::Kept
            | Outcome::Skipped
            | Outcome::Problem(_)
            | Outcome::Content
            | Outcome::ContentAgain
            | Outcome::Digest
            | Outcome::Delta
            | Outcome::Needs(_)
            | Outcome::Parts { .. } => None,
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Created => "created",
            Self::Updated => "updated",
            Self::Described => "described",
            Self::Removed => "removed",
        })
    }
}

/// Which way content goes, seen from the side that dialed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the side that dialed.
    Pull,
    /// From the side that dialed.
    Push,
}

/// How bytes travel to a peer.
#[derive(Debug, Clone)]
pub struct Route {
    /// The other side.
    pub peer: PeerId,
    /// Over what.
    pub transport: TransportKind,
    /// Its address on this connection.
    pub address: Multiaddr,
    /// The relay it goes through; `None` for a direct connection.
    pub circuit: Option<Circuit>,
    /// The congestion controller that was asked for on this side.
    pub asked: Option<Controller>,
    /// What this side has; `None` where its transport does not tell.
    pub effective: Option<Effective>,
    /// From the start of the dial until the connection stood.
    pub dialed: Duration,
}

impl Route {
    /// The route of a connection that took so long to be dialed.
    pub(super) fn of(connection: &Connection, dialed: Duration) -> Self {
        Self {
            peer: connection.peer(),
            transport: connection.transport(),
            address: connection.remote_address().clone(),
            circuit: connection.circuit(),
            asked: connection.asked_controller(),
            effective: effective(connection),
            dialed,
        }
    }
}

/// What a person needs to decide, and where the answer goes.
#[derive(Debug)]
pub struct Consultation {
    /// What was listed so far.
    pub listed: Totals,
    /// Whether that is all.
    pub complete: bool,
    /// Some of the names, those whose last or any component begins with a dot first, not escaped yet.
    pub names: Vec<EntryPath>,
    /// Takes the answer. Dropping it declines.
    pub reply: oneshot::Sender<Answer>,
}

impl Consultation {
    /// The first names, those with a component that begins with a dot before all others.
    pub(super) fn names_of<'a>(paths: impl Iterator<Item = &'a EntryPath>) -> Vec<EntryPath> {
        let is_hidden = |path: &&EntryPath| path.components().any(|component| component[0] == b'.');
        let (mut hidden, plain): (Vec<_>, Vec<_>) = paths.partition(is_hidden);
        hidden.extend(plain);
        hidden.into_iter().take(NAMES_SHOWN).cloned().collect()
    }
}

/// How far a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Progress {
    /// What was listed so far.
    pub listed: Totals,
    /// Whether that is all.
    pub list_complete: bool,
    /// The account so far.
    pub counts: Counts,
    /// Bytes of content that crossed in this session.
    pub moved_bytes: u64,
    /// Bytes that were there already: found equal, or left by an earlier session and checked.
    pub found_bytes: u64,
}

/// How many connections a session had, the first included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ConnectionCounts {
    /// How many were asked for.
    pub asked: usize,
    /// How many were made.
    pub made: usize,
    /// How many of these were lost on the way.
    pub lost: usize,
}

/// What a session came to.
#[derive(Debug, Clone, PartialEq)]
pub struct Report {
    /// The account, the same on both sides.
    pub counts: Counts,
    /// Bytes of content that crossed in this session.
    pub moved_bytes: u64,
    /// Bytes that were there already: found equal, or left by an earlier session and checked.
    pub found_bytes: u64,
    /// Of a preview, bytes of content that would have crossed: nothing was done, and what is counted is what would be.
    pub planned_bytes: Option<u64>,
    /// Entries that changed or vanished while they were read.
    pub unsettled: Unsettled,
    /// The connections that carried it.
    pub connections: ConnectionCounts,
    /// From the first hello, or from a person's consent, until every file had its final name.
    pub ready: Duration,
    /// From then until everything was as durable as asked; the sender takes the word of the
    /// receiver for it.
    pub durable: Duration,
    /// What the connection was asked for, and got.
    pub channel: ChannelReport,
}

/// Entries that changed or vanished while they were read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unsettled {
    /// How many.
    pub entries: u64,
    /// Their names, as many as an ask can hold.
    pub names: Vec<EntryPath>,
    fill: Fill,
}

impl Unsettled {
    /// Takes note of a problem, if it is one of these.
    pub(super) fn note(&mut self, problem: &Problem) {
        if !problem.cause.is_unsettled() {
            return;
        }
        self.entries += 1;
        if !self.fill.is_full() {
            self.fill.add_name(&problem.path);
            self.names.push(problem.path.clone());
        }
    }
}
