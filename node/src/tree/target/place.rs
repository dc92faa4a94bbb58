//! Gives what is whole its name: a free one, or one whose holder goes to the trash or is replaced.

use std::{os::fd::AsFd as _, sync::Arc};

use ketch_protocol::{
    manifest::{Entry, EntryKind},
    message::Fate,
    path::EntryPath,
    problem::Cause,
};
use rustix::{
    fs::{AtFlags, FileType, Stat, linkat, renameat, statat, symlinkat},
    io::Errno,
};

use super::{
    Decision, Directory, Over, Shared, Target, decide,
    plan::not_replaced,
    private::{Private, Temporary},
    standing::Known,
    trash::{Action, Left},
    trouble::{Trouble, directory_in_the_way, write_trouble},
};
use crate::tree::{
    metadata::{self, Unset},
    platform,
};

/// What [`Target::link`] came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Link {
    /// It is made, or was there.
    Settled(Fate),
    /// There is no file yet that it could be another name of.
    NotYet,
}

impl Target {
    /// Makes an entry another name of a file of the target. To be called once that file is settled: what
    /// stands under its name is linked, whatever it is.
    pub fn link(&self, entry: &Entry) -> Result<Link, Trouble> {
        let EntryKind::HardLink { target } = &entry.kind else {
            let detail = "it is not listed as a hard link";
            return Err(Trouble::problem(&entry.path, Cause::Unwritable, detail));
        };
        let trouble = |error| write_trouble(&entry.path, "looking at what is stored there", error);
        let above = self.0.directory_above(&entry.path).map_err(trouble)?;
        let Some(first) = self.first_name(entry, target)? else { return Ok(Link::NotYet) };
        let standing = self.0.look(&entry.path, &above, &mut Known::Nothing).map_err(trouble)?;
        if first.is_at(&above, entry.path.leaf()) {
            return Ok(Link::Settled(Fate::Kept));
        }
        match decide(entry, standing.own(), &self.0.options.handling) {
            Decision::Skip(skip) if skip.is_wanted() => Ok(Link::Settled(Fate::Skipped)),
            Decision::Skip(skip) => Err(not_replaced(&entry.path, skip)),
            Decision::Store(Over::Directory) => Err(directory_in_the_way(&entry.path)),
            Decision::Keep | Decision::Describe | Decision::Digest | Decision::Store(_) => {
                self.make_link(entry, target, &first, &above).map(Link::Settled)
            }
        }
    }

    /// The file that a hard link is another name of, as it is now.
    fn first_name(&self, entry: &Entry, target: &EntryPath) -> Result<Option<FirstName>, Trouble> {
        let found = self.0.directory_above(target).and_then(|directory| {
            let stat = statat(&directory.handle, target.leaf(), AtFlags::SYMLINK_NOFOLLOW)?;
            Ok(FirstName { directory, stat })
        });
        match found {
            Ok(first) if first.is_file() => Ok(Some(first)),
            Ok(_) => {
                let detail = format_args!("\"{target}\", which it is another name of, is not a file here");
                Err(Trouble::problem(&entry.path, Cause::Unwritable, detail))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(write_trouble(&entry.path, "looking for its first name", error)),
        }
    }

    fn make_link(
        &self,
        entry: &Entry,
        target: &EntryPath,
        first: &FirstName,
        above: &Arc<Directory>,
    ) -> Result<Fate, Trouble> {
        self.0.place_link(entry, target, first, above).map_err(|error| match error {
            Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::XDEV => {
                let detail = format_args!("making it a hard link to \"{target}\": {error}");
                Trouble::problem(&entry.path, Cause::Unwritable, detail)
            }
            other => write_trouble(&entry.path, "making the hard link", other),
        })
    }
}

/// The file that another name is given to.
struct FirstName {
    directory: Arc<Directory>,
    stat: Stat,
}

impl FirstName {
    fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }

    /// Whether a name is one of its names already.
    fn is_at(&self, above: &Directory, leaf: &[u8]) -> bool {
        statat(&above.handle, leaf, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| (stat.st_dev, stat.st_ino) == (self.stat.st_dev, self.stat.st_ino))
    }
}

impl Shared {
    /// To be called before something new takes the name `path` in `directory`: what stands there is in the
    /// trash afterwards, if there is one, and under its name still. Says whether there is anything.
    pub(super) fn make_way(
        &self,
        path: &EntryPath,
        directory: &Directory,
        new: impl FnOnce() -> Result<Left, Errno>,
    ) -> Result<Fate, Errno> {
        let is_free = match statat(&directory.handle, path.leaf(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) if FileType::from_raw_mode(stat.st_mode) == FileType::Directory => {
                return Err(Errno::ISDIR);
            }
            Ok(_) => false,
            Err(Errno::NOENT) => true,
            Err(error) => return Err(error),
        };
        let Some(trash) = &self.trash else {
            return Ok(if is_free { Fate::Created } else { Fate::Updated });
        };
        if is_free {
            trash.note(&Action::created(path, new()?))?;
            return Ok(Fate::Created);
        }
        trash.note(&Action::replaced(path, new()?))?;
        trash.keep(path, directory)?;
        Ok(Fate::Updated)
    }

    /// Moves what is complete in the private folder to its name, over what stands there where that is to be replaced.
    pub(super) fn place(
        &self,
        path: &EntryPath,
        directory: &Directory,
        (private, name): (&Private, &str),
    ) -> Result<Fate, Errno> {
        let to = (directory.handle.as_fd(), path.leaf());
        if !self.options.handling.overwrite {
            return platform::rename_to_free((private.folder(), name.as_bytes()), to).map(|()| Fate::Created);
        }
        let fate = self.make_way(path, directory, || Left::at(private.folder(), name.as_bytes()))?;
        renameat(private.folder(), name, to.0, to.1)?;
        Ok(fate)
    }

    pub(super) fn place_temporary(
        &self,
        path: &EntryPath,
        directory: &Directory,
        temporary: &Temporary,
    ) -> Result<Fate, Errno> {
        self.place(path, directory, temporary.place())
    }

    /// Makes a symlink and describes it, which may fail by itself.
    pub(super) fn place_symlink(
        &self,
        entry: &Entry,
        target: &[u8],
        above: &Arc<Directory>,
    ) -> Result<(Fate, Result<(), Unset>), Errno> {
        let (leaf, carried) = (entry.path.leaf(), self.options.handling.carried());
        if self.trash.is_none() {
            match symlinkat(target, &above.handle, leaf) {
                Err(Errno::EXIST) if self.options.handling.overwrite => {}
                made => {
                    made?;
                    let described = metadata::apply_to_link(&above.handle, leaf, entry, carried);
                    return Ok((Fate::Created, described));
                }
            }
        }
        let link = Temporary::symlink(self.private(above, entry.path.parent())?, target)?;
        let (private, name) = link.place();
        let described = metadata::apply_to_link(private.folder(), name.as_bytes(), entry, carried);
        Ok((self.place_temporary(&entry.path, above, &link)?, described))
    }

    fn place_link(
        &self,
        entry: &Entry,
        target: &EntryPath,
        first: &FirstName,
        above: &Arc<Directory>,
    ) -> Result<Fate, Errno> {
        let (from, leaf) = (&first.directory.handle, target.leaf());
        if self.trash.is_none() {
            match linkat(from, leaf, &above.handle, entry.path.leaf(), AtFlags::empty()) {
                Err(Errno::EXIST) if self.options.handling.overwrite => {}
                made => return made.map(|()| Fate::Created),
            }
        }
        let private = self.private(above, entry.path.parent())?;
        let link = Temporary::link(private, (from.as_fd(), leaf))?;
        self.place_temporary(&entry.path, above, &link)
    }
}
