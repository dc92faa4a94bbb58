//! Takes what becomes known of files, and writes it to the journal in batches.

use std::sync::Arc;

use ketch_protocol::{hash::ContentHash, path::EntryPath};

use super::{
    Seen, Shared,
    journal::Batch,
    key::put_key,
    record::{Origin, Record},
};

/// What one thread found out. It is flushed when it is dropped.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    batch: Batch,
    /// Of the file at hand.
    key: Vec<u8>,
}

impl Recorder {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, batch: Batch::default(), key: Vec::new() }
    }

    /// A file was read from its first byte to its last, looked like `seen` all the while and has this hash.
    pub fn read(&mut self, path: &EntryPath, seen: Seen, hash: ContentHash) {
        self.add(path, Record { seen, hash, origin: Origin::Read });
    }

    /// A file with this hash was stored and looks like `seen` now that it has its name, its mode and its
    /// times. To be told again whenever this program gives the file another mode, time or name: each sets
    /// its ctime.
    pub fn stored(&mut self, path: &EntryPath, seen: Seen, hash: ContentHash) {
        self.add(path, Record { seen, hash, origin: Origin::Stored(self.shared.boot) });
    }

    /// Writes what it was told to the journal: after every batch of files that were stored.
    pub fn flush(&mut self) {
        if let Some(files) = &self.shared.files {
            let written = files.journal().append(&mut self.batch);
            written.unwrap_or_else(|cause| self.shared.warn_unusable(cause));
        }
    }

    fn add(&mut self, path: &EntryPath, record: Record) {
        // What an empty file holds is known without.
        if self.shared.files.is_none() || record.seen.stat.size == 0 {
            return;
        }
        self.key.clear();
        put_key(&mut self.key, path);
        self.batch.add(&self.key, &record);
        if self.batch.is_full() {
            self.flush();
        }
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.flush();
    }
}
