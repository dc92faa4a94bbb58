//! Lists a source, sorted, with one directory's names in memory at a time per level.

use std::{
    collections::{HashMap, hash_map},
    os::fd::OwnedFd,
    sync::Arc,
};

use ketch_protocol::{
    hash::ContentHash,
    limits::{COMPONENT_BYTES, LINK_TARGET_BYTES},
    manifest::{Entry, EntryKind, Timestamp},
    path::{EntryPath, PathError, escape},
    problem::{Cause, Problem},
};
use rustix::{
    fs::{AtFlags, Dir, FileType, Stat, readlinkat, statat},
    io::Errno,
};

use super::{
    PRIVATE_FOLDER, attributes,
    filter::Filter,
    metadata,
    source::{Source, read_cause},
};
use crate::index::Reader;

/// What a scan comes upon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// An entry of the manifest.
    Entry(Entry),
    /// Something that can't be an entry, a directory whose content can't be listed, or an entry (found just
    /// before) whose attributes can't be carried.
    Problem(Problem),
}

/// What is listed, and what beside the kind, size, mode and mtime of each entry.
#[derive(Debug, Default)]
pub struct Listing {
    /// What takes part.
    pub filter: Filter,
    /// Gives files the hashes that are known; without it none have one.
    pub known: Option<Reader>,
    /// Whether further names of a file are listed as hard links.
    pub hard_links: bool,
    /// Whether owners are.
    pub owner: bool,
    /// Whether extended attributes are.
    pub attributes: bool,
}

/// A walk through a source in the order of [`EntryPath`]: a directory, then everything below it. Entries of
/// a directory that changes meanwhile may or may not be listed; files are checked again when they are opened.
#[derive(Debug)]
pub struct Scan {
    source: Source,
    /// The operands still to come, last first.
    operands: Vec<EntryPath>,
    /// The directories being listed, from the top down.
    levels: Vec<Level>,
    /// A directory that was just listed and whose content comes next.
    entered: Option<EntryPath>,
    look: Look,
}

/// Looks at one name after another.
#[derive(Debug)]
struct Look {
    listing: Listing,
    links: Links,
    /// What else there is to say about the last entry.
    problem: Option<Problem>,
}

/// One directory being listed.
#[derive(Debug)]
struct Level {
    /// `None` of the root.
    path: Option<EntryPath>,
    names: Names,
    /// Kept while its own entries are listed, dropped while those below are, so that a deep tree does not
    /// take a descriptor a level.
    handle: Option<Arc<OwnedFd>>,
}

impl Scan {
    /// Of a root, [`Scan::enter_root`] comes next.
    pub(super) fn new(source: Source, listing: Listing) -> Self {
        let operands = source.names().rev().cloned().collect();
        let look = Look { listing, links: Links::default(), problem: None };
        Self { source, operands, levels: Vec::new(), entered: None, look }
    }

    /// Reads the names of the root, if the source is one.
    pub(super) fn enter_root(&mut self) -> Result<(), Errno> {
        if self.source.is_root() {
            let names = Names::read(&self.source.open_directory(None)?)?;
            self.levels.push(Level { path: None, names, handle: None });
        }
        Ok(())
    }

    /// Tells the hash of the file that was listed last: its other names are listed with it.
    pub fn learn(&mut self, path: &EntryPath, hash: ContentHash) {
        self.look.links.note_hash(path, Some(hash));
    }

    /// The reader of its listing, after the scan.
    pub fn into_known(self) -> Option<Reader> {
        self.look.listing.known
    }

    /// Reads the names of a directory; a problem of the directory when it can't be read.
    fn enter(&mut self, path: EntryPath) -> Option<Found> {
        if let Some(above) = self.levels.last_mut() {
            above.handle = None;
        }
        match self.source.open_directory(Some(&path)).and_then(|directory| Names::read(&directory)) {
            Ok(names) => {
                self.levels.push(Level { path: Some(path), names, handle: None });
                None
            }
            Err(error) => Some(problem(&path, read_cause(error), format_args!("listing it: {error}"))),
        }
    }

    /// What the next name of the directory being listed stands for; `None` when that takes no part, or there
    /// is no further name.
    fn next_below(&mut self) -> Option<Found> {
        let level = self.levels.last_mut()?;
        let Some(name) = level.names.pop() else {
            self.levels.pop();
            return None;
        };
        let path = match join(level.path.as_ref(), name) {
            Ok(path) => path,
            Err(error) => return Some(unrepresentable(level.path.as_ref(), name, error)),
        };
        let found = match level.directory(&self.source) {
            Ok(directory) => self.look.at(directory, path.leaf(), &path),
            Err(error) => Err(error),
        };
        self.keep(path, found)
    }

    /// What the next operand is; nothing after the last.
    fn next_operand(&mut self) -> Option<Option<Found>> {
        let path = self.operands.pop()?;
        let found = self.source.beneath(&path, |parent, leaf| self.look.at(parent, leaf, &path));
        Some(self.keep(path, found))
    }

    /// Remembers a directory that was found.
    fn keep(&mut self, path: EntryPath, found: Result<Option<Found>, Errno>) -> Option<Found> {
        match found {
            Ok(found) => {
                if let Some(Found::Entry(Entry { kind: EntryKind::Directory, .. })) = &found {
                    self.entered = Some(path);
                }
                found
            }
            Err(error) => Some(problem(&path, read_cause(error), format_args!("looking at it: {error}"))),
        }
    }
}

impl Iterator for Scan {
    type Item = Found;

    fn next(&mut self) -> Option<Found> {
        loop {
            let found = if let Some(problem) = self.look.problem.take() {
                Some(Found::Problem(problem))
            } else if let Some(path) = self.entered.take() {
                self.enter(path)
            } else if self.levels.is_empty() {
                self.next_operand()?
            } else {
                self.next_below()
            };
            if found.is_some() {
                return found;
            }
        }
    }
}

impl Level {
    fn directory(&mut self, source: &Source) -> Result<&OwnedFd, Errno> {
        match &mut self.handle {
            Some(handle) => Ok(handle),
            empty => {
                let path = self.path.as_ref().map_or(&[][..], EntryPath::as_bytes);
                Ok(empty.insert(source.directory(path)?))
            }
        }
    }
}

fn join(above: Option<&EntryPath>, name: &[u8]) -> Result<EntryPath, PathError> {
    above.map_or_else(|| EntryPath::parse(name), |above| above.join(name))
}

/// A name that no path can have, named by the directory it lies in; in the root, by as much of it as can be.
fn unrepresentable(above: Option<&EntryPath>, name: &[u8], error: PathError) -> Found {
    let path = above.cloned().unwrap_or_else(|| {
        let cut = &name[..name.len().min(COMPONENT_BYTES)];
        EntryPath::parse(cut).expect("a name in a directory has no slash, and can only be too long")
    });
    problem(&path, Cause::Unrepresentable, format_args!("\"{}\" in it: {error}", escape(name)))
}

fn problem(path: &EntryPath, cause: Cause, detail: impl std::fmt::Display) -> Found {
    Found::Problem(Problem::new(path.clone(), cause, detail))
}

impl Look {
    /// What `leaf` in `directory` is, to be listed as `path`; `None` when it takes no part.
    fn at(&mut self, directory: &OwnedFd, leaf: &[u8], path: &EntryPath) -> Result<Option<Found>, Errno> {
        let stat = statat(directory, leaf, AtFlags::SYMLINK_NOFOLLOW)?;
        let kind = FileType::from_raw_mode(stat.st_mode);
        if self.listing.filter.leaves_out(path, kind == FileType::Directory) {
            return Ok(None);
        }
        let special = |name| Ok(Some(problem(path, Cause::Special, name)));
        let mut entry = match kind {
            FileType::RegularFile => match self.first_name(&stat, path) {
                Some((target, hash)) => return Ok(Some(Found::Entry(hard_link(path, target, hash)))),
                None => {
                    let file = self.file(&stat, path);
                    self.links.note_hash(path, file.hash);
                    file
                }
            },
            FileType::Directory => entry(path, EntryKind::Directory, metadata::mode(&stat), &stat),
            FileType::Symlink => {
                let target = readlinkat(directory, leaf, Vec::new())?.into_bytes();
                if target.is_empty() || target.len() > LINK_TARGET_BYTES {
                    let detail = format_args!("its target has {} bytes", target.len());
                    return Ok(Some(problem(path, Cause::Unrepresentable, detail)));
                }
                entry(path, EntryKind::Symlink { target: target.into() }, 0, &stat)
            }
            FileType::Fifo => return special("a FIFO"),
            FileType::Socket => return special("a socket"),
            FileType::CharacterDevice => return special("a character device"),
            FileType::BlockDevice => return special("a block device"),
            FileType::Unknown => return special("of unknown kind"),
        };
        if self.listing.owner {
            entry.owner = Some(metadata::owner(&stat));
        }
        if self.listing.attributes && kind != FileType::Symlink {
            self.add_attributes(&mut entry, directory, leaf);
        }
        Ok(Some(Found::Entry(entry)))
    }

    fn file(&mut self, stat: &Stat, path: &EntryPath) -> Entry {
        let size = metadata::size(stat);
        let mut entry = entry(path, EntryKind::File { size }, metadata::mode(stat), stat);
        entry.hash = self.listing.known.as_mut().and_then(|known| match size {
            0 => Some(ContentHash::of_nothing()),
            _ => known.hash_of(path, &metadata::stat_key(stat)),
        });
        entry
    }

    /// The name under which a file was listed already, where hard links are.
    fn first_name(&mut self, stat: &Stat, path: &EntryPath) -> Option<FirstName> {
        if self.listing.hard_links { self.links.first_name(stat, path) } else { None }
    }

    fn add_attributes(&mut self, entry: &mut Entry, directory: &OwnedFd, leaf: &[u8]) {
        match attributes::read_at(directory, leaf) {
            Ok(attributes) => entry.attributes = attributes,
            Err(why) => self.problem = Some(Problem::new(entry.path.clone(), Cause::Metadata, why)),
        }
    }
}

fn entry(path: &EntryPath, kind: EntryKind, mode: u32, stat: &Stat) -> Entry {
    Entry::new(path.clone(), kind, mode, metadata::mtime(stat))
}

/// Mode, times and all else are said by the first name. The hash is said again: a file that is replaced loses
/// its other names, so where it differs each of them must be listed.
fn hard_link(path: &EntryPath, target: EntryPath, hash: Option<ContentHash>) -> Entry {
    let entry = Entry::new(path.clone(), EntryKind::HardLink { target }, 0, Timestamp::default());
    Entry { hash, ..entry }
}

/// The first name of a file, and its hash if that is known.
type FirstName = (EntryPath, Option<ContentHash>);

/// The first names of files that have further ones still to come.
#[derive(Debug, Default)]
struct Links {
    firsts: HashMap<(u64, u64), First>,
    /// Whose first name was met last.
    latest: Option<(u64, u64)>,
}

#[derive(Debug)]
struct First {
    name: EntryPath,
    hash: Option<ContentHash>,
    /// Names that were not met yet; some may lie outside the tree.
    missing: u64,
}

impl Links {
    /// The name under which the file was met before, and its hash; now it is met as `path`.
    fn first_name(&mut self, stat: &Stat, path: &EntryPath) -> Option<FirstName> {
        let names = metadata::names(stat);
        if names < 2 {
            return None;
        }
        let file = (stat.st_dev, stat.st_ino);
        match self.firsts.entry(file) {
            hash_map::Entry::Vacant(vacant) => {
                self.latest = Some(file);
                vacant.insert(First { name: path.clone(), hash: None, missing: names - 1 });
                None
            }
            hash_map::Entry::Occupied(mut occupied) => {
                let first = occupied.get_mut();
                first.missing = first.missing.saturating_sub(1);
                let hash = first.hash;
                let is_last = first.missing == 0;
                Some((if is_last { occupied.remove().name } else { first.name.clone() }, hash))
            }
        }
    }

    /// Notes the hash of the file at `path` if it is the latest that was met.
    fn note_hash(&mut self, path: &EntryPath, hash: Option<ContentHash>) {
        let first = self.latest.and_then(|file| self.firsts.get_mut(&file));
        if let Some(first) = first.filter(|first| first.name == *path) {
            first.hash = hash;
        }
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_longer_than_any_component_is_named_as_far_as_it_can_be() {
        let name = [b'x'; COMPONENT_BYTES + 1];
        let above = EntryPath::parse(b"d").unwrap();
        for (above, path) in [(Some(&above), &b"d"[..]), (None, &[b'x'; COMPONENT_BYTES])] {
            let error = join(above, &name).unwrap_err();
            let Found::Problem(problem) = unrepresentable(above, &name, error) else { panic!("an entry") };
            assert_eq!((problem.path.as_bytes(), problem.cause), (path, Cause::Unrepresentable));
        }
    }
}
