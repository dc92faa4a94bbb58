//! A tree in memory: what the source holds, and what is visible in the target.

use std::{collections::BTreeMap, sync::Arc};

use ketch_protocol::{
    difference::{Catalogue, CatalogueBuilder},
    hash::Hasher,
    manifest::{Entry, EntryKind, Timestamp},
    path::EntryPath,
};

/// In the order of a manifest.
pub type Tree = BTreeMap<EntryPath, Node>;

/// What is under a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Node {
    /// A directory.
    Directory,
    /// A file with its content.
    File(Vec<u8>),
    /// A symlink with what it says.
    Link(Vec<u8>),
}

impl Node {
    /// Its entry in a manifest.
    pub fn entry(&self, path: &EntryPath) -> Entry {
        let kind = match self {
            Self::Directory => EntryKind::Directory,
            Self::File(content) => EntryKind::File { size: content.len() as u64 },
            Self::Link(target) => EntryKind::Symlink { target: target.as_slice().into() },
        };
        Entry::new(path.clone(), kind, 0o755, Timestamp::default())
    }

    /// Its entry with the hash of its content.
    pub fn hashed_entry(&self, path: &EntryPath) -> Entry {
        let hash = match self {
            Self::File(content) => {
                let mut hasher = Hasher::whole();
                hasher.update(content);
                Some(hasher.finish())
            }
            Self::Directory | Self::Link(_) => None,
        };
        Entry { hash, ..self.entry(path) }
    }
}

/// The catalogue of a tree in which the hashes of files are known or not.
pub fn catalogue(tree: &Tree, hashes_known: bool, salt: u8) -> Arc<Catalogue> {
    let mut builder = CatalogueBuilder::new([salt; 16]);
    for (path, node) in tree {
        builder.push(&if hashes_known { node.hashed_entry(path) } else { node.entry(path) });
    }
    Arc::new(builder.finish())
}

/// The path of an entry.
pub fn path(name: &str) -> EntryPath {
    EntryPath::parse(name.as_bytes()).expect("callers name paths of entries")
}

/// A tree of these.
pub fn tree<const N: usize>(nodes: [(&str, Node); N]) -> Tree {
    nodes.map(|(name, node)| (path(name), node)).into()
}

/// A file with that content.
pub fn file(content: impl AsRef<[u8]>) -> Node {
    Node::File(content.as_ref().to_vec())
}

/// `count` files of some 20 bytes, all different, 1,000 in each directory.
pub fn small_files(count: usize) -> Tree {
    let mut tree = Tree::new();
    for index in 0..count {
        let directory = format!("d{:03}", index / 1_000);
        tree.insert(path(&directory), Node::Directory);
        tree.insert(path(&format!("{directory}/f{index:06}")), file(format!("content of {index}")));
    }
    tree
}

/// `length` bytes that differ from range to range.
pub fn large_content(length: u64) -> Vec<u8> {
    (0..length).map(|index| (index % 251) as u8 ^ (index >> 20) as u8).collect()
}
