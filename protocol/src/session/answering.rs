//! What a sender says of its catalogue when it is compared: each node and each leaf once, as it is asked.

use std::{collections::VecDeque, sync::Arc};

use super::Violation;
use crate::{
    difference::{AskError, Catalogue, Children},
    limits::BATCH_BYTES,
    manifest::Entry,
    message::{Expand, Fill, List, Nodes, Root, Run, Totals},
};

/// Most hashes in a message of nodes.
const HASHES: usize = BATCH_BYTES / 16;

/// What was asked of a catalogue, and the entries that are still to be announced.
#[derive(Debug)]
pub(super) struct Answering {
    catalogue: Arc<Catalogue>,
    /// What may be expanded next lies on a lower level, or on this one behind this node.
    expanded: Option<(u32, u64)>,
    /// Leaves that may be asked for begin here.
    next_leaf: u64,
    /// Leaves that were asked for and not begun.
    asked: VecDeque<Run>,
    /// Entries of the leaf that is being announced.
    waiting: VecDeque<Entry>,
    complete: bool,
}

impl Answering {
    pub(super) fn new(catalogue: Arc<Catalogue>) -> Self {
        Self {
            catalogue,
            expanded: None,
            next_leaf: 0,
            asked: VecDeque::new(),
            waiting: VecDeque::new(),
            complete: false,
        }
    }

    /// The root, of a tree with these problems.
    pub(super) fn root(&self, problems: u64) -> Root {
        let totals = Totals { problems, ..self.catalogue.totals() };
        Root { hash: self.catalogue.root(), levels: self.catalogue.levels(), totals }
    }

    /// The children of nodes, in messages that fit.
    pub(super) fn expand(&mut self, expand: &Expand) -> Result<Vec<Nodes>, Violation> {
        let Expand { level, nodes } = expand;
        let next = match self.expanded {
            Some((last, _)) if last < *level => return Err(repeated(*level, nodes)),
            Some((last, next)) if last == *level => next,
            Some(_) | None => 0,
        };
        let end = check_behind(*level, nodes, next)?;
        let children = self.catalogue.children(*level, nodes)?;
        self.expanded = Some((*level, end));
        Ok(children.iter().flat_map(cut).collect())
    }

    /// Notes leaves whose entries are to be announced.
    pub(super) fn list(&mut self, list: List) -> Result<(), Violation> {
        let end = check_behind(0, &list.leaves, self.next_leaf)?;
        // Found to be there, before any is announced.
        drop(self.catalogue.leaf_entries(&list.leaves)?);
        self.next_leaf = end;
        self.asked.extend(list.leaves);
        self.complete = list.complete;
        Ok(())
    }

    /// Whether more leaves may be asked for.
    pub(super) fn may_list(&self) -> bool {
        !self.complete
    }

    /// Whether entries wait to be announced.
    pub(super) fn is_asked(&self) -> bool {
        !self.waiting.is_empty() || !self.asked.is_empty()
    }

    /// Whether everything was announced that will ever be asked for.
    pub(super) fn is_exhausted(&self) -> bool {
        self.complete && !self.is_asked()
    }

    /// The next entries that fill a batch: no more than `room`.
    pub(super) fn next_entries(&mut self, room: u64) -> Vec<Entry> {
        let (mut entries, mut fill) = (Vec::new(), Fill::default());
        while (entries.len() as u64) < room && !fill.is_full() {
            let Some(entry) = self.next_entry() else { break };
            fill.add_entry(&entry);
            entries.push(entry);
        }
        entries
    }

    fn next_entry(&mut self) -> Option<Entry> {
        while self.waiting.is_empty() {
            let leaf = self.next_leaf()?;
            let entries = self.catalogue.leaf_entries(&[Run { first: leaf, count: 1 }]);
            self.waiting = entries.expect("it was found to be there when it was asked for").collect();
        }
        self.waiting.pop_front()
    }

    fn next_leaf(&mut self) -> Option<u64> {
        let run = self.asked.front_mut()?;
        let leaf = run.first;
        run.first += 1;
        run.count -= 1;
        if run.count == 0 {
            self.asked.pop_front();
        }
        Some(leaf)
    }
}

/// Where what is asked next may begin, when these runs begin at `next` or behind it.
fn check_behind(level: u32, runs: &[Run], next: u64) -> Result<u64, Violation> {
    match (runs.first(), runs.last()) {
        (Some(first), Some(last)) if first.first >= next => Ok(last.numbers().end),
        (None, _) | (_, None) => Ok(next),
        (Some(_), Some(_)) => Err(repeated(level, runs)),
    }
}

fn repeated(level: u32, runs: &[Run]) -> Violation {
    AskError::Unsorted { level, first: runs.first().map_or(0, |run| run.first) }.into()
}

fn cut<'a>(children: &'a Children<'_>) -> impl Iterator<Item = Nodes> + 'a {
    let (level, first) = (children.level, children.first);
    (0..).step_by(HASHES).zip(children.hashes.chunks(HASHES)).map(move |(offset, hashes)| Nodes {
        level,
        first: first + offset,
        hashes: hashes.to_vec(),
    })
}
