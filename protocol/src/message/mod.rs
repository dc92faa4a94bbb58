//! Control messages of a session: what the two sides tell each other beside the content itself.
//!
//! [`Message`] holds parsed values only. [`encode`] and [`Frames`] turn it into bytes and back; the bytes are
//! described in `docs/wire-format.md`.

mod comparison;
mod congestion;
mod connections;
mod fill;
mod frame;
mod policy;
mod selection;
mod settled;
mod share;
mod wire;

use std::fmt;

pub use comparison::{Expand, List, Nodes, Root};
pub use congestion::Congestion;
pub use connections::{Connections, ConnectionsError};
pub use fill::Fill;
pub(crate) use fill::RUN_BYTES;
pub use frame::{Frames, encode};
pub use policy::{Durability, Equality, Policy, Removal, RemovalLimit};
pub use selection::{Compression, Hashes, Rules, RulesError, Selection};
pub use settled::{Counts, Fate, Settled};
pub use share::{Claim, Place, ShareName, ShareNameError};

use crate::{
    controller::Controller,
    manifest::{Entry, EntryId},
    path::EntryPath,
    problem::{Problem, Reason},
};

/// Names a session between two peers; chosen at random by the side that dials.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub [u8; 16]);

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Length of a secret, in bytes: 128 bits cannot be guessed, and every byte more makes a ticket longer.
pub const SECRET_BYTES: usize = 16;

/// The one-time password of a ticket: it admits whoever shows it. Comparing takes the same time whatever
/// differs, and it is never printed.
#[derive(Clone, Copy)]
pub struct Secret([u8; SECRET_BYTES]);

impl Secret {
    /// One that came in an ask or out of a ticket.
    pub fn from_bytes(bytes: [u8; SECRET_BYTES]) -> Self {
        Self(bytes)
    }

    /// The bytes, for the ask to the pinned peer.
    pub fn as_bytes(&self) -> &[u8; SECRET_BYTES] {
        &self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        constant_time_eq::constant_time_eq_n(&self.0, &other.0)
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// One control message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The receiver's first: what it asks for, and by what right.
    Ask(Ask),
    /// The sender's answer: admitted, and what is on offer as far as it is known.
    Offer(Offer),
    /// Either side ends the session early and says why.
    Refuse(Refuse),
    /// The person at the receiver has agreed.
    Accept,
    /// The next entries of the sender's manifest.
    Manifest(Batch),
    /// The manifest is complete.
    ManifestEnd(Totals),
    /// What the receiver needs of announced entries.
    Want(Want),
    /// What became of announced entries.
    Settled(Settled),
    /// Everything is settled, stored and verified.
    Done(Counts),
    /// The sender's answer to `Done`.
    Farewell,
    /// Nothing to say, but alive.
    KeepAlive,
    /// The first of a sender that dials: what it would send, where to, and how that should be stored.
    Propose(Propose),
    /// The root of the sender's catalogue, to be compared.
    Root(Root),
    /// The receiver asks for the children of nodes of the sender's catalogue.
    Expand(Expand),
    /// Children that were asked for.
    Nodes(Nodes),
    /// The receiver asks for the entries of leaves of the sender's catalogue.
    List(List),
}

impl Message {
    /// Its name in `docs/wire-format.md`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ask(_) => "ask",
            Self::Offer(_) => "offer",
            Self::Refuse(_) => "refuse",
            Self::Accept => "accept",
            Self::Manifest(_) => "manifest",
            Self::ManifestEnd(_) => "manifest end",
            Self::Want(_) => "want",
            Self::Settled(_) => "settled",
            Self::Done(_) => "done",
            Self::Farewell => "farewell",
            Self::KeepAlive => "keep alive",
            Self::Propose(_) => "propose",
            Self::Root(_) => "root",
            Self::Expand(_) => "expand",
            Self::Nodes(_) => "nodes",
            Self::List(_) => "list",
        }
    }
}

/// The hello of a receiver.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// [`crate::limits::VERSION`] of the side that asks.
    pub version: u32,
    /// Names the session on its data streams; in answer to a proposal, the one that was proposed.
    pub session: SessionId,
    /// By what right it asks.
    pub claim: Claim,
    /// Whether a person must agree before content may flow. Never pending with [`TargetView::Comparable`].
    pub consent: Consent,
    /// What the receiver holds where the tree will go. Never [`TargetView::Empty`] in a preview.
    pub target: TargetView,
    /// What is to be listed. In answer to a proposal, that of the proposal counts instead.
    pub selection: Selection,
    /// Whether nothing will be stored: what is settled is what would be. In answer to a proposal, as proposed.
    pub preview: bool,
    /// How many connections the receiver would make; in answer to a proposal, how many it takes. The smaller number
    /// of the two sides counts.
    pub connections: Connections,
    /// The congestion controller that the sender should have on this connection. In answer to a proposal, none.
    pub controller: Option<Controller>,
    /// In answer to a proposal, what the receiver has on this connection.
    pub congestion: Option<Congestion>,
    /// What was listed and changed or vanished before it was read, in a session before that this one takes up: the
    /// sender names what is missing now. No more than fits beside nothing else ([`Fill::add_name`]).
    pub missed: Vec<EntryPath>,
}

/// The hello of a sender that dials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Propose {
    /// [`crate::limits::VERSION`] of the sender.
    pub version: u32,
    /// Names the session on its data streams.
    pub session: SessionId,
    /// Where the tree is to go.
    pub place: Place,
    /// What will be listed.
    pub selection: Selection,
    /// What is to become of the target.
    pub policy: Policy,
    /// How many connections the sender would make.
    pub connections: Connections,
    /// The congestion controller that the receiver should have on this connection.
    pub controller: Option<Controller>,
}

/// Whether content may flow at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Consent {
    /// Content may follow the manifest at once.
    Given,
    /// The sender waits for `accept`.
    Pending,
}

/// What the receiver knows of its target before the manifest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetView {
    /// Nothing is there: every file is needed, no `want` will come for them.
    Empty,
    /// Something is there: content is sent only when wanted.
    Occupied,
    /// The receiver makes a catalogue of what is there: only what differs is listed, and sent when wanted.
    Comparable,
}

/// The hello of the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// [`crate::limits::VERSION`] of the sender.
    pub version: u32,
    /// What was counted when the offer was made; `None` while that is under way. The manifest decides.
    pub estimate: Option<Totals>,
    /// How many connections the sender takes. Of no meaning to one that dialed.
    pub connections: Connections,
    /// What the sender has on this connection.
    pub congestion: Option<Congestion>,
    /// On what the source lies, where that is known.
    pub disk: Option<DiskId>,
}

/// Tells whether a source lies on the file system on which it lay before, without saying which one that is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DiskId(pub [u8; 16]);

/// Why a side ends the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refuse {
    /// The reason.
    pub reason: Reason,
    /// The entry concerned, if one is.
    pub path: Option<EntryPath>,
    /// What was being done and what came, for a person; may be empty.
    pub detail: String,
}

/// A batch of the manifest.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Batch {
    /// Id of the first entry; the others follow it.
    pub first: EntryId,
    /// Entries in manifest order.
    pub entries: Vec<Entry>,
    /// What the sender found and leaves out.
    pub problems: Vec<Problem>,
}

/// Size of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    /// Entries with an id.
    pub entries: u64,
    /// Bytes of content of all files.
    pub bytes: u64,
    /// Problems named in the manifest.
    pub problems: u64,
}

/// A run of consecutive numbers: entry ids, or indexes of ranges or of bytes within a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Run {
    /// The first.
    pub first: u64,
    /// How many, at least 1; `first + count` does not overflow.
    pub count: u64,
}

impl Run {
    /// The numbers.
    pub fn numbers(self) -> std::ops::Range<u64> {
        self.first..self.first + self.count
    }

    /// Appends `number` to `runs`, lengthening the last run when it follows it.
    pub fn append(runs: &mut Vec<Self>, number: u64) {
        match runs.last_mut() {
            Some(last) if last.first + last.count == number => last.count += 1,
            Some(_) | None => runs.push(Self { first: number, count: 1 }),
        }
    }
}

/// What the receiver needs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Want {
    /// Entries whose content it needs: at most [`crate::limits::WINDOW_ENTRIES`] numbers in all.
    pub content: Vec<Run>,
    /// Entries whose hashes it needs, to compare with what it holds; as many at most.
    pub digest: Vec<Run>,
    /// Entries of which it needs parts.
    pub parts: Vec<Parts>,
    /// Entries whose recipe it needs, to make them from what it holds; as many at most.
    pub delta: Vec<Run>,
    /// Groups of chunks that it needs listed.
    pub lists: Vec<Pieces>,
    /// Pieces whose content it needs, none longer than [`crate::limits::RANGE_BYTES`].
    pub pieces: Vec<Pieces>,
}

impl Want {
    /// Whether nothing is wanted.
    pub fn is_empty(&self) -> bool {
        self.content.is_empty()
            && self.digest.is_empty()
            && self.parts.is_empty()
            && self.delta.is_empty()
            && self.lists.is_empty()
            && self.pieces.is_empty()
    }
}

/// Ranges needed of one large file: at most [`crate::limits::PARTS_RUNS`] runs in either list. A file that
/// needs more is named again, in the same message or the next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parts {
    /// The file.
    pub id: EntryId,
    /// Indexes of ranges whose content is needed.
    pub content: Vec<Run>,
    /// Indexes of ranges whose hash is needed, to compare.
    pub digest: Vec<Run>,
}

/// Bytes of one file: at most [`crate::limits::PARTS_RUNS`] runs. A file that needs more is named again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pieces {
    /// The file.
    pub id: EntryId,
    /// Bytes within it; each run is answered for itself.
    pub bytes: Vec<Run>,
}

/// Why bytes are not a message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// The length field exceeds [`crate::limits::MESSAGE_BYTES`].
    #[error("a message of {0} bytes was announced, at most {limit} are allowed", limit = crate::limits::MESSAGE_BYTES)]
    TooLong(u64),
    /// The bytes are not protocol buffers of the expected form.
    #[error("a message could not be decoded: {0}")]
    Malformed(String),
    /// A field is missing, has an unknown value or exceeds its limit.
    #[error("a message has an impossible {0}")]
    Field(&'static str),
    /// An entry path is not one.
    #[error("a message has an impossible path: {0}")]
    Path(#[from] crate::path::PathError),
}
