//! The worked example of `docs/wire-format.md`, "Comparison": built here, kept in `fixtures/wire/`, shown in
//! the document.

use super::*;
use crate::{
    hash::Hasher,
    limits::VERSION,
    manifest::{Attribute, Owner},
};

const DOCUMENT: &str = include_str!("../../../../docs/wire-format.md");
const FIXTURE: &str = include_str!("../../../../fixtures/wire/comparison.hex");

/// A directory, a file with its hash and owner, a symlink with an attribute.
fn entries() -> [Entry; 3] {
    let mtime = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };
    let mut hasher = Hasher::whole();
    hasher.update(b"hello");
    let file = Entry::new(path("d/a"), EntryKind::File { size: 5 }, 0o644, mtime);
    let link = Entry::new(path("d/link"), EntryKind::Symlink { target: b"a"[..].into() }, 0, mtime);
    let attribute = Attribute { name: b"user.a"[..].into(), value: b"1"[..].into() };
    [
        Entry::new(path("d"), EntryKind::Directory, 0o755, mtime),
        Entry { hash: Some(hasher.finish()), owner: Some(Owner { user: 1000, group: 100 }), ..file },
        Entry { attributes: vec![attribute], ..link },
    ]
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// BLAKE3, by itself, of parts.
fn blake3_of(parts: &[&[u8]]) -> Vec<u8> {
    blake3::hash(&parts.concat()).as_bytes().to_vec()
}

#[test]
fn the_worked_example_is_what_is_hashed() {
    assert_eq!(VERSION, 1);
    // given
    let tree = catalogue_of(&tree(entries()));
    let (leaf, empty) = (tree.root(), catalogue_of(&Tree::new()).root());
    let mut node = RangeHasher::node();
    [leaf, empty].iter().for_each(|child| node.update(&child.0));
    let border = builder::border_hash(b"d/a").to_le_bytes();
    // when
    let built = [tree.leaf_bytes(0), &leaf.0, &empty.0, &node.finish().0, &border].map(hex).concat();
    // then
    let digits: String =
        FIXTURE.lines().filter_map(|line| line.split('#').next()).flat_map(str::split_whitespace).collect();
    assert_eq!(built, digits);
    assert!(DOCUMENT.contains(FIXTURE), "docs/wire-format.md lacks this:\n{FIXTURE}");
}

#[test]
fn hashes_are_those_of_plain_blake3() {
    let tree = catalogue_of(&flat_folder(1_000));
    let leaves = tree.children(1, &[Run { first: 0, count: 1 }]).unwrap()[0].hashes;
    assert_eq!(leaves[3].0, blake3_of(&[&[0], tree.leaf_bytes(3)])[..16]);
    let children: Vec<&[u8]> = leaves.iter().map(|leaf| &leaf.0[..]).collect();
    assert_eq!(tree.root().0, blake3_of(&[&[2], &children.concat()])[..16]);
}

#[test]
fn leaves_end_where_the_document_says() {
    let tree = catalogue_of(&flat_folder(1_000));
    let leaves: Vec<Vec<Entry>> = (0..tree.width(0))
        .map(|first| tree.leaf_entries(&[Run { first, count: 1 }]).unwrap().collect())
        .collect();
    for leaf in &leaves[..leaves.len() - 1] {
        for (place, entry) in leaf.iter().enumerate() {
            let ends = blake3_of(&[entry.path.as_bytes()])[0] & 0x0f == 0 || place == 31;
            assert_eq!(ends, place == leaf.len() - 1, "{}", entry.path);
        }
    }
}
