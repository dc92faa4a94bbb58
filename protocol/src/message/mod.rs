//! Control messages of a session: what the two sides tell each other beside the content itself.
//!
//! [`Message`] holds parsed values only. [`encode`] and [`Frames`] turn it into bytes and back; the bytes are
//! described in `docs/wire-format.md`.

mod fill;
mod frame;
mod wire;

use std::fmt;

pub use fill::Fill;
pub use frame::{Frames, encode};

use crate::{
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
    /// Dialer to listener, first: who asks for what.
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
        }
    }
}

/// The hello of a receiver that dials.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// [`crate::limits::VERSION`] of the side that asks.
    pub version: u32,
    /// Names the session on its data streams.
    pub session: SessionId,
    /// Proves that the receiver holds the ticket.
    pub secret: Secret,
    /// Whether a person must agree before content may flow.
    pub consent: Consent,
    /// What the receiver holds where the tree will go.
    pub target: TargetView,
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
}

/// The hello of the sender.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// [`crate::limits::VERSION`] of the sender.
    pub version: u32,
    /// What was counted when the offer was made; `None` while that is under way. The manifest decides.
    pub estimate: Option<Totals>,
}

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

/// What became of entries.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// Stored as listed, under their final names.
    pub stored: Vec<Run>,
    /// There already, equal, and left alone.
    pub kept: Vec<Run>,
    /// Not stored as listed.
    pub problems: Vec<(EntryId, Problem)>,
    /// Found when directories were completed, after they were settled; each counts as listed and failed.
    pub late: Vec<Problem>,
}

impl Settled {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        self.stored.is_empty() && self.kept.is_empty() && self.problems.is_empty() && self.late.is_empty()
    }
}

/// The account of a session: `sent + kept + skipped + failed = listed`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Entries and problems of the manifest.
    pub listed: u64,
    /// Stored in this session.
    pub sent: u64,
    /// Equal ones that were there already.
    pub kept: u64,
    /// Left out on purpose: special files, different ones that were kept.
    pub skipped: u64,
    /// Could not be read or written.
    pub failed: u64,
}

impl Counts {
    /// Counts a problem on its side of the account.
    pub fn add_problem(&mut self, problem: &Problem) {
        if problem.cause.is_skip() {
            self.skipped += 1;
        } else {
            self.failed += 1;
        }
    }

    /// Whether every listed entry is stored or was there.
    pub fn is_complete(&self) -> bool {
        self.sent + self.kept == self.listed
    }
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
