//! The files that a target has already: opened to compare them, kept, or to be replaced.

use std::{
    fs::File,
    io,
    os::fd::{AsFd, BorrowedFd},
};

use ketch_protocol::{
    manifest::Entry,
    message::Fate,
    path::EntryPath,
    problem::{Cause, Problem},
};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat},
    io::Errno,
};

use super::{
    Shared, Target,
    decide::is_described,
    standing::{Known, Standing},
    trouble::{Trouble, metadata_trouble},
};
use crate::{
    index::{self, Seen},
    tree::{
        metadata::{self, Unset},
        source::read_fully_at,
    },
};

/// A file that was there before.
#[derive(Debug)]
pub struct Existing {
    file: File,
}

impl Existing {
    /// Bytes it has now.
    pub fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    /// Reads at `offset` bytes into `buffer`; fewer bytes than it holds only at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fully_at(&self.file, buffer, offset)
    }
}

impl AsFd for Existing {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl Target {
    /// Opens the file that is stored under an entry's name, to compare it. One that can't be read, or has another
    /// length, counts as different: it [may be replaced](Self::may_replace), or its problem is what becomes of the entry.
    pub fn existing(&self, entry: &Entry) -> Result<Existing, Problem> {
        let different = |detail: String| Problem::new(entry.path.clone(), Cause::Exists, detail);
        let opened = self.0.open_existing(&entry.path).map_err(io::Error::from);
        let looked = opened.and_then(|file| Ok((file.metadata()?.len(), file)));
        match looked.map_err(|error| different(format!("reading the stored file: {error}")))? {
            (length, file) if length == entry.size() => Ok(Existing { file }),
            (_, _) => Err(different("its length differs".into())),
        }
    }

    /// Opens the file that stands under an entry's name, of whatever length.
    pub fn old_version(&self, entry: &Entry) -> io::Result<Existing> {
        let file = self.0.open_existing(&entry.path)?;
        Ok(Existing { file })
    }

    /// Settles an entry whose stored file has the same content. The file stays as it is; with
    /// [`Handling::overwrite`](super::Handling::overwrite) it is described as the entry.
    pub fn keep(&self, entry: &Entry) -> Result<Fate, Trouble> {
        if !self.0.options.handling.overwrite {
            return Ok(Fate::Kept);
        }
        let looked = self.0.directory_above(&entry.path).and_then(|above| {
            let standing = self.0.look(&entry.path, &above, &mut Known::Nothing)?;
            Ok((above, standing))
        });
        let (above, standing) =
            looked.map_err(Unset::of("mode")).map_err(|unset| metadata_trouble(&entry.path, unset))?;
        match &standing {
            Standing::Entry(own) if is_described(entry, own, &self.0.options.handling) => Ok(Fate::Kept),
            Standing::Entry(_) | Standing::Nothing | Standing::Special => {
                self.0.describe(entry, &standing, &above)
            }
        }
    }

    /// What the file of an entry that was settled looks like, for an index; `None` if it is not what was
    /// listed any more.
    pub fn seen(&self, entry: &Entry) -> Option<Seen> {
        let at = index::now();
        let above = self.0.directory_above(&entry.path).ok()?;
        let stat = statat(&above.handle, entry.path.leaf(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
        let is_listed = metadata::size(&stat) == entry.size() && metadata::mtime(&stat) == entry.mtime;
        (is_file && is_listed).then(|| Seen { stat: metadata::stat_key(&stat), at })
    }

    /// What becomes of an entry whose stored file has another content: a problem, unless it is to be
    /// replaced.
    pub fn may_replace(&self, entry: &Entry) -> Result<(), Problem> {
        if self.0.options.handling.overwrite {
            return Ok(());
        }
        Err(Problem::new(entry.path.clone(), Cause::Exists, "its content differs"))
    }
}

impl Shared {
    /// Opens the regular file at `path` for reading.
    pub(super) fn open_existing(&self, path: &EntryPath) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let directory = self.directory_above(path)?;
        let file = self.handles.with_room(|| openat(&directory.handle, path.leaf(), flags, Mode::empty()))?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            Ok(file.into())
        } else {
            Err(Errno::INVAL)
        }
    }
}
