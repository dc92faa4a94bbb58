//! Scans a source in batches that fit a message.

use ketch_protocol::{
    manifest::Entry,
    message::{Fill, Totals},
    problem::Problem,
};
use tokio::sync::mpsc;

use crate::tree::{Found, Scan, Source};

/// Batches scanned ahead of the session.
const BATCHES_AHEAD: usize = 4;

/// A batch of the manifest before it has ids.
#[derive(Debug, Default)]
pub(super) struct Listed {
    pub(super) entries: Vec<Entry>,
    pub(super) problems: Vec<Problem>,
    fill: Fill,
}

/// Scans on a thread of the blocking pool; the channel ends with the scan.
pub(super) fn list(source: Source) -> mpsc::Receiver<Listed> {
    let (batches, listed) = mpsc::channel(BATCHES_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut scan = source.scan();
        while let Some(batch) = next_batch(&mut scan) {
            if batches.blocking_send(batch).is_err() {
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

fn next_batch(scan: &mut Scan) -> Option<Listed> {
    let mut batch = Listed::default();
    for found in scan {
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
