//! The receiver's side of a comparison: what to ask next, and what is equal in the end.

use std::sync::Arc;

use super::{
    Catalogue, RangeHash,
    hearing::{Hearing, Node, Own, Unmatched},
};
use crate::{
    limits::{LEVELS, NARROWING_NODES},
    manifest::Entry,
    message::Run,
};

/// Compares the catalogue of a sender with one's own, a level at a time from the root down.
///
/// Call [`Self::hear_root`] once, then [`Self::hear_nodes`] with all that comes, and do what each [`Step`]
/// says. What the sender says is checked against the hashes that it said before, so that a sender can only
/// describe a tree, and one that it makes up costs no more memory than [`NARROWING_NODES`] allows. It may be
/// dropped at any time.
#[derive(Debug)]
pub struct Narrowing {
    own: Own,
    state: State,
}

#[derive(Debug)]
enum State {
    Root,
    Nodes(Box<Hearing>),
    Ended,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// The trees are equal: there is nothing to ask.
    Equal,
    /// Ask for the nodes below these.
    Expand {
        /// The level of the nodes: 1 or more.
        level: u32,
        /// Their indexes, ascending: at least one.
        runs: Vec<Run>,
    },
    /// Ask for the entries of these leaves of the sender. That is all that differs.
    List {
        /// Their indexes, ascending. None when the sender has nothing that is not here, equal.
        runs: Vec<Run>,
    },
    /// More of the nodes asked for are to come.
    Wait,
}

/// How a sender contradicts itself, or says what was not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NarrowingError {
    /// No tree is that high.
    #[error("its tree has {0} levels, at most {LEVELS} are possible")]
    Levels(u32),
    /// No nodes are expected, or those of another level.
    #[error("it said nodes of level {level} that were not asked for")]
    Unasked {
        /// The level it said.
        level: u32,
    },
    /// A message of nodes names none.
    #[error("it said no nodes of level {level} where some were asked for")]
    Empty {
        /// The level it said.
        level: u32,
    },
    /// No node asked for can have a child there.
    #[error("it said node {got} of level {level} where node {expected} or one soon after must come")]
    Misplaced {
        /// The level.
        level: u32,
        /// The index it said.
        got: u64,
        /// The lowest that is possible.
        expected: u64,
    },
    /// The nodes said to be below a node are not those that it named by its hash.
    #[error("the nodes that it said are below node {index} of level {level} are others than it said before")]
    Forged {
        /// The level of the node above.
        level: u32,
        /// Its index.
        index: u64,
    },
    /// Nodes that are also here came twice or in another order, which no sorted list of paths can have.
    #[error("node {index} of level {level} repeats what it said before, or belongs before it")]
    Order {
        /// The level.
        level: u32,
        /// The index it said.
        index: u64,
    },
    /// More than [`NARROWING_NODES`] nodes of a level differ.
    #[error("more than {NARROWING_NODES} of its nodes of level {level} differ")]
    TooMany {
        /// The level.
        level: u32,
    },
}

impl Narrowing {
    /// Compares with `own`.
    pub fn new(own: Arc<Catalogue>) -> Self {
        Self { own: Own::new(own), state: State::Root }
    }

    /// Hears the root of the sender's catalogue and its level.
    pub fn hear_root(&mut self, root: RangeHash, levels: u32) -> Result<Step, NarrowingError> {
        if levels > LEVELS {
            return Err(NarrowingError::Levels(levels));
        }
        if !matches!(self.state, State::Root) {
            return Err(NarrowingError::Unasked { level: levels });
        }
        // The sender's whole tree may also be a part of this one.
        if let Some(index) = self.own.lookup(levels).find(root) {
            self.own.cover(levels, index);
            let rest = self.end(Vec::new());
            return Ok(if self.own.is_covered() { Step::Equal } else { rest });
        }
        let mut unmatched = Unmatched::new(levels);
        unmatched.push(Node { index: 0, hash: root })?;
        Ok(self.go_on(unmatched))
    }

    /// Hears nodes of a level, consecutive ones from index `first`. They are the children of nodes asked for,
    /// in the order of asking; a message ends at the latest where the next child does not follow by index.
    pub fn hear_nodes(
        &mut self,
        level: u32,
        first: u64,
        hashes: &[RangeHash],
    ) -> Result<Step, NarrowingError> {
        let State::Nodes(hearing) = &mut self.state else {
            return Err(NarrowingError::Unasked { level });
        };
        hearing.hear(&mut self.own, level, first, hashes)?;
        if !hearing.is_complete() {
            return Ok(Step::Wait);
        }
        let unmatched = hearing.take_unmatched();
        Ok(self.go_on(unmatched))
    }

    /// The leaves of one's own catalogue that no part of the sender's was found equal to, ascending. They are
    /// final after [`Step::Equal`] and [`Step::List`].
    pub fn unmatched_leaves(&self) -> Vec<Run> {
        self.own.uncovered()
    }

    /// The entries of those leaves, in order: everything that differs at the sender or is not there, and some
    /// that are equal and will be listed.
    pub fn unmatched_entries(&self) -> impl Iterator<Item = Entry> {
        let runs = self.own.uncovered();
        self.own.catalogue().leaf_entries(&runs).expect("the leaves are its own, ascending")
    }

    /// All of its own entries, in order.
    pub fn own_entries(&self) -> impl Iterator<Item = Entry> {
        self.own.catalogue().entries()
    }

    fn go_on(&mut self, unmatched: Unmatched) -> Step {
        match unmatched {
            Unmatched::Nodes { level, nodes } if !nodes.is_empty() => {
                let mut runs = Vec::new();
                nodes.iter().for_each(|node| Run::append(&mut runs, node.index));
                self.state = State::Nodes(Box::new(Hearing::new(level - 1, nodes, &self.own)));
                Step::Expand { level, runs }
            }
            Unmatched::Nodes { .. } => self.end(Vec::new()),
            Unmatched::Leaves(runs) => self.end(runs),
        }
    }

    fn end(&mut self, runs: Vec<Run>) -> Step {
        self.state = State::Ended;
        Step::List { runs }
    }
}
