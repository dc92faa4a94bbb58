//! What is said to a [`Receiver`](super::Receiver) and what it says: its inputs and its actions.

use std::sync::Arc;

use crate::{
    delta::Needs,
    difference::{Catalogue, RangeHash},
    manifest::{Entry, EntryId},
    message::{Connections, Fate, Message, Offer, Propose, Run, TargetView},
    path::EntryPath,
    problem::Problem,
    session::{Ending, Stop, Violation},
};

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// The sender said something.
    Message(Message),
    /// The sender's bytes broke the protocol.
    Violation(Violation),
    /// The proposal is accepted.
    Admitted {
        /// What is there. In a preview, nothing counts as [`TargetView::Occupied`].
        target: TargetView,
        /// How many connections this side takes.
        connections: Connections,
    },
    /// The proposal is turned away.
    Denied,
    /// All of the target was catalogued.
    Catalogued {
        /// The catalogue.
        catalogue: Arc<Catalogue>,
        /// On what the last session between the two agreed, if one did.
        agreed: Option<Agreed>,
    },
    /// The person answered [`Action::Consult`].
    Consent(Answer),
    /// What became of entries, or is needed for them.
    Outcomes(Vec<(EntryId, Outcome)>),
    /// What was there and was not listed is gone.
    Removed(Vec<EntryPath>),
    /// In a preview: so many bytes of content would have been needed, beside those said before.
    Planned {
        /// Bytes, no more than the entries have that were listed.
        bytes: u64,
    },
    /// Directories are complete and everything is as durable as was asked.
    Finished {
        /// Directories whose mode or times could not be set.
        late: Vec<Problem>,
    },
    /// This side must end the session.
    Stop(Stop),
    /// The connection is gone.
    Lost(String),
    /// Nothing but time has passed.
    Tick,
}

/// The roots of two trees after a session in which they became the same, but for what only the target has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Agreed {
    /// Of the sender's catalogue.
    pub theirs: RangeHash,
    /// Of the receiver's.
    pub own: RangeHash,
}

/// A person's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Go on.
    Yes,
    /// Take nothing.
    No,
}

/// What became of an entry, in a preview what would have; or what is needed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing was there; it is stored under its final name.
    Created,
    /// Something different was there; it is stored in its place.
    Updated,
    /// Its content was there; its mode, times, owner or attributes were brought up to date.
    Described,
    /// An equal one was there.
    Kept,
    /// The policy says to leave it out or alone.
    Skipped,
    /// It is not stored as listed.
    Problem(Problem),
    /// All of its content is needed.
    Content,
    /// Its content is needed although it was sent before.
    ContentAgain,
    /// Its hashes are needed, to compare with what is there.
    Digest,
    /// Some of its ranges are needed.
    Parts {
        /// Ranges whose content is needed.
        content: Vec<Run>,
        /// Ranges whose hash is needed.
        digest: Vec<Run>,
    },
    /// Its recipe is needed, to make it from what is there.
    Delta,
    /// Parts of it are needed, as its recipe says.
    Needs(Needs),
}

impl From<Fate> for Outcome {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Created => Self::Created,
            Fate::Updated => Self::Updated,
            Fate::Described => Self::Described,
            Fate::Kept => Self::Kept,
            Fate::Skipped => Self::Skipped,
        }
    }
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a control message.
    Send(Message),
    /// Decide whether the sender may do what it proposes: [`Input::Admitted`] or [`Input::Denied`].
    Admit(Propose),
    /// Make a catalogue of the target: [`Input::Catalogued`].
    Catalogue,
    /// The sender has admitted us.
    Offered(Offer),
    /// The trees were compared: [`take_narrowing`](super::Receiver::take_narrowing) has what differs. Comes before the first
    /// [`Action::Plan`].
    Compared,
    /// Ask the person; [`listed`](super::Receiver::listed) has what is known.
    Consult {
        /// Whether the list is complete.
        complete: bool,
    },
    /// Compare these with the target and make what has no content: [`Input::Outcomes`] for each of them.
    Plan {
        /// Id of the first; the others follow.
        first: EntryId,
        /// The entries.
        entries: Vec<Arc<Entry>>,
    },
    /// Everything listed is settled. Remove what is to be removed ([`Input::Removed`]), complete the
    /// directories, make all durable: [`Input::Finished`].
    Finish,
    /// Tell a person.
    Report(Problem),
    /// The session is over; nothing follows.
    End(Ending),
}
