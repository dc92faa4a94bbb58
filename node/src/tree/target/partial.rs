//! A large file on its way to its name: written range by range, kept over sessions.

use std::{
    fs::File,
    io,
    os::{fd::AsFd as _, unix::fs::FileExt as _},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use ketch_protocol::{
    hash::{ContentHash, Hasher},
    limits::RANGE_BYTES,
    manifest::Entry,
    message::Fate,
    problem::Cause,
};
use rustix::{
    fs::{AtFlags, FlockOperation, Mode, OFlags, flock, fstat, fsync, ftruncate, openat, statat},
    io::Errno,
};

use super::{
    Durability, Shared, Target,
    private::{Private, hex},
    ranges::{ROW_BYTES, Ranges},
    trouble::{Trouble, errno, metadata_trouble, write_trouble},
};
use crate::tree::{metadata, platform, source::read_fully_at};

/// How often the file is opened again when another receiver completes or removes it just then.
const OPEN_ATTEMPTS: usize = 16;

/// Bytes read at a time when a range is checked, and written at a time where there are no holes.
const CHECK_BYTES: usize = 256 * 1024;

/// A partial file. It is shared by the threads that write its ranges, and by no other receiver. Dropped
/// before [`Partial::commit`], it is kept for a later session.
#[derive(Debug)]
pub struct Partial {
    target: Arc<Shared>,
    entry: Entry,
    private: Arc<Private>,
    identity: Identity,
    /// Locked as long as it is open.
    file: File,
    ranges: Mutex<Ranges>,
}

/// Names a partial file: whoever sends the same version of the same path finds it again.
#[derive(Debug)]
pub(super) struct Identity {
    stem: String,
}

impl Identity {
    pub(super) fn of(entry: &Entry) -> Self {
        Self::in_context("ketch 2026-11 name of a partial file", entry)
    }

    /// Of the same version, made from an older one: what is stored of it is not known by ranges.
    pub(super) fn rebuilt(entry: &Entry) -> Self {
        Self::in_context("ketch 2026-11 name of a rebuilt file", entry)
    }

    fn in_context(context: &str, entry: &Entry) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(context);
        hasher.update(&entry.size().to_le_bytes());
        hasher.update(&entry.mtime.seconds.to_le_bytes());
        hasher.update(&entry.mtime.nanoseconds.to_le_bytes());
        hasher.update(entry.path.as_bytes());
        let mut stem = [0; 16];
        hasher.finalize_xof().fill(&mut stem);
        Self { stem: hex(&stem) }
    }

    /// Bytes that earlier sessions recorded as stored.
    pub(super) fn recorded_bytes(&self, private: &Private) -> u64 {
        let stat = |name| statat(private.folder(), name, AtFlags::SYMLINK_NOFOLLOW);
        match (stat(self.part()), stat(self.record())) {
            (Ok(part), Ok(record)) => {
                let rows = metadata::size(&record) / ROW_BYTES as u64;
                rows.saturating_mul(RANGE_BYTES).min(metadata::size(&part))
            }
            (Ok(_) | Err(_), Ok(_) | Err(_)) => 0,
        }
    }

    fn part(&self) -> String {
        format!("{}.part", self.stem)
    }

    fn record(&self) -> String {
        format!("{}.ranges", self.stem)
    }
}

impl Target {
    /// Begins or resumes a file of more than [`ketch_protocol::limits::WHOLE_BYTES`].
    pub fn partial(&self, entry: &Entry) -> Result<Partial, Trouble> {
        self.partial_named(entry, Identity::of(entry))
    }

    pub(super) fn partial_named(&self, entry: &Entry, identity: Identity) -> Result<Partial, Trouble> {
        let trouble = |error| write_trouble(&entry.path, "opening its partial file", error);
        let directory = self.0.directory_above(&entry.path).map_err(trouble)?;
        let private = self.0.private(&directory, entry.path.parent()).map_err(trouble)?;
        let opened = self.0.handles.with_room(|| open_locked(&private, &identity));
        let Some(file) = opened.map_err(trouble)? else {
            let detail = "another receiver is writing the same file here";
            return Err(Trouble::problem(&entry.path, Cause::Unwritable, detail));
        };
        // To its length at once, without taking space: one that the file system can't have is refused before
        // anything is written.
        ftruncate(&file, entry.size()).map_err(trouble)?;
        let flags = OFlags::RDWR | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let record = self
            .0
            .handles
            .with_room(|| openat(private.folder(), identity.record(), flags, Mode::RUSR | Mode::WUSR));
        let ranges = Ranges::load(record.map_err(trouble)?, range_count(entry.size()))
            .map_err(|error| trouble(errno(&error)))?;
        let (target, entry, ranges) = (Arc::clone(&self.0), entry.clone(), Mutex::new(ranges));
        Ok(Partial { target, entry, private, identity, file, ranges })
    }
}

impl Partial {
    /// The hash of a range that is stored already, read again and found whole; `None` when it must be
    /// fetched. Costs reading the range if it is recorded, and nothing otherwise.
    pub fn finished(&self, index: u64) -> Option<ContentHash> {
        let recorded = self.ranges().hash(index)?;
        if self.hash_range(index).is_ok_and(|found| found == recorded) {
            return Some(recorded);
        }
        // If the record can't be corrected, the range is found wrong again the next time.
        let _ = self.ranges().forget(index);
        None
    }

    /// Whether a range is recorded as stored; [`Partial::finished`] also checks that it is.
    pub fn is_recorded(&self, index: u64) -> bool {
        self.recorded(index).is_some()
    }

    /// The hash of a range that was stored, as it was recorded.
    pub fn recorded(&self, index: u64) -> Option<ContentHash> {
        self.ranges().hash(index)
    }

    /// Writes content at `offset` bytes.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Trouble> {
        self.file.write_all_at(bytes, offset).map_err(|error| self.trouble("writing", errno(&error)))
    }

    /// Makes `length` bytes at `offset` read as zeros, as a hole where the file system has them. Something
    /// else may have been written there before.
    pub fn skip_at(&self, offset: u64, length: u64) -> Result<(), Trouble> {
        let punched = platform::punch_hole(self.file.as_fd(), offset, length);
        if punched.map_err(|error| self.trouble("leaving a hole", error))? {
            return Ok(());
        }
        let zeros = vec![0; CHECK_BYTES];
        let end = offset.saturating_add(length);
        for begin in (offset..end).step_by(CHECK_BYTES) {
            let count = usize::try_from(end - begin).map_or(CHECK_BYTES, |left| left.min(CHECK_BYTES));
            self.write_at(begin, &zeros[..count])?;
        }
        Ok(())
    }

    /// Reads at `offset` bytes into `buffer`; fewer bytes than it holds only at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fully_at(&self.file, buffer, offset)
    }

    /// Records a range whose bytes are written and have this hash.
    pub fn finish_range(&self, index: u64, hash: ContentHash) -> Result<(), Trouble> {
        let recorded = self.ranges().finish(index, hash);
        recorded.map_err(|error| self.trouble("recording a range", errno(&error)))
    }

    /// Takes a finished range back: its content turned out not to be the sender's.
    pub fn forget_range(&self, index: u64) -> Result<(), Trouble> {
        let forgotten = self.ranges().forget(index);
        forgotten.map_err(|error| self.trouble("recording a range", errno(&error)))
    }

    /// Gives the file its mode, its time and then its name, once every range is finished; problems as in
    /// [`NewFile::commit`](super::NewFile::commit), and after any other than one of metadata it is kept as it
    /// is.
    pub fn commit(&self) -> Result<Fate, Trouble> {
        let (finished, all) = (self.ranges().count(), range_count(self.entry.size()));
        if finished != all {
            let detail = format_args!("{finished} of its {all} ranges are stored");
            return Err(Trouble::problem(&self.entry.path, Cause::Corrupt, detail));
        }
        self.commit_as_it_is()
    }

    /// The same of one whose content was checked as a whole.
    pub(super) fn commit_as_it_is(&self) -> Result<Fate, Trouble> {
        let described = metadata::apply(&self.file, &self.entry, self.target.options.handling.carried());
        if self.target.options.durability == Durability::File {
            fsync(&self.file).map_err(|error| self.trouble("syncing", error))?;
        }
        let fate = self.publish().map_err(|error| self.trouble("naming the file", error))?;
        described.map(|()| fate).map_err(|unset| metadata_trouble(&self.entry.path, unset))
    }

    /// Another handle on the file.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Removes what is stored of it.
    pub fn discard(&self) {
        // What can't be removed is swept when it is stale.
        let _ = self.private.remove(&self.identity.part());
        let _ = self.private.remove(&self.identity.record());
    }

    fn publish(&self) -> Result<Fate, Errno> {
        let path = &self.entry.path;
        let directory = self.target.directory_above(path)?;
        let fate = self.target.place(path, &directory, (&self.private, &self.identity.part()))?;
        // Without its file a record says nothing; left behind, it is swept.
        let _ = self.private.remove(&self.identity.record());
        Ok(fate)
    }

    fn hash_range(&self, index: u64) -> io::Result<ContentHash> {
        let begin = index * RANGE_BYTES;
        let end = (begin + RANGE_BYTES).min(self.entry.size());
        let mut hasher = Hasher::range(begin);
        let mut buffer = vec![0; CHECK_BYTES];
        let mut offset = begin;
        while offset < end {
            let wanted = usize::try_from(end - offset).map_or(CHECK_BYTES, |left| left.min(CHECK_BYTES));
            match self.read_at(&mut buffer[..wanted], offset)? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                count => {
                    hasher.update(&buffer[..count]);
                    offset += count as u64;
                }
            }
        }
        Ok(hasher.finish())
    }

    fn trouble(&self, doing: &str, error: Errno) -> Trouble {
        write_trouble(&self.entry.path, doing, error)
    }

    /// A thread that panicked left at worst a row that is not in memory; it is found on loading.
    fn ranges(&self) -> MutexGuard<'_, Ranges> {
        self.ranges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Opens the file and locks it; `None` when another receiver has it.
fn open_locked(private: &Private, identity: &Identity) -> Result<Option<File>, Errno> {
    let name = identity.part();
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..OPEN_ATTEMPTS {
        let file = openat(private.folder(), &name, flags, Mode::RUSR | Mode::WUSR)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => return Ok(None),
            Err(error) => return Err(error),
        }
        // Whoever held it before may have completed it just now: then it is under its final name.
        let locked = fstat(&file)?;
        match statat(private.folder(), &name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(named) if (named.st_dev, named.st_ino) == (locked.st_dev, locked.st_ino) => {
                return Ok(Some(file.into()));
            }
            Ok(_) | Err(Errno::NOENT) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn range_count(size: u64) -> u64 {
    size.div_ceil(RANGE_BYTES)
}
