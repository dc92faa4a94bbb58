//! The messages by which two catalogues are compared: the sender's side of the tree, level by level.

use super::{Run, Totals};
use crate::difference::RangeHash;

/// The root of the sender's catalogue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Root {
    /// Hash of everything.
    pub hash: RangeHash,
    /// How many levels of nodes lie above the leaves.
    pub levels: u32,
    /// Size of the tree, and the problems that were named before.
    pub totals: Totals,
}

/// Asks for the children of nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expand {
    /// The level of the nodes, at least 1.
    pub level: u32,
    /// Their indexes on that level, ascending.
    pub nodes: Vec<Run>,
}

/// Children of nodes that were asked for, in order. That they are complete shows in the hash of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nodes {
    /// The level of the children: 0 for leaves.
    pub level: u32,
    /// Index of the first; the others follow it.
    pub first: u64,
    /// Their hashes.
    pub hashes: Vec<RangeHash>,
}

/// Asks for the entries of leaves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct List {
    /// Their indexes, ascending.
    pub leaves: Vec<Run>,
    /// Whether no more will be asked for.
    pub complete: bool,
}
