//! Comparison of two trees at the cost of what differs.
//!
//! Each side pushes the entries of its tree into a [`CatalogueBuilder`], in the order of the manifest, and gets
//! a [`Catalogue`]: entries in leaves whose ends the paths decide, and a tree of hashes above them. Equal
//! roots mean equal trees. Otherwise the receiver's [`Narrowing`] hears the root and then the nodes of the
//! sender's catalogue, a level in each flight, asks for what it does not have itself, and ends with the leaves
//! that the sender has to list. The bytes that are hashed are described in `docs/wire-format.md`, "Comparison".
//!
//! ```text
//! receiver                                              sender
//!    | <------------------------- root, levels: hear_root  |
//!    | expand: Step::Expand -----------------------------> |  Catalogue::children
//!    | <------------------------------ nodes: hear_nodes   |  ... again for each level
//!    | list: Step::List ---------------------------------> |  Catalogue::leaf_entries
//! ```

mod builder;
mod catalogue;
mod hearing;
mod leaf;
mod narrowing;
#[cfg(test)]
mod tests;

use std::fmt;

pub use builder::CatalogueBuilder;
pub use catalogue::{AskError, Catalogue, Children};
pub use narrowing::{Narrowing, NarrowingError, Step};

/// Names consecutive entries of a tree: equal ones are equal in every field of every entry.
///
/// BLAKE3 cut to 16 bytes. Whoever makes two ranges of equal hash, at a cost of 2^64, deceives the peer
/// only about a tree that he may describe as he likes anyway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RangeHash(pub [u8; 16]);

impl fmt::Display for RangeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for RangeHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Makes the hash of one node, from its children or from the entries of a leaf. The first byte tells the
/// three kinds apart, so that none can pass for another.
#[derive(Debug, Clone)]
struct RangeHasher(blake3::Hasher);

impl RangeHasher {
    /// Of a leaf: its encoded entries follow.
    fn leaf() -> Self {
        Self::tagged(0)
    }

    /// Of a leaf with a file whose content is not known: the salt and its encoded entries follow.
    fn open_leaf() -> Self {
        Self::tagged(1)
    }

    /// Of a node above others: their hashes follow.
    fn node() -> Self {
        Self::tagged(2)
    }

    fn tagged(kind: u8) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&[kind]);
        Self(hasher)
    }

    fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    fn finish(&self) -> RangeHash {
        let mut cut = [0; 16];
        cut.copy_from_slice(&self.0.finalize().as_bytes()[..16]);
        RangeHash(cut)
    }
}
