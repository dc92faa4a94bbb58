//! [`Record`]: that a file which looks like this has that content, and when this may be believed.

use std::time::{SystemTime, UNIX_EPOCH};

use ketch_protocol::{hash::ContentHash, manifest::Timestamp};

use super::boot::Boot;

/// What tells one state of a file from another without reading it. The ctime can't be set by any program,
/// so a file whose content was replaced and whose mtime was put back has another one. The device is not
/// part of it: many file systems get another number with each boot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatKey {
    /// Bytes.
    pub size: u64,
    /// When its content was last changed.
    pub mtime: Timestamp,
    /// When anything of it was last changed.
    pub ctime: Timestamp,
    /// Its number on its file system.
    pub inode: u64,
}

/// What a file looked like, and when.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Seen {
    /// How it looked.
    pub stat: StatKey,
    /// When: of a file that is read, before the first byte was; of a file that was stored, after its name
    /// appeared.
    pub at: Timestamp,
}

/// How the content of a file is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// All of it was read.
    Read,
    /// This program stored it, and it is on its disk.
    Synced,
    /// This program stored it during that boot; after another it may be lost.
    Stored(Boot),
}

/// The content of one file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) seen: Seen,
    pub(super) hash: ContentHash,
    pub(super) origin: Origin,
}

/// Most that the time of a change may be behind the clock: a kernel counts file times in ticks, of 10 ms at
/// most; twice that for safety.
const FINE_NS: i128 = 20_000_000;

/// The same where times have whole seconds: of the common file systems FAT is coarsest, with 2 s.
const COARSE_NS: i128 = 2_000_000_000;

impl Record {
    /// Whether a file that looks like `stat` is sure to have this content still.
    ///
    /// A change right after it was seen can have the same times, so both have to be older than the file
    /// system's granularity when it was seen. What this program stored is sure sooner: any write sets the
    /// mtime, and the stored file's own lies well before its ctime. Times in the future say nothing.
    pub(super) fn vouches_for(&self, stat: &StatKey, now: Timestamp, boot: Boot) -> bool {
        self.seen.stat == *stat && self.seen.at <= now && self.is_settled() && self.survived(boot)
    }

    fn is_settled(&self) -> bool {
        let Seen { stat, at } = &self.seen;
        let granularity = granularity_ns(stat);
        let is_before =
            |time: Timestamp, other: Timestamp| nanoseconds(time) + granularity < nanoseconds(other);
        let is_old = is_before(stat.mtime, *at) && is_before(stat.ctime, *at);
        is_old
            || match self.origin {
                Origin::Read => false,
                Origin::Synced | Origin::Stored(_) => stat.ctime <= *at && is_before(stat.mtime, stat.ctime),
            }
    }

    fn survived(&self, current: Boot) -> bool {
        match self.origin {
            Origin::Read | Origin::Synced => true,
            Origin::Stored(boot) => boot == current,
        }
    }
}

fn granularity_ns(stat: &StatKey) -> i128 {
    if stat.mtime.nanoseconds == 0 && stat.ctime.nanoseconds == 0 { COARSE_NS } else { FINE_NS }
}

fn nanoseconds(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanoseconds)
}

/// The time of the system's clock.
pub fn now() -> Timestamp {
    let (since, is_after) = match SystemTime::now().duration_since(UNIX_EPOCH) {
        Ok(since) => (since, true),
        Err(before) => (before.duration(), false),
    };
    let seconds = i64::try_from(since.as_secs()).unwrap_or(i64::MAX);
    // Before 1970 to the second: such a clock is wrong anyway, and the times of files lie in its future.
    if is_after {
        Timestamp { seconds, nanoseconds: since.subsec_nanos() }
    } else {
        Timestamp { seconds: -seconds, nanoseconds: 0 }
    }
}

/// Bytes of an encoded record.
pub(super) const RECORD_BYTES: usize = 8 + TIME_BYTES * 3 + 8 + 32 + 1 + 8;

const TIME_BYTES: usize = 12;

const READ: u8 = 0;
const SYNCED: u8 = 1;
const STORED: u8 = 2;

impl Record {
    /// Encodes it, numbers little-endian.
    pub(super) fn encode(&self) -> [u8; RECORD_BYTES] {
        let Seen { stat, at } = &self.seen;
        let (origin, boot) = match self.origin {
            Origin::Read => (READ, 0),
            Origin::Synced => (SYNCED, 0),
            Origin::Stored(Boot(boot)) => (STORED, boot),
        };
        let mut out = Vec::with_capacity(RECORD_BYTES);
        out.extend_from_slice(&stat.size.to_le_bytes());
        for time in [stat.mtime, stat.ctime, *at] {
            out.extend_from_slice(&time.seconds.to_le_bytes());
            out.extend_from_slice(&time.nanoseconds.to_le_bytes());
        }
        out.extend_from_slice(&stat.inode.to_le_bytes());
        out.extend_from_slice(&self.hash.0);
        out.push(origin);
        out.extend_from_slice(&boot.to_le_bytes());
        out.try_into().expect("the fields have RECORD_BYTES in all")
    }

    /// Decodes what [`Record::encode`] made; `None` when it is anything else.
    pub(super) fn decode(bytes: &[u8; RECORD_BYTES]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let size = fields.number()?;
        let (mtime, ctime, at) = (fields.time()?, fields.time()?, fields.time()?);
        let inode = fields.number()?;
        let hash = ContentHash(*fields.take()?);
        let [origin] = *fields.take()?;
        let boot = Boot(fields.number()?);
        let origin = match origin {
            READ => Origin::Read,
            SYNCED => Origin::Synced,
            STORED => Origin::Stored(boot),
            _ => return None,
        };
        Some(Self { seen: Seen { stat: StatKey { size, mtime, ctime, inode }, at }, hash, origin })
    }
}

/// What is left of an encoded record.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take<const N: usize>(&mut self) -> Option<&'a [u8; N]> {
        let (taken, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(taken)
    }

    fn number(&mut self) -> Option<u64> {
        self.take().copied().map(u64::from_le_bytes)
    }

    fn time(&mut self) -> Option<Timestamp> {
        let seconds = i64::from_le_bytes(*self.take()?);
        let nanoseconds = u32::from_le_bytes(*self.take()?);
        Some(Timestamp { seconds, nanoseconds })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOOT: Boot = Boot(7);

    fn at(seconds: i64, nanoseconds: u32) -> Timestamp {
        Timestamp { seconds, nanoseconds }
    }

    fn stat(mtime: Timestamp, ctime: Timestamp) -> StatKey {
        StatKey { size: 5, mtime, ctime, inode: 11 }
    }

    fn record(origin: Origin, stat: StatKey, seen_at: Timestamp) -> Record {
        Record { seen: Seen { stat, at: seen_at }, hash: ContentHash([9; 32]), origin }
    }

    fn is_trusted(record: &Record) -> bool {
        record.vouches_for(&record.seen.stat, at(1_000_000, 0), BOOT)
    }

    #[test]
    fn a_file_that_looks_different_in_anything_is_not_trusted() {
        let seen = stat(at(10, 1), at(20, 1));
        let record = record(Origin::Read, seen, at(100, 0));
        let now = at(200, 0);
        assert!(record.vouches_for(&seen, now, BOOT));
        for other in [
            StatKey { size: 6, ..seen },
            StatKey { mtime: at(10, 2), ..seen },
            StatKey { ctime: at(20, 2), ..seen },
            StatKey { inode: 12, ..seen },
        ] {
            assert!(!record.vouches_for(&other, now, BOOT), "{other:?}");
        }
    }

    #[test]
    fn times_within_the_granularity_of_the_reading_are_not_trusted() {
        let read = |mtime, ctime, seen_at| is_trusted(&record(Origin::Read, stat(mtime, ctime), seen_at));
        let fine = FINE_NS as u32;
        assert!(!read(at(50, 1), at(50, 1), at(50, 1)));
        assert!(!read(at(50, 1), at(50, 1), at(50, 1 + fine)));
        assert!(read(at(50, 1), at(50, 1), at(50, 2 + fine)));
        assert!(!read(at(50, 1), at(60, 1), at(60, 1)), "the mtime was put back");
        assert!(!read(at(60, 1), at(50, 1), at(60, 1)), "the mtime is new");
        // Whole seconds in both: a file system that has no others.
        assert!(!read(at(50, 0), at(50, 0), at(52, 0)));
        assert!(read(at(50, 0), at(50, 0), at(52, 1)));
        assert!(read(at(50, 0), at(50, 5), at(51, 0)));
    }

    #[test]
    fn what_was_stored_is_trusted_at_once_if_its_mtime_is_older() {
        let stored = |mtime, ctime, seen_at| is_trusted(&record(Origin::Synced, stat(mtime, ctime), seen_at));
        assert!(stored(at(10, 5), at(50, 1), at(50, 2)));
        assert!(!stored(at(50, 0), at(50, 1), at(50, 2)), "its mtime is the time of a write now");
        assert!(!stored(at(90, 5), at(50, 1), at(50, 2)), "its mtime lies in the future");
        assert!(!stored(at(10, 5), at(50, 3), at(50, 2)), "its ctime lies in the future");
        assert!(!stored(at(49, 0), at(50, 0), at(50, 2)), "whole seconds need two of them");
        assert!(stored(at(47, 0), at(50, 0), at(50, 2)));
        let read = record(Origin::Read, stat(at(10, 5), at(50, 1)), at(50, 2));
        assert!(!is_trusted(&read), "somebody else wrote it, and may be at it still");
    }

    #[test]
    fn times_in_the_future_and_a_clock_set_back_are_not_trusted() {
        let ahead = record(Origin::Read, stat(at(10, 1), at(300, 1)), at(200, 0));
        assert!(!is_trusted(&ahead));
        let mtime_ahead = record(Origin::Read, stat(at(300, 1), at(10, 1)), at(200, 0));
        assert!(!is_trusted(&mtime_ahead));
        let settled = record(Origin::Read, stat(at(10, 1), at(10, 1)), at(200, 0));
        assert!(settled.vouches_for(&settled.seen.stat, at(200, 0), BOOT));
        assert!(!settled.vouches_for(&settled.seen.stat, at(199, 999_999_999), BOOT));
    }

    #[test]
    fn what_was_not_written_to_disk_is_trusted_in_the_same_boot_only() {
        let times = stat(at(10, 1), at(50, 1));
        let is_trusted = |origin, boot| record(origin, times, at(60, 0)).vouches_for(&times, at(70, 0), boot);
        assert!(is_trusted(Origin::Stored(BOOT), BOOT));
        assert!(!is_trusted(Origin::Stored(BOOT), Boot(8)));
        assert!(is_trusted(Origin::Synced, Boot(8)));
        assert!(is_trusted(Origin::Read, Boot(8)));
    }

    #[test]
    fn a_record_is_decoded_as_it_was_encoded() {
        for origin in [Origin::Read, Origin::Synced, Origin::Stored(BOOT)] {
            let record = record(origin, stat(at(-10, 5), at(50, 999_999_999)), at(60, 1));
            assert_eq!(Record::decode(&record.encode()), Some(record));
        }
        assert_eq!(Record::decode(&[0xff; RECORD_BYTES]), None);
    }
}
