//! The finished catalogue of a tree: what it holds, and what a peer may ask of it.

use std::ops::Range;

use super::{
    RangeHash,
    leaf::{Knowledge, Leaf},
};
use crate::{
    manifest::Entry,
    message::{Run, Totals},
    path::EntryPath,
};

/// What the allocator adds to each leaf, in bytes: glibc's header, and half of the 16 it rounds up to.
const ALLOCATION_BYTES: usize = 16;

/// The entries of a tree in leaves, and the hashes above them.
///
/// Level 0 are the leaves, at least one; the only node of level [`Self::levels`] is the root. In a tree of one
/// leaf, level 0 is both. Takes some 60 bytes an entry with names of ten bytes.
#[derive(Debug)]
pub struct Catalogue {
    leaves: Vec<Leaf>,
    levels: Vec<Level>,
    totals: Totals,
}

/// Consecutive nodes of one level.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Children<'a> {
    /// Their level: one below the nodes that were asked for.
    pub level: u32,
    /// Index of the first within its level.
    pub first: u64,
    /// Their hashes.
    pub hashes: &'a [RangeHash],
}

/// Why a catalogue has no answer: the peer that asks does not go by what it was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AskError {
    /// There are no such nodes.
    #[error("{count} nodes of level {level} from node {first} were asked for, there are {width}")]
    NoSuchNodes {
        /// The level.
        level: u32,
        /// Index of the first.
        first: u64,
        /// How many.
        count: u64,
        /// How many nodes the level has.
        width: u64,
    },
    /// A node is asked for twice, or after one that follows it.
    #[error("node {first} of level {level} was asked for out of order")]
    Unsorted {
        /// The level.
        level: u32,
        /// Index of the first of the run.
        first: u64,
    },
    /// Nothing but entries lies below a leaf.
    #[error("nodes below leaves were asked for")]
    BelowLeaves,
}

impl Catalogue {
    pub(super) fn new(leaves: Vec<Leaf>, levels: Vec<Level>, totals: Totals) -> Self {
        Self { leaves, levels, totals }
    }

    /// The hash of the whole tree.
    pub fn root(&self) -> RangeHash {
        let hashes = self.levels.last().map(Level::hashes).unwrap_or_default();
        *hashes.first().expect("a catalogue has a root")
    }

    /// The level of the root: 0 when all entries, or none, are in one leaf.
    pub fn levels(&self) -> u32 {
        (self.levels.len() - 1) as u32
    }

    /// Entries, and bytes of files. Problems are the caller's to count: 0 here.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether a file of unknown content is in it, so that it equals no other.
    pub fn is_open(&self) -> bool {
        self.levels.last().is_some_and(|level| level.is_open(0))
    }

    /// How many nodes a level has: 0 above the root.
    pub fn width(&self, level: u32) -> u64 {
        self.hashes(level).len() as u64
    }

    /// The nodes below the given ones of a level: one item for each run, which must ascend.
    ///
    /// An answer is bounded by the level below, but nothing hinders a peer to ask again: who answers keeps
    /// count.
    pub fn children(&self, level: u32, runs: &[Run]) -> Result<Vec<Children<'_>>, AskError> {
        let below = level.checked_sub(1).ok_or(AskError::BelowLeaves)?;
        self.check(level, runs)?;
        let children = |run: &Run| {
            let span = self.levels[level as usize].children(span_of(*run));
            Children { level: below, first: span.start as u64, hashes: &self.hashes(below)[span] }
        };
        Ok(runs.iter().map(children).collect())
    }

    /// The entries of leaves, in order. The runs must ascend.
    pub fn leaf_entries(&self, runs: &[Run]) -> Result<impl Iterator<Item = Entry> + use<'_>, AskError> {
        self.check(0, runs)?;
        let spans: Vec<Range<usize>> = runs.iter().map(|run| span_of(*run)).collect();
        Ok(spans.into_iter().flat_map(|span| &self.leaves[span]).flat_map(Leaf::entries))
    }

    /// All entries, in order.
    pub fn entries(&self) -> impl Iterator<Item = Entry> {
        self.leaves.iter().flat_map(Leaf::entries)
    }

    /// The entry of a path, if there is one.
    pub fn find(&self, path: &EntryPath) -> Option<Entry> {
        let wanted = path.as_bytes();
        let after =
            self.leaves.partition_point(|leaf| crate::path::compare(leaf.first_path(), wanted).is_le());
        self.leaves[after.checked_sub(1)?].entries().find(|entry| entry.path == *path)
    }

    /// Bytes of memory that it takes.
    pub fn held_bytes(&self) -> usize {
        let leaf = |leaf: &Leaf| leaf.held_bytes() + size_of::<Leaf>() + ALLOCATION_BYTES;
        let spare = (self.leaves.capacity() - self.leaves.len()) * size_of::<Leaf>();
        self.leaves.iter().map(leaf).sum::<usize>()
            + spare
            + self.levels.iter().map(Level::held_bytes).sum::<usize>()
    }

    /// The hashes of a level; none above the root.
    pub(super) fn hashes(&self, level: u32) -> &[RangeHash] {
        self.levels.get(level as usize).map(Level::hashes).unwrap_or_default()
    }

    /// Whether a node holds a file of unknown content.
    pub(super) fn is_open_at(&self, level: u32, index: usize) -> bool {
        self.levels[level as usize].is_open(index)
    }

    /// The leaves below a node, itself when it is one.
    pub(super) fn leaves_below(&self, level: u32, index: usize) -> Range<usize> {
        let levels = self.levels[1..=level as usize].iter().rev();
        levels.fold(index..index + 1, |span, level| level.children(span))
    }

    #[cfg(test)]
    pub(super) fn leaf_bytes(&self, index: usize) -> &[u8] {
        self.leaves[index].as_bytes()
    }

    fn check(&self, level: u32, runs: &[Run]) -> Result<(), AskError> {
        let width = self.width(level);
        let mut next = 0;
        for &Run { first, count } in runs {
            if first.checked_add(count).is_none_or(|end| end > width) {
                return Err(AskError::NoSuchNodes { level, first, count, width });
            }
            if first < next {
                return Err(AskError::Unsorted { level, first });
            }
            next = first + count;
        }
        Ok(())
    }
}

/// A checked run as indexes in memory.
fn span_of(run: Run) -> Range<usize> {
    let index = |number| usize::try_from(number).expect("a checked run lies within a level in memory");
    let numbers = run.numbers();
    index(numbers.start)..index(numbers.end)
}

/// The nodes of one level.
#[derive(Debug, Default)]
pub(super) struct Level {
    hashes: Vec<RangeHash>,
    is_open: Vec<bool>,
    /// Above leaves: for each node, the index after its last child.
    ends: Vec<usize>,
}

impl Level {
    pub(super) fn push(&mut self, hash: RangeHash, knowledge: Knowledge) {
        self.hashes.push(hash);
        self.is_open.push(knowledge == Knowledge::Open);
    }

    /// Says where the children of the node just pushed end.
    pub(super) fn end_children(&mut self, end: usize) {
        self.ends.push(end);
    }

    pub(super) fn width(&self) -> usize {
        self.hashes.len()
    }

    pub(super) fn hashes(&self) -> &[RangeHash] {
        &self.hashes
    }

    pub(super) fn is_open(&self, index: usize) -> bool {
        self.is_open[index]
    }

    pub(super) fn shrink_to_fit(&mut self) {
        self.hashes.shrink_to_fit();
        self.is_open.shrink_to_fit();
        self.ends.shrink_to_fit();
    }

    /// The children of consecutive nodes.
    fn children(&self, nodes: Range<usize>) -> Range<usize> {
        let begin = |index: usize| index.checked_sub(1).map_or(0, |before| self.ends[before]);
        begin(nodes.start)..begin(nodes.end)
    }

    fn held_bytes(&self) -> usize {
        self.hashes.capacity() * size_of::<RangeHash>()
            + self.is_open.capacity()
            + self.ends.capacity() * size_of::<usize>()
    }
}
