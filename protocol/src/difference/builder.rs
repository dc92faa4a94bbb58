//! Makes a catalogue from entries as they are scanned.

use super::{
    Catalogue, RangeHasher,
    catalogue::Level,
    leaf::{Filling, Knowledge, Leaf},
};
use crate::{limits::NODE_CHILDREN, manifest::Entry, message::Totals};

/// A path ends its leaf when so many low bits of its border hash are zero: with 16 entries on average, a
/// leaf costs about as much to list as the 64 hashes of a node cost to name.
const LEAF_BITS: u32 = 4;

/// It ends a node too when so many more are zero for each level: 64 children on average.
const NODE_BITS: u32 = 6;

/// Takes the entries of a tree, ascending by path and once each.
///
/// Memory: the finished catalogue and 8 bytes a leaf. A push allocates only when it ends a leaf.
#[derive(Debug)]
pub struct CatalogueBuilder {
    filling: Filling,
    leaves: Vec<Leaf>,
    level: Level,
    borders: Borders,
    totals: Totals,
}

/// For each node of a level, the border hash of its last path.
type Borders = Vec<u64>;

impl CatalogueBuilder {
    /// Begins a catalogue. `salt` goes into the hashes of leaves with a file of unknown content: 16 random
    /// bytes, drawn anew for each catalogue, let such a leaf equal nothing that was or will be said.
    pub fn new(salt: [u8; 16]) -> Self {
        Self {
            filling: Filling::new(salt),
            leaves: Vec::new(),
            level: Level::default(),
            borders: Borders::new(),
            totals: Totals::default(),
        }
    }

    /// Takes the next entry. Its path must sort after the last one's.
    pub fn push(&mut self, entry: &Entry) {
        debug_assert!(
            crate::path::compare(self.filling.last_path(), entry.path.as_bytes()).is_lt(),
            "\"{}\" is pushed out of order",
            entry.path
        );
        self.totals.entries += 1;
        self.totals.bytes = self.totals.bytes.saturating_add(entry.size());
        self.filling.push(entry);
        let border = border_hash(entry.path.as_bytes());
        if is_border(border, 0) || self.filling.is_full() {
            self.end_leaf(border);
        }
    }

    /// Ends the tree.
    pub fn finish(mut self) -> Catalogue {
        // A tree without entries is one leaf without entries, so that every catalogue has a root.
        if !self.filling.is_empty() || self.leaves.is_empty() {
            self.end_leaf(0);
        }
        self.leaves.shrink_to_fit();
        self.level.shrink_to_fit();
        let mut levels = vec![self.level];
        let mut borders = self.borders;
        while let Some(below) = levels.last().filter(|below| below.width() > 1) {
            let (above, above_borders) = level_above(below, &borders, levels.len());
            levels.push(above);
            borders = above_borders;
        }
        Catalogue::new(self.leaves, levels, self.totals)
    }

    fn end_leaf(&mut self, border: u64) {
        let (leaf, hash, knowledge) = self.filling.take();
        self.leaves.push(leaf);
        self.level.push(hash, knowledge);
        self.borders.push(border);
    }
}

/// Decides where ranges end. It takes the path alone, so that a change of a file moves no border; and it
/// is BLAKE3 so that names which let every range end at once cannot be found cheaply.
pub(super) fn border_hash(path: &[u8]) -> u64 {
    let mut low = [0; 8];
    low.copy_from_slice(&blake3::hash(path).as_bytes()[..8]);
    u64::from_le_bytes(low)
}

/// Whether a range of this level ends with a path of this border hash.
fn is_border(border: u64, level: usize) -> bool {
    let bits = level as u32 * NODE_BITS + LEAF_BITS;
    // Above level 9 no path decides, so the number of nodes falls there whatever the paths are.
    bits < u64::BITS && border.trailing_zeros() >= bits
}

/// Groups nodes: the root takes all when they are few, otherwise paths decide.
fn level_above(below: &Level, borders: &Borders, level: usize) -> (Level, Borders) {
    let is_root = below.width() <= NODE_CHILDREN;
    let (mut above, mut above_borders) = (Level::default(), Borders::new());
    let mut first = 0;
    for (index, &border) in borders.iter().enumerate() {
        let end = index + 1;
        let ends_here =
            end == below.width() || end - first == NODE_CHILDREN || !is_root && is_border(border, level);
        if ends_here {
            push_node(&mut above, below, first..end);
            above_borders.push(border);
            first = end;
        }
    }
    above.shrink_to_fit();
    (above, above_borders)
}

fn push_node(above: &mut Level, below: &Level, children: std::ops::Range<usize>) {
    let mut hasher = RangeHasher::node();
    below.hashes()[children.clone()].iter().for_each(|child| hasher.update(&child.0));
    let is_open = children.clone().any(|child| below.is_open(child));
    let knowledge = if is_open { Knowledge::Open } else { Knowledge::Closed };
    above.push(hasher.finish(), knowledge);
    above.end_children(children.end);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_border_of_a_level_is_one_of_all_levels_below() {
        for zeros in 0..=64 {
            let border = 1u64.checked_shl(zeros).unwrap_or_default();
            let levels: Vec<bool> = (0..16).map(|level| is_border(border, level)).collect();
            assert!(levels.is_sorted_by(|below, above| below >= above), "{zeros}: {levels:?}");
            assert!(!levels[10], "{zeros}");
        }
    }

    #[test]
    fn a_level_above_all_borders_is_grouped_by_number_alone() {
        // given: paths as somebody would choose them who could, each the end of everything
        let (mut below, borders) = (Level::default(), vec![0; 300]);
        (0..300).for_each(|_| below.push(RangeHasher::leaf().finish(), Knowledge::Closed));
        // when, then
        assert_eq!(level_above(&below, &borders, 9).0.width(), 300);
        assert_eq!(level_above(&below, &borders, 10).0.width(), 3);
    }
}
