//! Entries of a tree, and the order in which a manifest lists them.

use std::fmt;

use crate::{hash::ContentHash, path::EntryPath};

/// Most bytes of an encoded entry beside its path, link target, hash, owner and attributes: the tag and length of
/// the entry (4), then each field's tag and longest number (`docs/wire-format.md`): shared 3, length of rest 3,
/// kind 2, size 10, mode 6, seconds 11, nanoseconds 6, length of link target 3.
const FIELD_BYTES: usize = 48;

/// Bytes of an encoded hash, with its tag and length.
const HASH_FIELD_BYTES: usize = 34;

/// Most bytes of an encoded owner: tag and length, and two tags and numbers of 6 bytes each.
const OWNER_FIELD_BYTES: usize = 14;

/// Most bytes of an encoded attribute beside its name and value: three tags, and lengths of 3 bytes each.
const ATTRIBUTE_FIELD_BYTES: usize = 12;

/// Position of an entry in the manifest of its session, from 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct EntryId(pub u64);

impl fmt::Display for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for EntryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

/// One path in a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it lies, below the root of the tree.
    pub path: EntryPath,
    /// What it is.
    pub kind: EntryKind,
    /// Permission bits, `0o7777` at most. Meaningless for a symlink and for a hard link (0).
    pub mode: u32,
    /// When its content was last changed.
    pub mtime: Timestamp,
    /// Hash of all its content, where the side that lists a file knows it without reading.
    pub hash: Option<ContentHash>,
    /// Who owns it, where that was asked for.
    pub owner: Option<Owner>,
    /// Its extended attributes in ascending order of their names, where they were asked for.
    pub attributes: Vec<Attribute>,
}

/// The numbers of an owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Owner {
    /// User id.
    pub user: u32,
    /// Group id.
    pub group: u32,
}

/// An extended attribute. All of an entry have [`crate::limits::ATTRIBUTE_BYTES`] bytes at most.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Attribute {
    /// With its namespace, `user.comment`: no NUL, not empty.
    pub name: Box<[u8]>,
    /// Any bytes.
    pub value: Box<[u8]>,
}

impl Entry {
    /// An entry of which no more is known.
    pub fn new(path: EntryPath, kind: EntryKind, mode: u32, mtime: Timestamp) -> Self {
        Self { path, kind, mode, mtime, hash: None, owner: None, attributes: Vec::new() }
    }

    /// Length of its content in bytes; 0 for what has none.
    pub fn size(&self) -> u64 {
        match self.kind {
            EntryKind::File { size } => size,
            EntryKind::Directory | EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => 0,
        }
    }

    /// Bytes of its path, its link target and its attributes: what it costs to remember.
    pub fn name_bytes(&self) -> usize {
        let target = match &self.kind {
            EntryKind::Symlink { target } => target.len(),
            EntryKind::HardLink { target } => target.as_bytes().len(),
            EntryKind::File { .. } | EntryKind::Directory => 0,
        };
        self.path.as_bytes().len() + target + self.attribute_bytes()
    }

    /// Bytes of the names and values of its attributes.
    pub fn attribute_bytes(&self) -> usize {
        self.attributes.iter().map(|attribute| attribute.name.len() + attribute.value.len()).sum()
    }

    /// The most bytes it can take in an encoded batch.
    pub fn encoded_bound(&self) -> usize {
        FIELD_BYTES
            + self.hash.map_or(0, |_| HASH_FIELD_BYTES)
            + self.owner.map_or(0, |_| OWNER_FIELD_BYTES)
            + self.name_bytes()
            + self.attributes.len() * ATTRIBUTE_FIELD_BYTES
    }
}

/// What an entry is. Everything else in a tree (FIFO, socket, device) is named and skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum EntryKind {
    /// A regular file of `size` bytes when it was scanned.
    File {
        /// Bytes.
        size: u64,
    },
    /// A directory.
    Directory,
    /// A symbolic link, carried as a link and never followed.
    Symlink {
        /// The exact bytes it holds: 1 to 4,096, no NUL.
        target: Box<[u8]>,
    },
    /// Another name of a file. What belongs to the file is said by its first name: mode and mtime are 0 here.
    HardLink {
        /// The first name of that file in the order of the manifest, where it is a [`EntryKind::File`].
        target: EntryPath,
    },
}

/// A point in time: seconds since 1970-01-01T00:00Z, negative before, and nanoseconds added to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Timestamp {
    /// Whole seconds.
    pub seconds: i64,
    /// 0 to 999,999,999.
    pub nanoseconds: u32,
}

/// Why an entry does not continue a manifest.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OrderError {
    /// It equals the entry before it.
    #[error("\"{path}\" is listed twice")]
    Duplicate {
        /// The entry.
        path: EntryPath,
    },
    /// It sorts before the entry before it.
    #[error("\"{path}\" is listed after \"{before}\"")]
    Unsorted {
        /// The entry.
        path: EntryPath,
        /// The one listed just before.
        before: EntryPath,
    },
    /// The path above it is missing or is not a directory.
    #[error("\"{path}\" lies below something that is not a listed directory")]
    Orphan {
        /// The entry.
        path: EntryPath,
    },
}

/// Checks that entries come sorted, once each, and never below a file or a symlink of the same manifest.
///
/// In a manifest of a whole tree they also come below directories that were listed before them; in one of
/// [parts](Order::of_parts) the directories above an entry need not be listed. Memory is bounded by the depth.
#[derive(Debug, Default)]
pub struct Order {
    last: Option<EntryPath>,
    above: Above,
}

/// What may lie above the next entry.
#[derive(Debug)]
enum Above {
    /// The last entry's ancestors (itself too when it is a directory): length of each path in `last`.
    Listed(Vec<usize>),
    /// Anything but the last entry, unless that is a directory.
    Any { last_is_directory: bool },
}

impl Default for Above {
    fn default() -> Self {
        Self::Listed(Vec::new())
    }
}

impl Order {
    /// The order of a manifest that lists parts of a tree.
    pub fn of_parts() -> Self {
        Self { last: None, above: Above::Any { last_is_directory: true } }
    }

    /// Admits the next entry of the manifest.
    pub fn admit(&mut self, entry: &Entry) -> Result<(), OrderError> {
        if let Some(last) = &self.last {
            check_sorted(&entry.path, last)?;
        }
        if !self.above.admits(entry, self.last.as_ref()) {
            return Err(OrderError::Orphan { path: entry.path.clone() });
        }
        self.last = Some(entry.path.clone());
        Ok(())
    }
}

impl Above {
    /// Whether the entry may lie where it does; notes what lies above the next one.
    fn admits(&mut self, entry: &Entry, last: Option<&EntryPath>) -> bool {
        let is_directory = entry.kind == EntryKind::Directory;
        let last = last.map_or(&[][..], EntryPath::as_bytes);
        match self {
            Self::Listed(directories) => {
                let parent = entry.path.parent().unwrap_or_default();
                while directories.last().is_some_and(|&length| !is_ancestor(&last[..length], parent)) {
                    directories.pop();
                }
                if directories.last().copied().unwrap_or_default() != parent.len() {
                    return false;
                }
                if is_directory {
                    directories.push(entry.path.as_bytes().len());
                }
                true
            }
            // What lies below an entry follows it at once, so that no other can be in the way.
            Self::Any { last_is_directory } => {
                let above = std::mem::replace(last_is_directory, is_directory);
                above || !entry.path.parent().is_some_and(|parent| is_ancestor(last, parent))
            }
        }
    }
}

fn check_sorted(path: &EntryPath, last: &EntryPath) -> Result<(), OrderError> {
    match path.cmp(last) {
        std::cmp::Ordering::Greater => Ok(()),
        std::cmp::Ordering::Equal => Err(OrderError::Duplicate { path: path.clone() }),
        std::cmp::Ordering::Less => Err(OrderError::Unsorted { path: path.clone(), before: last.clone() }),
    }
}

/// Whether `directory` is `parent` or above it.
fn is_ancestor(directory: &[u8], parent: &[u8]) -> bool {
    parent.starts_with(directory) && matches!(parent.get(directory.len()), None | Some(b'/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: EntryKind) -> Entry {
        let path = EntryPath::parse(path.as_bytes()).unwrap();
        Entry::new(path, kind, 0o644, Timestamp::default())
    }

    fn file(path: &str) -> Entry {
        entry(path, EntryKind::File { size: 1 })
    }

    fn directory(path: &str) -> Entry {
        entry(path, EntryKind::Directory)
    }

    fn admit_all(entries: &[Entry]) -> Result<(), OrderError> {
        let mut order = Order::default();
        entries.iter().try_for_each(|entry| order.admit(entry))
    }

    #[test]
    fn a_sorted_tree_is_admitted() {
        let tree = [
            directory("a"),
            directory("a/b"),
            file("a/b/c"),
            file("a/b/d"),
            file("a/z"),
            file("a-b"),
            directory("b"),
            directory("b/c"),
            directory("c"),
            file("c/x"),
        ];
        assert_eq!(admit_all(&tree), Ok(()));
    }

    #[test]
    fn a_duplicate_is_refused() {
        let twice = admit_all(&[file("a"), file("a")]);
        assert!(matches!(twice, Err(OrderError::Duplicate { .. })));
    }

    #[test]
    fn an_entry_out_of_order_is_refused() {
        let unsorted = admit_all(&[directory("a"), file("a/b"), file("a")]);
        assert!(matches!(unsorted, Err(OrderError::Unsorted { .. })));
    }

    #[test]
    fn nothing_lies_below_a_symlink_a_file_or_nothing() {
        let link = EntryKind::Symlink { target: b"/etc"[..].into() };
        for tree in [
            vec![entry("a", link), file("a/passwd")],
            vec![file("a"), file("a/b")],
            vec![file("a/b")],
            vec![directory("a"), directory("ab"), file("abc/d")],
            vec![directory("a"), file("a/b/c")],
            vec![directory("a"), file("a/b"), file("a-"), file("a/c")],
        ] {
            assert!(admit_all(&tree).is_err(), "{tree:?}");
        }
    }

    #[test]
    fn parts_of_a_tree_need_not_list_what_lies_above_them() {
        let mut order = Order::of_parts();
        let parts = [
            file("a/b/c"),
            directory("a/z"),
            file("a/z/x"),
            file("a-b"),
            file("b"),
            file("b-/c"),
            file("c/d"),
        ];
        assert_eq!(parts.iter().try_for_each(|entry| order.admit(entry)), Ok(()));
    }

    #[test]
    fn parts_of_a_tree_are_sorted_and_lie_below_no_file() {
        let link = entry("a", EntryKind::Symlink { target: b"/etc"[..].into() });
        for (parts, expected) in [
            (vec![file("a"), file("a")], OrderError::Duplicate { path: file("a").path }),
            (
                vec![file("b"), file("a")],
                OrderError::Unsorted { path: file("a").path, before: file("b").path },
            ),
            (vec![link, file("a/passwd")], OrderError::Orphan { path: file("a/passwd").path }),
            (vec![file("x/a"), file("x/a/b/c")], OrderError::Orphan { path: file("x/a/b/c").path }),
        ] {
            let mut order = Order::of_parts();
            assert_eq!(parts.iter().try_for_each(|entry| order.admit(entry)), Err(expected));
        }
    }
}
