//! A tree that is read: its operands or its root, held by handle, and the files in it.

use std::{
    ffi::OsStr,
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
    manifest::Entry,
    path::{EntryPath, PathError, escape},
    problem::{Cause, Problem},
};
use rustix::{
    buffer::spare_capacity,
    fs::{AtFlags, FileType, Mode, OFlags, fstat, fstatvfs, open, openat, statat},
    io::{Errno, pread},
};

use super::{
    HeldDirectory, PRIVATE_FOLDER,
    handles::Handles,
    metadata,
    platform::{self, Extent, HANDLE},
    scan::{Listing, Scan},
};
use crate::index::{self, RootIdentity, Seen, TreeName};

/// A tree to read: the files and directories that the user offers, each listed below its own leaf name, or
/// the content of one directory. Cheap to clone; all clones share their handles.
#[derive(Debug, Clone)]
pub struct Source(Arc<Held>);

#[derive(Debug)]
struct Held {
    top: Top,
    /// By what its index is found.
    tree: TreeName,
    /// By entry path.
    directories: Handles<OwnedFd>,
}

/// What the first components of entries are names of.
#[derive(Debug)]
enum Top {
    /// Arguments, sorted by name.
    Operands(Vec<Operand>),
    /// What lies in this directory.
    Root { handle: OwnedFd, path: PathBuf },
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
    /// A tree was asked for and something else is there.
    #[error("\"{}\" is not a directory", shown(path))]
    NotADirectory {
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
        let mut opened: Vec<(Operand, PathBuf, &PathBuf)> = Vec::with_capacity(operands.len());
        for path in operands {
            let (operand, resolved) = open_operand(path, &mut parents)?;
            opened.push((operand, resolved, path));
        }
        opened.sort_by(|(left, ..), (right, ..)| left.name.cmp(&right.name));
        if let Some([(.., first), (.., second)]) =
            opened.array_windows().find(|[(left, ..), (right, ..)]| left.name == right.name)
        {
            return Err(SourceError::Duplicate { first: (*first).clone(), second: (*second).clone() });
        }
        let tree = opened.iter().map(|(operand, resolved, _)| (&operand.name, &**resolved));
        let tree = TreeName::of_operands(tree);
        Ok(Self::holding(tree, Top::Operands(opened.into_iter().map(|(operand, ..)| operand).collect())))
    }

    /// Takes hold of what lies in a directory; its entries are named relative to it.
    pub fn of_root(root: &HeldDirectory) -> Result<Self, SourceError> {
        let handle = openat(root.handle(), ".", LISTABLE, Mode::empty());
        let handle = handle.map_err(|error| root_error(root.path(), error))?;
        Ok(Self::holding_root(handle, root.path().to_owned()))
    }

    /// Takes hold of the directory at `path`, symlinks followed. Its entries are named relative to it, and
    /// it is none itself.
    pub fn open_root(path: &Path) -> Result<Self, SourceError> {
        let unreachable = |source: io::Error| SourceError::Unreachable { path: path.into(), source };
        let resolved = fs::canonicalize(path).map_err(unreachable)?;
        let handle = open(&resolved, LISTABLE, Mode::empty()).map_err(|error| root_error(path, error))?;
        Ok(Self::holding_root(handle, resolved))
    }

    /// Takes hold of the directory at `below` in this one, no symlink followed. Only of an opened root.
    pub fn open_below(&self, below: &EntryPath) -> Result<Self, SourceError> {
        let above = self.root_path().unwrap_or(Path::new(""));
        let path = above.join(OsStr::from_bytes(below.as_bytes()));
        match self.open_directory(Some(below)) {
            Ok(handle) => Ok(Self::holding_root(handle, path)),
            Err(error) => Err(root_error(&path, error)),
        }
    }

    fn holding_root(handle: OwnedFd, path: PathBuf) -> Self {
        Self::holding(TreeName::of_root(&path), Top::Root { handle, path })
    }

    fn holding(tree: TreeName, top: Top) -> Self {
        Self(Arc::new(Held { top, tree, directories: Handles::new() }))
    }

    /// Lists the tree as it is now, in the order of [`EntryPath`]: every entry by its kind, size, mode and
    /// mtime.
    pub fn scan(&self) -> Scan {
        Scan::new(self.clone(), Listing::default())
    }

    /// Lists the tree as it is now, in the order of [`EntryPath`], as `listing` wants it. An error when the
    /// root can't be listed: such a tree must not pass for an empty one.
    pub fn list(&self, listing: Listing) -> Result<Scan, SourceError> {
        let mut scan = Scan::new(self.clone(), listing);
        scan.enter_root().map_err(|error| root_error(self.root_path().unwrap_or(Path::new("")), error))?;
        Ok(scan)
    }

    /// Which directory it is; `None` of operands.
    pub fn root(&self) -> Result<Option<RootIdentity>, SourceError> {
        let Top::Root { handle, path } = &self.0.top else { return Ok(None) };
        let seen = fstatvfs(handle).map_err(|error| root_error(path, error))?;
        Ok(Some(RootIdentity { file_system: seen.f_fsid }))
    }

    /// By what its index is found.
    pub fn tree_name(&self) -> &TreeName {
        &self.0.tree
    }

    /// Whether nothing has the name of a path.
    pub fn lacks(&self, path: &EntryPath) -> bool {
        let looked = self.beneath(path, |parent, leaf| statat(parent, leaf, AtFlags::SYMLINK_NOFOLLOW));
        matches!(looked, Err(Errno::NOENT | Errno::NOTDIR))
    }

    /// Opens a listed file for reading; a problem when it no longer is what was listed.
    pub fn open_file(&self, entry: &Entry) -> Result<SourceFile, Problem> {
        // Non-blocking: a FIFO that took the file's place must not hang the thread.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = self
            .beneath(&entry.path, |parent, leaf| openat(parent, leaf, flags, Mode::empty()))
            .map_err(|error| read_problem(entry, error))?;
        let at = index::now();
        let stat = fstat(&file).map_err(|error| read_problem(entry, error))?;
        if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
            return Err(changed(entry, "it is no longer a regular file"));
        }
        let seen = Seen { stat: metadata::stat_key(&stat), at };
        if seen.stat.size != entry.size() {
            let detail = format!("listed with {} bytes, it now has {}", entry.size(), seen.stat.size);
            return Err(changed(entry, detail));
        }
        if seen.stat.mtime != entry.mtime {
            return Err(changed(entry, "it was written to after it was listed"));
        }
        Ok(SourceFile { file: file.into(), seen, sparse: metadata::is_sparse(&stat) })
    }

    /// The names of the operands, in order; none of a root.
    pub(super) fn names(&self) -> impl DoubleEndedIterator<Item = &EntryPath> {
        self.operands().iter().map(|operand| &operand.name)
    }

    /// Whether its entries lie in one directory that is none itself.
    pub(super) fn is_root(&self) -> bool {
        self.root_path().is_some()
    }

    /// Opens the directory at `path` to list it, or the root.
    pub(super) fn open_directory(&self, path: Option<&EntryPath>) -> Result<OwnedFd, Errno> {
        match (path, &self.0.top) {
            (Some(path), _) => {
                self.beneath(path, |parent, leaf| openat(parent, leaf, LISTABLE, Mode::empty()))
            }
            (None, Top::Root { handle, .. }) => openat(handle, ".", LISTABLE, Mode::empty()),
            (None, Top::Operands(_)) => Err(Errno::NOENT),
        }
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
                let (parent, leaf) = match &self.0.top {
                    Top::Root { handle, .. } => (handle, path.as_bytes()),
                    Top::Operands(_) => {
                        let operand = self.operand(path.as_bytes())?;
                        (&*operand.parent, &*operand.leaf)
                    }
                };
                self.0.directories.with_room(|| act(parent, leaf))
            }
        }
    }

    /// The handle of the directory whose entry path is `path`.
    pub(super) fn directory(&self, path: &[u8]) -> Result<Arc<OwnedFd>, Errno> {
        self.0.directories.directory(path, || {
            if let Top::Root { handle, .. } = &self.0.top {
                return platform::open_beneath(handle.as_fd(), path, HANDLE | OFlags::DIRECTORY);
            }
            let name_end = path.iter().position(|&byte| byte == b'/').unwrap_or(path.len());
            let operand = self.operand(&path[..name_end])?;
            let on_disk = [&operand.leaf, &path[name_end..]].concat();
            platform::open_beneath(operand.parent.as_fd(), &on_disk, HANDLE | OFlags::DIRECTORY)
        })
    }

    fn root_path(&self) -> Option<&Path> {
        match &self.0.top {
            Top::Root { path, .. } => Some(path),
            Top::Operands(_) => None,
        }
    }

    fn operands(&self) -> &[Operand] {
        match &self.0.top {
            Top::Operands(operands) => operands,
            Top::Root { .. } => &[],
        }
    }

    fn operand(&self, name: &[u8]) -> Result<&Operand, Errno> {
        let operands = self.operands();
        let index = operands.binary_search_by(|operand| operand.name.as_bytes().cmp(name));
        index.map(|index| &operands[index]).map_err(|_| Errno::NOENT)
    }
}

/// How a directory is opened to be listed.
const LISTABLE: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

fn root_error(path: &Path, error: Errno) -> SourceError {
    match error {
        // With O_NOFOLLOW, what is a symlink by now is none either.
        Errno::NOTDIR | Errno::LOOP => SourceError::NotADirectory { path: path.into() },
        _ => SourceError::Unreachable { path: path.into(), source: error.into() },
    }
}

/// An argument, and its path without symlinks.
fn open_operand(
    path: &Path,
    parents: &mut Vec<(PathBuf, Arc<OwnedFd>)>,
) -> Result<(Operand, PathBuf), SourceError> {
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
    let operand = Operand { name, leaf: leaf.as_bytes().into(), parent };
    Ok((operand, resolved))
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
    /// Whether it takes less space than it has bytes.
    sparse: bool,
}

impl SourceFile {
    /// Reads at `offset` bytes into `buffer`; fewer bytes than it holds only at the end of the file. A buffer
    /// no longer than what was listed saves the call that finds the end.
    pub fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<usize> {
        read_fully_at(&self.file, buffer, offset)
    }

    /// Appends `length` bytes from `offset` on to `buffer`; fewer only at the end of the file. Says how many. Reading goes
    /// as far as the buffer's memory, which is not zeroed first: one that has little more room than needed costs least.
    pub fn append_at(&self, buffer: &mut Vec<u8>, length: usize, offset: u64) -> io::Result<usize> {
        buffer.reserve(length);
        let begin = buffer.len();
        while buffer.len() < begin + length {
            let place = offset + (buffer.len() - begin) as u64;
            match pread(&self.file, spare_capacity(buffer), place) {
                Ok(0) => break,
                Ok(_) | Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        buffer.truncate(begin + length);
        Ok(buffer.len() - begin)
    }

    /// What the bytes at `offset` are, of which there are `most`, at least 1.
    pub fn extent_at(&self, offset: u64, most: u64) -> Extent {
        if self.sparse { platform::extent_at(self.file.as_fd(), offset, most) } else { Extent::Data(most) }
    }

    /// Whether nothing was written to the file since it was opened. Ask after reading: only then is what was
    /// read the content of one moment.
    pub fn is_unchanged(&self) -> bool {
        fstat(&self.file).is_ok_and(|stat| metadata::stat_key(&stat) == self.seen.stat)
    }

    /// What it looked like when it was opened: what an index is told once all of it was read unchanged.
    pub fn seen(&self) -> Seen {
        self.seen
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
