//! The tree that is sent: its operands, held by handle, and the files in it.

use std::{
    fs::{self, File},
    io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{ffi::OsStrExt as _, fs::FileExt as _},
    },
    path::{Path, PathBuf},
    sync::Arc,
};

use ketch_protocol::{
    manifest::{Entry, Timestamp},
    path::{EntryPath, PathError, escape},
    problem::{Cause, Problem},
};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, open, openat, statat},
    io::Errno,
};

use super::{
    PRIVATE_FOLDER, Root,
    handles::Handles,
    metadata,
    platform::{self, HANDLE},
    scan::Scan,
};

/// The files and directories that the user offers, each listed below its own leaf name. Cheap to clone; all
/// clones share their handles.
#[derive(Debug, Clone)]
pub struct Source(Arc<Held>);

#[derive(Debug)]
struct Held {
    /// Sorted by name.
    operands: Vec<Operand>,
    /// By entry path.
    directories: Handles<OwnedFd>,
}

/// One argument. It is held by the directory it lies in, so that many files of one directory take one
/// descriptor.
#[derive(Debug)]
struct Operand {
    /// Its first component in the tree.
    name: EntryPath,
    /// Its name on disk: another one when the argument is a symlink.
    leaf: Box<[u8]>,
    parent: Arc<OwnedFd>,
}

/// Why the arguments can't be offered. All of them are for the operator to solve.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// There is no such file, or it can't be reached.
    #[error("cannot open \"{}\"", shown(path))]
    Unreachable {
        /// The argument.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The whole file system was named: it has no leaf name to be listed below.
    #[error("\"{}\" is the root directory, which has no name to send it under", shown(path))]
    Root {
        /// The argument.
        path: PathBuf,
    },
    /// A FIFO, a socket or a device.
    #[error("\"{}\" is neither a file nor a directory", shown(path))]
    Special {
        /// The argument.
        path: PathBuf,
    },
    /// Its name belongs to unfinished transfers.
    #[error("\"{}\" is the name of ketch's own folder for unfinished files", shown(path))]
    Reserved {
        /// The argument.
        path: PathBuf,
    },
    /// Its name can't be carried.
    #[error("cannot send \"{}\"", shown(path))]
    Name {
        /// The argument.
        path: PathBuf,
        /// Why.
        source: PathError,
    },
    /// Two arguments would be stored under one name.
    #[error("\"{}\" and \"{}\" have the same name", shown(first), shown(second))]
    Duplicate {
        /// The argument named first.
        first: PathBuf,
        /// The other one.
        second: PathBuf,
    },
}

fn shown(path: &Path) -> impl std::fmt::Display + '_ {
    escape(path.as_os_str().as_bytes())
}

impl Source {
    /// Takes hold of every operand. A symlink is followed, and is listed under its own name.
    pub fn open(operands: &[PathBuf]) -> Result<Self, SourceError> {
        let mut parents: Vec<(PathBuf, Arc<OwnedFd>)> = Vec::new();
        let mut opened: Vec<(Operand, &PathBuf)> = Vec::with_capacity(operands.len());
        for path in operands {
            opened.push((open_operand(path, &mut parents)?, path));
        }
        opened.sort_by(|(left, _), (right, _)| left.name.cmp(&right.name));
        if let Some([(_, first), (_, second)]) =
            opened.array_windows().find(|[(left, _), (right, _)]| left.name == right.name)
        {
            return Err(SourceError::Duplicate { first: (*first).clone(), second: (*second).clone() });
        }
        let operands = opened.into_iter().map(|(operand, _)| operand).collect();
        Ok(Self(Arc::new(Held { operands, directories: Handles::new() })))
    }

    /// Takes hold of what lies in a directory; its entries are named relative to it.
    pub fn of_root(root: Root) -> io::Result<Self> {
        let parent = Arc::new(root.into_handle());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let listed = openat(&*parent, ".", flags, Mode::empty())?;
        let mut operands = Vec::new();
        for found in Dir::new(listed)? {
            let found = found?;
            let leaf = found.file_name().to_bytes();
            if let Ok(name) = EntryPath::parse(leaf)
                && leaf != PRIVATE_FOLDER.as_bytes()
            {
                operands.push(Operand { name, leaf: leaf.into(), parent: Arc::clone(&parent) });
            }
        }
        operands.sort_by(|left, right| left.name.cmp(&right.name));
        Ok(Self(Arc::new(Held { operands, directories: Handles::new() })))
    }

    /// Lists the tree as it is now, in the order of [`EntryPath`].
    pub fn scan(&self) -> Scan {
        Scan::new(self.clone())
    }

    /// Opens a listed file for reading; a problem when it no longer is what was listed.
    pub fn open_file(&self, entry: &Entry) -> Result<SourceFile, Problem> {
        // Non-blocking: a FIFO that took the file's place must not hang the thread.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = self
            .beneath(&entry.path, |parent, leaf| openat(parent, leaf, flags, Mode::empty()))
            .map_err(|error| read_problem(entry, error))?;
        let stat = fstat(&file).map_err(|error| read_problem(entry, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(changed(entry, "it is no longer a regular file"));
        }
        let seen = Seen::of(&stat);
        if seen.size != entry.size() {
            let detail = format!("listed with {} bytes, it now has {}", entry.size(), seen.size);
            return Err(changed(entry, detail));
        }
        if seen.mtime != entry.mtime {
            return Err(changed(entry, "it was written to after it was listed"));
        }
        Ok(SourceFile { file: file.into(), seen })
    }

    /// The first components of the tree, in order.
    pub(super) fn names(&self) -> impl DoubleEndedIterator<Item = &EntryPath> {
        self.0.operands.iter().map(|operand| &operand.name)
    }

    /// Opens the directory at `path` to list it.
    pub(super) fn open_directory(&self, path: &EntryPath) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        self.beneath(path, |parent, leaf| openat(parent, leaf, flags, Mode::empty()))
    }

    /// Does something with the handle of the directory that `path` lies in and its name there.
    pub(super) fn beneath<R>(
        &self,
        path: &EntryPath,
        mut act: impl FnMut(&OwnedFd, &[u8]) -> Result<R, Errno>,
    ) -> Result<R, Errno> {
        match path.parent() {
            Some(parent) => {
                let directory = self.directory(parent)?;
                self.0.directories.with_room(|| act(&directory, path.leaf()))
            }
            None => {
                let operand = self.operand(path.as_bytes())?;
                self.0.directories.with_room(|| act(&operand.parent, &operand.leaf))
            }
        }
    }

    /// The handle of the directory whose entry path is `path`.
    pub(super) fn directory(&self, path: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        self.0.directories.directory(path, || {
            let name_end = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
            let operand = self.operand(&path[..name_end])?;
            let on_disk = [&operand.leaf, &path[name_end..]].concat();
            platform::open_beneath(operand.parent.as_fd(), &on_disk, HANDLE | OFlags::DIRECTORY)
        })
    }

    fn operand(&self, name: &[u8]) -> Result<&Operand, Errno> {
        let operands = &self.0.operands;
        let index = operands.binary_search_by(|operand| operand.name.as_bytes().cmp(name));
        index.map(|index| &operands[index]).map_err(|_| Errno::NOENT)
    }
}

fn open_operand(path: &Path, parents: &mut Vec<(PathBuf, Arc<OwnedFd>)>) -> Result<Operand, SourceError> {
    let unreachable = |source: io::Error| SourceError::Unreachable { path: path.into(), source };
    let resolved = fs::canonicalize(path).map_err(unreachable)?;
    let (Some(above), Some(leaf)) = (resolved.parent(), resolved.file_name()) else {
        return Err(SourceError::Root { path: path.into() });
    };
    // `.` and `..` have no leaf name of their own.
    let name = path.file_name().unwrap_or(leaf).as_bytes();
    if name == PRIVATE_FOLDER.as_bytes() {
        return Err(SourceError::Reserved { path: path.into() });
    }
    let name = EntryPath::parse(name).map_err(|source| SourceError::Name { path: path.into(), source })?;
    let parent = hold(above, parents).map_err(|error| unreachable(error.into()))?;
    let stat = statat(&parent, leaf, AtFlags::SYMLINK_NOFOLLOW).map_err(|error| unreachable(error.into()))?;
    if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Directory) {
        return Err(SourceError::Special { path: path.into() });
    }
    Ok(Operand { name, leaf: leaf.as_bytes().into(), parent })
}

/// The handle of `directory`, shared with the operands before. Arguments come sorted by a shell, so the
/// latest is nearly always the one.
fn hold(directory: &Path, held: &mut Vec<(PathBuf, Arc<OwnedFd>)>) -> Result<Arc<OwnedFd>, Errno> {
    if let Some((_, handle)) = held.iter().rev().find(|(path, _)| path == directory) {
        return Ok(Arc::clone(handle));
    }
    let flags = HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let handle = Arc::new(open(directory, flags, Mode::empty())?);
    held.push((directory.into(), Arc::clone(&handle)));
    Ok(handle)
}

/// Why something that was listed can't be read.
pub(super) fn read_cause(error: Errno) -> Cause {
    match error {
        Errno::NOENT => Cause::Vanished,
        // A directory above it, or itself, became a symlink or a file.
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => Cause::Changed,
        _ => Cause::Unreadable,
    }
}

fn read_problem(entry: &Entry, error: Errno) -> Problem {
    Problem::new(entry.path.clone(), read_cause(error), format_args!("opening it: {error}"))
}

fn changed(entry: &Entry, detail: impl std::fmt::Display) -> Problem {
    Problem::new(entry.path.clone(), Cause::Changed, detail)
}

/// A file of the source, open for reading by any number of threads.
#[derive(Debug)]
pub struct SourceFile {
    file: File,
    seen: Seen,
}

impl SourceFile {
    /// Reads at `offset` bytes into `buffer`; fewer bytes than it holds only at the end of the file. A buffer
    /// no longer than what was listed saves the call that finds the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fully_at(&self.file, buffer, offset)
    }

    /// Whether nothing was written to the file since it was opened. Ask after reading: only then is what was
    /// read the content of one moment.
    pub fn is_unchanged(&self) -> bool {
        fstat(&self.file).is_ok_and(|stat| Seen::of(&stat) == self.seen)
    }
}

/// Reads until `buffer` is full or the file ends.
pub(super) fn read_fully_at(file: &File, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read_at(&mut buffer[filled..], offset + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// What tells whether a file was written to. The ctime catches a writer that puts the mtime back.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    size: u64,
    mtime: Timestamp,
    ctime: Timestamp,
}

impl Seen {
    fn of(stat: &Stat) -> Self {
        Self { size: metadata::size(stat), mtime: metadata::mtime(stat), ctime: metadata::ctime(stat) }
    }
}
