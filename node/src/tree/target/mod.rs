//! The tree that is written: opened once, planned entry by entry, finished at the end.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::Path,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

use ketch_protocol::{
    manifest::Entry,
    path::EntryPath,
    problem::{Cause, Problem},
};
use rustix::{
    fs::{Dir, FileType, Mode, OFlags, fstat, fstatvfs, open, openat},
    io::Errno,
};

use self::{pending::PendingDirectories, private::Private};
use super::{
    PRIVATE_FOLDER,
    handles::Handles,
    metadata,
    platform::{self, FileSystem, HANDLE},
    source::read_fully_at,
};

mod new_file;
mod partial;
mod pending;
mod plan;
mod private;
mod ranges;
mod rebuild;
mod trouble;

pub use new_file::NewFile;
pub use partial::Partial;
pub use plan::Plan;
pub use rebuild::Rebuild;
pub use trouble::{TargetError, Trouble};

/// How a target is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Whether something different under an entry's name is replaced. Directories never are.
    pub overwrite: bool,
    /// What must survive a power cut.
    pub durability: Durability,
}

/// When what was stored is on its disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Whenever the system pleases.
    None,
    /// After [`Target::sync`].
    Session,
    /// Each file before its name appears, and all names after [`Target::sync`].
    File,
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
}

/// What planning remembers from one entry to the next.
#[derive(Debug, Default)]
struct Planned {
    /// The last directory that couldn't be made: nothing can be stored below it.
    failed: Option<EntryPath>,
    directories: PendingDirectories,
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
        let refused = |error: io::Error| TargetError::new(destination, error);
        fs::create_dir_all(destination).map_err(refused)?;
        let flags = HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = open(destination, flags, Mode::empty())
            .and_then(Directory::hold)
            .map(Arc::new)
            .map_err(|error| refused(error.into()))?;
        let private = Private::open(Arc::clone(&root)).map_err(|error| match error {
            Errno::NOTDIR => TargetError::Planted { path: destination.join(PRIVATE_FOLDER) },
            other => refused(other.into()),
        })?;
        private.sweep(SystemTime::now());
        let privates = Mutex::new(BTreeMap::from([(root.file_system, Arc::new(private))]));
        let (handles, planned) = (Handles::new(), Mutex::default());
        Ok(Self(Arc::new(Shared { options, root, handles, privates, planned })))
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

    /// Settles an entry whose stored file has the same content. The file stays as it is; with
    /// [`Options::overwrite`] it gets the entry's mode and times.
    pub fn keep(&self, entry: &Entry) -> Result<(), Trouble> {
        if !self.0.options.overwrite {
            return Ok(());
        }
        let set = self.0.open_existing(&entry.path);
        let set = set.and_then(|file| metadata::apply(&file, entry.mode, entry.mtime));
        set.map_err(|error| trouble::metadata_trouble(&entry.path, error))
    }

    /// What becomes of an entry whose stored file has another content: a problem, unless it is to be
    /// replaced.
    pub fn may_replace(&self, entry: &Entry) -> Result<(), Problem> {
        if self.0.options.overwrite {
            return Ok(());
        }
        Err(Problem::new(entry.path.clone(), Cause::Exists, "its content differs"))
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
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let set = self.0.handles.with_room(|| {
                let root = self.0.root.handle.as_fd();
                let handle = platform::open_beneath(root, directory.path.as_bytes(), flags)?;
                metadata::apply(&handle, directory.mode, directory.mtime)
            });
            if let Err(error) = set {
                problems.push(trouble::metadata_problem(&directory.path, error));
            }
        }
        problems
    }

    /// Writes what was stored to its disks; with [`Durability::None`] nothing is to be done.
    pub fn sync(&self) -> io::Result<()> {
        if self.0.options.durability == Durability::None {
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

/// A file that was there before.
#[derive(Debug)]
pub struct Existing {
    file: File,
}

impl Existing {
    /// Reads at `offset` bytes into `buffer`; fewer bytes than it holds only at the end of the file.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fully_at(&self.file, buffer, offset)
    }
}

impl Shared {
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

    /// Opens the regular file at `path` for reading.
    fn open_existing(&self, path: &EntryPath) -> Result<File, Errno> {
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let directory = self.directory_above(path)?;
        let file = self.handles.with_room(|| openat(&directory.handle, path.leaf(), flags, Mode::empty()))?;
        if FileType::from_raw_mode(fstat(&file)?.st_mode) == FileType::RegularFile {
            Ok(file.into())
        } else {
            Err(Errno::INVAL)
        }
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

/// Whether a component of `path` is the private folder: a peer must not plant anything there.
fn is_reserved(path: &EntryPath) -> bool {
    path.components().any(|component| component == PRIVATE_FOLDER.as_bytes())
}

/// The bytes of a path that came from the operator.
fn shown(path: &Path) -> impl std::fmt::Display + '_ {
    ketch_protocol::path::escape(path.as_os_str().as_bytes())
}
