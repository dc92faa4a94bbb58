//! Decides what an entry needs, and makes at once what has no content.

use std::{os::fd::AsFd as _, sync::Arc};

use ketch_protocol::{
    delta::worthwhile,
    limits::WHOLE_BYTES,
    manifest::{Entry, EntryKind},
    path::EntryPath,
    problem::Cause,
};
use rustix::{
    fs::{AtFlags, FileType, Mode, Stat, mkdirat, readlinkat, statat, symlinkat, unlinkat},
    io::Errno,
};

use super::{
    Directory, Target, is_reserved,
    partial::Identity,
    private::Temporary,
    trouble::{Trouble, directory_in_the_way, metadata_trouble, write_trouble},
};
use crate::tree::{PRIVATE_FOLDER, metadata, platform};

/// What an entry needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Nothing: it has no content and is made.
    Made,
    /// Nothing: it is there already.
    Kept,
    /// All of its content: by [`Target::create`] up to [`WHOLE_BYTES`], by [`Target::partial`] above.
    Content,
    /// A look at the stored file of the same length ([`Target::existing`]), and then [`Target::keep`], or
    /// its content if it [may be replaced](Target::may_replace).
    Compare,
    /// What the stored file of another length lacks of it, by [`Target::rebuild`]; or all of its content.
    Rebuild,
    /// The rest of its content, by [`Target::partial`].
    Resume {
        /// Bytes that an earlier session recorded as stored; they are checked when they are asked for.
        kept_bytes: u64,
    },
}

impl Target {
    /// Decides about the next entry of the manifest. Directories, symlinks and empty files are made here.
    pub fn plan(&self, entry: &Entry) -> Result<Plan, Trouble> {
        self.check_above(&entry.path)?;
        let mut planned = self.plan_entry(entry);
        if matches!(&planned, Err(Trouble::Problem(problem)) if problem.cause == Cause::Exists) {
            // Another receiver may have made it between the look and the making; then this look finds it.
            planned = self.plan_entry(entry);
        }
        if planned.is_err() && entry.kind == EntryKind::Directory {
            self.0.planned().failed = Some(entry.path.clone());
        }
        planned
    }

    /// Refuses reserved names, and what lies below a directory that couldn't be made.
    fn check_above(&self, path: &EntryPath) -> Result<(), Trouble> {
        if is_reserved(path) {
            let detail = format_args!("\"{PRIVATE_FOLDER}\" is reserved for unfinished files");
            return Err(Trouble::problem(path, Cause::Unwritable, detail));
        }
        let mut planned = self.0.planned();
        match &planned.failed {
            Some(failed) if lies_below(path, failed) => {
                let detail = format_args!("its directory \"{failed}\" could not be made");
                Err(Trouble::problem(path, Cause::Unwritable, detail))
            }
            Some(_) | None => {
                planned.failed = None;
                Ok(())
            }
        }
    }

    fn plan_entry(&self, entry: &Entry) -> Result<Plan, Trouble> {
        let above = self.0.directory_above(&entry.path);
        let above = above.map_err(|error| write_trouble(&entry.path, "opening its directory", error))?;
        match &entry.kind {
            EntryKind::Directory => self.plan_directory(entry, &above),
            EntryKind::Symlink { target } => self.plan_link(entry, target, &above),
            EntryKind::File { size: 0 } => self.plan_empty(entry, &above),
            EntryKind::File { size } => self.plan_content(entry, *size, &above),
            EntryKind::HardLink { .. } => {
                Err(Trouble::problem(&entry.path, Cause::Unwritable, "hard links are not made here"))
            }
        }
    }

    fn plan_directory(&self, entry: &Entry, above: &Arc<Directory>) -> Result<Plan, Trouble> {
        let leaf = entry.path.leaf();
        let trouble = |error| write_trouble(&entry.path, "making the directory", error);
        let make = || mkdirat(&above.handle, leaf, Mode::RWXU).map_err(trouble);
        let plan = match self.stored(entry, above)? {
            None => make().map(|()| Plan::Made)?,
            Some(stat) if kind(&stat) == FileType::Directory => {
                open_for_owner(above, leaf, &stat).map_err(trouble)?;
                Plan::Kept
            }
            Some(stat) => {
                self.check_replaceable(entry, &stat)?;
                unlinkat(&above.handle, leaf, AtFlags::empty()).map_err(trouble)?;
                make().map(|()| Plan::Made)?
            }
        };
        self.0.planned().directories.push(&entry.path, entry.mode, entry.mtime);
        Ok(plan)
    }

    fn plan_link(&self, entry: &Entry, target: &[u8], above: &Arc<Directory>) -> Result<Plan, Trouble> {
        let leaf = entry.path.leaf();
        let trouble = |error| write_trouble(&entry.path, "making the symlink", error);
        let plan = match self.stored(entry, above)? {
            None => symlinkat(target, &above.handle, leaf).map(|()| Plan::Made).map_err(trouble)?,
            Some(stat) if kind(&stat) == FileType::Symlink && holds(above, leaf, target) => Plan::Kept,
            Some(stat) => {
                self.check_replaceable(entry, &stat)?;
                self.replace_by_link(entry, target, above).map(|()| Plan::Made).map_err(trouble)?
            }
        };
        if plan == Plan::Made || self.0.options.overwrite {
            let dated = metadata::apply_to_link(&above.handle, leaf, entry);
            dated.map_err(|error| metadata_trouble(&entry.path, error))?;
        }
        Ok(plan)
    }

    fn replace_by_link(&self, entry: &Entry, target: &[u8], above: &Arc<Directory>) -> Result<(), Errno> {
        let private = self.0.private(above, entry.path.parent())?;
        let link = Temporary::symlink(private, target)?;
        link.replace(above, entry.path.leaf())
    }

    fn plan_empty(&self, entry: &Entry, above: &Arc<Directory>) -> Result<Plan, Trouble> {
        match self.stored(entry, above)? {
            None => {}
            Some(stat) if kind(&stat) == FileType::RegularFile && metadata::size(&stat) == 0 => {
                return self.keep(entry).map(|()| Plan::Kept);
            }
            Some(stat) => self.check_replaceable(entry, &stat)?,
        }
        self.create(entry)?.commit()?;
        Ok(Plan::Made)
    }

    fn plan_content(&self, entry: &Entry, size: u64, above: &Arc<Directory>) -> Result<Plan, Trouble> {
        let stored = self.stored(entry, above)?;
        let old_size =
            stored.filter(|stat| kind(stat) == FileType::RegularFile).map(|stat| metadata::size(&stat));
        if old_size == Some(size) {
            return Ok(Plan::Compare);
        }
        if let Some(stat) = stored {
            self.check_replaceable(entry, &stat)?;
        }
        let fetched = if old_size.is_some_and(|old_size| worthwhile(old_size, size).is_some()) {
            Plan::Rebuild
        } else {
            Plan::Content
        };
        if size <= WHOLE_BYTES {
            return Ok(fetched);
        }
        let private = self.0.private(above, entry.path.parent());
        let private =
            private.map_err(|error| write_trouble(&entry.path, "opening the private folder", error))?;
        Ok(match Identity::of(entry).recorded_bytes(&private) {
            0 => fetched,
            kept_bytes => Plan::Resume { kept_bytes },
        })
    }

    fn check_replaceable(&self, entry: &Entry, stored: &Stat) -> Result<(), Trouble> {
        if kind(stored) == FileType::Directory {
            return Err(directory_in_the_way(&entry.path));
        }
        if self.0.options.overwrite { Ok(()) } else { Err(different(entry)) }
    }

    /// What is stored under the entry's name.
    fn stored(&self, entry: &Entry, above: &Arc<Directory>) -> Result<Option<Stat>, Trouble> {
        match statat(&above.handle, entry.path.leaf(), AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Ok(Some(stat)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(write_trouble(&entry.path, "looking at what is stored there", error)),
        }
    }
}

fn lies_below(path: &EntryPath, directory: &EntryPath) -> bool {
    path.as_bytes().strip_prefix(directory.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

fn kind(stat: &Stat) -> FileType {
    FileType::from_raw_mode(stat.st_mode)
}

fn different(entry: &Entry) -> Trouble {
    Trouble::problem(&entry.path, Cause::Exists, "its kind, length or target differs")
}

fn holds(above: &Directory, leaf: &[u8], target: &[u8]) -> bool {
    readlinkat(&above.handle, leaf, Vec::new()).is_ok_and(|held| held.as_bytes() == target)
}

/// Lets the owner write below an existing directory for the time of the session. Someone else's directory
/// stays as it is: what is stored below then says whether that is enough.
fn open_for_owner(above: &Directory, leaf: &[u8], stat: &Stat) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(stat.st_mode);
    if mode.contains(Mode::RWXU) {
        return Ok(());
    }
    match platform::change_directory_mode(above.handle.as_fd(), leaf, mode | Mode::RWXU) {
        Ok(()) | Err(Errno::PERM | Errno::ROFS) => Ok(()),
        Err(error) => Err(error),
    }
}
