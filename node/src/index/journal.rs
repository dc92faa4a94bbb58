//! The journal beside an index: what became known since the index was last written, one write for each batch
//! and none of them forced to disk, so that a killed process loses nothing and pays next to nothing.
//!
//! A header, which says what the file of the index has to be ([`Seal`]), then frames: length of the payload
//! (u32, little-endian like all numbers), the first 8 bytes of its BLAKE3, then the payload, a kind and what
//! belongs to it:
//!
//! - 1, records: for each, the length of its key (u16), the key, the record (`record.rs`);
//! - 2, a checkpoint: everything in front of an offset (u64) of this file describes what is on its disk.
//!
//! What follows the first frame that is not whole, or not what its checksum says, does not count: it is what
//! a power cut left. So a checkpoint counts only with all that it vouches for.

use std::{
    fs::{File, OpenOptions},
    io::{self, BufReader, Read as _, Seek as _, SeekFrom},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::Path,
    time::SystemTime,
};

use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
};

use super::{
    record::{Origin, Record},
    seal::{SEAL_BYTES, Seal},
};

/// Name and version of the format, in front of the seal.
const MAGIC: &[u8; 16] = b"ketch journal 1\n";

const HEADER_BYTES: usize = MAGIC.len() + SEAL_BYTES;

const RECORDS: u8 = 1;
const CHECKPOINT: u8 = 2;

/// Bytes before the payload of a frame.
const FRAME_HEADER_BYTES: usize = 4 + SUM_BYTES;

/// Against what a power cut or a bad disk does, not against malice: whoever can write to the state folder can
/// do anything.
const SUM_BYTES: usize = 8;

/// A batch of records is written once it has this many bytes: a write costs nothing beside them, and a kill
/// loses what some hundred files say.
pub(super) const BATCH_BYTES: usize = 64 * 1024;

/// It is also written once it stands for this much content, in bytes: a kill costs reading no more than that again,
/// and one file of that length is known as soon as it is there.
pub(super) const BATCH_CONTENT_BYTES: u64 = 1024 * 1024;

/// Longest payload that is read: a batch ends with the record that fills it.
const PAYLOAD_BYTES: usize = 2 * BATCH_BYTES;

/// Records on their way into the journal.
#[derive(Debug, Default)]
pub(super) struct Batch {
    /// Room for the frame header, the kind, then the records; empty when there are none.
    frame: Vec<u8>,
    /// Length of all files in it, in bytes.
    content_bytes: u64,
}

impl Batch {
    /// Adds what is known of the file whose key is `key`.
    pub(super) fn add(&mut self, key: &[u8], record: &Record) {
        if self.frame.is_empty() {
            self.frame.resize(FRAME_HEADER_BYTES, 0);
            self.frame.push(RECORDS);
        }
        let length = u16::try_from(key.len()).expect("a path has at most PATH_BYTES");
        self.frame.extend_from_slice(&length.to_le_bytes());
        self.frame.extend_from_slice(key);
        self.frame.extend_from_slice(&record.encode());
        self.content_bytes = self.content_bytes.saturating_add(record.seen.stat.size);
    }

    /// Whether it should be written now.
    pub(super) fn is_full(&self) -> bool {
        self.frame.len() >= BATCH_BYTES || self.content_bytes >= BATCH_CONTENT_BYTES
    }

    pub(super) fn is_empty(&self) -> bool {
        self.frame.is_empty()
    }
}

/// Where a journal stood when a checkpoint began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// How often it was emptied before.
    generation: u64,
    offset: u64,
}

/// The journal of one tree. Whoever has it open is the only one.
#[derive(Debug)]
pub(super) struct Journal {
    file: File,
    /// Where the next frame goes.
    end: u64,
    /// What is in front of it is on its disk.
    synced: u64,
    generation: u64,
    seal: Seal,
}

/// Why a journal can't be opened.
#[derive(Debug)]
pub(super) enum Refused {
    /// Another process has it open.
    Busy,
    /// It is not a journal of this version.
    Foreign,
    /// The system refuses.
    Io(io::Error),
}

impl From<io::Error> for Refused {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl Journal {
    /// Opens the journal at `path`, making it where missing. What a power cut left at its end is cut off.
    pub(super) fn open(path: &Path) -> Result<Self, Refused> {
        let file =
            OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        // A file system without locks keeps nobody out; then two processes may each spoil what the other wrote,
        // which the checksums find and which costs reading files again.
        if flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK) {
            return Err(Refused::Busy);
        }
        // When it was last used, for whoever tidies up; where it can't be said, it is forgotten too early.
        let _ = file.set_modified(SystemTime::now());
        let mut journal = Self { file, end: 0, synced: 0, generation: 0, seal: Seal::Missing };
        journal.begin()?;
        Ok(journal)
    }

    fn begin(&mut self) -> Result<(), Refused> {
        let mut header = Vec::new();
        (&self.file).take(HEADER_BYTES as u64).read_to_end(&mut header)?;
        if header.len() < HEADER_BYTES && (header.starts_with(MAGIC) || MAGIC.starts_with(&header)) {
            // New, or its maker was stopped.
            self.write_header(Seal::Missing)?;
        } else if let Some(seal) = header.strip_prefix(MAGIC).and_then(Seal::decode) {
            self.seal = seal;
        } else {
            return Err(Refused::Foreign);
        }
        (self.end, self.synced) = self.survey()?;
        self.file.set_len(self.end)?;
        Ok(())
    }

    fn write_header(&mut self, seal: Seal) -> io::Result<()> {
        self.file.write_all_at(&[&MAGIC[..], &seal.encode()].concat(), 0)?;
        self.seal = seal;
        Ok(())
    }

    /// What the file of the index has to be.
    pub(super) fn seal(&self) -> Seal {
        self.seal
    }

    /// Says so before the file of the index is written, and has it on disk before that is.
    pub(super) fn begin_writing(&mut self) -> io::Result<()> {
        if self.seal != Seal::Writing {
            self.write_header(Seal::Writing)?;
            self.file.sync_data()?;
        }
        Ok(())
    }

    /// Where the whole frames end, and what the last checkpoint among them covers.
    fn survey(&self) -> io::Result<(u64, u64)> {
        let mut frames = self.frames()?;
        let mut synced = 0;
        while let Some(payload) = frames.next()? {
            if let [CHECKPOINT, offset @ ..] = payload {
                synced = offset.try_into().map_or(synced, u64::from_le_bytes);
            }
        }
        Ok((frames.offset, synced))
    }

    /// Whether there is nothing in it.
    pub(super) fn is_empty(&self) -> bool {
        self.end == HEADER_BYTES as u64
    }

    /// Writes a batch, if it has records, and empties it.
    pub(super) fn append(&mut self, batch: &mut Batch) -> io::Result<()> {
        if batch.is_empty() {
            return Ok(());
        }
        let written = self.write_frame(&mut batch.frame);
        batch.frame.clear();
        batch.content_bytes = 0;
        written
    }

    /// Where it stands now, for [`Journal::checkpoint`].
    pub(super) fn mark(&self) -> Mark {
        Mark { generation: self.generation, offset: self.end }
    }

    /// Says that what was appended before `mark` is on its disk. Gives back the file, if there was something to say,
    /// for the caller to have it written to its own.
    pub(super) fn checkpoint(&mut self, mark: Mark) -> io::Result<Option<File>> {
        if mark.generation != self.generation || mark.offset <= self.synced {
            return Ok(None);
        }
        let mut frame = vec![0; FRAME_HEADER_BYTES];
        frame.push(CHECKPOINT);
        frame.extend_from_slice(&mark.offset.to_le_bytes());
        self.write_frame(&mut frame)?;
        self.synced = mark.offset;
        self.file.try_clone().map(Some)
    }

    /// Fills in the frame header and appends the frame; when that fails, no part of it is left.
    fn write_frame(&mut self, frame: &mut [u8]) -> io::Result<()> {
        let (header, payload) = frame.split_at_mut(FRAME_HEADER_BYTES);
        let length = u32::try_from(payload.len()).expect("a batch is far below 4 GiB");
        header[..4].copy_from_slice(&length.to_le_bytes());
        header[4..].copy_from_slice(&sum(payload));
        if let Err(error) = self.file.write_all_at(frame, self.end) {
            // Should this fail too, the torn frame ends what counts, or the next frame overwrites it.
            let _ = self.file.set_len(self.end);
            return Err(error);
        }
        self.end += frame.len() as u64;
        Ok(())
    }

    /// Every record in the order they were appended, by its key. Those that a checkpoint covers are
    /// [`Origin::Synced`].
    pub(super) fn records<E: From<io::Error>>(
        &self,
        mut each: impl FnMut(&[u8], Record) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut frames = self.frames()?;
        loop {
            let is_synced = frames.offset < self.synced;
            let Some(payload) = frames.next()? else { return Ok(()) };
            let [RECORDS, records @ ..] = payload else { continue };
            for (key, mut record) in Records(records) {
                if is_synced && matches!(record.origin, Origin::Stored(_)) {
                    record.origin = Origin::Synced;
                }
                each(key, record)?;
            }
        }
    }

    /// Forgets everything, now that it is in the file of the index, which is `seal`, or that nobody needs it. Stopped
    /// in between, it is folded once more.
    pub(super) fn clear(&mut self, seal: Seal) -> io::Result<()> {
        self.write_header(seal)?;
        self.file.set_len(HEADER_BYTES as u64)?;
        self.end = HEADER_BYTES as u64;
        self.synced = 0;
        self.generation += 1;
        Ok(())
    }

    fn frames(&self) -> io::Result<Frames<'_>> {
        let offset = HEADER_BYTES as u64;
        (&self.file).seek(SeekFrom::Start(offset))?;
        Ok(Frames { reader: BufReader::with_capacity(BATCH_BYTES, &self.file), offset, payload: Vec::new() })
    }
}

/// The whole frames from the first on.
struct Frames<'a> {
    reader: BufReader<&'a File>,
    /// Where the next one begins.
    offset: u64,
    payload: Vec<u8>,
}

impl Frames<'_> {
    /// The payload of the next frame; `None` where whole frames end.
    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        let mut header = [0; FRAME_HEADER_BYTES];
        if !fill(&mut self.reader, &mut header)? {
            return Ok(None);
        }
        let [a, b, c, d, expected @ ..] = header;
        let length = u32::from_le_bytes([a, b, c, d]) as usize;
        if length == 0 || length > PAYLOAD_BYTES {
            return Ok(None);
        }
        self.payload.resize(length, 0);
        if !fill(&mut self.reader, &mut self.payload)? || sum(&self.payload) != expected {
            return Ok(None);
        }
        self.offset += (FRAME_HEADER_BYTES + length) as u64;
        Ok(Some(&self.payload))
    }
}

fn sum(payload: &[u8]) -> [u8; SUM_BYTES] {
    blake3::hash(payload).as_bytes()[..SUM_BYTES].try_into().expect("a hash has 32 bytes")
}

/// Whether there were enough bytes.
fn fill(reader: &mut impl io::Read, buffer: &mut [u8]) -> io::Result<bool> {
    match reader.read_exact(buffer) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

/// The records of one frame.
struct Records<'a>(&'a [u8]);

impl<'a> Iterator for Records<'a> {
    type Item = (&'a [u8], Record);

    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.0.split_first_chunk()?;
        let (key, rest) = rest.split_at_checked(usize::from(u16::from_le_bytes(*length)))?;
        let (record, rest) = rest.split_first_chunk()?;
        self.0 = rest;
        Some((key, Record::decode(record)?))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ketch_protocol::{hash::ContentHash, manifest::Timestamp};

    use super::*;
    use crate::index::{
        boot::Boot,
        record::{Seen, StatKey},
    };

    const BOOT: Boot = Boot(1);

    fn record(number: u8) -> Record {
        let time = Timestamp { seconds: i64::from(number), nanoseconds: 1 };
        let stat = StatKey { size: 1, mtime: time, ctime: time, inode: u64::from(number) };
        let seen = Seen { stat, at: Timestamp { seconds: 1_000, nanoseconds: 0 } };
        Record { seen, hash: ContentHash([number; 32]), origin: Origin::Stored(BOOT) }
    }

    fn append(journal: &mut Journal, numbers: std::ops::Range<u8>) {
        let mut batch = Batch::default();
        for number in numbers {
            batch.add(&[b'a', number + 1], &record(number));
        }
        journal.append(&mut batch).unwrap();
        assert!(batch.is_empty());
    }

    /// Number and origin of every record.
    fn content(journal: &Journal) -> Vec<(u8, Origin)> {
        let mut found = Vec::new();
        journal
            .records(|key, record| {
                assert_eq!(key, [b'a', record.hash.0[0] + 1]);
                found.push((record.hash.0[0], record.origin));
                Ok::<_, io::Error>(())
            })
            .unwrap();
        found
    }

    fn stored(numbers: std::ops::Range<u8>) -> Vec<(u8, Origin)> {
        numbers.map(|number| (number, Origin::Stored(BOOT))).collect()
    }

    fn synced(numbers: std::ops::Range<u8>) -> Vec<(u8, Origin)> {
        numbers.map(|number| (number, Origin::Synced)).collect()
    }

    #[test]
    fn what_was_appended_is_there_after_the_process_is_gone() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("j");
        let mut journal = Journal::open(&at).unwrap();
        assert!(journal.is_empty());
        append(&mut journal, 0..3);
        append(&mut journal, 3..4);
        drop(journal);

        let mut journal = Journal::open(&at).unwrap();
        assert_eq!(content(&journal), stored(0..4));
        append(&mut journal, 4..6);
        assert_eq!(content(&journal), stored(0..6));
        journal.clear(Seal::Missing).unwrap();
        assert!(journal.is_empty() && content(&journal).is_empty());
    }

    #[test]
    fn a_checkpoint_covers_what_was_appended_before_it_began() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("j");
        let mut journal = Journal::open(&at).unwrap();
        append(&mut journal, 0..2);
        let mark = journal.mark();
        append(&mut journal, 2..3);
        journal.checkpoint(mark).unwrap();
        append(&mut journal, 3..4);
        let expected = [synced(0..2), stored(2..4)].concat();
        assert_eq!(content(&journal), expected);
        drop(journal);
        assert_eq!(content(&Journal::open(&at).unwrap()), expected);
    }

    #[test]
    fn a_mark_from_before_the_journal_was_emptied_covers_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = Journal::open(&folder.path().join("j")).unwrap();
        append(&mut journal, 0..2);
        let mark = journal.mark();
        journal.clear(Seal::Missing).unwrap();
        append(&mut journal, 2..3);
        journal.checkpoint(mark).unwrap();
        assert_eq!(content(&journal), stored(2..3));
    }

    /// Three frames: two records, a checkpoint over them, one record; and where each frame ends.
    fn sample(at: &Path) -> (Vec<u8>, [u64; 3]) {
        let mut journal = Journal::open(at).unwrap();
        append(&mut journal, 0..2);
        let first = journal.end;
        journal.checkpoint(journal.mark()).unwrap();
        let second = journal.end;
        append(&mut journal, 2..3);
        let ends = [first, second, journal.end];
        drop(journal);
        (fs::read(at).unwrap(), ends)
    }

    fn expected(whole: u64, ends: [u64; 3]) -> Vec<(u8, Origin)> {
        match ends.iter().filter(|&&end| end <= whole).count() {
            0 => Vec::new(),
            1 => stored(0..2),
            2 => synced(0..2),
            _ => [synced(0..2), stored(2..3)].concat(),
        }
    }

    #[test]
    fn a_journal_cut_at_any_byte_keeps_its_whole_frames_and_goes_on() {
        let folder = tempfile::tempdir().unwrap();
        let (bytes, ends) = sample(&folder.path().join("j"));
        for length in 0..=bytes.len() {
            let at = folder.path().join("cut");
            fs::write(&at, &bytes[..length]).unwrap();
            let mut journal = Journal::open(&at).unwrap();
            let kept = expected(length as u64, ends);
            assert_eq!(content(&journal), kept, "cut at {length}");
            append(&mut journal, 7..8);
            assert_eq!(content(&journal), [kept, stored(7..8)].concat(), "appended after a cut at {length}");
            fs::remove_file(&at).unwrap();
        }
    }

    #[test]
    fn a_flipped_bit_anywhere_ends_what_counts_there() {
        let folder = tempfile::tempdir().unwrap();
        let (bytes, ends) = sample(&folder.path().join("j"));
        for bit in 0..bytes.len() * 8 {
            let at = folder.path().join("flipped");
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            fs::write(&at, &damaged).unwrap();
            let byte = (bit / 8) as u64;
            if byte < MAGIC.len() as u64 {
                assert!(matches!(Journal::open(&at), Err(Refused::Foreign)), "bit {bit}");
                continue;
            }
            if byte < HEADER_BYTES as u64 {
                let opened = Journal::open(&at);
                assert!(
                    opened.is_err() || content(&opened.unwrap()) == expected(u64::MAX, ends),
                    "bit {bit}"
                );
                continue;
            }
            let whole = ends.iter().copied().filter(|&end| end <= byte).max().unwrap_or_default();
            assert_eq!(content(&Journal::open(&at).unwrap()), expected(whole, ends), "bit {bit}");
        }
    }

    #[test]
    fn zeros_at_the_end_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("j");
        let (mut bytes, ends) = sample(&at);
        bytes.resize(bytes.len() + 5_000, 0);
        fs::write(&at, &bytes).unwrap();
        assert_eq!(content(&Journal::open(&at).unwrap()), expected(u64::MAX, ends));
    }

    #[test]
    fn the_seal_is_kept_until_another_is_set() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("j");
        let whole = Seal::Whole { length: 5, hash: [7; 16] };
        let mut journal = Journal::open(&at).unwrap();
        assert_eq!(journal.seal(), Seal::Missing);
        append(&mut journal, 0..2);
        journal.clear(whole).unwrap();
        append(&mut journal, 0..2);
        drop(journal);
        let mut journal = Journal::open(&at).unwrap();
        assert_eq!((journal.seal(), content(&journal)), (whole, stored(0..2)));
        journal.begin_writing().unwrap();
        drop(journal);
        let journal = Journal::open(&at).unwrap();
        assert_eq!((journal.seal(), content(&journal)), (Seal::Writing, stored(0..2)));
    }

    #[test]
    fn one_at_a_time_has_it_open() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("j");
        let first = Journal::open(&at).unwrap();
        assert!(matches!(Journal::open(&at), Err(Refused::Busy)));
        drop(first);
        assert!(Journal::open(&at).is_ok());
    }
}
