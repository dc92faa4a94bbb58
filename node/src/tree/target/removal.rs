//! Removes what only the target has: collected first, weighed against a limit, and only then touched.

use std::collections::BTreeSet;

use ketch_protocol::{
    manifest::{Attribute, Entry, EntryKind, Timestamp},
    message::RemovalLimit,
    path::EntryPath,
    problem::{Cause, Problem},
};
use rustix::{
    fs::{AtFlags, Dir, FileType, Mode, OFlags, Stat, openat, statat, unlinkat},
    io::Errno,
};

use super::{
    Directory, Shared, Target,
    plan::lies_below,
    trash::{Action, Described},
    trouble::Trouble,
};
use crate::tree::{attributes, metadata};

/// Of a tree of up to this many entries all may be removed where no limit is named: a limit in percent
/// would stop the removal of the second of three files.
const SMALL_TREE_ENTRIES: u64 = 20;

/// Whether `count` of the target's `own_entries` may be removed.
fn is_within(limit: RemovalLimit, count: u64, own_entries: u64) -> bool {
    let part = |percent: u8| u128::from(count) * 100 <= u128::from(own_entries) * u128::from(percent);
    match limit {
        RemovalLimit::Default => own_entries <= SMALL_TREE_ENTRIES || part(50),
        RemovalLimit::Entries(limit) => count <= limit,
        RemovalLimit::Percent(percent) => part(percent),
    }
}

/// More would be removed than may be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{count} of {own_entries} entries would be removed, which is more than {}", Shown(*limit))]
pub struct TooMany {
    /// Entries that would be removed.
    pub count: u64,
    /// Entries of the target before the session.
    pub own_entries: u64,
    /// What may be removed.
    pub limit: RemovalLimit,
}

struct Shown(RemovalLimit);

impl std::fmt::Display for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0 {
            RemovalLimit::Default => write!(f, "half of them"),
            RemovalLimit::Entries(limit) => write!(f, "{limit}"),
            RemovalLimit::Percent(percent) => write!(f, "{percent} % of them"),
        }
    }
}

/// What only the target has, as it was listed, in manifest order.
#[derive(Debug, Default)]
pub struct Extras {
    extras: Vec<Extra>,
    spared: Spared,
}

/// Paths at and below which nothing is removed.
#[derive(Debug, Default)]
pub struct Spared {
    paths: BTreeSet<Box<[u8]>>,
    bytes: usize,
}

/// Most bytes of spared paths that are kept, as many as the names of all open entries may take. Where there is more
/// trouble than that, nothing at all is removed.
const SPARED_BYTES: usize = 16 * 1024 * 1024;

impl Spared {
    /// Spares a path and all below it: the sender could not say what it has there.
    pub fn add(&mut self, path: &EntryPath) {
        if self.bytes > SPARED_BYTES {
            return;
        }
        if self.paths.insert(path.as_bytes().into()) {
            self.bytes += path.as_bytes().len();
        }
        if self.bytes > SPARED_BYTES {
            self.paths.clear();
        }
    }

    /// Whether a path or one above it is spared.
    fn has(&self, path: &EntryPath) -> bool {
        let bytes = path.as_bytes();
        let slashes = bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(index, _)| index);
        self.bytes > SPARED_BYTES
            || !self.paths.is_empty()
                && slashes.chain([bytes.len()]).any(|end| self.paths.contains(&bytes[..end]))
    }
}

/// An entry of the target that the sender does not have.
#[derive(Debug)]
struct Extra {
    path: EntryPath,
    seen: Seen,
}

/// What was listed of it: something else under its name is not removed.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// Its mode and time are for bringing it back; removing what is in it changes them.
    Directory {
        mode: u32,
        mtime: Timestamp,
    },
    File {
        size: u64,
        mtime: Timestamp,
    },
    /// All of it is listed with its first name only, which may be another file by now.
    HardLink,
    Symlink {
        mtime: Timestamp,
    },
}

impl Extras {
    /// Adds the next of the target's own entries that the sender does not have. What stands in the way of
    /// [a blocked entry](super::Plan::Blocked) is one of them.
    pub fn push(&mut self, own: &Entry) {
        let seen = match &own.kind {
            EntryKind::Directory => Seen::Directory { mode: own.mode, mtime: own.mtime },
            EntryKind::Symlink { .. } => Seen::Symlink { mtime: own.mtime },
            EntryKind::File { size } => Seen::File { size: *size, mtime: own.mtime },
            EntryKind::HardLink { .. } => Seen::HardLink,
        };
        self.extras.push(Extra { path: own.path.clone(), seen });
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.extras.is_empty()
    }

    /// Their paths, in manifest order, those that are spared among them.
    pub fn paths(&self) -> impl ExactSizeIterator<Item = &EntryPath> {
        self.extras.iter().map(|extra| &extra.path)
    }

    /// Nothing but what is spared.
    pub fn sparing(spared: Spared) -> Self {
        Self { extras: Vec::new(), spared }
    }

    /// Spares a path and all below it.
    pub fn spare(&mut self, path: &EntryPath) {
        self.spared.add(path);
    }

    /// Weighs what was collected against the limit. Nothing is removed before that.
    pub fn approve(self, own_entries: u64, limit: RemovalLimit) -> Result<Approved, TooMany> {
        let Self { mut extras, spared } = self;
        extras.retain(|extra| !spared.has(&extra.path));
        let count = extras.len() as u64;
        if !is_within(limit, count, own_entries) {
            return Err(TooMany { count, own_entries, limit });
        }
        Ok(Approved { extras })
    }
}

/// A removal within its limit.
#[derive(Debug)]
pub struct Approved {
    /// In manifest order.
    extras: Vec<Extra>,
}

impl Approved {
    /// Entries that are still to be removed.
    pub fn count(&self) -> u64 {
        self.extras.len() as u64
    }

    /// Their paths, in the order in which they go.
    pub fn paths(&self) -> impl Iterator<Item = &EntryPath> {
        self.extras.iter().rev().map(|extra| &extra.path)
    }

    /// Takes out what lies at `path` and below it.
    fn take(&mut self, path: &EntryPath) -> Vec<Extra> {
        let begin = self.extras.partition_point(|extra| extra.path < *path);
        let below = &self.extras[begin..];
        let count = below.partition_point(|extra| extra.path == *path || lies_below(&extra.path, path));
        self.extras.drain(begin..begin + count).collect()
    }
}

impl Target {
    /// Removes the directory that stands in the way of a [blocked](super::Plan::Blocked) entry, as far as it
    /// was approved; a problem of the entry when something in it stays.
    pub fn clear(
        &self,
        approved: &mut Approved,
        entry: &Entry,
        removed: &mut dyn FnMut(&EntryPath),
    ) -> Result<(), Trouble> {
        let mut removing = Removing::new(&self.0, &|_| false);
        for extra in approved.take(&entry.path).iter().rev() {
            removing.remove(extra, removed);
        }
        if removing.kept.is_none() {
            return Ok(());
        }
        let why = removing.problems.first().map_or_else(String::new, |problem| format!(": {problem}"));
        let detail = format_args!("a directory is in the way{why}");
        Err(Trouble::problem(&entry.path, Cause::Exists, detail))
    }

    /// Removes what was approved, what lies below a directory before the directory. `removed` is told each
    /// path; what `is_protected` stays without a word, and with it what is above it. Everything else that
    /// stays is named.
    pub fn remove(
        &self,
        approved: &Approved,
        is_protected: &dyn Fn(&EntryPath) -> bool,
        removed: &mut dyn FnMut(&EntryPath),
    ) -> Vec<Problem> {
        let mut removing = Removing::new(&self.0, is_protected);
        for extra in approved.extras.iter().rev() {
            removing.remove(extra, removed);
        }
        removing.problems
    }
}

/// One pass over what is to be removed, from the last to the first.
struct Removing<'a> {
    target: &'a Shared,
    is_protected: &'a dyn Fn(&EntryPath) -> bool,
    /// The latest that stayed: as long as a directory is above it, the directory stays too.
    kept: Option<EntryPath>,
    problems: Vec<Problem>,
}

/// Why something stays.
enum Stays {
    Protected,
    Changed,
    Holds(EntryPath),
    Failed(Errno),
}

impl From<Errno> for Stays {
    fn from(error: Errno) -> Self {
        Self::Failed(error)
    }
}

impl<'a> Removing<'a> {
    fn new(target: &'a Shared, is_protected: &'a dyn Fn(&EntryPath) -> bool) -> Self {
        Self { target, is_protected, kept: None, problems: Vec::new() }
    }

    fn remove(&mut self, extra: &Extra, removed: &mut dyn FnMut(&EntryPath)) {
        let path = &extra.path;
        let (cause, detail) = match self.try_remove(extra) {
            Ok(()) => return removed(path),
            // Somebody else was faster.
            Err(Stays::Failed(Errno::NOENT)) => return,
            Err(Stays::Protected) => {
                self.kept = Some(path.clone());
                return;
            }
            Err(Stays::Changed) => (Cause::Changed, "it changed after it was listed, and stays".to_owned()),
            Err(Stays::Holds(inner)) => {
                (Cause::Exists, format!("\"{inner}\" in it was not there when it was listed, and stays"))
            }
            Err(Stays::Failed(error)) => (Cause::Unwritable, format!("removing it: {error}")),
        };
        self.problems.push(Problem::new(path.clone(), cause, detail));
        self.kept = Some(path.clone());
    }

    fn try_remove(&self, extra: &Extra) -> Result<(), Stays> {
        let path = &extra.path;
        if (self.is_protected)(path) || self.kept.as_ref().is_some_and(|kept| lies_below(kept, path)) {
            return Err(Stays::Protected);
        }
        let above = self.target.directory_above(path)?;
        let stat = statat(&above.handle, path.leaf(), AtFlags::SYMLINK_NOFOLLOW)?;
        if !extra.seen.is(&stat) {
            return Err(Stays::Changed);
        }
        self.target.remember_above(path)?;
        if let Seen::Directory { mode, mtime } = extra.seen {
            return self.remove_directory(path, &above, |attributes| {
                Described::directory(mode, mtime, metadata::owner(&stat), &attributes)
            });
        }
        match &self.target.trash {
            Some(trash) => {
                trash.note(&Action::removed(path, None))?;
                trash.take(path, &above)?;
            }
            None => unlinkat(&above.handle, path.leaf(), AtFlags::empty())?,
        }
        Ok(())
    }

    fn remove_directory(
        &self,
        path: &EntryPath,
        above: &Directory,
        was: impl FnOnce(Vec<Attribute>) -> Described,
    ) -> Result<(), Stays> {
        if let Some(inner) = self.first_inside(path, above)? {
            return Err(if (self.is_protected)(&inner) { Stays::Protected } else { Stays::Holds(inner) });
        }
        if let Some(trash) = &self.target.trash {
            // Those that can't be read can't be brought back.
            let attributes = attributes::read_at(&above.handle, path.leaf()).unwrap_or_default();
            trash.note(&Action::removed(path, Some(was(attributes))))?;
            trash.make_directory(path)?;
        }
        Ok(unlinkat(&above.handle, path.leaf(), AtFlags::REMOVEDIR)?)
    }

    /// Something that a directory still holds: what is not protected before what is.
    fn first_inside(&self, path: &EntryPath, above: &Directory) -> Result<Option<EntryPath>, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let open = || openat(&above.handle, path.leaf(), flags, Mode::empty());
        let mut protected = None;
        for found in Dir::new(self.target.handles.with_room(open)?)? {
            let found = found?;
            let name = found.file_name().to_bytes();
            if name == b"." || name == b".." {
                continue;
            }
            // A name that can't be an entry's stands for its directory.
            let inner = path.join(name).unwrap_or_else(|_| path.clone());
            if !(self.is_protected)(&inner) {
                return Ok(Some(inner));
            }
            protected = Some(inner);
        }
        Ok(protected)
    }
}

impl Seen {
    /// Whether what stands there is what was listed.
    fn is(&self, stat: &Stat) -> bool {
        match (self, FileType::from_raw_mode(stat.st_mode)) {
            (Self::Directory { .. }, FileType::Directory) => true,
            (Self::Symlink { mtime }, FileType::Symlink) => metadata::mtime(stat) == *mtime,
            (Self::File { size, mtime }, FileType::RegularFile) => {
                metadata::size(stat) == *size && metadata::mtime(stat) == *mtime
            }
            (Self::HardLink, FileType::RegularFile) => true,
            (
                Self::Directory { .. } | Self::Symlink { .. } | Self::File { .. } | Self::HardLink,
                FileType::Directory
                | FileType::Symlink
                | FileType::RegularFile
                | FileType::Fifo
                | FileType::Socket
                | FileType::CharacterDevice
                | FileType::BlockDevice
                | FileType::Unknown,
            ) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use ketch_protocol::limits::PATH_BYTES;

    use super::*;

    fn path(text: &str) -> EntryPath {
        EntryPath::parse(text.as_bytes()).unwrap()
    }

    fn removal(texts: &[&str]) -> Extras {
        let mut removal = Extras::default();
        for text in texts {
            removal.push(&Entry::new(path(text), EntryKind::Directory, 0o700, Timestamp::default()));
        }
        removal
    }

    #[test]
    fn limits_admit_up_to_their_number_and_no_more() {
        use RemovalLimit::{Default, Entries, Percent};
        for (limit, count, own, admitted) in [
            (Default, 0, 0, true),
            (Default, 20, 20, true),
            (Default, 10, 21, true),
            (Default, 11, 21, false),
            (Default, 50, 100, true),
            (Default, 51, 100, false),
            (Entries(3), 3, 3, true),
            (Entries(3), 4, 1_000_000, false),
            (Entries(0), 0, 9, true),
            (Entries(0), 1, 9, false),
            (Percent(10), 1, 10, true),
            (Percent(10), 2, 10, false),
            (Percent(100), 10, 10, true),
            (Percent(0), 1, u64::MAX, false),
            (Percent(100), u64::MAX, u64::MAX, true),
        ] {
            assert_eq!(is_within(limit, count, own), admitted, "{limit:?}: {count} of {own}");
        }
    }

    #[test]
    fn a_refusal_says_how_much_it_is_about() {
        let refused = removal(&["a", "b"]).approve(3, RemovalLimit::Entries(1)).unwrap_err();
        assert_eq!(refused.to_string(), "2 of 3 entries would be removed, which is more than 1");
    }

    #[test]
    fn what_is_spared_is_neither_removed_nor_counted() {
        let mut removal = removal(&["a", "a/b", "a/b/c", "a/b/d", "a-", "b", "b/x", "c"]);
        for text in ["a/b", "a/b/c/deeper", "b/x", "d"] {
            removal.spare(&path(text));
        }
        let approved = removal.approve(8, RemovalLimit::Entries(4)).unwrap();
        let left: Vec<_> = approved.extras.iter().map(|extra| extra.path.to_string()).collect();
        assert_eq!(left, ["a", "a-", "b", "c"]);
    }

    #[test]
    fn nothing_is_removed_where_more_is_in_trouble_than_can_be_kept() {
        let mut removal = removal(&["a", "b"]);
        for number in 0..SPARED_BYTES / PATH_BYTES + 2 {
            removal.spare(&path(&format!("{number:0>250}{}", "/x".repeat((PATH_BYTES - 250) / 2))));
        }
        assert!(removal.spared.paths.is_empty());
        assert_eq!(removal.approve(2, RemovalLimit::Entries(0)).unwrap().count(), 0);
    }

    #[test]
    fn what_lies_at_a_path_is_taken_out_with_all_below_it() {
        let mut approved =
            removal(&["a", "a/b", "a/b/c", "a-", "b"]).approve(5, RemovalLimit::Percent(100)).unwrap();
        assert_eq!(approved.take(&path("a")).len(), 3);
        assert_eq!(approved.take(&path("a")).len(), 0);
        assert_eq!(approved.take(&path("x")).len(), 0);
        assert_eq!(approved.count(), 2);
    }
}
