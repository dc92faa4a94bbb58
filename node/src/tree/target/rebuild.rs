//! A file that is made from its old version and pieces of the new one.

use std::{
    fs::File,
    io,
    ops::Range,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    sync::{Mutex, PoisonError},
};

use ketch_protocol::{limits::WHOLE_BYTES, manifest::Entry, message::Fate, path::EntryPath, problem::Cause};
use rustix::fs::fstat;

use super::{
    NewFile, Partial, Target,
    partial::Identity,
    trouble::{Trouble, errno, write_trouble},
};
use crate::tree::{metadata, source::read_fully_at};

/// Block of the usual file systems: what is not written of it takes no space.
const HOLE_BLOCK_BYTES: u64 = 4 * 1024;

/// The old version under the entry's name, and the new one on its way to it. Shared by the threads that write
/// pieces. Dropped before [`Rebuild::commit`], it leaves the old version as it is; of a large file what is written of
/// the new one is kept for a later session.
#[derive(Debug)]
pub struct Rebuild {
    path: EntryPath,
    old: File,
    old_size: u64,
    /// Zeros are left out of the new version where the old one has holes.
    sparse: bool,
    new: File,
    /// Whether an earlier session may have written parts of it.
    resumed: bool,
    /// Until it is committed.
    named: Mutex<Option<Named>>,
}

/// What gives the new version its name.
#[derive(Debug)]
enum Named {
    Small(NewFile),
    Large(Box<Partial>),
}

impl Target {
    /// Begins a file that is to replace the one under its name, read meanwhile. `None` when there is no file
    /// that can be read.
    pub fn rebuild(&self, entry: &Entry) -> Result<Option<Rebuild>, Trouble> {
        let Ok(old) = self.0.open_existing(&entry.path) else { return Ok(None) };
        let trouble = |error: io::Error| write_trouble(&entry.path, "making the file", errno(&error));
        let stat = fstat(&old).map_err(|error| write_trouble(&entry.path, "making the file", error))?;
        let (new, named) = self.begin_new(entry, trouble)?;
        // To its length at once: what nobody writes to stays a hole.
        new.set_len(entry.size()).map_err(trouble)?;
        let resumed = new.metadata().map_err(trouble)?.blocks() > 0;
        let (path, named) = (entry.path.clone(), Mutex::new(Some(named)));
        let (old_size, sparse) = (metadata::size(&stat), metadata::is_sparse(&stat));
        Ok(Some(Rebuild { path, old, old_size, sparse, new, resumed, named }))
    }

    fn begin_new(
        &self,
        entry: &Entry,
        trouble: impl Fn(io::Error) -> Trouble,
    ) -> Result<(File, Named), Trouble> {
        if entry.size() > WHOLE_BYTES
            // One that an earlier session still holds is not waited for.
            && let Ok(partial) = self.partial_named(entry, Identity::rebuilt(entry))
        {
            return Ok((partial.handle().map_err(trouble)?, Named::Large(Box::new(partial))));
        }
        let new = self.create(entry)?;
        Ok((new.handle().map_err(trouble)?, Named::Small(new)))
    }
}

impl Rebuild {
    /// Length of the old version when it was opened, in bytes.
    pub fn old_size(&self) -> u64 {
        self.old_size
    }

    /// Reads the old version at `offset` bytes into `buffer`; fewer bytes than it holds only at its end.
    pub fn read_old(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fully_at(&self.old, buffer, offset)
    }

    /// Whether parts of the new version may be written already.
    pub fn is_resumed(&self) -> bool {
        self.resumed
    }

    /// Reads what is written of the new version likewise.
    pub fn read_new(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fully_at(&self.new, buffer, offset)
    }

    /// Writes a part of the new version, to where nothing else was written before.
    pub fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<(), Trouble> {
        let written = if self.sparse {
            data_runs(bytes, offset)
                .into_iter()
                .try_for_each(|run| self.new.write_all_at(&bytes[run.clone()], offset + run.start as u64))
        } else {
            self.new.write_all_at(bytes, offset)
        };
        written.map_err(|error| write_trouble(&self.path, "writing", errno(&error)))
    }

    /// Puts the new version in the place of the old one, as [`NewFile::commit`] does; once.
    pub fn commit(&self) -> Result<Fate, Trouble> {
        // Nothing panics while it is locked.
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner).take();
        match named {
            Some(Named::Small(new)) => new.commit(),
            Some(Named::Large(partial)) => partial.commit_as_it_is(),
            None => Err(Trouble::problem(&self.path, Cause::Unwritable, "it was made before")),
        }
    }

    /// Keeps nothing of the new version for a later session.
    pub fn discard(&self) {
        let named = self.named.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Named::Large(partial)) = named {
            partial.discard();
        }
    }
}

/// The parts of `bytes`, which belong at `offset`, that are no hole: the others are whole blocks of zeros.
fn data_runs(bytes: &[u8], offset: u64) -> Vec<Range<usize>> {
    let (mut runs, mut start) = (Vec::<Range<usize>>::new(), 0);
    while start < bytes.len() {
        let in_block = (offset + start as u64) % HOLE_BLOCK_BYTES;
        let end = bytes.len().min(start + (HOLE_BLOCK_BYTES - in_block) as usize);
        if bytes[start..end].iter().any(|&byte| byte != 0) {
            match runs.last_mut() {
                Some(run) if run.end == start => run.end = end,
                Some(_) | None => runs.push(start..end),
            }
        }
        start = end;
    }
    runs
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ketch_protocol::manifest::{EntryKind, Timestamp};

    use super::*;
    use crate::tree::{Durability, Handling, Options};

    fn target(folder: &std::path::Path) -> Target {
        Target::open(folder, Options { handling: Handling::receiving(true), durability: Durability::None })
            .unwrap()
    }

    fn entry(size: u64) -> Entry {
        let path = EntryPath::parse(b"f").unwrap();
        Entry::new(path, EntryKind::File { size }, 0o640, Timestamp { seconds: 9, nanoseconds: 0 })
    }

    #[test]
    fn the_old_version_stays_until_the_new_one_is_committed() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("f");
        fs::write(&at, "old").unwrap();
        let target = target(folder.path());
        let rebuild = target.rebuild(&entry(6)).unwrap().unwrap();
        rebuild.write_at(3, b"new").unwrap();
        let mut buffer = [0; 6];
        assert_eq!((rebuild.old_size(), rebuild.read_old(&mut buffer, 0).unwrap()), (3, 3));
        rebuild.write_at(0, &buffer[..3]).unwrap();
        assert_eq!(rebuild.read_new(&mut buffer, 0).unwrap(), 6);
        assert_eq!((&buffer, fs::read(&at).unwrap()), (b"oldnew", b"old".to_vec()));

        rebuild.commit().unwrap();
        assert_eq!(fs::read(&at).unwrap(), b"oldnew");
        assert!(rebuild.commit().is_err());
        target.finish();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn one_that_is_dropped_leaves_the_old_version_alone() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("f");
        fs::write(&at, "old").unwrap();
        let target = target(folder.path());
        drop(target.rebuild(&entry(2)).unwrap());
        target.finish();
        assert_eq!(fs::read(&at).unwrap(), b"old");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_written_of_a_large_one_is_kept_until_it_is_committed_or_discarded() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("f");
        fs::write(&at, "old").unwrap();
        let (target, size) = (target(folder.path()), WHOLE_BYTES + 1);
        let rebuild = || target.rebuild(&entry(size)).unwrap().unwrap();
        assert!(!rebuild().is_resumed());
        rebuild().write_at(size - 3, b"new").unwrap();
        let again = rebuild();
        let mut buffer = [0; 3];
        again.read_new(&mut buffer, size - 3).unwrap();
        assert_eq!((again.is_resumed(), &buffer, fs::read(&at).unwrap()), (true, b"new", b"old".to_vec()));
        again.discard();
        drop(again);
        assert!(!rebuild().is_resumed());
        rebuild().write_at(0, b"new").unwrap();
        rebuild().commit().unwrap();
        assert_eq!(fs::read(&at).unwrap()[..3], *b"new");
        target.finish();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn only_a_file_can_be_the_old_version() {
        let folder = tempfile::tempdir().unwrap();
        let target = target(folder.path());
        assert!(target.rebuild(&entry(1)).unwrap().is_none());
        fs::create_dir(folder.path().join("f")).unwrap();
        assert!(target.rebuild(&entry(1)).unwrap().is_none());
    }

    #[test]
    fn holes_of_the_old_version_stay_holes() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("f");
        File::create(&at).unwrap().set_len(1 << 20).unwrap();
        let rebuild = target(folder.path()).rebuild(&entry(1 << 20)).unwrap().unwrap();
        let mut content = vec![0; 1 << 20];
        content[0] = 1;
        content[700_000] = 1;
        rebuild.write_at(0, &content[..100_001]).unwrap();
        rebuild.write_at(100_001, &content[100_001..]).unwrap();
        rebuild.commit().unwrap();
        let stored = fs::metadata(&at).unwrap();
        assert!(fs::read(&at).unwrap() == content);
        assert!(stored.blocks() * 512 <= 64 * 1024, "{} blocks", stored.blocks());
    }
}
