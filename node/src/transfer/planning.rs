//! Compares announced entries with the target, in their order: the blocking work between the manifest and
//! the content.

use std::sync::Arc;

use ketch_protocol::{
    manifest::{Entry, EntryId},
    message::Run,
    problem::{Cause, Problem, Reason},
    record::segment::Span,
    session::{Stop, receiver::Outcome},
};

use super::{
    registry::{Awaited, Comparison, Incoming},
    storing::{EndCause, Store, Stored, await_content},
};
use crate::tree::{Link, Plan, Trouble};

/// Plans one batch after another.
#[derive(Debug)]
pub(super) struct Planning {
    store: Arc<Store>,
    space: Space,
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
        Self { store, space: Space { free_bytes, needed_bytes: 0 } }
    }

    /// Plans a batch and lets its content in. Ends early when the session can't go on.
    pub(super) fn plan(&mut self, first: EntryId, entries: &[Arc<Entry>]) -> Stored {
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
            Plan::Settled(fate) => Ok(fate.into()),
            Plan::Content { .. } => self.plan_content(id, entry, awaited),
            Plan::Compare => match target.existing(entry) {
                Ok(existing) => {
                    let comparison = Comparison::new(Arc::clone(entry), existing);
                    awaited.push((id, Awaited::Digest(Arc::new(comparison))));
                    Ok(Outcome::Digest)
                }
                Err(problem) if target.may_replace(entry).is_err() => Err(Trouble::Problem(problem)),
                Err(_) => self.plan_content(id, entry, awaited),
            },
            Plan::Link => self.plan_link(entry),
            Plan::Blocked => Err(unstorable(entry, "a directory is in the way")),
            Plan::Resume { kept_bytes } => {
                self.space.need(entry, entry.size().saturating_sub(kept_bytes))?;
                let incoming = Incoming::new(Arc::clone(entry), target.partial(entry)?);
                let outcome = missing_parts(&incoming);
                awaited.push((id, Awaited::Ranges(Arc::new(incoming))));
                Ok(outcome)
            }
        }
    }

    /// Links to a file that is there; what is still to come is not waited for.
    fn plan_link(&self, entry: &Entry) -> Result<Outcome, Trouble> {
        match self.store.target.link(entry)? {
            Link::Settled(fate) => Ok(fate.into()),
            Link::NotYet => Err(unstorable(entry, "the file that it is another name of is not stored yet")),
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

fn unstorable(entry: &Entry, detail: &str) -> Trouble {
    Trouble::Problem(Problem::new(entry.path.clone(), Cause::Unwritable, detail))
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
