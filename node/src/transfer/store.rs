//! [`Store`]: what all that stores in a session shares.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ketch_protocol::{
    hash::ContentHash,
    limits::WHOLE_BYTES,
    manifest::{Entry, EntryId},
    path::EntryPath,
    session::{Stop, Violation, receiver::Outcome},
};

use super::{
    crew::Crew,
    event::Progress,
    known_tree::{KnownTree, is_excluded, is_protected},
    rebuilding::{Job, Rebuilds},
    registry::{Awaited, Incoming, Registry},
};
use crate::{
    index::{Reader, Recorder},
    tree::{Target, Trouble},
};

/// What all data streams of a session share.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) target: Target,
    /// Who stores what data streams bring.
    pub(super) crew: Crew,
    /// What is remembered of the target; `None` where nothing is.
    known: Option<KnownTree>,
    /// Whether a changed file is made from its old version where that pays.
    pub(super) delta: bool,
    pub(super) registry: Registry,
    /// Files that are made from their old versions.
    pub(super) rebuilds: Rebuilds,
    /// Bytes of content that came in, for progress.
    pub(super) moved_bytes: AtomicU64,
    /// Bytes that were there already and have the sender's hash.
    pub(super) found_bytes: AtomicU64,
}

impl Store {
    /// Of a target of which nothing is remembered.
    #[cfg(test)]
    pub(super) fn new(target: Target) -> Self {
        Self::known(target, None, true)
    }

    /// Of a target and what is remembered of it.
    pub(super) fn known(target: Target, known: Option<KnownTree>, delta: bool) -> Self {
        let (moved_bytes, found_bytes) = (AtomicU64::new(0), AtomicU64::new(0));
        let (crew, registry, rebuilds) = (Crew::default(), Registry::default(), Rebuilds::default());
        Self { target, crew, known, delta, registry, rebuilds, moved_bytes, found_bytes }
    }

    /// Writes what was stored to its disk, and remembers that it is there.
    pub(super) fn sync(&self) -> io::Result<()> {
        let index = self.known.as_ref().map(|known| &known.index);
        let mark = index.and_then(|index| index.mark());
        self.target.sync()?;
        index.filter(|_| self.target.is_synced()).into_iter().for_each(|index| index.checkpoint(mark));
        Ok(())
    }

    /// Remembers what the file of an entry holds, now that it is settled.
    pub(super) fn remember(&self, entry: &Entry, hash: ContentHash) {
        if let Some((mut recorder, seen)) = self.recorder().zip(self.target.seen(entry)) {
            recorder.stored(&entry.path, seen, hash);
        }
    }

    /// Whether a path takes no part, so that it is never removed.
    pub(super) fn protects(&self, path: &EntryPath) -> bool {
        self.known.as_ref().is_some_and(|known| is_protected(known.filter(), path))
    }

    /// Whether an entry takes no part here, whatever the sender lists.
    pub(super) fn excludes(&self, entry: &Entry) -> bool {
        self.known.as_ref().is_some_and(|known| is_excluded(known.filter(), entry))
    }

    /// Ends the session's work: whoever waits is told, and nothing is awaited any more.
    pub(super) fn close(&self) {
        self.registry.close();
        self.rebuilds.hand_in(Job::Close);
    }

    /// Remembers what is stored and what was found equal.
    pub(super) fn recorder(&self) -> Option<Recorder> {
        self.known.as_ref().map(KnownTree::recorder)
    }

    /// What is known of a target that is not compared.
    pub(super) fn reader(&self) -> Option<Reader> {
        self.known.as_ref().and_then(KnownTree::reader)
    }

    /// Takes that back when everything is settled.
    pub(super) fn note_unlisted(&self, reader: Reader) {
        if let Some(known) = &self.known {
            known.note_unlisted(reader);
        }
    }

    /// Nothing more is awaited of an entry that came to nothing.
    pub(super) fn settle(&self, id: EntryId) {
        if let Some(Awaited::Delta(_)) = self.registry.settle(id) {
            self.rebuilds.hand_in(Job::Settled(id));
        }
    }

    /// The bytes of a progress that is otherwise empty.
    pub(super) fn moved(&self) -> Progress {
        Progress {
            moved_bytes: self.moved_bytes.load(Ordering::Relaxed),
            found_bytes: self.found_bytes.load(Ordering::Relaxed),
            ..Progress::default()
        }
    }
}

/// What came of a block.
#[derive(Debug, Default)]
pub(super) struct Stored {
    /// What is known of entries now.
    pub(super) outcomes: Vec<(EntryId, Outcome)>,
    /// How many segments came to their end.
    pub(super) segments: usize,
    /// How many entries wait for others to be settled.
    pub(super) waiting: usize,
    /// Why the session must end, if it must.
    pub(super) end: Option<EndCause>,
}

/// Why a data stream ends the session.
#[derive(Debug)]
pub(super) enum EndCause {
    /// The peer broke the protocol.
    Violation(Violation),
    /// This side cannot store anything.
    Stop(Stop),
}

/// What is awaited of a file all of whose content is needed.
pub(super) fn await_content(target: &Target, entry: &Arc<Entry>) -> Result<Awaited, Trouble> {
    if entry.size() <= WHOLE_BYTES {
        return Ok(Awaited::Content(Arc::clone(entry)));
    }
    let partial = target.partial(entry)?;
    Ok(Awaited::Ranges(Arc::new(Incoming::new(Arc::clone(entry), partial))))
}
