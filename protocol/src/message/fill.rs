//! Tells when a batch is to be cut.

use super::Run;
use crate::{
    limits::{BATCH_BYTES, BATCH_ENTRIES, BATCH_PROBLEMS},
    manifest::Entry,
    problem::Problem,
};

/// Most bytes of an encoded run: its tag and length (2), then twice a tag and the longest number (11).
pub(crate) const RUN_BYTES: usize = 24;

/// How full a batch is, at most. One that is cut as soon as it is full fits a message.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Fill {
    entries: usize,
    problems: usize,
    bytes: usize,
}

impl Fill {
    /// Counts an entry of a manifest batch.
    pub fn add_entry(&mut self, entry: &Entry) {
        self.entries += 1;
        self.bytes += entry.encoded_bound();
    }

    /// Counts a problem.
    pub fn add_problem(&mut self, problem: &Problem) {
        self.problems += 1;
        self.bytes += problem.encoded_bound();
    }

    /// Appends `number` to `runs` and counts the run if it begins one.
    pub(crate) fn append(&mut self, runs: &mut Vec<Run>, number: u64) {
        let before = runs.len();
        Run::append(runs, number);
        self.add_runs(runs.len() - before);
    }

    /// Counts runs.
    pub(crate) fn add_runs(&mut self, count: usize) {
        self.bytes += count * RUN_BYTES;
    }

    /// Whether the batch is to be sent as it is.
    pub fn is_full(&self) -> bool {
        self.entries >= BATCH_ENTRIES || self.problems >= BATCH_PROBLEMS || self.bytes >= BATCH_BYTES
    }
}
