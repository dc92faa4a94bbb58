//! Compares announced entries with the target, in their order: the blocking work between the manifest and
//! the content.

use std::sync::Arc;

use ketch_protocol::{
    manifest::{Entry, EntryId},
    message::Run,
    problem::Reason,
    record::segment::Span,
    session::{Stop, receiver::Outcome},
};

use super::{
    rebuilding::Job,
    registry::{Awaited, Comparison, Incoming},
    storing::{EndCause, Store, Stored, await_content},
};
use crate::tree::{Plan, Trouble};

/// Plans one batch after another.
#[derive(Debug)]
pub(super) struct Planning {
    store: Arc<Store>,
    space: Space,
    /// Files of the batch at hand that are made from their old versions.
    rebuilds: Vec<(EntryId, Arc<Entry>)>,
}

/// Guards against a disk that cannot hold what is coming.
#[derive(Debug)]
struct Space {
    free_bytes: u64,
    needed_bytes: u64,
}

impl Planning {
    /// `free_bytes` is what the target could take when the session began.
    pub(super) fn new(store: Arc<Store>, free_bytes: u64) -> Self {
        Self { store, space: Space { free_bytes, needed_bytes: 0 }, rebuilds: Vec::new() }
    }

    /// Plans a batch and lets its content in. Ends early when the session can't go on.
    pub(super) fn plan(&mut self, first: EntryId, entries: &[Arc<Entry>]) -> Stored {
        let mut stored = Stored::default();
        let mut awaited = Vec::new();
        for (entry, id) in entries.iter().zip(first.0..) {
            match self.plan_entry(EntryId(id), entry, &mut awaited) {
                Ok(outcome) => stored.outcomes.extend(outcome.map(|outcome| (EntryId(id), outcome))),
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
        // Only now may anything be awaited of them that the plan of their batch does not know.
        for (id, entry) in self.rebuilds.drain(..) {
            self.store.rebuilds.hand_in(Job::Begin(id, entry));
        }
        stored
    }

    fn plan_entry(
        &mut self,
        id: EntryId,
        entry: &Arc<Entry>,
        awaited: &mut Vec<(EntryId, Awaited)>,
    ) -> Result<Option<Outcome>, Trouble> {
        let target = &self.store.target;
        match target.plan(entry)? {
            Plan::Made => Ok(Some(Outcome::Created)),
            Plan::Kept => Ok(Some(Outcome::Kept)),
            Plan::Content => self.plan_content(id, entry, awaited),
            Plan::Rebuild => {
                self.space.need(entry, entry.size())?;
                self.rebuilds.push((id, Arc::clone(entry)));
                Ok(None)
            }
            Plan::Compare => match target.existing(entry) {
                Ok(existing) => {
                    let comparison = Comparison::new(Arc::clone(entry), existing);
                    awaited.push((id, Awaited::Digest(Arc::new(comparison))));
                    Ok(Some(Outcome::Digest))
                }
                Err(problem) if target.may_replace(entry).is_err() => Err(Trouble::Problem(problem)),
                Err(_) => self.plan_content(id, entry, awaited),
            },
            Plan::Resume { kept_bytes } => {
                self.space.need(entry, entry.size().saturating_sub(kept_bytes))?;
                let incoming = Incoming::new(Arc::clone(entry), target.partial(entry)?);
                let outcome = missing_parts(&incoming);
                awaited.push((id, Awaited::Ranges(Arc::new(incoming))));
                Ok(Some(outcome))
            }
        }
    }

    fn plan_content(
        &mut self,
        id: EntryId,
        entry: &Arc<Entry>,
        awaited: &mut Vec<(EntryId, Awaited)>,
    ) -> Result<Option<Outcome>, Trouble> {
        self.space.need(entry, entry.size())?;
        awaited.push((id, await_content(&self.store.target, entry)?));
        Ok(Some(Outcome::Content))
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
