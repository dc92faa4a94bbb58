//! The tree that is written: opened once, planned entry by entry, finished at the end.

use std::{
    collections::BTreeMap,
    fs, io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use ketch_protocol::{
    path::EntryPath,
    problem::{Cause, Problem},
};
use rustix::{
    fs::{Dir, FlockOperation, Mode, OFlags, flock, fstatvfs, openat},
    io::Errno,
};

use self::{
    pending::{Origin, PendingDirectories, PendingDirectory},
    private::Private,
    spelling::{Alike, Spellings},
    trash::Trash,
};
use super::{
    HeldDirectory, PRIVATE_FOLDER,
    handles::Handles,
    metadata::{self, Unset},
    platform::{self, FileSystem, HANDLE},
};

mod decide;
mod describe;
mod existing;
mod new_file;
mod partial;
mod pending;
mod place;
mod plan;
mod private;
mod ranges;
mod rebuild;
mod removal;
mod spelling;
mod standing;
mod trash;
mod trouble;

pub use decide::{Decision, Handling, Over, Own, Skip, decide};
pub use existing::Existing;
pub use ketch_protocol::message::Durability;
pub use new_file::NewFile;
pub use partial::Partial;
pub use place::Link;
pub use plan::Plan;
pub use rebuild::Rebuild;
pub use removal::{Approved, Extras, Spared, TooMany};
pub use trash::{NewTrash, TrashError, UndoError, Undone, undo};
pub use trouble::{TargetError, Trouble};

/// How a target is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What counts as different, and what may be done about it.
    pub handling: Handling,
    /// What must survive a power cut.
    pub durability: Durability,
}

/// A directory that entries are stored below. Cheap to clone and shared by threads: [`Target::plan`] is
/// called in manifest order by one, everything else by any.
#[derive(Debug, Clone)]
pub struct Target(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    options: Options,
    root: Arc<Directory>,
    /// By entry path; the root is not among them.
    handles: Handles<Directory>,
    /// The private folder on each file system met so far.
    privates: Mutex<BTreeMap<FileSystem, Arc<Private>>>,
    planned: Mutex<Planned>,
    /// Which names its file system takes for one another.
    alike: Alike,
    /// Where deleted and replaced files go.
    trash: Option<Trash>,
    /// Locked against other sessions as long as it is open.
    _lock: Option<OwnedFd>,
}

/// What planning remembers from one entry to the next.
#[derive(Debug, Default)]
struct Planned {
    /// The last directory that isn't there: nothing can be stored below it.
    absent: Option<Absent>,
    directories: PendingDirectories,
    spellings: Spellings,
}

/// A directory that was listed and is not there.
#[derive(Debug)]
struct Absent {
    path: EntryPath,
    /// Whether it was left out on purpose; otherwise it could not be made.
    skipped: bool,
}

/// A directory of the target, held.
#[derive(Debug)]
struct Directory {
    handle: OwnedFd,
    file_system: FileSystem,
}

impl Directory {
    fn hold(handle: OwnedFd) -> Result<Self, Errno> {
        let file_system = platform::file_system(handle.as_fd())?;
        Ok(Self { handle, file_system })
    }
}

impl Target {
    /// Opens `destination`, making it and what is above it where missing, and finds out whether it can be
    /// written. Leftovers older than a week are removed.
    pub fn open(destination: &Path, options: Options) -> Result<Self, TargetError> {
        let root = fs::create_dir_all(destination).and_then(|()| HeldDirectory::open(destination));
        let root = root.map_err(|error| TargetError::new(destination, error))?;
        Self::open_with(root, options, None, |_| Ok(None))
    }

    /// Opens a directory as [`Target::open`] does, for one session alone ([`TargetError::Busy`]), and with a
    /// trash where one is named.
    pub fn open_alone(
        root: HeldDirectory,
        options: Options,
        trash: Option<&NewTrash<'_>>,
    ) -> Result<Self, TargetError> {
        let lock = lock(&root)?;
        let destination = root.path().to_owned();
        Self::open_with(root, options, Some(lock), |root| match trash {
            Some(new) => Ok(Some(Trash::open(new, &destination, root)?)),
            None => Ok(None),
        })
    }

    fn open_with(
        root: HeldDirectory,
        options: Options,
        lock: Option<OwnedFd>,
        open_trash: impl FnOnce(&Directory) -> Result<Option<Trash>, TargetError>,
    ) -> Result<Self, TargetError> {
        let destination = root.path().to_owned();
        let refused = |error: io::Error| TargetError::new(&destination, error);
        let root =
            Directory::hold(root.into_handle()).map(Arc::new).map_err(|error| refused(error.into()))?;
        let private = Private::open(Arc::clone(&root)).map_err(|error| match error {
            Errno::NOTDIR => TargetError::Planted { path: destination.join(PRIVATE_FOLDER) },
            other => refused(other.into()),
        })?;
        private.sweep(SystemTime::now());
        let trash = open_trash(&root)?;
        let alike = private.alike;
        let privates = Mutex::new(BTreeMap::from([(root.file_system, Arc::new(private))]));
        let (handles, planned) = (Handles::new(), Mutex::default());
        Ok(Self(Arc::new(Shared { options, root, handles, privates, planned, alike, trash, _lock: lock })))
    }

    /// Whether nothing is stored in it yet.
    pub fn is_empty(&self) -> io::Result<bool> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = openat(&self.0.root.handle, ".", flags, Mode::empty())?;
        for found in Dir::new(listed)? {
            let found = found?;
            let name = found.file_name().to_bytes();
            if name != b"." && name != b".." && name != PRIVATE_FOLDER.as_bytes() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Bytes that may still be written to its file system. Other file systems mounted below are not asked.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let free = fstatvfs(&self.0.root.handle)?;
        Ok(free.f_bavail.saturating_mul(free.f_frsize))
    }

    /// Unfinished large files in the private folders, with the bytes that are stored of them: those of this
    /// session and of earlier ones.
    pub fn unfinished(&self) -> Unfinished {
        let mut all = Unfinished::default();
        for private in self.0.privates().values() {
            private.count_unfinished(&mut all);
        }
        all
    }

    /// Sets modes and times of all planned directories, those below first, and removes the private folders
    /// that hold nothing. Called once, after the last file; also when a session ends early, so that no
    /// directory keeps a mode that it was given for the time of the session.
    pub fn finish(&self) -> Vec<Problem> {
        // First: it changes the time of the directory it lies in.
        self.0.privates().values().for_each(|private| private.remove_if_empty());
        let mut problems = Vec::new();
        let mut planned = self.0.planned();
        while let Some(directory) = planned.directories.pop() {
            if let Err(unset) = self.0.finish_directory(&directory) {
                let detail = Problem::new(directory.path, Cause::Metadata, unset);
                problems.push(detail);
            }
        }
        if let Some(trash) = &self.0.trash {
            trash.finish();
        }
        problems
    }

    /// Whether [`Target::sync`] writes to a disk.
    pub fn is_synced(&self) -> bool {
        self.0.options.durability != Durability::None
    }

    /// Writes what was stored to its disks; with [`Durability::None`] nothing is to be done.
    pub fn sync(&self) -> io::Result<()> {
        if !self.is_synced() {
            return Ok(());
        }
        let folders: Vec<_> = self.0.privates().values().cloned().collect();
        for folder in folders {
            folder.sync_file_system()?;
        }
        Ok(())
    }
}

/// What [`Target::unfinished`] counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Unfinished {
    /// Files.
    pub files: u64,
    /// Bytes that are on disk.
    pub bytes: u64,
}

impl Shared {
    fn finish_directory(&self, directory: &PendingDirectory) -> Result<(), Unset> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let root = self.root.handle.as_fd();
        let open = || platform::open_beneath(root, directory.path.as_bytes(), flags);
        match self.handles.with_room(open) {
            // It was removed or replaced meanwhile, by this session or by someone else.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) if directory.origin == Origin::Remembered => {
                Ok(())
            }
            opened => {
                let handle = opened.map_err(Unset::of("mode"))?;
                let mode = match directory.origin {
                    Origin::Listed => metadata::carried_mode(directory.mode),
                    Origin::Remembered => Mode::from_raw_mode(directory.mode),
                };
                metadata::apply_mode_and_time(&handle, mode, directory.mtime)
            }
        }
    }

    /// The directory that `path` lies in: the one gate to everything below the root. EPERM for a path through
    /// a private folder.
    fn directory_above(&self, path: &EntryPath) -> Result<Arc<Directory>, Errno> {
        if is_reserved(path) {
            return Err(Errno::PERM);
        }
        match path.parent() {
            Some(parent) => self.directory(parent),
            None => Ok(Arc::clone(&self.root)),
        }
    }

    fn directory(&self, path: &[u8]) -> Result<Arc<Directory>, Errno> {
        self.handles.directory(path, || self.open_directory(path))
    }

    fn open_directory(&self, path: &[u8]) -> Result<Directory, Errno> {
        let flags = HANDLE | OFlags::DIRECTORY;
        Directory::hold(platform::open_beneath(self.root.handle.as_fd(), path, flags)?)
    }

    /// The private folder on the file system of `directory`, which lies at `path`.
    fn private(&self, directory: &Arc<Directory>, path: Option<&[u8]>) -> Result<Arc<Private>, Errno> {
        if let Some(private) = self.privates().get(&directory.file_system) {
            return Ok(Arc::clone(private));
        }
        let top = self.top_of_file_system(Arc::clone(directory), path.unwrap_or_default())?;
        let private = Arc::new(self.handles.with_room(|| Private::open(Arc::clone(&top)))?);
        private.sweep(SystemTime::now());
        // Another thread may have been faster; its folder is the same one on disk.
        Ok(Arc::clone(self.privates().entry(directory.file_system).or_insert(private)))
    }

    /// The highest directory above `path`, or itself, that lies on the same file system.
    fn top_of_file_system(
        &self,
        mut directory: Arc<Directory>,
        mut path: &[u8],
    ) -> Result<Arc<Directory>, Errno> {
        while let Some(slash) = path.iter().rposition(|&byte| byte == b'/') {
            path = &path[..slash];
            let above = self.directory(path)?;
            if above.file_system != directory.file_system {
                break;
            }
            directory = above;
        }
        Ok(directory)
    }

    /// The names in the directory at `path`; none when it can't be read.
    fn names(&self, path: &[u8]) -> Vec<Box<[u8]>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let open = || platform::open_beneath(self.root.handle.as_fd(), path, flags);
        let listed = self.handles.with_room(open).and_then(Dir::new);
        let mut names = Vec::new();
        for found in listed.into_iter().flatten().flatten() {
            match found.file_name().to_bytes() {
                b"." | b".." => {}
                name => names.push(name.into()),
            }
        }
        names
    }

    /// Both locks guard values that are whole between any two statements, so a thread that panicked left
    /// them usable.
    fn privates(&self) -> MutexGuard<'_, BTreeMap<FileSystem, Arc<Private>>> {
        self.privates.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn planned(&self) -> MutexGuard<'_, Planned> {
        self.planned.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Locks a target against other sessions. Its own directory is locked, so nothing is left when a process
/// dies; a file system without locks has none to offer.
fn lock(root: &HeldDirectory) -> Result<OwnedFd, TargetError> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let held = openat(root.handle(), ".", flags, Mode::empty())
        .map_err(|error| TargetError::new(root.path(), error.into()))?;
    match flock(&held, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(TargetError::Busy { path: root.path().to_path_buf() }),
        Ok(()) | Err(_) => Ok(held),
    }
}

/// Whether a component of `path` is the private folder: a peer must not plant anything there.
fn is_reserved(path: &EntryPath) -> bool {
    path.components().any(|component| component == PRIVATE_FOLDER.as_bytes())
}

/// The bytes of a path that came from the operator.
fn shown(path: &Path) -> impl std::fmt::Display + '_ {
    ketch_protocol::path::escape(path.as_os_str().as_bytes())
}
