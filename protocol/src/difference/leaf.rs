//! A leaf: consecutive entries in the encoding that is hashed, which is also the one they are kept in.

use super::{RangeHash, RangeHasher};
use crate::{
    hash::ContentHash,
    limits::{LEAF_BYTES, LEAF_ENTRIES},
    manifest::{Attribute, Entry, EntryKind, Owner, Timestamp},
    path::EntryPath,
    record::segment::put_number,
};

const FILE: u8 = 0;
const DIRECTORY: u8 = 1;
const SYMLINK: u8 = 2;
const HARD_LINK: u8 = 3;
/// The bits of the flags that hold the kind.
const KIND: u8 = 3;
const WITH_HASH: u8 = 1 << 2;
const WITH_OWNER: u8 = 1 << 3;
const WITH_ATTRIBUTES: u8 = 1 << 4;

/// Encoded entries.
#[derive(Debug)]
pub(super) struct Leaf(Box<[u8]>);

impl Leaf {
    /// The entries.
    pub(super) fn entries(&self) -> Entries<'_> {
        Entries { reader: Reader(&self.0), path: Vec::new() }
    }

    /// The path of the first entry; no bytes when there is none, which sorts before every path.
    pub(super) fn first_path(&self) -> &[u8] {
        let mut reader = Reader(&self.0);
        if self.0.is_empty() {
            return &[];
        }
        let _shared_with_nothing = reader.number();
        reader.string()
    }

    /// Bytes that it takes.
    pub(super) fn held_bytes(&self) -> usize {
        self.0.len()
    }

    /// The encoding.
    #[cfg(test)]
    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Whether all of a range is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Knowledge {
    /// It can be compared.
    Closed,
    /// It holds a file of unknown content, and equals nothing.
    Open,
}

/// The leaf that is being filled. Its buffers serve one leaf after another.
#[derive(Debug)]
pub(super) struct Filling {
    salt: [u8; 16],
    bytes: Vec<u8>,
    entries: usize,
    knowledge: Knowledge,
    /// Path of the last entry pushed, in this leaf or before it.
    path: Vec<u8>,
}

impl Filling {
    /// An empty one. The hashes of open leaves are made with `salt`.
    pub(super) fn new(salt: [u8; 16]) -> Self {
        Self { salt, bytes: Vec::new(), entries: 0, knowledge: Knowledge::Closed, path: Vec::new() }
    }

    /// Path of the last entry pushed; empty when there was none.
    pub(super) fn last_path(&self) -> &[u8] {
        &self.path
    }

    /// Appends an entry.
    pub(super) fn push(&mut self, entry: &Entry) {
        self.put_path(entry.path.as_bytes());
        put_fields(&mut self.bytes, entry);
        self.entries += 1;
        let has_content = matches!(entry.kind, EntryKind::File { .. } | EntryKind::HardLink { .. });
        if entry.hash.is_none() && has_content {
            self.knowledge = Knowledge::Open;
        }
    }

    fn put_path(&mut self, path: &[u8]) {
        let before = if self.is_empty() { &[][..] } else { &self.path };
        let shared = before.iter().zip(path).take_while(|(left, right)| left == right).count();
        put_number(&mut self.bytes, shared as u64);
        put_string(&mut self.bytes, &path[shared..]);
        self.path.truncate(shared);
        self.path.extend_from_slice(&path[shared..]);
    }

    /// Whether it holds nothing.
    pub(super) fn is_empty(&self) -> bool {
        self.entries == 0
    }

    /// Whether it ends here, whatever the path says.
    pub(super) fn is_full(&self) -> bool {
        self.entries >= LEAF_ENTRIES || self.bytes.len() >= LEAF_BYTES
    }

    /// What was filled, and begins anew.
    pub(super) fn take(&mut self) -> (Leaf, RangeHash, Knowledge) {
        let hash = self.hash();
        let leaf = Leaf(self.bytes.as_slice().into());
        self.bytes.clear();
        self.entries = 0;
        (leaf, hash, std::mem::replace(&mut self.knowledge, Knowledge::Closed))
    }

    fn hash(&self) -> RangeHash {
        let mut hasher = match self.knowledge {
            Knowledge::Closed => RangeHasher::leaf(),
            Knowledge::Open => {
                let mut hasher = RangeHasher::open_leaf();
                hasher.update(&self.salt);
                hasher
            }
        };
        hasher.update(&self.bytes);
        hasher.finish()
    }
}

/// Everything of an entry but its path.
fn put_fields(out: &mut Vec<u8>, entry: &Entry) {
    out.push(flags(entry));
    let mode = match &entry.kind {
        EntryKind::File { size } => {
            put_number(out, *size);
            entry.mode
        }
        EntryKind::Directory => entry.mode,
        // It has none of its own: whatever a side says of it must not tell two trees apart.
        EntryKind::Symlink { target } => {
            put_string(out, target);
            0
        }
        EntryKind::HardLink { target } => {
            put_string(out, target.as_bytes());
            entry.mode
        }
    };
    put_number(out, u64::from(mode));
    put_number(out, zigzag(entry.mtime.seconds));
    put_number(out, u64::from(entry.mtime.nanoseconds));
    if let Some(hash) = &entry.hash {
        out.extend_from_slice(&hash.0);
    }
    if let Some(owner) = &entry.owner {
        put_number(out, u64::from(owner.user));
        put_number(out, u64::from(owner.group));
    }
    if !entry.attributes.is_empty() {
        put_attributes(out, &entry.attributes);
    }
}

fn put_attributes(out: &mut Vec<u8>, attributes: &[Attribute]) {
    put_number(out, attributes.len() as u64);
    for attribute in attributes {
        put_string(out, &attribute.name);
        put_string(out, &attribute.value);
    }
}

fn put_string(out: &mut Vec<u8>, bytes: &[u8]) {
    put_number(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

fn flags(entry: &Entry) -> u8 {
    let kind = match entry.kind {
        EntryKind::File { .. } => FILE,
        EntryKind::Directory => DIRECTORY,
        EntryKind::Symlink { .. } => SYMLINK,
        EntryKind::HardLink { .. } => HARD_LINK,
    };
    let given = |is_given, flag| if is_given { flag } else { 0 };
    kind | given(entry.hash.is_some(), WITH_HASH)
        | given(entry.owner.is_some(), WITH_OWNER)
        | given(!entry.attributes.is_empty(), WITH_ATTRIBUTES)
}

/// Signed numbers of small magnitude as small unsigned ones, like `sint64` of protocol buffers.
fn zigzag(number: i64) -> u64 {
    ((number << 1) ^ (number >> 63)).cast_unsigned()
}

fn unzigzag(number: u64) -> i64 {
    (number >> 1).cast_signed() ^ -(number & 1).cast_signed()
}

/// Decodes the entries of a leaf.
#[derive(Debug)]
pub(super) struct Entries<'a> {
    reader: Reader<'a>,
    path: Vec<u8>,
}

impl Iterator for Entries<'_> {
    type Item = Entry;

    fn next(&mut self) -> Option<Entry> {
        if self.reader.0.is_empty() {
            return None;
        }
        let shared = self.reader.length();
        self.path.truncate(shared);
        self.path.extend_from_slice(self.reader.string());
        Some(self.reader.fields(entry_path(&self.path)))
    }
}

fn entry_path(bytes: &[u8]) -> EntryPath {
    EntryPath::parse(bytes).expect("a leaf holds paths that were parsed before they were encoded")
}

/// Reads what this side has encoded itself, so nothing is missing and every number is in its bounds.
#[derive(Debug)]
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn fields(&mut self, path: EntryPath) -> Entry {
        let flags = self.take(1)[0];
        let kind = match flags & KIND {
            FILE => EntryKind::File { size: self.number() },
            DIRECTORY => EntryKind::Directory,
            SYMLINK => EntryKind::Symlink { target: self.string().into() },
            _ => EntryKind::HardLink { target: entry_path(self.string()) },
        };
        let mode = self.number_u32();
        let seconds = unzigzag(self.number());
        let mtime = Timestamp { seconds, nanoseconds: self.number_u32() };
        let hash = (flags & WITH_HASH != 0).then(|| self.hash());
        let owner =
            (flags & WITH_OWNER != 0).then(|| Owner { user: self.number_u32(), group: self.number_u32() });
        let attributes = if flags & WITH_ATTRIBUTES == 0 { Vec::new() } else { self.attributes() };
        Entry { path, kind, mode, mtime, hash, owner, attributes }
    }

    fn hash(&mut self) -> ContentHash {
        let mut hash = [0; 32];
        hash.copy_from_slice(self.take(32));
        ContentHash(hash)
    }

    fn attributes(&mut self) -> Vec<Attribute> {
        let count = self.length();
        (0..count).map(|_| Attribute { name: self.string().into(), value: self.string().into() }).collect()
    }

    fn string(&mut self) -> &'a [u8] {
        let length = self.length();
        self.take(length)
    }

    fn length(&mut self) -> usize {
        usize::try_from(self.number()).expect("a length in memory fits a usize")
    }

    fn number_u32(&mut self) -> u32 {
        u32::try_from(self.number()).expect("it was encoded from 32 bits")
    }

    fn number(&mut self) -> u64 {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let byte = self.take(1)[0];
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                break;
            }
        }
        number
    }

    fn take(&mut self, length: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(length);
        self.0 = rest;
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(path: &str, kind: EntryKind) -> Entry {
        let path = EntryPath::parse(path.as_bytes()).unwrap();
        Entry::new(path, kind, 0o4755, Timestamp { seconds: -1, nanoseconds: 999_999_999 })
    }

    fn filled(entries: &[Entry]) -> (Leaf, RangeHash, Knowledge) {
        let mut filling = Filling::new([7; 16]);
        entries.iter().for_each(|entry| filling.push(entry));
        filling.take()
    }

    /// One of each kind, with everything an entry can carry, at the ends of every number.
    fn all_kinds() -> Vec<Entry> {
        let attribute = |name: &[u8]| Attribute { name: name.into(), value: [b'v'; 300].into() };
        let furnished = Entry {
            hash: Some(ContentHash([9; 32])),
            owner: Some(Owner { user: u32::MAX, group: 0 }),
            attributes: vec![attribute(b"user.a"), attribute(b"user.b")],
            mtime: Timestamp { seconds: i64::MIN, nanoseconds: 0 },
            ..entry("d/file", EntryKind::File { size: u64::MAX })
        };
        let target = furnished.path.clone();
        vec![
            entry("d", EntryKind::Directory),
            Entry {
                mtime: Timestamp { seconds: i64::MAX, nanoseconds: 1 },
                ..entry("d/a\u{ff}", EntryKind::Directory)
            },
            furnished,
            entry("d/hard", EntryKind::HardLink { target }),
            Entry { mode: 0, ..entry("d/soft", EntryKind::Symlink { target: b"../\xff"[..].into() }) },
            entry("e", EntryKind::File { size: 0 }),
        ]
    }

    #[test]
    fn entries_come_out_as_they_went_in() {
        let entries = all_kinds();
        let (leaf, ..) = filled(&entries);
        assert_eq!(leaf.entries().collect::<Vec<_>>(), entries);
        assert_eq!(leaf.first_path(), b"d");
    }

    #[test]
    fn an_empty_leaf_has_no_entries_and_sorts_first() {
        let (leaf, _, knowledge) = filled(&[]);
        assert_eq!((leaf.entries().count(), leaf.first_path()), (0, &b""[..]));
        assert_eq!(knowledge, Knowledge::Closed);
    }

    #[test]
    fn every_field_counts() {
        let base = Entry { hash: Some(ContentHash([1; 32])), ..entry("a", EntryKind::File { size: 1 }) };
        let mtime = |seconds, nanoseconds| Timestamp { seconds, nanoseconds };
        let attribute = Attribute { name: b"user.a"[..].into(), value: b"1"[..].into() };
        let variants = [
            base.clone(),
            Entry { path: EntryPath::parse(b"b").unwrap(), ..base.clone() },
            Entry { kind: EntryKind::File { size: 2 }, ..base.clone() },
            Entry { kind: EntryKind::Directory, ..base.clone() },
            Entry { mode: 0o755, ..base.clone() },
            Entry { mtime: mtime(-1, 999_999_998), ..base.clone() },
            Entry { mtime: mtime(1, 999_999_999), ..base.clone() },
            Entry { hash: Some(ContentHash([2; 32])), ..base.clone() },
            Entry { hash: None, ..base.clone() },
            Entry { owner: Some(Owner { user: 0, group: 0 }), ..base.clone() },
            Entry { owner: Some(Owner { user: 0, group: 1 }), ..base.clone() },
            Entry { attributes: vec![attribute], ..base },
            entry("a", EntryKind::Symlink { target: b"x"[..].into() }),
            entry("a", EntryKind::HardLink { target: EntryPath::parse(b"x").unwrap() }),
        ];
        let hashes: std::collections::BTreeSet<_> =
            variants.iter().map(|entry| filled(std::slice::from_ref(entry)).1).collect();
        assert_eq!(hashes.len(), variants.len());
    }

    #[test]
    fn the_mode_of_a_symlink_does_not_count() {
        let link = |mode| Entry { mode, ..entry("a", EntryKind::Symlink { target: b"x"[..].into() }) };
        assert_eq!(filled(&[link(0)]).1, filled(&[link(0o777)]).1);
    }

    #[test]
    fn a_file_of_unknown_content_opens_its_leaf_alone() {
        let mut filling = Filling::new([7; 16]);
        filling.push(&entry("a", EntryKind::File { size: 1 }));
        filling.push(&entry("b", EntryKind::Directory));
        assert_eq!(filling.take().2, Knowledge::Open);
        filling.push(&entry("c", EntryKind::Directory));
        assert_eq!(filling.take().2, Knowledge::Closed);
    }

    #[test]
    fn another_name_of_a_file_counts_with_the_content_of_the_file() {
        let link = |hash| {
            let kind = EntryKind::HardLink { target: EntryPath::parse(b"a").unwrap() };
            Entry { hash, ..entry("b", kind) }
        };
        let (here, there) = (link(Some(ContentHash([1; 32]))), link(Some(ContentHash([2; 32]))));
        assert_ne!(filled(&[here]).1, filled(&[there]).1);
        assert_eq!(filled(&[link(None)]).2, Knowledge::Open);
    }
}
