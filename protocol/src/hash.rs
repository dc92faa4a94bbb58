//! [`ContentHash`]: BLAKE3 over a whole file or over one range of it.
//!
//! A file above [`crate::limits::WHOLE_BYTES`] crosses as ranges. The hash of a range is the chaining value
//! of its subtree in the file's BLAKE3 tree (BLAKE3 paper, section 2.4), so ranges can be checked in any
//! order and on any thread, and together they are the hash of the file.

use std::fmt;

use blake3::hazmat::{HasherExt as _, Mode, left_subtree_len, merge_subtrees_non_root, merge_subtrees_root};

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

/// The hash of a file of `size` bytes whose ranges have these hashes, in order.
///
/// # Panics
/// When these are not the ranges of a file of that size, or it has one range only.
pub fn merge_ranges(ranges: &[ContentHash], size: u64) -> ContentHash {
    assert_eq!(ranges.len() as u64, size.div_ceil(RANGE_BYTES), "ranges of a file of {size} bytes");
    assert!(ranges.len() > 1, "a file of one range has no chaining value");
    let (left, right) = merge_halves(ranges, size);
    ContentHash(*merge_subtrees_root(&left, &right, Mode::Hash).as_bytes())
}

/// The chaining values of the two subtrees below the top of a part of a file.
fn merge_halves(ranges: &[ContentHash], size: u64) -> ([u8; 32], [u8; 32]) {
    // The largest power of two below the size, so whole ranges.
    let left_size = left_subtree_len(size);
    let (left, right) = ranges.split_at(usize::try_from(left_size / RANGE_BYTES).unwrap_or(usize::MAX));
    (chaining_value(left, left_size), chaining_value(right, size - left_size))
}

fn chaining_value(ranges: &[ContentHash], size: u64) -> [u8; 32] {
    if let [range] = ranges {
        return range.0;
    }
    let (left, right) = merge_halves(ranges, size);
    merge_subtrees_non_root(&left, &right, Mode::Hash)
}

#[cfg(test)]
mod tests {
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
    fn ranges_merge_into_the_hash_of_the_file() {
        let content: Vec<u8> = (0..9 * RANGE_BYTES).map(|index| (index % 251) as u8).collect();
        for (count, last) in [(2, 1), (2, RANGE_BYTES), (3, 1_024), (4, RANGE_BYTES), (5, 5), (9, 1_025)] {
            let size = (count - 1) * RANGE_BYTES + last;
            let content = &content[..size as usize];
            let ranges: Vec<ContentHash> = (0..)
                .step_by(RANGE_BYTES as usize)
                .zip(content.chunks(RANGE_BYTES as usize))
                .map(|(offset, bytes)| {
                    let mut hasher = Hasher::range(offset);
                    hasher.update(bytes);
                    hasher.finish()
                })
                .collect();
            assert_eq!(merge_ranges(&ranges, size).0, *blake3::hash(content).as_bytes(), "{size} bytes");
        }
    }

    #[test]
    #[should_panic(expected = "ranges of a file of 1048577 bytes")]
    fn a_missing_range_is_not_merged_over() {
        merge_ranges(&[ContentHash([0; 32])], RANGE_BYTES + 1);
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
