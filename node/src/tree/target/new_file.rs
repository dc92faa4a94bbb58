//! A small file on its way to its name.

use std::{
    fs::File,
    io::{self, Seek as _, SeekFrom, Write as _},
    os::fd::{AsFd as _, OwnedFd},
    sync::Arc,
};

use ketch_protocol::manifest::Entry;
use rustix::{fs::fsync, io::Errno};

use super::{
    Directory, Durability, Shared, Target,
    private::{Private, Temporary},
    trouble::{Trouble, errno, metadata_trouble, write_trouble},
};
use crate::tree::{metadata, platform};

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
}

impl Target {
    /// Begins a file of at most [`ketch_protocol::limits::WHOLE_BYTES`].
    pub fn create(&self, entry: &Entry) -> Result<NewFile, Trouble> {
        self.begin(entry).map_err(|error| write_trouble(&entry.path, "making the file", error))
    }

    fn begin(&self, entry: &Entry) -> Result<NewFile, Errno> {
        let directory = self.0.directory_above(&entry.path)?;
        let private = self.0.private(&directory, entry.path.parent())?;
        let (file, temporary) = self.0.handles.with_room(|| make_file(&directory, &private))?;
        let (target, entry, file) = (Arc::clone(&self.0), entry.clone(), file.into());
        Ok(NewFile { target, entry, directory, private, file, temporary })
    }
}

/// A file without a name, or a temporary where that can't be had.
fn make_file(directory: &Directory, private: &Arc<Private>) -> Result<(OwnedFd, Option<Temporary>), Errno> {
    if private.nameless
        && let Some(file) = platform::make_nameless(directory.handle.as_fd())?
    {
        return Ok((file, None));
    }
    let (file, temporary) = Temporary::file(Arc::clone(private))?;
    Ok((file, Some(temporary)))
}

impl NewFile {
    /// Appends content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.file.write_all(bytes).map_err(|error| write_trouble(&self.entry.path, "writing", errno(&error)))
    }

    /// Appends `length` zeros that take no space.
    pub fn skip(&mut self, length: u64) -> Result<(), Trouble> {
        let skipped = self.file.stream_position().and_then(|position| {
            let end = position + length;
            self.file.set_len(end)?;
            self.file.seek(SeekFrom::Start(end))
        });
        skipped.map(|_| ()).map_err(|error| write_trouble(&self.entry.path, "writing", errno(&error)))
    }

    /// Another handle on the file, for threads that write and read it in any order.
    pub(super) fn handle(&self) -> io::Result<File> {
        self.file.try_clone()
    }

    /// Gives the file its mode, its time and then its name. After a problem of [`Cause::Metadata`] it is
    /// stored, with the time of writing or for its owner only; after any other nothing is.
    ///
    /// [`Cause::Metadata`]: ketch_protocol::problem::Cause::Metadata
    pub fn commit(self) -> Result<(), Trouble> {
        let path = self.entry.path.clone();
        let described = metadata::apply(&self.file, self.entry.mode, self.entry.mtime);
        if self.target.options.durability == Durability::File {
            fsync(&self.file).map_err(|error| write_trouble(&path, "syncing", error))?;
        }
        self.publish().map_err(|error| write_trouble(&path, "naming the file", error))?;
        described.map_err(|error| metadata_trouble(&path, error))
    }

    fn publish(self) -> Result<(), Errno> {
        let leaf = self.entry.path.leaf();
        let overwrite = self.target.options.overwrite;
        match self.temporary {
            Some(temporary) if overwrite => temporary.replace(&self.directory, leaf),
            Some(temporary) => temporary.take_free_name(&self.directory, leaf),
            None => match platform::link_nameless(self.file.as_fd(), self.directory.handle.as_fd(), leaf) {
                Err(Errno::EXIST) if overwrite => {
                    Temporary::name(self.private, &self.file)?.replace(&self.directory, leaf)
                }
                linked => linked,
            },
        }
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
    use crate::tree::{Options, PRIVATE_FOLDER};

    /// A target on a file system without nameless files, as far as it knows.
    fn target(folder: &std::path::Path, overwrite: bool) -> Target {
        let target = Target::open(folder, Options { overwrite, durability: Durability::None }).unwrap();
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
