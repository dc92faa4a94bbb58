//! Scans a source in batches that fit a message.

use ketch_protocol::{
    limits::BATCH_ENTRIES,
    manifest::Entry,
    message::{Fill, Totals},
    problem::Problem,
};
use tokio::sync::mpsc;

use super::known_tree::KnownTree;
use crate::tree::{Found, Source, SourceError};

/// Batches scanned ahead of the session.
const BATCHES_AHEAD: usize = 4;

/// Entries of the first batch; each that follows has up to twice as many as the one before. A path that is slow at first
/// takes round trips to carry a full batch, and only what is listed can be wanted. So many leave most of a first window to
/// the content of the first file.
const FIRST_ENTRIES: usize = 16;

/// A batch of the manifest before it has ids.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) entries: Vec<Entry>,
    pub(super) problems: Vec<Problem>,
    fill: Fill,
}

/// Scans on a thread of the blocking pool; the channel ends with the scan, or with why there is none.
pub(super) fn list(tree: KnownTree) -> mpsc::Receiver<Result<Listed, SourceError>> {
    let (batches, listed) = mpsc::channel(BATCHES_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut scan = match tree.list() {
            Ok(scan) => scan,
            Err(error) => {
                // The session has ended if nobody takes it.
                let _ = batches.blocking_send(Err(error));
                return;
            }
        };
        let missing = tree.missing().into_iter().map(Found::Problem);
        let mut found = scan.by_ref().chain(missing);
        let mut most_entries = FIRST_ENTRIES;
        while let Some(batch) = next_batch(&mut found, most_entries) {
            most_entries = BATCH_ENTRIES.min(2 * most_entries);
            if batches.blocking_send(Ok(batch)).is_err() {
                return;
            }
        }
        tree.note_scanned(scan);
    });
    listed
}

/// Counts a source without keeping anything of it.
pub(super) fn count(source: &Source) -> Totals {
    let mut totals = Totals::default();
    for found in source.scan() {
        match found {
            Found::Entry(entry) => {
                totals.entries += 1;
                totals.bytes += entry.size();
            }
            Found::Problem(_) => totals.problems += 1,
        }
    }
    totals
}

/// The next batch, of at most `most_entries`; `None` at the end.
fn next_batch(found: impl Iterator<Item = Found>, most_entries: usize) -> Option<Listed> {
    let mut batch = Listed::default();
    for found in found {
        batch.add(found);
        if batch.fill.is_full() || batch.entries.len() >= most_entries {
            return Some(batch);
        }
    }
    (!batch.entries.is_empty() || !batch.problems.is_empty()).then_some(batch)
}

impl Listed {
    fn add(&mut self, found: Found) {
        match found {
            Found::Entry(entry) => {
                self.fill.add_entry(&entry);
                self.entries.push(entry);
            }
            Found::Problem(problem) => {
                self.fill.add_problem(&problem);
                self.problems.push(problem);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use ketch_protocol::{
        manifest::{EntryKind, Timestamp},
        path::EntryPath,
    };

    use super::*;

    fn found(name: u32) -> Found {
        let path = EntryPath::parse(format!("{name:08}").as_bytes()).unwrap();
        Found::Entry(Entry::new(path, EntryKind::File { size: 1 }, 0, Timestamp::default()))
    }

    #[test]
    fn a_batch_has_no_more_entries_than_it_may_and_nothing_is_lost_between_two() {
        let mut scan = (0..200).map(found);
        let mut lengths = Vec::new();
        while let Some(batch) = next_batch(&mut scan, 64) {
            lengths.push(batch.entries.len());
        }
        assert_eq!(lengths, [64, 64, 64, 8]);
    }

    #[test]
    fn a_batch_that_is_full_is_cut_before_that() {
        let mut scan = (0..10_000).map(found);
        let batch = next_batch(&mut scan, usize::MAX).unwrap();
        assert!((2..=BATCH_ENTRIES).contains(&batch.entries.len()));
    }
}
