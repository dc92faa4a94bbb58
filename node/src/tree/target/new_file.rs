//! A small file on its way to its name.

use std::{fs::File, io::Write as _, os::fd::AsFd as _, sync::Arc};

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
        let begun = self.0.handles.with_room(|| self.begin(entry));
        begun.map_err(|error| write_trouble(&entry.path, "making the file", error))
    }

    fn begin(&self, entry: &Entry) -> Result<NewFile, Errno> {
        let directory = self.0.directory_above(&entry.path)?;
        let private = self.0.private(&directory, entry.path.parent())?;
        let nameless =
            if private.nameless { platform::make_nameless(directory.handle.as_fd())? } else { None };
        let (file, temporary) = match nameless {
            Some(file) => (file, None),
            None => {
                let (file, temporary) = Temporary::file(Arc::clone(&private))?;
                (file, Some(temporary))
            }
        };
        let (target, entry, file) = (Arc::clone(&self.0), entry.clone(), file.into());
        Ok(NewFile { target, entry, directory, private, file, temporary })
    }
}

impl NewFile {
    /// Appends content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), Trouble> {
        self.file.write_all(bytes).map_err(|error| write_trouble(&self.entry.path, "writing", errno(&error)))
    }

    /// Gives the file its mode, its time and then its name.
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
