//! Compares announced entries with the target, in their order: the blocking work between the manifest and
//! the content.

use std::{iter::Peekable, sync::Arc};

use ketch_protocol::{
    difference::Narrowing,
    manifest::{Entry, EntryId},
    message::Run,
    path::EntryPath,
    problem::Reason,
    record::segment::Span,
    session::{Stop, receiver::Outcome},
};

use tokio::{sync::mpsc, time::Instant};

use super::{
    receiving::Work,
    registry::{Awaited, Comparison, Incoming},
    storing::{EndCause, Store, Stored, await_content},
};
use crate::tree::{Plan, Trouble};

/// What the planner is told, in this order.
#[derive(Debug)]
pub(super) enum Order {
    /// The trees were compared: what of the target equals nothing of the sender.
    Compared(Option<Box<Narrowing>>),
    /// The sender or this side has a problem there: nothing is removed at this path or below.
    Spare(EntryPath),
    /// Compare these with the target and make what has no content.
    Plan {
        /// Id of the first; the others follow.
        first: EntryId,
        /// The entries.
        entries: Vec<Arc<Entry>>,
    },
    /// Everything listed is settled.
    Finish,
}

/// Plans one batch after another until the session ends or everything is in place.
pub(super) fn plan_all(
    store: Arc<Store>,
    free_bytes: u64,
    mut orders: mpsc::UnboundedReceiver<Order>,
    report: &mpsc::Sender<Work>,
) {
    let mut spared = Vec::new();
    let mut narrowing = None;
    let mut next = orders.blocking_recv();
    loop {
        match next {
            Some(Order::Compared(compared)) => narrowing = compared,
            Some(Order::Spare(path)) => spared.push(path),
            Some(Order::Plan { .. } | Order::Finish) | None => break,
        }
        next = orders.blocking_recv();
    }
    let own = narrowing.iter().flat_map(|narrowing| narrowing.unmatched_entries());
    let mut planning = Planning::new(store, free_bytes, own);
    while let Some(order) = next {
        match order {
            // It comes before everything else.
            Order::Compared(_) => {}
            Order::Spare(path) => spared.push(path),
            Order::Plan { first, entries } => {
                if report.blocking_send(Work::Stored(planning.plan(first, &entries))).is_err() {
                    return;
                }
            }
            Order::Finish => return planning.finish(&spared, report),
        }
        next = orders.blocking_recv();
    }
}

/// Plans one batch after another.
struct Planning<I: Iterator> {
    store: Arc<Store>,
    space: Space,
    /// What the target has that equals nothing of the sender, in order.
    own: Peekable<I>,
}

/// Guards against a disk that cannot hold what is coming.
#[derive(Debug)]
struct Space {
    free_bytes: u64,
    needed_bytes: u64,
}

impl<I: Iterator<Item = Entry>> Planning<I> {
    /// `free_bytes` is what the target could take when the session began.
    fn new(store: Arc<Store>, free_bytes: u64, own: I) -> Self {
        Self { store, space: Space { free_bytes, needed_bytes: 0 }, own: own.peekable() }
    }

    /// Completes the directories and makes all durable.
    fn finish(self, _spared: &[EntryPath], report: &mpsc::Sender<Work>) {
        let target = &self.store.target;
        let late = target.finish();
        let ready = Instant::now();
        let work = match target.sync() {
            Ok(()) => Work::Finished { late, ready },
            Err(error) => Work::Stop(Stop::new(Reason::Internal, format_args!("syncing: {error}"))),
        };
        // The session has ended if nobody takes it.
        let _ = report.blocking_send(work);
    }

    /// Plans a batch and lets its content in. Ends early when the session can't go on.
    fn plan(&mut self, first: EntryId, entries: &[Arc<Entry>]) -> Stored {
        let mut stored = Stored::default();
        let mut awaited = Vec::new();
        for (entry, id) in entries.iter().zip(first.0..) {
            match self.plan_entry(EntryId(id), entry, &mut awaited) {
                Ok(outcome) => stored.outcomes.push((EntryId(id), outcome)),
                Err(Trouble::Problem(problem)) => {
                    stored.outcomes.push((EntryId(id), Outcome::Problem(problem)));
                }
                Err(Trouble::Guard { reason, path, source }) => {
                    stored.end = Some(EndCause::Stop(Stop::at(path, reason, source)));
                    break;
                }
            }
        }
        self.store.registry.plan(awaited, EntryId(first.0 + entries.len() as u64));
        stored
    }

    fn plan_entry(
        &mut self,
        id: EntryId,
        entry: &Arc<Entry>,
        awaited: &mut Vec<(EntryId, Awaited)>,
    ) -> Result<Outcome, Trouble> {
        let target = &self.store.target;
        match target.plan(entry)? {
            Plan::Made => Ok(Outcome::Created),
            Plan::Kept => Ok(Outcome::Kept),
            Plan::Content => self.plan_content(id, entry, awaited),
            Plan::Compare => match target.existing(entry) {
                Ok(existing) => {
                    let comparison = Comparison::new(Arc::clone(entry), existing);
                    awaited.push((id, Awaited::Digest(Arc::new(comparison))));
                    Ok(Outcome::Digest)
                }
                Err(problem) if target.may_replace(entry).is_err() => Err(Trouble::Problem(problem)),
                Err(_) => self.plan_content(id, entry, awaited),
            },
            Plan::Resume { kept_bytes } => {
                self.space.need(entry, entry.size().saturating_sub(kept_bytes))?;
                let incoming = Incoming::new(Arc::clone(entry), target.partial(entry)?);
                let outcome = missing_parts(&incoming);
                awaited.push((id, Awaited::Ranges(Arc::new(incoming))));
                Ok(outcome)
            }
        }
    }

    fn plan_content(
        &mut self,
        id: EntryId,
        entry: &Arc<Entry>,
        awaited: &mut Vec<(EntryId, Awaited)>,
    ) -> Result<Outcome, Trouble> {
        self.space.need(entry, entry.size())?;
        awaited.push((id, await_content(&self.store.target, entry)?));
        Ok(Outcome::Content)
    }
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
