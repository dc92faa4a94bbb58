//! [`ContentHash`]: BLAKE3 over a whole file or over one range of it.
//!
//! A file above [`crate::limits::WHOLE_BYTES`] crosses as ranges. The hash of a range is the chaining value
//! of its subtree in the file's BLAKE3 tree (BLAKE3 paper, section 2.4), so ranges can be checked in any
//! order and on any thread, and together they are the hash of the file.

use std::fmt;

use blake3::hazmat::HasherExt as _;

use crate::limits::RANGE_BYTES;

/// 32 bytes that name a content: BLAKE3 of a whole file, or the chaining value of one range.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentHash(pub [u8; 32]);

impl ContentHash {
    /// The hash of a file with no bytes.
    pub fn of_nothing() -> Self {
        Hasher::whole().finish()
    }
}

impl fmt::Display for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ContentHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Hashes content as it is read or written.
#[derive(Debug, Clone)]
pub struct Hasher {
    state: blake3::Hasher,
    part: Part,
}

#[derive(Debug, Clone, Copy)]
enum Part {
    Whole,
    Range,
}

impl Hasher {
    /// For a whole file.
    pub fn whole() -> Self {
        Self { state: blake3::Hasher::new(), part: Part::Whole }
    }

    /// For the range that begins at `offset` bytes, a multiple of [`RANGE_BYTES`], in a file of more than
    /// one range.
    ///
    /// # Panics
    /// When `offset` is not a multiple of [`RANGE_BYTES`]; parsed segments always are.
    pub fn range(offset: u64) -> Self {
        assert!(offset.is_multiple_of(RANGE_BYTES), "range offset {offset} is not aligned");
        let mut state = blake3::Hasher::new();
        state.set_input_offset(offset);
        Self { state, part: Part::Range }
    }

    /// Takes the next bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.state.update(bytes);
    }

    /// The hash of all bytes taken.
    ///
    /// # Panics
    /// When it is for a range and no byte was taken: no range is empty.
    pub fn finish(&self) -> ContentHash {
        match self.part {
            Part::Whole => ContentHash(*self.state.finalize().as_bytes()),
            Part::Range => ContentHash(self.state.finalize_non_root()),
        }
    }
}

#[cfg(test)]
mod tests {
    use blake3::hazmat::{Mode, merge_subtrees_root};

    use super::*;

    #[test]
    fn a_whole_file_has_the_plain_blake3_hash() {
        let mut hasher = Hasher::whole();
        hasher.update(b"abc");
        assert_eq!(
            hasher.finish().to_string(),
            "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"
        );
    }

    #[test]
    fn two_ranges_merge_into_the_hash_of_the_file() {
        let content: Vec<u8> = (0..RANGE_BYTES + 5).map(|index| (index % 251) as u8).collect();
        let (first, second) = content.split_at(RANGE_BYTES as usize);
        let mut left = Hasher::range(0);
        left.update(first);
        let mut right = Hasher::range(RANGE_BYTES);
        right.update(second);
        let merged = merge_subtrees_root(&left.finish().0, &right.finish().0, Mode::Hash);
        assert_eq!(merged, blake3::hash(&content));
    }

    #[test]
    fn equal_ranges_at_different_offsets_have_different_hashes() {
        let mut here = Hasher::range(0);
        here.update(&[7; 4096]);
        let mut there = Hasher::range(RANGE_BYTES);
        there.update(&[7; 4096]);
        assert_ne!(here.finish(), there.finish());
    }
}
