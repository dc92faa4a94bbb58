//! One session: a state machine for each role.
//!
//! A machine takes an input and the time since the session began, and answers with actions to carry out in
//! their order. It never waits: a caller feeds it messages as they come, reports from the file system as work
//! is done, and a [`TICK`] at a steady pace. Content does not pass through it, only what became of it.
//!
//! ```text
//! receiver                                  sender
//!    | <---------------------------- propose  |  only when the sender dials
//!    | ask ---------------------------------> |  (trust is settled)
//!    | <------------------------------ offer  |
//!    | <------------------------------- root  |  only when the receiver has a catalogue to compare:
//!    | expand ------------------------------> |    level by level,
//!    | <------------------------------ nodes  |    down to what differs
//!    | list --------------------------------> |
//!    | <--------------------------- manifest  |  segments follow on data streams
//!    | accept / want ------------------------> |
//!    | settled ------------------------------> |  in batches
//!    | <----------------------- manifest end  |
//!    | done ---------------------------------> |
//!    | <--------------------------- farewell  |
//! ```

pub mod receiver;
pub mod sender;

mod answering;
mod batches;
mod clock;
mod listing;
mod outstanding;
mod storing;
#[cfg(test)]
mod tests;

use std::{fmt, time::Duration};

pub use receiver::Receiver;
pub use sender::Sender;

use crate::{
    delta::DeltaError,
    difference::{AskError, NarrowingError},
    manifest::{EntryId, OrderError},
    message::{Counts, Message, MessageError, Refuse},
    path::EntryPath,
    problem::{Blame, Reason},
    record::{compressed::FrameError, segment::SegmentError},
};

/// How often a machine wants to be told the time: often enough that batched messages are not felt.
pub const TICK: Duration = Duration::from_millis(25);

/// How a session ended for one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// Both sides agree on what was stored.
    Complete(Counts),
    /// It did not come to that. What was stored under its final name until then is whole.
    Failed(SessionError),
}

/// Why a session did not complete.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SessionError {
    /// The other side ended it.
    #[error("the peer ended the session: {0}")]
    Refused(Stop),
    /// This side ended it.
    #[error("{0}")]
    Stopped(Stop),
    /// The other side broke the protocol.
    #[error("the peer broke the protocol: {0}")]
    Violation(Violation),
    /// Nothing came in time.
    #[error("nothing came from the peer for {seconds} s while waiting for {awaited}")]
    Timeout {
        /// What was waited for.
        awaited: &'static str,
        /// For how long, in seconds.
        seconds: u64,
    },
    /// The connection went away.
    #[error("the connection was lost while waiting for {awaited}: {detail}")]
    Lost {
        /// What was waited for.
        awaited: &'static str,
        /// What was seen.
        detail: String,
    },
}

impl SessionError {
    /// Whose fault it is.
    pub fn blame(&self) -> Blame {
        match self {
            Self::Refused(stop) => match stop.reason {
                Reason::NotAdmitted
                | Reason::Version
                | Reason::Declined
                | Reason::RemovalLimit
                | Reason::EmptySource
                | Reason::OtherSource
                | Reason::Busy => Blame::Operator,
                Reason::Violation
                | Reason::Interrupted
                | Reason::NoSpace
                | Reason::ReadOnly
                | Reason::Unavailable
                | Reason::Timeout
                | Reason::Internal => Blame::Peer,
            },
            Self::Stopped(stop) => match stop.reason {
                Reason::Interrupted
                | Reason::Declined
                | Reason::NotAdmitted
                | Reason::Version
                | Reason::RemovalLimit
                | Reason::EmptySource
                | Reason::OtherSource
                | Reason::Busy => Blame::Operator,
                Reason::Violation => Blame::Peer,
                Reason::Timeout => Blame::Network,
                Reason::NoSpace | Reason::ReadOnly | Reason::Unavailable | Reason::Internal => Blame::Local,
            },
            Self::Violation(_) => Blame::Peer,
            Self::Timeout { .. } | Self::Lost { .. } => Blame::Network,
        }
    }

    /// What the other side is told; nothing when it said so itself or cannot hear it.
    fn last_words(&self) -> Option<Stop> {
        match self {
            Self::Stopped(stop) => Some(stop.clone()),
            Self::Violation(violation) => Some(Stop::new(Reason::Violation, violation)),
            Self::Timeout { awaited, seconds } => {
                Some(Stop::new(Reason::Timeout, format!("{awaited} did not come for {seconds} s")))
            }
            Self::Refused(_) | Self::Lost { .. } => None,
        }
    }

    /// The reason a side gave for ending the session, if one did.
    pub fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused(stop) | Self::Stopped(stop) => Some(stop.reason),
            Self::Violation(_) | Self::Timeout { .. } | Self::Lost { .. } => None,
        }
    }
}

/// Why a side ends a session early.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The reason.
    pub reason: Reason,
    /// The entry concerned, if one is.
    pub path: Option<EntryPath>,
    /// What was being done and what came, for a person.
    pub detail: String,
}

impl Stop {
    /// A stop that concerns no entry.
    pub fn new(reason: Reason, detail: impl fmt::Display) -> Self {
        Self { reason, path: None, detail: crate::problem::cut_detail(detail.to_string()) }
    }

    /// A stop at an entry.
    pub fn at(path: EntryPath, reason: Reason, detail: impl fmt::Display) -> Self {
        Self { path: Some(path), ..Self::new(reason, detail) }
    }
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.reason)?;
        if let Some(path) = &self.path {
            write!(f, " at \"{path}\"")?;
        }
        if !self.detail.is_empty() {
            // The other side wrote it.
            write!(f, ": {}", crate::path::escape(self.detail.as_bytes()))?;
        }
        Ok(())
    }
}

impl From<Stop> for Refuse {
    fn from(Stop { reason, path, detail }: Stop) -> Self {
        Self { reason, path, detail }
    }
}

impl From<Refuse> for Stop {
    fn from(Refuse { reason, path, detail }: Refuse) -> Self {
        Self { reason, path, detail }
    }
}

/// How the other side broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Violation {
    /// A message came that has no meaning now.
    #[error("\"{message}\" came while waiting for {awaited}")]
    Unexpected {
        /// The message.
        message: &'static str,
        /// What was waited for.
        awaited: &'static str,
    },
    /// Bytes that are no message.
    #[error(transparent)]
    Message(#[from] MessageError),
    /// Bytes that are no segments.
    #[error(transparent)]
    Segment(#[from] SegmentError),
    /// Bytes that are no frames of a compressed stream.
    #[error(transparent)]
    Frame(#[from] FrameError),
    /// A manifest out of order.
    #[error("its manifest is out of order: {0}")]
    Order(#[from] OrderError),
    /// A batch does not begin where the last one ended.
    #[error("its manifest goes on at entry {got}, expected {expected}")]
    Gap {
        /// Where it should go on.
        expected: EntryId,
        /// Where it does.
        got: EntryId,
    },
    /// More was announced than may be open: [`crate::limits::WINDOW_ENTRIES`], [`crate::limits::WINDOW_BYTES`].
    #[error("it announced more entries than may wait to be settled")]
    Window,
    /// Entries were named that are not open.
    #[error("it named entry {0}, which is not open")]
    NotOpen(EntryId),
    /// An entry or a part of it was named that cannot be.
    #[error("it named a part of entry {0} that does not exist")]
    NoSuchPart(EntryId),
    /// Spans of an open entry were wanted more often than [`crate::limits::WANTS_PER_SPAN`].
    #[error("it wanted entry {0} again and again")]
    Greedy(EntryId),
    /// What it says a file consists of can't be.
    #[error("it describes entry {id} wrongly: {error}")]
    Delta {
        /// The file.
        id: EntryId,
        /// What is wrong.
        error: DeltaError,
    },
    /// Its account differs from ours.
    #[error("its account differs: {theirs:?}, here {ours:?}")]
    Account {
        /// What it says. Boxed, since nothing else makes an error of a session large.
        theirs: Box<Counts>,
        /// What was counted here.
        ours: Box<Counts>,
    },
    /// Its totals differ from what it listed.
    #[error("its totals differ from what it listed")]
    Totals,
    /// Its ask does not answer what was proposed, or answers what was not.
    #[error("its ask does not fit what was proposed to it")]
    Claim,
    /// It removed something although nothing may be removed.
    #[error("it removed what it was not allowed to")]
    Removal,
    /// It said what a preview would need outside of one, or more than was listed.
    #[error("it planned for {0} bytes, which cannot be")]
    Plan(u64),
    /// Entries came before they were asked for.
    #[error("it listed entries before they were asked for")]
    Unasked,
    /// A part of this side's catalogue was asked for that is not there, or was asked for before.
    #[error("it asked for what is not in the catalogue or was said before: {0}")]
    Ask(#[from] AskError),
    /// Its catalogue contradicts itself.
    #[error("its catalogue is none: {0}")]
    Narrowing(#[from] NarrowingError),
}

/// The last actions of a side that fails: what the other side is told, if anything, then the end.
fn last_words<A>(error: SessionError, send: fn(Message) -> A, end: fn(Ending) -> A) -> Vec<A> {
    let refuse = error.last_words().map(|stop| send(Message::Refuse(stop.into())));
    refuse.into_iter().chain([end(Ending::Failed(error))]).collect()
}
