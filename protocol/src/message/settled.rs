//! What became of entries, and the account of a session.

use super::Run;
use crate::{manifest::EntryId, path::EntryPath, problem::Problem};

/// What became of an entry that came to no harm.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fate {
    /// Nothing was there; now it is, as listed.
    Created,
    /// Something different was there; now it is as listed.
    Updated,
    /// Only its mode, times, owner or attributes differed; now it is as listed.
    Described,
    /// It was there already, equal, and was left alone.
    Kept,
    /// It was left out or left alone because the receiver was told to.
    Skipped,
}

/// What became of entries; in a preview, what would have.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Settled {
    /// [`Fate::Created`].
    pub created: Vec<Run>,
    /// [`Fate::Updated`].
    pub updated: Vec<Run>,
    /// [`Fate::Described`].
    pub described: Vec<Run>,
    /// [`Fate::Kept`].
    pub kept: Vec<Run>,
    /// [`Fate::Skipped`].
    pub skipped: Vec<Run>,
    /// Not as listed.
    pub problems: Vec<(EntryId, Problem)>,
    /// Found when directories were completed, after they were settled; each counts as listed and failed.
    pub late: Vec<Problem>,
    /// Was there, was not listed, and is gone: at most [`crate::limits::BATCH_ENTRIES`].
    pub removed: Vec<EntryPath>,
    /// Only in a preview: bytes of content that would have been needed since the last of these messages.
    pub planned_bytes: u64,
}

impl Settled {
    /// Whether it says nothing.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// The entries of one fate.
    pub fn runs_mut(&mut self, fate: Fate) -> &mut Vec<Run> {
        match fate {
            Fate::Created => &mut self.created,
            Fate::Updated => &mut self.updated,
            Fate::Described => &mut self.described,
            Fate::Kept => &mut self.kept,
            Fate::Skipped => &mut self.skipped,
        }
    }

    /// The entries of each fate.
    pub fn fates(&self) -> [(Fate, &[Run]); 5] {
        [
            (Fate::Created, &self.created),
            (Fate::Updated, &self.updated),
            (Fate::Described, &self.described),
            (Fate::Kept, &self.kept),
            (Fate::Skipped, &self.skipped),
        ]
    }
}

/// The account of a session: `sent + kept + skipped + failed = listed`. In a preview it is what it would be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Entries of the sender's tree, announced or not, and problems.
    pub listed: u64,
    /// Created, updated or described in this session.
    pub sent: u64,
    /// Equal ones that were there already.
    pub kept: u64,
    /// Left out on purpose: special files, different ones that were kept, what the receiver was told to skip.
    pub skipped: u64,
    /// Could not be read or written.
    pub failed: u64,
    /// What was there and was not listed, and is gone. Not among those listed.
    pub removed: u64,
    /// Problems among those skipped and failed.
    pub problems: u64,
}

impl Counts {
    /// Counts an entry that came to no harm.
    pub fn add_fate(&mut self, fate: Fate) {
        match fate {
            Fate::Created | Fate::Updated | Fate::Described => self.sent += 1,
            Fate::Kept => self.kept += 1,
            Fate::Skipped => self.skipped += 1,
        }
    }

    /// Counts a problem on its side of the account.
    pub fn add_problem(&mut self, problem: &Problem) {
        self.problems += 1;
        if problem.cause.is_skip() {
            self.skipped += 1;
        } else {
            self.failed += 1;
        }
    }

    /// Whether every listed entry is as it was asked for: stored, there, or left out because the receiver was
    /// told to.
    pub fn is_complete(&self) -> bool {
        self.problems == 0
    }
}
