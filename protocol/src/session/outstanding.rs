//! Entries that were announced and are not settled.

use std::{collections::BTreeMap, sync::Arc};

use crate::{
    limits::{WINDOW_BYTES, WINDOW_ENTRIES},
    manifest::{Entry, EntryId},
};

#[derive(Debug, Default)]
pub(super) struct Outstanding {
    open: BTreeMap<EntryId, Open>,
    name_bytes: u64,
    announced: u64,
}

#[derive(Debug)]
struct Open {
    entry: Arc<Entry>,
    wanted_spans: u64,
    /// Bytes and runs of lists and pieces.
    wanted_pieces: (u64, u64),
}

impl Outstanding {
    /// Id of the next entry to be announced.
    pub(super) fn next_id(&self) -> EntryId {
        EntryId(self.announced)
    }

    /// How many more entries may be announced in the next batch.
    pub(super) fn room(&self) -> u64 {
        if self.name_bytes >= WINDOW_BYTES {
            return 0;
        }
        WINDOW_ENTRIES.saturating_sub(self.open.len() as u64)
    }

    pub(super) fn announce(&mut self, entry: Arc<Entry>) -> EntryId {
        let id = self.next_id();
        self.name_bytes += entry.name_bytes() as u64;
        self.open.insert(id, Open { entry, wanted_spans: 0, wanted_pieces: (0, 0) });
        self.announced += 1;
        id
    }

    pub(super) fn entry(&self, id: EntryId) -> Option<&Arc<Entry>> {
        self.open.get(&id).map(|open| &open.entry)
    }

    /// Counts spans of an entry that are wanted: how many were, with these.
    pub(super) fn count_wanted(&mut self, id: EntryId, spans: u64) -> u64 {
        self.open.get_mut(&id).map_or(0, |open| {
            open.wanted_spans = open.wanted_spans.saturating_add(spans);
            open.wanted_spans
        })
    }

    /// Counts bytes of an entry that are wanted in lists or pieces, and the runs that name them: how many were,
    /// with these.
    pub(super) fn count_pieces(&mut self, id: EntryId, bytes: u64, runs: u64) -> (u64, u64) {
        self.open.get_mut(&id).map_or((0, 0), |open| {
            let (all_bytes, all_runs) = open.wanted_pieces;
            open.wanted_pieces = (all_bytes.saturating_add(bytes), all_runs.saturating_add(runs));
            open.wanted_pieces
        })
    }

    pub(super) fn settle(&mut self, id: EntryId) -> Option<Arc<Entry>> {
        let Open { entry, .. } = self.open.remove(&id)?;
        self.name_bytes -= entry.name_bytes() as u64;
        Some(entry)
    }

    pub(super) fn count(&self) -> usize {
        self.open.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (EntryId, &Arc<Entry>)> {
        self.open.iter().map(|(id, open)| (*id, &open.entry))
    }
}
