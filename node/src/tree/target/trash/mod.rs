//! The trash of one session: what it deletes or replaces is moved here, and what it does is written down, so
//! that [`undo`] can bring everything back.
//!
//! A trash folder holds `<UTC time>-<session>/` for each session: `tree/` with what was moved, each under its
//! own path, and `log` with a record of every action, written before it is taken. The names sort by time.

use std::{
    fs::File,
    io::Write as _,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use ketch_protocol::{
    manifest::Entry,
    path::{EntryPath, escape},
};
use rustix::{
    fs::{AtFlags, Mode, OFlags, linkat, mkdirat, open, openat, unlinkat},
    io::Errno,
};

use super::{Directory, Shared, standing::Standing, trouble::errno};
use crate::tree::{
    handles::Handles,
    platform::{self, HANDLE},
};

#[cfg(test)]
mod crash;
mod log;
mod sessions;
mod undo;

pub(super) use log::{Action, Described, Left};
pub use undo::{UndoError, Undone, undo};

/// Where the log of a session lies in its folder, and where what it moved.
const LOG: &str = "log";
const TREE: &str = "tree";

/// What a new session's part of a trash is named by.
#[derive(Debug, Clone, Copy)]
pub struct NewTrash<'a> {
    /// The trash folder; it is made where missing.
    pub folder: &'a Path,
    /// The session, as hex digits.
    pub session: &'a str,
    /// When it began.
    pub now: SystemTime,
}

/// Why a trash can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TrashError {
    /// It can't be made or opened.
    #[error("cannot open the trash \"{}\"", shown(folder))]
    Open {
        /// The folder.
        folder: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file can't be moved from one file system to another.
    #[error(
        "the trash \"{}\" is not on the file system of \"{}\", so nothing can be moved there",
        shown(folder),
        shown(target)
    )]
    Elsewhere {
        /// The trash.
        folder: PathBuf,
        /// The target.
        target: PathBuf,
    },
    /// It would be a part of the tree itself.
    #[error("the trash \"{}\" lies in \"{}\": name a folder beside it", shown(folder), shown(target))]
    Inside {
        /// The trash.
        folder: PathBuf,
        /// The target.
        target: PathBuf,
    },
}

fn shown(path: &Path) -> impl std::fmt::Display + '_ {
    escape(path.as_os_str().as_bytes())
}

/// A session's part of a trash.
#[derive(Debug)]
pub(super) struct Trash {
    folder: OwnedFd,
    name: String,
    target: PathBuf,
    started: SystemTime,
    /// On disk with the first action: a session that changes nothing leaves nothing.
    begun: Mutex<Option<Arc<Begun>>>,
}

#[derive(Debug)]
struct Begun {
    tree: OwnedFd,
    /// Directories below `tree`, by entry path.
    handles: Handles<OwnedFd>,
    log: File,
}

impl Trash {
    pub(super) fn open(new: &NewTrash<'_>, target: &Path, root: &Directory) -> Result<Self, TrashError> {
        let failed = |source| TrashError::Open { folder: new.folder.into(), source };
        std::fs::create_dir_all(new.folder).map_err(failed)?;
        let real = |path: &Path| std::fs::canonicalize(path).map_err(failed);
        let (folder, target) = (real(new.folder)?, real(target)?);
        if folder.starts_with(&target) {
            return Err(TrashError::Inside { folder, target });
        }
        let opened = open(&folder, HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty());
        let held = opened.and_then(Directory::hold).map_err(|error| failed(error.into()))?;
        if held.file_system != root.file_system {
            return Err(TrashError::Elsewhere { folder, target });
        }
        let (name, started) = (sessions::name(new.now, new.session), new.now);
        Ok(Self { folder: held.handle, name, target, started, begun: Mutex::default() })
    }

    /// Writes down what is about to be done.
    pub(super) fn note(&self, action: &Action) -> Result<(), Errno> {
        self.begun()?.note(action)
    }

    /// Writes down that the session did all it wanted to.
    pub(super) fn finish(&self) {
        if let Some(begun) = &*self.lock() {
            // Without it, what was changed after the session is only a little harder to tell.
            let _ = begun.note(&Action::ended(SystemTime::now()));
        }
    }

    fn begun(&self) -> Result<Arc<Begun>, Errno> {
        let mut begun = self.lock();
        if let Some(begun) = &*begun {
            return Ok(Arc::clone(begun));
        }
        let new = Arc::new(Begun::make(&self.folder, &self.name)?);
        new.note(&Action::began(&self.target, self.started))?;
        Ok(Arc::clone(begun.insert(new)))
    }

    /// It is either not begun or whole, so a thread that panicked left it usable.
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Begun>>> {
        self.begun.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives what stands at `path` a second name in the trash, or moves it there where that can't be done.
    /// What was there before the session is kept, not what the session itself made meanwhile.
    pub(super) fn keep(&self, path: &EntryPath, directory: &Directory) -> Result<(), Errno> {
        let (to, leaf) = (self.begun()?.directory_above(path)?, path.leaf());
        match linkat(&directory.handle, leaf, &*to, leaf, AtFlags::empty()) {
            Ok(()) | Err(Errno::EXIST) => Ok(()),
            // No links, or not to this file: not on this file system, not of another user's, too many.
            Err(Errno::PERM | Errno::OPNOTSUPP | Errno::MLINK | Errno::NOSYS) => self.take(path, directory),
            Err(error) => Err(error),
        }
    }

    /// Moves what stands at `path` to the trash.
    pub(super) fn take(&self, path: &EntryPath, directory: &Directory) -> Result<(), Errno> {
        let (to, leaf) = (self.begun()?.directory_above(path)?, path.leaf());
        match platform::rename_to_free((directory.handle.as_fd(), leaf), (to.as_fd(), leaf)) {
            Err(Errno::EXIST) => unlinkat(&directory.handle, leaf, AtFlags::empty()),
            moved => moved,
        }
    }

    /// Makes an empty directory at `path` in the trash, unless it is there.
    pub(super) fn make_directory(&self, path: &EntryPath) -> Result<(), Errno> {
        make_directory(&*self.begun()?.directory_above(path)?, path.leaf())
    }
}

impl Begun {
    fn make(folder: &OwnedFd, name: &str) -> Result<Self, Errno> {
        // A session that goes on within its first second finds what it began.
        make_directory(folder, name.as_bytes())?;
        let session = open_directory(folder, name.as_bytes())?;
        make_directory(&session, TREE.as_bytes())?;
        let tree = open_directory(&session, TREE.as_bytes())?;
        let flags = OFlags::WRONLY | OFlags::APPEND | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let log = openat(&session, LOG, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Self { tree, handles: Handles::new(), log: log.into() })
    }

    /// One write a record: threads do not tear each other's.
    fn note(&self, action: &Action) -> Result<(), Errno> {
        (&self.log).write_all(&action.encode()).map_err(|error| errno(&error))
    }

    fn directory_above(&self, path: &EntryPath) -> Result<Arc<OwnedFd>, Errno> {
        let parent = path.parent().unwrap_or_default();
        self.handles.directory(parent, || match open_directory(&self.tree, parent) {
            Err(Errno::NOENT) => make_all(&self.tree, parent),
            opened => opened,
        })
    }
}

impl Shared {
    /// Writes down how `standing` is described, before it is described as `entry`.
    pub(super) fn note_described(&self, entry: &Entry, standing: &Standing) -> Result<(), Errno> {
        match (&self.trash, standing) {
            (Some(trash), Standing::Entry(own)) => {
                let by = |entry| Described::by(entry, &self.options.handling);
                trash.note(&Action::described(&entry.path, by(own), by(entry)))
            }
            (Some(_) | None, Standing::Entry(_) | Standing::Nothing | Standing::Special) => Ok(()),
        }
    }
}

fn open_directory(above: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    platform::open_beneath(above.as_fd(), path, HANDLE | OFlags::DIRECTORY)
}

fn make_directory(above: &OwnedFd, leaf: &[u8]) -> Result<(), Errno> {
    match mkdirat(above, leaf, Mode::RWXU) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(error),
    }
}

/// Makes the directory `path` below `tree` and all above it.
fn make_all(tree: &OwnedFd, path: &[u8]) -> Result<OwnedFd, Errno> {
    let mut above = open_directory(tree, b"")?;
    for component in path.split(|&byte| byte == b'/') {
        make_directory(&above, component)?;
        above = open_directory(&above, component)?;
    }
    Ok(above)
}
