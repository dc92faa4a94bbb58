//! A small file on its way to its name.

use std::{
    fs::File,
    io::{self, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
};

use ketch_protocol::{manifest::Entry, message::Fate};
use rustix::{
    fs::{Mode, SeekFrom, fstat, fsync, ftruncate, seek},
    io::Errno,
};

use super::{
    Directory, Durability, Existing, Shared, Target,
    private::{Private, Temporary},
    trouble::{Trouble, errno, metadata_trouble, write_trouble},
};
use crate::{
    index::{self, Seen},
    tree::{metadata, platform, source::read_fully_at},
};

/// A file that has no name yet, or one in the private folder. Dropped, it leaves nothing.
#[derive(Debug)]
pub struct NewFile {
    target: Arc<Shared>,
    entry: Entry,
    directory: Arc<Directory>,
    private: Arc<Private>,
    file: File,
    /// Where the file system has no nameless files.
    temporary: Option<Temporary>,
    /// Bytes so far, holes included.
    length: u64,
    ends_with_hole: bool,
}

impl Target {
    /// Begins a file of at most [`ketch_protocol::limits::WHOLE_BYTES`].
    pub fn create(&self, entry: &Entry) -> Result<NewFile, Trouble> {
        self.begin(entry).map_err(|error| write_trouble(&entry.path, "making the file", error))
    }

    fn begin(&self, entry: &Entry) -> Result<NewFile, Errno> {
        let directory = self.0.directory_above(&entry.path)?;
        let private = self.0.private(&directory, entry.path.parent())?;
        // What has its mode from the start mostly need not be changed, which would cost the file system a transaction.
        // Attributes can only be set on what its owner may write.
        let mode = metadata::carried_mode(entry.mode) | Mode::RUSR | Mode::WUSR;
        let (file, temporary) = self.0.handles.with_room(|| make_file(&directory, &private, mode))?;
        let (target, entry, file) = (Arc::clone(&self.0), entry.clone(), file.into());
        Ok(NewFile { target, entry, directory, private, file, temporary, length: 0, ends_with_hole: false })
    }
}

/// A file without a name, which nobody else can open before it gets one, or a temporary for its owner alone
/// where that can't be had.
fn make_file(
    directory: &Directory,
    private: &Arc<Private>,
    mode: Mode,
) -> Result<(OwnedFd, Option<Temporary>), Errno> {
    if private.nameless
        && let Some(file) = platform::make_nameless(directory.handle.as_fd(), mode)?
    {
        return Ok((file, None));
    }
    let (file, temporary) = Temporary::file(Arc::clone(private))?;
    Ok((file, Some(temporary)))
}

impl NewFile {
    /// Appends content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        let written = self.file.write_all(bytes);
        written.map_err(|error| write_trouble(&self.entry.path, "writing", errno(&error)))?;
        self.length += bytes.len() as u64;
        self.ends_with_hole &= bytes.is_empty();
        Ok(())
    }

    /// Appends `length` zero bytes as a hole: they take no space.
    pub fn skip(&mut self, length: u64) -> Result<(), Trouble> {
        let trouble = |error| write_trouble(&self.entry.path, "leaving a hole", error);
        let end = self.length.checked_add(length).ok_or(Errno::FBIG).map_err(trouble)?;
        seek(&self.file, SeekFrom::Start(end)).map_err(trouble)?;
        self.length = end;
        self.ends_with_hole |= length > 0;
        Ok(())
    }

    /// Takes the content of a file of the same length that is there, without copying it; `false` where that is not
    /// possible, and nothing is taken. It is still to be read: what it is may have changed.
    pub fn share(&mut self, old: &Existing) -> bool {
        let shared = platform::share_content(self.file.as_fd(), old.as_fd());
        if shared {
            // The other one may have grown.
            (self.length, self.ends_with_hole) = (self.entry.size(), true);
        }
        shared
    }

    /// Reads what was taken or written; fewer bytes than `buffer` holds only at the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fully_at(&self.file, buffer, offset)
    }

    /// Another handle on the file, for threads that write and read it in any order.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its mode, its time and then its name. After a problem of [`Cause::Metadata`] it is
    /// stored, with the time of writing or for its owner only; after any other nothing is.
    ///
    /// [`Cause::Metadata`]: ketch_protocol::problem::Cause::Metadata
    pub fn commit(self) -> Result<Fate, Trouble> {
        self.complete()
    }

    /// Does as [`NewFile::commit`] does, and says what the file looks like now that it has its name; by its handle,
    /// which is cheaper than by its path, and whatever took that name meanwhile.
    pub fn commit_seen(self) -> Result<(Fate, Option<Seen>), Trouble> {
        let fate = self.complete()?;
        let at = index::now();
        let stat = fstat(&self.file).ok();
        Ok((fate, stat.map(|stat| Seen { stat: metadata::stat_key(&stat), at })))
    }

    fn complete(&self) -> Result<Fate, Trouble> {
        let path = self.entry.path.clone();
        self.set_length().map_err(|error| write_trouble(&path, "setting its length", error))?;
        let described = metadata::apply(&self.file, &self.entry, self.target.options.handling.carried());
        if self.target.options.durability == Durability::File {
            fsync(&self.file).map_err(|error| write_trouble(&path, "syncing", error))?;
        }
        let fate = self.publish().map_err(|error| write_trouble(&path, "naming the file", error))?;
        described.map(|()| fate).map_err(|unset| metadata_trouble(&path, unset))
    }

    /// Content that ends with a hole has not yet its length.
    fn set_length(&self) -> Result<(), Errno> {
        if self.ends_with_hole { ftruncate(&self.file, self.length) } else { Ok(()) }
    }

    fn publish(&self) -> Result<Fate, Errno> {
        let (target, path) = (&self.target, &self.entry.path);
        if let Some(temporary) = &self.temporary {
            return target.place_temporary(path, &self.directory, temporary);
        }
        if target.trash.is_none() {
            let directory = self.directory.handle.as_fd();
            match platform::link_nameless(self.file.as_fd(), directory, path.leaf()) {
                Err(Errno::EXIST) if target.options.handling.overwrite => {}
                linked => return linked.map(|()| Fate::Created),
            }
        }
        let temporary = Temporary::name(Arc::clone(&self.private), &self.file)?;
        target.place_temporary(path, &self.directory, &temporary)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ketch_protocol::{
        manifest::{EntryKind, Timestamp},
        path::EntryPath,
    };

    use super::*;
    use crate::tree::{Handling, Options, PRIVATE_FOLDER};

    /// A target on a file system without nameless files, as far as it knows.
    fn target(folder: &std::path::Path, overwrite: bool) -> Target {
        let handling = Handling::receiving(overwrite);
        let target = Target::open(folder, Options { handling, durability: Durability::None }).unwrap();
        let mut private = Private::open(Arc::clone(&target.0.root)).unwrap();
        private.nameless = false;
        target.0.privates().insert(target.0.root.file_system, Arc::new(private));
        target
    }

    fn entry() -> Entry {
        let (path, mtime) = (EntryPath::parse(b"f").unwrap(), Timestamp::default());
        Entry::new(path, EntryKind::File { size: 3 }, 0o600, mtime)
    }

    #[test]
    fn without_nameless_files_temporaries_have_names_in_the_private_folder() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("f");
        for (overwrite, stored) in [(false, true), (false, false), (true, true)] {
            let target = target(folder.path(), overwrite);
            let mut new = target.create(&entry()).unwrap();
            new.write(b"new").unwrap();
            assert_eq!(fs::read_dir(folder.path().join(PRIVATE_FOLDER)).unwrap().count(), 1);
            assert_eq!(new.commit().is_ok(), stored);
            assert_eq!(fs::read(&at).unwrap(), b"new");
            target.finish();
            assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        }
    }

    #[test]
    fn a_named_temporary_that_is_dropped_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let target = target(folder.path(), false);
        drop(target.create(&entry()).unwrap());
        target.finish();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
