//! One level of a sender's catalogue as it is heard, and what of one's own it is found equal to.

use std::{ops::RangeInclusive, sync::Arc};

use super::{Catalogue, NarrowingError, RangeHash, RangeHasher};
use crate::{
    limits::{NARROWING_NODES, NODE_CHILDREN},
    message::Run,
};

/// A node that a sender has named.
#[derive(Debug, Clone, Copy)]
pub(super) struct Node {
    pub(super) index: u64,
    pub(super) hash: RangeHash,
}

/// The nodes of one level that are not also here.
#[derive(Debug)]
pub(super) enum Unmatched {
    /// At least level 1: what is below them is asked, and checked against their hashes.
    Nodes { level: u32, nodes: Vec<Node> },
    /// Their entries are asked for.
    Leaves(Vec<Run>),
}

impl Unmatched {
    pub(super) fn new(level: u32) -> Self {
        match level {
            0 => Self::Leaves(Vec::new()),
            level => Self::Nodes { level, nodes: Vec::new() },
        }
    }

    pub(super) fn push(&mut self, node: Node) -> Result<(), NarrowingError> {
        match self {
            Self::Nodes { level, nodes } if nodes.len() >= NARROWING_NODES => {
                return Err(NarrowingError::TooMany { level: *level });
            }
            Self::Nodes { nodes, .. } => nodes.push(node),
            // Few: a gap between two runs takes a match, and each node of one's own matches once.
            Self::Leaves(runs) => Run::append(runs, node.index),
        }
        Ok(())
    }
}

/// The children of the nodes asked for, which come in order.
#[derive(Debug)]
pub(super) struct Hearing {
    /// Of the children.
    level: u32,
    asked: std::vec::IntoIter<Node>,
    /// The node whose children are coming; none when all have come.
    parent: Option<Parent>,
    /// The index after the last child heard.
    next: u64,
    lookup: Lookup,
    /// The last of one's own nodes that was found equal.
    last_match: Option<usize>,
    unmatched: Unmatched,
}

/// A node asked for, and its children so far.
#[derive(Debug)]
struct Parent {
    node: Node,
    /// Nodes between the one asked for before and this one: their children were not asked for.
    skipped: u64,
    children: RangeHasher,
    count: usize,
}

impl Parent {
    fn new(node: Node, skipped: u64) -> Self {
        Self { node, skipped, children: RangeHasher::node(), count: 0 }
    }

    /// Where its next child can be when the last one heard ends at `next`: there, or, where nodes were
    /// skipped, as far behind as their 1 to [`NODE_CHILDREN`] children reach.
    fn place(&self, next: u64) -> RangeInclusive<u64> {
        let skipped = if self.count == 0 { self.skipped } else { 0 };
        let farthest = skipped.saturating_mul(NODE_CHILDREN as u64);
        next.saturating_add(skipped)..=next.saturating_add(farthest)
    }

    /// Takes a child. The children end where their hash is that of the node.
    fn add(&mut self, child: RangeHash) -> Family {
        self.children.update(&child.0);
        self.count += 1;
        if self.children.finish() == self.node.hash {
            Family::Whole
        } else if self.count < NODE_CHILDREN {
            Family::Growing
        } else {
            Family::Forged
        }
    }
}

/// What the children of a node are, as far as they have come.
enum Family {
    Growing,
    Whole,
    /// There are no more, and these are not those of the node.
    Forged,
}

impl Hearing {
    pub(super) fn new(level: u32, asked: Vec<Node>, own: &Own) -> Self {
        let mut hearing = Self {
            level,
            asked: asked.into_iter(),
            parent: None,
            next: 0,
            lookup: own.lookup(level),
            last_match: None,
            unmatched: Unmatched::new(level),
        };
        hearing.next_parent(0);
        hearing
    }

    /// Takes consecutive children from index `first`.
    pub(super) fn hear(
        &mut self,
        own: &mut Own,
        level: u32,
        first: u64,
        hashes: &[RangeHash],
    ) -> Result<(), NarrowingError> {
        if level != self.level {
            return Err(NarrowingError::Unasked { level });
        }
        if hashes.is_empty() {
            return Err(NarrowingError::Empty { level });
        }
        // The first is checked before the others can be counted from it.
        (0..).zip(hashes).try_for_each(|(offset, &hash)| {
            self.hear_node(own, Node { index: first.saturating_add(offset), hash })
        })
    }

    /// Whether all children of all nodes asked for have come.
    pub(super) fn is_complete(&self) -> bool {
        self.parent.is_none()
    }

    /// What is to be asked further.
    pub(super) fn take_unmatched(&mut self) -> Unmatched {
        std::mem::replace(&mut self.unmatched, Unmatched::new(self.level))
    }

    fn hear_node(&mut self, own: &mut Own, node: Node) -> Result<(), NarrowingError> {
        let level = self.level;
        let parent = self.parent.as_mut().ok_or(NarrowingError::Unasked { level })?;
        let place = parent.place(self.next);
        // The highest number is no index, so that every index has one after it.
        if !place.contains(&node.index) || node.index == u64::MAX {
            return Err(NarrowingError::Misplaced { level, got: node.index, expected: *place.start() });
        }
        self.next = node.index + 1;
        match parent.add(node.hash) {
            Family::Growing => {}
            Family::Whole => {
                let after = parent.node.index + 1;
                self.next_parent(after);
            }
            Family::Forged => {
                return Err(NarrowingError::Forged { level: level + 1, index: parent.node.index });
            }
        }
        self.compare(own, node)
    }

    fn compare(&mut self, own: &mut Own, node: Node) -> Result<(), NarrowingError> {
        let Some(equal) = self.lookup.find(node.hash) else {
            return self.unmatched.push(node);
        };
        if self.last_match.is_some_and(|last| last >= equal) {
            return Err(NarrowingError::Order { level: self.level, index: node.index });
        }
        self.last_match = Some(equal);
        own.cover(self.level, equal);
        Ok(())
    }

    /// Goes to the next node asked for; `after` is the index after the last one.
    fn next_parent(&mut self, after: u64) {
        self.parent = self.asked.next().map(|node| Parent::new(node, node.index - after));
    }
}

/// One's own catalogue, and which of its leaves are equal to what the sender has.
#[derive(Debug)]
pub(super) struct Own {
    catalogue: Arc<Catalogue>,
    covered: Vec<bool>,
}

impl Own {
    pub(super) fn new(catalogue: Arc<Catalogue>) -> Self {
        let covered = vec![false; catalogue.hashes(0).len()];
        Self { catalogue, covered }
    }

    pub(super) fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    pub(super) fn lookup(&self, level: u32) -> Lookup {
        Lookup::new(Arc::clone(&self.catalogue), level)
    }

    /// Notes that a node is equal to one of the sender's.
    pub(super) fn cover(&mut self, level: u32, index: usize) {
        self.covered[self.catalogue.leaves_below(level, index)].fill(true);
    }

    pub(super) fn is_covered(&self) -> bool {
        self.covered.iter().all(|&covered| covered)
    }

    pub(super) fn uncovered(&self) -> Vec<Run> {
        let mut runs = Vec::new();
        let leaves = (0..).zip(&self.covered).filter(|(_, covered)| !**covered);
        leaves.for_each(|(leaf, _)| Run::append(&mut runs, leaf));
        runs
    }
}

/// Finds nodes of one level of one's own catalogue by their hashes. What is open is not among them.
#[derive(Debug)]
pub(super) struct Lookup {
    catalogue: Arc<Catalogue>,
    level: u32,
    /// Indexes of the nodes, ascending by hash.
    sorted: Vec<usize>,
}

impl Lookup {
    fn new(catalogue: Arc<Catalogue>, level: u32) -> Self {
        let hashes = catalogue.hashes(level);
        let mut sorted: Vec<usize> =
            (0..hashes.len()).filter(|&index| !catalogue.is_open_at(level, index)).collect();
        sorted.sort_unstable_by_key(|&index| hashes[index]);
        Self { catalogue, level, sorted }
    }

    /// The index of the node of that hash.
    pub(super) fn find(&self, hash: RangeHash) -> Option<usize> {
        let hashes = self.catalogue.hashes(self.level);
        let found = self.sorted.binary_search_by_key(&hash, |&index| hashes[index]);
        found.ok().map(|place| self.sorted[place])
    }
}
