//! Says what would become of announced entries, without a target that could be written: it knows the listing
//! of what is there, and nothing else.

use std::sync::Arc;

use ketch_protocol::{
    manifest::{Entry, EntryId},
    message::{Fate, Removal},
    problem::{Cause, Problem},
    session::receiver::Outcome,
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    beside::{Beside, approve},
    known_tree::is_excluded,
    moves::Moves,
    planning::{Comparison, Order},
    receiving::Work,
    store::Stored,
};
use crate::tree::{Decision, Filter, Handling, Over, Own, Skip, decide};

/// What is previewed.
#[derive(Debug)]
pub(super) struct Previewed {
    /// What would be done with what differs.
    pub(super) handling: Handling,
    /// What takes part.
    pub(super) filter: Filter,
    /// What would be removed.
    pub(super) removal: Removal,
    /// Whether content that is missing would be looked for under other names of the target.
    pub(super) find_moves: bool,
}

/// Previews one batch after another until the session ends.
pub(super) fn preview_all(
    previewed: Previewed,
    mut orders: mpsc::UnboundedReceiver<Order>,
    report: &mpsc::Sender<Work>,
) {
    let (mut comparison, mut next) = Comparison::receive(&mut orders);
    let spared = std::mem::take(&mut comparison.spared);
    let beside = comparison.beside(previewed.removal, spared);
    let moves = comparison.moves(previewed.find_moves);
    let mut preview = Preview { previewed, beside, moves, own_entries: comparison.own_entries };
    while let Some(order) = next {
        if preview.follow(order, report).is_none() {
            return;
        }
        next = orders.blocking_recv();
    }
}

struct Preview<I: Iterator> {
    previewed: Previewed,
    beside: Beside<I>,
    moves: Moves,
    own_entries: u64,
}

impl<I: Iterator<Item = Entry>> Preview<I> {
    /// Does as it is told; `None` when there is nothing more to do.
    fn follow(&mut self, order: Order, report: &mpsc::Sender<Work>) -> Option<()> {
        match order {
            // Nothing waits for anything where nothing is done.
            Order::Compared { .. } | Order::Others { .. } => Some(()),
            Order::Spare(path) => {
                self.beside.spare(&path);
                Some(())
            }
            Order::Plan { first, entries } => {
                let (stored, bytes) = self.plan(first, &entries);
                report.blocking_send(Work::Planned { bytes }).ok()?;
                report.blocking_send(Work::Stored(stored)).ok()
            }
            Order::Finish { listed } => {
                let extras = self.beside.take_extras();
                let extra: Vec<_> = extras.paths().cloned().collect();
                let work = match approve(extras, self.previewed.removal, listed, self.own_entries) {
                    Err(stop) => {
                        // It is refused as the real run would be, and said what that would have removed.
                        report.blocking_send(Work::Removed(extra)).ok()?;
                        Work::Stop(stop)
                    }
                    Ok(approved) => {
                        let paths = approved.iter().flat_map(|approved| approved.paths()).cloned().collect();
                        report.blocking_send(Work::Removed(paths)).ok()?;
                        Work::Finished { late: Vec::new(), ready: Instant::now() }
                    }
                };
                // The session has ended if nobody takes it.
                let _ = report.blocking_send(work);
                None
            }
        }
    }

    /// What would become of a batch, and the bytes of content that would cross for it.
    fn plan(&mut self, first: EntryId, entries: &[Arc<Entry>]) -> (Stored, u64) {
        let (mut stored, mut bytes) = (Stored::default(), 0);
        for (entry, id) in entries.iter().zip(first.0..) {
            let outcome = self.plan_entry(entry);
            let is_stored = matches!(outcome, Outcome::Created | Outcome::Updated);
            if is_stored && self.moves.find(entry).is_none() {
                bytes += entry.size();
            }
            stored.outcomes.push((EntryId(id), outcome));
        }
        (stored, bytes)
    }

    fn plan_entry(&mut self, entry: &Entry) -> Outcome {
        let own = self.beside.at(&entry.path);
        if is_excluded(&self.previewed.filter, entry) {
            return Outcome::Skipped;
        }
        let standing = own.as_ref().map_or(Own::Nothing, Own::Entry);
        match decide(entry, standing, &self.previewed.handling) {
            Decision::Keep => Fate::Kept.into(),
            Decision::Describe => Fate::Described.into(),
            Decision::Store(Over::Nothing) => Fate::Created.into(),
            // A hash is missing of a file that could not be read: its content would be asked for.
            Decision::Digest | Decision::Store(Over::File | Over::Other) => Fate::Updated.into(),
            Decision::Store(Over::Directory) => {
                own.iter().for_each(|own| self.beside.is_extra(own));
                // It is removed as one of those that are in the way.
                Fate::Created.into()
            }
            Decision::Skip(skip) if skip.is_wanted() => Fate::Skipped.into(),
            Decision::Skip(skip) => {
                Outcome::Problem(Problem::new(entry.path.clone(), Cause::Exists, in_the_way(skip)))
            }
        }
    }
}

fn in_the_way(skip: Skip) -> &'static str {
    match skip {
        Skip::Directory => "a directory is in the way",
        Skip::Different | Skip::Newer | Skip::Existing | Skip::Missing => {
            "its kind, length, content or target differs"
        }
    }
}
