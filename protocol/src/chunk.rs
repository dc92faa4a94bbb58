//! Chunks: parts of a file whose ends its content decides, so that what is equal in two versions of a file is
//! cut alike in both, wherever it lies.
//!
//! The cuts are those of FastCDC ("The Design of Fast Content-Defined Chunking for Data Deduplication Based
//! Storage Systems", Xia et al., IEEE TPDS 2020) with the tables of the crate `fastcdc`, normalisation level 1;
//! `docs/wire-format.md` repeats what another implementation needs. A chunk depends on nothing before its first
//! byte, so a part that begins and ends at borders of chunks is cut as it is within the whole.
//!
//! Chunks are gathered into groups, whose ends the names of the chunks decide: a list of groups describes a
//! large file in few bytes, and only the chunks of groups that differ need to be listed.

use std::fmt;

use fastcdc::v2020::{Normalization, cut, select_masks};

use crate::limits::{GROUP_CHUNKS, GROUP_CHUNKS_LEAST};

/// Length of a [`Name`], in bytes. Two chunks have the same one by chance once in 2^88 files of 2^20 chunks,
/// and the hash of the whole file finds it out then.
pub const NAME_BYTES: usize = 16;

/// What a chunk or a group is called: the first bytes of a BLAKE3 hash.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Name(pub [u8; NAME_BYTES]);

impl Name {
    /// Of a chunk with this content.
    pub fn of(content: &[u8]) -> Self {
        Self::cut(blake3::hash(content))
    }

    fn cut(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes().first_chunk().expect("a hash is longer than a name"))
    }

    /// Whether a chunk of this name may be the last of its group: one in 64 may.
    fn ends_group(self) -> bool {
        self.0[0] & 0x3f == 0
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// A chunk, or a group of chunks, in the order of its file: it begins where the one before it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    /// Bytes, at least 1.
    pub length: u32,
    /// What its content is called.
    pub name: Name,
}

/// How long the chunks of a file are. The length of the new version decides, so both sides know it before a
/// word is said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ChunkSizes {
    /// Of the average.
    bits: u32,
}

/// The smallest average, 4 KiB: a smaller one would list more than it saves.
const LEAST_BITS: u32 = 12;

/// The largest average, 64 KiB, of files below 64 GiB: what a changed byte costs stays small.
const MOST_BITS: u32 = 16;

/// A file has about 2^20 chunks at the most; a larger one has larger chunks.
const CHUNKS_BITS: u32 = 20;

/// Files of 1 TiB have no chunks of an average of 1 MiB or less, and go without.
const SIZE_BITS: u32 = 40;

impl ChunkSizes {
    /// For a file of `size` bytes: an average near the root of it, so that a list of chunks and a changed chunk
    /// cost alike. `None` for a file that is too long to be described.
    pub fn of_file(size: u64) -> Option<Self> {
        let bits = size.checked_ilog2().unwrap_or_default();
        let root = bits.div_ceil(2).clamp(LEAST_BITS, MOST_BITS);
        let bounded = (bits + 1).saturating_sub(CHUNKS_BITS);
        (bits < SIZE_BITS).then_some(Self { bits: root.max(bounded) })
    }

    /// The shortest chunk, in bytes; only the last of a file may be shorter.
    pub fn least(self) -> usize {
        self.average() / 4
    }

    /// Where cuts become more likely, in bytes.
    pub fn average(self) -> usize {
        1 << self.bits
    }

    /// The longest chunk, in bytes.
    pub fn most(self) -> usize {
        self.average() * 4
    }

    /// The longest group, in bytes.
    pub fn most_of_group(self) -> u64 {
        (self.most() * GROUP_CHUNKS) as u64
    }

    /// How many chunks `size` bytes have at the most.
    pub fn most_chunks(self, size: u64) -> u64 {
        size / self.least() as u64 + 1
    }
}

/// Cuts bytes into chunks: the same ones in whatever pieces the bytes come. It holds fewer bytes than
/// [`ChunkSizes::most`] and the last piece.
#[derive(Debug)]
pub struct Chunker {
    sizes: ChunkSizes,
    /// Strict and lax mask of the cuts.
    masks: (u64, u64),
    /// Begins at a cut.
    pending: Vec<u8>,
}

impl Chunker {
    /// One that begins at the start of a file, or at a cut.
    pub fn new(sizes: ChunkSizes) -> Self {
        Self { sizes, masks: select_masks(sizes.average(), Normalization::Level1), pending: Vec::new() }
    }

    /// Takes the next bytes, and gives the chunks that end within them.
    pub fn push(&mut self, bytes: &[u8], chunk: impl FnMut(Part)) {
        self.pending.extend_from_slice(bytes);
        self.cut_while(|left, sizes| left >= sizes.most(), chunk);
    }

    /// Gives the last chunks.
    pub fn finish(mut self, chunk: impl FnMut(Part)) {
        self.cut_while(|left, _| left > 0, chunk);
    }

    fn cut_while(&mut self, enough: impl Fn(usize, ChunkSizes) -> bool, mut chunk: impl FnMut(Part)) {
        let mut begin = 0;
        while enough(self.pending.len() - begin, self.sizes) {
            let rest = &self.pending[begin..];
            let content = &rest[..self.next_cut(rest)];
            chunk(Part { length: content.len() as u32, name: Name::of(content) });
            begin += content.len();
        }
        self.pending.drain(..begin);
    }

    fn next_cut(&self, bytes: &[u8]) -> usize {
        let (least, average, most) = (self.sizes.least(), self.sizes.average(), self.sizes.most());
        let (strict, lax) = self.masks;
        let (_, length) = cut(bytes, least, average, most, strict, lax, strict << 1, lax << 1);
        length
    }
}

/// Gathers chunks into groups.
#[derive(Debug, Default)]
pub struct Grouper {
    hasher: blake3::Hasher,
    length: u32,
    chunks: usize,
}

impl Grouper {
    /// Takes the next chunk; the group that ends with it, if one does.
    pub fn push(&mut self, chunk: Part) -> Option<Part> {
        self.hasher.update(&chunk.name.0);
        self.hasher.update(&chunk.length.to_be_bytes());
        self.length += chunk.length;
        self.chunks += 1;
        let may_end = self.chunks >= GROUP_CHUNKS_LEAST && chunk.name.ends_group();
        if may_end || self.chunks == GROUP_CHUNKS { self.finish() } else { None }
    }

    /// Ends the group at hand, if there is one.
    pub fn finish(&mut self) -> Option<Part> {
        let Self { hasher, length, chunks } = std::mem::take(self);
        (chunks > 0).then(|| Part { length, name: Name::cut(hasher.finalize()) })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Bytes that no cut can foresee; each seed has others.
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        let mut hasher = blake3::Hasher::new();
        hasher.update(&seed.to_be_bytes());
        hasher.finalize_xof().fill(&mut bytes);
        bytes
    }

    fn chunks<'a>(sizes: ChunkSizes, pieces: impl IntoIterator<Item = &'a [u8]>) -> Vec<Part> {
        let (mut chunker, mut chunks) = (Chunker::new(sizes), Vec::new());
        for piece in pieces {
            chunker.push(piece, |chunk| chunks.push(chunk));
        }
        chunker.finish(|chunk| chunks.push(chunk));
        chunks
    }

    fn groups(chunks: &[Part]) -> Vec<Part> {
        let mut grouper = Grouper::default();
        let mut groups: Vec<_> = chunks.iter().filter_map(|&chunk| grouper.push(chunk)).collect();
        groups.extend(grouper.finish());
        groups
    }

    fn small() -> ChunkSizes {
        ChunkSizes::of_file(0).unwrap()
    }

    #[test]
    fn the_size_of_a_file_decides_that_of_its_chunks() {
        let table = [
            (0, Some(4_096)),
            (16 << 20, Some(4_096)),
            (32 << 20, Some(8_192)),
            (64 << 20, Some(8_192)),
            ((128 << 20) - 1, Some(8_192)),
            (128 << 20, Some(16_384)),
            (2 << 30, Some(65_536)),
            ((128 << 30) - 1, Some(131_072)),
            (64 << 30, Some(131_072)),
            ((64 << 30) - 1, Some(65_536)),
            ((1 << 40) - 1, Some(1 << 20)),
            (1 << 40, None),
            (u64::MAX, None),
        ];
        for (size, average) in table {
            assert_eq!(ChunkSizes::of_file(size).map(ChunkSizes::average), average, "{size}");
        }
    }

    #[test]
    fn chunks_cover_the_file_and_keep_their_bounds() {
        let content = noise(1, 3_000_001);
        let chunks = chunks(small(), [&content[..]]);
        let mut offset = 0;
        for (index, chunk) in chunks.iter().enumerate() {
            let end = offset + chunk.length as usize;
            assert_eq!(chunk.name, Name::of(&content[offset..end]));
            let is_last = index + 1 == chunks.len();
            assert!(is_last || chunk.length as usize >= small().least(), "{chunk:?}");
            assert!(chunk.length as usize <= small().most(), "{chunk:?}");
            offset = end;
        }
        assert_eq!(offset, content.len());
    }

    #[test]
    fn no_bytes_have_no_chunk_and_one_has_one() {
        assert_eq!(chunks(small(), [&[][..]]), []);
        assert_eq!(chunks(small(), [&[7][..]]), [Part { length: 1, name: Name::of(&[7]) }]);
    }

    #[test]
    fn the_cuts_are_those_of_the_format() {
        let content = noise(42, 100_000);
        let lengths: Vec<_> = chunks(small(), [&content[..]]).iter().map(|chunk| chunk.length).collect();
        assert_eq!(lengths, LENGTHS);
        let longest: Vec<_> = chunks(small(), [&[0; 40_000][..]]).iter().map(|chunk| chunk.length).collect();
        assert_eq!(longest, [16_384, 16_384, 7_232]);
    }

    /// Of the chunks of `noise(42, 100_000)`.
    const LENGTHS: &[u32] = &[
        5254, 4402, 2116, 5910, 6488, 10591, 6389, 4012, 5042, 4258, 10326, 6120, 11274, 1790, 5763, 1313,
        2539, 6413,
    ];

    #[test]
    fn a_part_between_cuts_is_cut_as_within_the_whole() {
        let content = noise(3, 500_000);
        let whole = chunks(small(), [&content[..]]);
        let ends: Vec<usize> = whole
            .iter()
            .scan(0, |end, chunk| {
                *end += chunk.length as usize;
                Some(*end)
            })
            .collect();
        for (from, to) in [(0, 1), (3, 40), (17, 18), (ends.len() - 2, ends.len() - 1)] {
            let part = &content[ends[from]..ends[to]];
            assert_eq!(chunks(small(), [part]), whole[from + 1..=to], "{from} to {to}");
        }
    }

    #[test]
    fn a_byte_put_in_changes_few_chunks_and_fewer_groups() {
        let before = noise(5, 8 << 20);
        let mut after = before.clone();
        after.insert(1_000, 7);
        let (old, new) = (chunks(small(), [&before[..]]), chunks(small(), [&after[..]]));
        let changed = |old: &[Part], new: &[Part]| new.iter().filter(|part| !old.contains(part)).count();
        assert!(changed(&old, &new) <= 3, "{}", changed(&old, &new));
        assert_eq!(changed(&groups(&old), &groups(&new)), 1);
        assert!((16..64).contains(&groups(&new).len()), "{}", groups(&new).len());
    }

    #[test]
    fn groups_are_bounded_both_ways() {
        let part = |first: u8| Part { length: 1, name: Name([first; NAME_BYTES]) };
        let (ending, going_on) = (vec![part(64); 100], vec![part(1); 2 * GROUP_CHUNKS + 1]);
        let lengths = |chunks: &[Part]| groups(chunks).iter().map(|group| group.length).collect::<Vec<_>>();
        assert_eq!(lengths(&ending), [vec![8; 12], vec![4]].concat());
        assert_eq!(lengths(&going_on), [GROUP_CHUNKS as u32, GROUP_CHUNKS as u32, 1]);
    }

    proptest! {
        #[test]
        fn chunks_are_the_same_in_whatever_pieces_the_bytes_come(
            seed in any::<u64>(),
            length in 0usize..200_000,
            piece in 1usize..50_000,
        ) {
            let content = noise(seed, length);
            prop_assert_eq!(chunks(small(), content.chunks(piece)), chunks(small(), [&content[..]]));
        }
    }
}
