//! What can go wrong: with one entry ([`Problem`]) or with a whole session ([`Reason`]). Both cross the wire
//! as the codes of `docs/wire-format.md`; this file is the one place that maps them.

use std::fmt;

use crate::{
    limits::DETAIL_BYTES,
    path::{EntryPath, escape},
};

/// Most bytes of an encoded problem beside its path and detail: the tag and length of the problem (4), then
/// each field's tag and longest number (`docs/wire-format.md`): id 11, length of path 3, cause 2, length of
/// detail 3.
const FIELD_BYTES: usize = 23;

/// One entry that was not stored as listed, why, and what was seen. It is shown to people on both ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The entry.
    pub path: EntryPath,
    /// Why.
    pub cause: Cause,
    /// What was being done and what came, for a person: one line of at most 1,024 bytes; may be empty.
    pub detail: String,
}

impl Problem {
    /// A problem of `path`; `detail` is cut at its limit.
    pub fn new(path: EntryPath, cause: Cause, detail: impl fmt::Display) -> Self {
        Self { path, cause, detail: cut_detail(detail.to_string()) }
    }

    /// The most bytes it can take in an encoded message.
    pub fn encoded_bound(&self) -> usize {
        FIELD_BYTES + self.path.as_bytes().len() + self.detail.len()
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.cause)?;
        // The other side may have written it.
        if self.detail.is_empty() { Ok(()) } else { write!(f, " ({})", escape(self.detail.as_bytes())) }
    }
}

/// Cuts text for a person to [`DETAIL_BYTES`], at a character.
pub(crate) fn cut_detail(mut detail: String) -> String {
    detail.truncate(detail.floor_char_boundary(DETAIL_BYTES));
    detail
}

/// Gives an enum its wire codes: `code()` and `from_code()` from one table.
macro_rules! wire_codes {
    ($type:ident { $($variant:ident = $code:literal,)+ }) => {
        impl $type {
            /// Every value, in the order of the codes.
            pub const ALL: &[Self] = &[$(Self::$variant,)+];

            /// Its code on the wire.
            pub fn code(self) -> u32 {
                match self { $(Self::$variant => $code,)+ }
            }

            /// The value a code stands for; `None` for a code this version does not know.
            pub fn from_code(code: u32) -> Option<Self> {
                match code { $($code => Some(Self::$variant),)+ _ => None }
            }
        }
    };
}

/// Why one entry was not stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cause {
    /// Neither a file, a directory nor a symlink.
    Special,
    /// Something different is stored under its name and was kept.
    Exists,
    /// The sender may not or could not read it.
    Unreadable,
    /// It was listed, then gone.
    Vanished,
    /// It changed while it was read.
    Changed,
    /// The receiver could not write it.
    Unwritable,
    /// What arrived is not what was read.
    Corrupt,
    /// Its name or link target is outside the limits of the protocol.
    Unrepresentable,
    /// Its content is stored; its mode, times, owner or attributes could not be set.
    Metadata,
    /// The target takes its name for that of another entry.
    Collision,
}

wire_codes!(Cause {
    Special = 1,
    Exists = 2,
    Unreadable = 3,
    Vanished = 4,
    Changed = 5,
    Unwritable = 6,
    Corrupt = 7,
    Unrepresentable = 8,
    Metadata = 9,
    Collision = 10,
});

impl Cause {
    /// Whether the entry was left out on purpose; every other cause is a failure.
    pub fn is_skip(self) -> bool {
        match self {
            Self::Special | Self::Exists => true,
            Self::Unreadable
            | Self::Vanished
            | Self::Changed
            | Self::Unwritable
            | Self::Corrupt
            | Self::Unrepresentable
            | Self::Metadata
            | Self::Collision => false,
        }
    }

    /// Whether the entry was written to while it was read: the next session may find it at rest.
    pub fn is_unsettled(self) -> bool {
        match self {
            Self::Vanished | Self::Changed => true,
            Self::Special
            | Self::Exists
            | Self::Unreadable
            | Self::Unwritable
            | Self::Corrupt
            | Self::Unrepresentable
            | Self::Metadata
            | Self::Collision => false,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Special => "not a file, directory or symlink, skipped",
            Self::Exists => "something different is stored there, kept",
            Self::Unreadable => "could not be read",
            Self::Vanished => "vanished after it was listed",
            Self::Changed => "changed while it was read",
            Self::Unwritable => "could not be written",
            Self::Corrupt => "arrived damaged",
            Self::Unrepresentable => "its name cannot be carried",
            Self::Metadata => "its mode, times, owner or attributes could not be set",
            Self::Collision => "the target takes its name for that of another entry",
        })
    }
}

/// Why a side ended a session early.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// The ticket is unknown, spent, expired, reserved for another peer, or not for this peer; or there is no
    /// such share, or the peer may not do this with it. The reasons are one on purpose: a stranger learns
    /// nothing about what is offered.
    NotAdmitted,
    /// Another protocol version is spoken.
    Version,
    /// The other side broke the protocol.
    Violation,
    /// The person at the receiver said no, or nothing in time.
    Declined,
    /// Stopped by its user.
    Interrupted,
    /// The receiver's file system is full.
    NoSpace,
    /// The receiver's target cannot be written at all.
    ReadOnly,
    /// Nothing was heard in time.
    Timeout,
    /// Something failed on the side that says so.
    Internal,
    /// More would have to be removed from the target than the limit allows.
    RemovalLimit,
    /// The source is empty, and what is in the target would be removed.
    EmptySource,
    /// Another session writes into the same target.
    Busy,
    /// The source lies on another file system than before, as one does whose disk is not mounted, and what it lacks
    /// would be removed from the target.
    OtherSource,
    /// What was asked for is not there, is no directory or can't be opened.
    Unavailable,
}

wire_codes!(Reason {
    NotAdmitted = 1,
    Version = 2,
    Violation = 3,
    Declined = 4,
    Interrupted = 5,
    NoSpace = 6,
    ReadOnly = 7,
    Timeout = 8,
    Internal = 9,
    RemovalLimit = 10,
    EmptySource = 11,
    Busy = 12,
    OtherSource = 13,
    Unavailable = 14,
});

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotAdmitted => "not admitted",
            Self::Version => "another protocol version is spoken",
            Self::Violation => "the protocol was broken",
            Self::Declined => "declined",
            Self::Interrupted => "interrupted",
            Self::NoSpace => "no space left",
            Self::ReadOnly => "the target cannot be written",
            Self::Timeout => "nothing was heard in time",
            Self::Internal => "failed",
            Self::RemovalLimit => "more would be removed than the limit allows",
            Self::EmptySource => "the source is empty and the target would be emptied",
            Self::Busy => "another session writes there",
            Self::OtherSource => "the source lies on another file system than before",
            Self::Unavailable => "it cannot be opened",
        })
    }
}

/// Whose fault an error is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Blame {
    /// The other side broke a rule.
    Peer,
    /// Something on this side failed: a file, a disk, a bug.
    Local,
    /// What the person asked for cannot be had.
    Operator,
    /// The path between the two.
    Network,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_code_stands_for_one_value_and_back() {
        for &cause in Cause::ALL {
            assert_eq!(Cause::from_code(cause.code()), Some(cause));
        }
        for &reason in Reason::ALL {
            assert_eq!(Reason::from_code(reason.code()), Some(reason));
        }
        assert_eq!((Cause::from_code(0), Cause::from_code(11)), (None, None));
        assert_eq!((Reason::from_code(0), Reason::from_code(15)), (None, None));
    }

    #[test]
    fn a_detail_cannot_steer_a_terminal() {
        let path = EntryPath::parse(b"a").unwrap();
        let problem = Problem::new(path, Cause::Unreadable, "gone\x1b[2J\nok");
        assert_eq!(problem.to_string(), "a: could not be read (gone\\u{1b}[2J\\nok)");
    }

    #[test]
    fn a_detail_is_cut_at_a_character() {
        let problem = Problem::new(EntryPath::parse(b"a").unwrap(), Cause::Changed, "ü".repeat(600));
        assert_eq!(problem.detail.len(), DETAIL_BYTES);
        let odd =
            Problem::new(EntryPath::parse(b"a").unwrap(), Cause::Changed, format!("a{}", "ü".repeat(600)));
        assert_eq!(odd.detail.len(), DETAIL_BYTES - 1);
    }
}
