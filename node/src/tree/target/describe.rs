//! Sets what an entry says beside its content on what is there already.

use std::os::fd::{AsFd as _, OwnedFd};

use ketch_protocol::{
    manifest::{Entry, EntryKind},
    message::Fate,
    path::EntryPath,
};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, fstat, openat, statat},
    io::Errno,
};

use super::{
    Directory, Shared,
    pending::Origin,
    plan::open_for_owner,
    standing::Standing,
    trouble::{Trouble, metadata_trouble, write_trouble},
};
use crate::tree::{
    metadata::{self, Unset},
    platform,
};

impl Shared {
    /// Describes a file or a symlink as listed.
    pub(super) fn describe(
        &self,
        entry: &Entry,
        standing: &Standing,
        above: &Directory,
    ) -> Result<Fate, Trouble> {
        self.note_described(entry, standing)
            .map_err(|error| write_trouble(&entry.path, "noting it", error))?;
        let (leaf, carried) = (entry.path.leaf(), self.options.handling.carried());
        let described = match &entry.kind {
            EntryKind::Symlink { .. } => metadata::apply_to_link(&above.handle, leaf, entry, carried),
            EntryKind::File { .. } | EntryKind::Directory | EntryKind::HardLink { .. } => self
                .open_to_describe(above, leaf)
                .map_err(Unset::of("mode"))
                .and_then(|file| metadata::apply(&file, entry, carried)),
        };
        described.map(|()| Fate::Described).map_err(|unset| metadata_trouble(&entry.path, unset))
    }

    /// Sets what a directory has beside mode and time, which wait for the end.
    pub(super) fn describe_directory(&self, entry: &Entry) -> Result<(), Trouble> {
        let carried = self.options.handling.carried();
        if !carried.owner && !carried.attributes {
            return Ok(());
        }
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let open = || platform::open_beneath(self.root.handle.as_fd(), entry.path.as_bytes(), flags);
        let described = self
            .handles
            .with_room(open)
            .map_err(Unset::of("owner"))
            .and_then(|held| metadata::apply_unordered(&held, entry, carried));
        described.map_err(|unset| metadata_trouble(&entry.path, unset))
    }

    /// Opens a file that its owner may not be able to read; its mode is set afterwards in any case.
    fn open_to_describe(&self, above: &Directory, leaf: &[u8]) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let open = || self.handles.with_room(|| openat(&above.handle, leaf, flags, Mode::empty()));
        let file = match open() {
            Err(Errno::ACCESS) => {
                platform::change_mode(above.handle.as_fd(), leaf, Mode::RUSR | Mode::WUSR)?;
                open()?
            }
            opened => opened?,
        };
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            Ok(file)
        } else {
            Err(Errno::INVAL)
        }
    }

    /// Remembers the modes and times of the directories above `path` that the sender did not list, before
    /// something in them is changed: at the end they have them again.
    pub(super) fn remember_above(&self, path: &EntryPath) -> Result<(), Errno> {
        let missing = self.planned().directories.missing_above(path);
        for directory in missing {
            let above = self.directory_above(&directory)?;
            let stat = statat(&above.handle, directory.leaf(), AtFlags::SYMLINK_NOFOLLOW)?;
            let (mode, mtime) = (metadata::mode(&stat), metadata::mtime(&stat));
            open_for_owner(&above, directory.leaf(), mode)?;
            self.planned().directories.push(&directory, mode, mtime, Origin::Remembered);
        }
        Ok(())
    }
}
