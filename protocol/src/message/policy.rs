//! What a receiver does with what it is listed. It crosses in a proposal, where the other side's person decides.

/// What becomes of the target. The receiver may do less than this, and never does more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// What is removed.
    pub removal: Removal,
    /// Whether only what is there is brought up to date, and nothing is made.
    pub existing: bool,
    /// Whether only what is missing is made, and what is there is left alone.
    pub ignore_existing: bool,
    /// Whether a file that was changed later than the one listed is left alone.
    pub update: bool,
    /// When a file that is there counts as equal.
    pub equality: Equality,
    /// Whether content that is missing is looked for under other names.
    pub find_moves: bool,
    /// Whether a changed file is made from its old content and what differs.
    pub delta: bool,
    /// Whether nothing is written: the receiver says what it would do.
    pub preview: bool,
    /// When what was stored is on its disk.
    pub durability: Durability,
}

impl Default for Policy {
    /// Adds and updates, by content, with deltas.
    fn default() -> Self {
        Self {
            removal: Removal::Nothing,
            existing: false,
            ignore_existing: false,
            update: false,
            equality: Equality::Content,
            find_moves: false,
            delta: true,
            preview: false,
            durability: Durability::Session,
        }
    }
}

/// What is removed from a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Removal {
    /// Nothing.
    #[default]
    Nothing,
    /// What the sender does not list.
    Extra {
        /// How much of it at most; more is a mistake, and then nothing is removed.
        limit: RemovalLimit,
        /// Whether an empty source may empty the target.
        force_empty: bool,
    },
}

/// How much may be removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RemovalLimit {
    /// Half of a tree of more than twenty entries; all of a smaller one.
    #[default]
    Default,
    /// This many entries.
    Entries(u64),
    /// This part of the target's entries, 0 to 100.
    Percent(u8),
}

/// When a file that is there counts as equal to one that is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Equality {
    /// When both have the same content, by hashes that are known or made for it.
    #[default]
    Content,
    /// When both have the same size.
    Size,
    /// When both have the same content, by hashes made for it, whatever is known.
    Checksum,
}

/// When what was stored is on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Whenever the system pleases.
    None,
    /// At the end of the session.
    #[default]
    Session,
    /// Each file before its name appears, and all names at the end of the session.
    File,
}
