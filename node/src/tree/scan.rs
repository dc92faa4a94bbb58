//! Lists a source, sorted, with one directory's names in memory at a time per level.

use std::{os::fd::OwnedFd, sync::Arc};

use ketch_protocol::{
    limits::LINK_TARGET_BYTES,
    manifest::{Entry, EntryKind},
    path::{EntryPath, escape},
    problem::{Cause, Problem},
};
use rustix::{
    fs::{AtFlags, Dir, FileType, readlinkat, statat},
    io::Errno,
};

use super::{
    PRIVATE_FOLDER, metadata,
    source::{Source, read_cause},
};

/// What a scan comes upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// An entry of the manifest.
    Entry(Entry),
    /// Something that can't be an entry, or a directory whose content can't be listed.
    Problem(Problem),
}

/// A walk through a source in the order of [`EntryPath`]: a directory, then everything below it. Entries of
/// a directory that changes meanwhile may or may not be listed; files are checked again when they are opened.
#[derive(Debug)]
pub struct Scan {
    source: Source,
    /// The operands still to come, last first.
    operands: Vec<EntryPath>,
    /// The directories being listed, from the operand down.
    levels: Vec<Level>,
    /// A directory that was just listed and whose content comes next.
    entered: Option<EntryPath>,
}

/// One directory being listed.
#[derive(Debug)]
struct Level {
    path: EntryPath,
    names: Names,
    /// Kept while its own entries are listed, dropped while those below are, so that a deep tree does not
    /// take a descriptor a level.
    handle: Option<Arc<OwnedFd>>,
}

impl Scan {
    pub(super) fn new(source: Source) -> Self {
        let operands = source.names().rev().cloned().collect();
        Self { source, operands, levels: Vec::new(), entered: None }
    }

    /// Reads the names of a directory; a problem of the directory when it can't be read.
    fn enter(&mut self, path: EntryPath) -> Option<Problem> {
        if let Some(above) = self.levels.last_mut() {
            above.handle = None;
        }
        match self.source.open_directory(&path).and_then(|directory| Names::read(&directory)) {
            Ok(names) => {
                self.levels.push(Level { path, names, handle: None });
                None
            }
            Err(error) => Some(Problem::new(path, read_cause(error), format_args!("listing it: {error}"))),
        }
    }

    /// The next name of the directory being listed; `None` when it has no more.
    fn next_below(&mut self) -> Option<Found> {
        let level = self.levels.last_mut()?;
        let Some(name) = level.names.pop() else {
            self.levels.pop();
            return None;
        };
        let path = match level.path.join(name) {
            Ok(path) => path,
            Err(error) => {
                let detail = format_args!("\"{}\" in it: {error}", escape(name));
                return Some(problem(&level.path, Cause::Unrepresentable, detail));
            }
        };
        let found = match level.directory(&self.source) {
            Ok(directory) => look(directory, path.leaf(), path.clone()),
            Err(error) => Err(error),
        };
        Some(self.keep(path, found))
    }

    fn next_operand(&mut self) -> Option<Found> {
        let path = self.operands.pop()?;
        let found = self.source.beneath(&path, |parent, leaf| look(parent, leaf, path.clone()));
        Some(self.keep(path, found))
    }

    /// Remembers a directory that was found.
    fn keep(&mut self, path: EntryPath, found: Result<Found, Errno>) -> Found {
        match found {
            Ok(Found::Entry(entry)) => {
                if entry.kind == EntryKind::Directory {
                    self.entered = Some(path);
                }
                Found::Entry(entry)
            }
            Ok(Found::Problem(problem)) => Found::Problem(problem),
            Err(error) => problem(&path, read_cause(error), format_args!("looking at it: {error}")),
        }
    }
}

impl Iterator for Scan {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        if let Some(problem) = self.entered.take().and_then(|path| self.enter(path)) {
            return Some(Found::Problem(problem));
        }
        while !self.levels.is_empty() {
            if let Some(found) = self.next_below() {
                return Some(found);
            }
        }
        self.next_operand()
    }
}

impl Level {
    fn directory(&mut self, source: &Source) -> Result<&OwnedFd, Errno> {
        match &mut self.handle {
            Some(handle) => Ok(handle),
            empty => Ok(empty.insert(source.directory(self.path.as_bytes())?)),
        }
    }
}

fn problem(path: &EntryPath, cause: Cause, detail: impl std::fmt::Display) -> Found {
    Found::Problem(Problem::new(path.clone(), cause, detail))
}

/// What `leaf` in `directory` is, to be listed as `path`.
fn look(directory: &OwnedFd, leaf: &[u8], path: EntryPath) -> Result<Found, Errno> {
    let stat = statat(directory, leaf, AtFlags::SYMLINK_NOFOLLOW)?;
    let entry = |kind, mode| Found::Entry(Entry::new(path.clone(), kind, mode, metadata::mtime(&stat)));
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            entry(EntryKind::File { size: metadata::size(&stat) }, metadata::mode(&stat))
        }
        FileType::Directory => entry(EntryKind::Directory, metadata::mode(&stat)),
        FileType::Symlink => {
            let target = readlinkat(directory, leaf, Vec::new())?.into_bytes();
            if target.is_empty() || target.len() > LINK_TARGET_BYTES {
                let detail = format_args!("its target has {} bytes", target.len());
                return Ok(problem(&path, Cause::Unrepresentable, detail));
            }
            entry(EntryKind::Symlink { target: target.into() }, 0)
        }
        FileType::Fifo => problem(&path, Cause::Special, "a FIFO"),
        FileType::Socket => problem(&path, Cause::Special, "a socket"),
        FileType::CharacterDevice => problem(&path, Cause::Special, "a character device"),
        FileType::BlockDevice => problem(&path, Cause::Special, "a block device"),
        FileType::Unknown => problem(&path, Cause::Special, "of unknown kind"),
    })
}

/// The sorted names of one directory, packed: a name costs its bytes and 10 more, so that a million of them
/// in one directory stay in some tens of megabytes.
#[derive(Debug, Default)]
struct Names {
    /// Each name behind its length in two bytes.
    packed: Vec<u8>,
    /// Where the names begin, last first.
    starts: Vec<usize>,
}

impl Names {
    fn read(directory: &OwnedFd) -> Result<Self, Errno> {
        let mut names = Self::default();
        for name in Dir::read_from(directory)? {
            match name?.file_name().to_bytes() {
                b"." | b".." => {}
                private if private == PRIVATE_FOLDER.as_bytes() => {}
                name => names.push(name),
            }
        }
        names.packed.shrink_to_fit();
        let packed = &names.packed;
        names.starts.sort_unstable_by(|&left, &right| name_at(packed, right).cmp(name_at(packed, left)));
        Ok(names)
    }

    fn push(&mut self, name: &[u8]) {
        let length = u16::try_from(name.len()).expect("no file system has names of 64 KiB");
        self.starts.push(self.packed.len());
        self.packed.extend_from_slice(&length.to_le_bytes());
        self.packed.extend_from_slice(name);
    }

    /// Takes the first name.
    fn pop(&mut self) -> Option<&[u8]> {
        let start = self.starts.pop()?;
        Some(name_at(&self.packed, start))
    }
}

fn name_at(packed: &[u8], start: usize) -> &[u8] {
    let length = usize::from(u16::from_le_bytes([packed[start], packed[start + 1]]));
    &packed[start + 2..][..length]
}
