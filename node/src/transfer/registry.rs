//! What a receiver awaits content for: entries that are planned and not settled, by id.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry as Slot},
    hash::Hash,
    sync::{
        Arc, Condvar, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use ketch_protocol::{
    hash::{ContentHash, merge_ranges},
    manifest::{Entry, EntryId},
    record::segment::Span,
};

use super::rebuilding::Rebuilt;
use crate::tree::{Existing, Partial};

/// Shared by the planner, which adds, and the data streams, which look up.
#[derive(Debug, Default)]
pub(super) struct Registry {
    state: Mutex<State>,
    planned: Condvar,
}

#[derive(Debug, Default)]
struct State {
    awaited: HashMap<EntryId, Awaited>,
    /// Files of one segment that a stream writes, and whether their content came on another one meanwhile.
    claimed: HashMap<EntryId, bool>,
    /// Entries below this id are planned.
    planned: u64,
    closed: bool,
}

/// What is awaited of an entry.
#[derive(Debug, Clone)]
pub(super) enum Awaited {
    /// The content of a file of one segment.
    Content(Arc<Entry>),
    /// The content or the hashes of ranges of a large file.
    Ranges(Arc<Incoming>),
    /// Hashes, to compare with the stored file.
    Digest(Arc<Comparison>),
    /// What it consists of, and pieces of it, to make it from the stored file.
    Delta(Arc<Rebuilt>),
}

/// A large file while its ranges come in on several streams.
///
/// A range may come more than once: it is asked for again when it turns out different, it is sent again when a
/// connection was lost, and a peer may send what it likes. One stream at a time works on it, and once it is stored nobody does, so nothing is written
/// to the file after its last range.
#[derive(Debug)]
pub(super) struct Incoming {
    pub(super) entry: Arc<Entry>,
    pub(super) partial: Partial,
    progress: Mutex<RangeProgress>,
}

#[derive(Debug)]
struct RangeProgress {
    /// Indexes of ranges on which a stream works or that are stored, and whether they came again meanwhile.
    claimed: HashMap<u64, bool>,
    /// Ranges that are not stored and checked.
    missing: u64,
}

impl Incoming {
    pub(super) fn new(entry: Arc<Entry>, partial: Partial) -> Self {
        let missing = Span::count(entry.size());
        let progress = Mutex::new(RangeProgress { claimed: HashMap::new(), missing });
        Self { entry, partial, progress }
    }

    /// Whether the caller may work on a range. It then says [`Self::is_last_stored`] or [`Self::release`],
    /// unless the entry comes to nothing.
    pub(super) fn claim(&self, index: u64) -> bool {
        claim(&mut self.progress().claimed, index)
    }

    /// Gives a claimed range back: its content must come again. Says whether that was passed over meanwhile.
    pub(super) fn release(&self, index: u64) -> bool {
        self.progress().claimed.remove(&index).unwrap_or(false)
    }

    /// Notes that a claimed range is stored and checked; says whether it was the last.
    pub(super) fn is_last_stored(&self) -> bool {
        let mut progress = self.progress();
        progress.missing -= 1;
        progress.missing == 0
    }

    /// The guarded value is whole between any two statements, so a panic elsewhere leaves it usable.
    fn progress(&self) -> MutexGuard<'_, RangeProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Notes that somebody works on something; where somebody does already, that it came again.
fn claim<K: Eq + Hash>(claimed: &mut HashMap<K, bool>, key: K) -> bool {
    match claimed.entry(key) {
        Slot::Vacant(free) => {
            free.insert(false);
            true
        }
        Slot::Occupied(mut taken) => {
            taken.insert(true);
            false
        }
    }
}

/// A stored file while the sender's hashes are compared with it.
#[derive(Debug)]
pub(super) struct Comparison {
    pub(super) entry: Arc<Entry>,
    pub(super) existing: Existing,
    unequal: AtomicBool,
    missing: AtomicU64,
    /// Of the spans that are equal.
    hashes: Mutex<BTreeMap<u64, ContentHash>>,
}

/// What a comparison has come to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verdict {
    /// More hashes are awaited, or a difference was found before.
    Open,
    /// All of them are equal.
    Equal,
    /// This is the first difference.
    Different,
}

impl Comparison {
    pub(super) fn new(entry: Arc<Entry>, existing: Existing) -> Self {
        let missing = AtomicU64::new(Span::count(entry.size()));
        Self { entry, existing, unequal: AtomicBool::new(false), missing, hashes: Mutex::default() }
    }

    /// The hash of the file, once all of it is equal.
    pub(super) fn hash(&self) -> Option<ContentHash> {
        whole_hash(&super::lock(&self.hashes), self.entry.size())
    }

    /// Notes whether one span, which has this hash at the sender, is equal.
    pub(super) fn note(&self, index: u64, hash: ContentHash, equal: bool) -> Verdict {
        if super::lock(&self.hashes).insert(index, hash).is_some() {
            // It was sent again because a connection was lost.
            return Verdict::Open;
        }
        if !equal {
            let first = !self.unequal.swap(true, Ordering::AcqRel);
            return if first { Verdict::Different } else { Verdict::Open };
        }
        let last = self.missing.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && !self.unequal.load(Ordering::Acquire) { Verdict::Equal } else { Verdict::Open }
    }
}

/// The hash of a file of `size` bytes from those of its spans; `None` while some are missing.
pub(super) fn whole_hash(spans: &BTreeMap<u64, ContentHash>, size: u64) -> Option<ContentHash> {
    if spans.len() as u64 != Span::count(size) {
        return None;
    }
    match spans.len() {
        1 => spans.values().next().copied(),
        _ => Some(merge_ranges(&spans.values().copied().collect::<Vec<_>>(), size)),
    }
}

/// What is known of an entry that content came for.
#[derive(Debug)]
pub(super) enum Lookup {
    /// It is awaited.
    Awaited(Awaited),
    /// It is settled, or nothing was asked of it: what came is of no use.
    Settled,
    /// The session is over.
    Closed,
}

impl Registry {
    /// Adds what is awaited of a batch and declares all entries below `end` planned.
    pub(super) fn plan(&self, awaited: Vec<(EntryId, Awaited)>, end: EntryId) {
        let mut state = self.lock();
        state.awaited.extend(awaited);
        state.planned = end.0;
        drop(state);
        self.planned.notify_all();
    }

    /// Awaits something else of an entry than before.
    pub(super) fn replace(&self, id: EntryId, awaited: Awaited) {
        let mut state = self.lock();
        state.claimed.remove(&id);
        state.awaited.insert(id, awaited);
    }

    /// Whether the caller may write the content of a file of one segment. It then settles the entry or says
    /// [`Self::release`].
    pub(super) fn claim(&self, id: EntryId) -> bool {
        claim(&mut self.lock().claimed, id)
    }

    /// Gives a claimed file back: its content must come again. Says whether that was passed over meanwhile.
    pub(super) fn release(&self, id: EntryId) -> bool {
        self.lock().claimed.remove(&id).unwrap_or(false)
    }

    /// Nothing more is awaited of an entry; what was.
    pub(super) fn settle(&self, id: EntryId) -> Option<Awaited> {
        let mut state = self.lock();
        state.claimed.remove(&id);
        state.awaited.remove(&id)
    }

    /// Whether the session is over.
    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    /// What is awaited of an entry; blocks until it is planned.
    pub(super) fn look_up(&self, id: EntryId) -> Lookup {
        let mut state = self.lock();
        while !state.closed && state.planned <= id.0 {
            state = self.planned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        if state.closed {
            return Lookup::Closed;
        }
        state.awaited.get(&id).cloned().map_or(Lookup::Settled, Lookup::Awaited)
    }

    /// Ends the session: whoever waits is told, and everything is dropped.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.awaited.clear();
        drop(state);
        self.planned.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        super::lock(&self.state)
    }
}

#[cfg(test)]
mod tests {
    use ketch_protocol::{
        manifest::{EntryKind, Timestamp},
        path::EntryPath,
    };

    use super::*;

    fn awaited(name: &str) -> Awaited {
        let path = EntryPath::parse(name.as_bytes()).unwrap();
        let kind = EntryKind::File { size: 1 };
        Awaited::Content(Arc::new(Entry::new(path, kind, 0, Timestamp::default())))
    }

    #[test]
    fn what_is_planned_is_awaited_until_it_is_settled() {
        let registry = Registry::default();
        registry.plan(vec![(EntryId(1), awaited("a"))], EntryId(3));
        assert!(matches!(registry.look_up(EntryId(1)), Lookup::Awaited(Awaited::Content(_))));
        assert!(matches!(registry.look_up(EntryId(2)), Lookup::Settled));
        registry.settle(EntryId(1));
        assert!(matches!(registry.look_up(EntryId(1)), Lookup::Settled));
    }

    #[test]
    fn content_that_is_early_waits_for_its_plan_or_the_end() {
        let registry = Arc::new(Registry::default());
        let look_up = |id| {
            let registry = Arc::clone(&registry);
            std::thread::spawn(move || registry.look_up(EntryId(id)))
        };
        let (planned, never) = (look_up(0), look_up(9));
        registry.plan(vec![(EntryId(0), awaited("a"))], EntryId(1));
        assert!(matches!(planned.join().unwrap(), Lookup::Awaited(_)));
        registry.close();
        assert!(matches!(never.join().unwrap(), Lookup::Closed));
    }
}
