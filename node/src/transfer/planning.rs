//! Compares announced entries with the target, in their order: the blocking work between the manifest and
//! the content, and at the end the removal of what was not listed.

use std::sync::{Arc, atomic::Ordering};

use ketch_protocol::{
    difference::Narrowing,
    manifest::{Entry, EntryId},
    message::{Fate, Removal, Run, Totals},
    path::EntryPath,
    problem::{Cause, Problem, Reason},
    record::segment::Span,
    session::{Stop, receiver::Outcome},
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    beside::{Beside, approve},
    moves::{Moves, copy},
    rebuilding::Job,
    receiving::Work,
    registry::{self, Awaited, Incoming},
    store::{EndCause, Store, Stored, await_content},
};
use crate::{
    index::Reader,
    tree::{Approved, Link, Plan, Spared, Trouble},
};

/// Paths that are told to be removed at a time.
const REMOVED_AT_A_TIME: usize = 1_024;

/// What the planner is told.
#[derive(Debug)]
pub(super) enum Order {
    /// The trees were compared: what of the target equals nothing of the sender. Comes first, if it comes.
    Compared {
        /// What differs; nothing where there is nothing to do.
        narrowing: Option<Box<Narrowing>>,
        /// Entries of the target before the session.
        own_entries: u64,
    },
    /// The sender or this side has a problem there: nothing is removed at this path or below.
    Spare(EntryPath),
    /// Compare these with the target and make what has no content.
    Plan {
        /// Id of the first; the others follow.
        first: EntryId,
        /// The entries.
        entries: Vec<Arc<Entry>>,
    },
    /// Nothing else is open than what waits for others.
    Others {
        /// All that was listed, once that is complete.
        listed: Option<Totals>,
    },
    /// Everything is settled.
    Finish {
        /// All that was listed.
        listed: Totals,
    },
}

/// What a planner works on.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) store: Arc<Store>,
    /// What the target could take when the session began.
    pub(super) free_bytes: u64,
    /// What is to be removed.
    pub(super) removal: Removal,
    /// Whether content that is missing is looked for under other names of the target.
    pub(super) find_moves: bool,
}

/// Plans one batch after another until the session ends or everything is in place.
pub(super) fn plan_all(task: Task, mut orders: mpsc::UnboundedReceiver<Order>, report: &mpsc::Sender<Work>) {
    let (mut comparison, mut next) = Comparison::receive(&mut orders);
    let spared = std::mem::take(&mut comparison.spared);
    let mut planning = Planning {
        space: Space { free_bytes: task.free_bytes, needed_bytes: 0 },
        beside: comparison.beside(task.removal, spared),
        moves: comparison.moves(task.find_moves),
        known: task.store.reader(),
        task,
        own_entries: comparison.own_entries,
        waiting: Vec::new(),
        approved: None,
        rebuilds: Vec::new(),
    };
    while let Some(order) = next {
        if planning.follow(order, report).is_none() {
            return;
        }
        next = orders.blocking_recv();
    }
}

/// What is told before the first batch.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    narrowing: Option<Box<Narrowing>>,
    /// What may not be removed.
    pub(super) spared: Spared,
    /// Entries of the target before the session.
    pub(super) own_entries: u64,
}

impl Comparison {
    /// Hears it, and the order that follows it.
    pub(super) fn receive(orders: &mut mpsc::UnboundedReceiver<Order>) -> (Self, Option<Order>) {
        let mut heard = Self::default();
        loop {
            match orders.blocking_recv() {
                // The sender's problems come before the comparison.
                Some(Order::Spare(path)) => heard.spared.add(&path),
                Some(Order::Compared { narrowing, own_entries }) => {
                    (heard.narrowing, heard.own_entries) = (narrowing, own_entries);
                }
                next @ (Some(Order::Plan { .. } | Order::Others { .. } | Order::Finish { .. }) | None) => {
                    return (heard, next);
                }
            }
        }
    }

    /// What the target has beside what is announced.
    pub(super) fn beside(&self, removal: Removal, spared: Spared) -> Beside<impl Iterator<Item = Entry>> {
        let own = self.narrowing.iter().flat_map(|narrowing| narrowing.unmatched_entries());
        Beside::new(own, removal, spared)
    }

    /// What may be found again under other names.
    pub(super) fn moves(&self, find_moves: bool) -> Moves {
        let own = self.narrowing.iter().filter(|_| find_moves);
        Moves::of(own.flat_map(|narrowing| narrowing.own_entries()))
    }
}

/// Plans one batch after another.
struct Planning<I: Iterator> {
    task: Task,
    space: Space,
    own_entries: u64,
    /// What the target has beside what is announced.
    beside: Beside<I>,
    moves: Moves,
    /// What is known of a target that is not compared.
    known: Option<Reader>,
    /// What can be planned only after others.
    waiting: Vec<Waiting>,
    approved: Option<Approved>,
    /// Files of the batch at hand that are made from their old versions.
    rebuilds: Vec<(EntryId, Arc<Entry>)>,
}

/// An entry that waits.
type Waiting = (EntryId, Arc<Entry>, Waits);

/// What became of an entry that got its room, if it does not wait for its file, and what is awaited for it.
type Cleared = (Option<Outcome>, Vec<(EntryId, Awaited)>);

/// What an entry waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    /// The file that it is another name of.
    ForFile,
    /// The removal of a directory in its place.
    ForRoom,
}

/// Guards against a disk that cannot hold what is coming.
#[derive(Debug)]
struct Space {
    free_bytes: u64,
    needed_bytes: u64,
}

impl<I: Iterator<Item = Entry>> Planning<I> {
    /// Does as it is told; `None` when there is nothing more to do.
    fn follow(&mut self, order: Order, report: &mpsc::Sender<Work>) -> Option<()> {
        let work = match order {
            Order::Compared { .. } => return Some(()),
            Order::Spare(path) => {
                self.beside.spare(&path);
                return Some(());
            }
            Order::Plan { first, entries } => Work::Stored(self.plan(first, &entries)),
            Order::Others { listed } => match self.plan_others(listed, report) {
                Ok(stored) => Work::Stored(stored),
                Err(stop) => Work::Stop(stop),
            },
            Order::Finish { listed } => {
                let work = self.finish(listed, report).unwrap_or_else(Work::Stop);
                // The session has ended if nobody takes it.
                let _ = report.blocking_send(work);
                return None;
            }
        };
        report.blocking_send(work).ok()
    }

    /// Plans a batch and lets its content in. Ends early when the session can't go on.
    fn plan(&mut self, first: EntryId, entries: &[Arc<Entry>]) -> Stored {
        let (mut stored, mut awaited) = (Stored::default(), Vec::new());
        let waited = self.waiting.len();
        for (entry, id) in entries.iter().zip(first.0..) {
            let planned = self.plan_entry(EntryId(id), entry, &mut awaited);
            note(EntryId(id), planned, &mut stored);
            if stored.end.is_some() {
                break;
            }
        }
        self.task.store.registry.plan(awaited, EntryId(first.0 + entries.len() as u64));
        self.begin_rebuilds();
        stored.waiting = self.waiting.len() - waited;
        stored
    }

    /// Hands in what is made from old versions. Only now may anything be awaited of these files that the plan
    /// of their batch does not know.
    fn begin_rebuilds(&mut self) {
        for (id, entry) in self.rebuilds.drain(..) {
            self.task.store.rebuilds.hand_in(Job::Begin(id, entry));
        }
    }

    fn plan_entry(
        &mut self,
        id: EntryId,
        entry: &Arc<Entry>,
        awaited: &mut Vec<(EntryId, Awaited)>,
    ) -> Result<Option<Outcome>, Trouble> {
        let own = self.beside.at(&entry.path);
        if self.task.store.excludes(entry) {
            return Ok(Some(Outcome::Skipped));
        }
        let target = &self.task.store.target;
        let plan = match &mut self.known {
            Some(known) => target.plan_knowing(entry, known),
            None => target.plan_beside(entry, own.as_ref()),
        };
        match plan? {
            Plan::Settled(fate) => Ok(Some(fate.into())),
            Plan::Rebuild if self.task.store.delta && self.moves.find(entry).is_none() => {
                self.space.need(entry, entry.size())?;
                self.rebuilds.push((id, Arc::clone(entry)));
                Ok(None)
            }
            Plan::Content | Plan::Rebuild => match self.find_moved(entry)? {
                Some(fate) => Ok(Some(fate.into())),
                None => self.plan_content(id, entry, awaited),
            },
            Plan::Compare => match target.existing(entry) {
                Ok(existing) => {
                    let comparison = registry::Comparison::new(Arc::clone(entry), existing);
                    awaited.push((id, Awaited::Digest(Arc::new(comparison))));
                    Ok(Some(Outcome::Digest))
                }
                Err(problem) if target.may_replace(entry).is_err() => Err(Trouble::Problem(problem)),
                Err(_) => self.plan_content(id, entry, awaited),
            },
            // What stands under the first name now may be about to be replaced.
            Plan::Link => {
                self.waiting.push((id, Arc::clone(entry), Waits::ForFile));
                Ok(None)
            }
            Plan::Blocked => {
                own.iter().for_each(|own| self.beside.is_extra(own));
                self.waiting.push((id, Arc::clone(entry), Waits::ForRoom));
                Ok(None)
            }
            Plan::Resume { kept_bytes } => {
                self.space.need(entry, entry.size().saturating_sub(kept_bytes))?;
                let incoming = Incoming::new(Arc::clone(entry), target.partial(entry)?);
                let outcome = missing_parts(&incoming);
                awaited.push((id, Awaited::Ranges(Arc::new(incoming))));
                Ok(Some(outcome))
            }
        }
    }

    /// Stores a file with content that the target has under another name.
    fn find_moved(&mut self, entry: &Entry) -> Result<Option<Fate>, Trouble> {
        let (Some(from), Some(hash)) = (self.moves.find(entry), entry.hash) else { return Ok(None) };
        self.space.need(entry, entry.size())?;
        let store = &self.task.store;
        let fate = copy(&store.target, from, entry)?;
        if fate.is_some() {
            store.remember(entry, hash);
            store.found_bytes.fetch_add(entry.size(), Ordering::Relaxed);
        }
        Ok(fate)
    }

    fn plan_content(
        &mut self,
        id: EntryId,
        entry: &Arc<Entry>,
        awaited: &mut Vec<(EntryId, Awaited)>,
    ) -> Result<Option<Outcome>, Trouble> {
        self.space.need(entry, entry.size())?;
        awaited.push((id, await_content(&self.task.store.target, entry)?));
        Ok(Some(Outcome::Content))
    }

    /// Plans what waited for others, now that all of those are settled. What needs room gets it once all that
    /// was listed is known, since only then it is known what may be removed.
    fn plan_others(&mut self, listed: Option<Totals>, report: &mpsc::Sender<Work>) -> Result<Stored, Stop> {
        if let Some(listed) = listed {
            self.approve(listed)?;
        }
        let waiting = std::mem::take(&mut self.waiting);
        let (links, blocked): (Vec<Waiting>, Vec<Waiting>) =
            waiting.into_iter().partition(|(.., waits)| *waits == Waits::ForFile);
        let (mut stored, mut is_content_missing) = (Stored::default(), false);
        for (id, entry, _) in blocked {
            let planned = self.make_room(id, &entry, report).map(|(outcome, awaited)| {
                is_content_missing |= !awaited.is_empty();
                awaited.into_iter().for_each(|(id, awaited)| self.task.store.registry.replace(id, awaited));
                outcome
            });
            note(id, planned, &mut stored);
            if stored.end.is_some() {
                return Ok(stored);
            }
        }
        if is_content_missing {
            self.waiting.extend(links);
        } else {
            self.link(&links, &mut stored);
        }
        stored.waiting = self.waiting.len();
        Ok(stored)
    }

    fn link(&self, links: &[Waiting], stored: &mut Stored) {
        for (id, entry, _) in links {
            note(*id, self.link_at_last(entry).map(Some), stored);
            if stored.end.is_some() {
                return;
            }
        }
    }

    fn link_at_last(&self, entry: &Entry) -> Result<Outcome, Trouble> {
        match self.task.store.target.link(entry)? {
            Link::Settled(fate) => Ok(fate.into()),
            Link::NotYet => Err(unstorable(entry, "the file that it is another name of is not stored")),
        }
    }

    fn make_room(
        &mut self,
        id: EntryId,
        entry: &Arc<Entry>,
        report: &mpsc::Sender<Work>,
    ) -> Result<Cleared, Trouble> {
        let target = self.task.store.target.clone();
        let Some(approved) = &mut self.approved else {
            return Err(unstorable(entry, "a directory is in the way, and too much waits for its removal"));
        };
        let mut removed = Vec::new();
        let cleared = target.clear(approved, entry, &mut |path| removed.push(path.clone()));
        // The session has ended if nobody takes it.
        let _ = report.blocking_send(Work::Removed(removed));
        cleared?;
        let mut awaited = Vec::new();
        let waited = self.waiting.len();
        match self.plan_entry(id, entry, &mut awaited)? {
            Some(outcome) => Ok((Some(outcome), awaited)),
            None if self.waiting[waited..].iter().any(|(.., waits)| *waits == Waits::ForFile) => {
                Ok((None, awaited))
            }
            None => Err(unstorable(entry, "a directory is in the way")),
        }
    }

    /// Weighs what only the target has. Nothing is removed before that.
    fn approve(&mut self, listed: Totals) -> Result<(), Stop> {
        if self.approved.is_none() {
            let extras = self.beside.take_extras();
            self.approved = approve(extras, self.task.removal, listed, self.own_entries)?;
        }
        Ok(())
    }

    /// Removes what is to be removed, completes the directories and makes all durable.
    fn finish(&mut self, listed: Totals, report: &mpsc::Sender<Work>) -> Result<Work, Stop> {
        self.approve(listed)?;
        let mut late = self.remove(report);
        let target = &self.task.store.target;
        late.extend(target.finish());
        let ready = Instant::now();
        if let Some(known) = self.known.take() {
            self.task.store.note_unlisted(known);
        }
        match self.task.store.sync() {
            Ok(()) => Ok(Work::Finished { late, ready }),
            Err(error) => Err(Stop::new(Reason::Internal, format_args!("syncing: {error}"))),
        }
    }

    fn remove(&mut self, report: &mpsc::Sender<Work>) -> Vec<Problem> {
        let Some(approved) = self.approved.take() else { return Vec::new() };
        let mut removed = Vec::new();
        let store = &self.task.store;
        let problems = store.target.remove(&approved, &|path| store.protects(path), &mut |path| {
            removed.push(path.clone());
            if removed.len() >= REMOVED_AT_A_TIME {
                // The session has ended if nobody takes it; what is approved goes all the same.
                let _ = report.blocking_send(Work::Removed(std::mem::take(&mut removed)));
            }
        });
        let _ = report.blocking_send(Work::Removed(removed));
        problems
    }
}

fn note(id: EntryId, planned: Result<Option<Outcome>, Trouble>, stored: &mut Stored) {
    match planned {
        Ok(outcome) => stored.outcomes.extend(outcome.map(|outcome| (id, outcome))),
        Err(Trouble::Problem(problem)) => stored.outcomes.push((id, Outcome::Problem(problem))),
        Err(Trouble::Guard { reason, path, source }) => {
            stored.end = Some(EndCause::Stop(Stop::at(path, reason, source)));
        }
    }
}

fn unstorable(entry: &Entry, why: &str) -> Trouble {
    Trouble::Problem(Problem::new(entry.path.clone(), Cause::Unwritable, why))
}

/// What is needed of a file of which parts are stored: their hashes, and the content of the others.
fn missing_parts(incoming: &Incoming) -> Outcome {
    let (mut content, mut digest) = (Vec::new(), Vec::new());
    for index in 0..Span::count(incoming.entry.size()) {
        let wanted = if incoming.partial.is_recorded(index) { &mut digest } else { &mut content };
        Run::append(wanted, index);
    }
    Outcome::Parts { content, digest }
}

impl Space {
    fn need(&mut self, entry: &Entry, bytes: u64) -> Result<(), Trouble> {
        self.needed_bytes = self.needed_bytes.saturating_add(bytes);
        if self.needed_bytes <= self.free_bytes {
            return Ok(());
        }
        let detail = format!("{} bytes are needed so far, {} are free", self.needed_bytes, self.free_bytes);
        let source = std::io::Error::new(std::io::ErrorKind::StorageFull, detail);
        Err(Trouble::Guard { reason: Reason::NoSpace, path: entry.path.clone(), source })
    }
}
