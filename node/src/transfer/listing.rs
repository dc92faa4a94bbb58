//! Scans a source in batches that fit a message.

use ketch_protocol::{
    manifest::Entry,
    message::{Fill, Totals},
    problem::Problem,
};
use tokio::sync::mpsc;

use super::known_tree::KnownTree;
use crate::tree::{Found, Source, SourceError};

/// Batches scanned ahead of the session.
const BATCHES_AHEAD: usize = 4;

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
        let scan = match tree.list() {
            Ok(scan) => scan,
            Err(error) => {
                // The session has ended if nobody takes it.
                let _ = batches.blocking_send(Err(error));
                return;
            }
        };
        let missing = tree.missing().into_iter().map(Found::Problem);
        let mut found = scan.chain(missing);
        while let Some(batch) = next_batch(&mut found) {
            if batches.blocking_send(Ok(batch)).is_err() {
                return;
            }
        }
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

fn next_batch(found: &mut impl Iterator<Item = Found>) -> Option<Listed> {
    let mut batch = Listed::default();
    for found in found {
        batch.add(found);
        if batch.fill.is_full() {
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
