//! Tells when a batch is to be cut.

use super::Run;
use crate::{
    limits::{BATCH_BYTES, BATCH_ENTRIES, BATCH_PROBLEMS},
    manifest::Entry,
    path::EntryPath,
    problem::Problem,
};

/// Most bytes of an encoded name beside its bytes: tag and length of the name (4), tag and longest number that it
/// shares with another (3), tag and length of the rest (3).
const NAME_FIELD_BYTES: usize = 10;

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

    /// Counts the name of something that is gone.
    pub fn add_name(&mut self, name: &EntryPath) {
        self.entries += 1;
        self.bytes += NAME_FIELD_BYTES + name.as_bytes().len();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        hash::ContentHash,
        limits::{DETAIL_BYTES, LINK_TARGET_BYTES, MESSAGE_BYTES, PATH_BYTES},
        manifest::{Attribute, EntryId, EntryKind, Owner, Timestamp},
        message::{Batch, Message, Settled, encode},
        path::EntryPath,
        problem::Cause,
    };

    /// Bytes of a frame before and after one item is added.
    fn cost(without: Message, with: Message) -> usize {
        encode(&with).len() - encode(&without).len()
    }

    fn path(length: usize) -> EntryPath {
        let name: Vec<u8> =
            (1..=length).map(|place| if place % 2 == 0 && place < length { b'/' } else { b'x' }).collect();
        EntryPath::parse(&name).unwrap()
    }

    /// An entry whose every number is the longest.
    fn costly_entry(path: EntryPath, kind: EntryKind) -> Entry {
        let mtime = Timestamp { seconds: i64::MIN, nanoseconds: u32::MAX };
        let attribute = |name: u8| Attribute { name: [name; 200].into(), value: [name; 300].into() };
        Entry {
            hash: Some(ContentHash::of_nothing()),
            owner: Some(Owner { user: u32::MAX, group: u32::MAX }),
            attributes: vec![attribute(b'a'), attribute(b'b')],
            ..Entry::new(path, kind, u32::MAX, mtime)
        }
    }

    fn batch(entries: Vec<Entry>) -> Message {
        Message::Manifest(Batch { entries, ..Batch::default() })
    }

    #[test]
    fn no_entry_takes_more_than_its_bound() {
        let link = EntryKind::Symlink { target: [b'/'; LINK_TARGET_BYTES].into() };
        for kind in [EntryKind::File { size: u64::MAX }, EntryKind::Directory, link] {
            for length in [1, 127, 128, PATH_BYTES] {
                let entry = costly_entry(path(length), kind.clone());
                let (bound, other) = (entry.encoded_bound(), costly_entry(path(1), EntryKind::Directory));
                let cost = cost(batch(vec![other.clone()]), batch(vec![other, entry]));
                assert!(cost <= bound + 4, "{cost} > {bound}: the lengths around it grow by 4 at most");
                assert!(bound - cost < FIELD_SLACK_BYTES, "{cost} of {bound}: the bound is loose");
            }
        }
    }

    #[test]
    fn no_problem_takes_more_than_its_bound() {
        let told = |problems| Message::Settled(Settled { problems, ..Settled::default() });
        for detail in [0, 127, 128, DETAIL_BYTES] {
            let problem = Problem::new(path(PATH_BYTES), Cause::Metadata, "x".repeat(detail));
            let cost = cost(told(vec![]), told(vec![(EntryId(u64::MAX), problem.clone())]));
            assert!(cost <= problem.encoded_bound() + 4, "{cost} > {}", problem.encoded_bound());
        }
    }

    #[test]
    fn no_run_takes_more_than_its_bound() {
        let told = |created| Message::Settled(Settled { created, ..Settled::default() });
        let run = Run { first: u64::MAX - 1, count: u64::MAX };
        assert!(cost(told(vec![]), told(vec![run])) <= RUN_BYTES + 4);
    }

    #[test]
    fn no_name_takes_more_than_its_bound() {
        let told = |removed| Message::Settled(Settled { removed, ..Settled::default() });
        for length in [1, 127, 128, PATH_BYTES] {
            let (bound, other) = (NAME_FIELD_BYTES + length, path(1));
            let cost = cost(told(vec![other.clone()]), told(vec![other, path(length)]));
            assert!(cost <= bound + 4, "{cost} > {bound}");
        }
    }

    #[test]
    fn a_batch_that_is_cut_once_full_fits_whatever_comes_last() {
        let link = EntryKind::Symlink { target: [b'/'; LINK_TARGET_BYTES].into() };
        for small in [1, 100, 1_000] {
            let (mut fill, mut entries) = (Fill::default(), Vec::new());
            while !fill.is_full() {
                let short = costly_entry(path(small), EntryKind::Directory);
                let mut next = fill;
                next.add_entry(&short);
                let entry = if next.is_full() { costly_entry(path(PATH_BYTES), link.clone()) } else { short };
                fill.add_entry(&entry);
                entries.push(entry);
            }
            assert!(encode(&batch(entries)).len() <= MESSAGE_BYTES);
        }
    }

    /// What the bounds may be too high: short lengths (3 of each attribute's), fields that are zero, a shared
    /// front of the path.
    const FIELD_SLACK_BYTES: usize = 32;
}
