//! Segments: the node's unit on a data stream.
//!
//! A segment is a part of an entry ([`Span`]), in blocks of bounded length, closed by its hash or by the
//! reason it was given up. So a file that shrinks, vanishes or changes while it is read costs its own segment
//! and never the stream. A digest is a segment without content: the hash alone, for comparison. Recipes, lists
//! and pieces are what a file is made of from an old version ([`crate::delta`]).

mod decode;

pub use decode::Decoder;

pub(crate) use crate::record::number::put as put_number;

use crate::{
    chunk::Part,
    delta::Grain,
    hash::{ContentHash, Hasher},
    limits::{BLOCK_BYTES, RANGE_BYTES, WHOLE_BYTES},
    manifest::EntryId,
    message::Run,
    problem::{Cause, cut_detail},
};

const CONTENT: u8 = 1;
const DIGEST: u8 = 2;
const RECIPE: u8 = 3;
const LIST: u8 = 4;
const PIECE: u8 = 5;

const RAW: u8 = 0;

const CHUNKS: u8 = 0;
const GROUPS: u8 = 1;

const END: u8 = 0;
const ABORTED: u8 = 1;

/// A part of a file: all of it, or one range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Span {
    offset: u64,
    length: u64,
}

impl Span {
    /// The part at `offset` of `length` bytes, if any file has such a part: all of a file of at most
    /// [`WHOLE_BYTES`], or a range, aligned and at most [`RANGE_BYTES`] long.
    pub fn parse(offset: u64, length: u64) -> Option<Self> {
        let is_whole = offset == 0 && length <= WHOLE_BYTES;
        let is_range = offset.is_multiple_of(RANGE_BYTES) && (1..=RANGE_BYTES).contains(&length);
        (is_whole || is_range).then_some(Self { offset, length })
    }

    /// All of a file, which must not be longer than [`WHOLE_BYTES`].
    pub fn whole(size: u64) -> Self {
        debug_assert!(size <= WHOLE_BYTES);
        Self { offset: 0, length: size }
    }

    /// Range `index` of a file of `size` bytes.
    ///
    /// # Panics
    /// When the file has no such range.
    pub fn range(size: u64, index: u64) -> Self {
        let offset = index.saturating_mul(RANGE_BYTES);
        assert!(offset < size, "range {index} of {size} bytes");
        Self { offset, length: RANGE_BYTES.min(size - offset) }
    }

    /// How many spans a file of `size` bytes crosses in.
    pub fn count(size: u64) -> u64 {
        if size <= WHOLE_BYTES { 1 } else { size.div_ceil(RANGE_BYTES) }
    }

    /// First byte within the file.
    pub fn offset(self) -> u64 {
        self.offset
    }

    /// Bytes.
    pub fn length(self) -> u64 {
        self.length
    }

    /// Index of the range within its file.
    pub fn index(self) -> u64 {
        self.offset / RANGE_BYTES
    }

    /// Whether a file of `size` bytes has this span.
    pub fn is_of(self, size: u64) -> bool {
        if size <= WHOLE_BYTES {
            self.offset == 0 && self.length == size
        } else {
            self.offset < size && self.length == RANGE_BYTES.min(size - self.offset)
        }
    }

    /// The hasher for this span of a file of `size` bytes.
    pub fn hasher(self, size: u64) -> Hasher {
        if size <= WHOLE_BYTES { Hasher::whole() } else { Hasher::range(self.offset) }
    }
}

/// What a data stream carries, piece by piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// Content of an entry follows.
    Begin {
        /// The entry.
        id: EntryId,
        /// Which part of it.
        span: Span,
    },
    /// Content of a piece follows.
    Piece {
        /// The entry.
        id: EntryId,
        /// Its bytes within the file: 1 to [`RANGE_BYTES`].
        bytes: Run,
    },
    /// Some of that content, never more in all than the span or the piece.
    Data(&'a [u8]),
    /// So many bytes of that content, all of them zero.
    Hole(u64),
    /// Parts of the recipe of an entry follow.
    Recipe {
        /// The entry.
        id: EntryId,
        /// What the parts are.
        grain: Grain,
    },
    /// The chunks of a group follow.
    List {
        /// The entry.
        id: EntryId,
        /// The bytes of the group within the file.
        bytes: Run,
    },
    /// The next part of a recipe or a list.
    Part(Part),
    /// All of the list was sent.
    ListEnd,
    /// All of the span, the piece or the recipe was sent; this is the hash of its content.
    End(ContentHash),
    /// The segment was given up by the sender, before or after its last byte.
    Aborted {
        /// Why.
        cause: Cause,
        /// What was seen, for a person.
        detail: String,
    },
    /// The hash of a part of an entry, for comparison.
    Digest {
        /// The entry.
        id: EntryId,
        /// Which part of it.
        span: Span,
        /// Its hash at the sender.
        hash: ContentHash,
    },
}

/// Why bytes are not segments.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SegmentError {
    /// An unknown tag or encoding.
    #[error("a segment has an unknown {field} {value}")]
    Unknown {
        /// Which field.
        field: &'static str,
        /// What it held.
        value: u64,
    },
    /// A number takes more than 64 bits.
    #[error("a segment has a number of more than 64 bits")]
    Overflow,
    /// No file has such a part.
    #[error("a segment of {length} bytes at offset {offset} is no part of a file that has one")]
    Span {
        /// Offset in bytes.
        offset: u64,
        /// Length in bytes.
        length: u64,
    },
    /// A block is longer than allowed or than what is left of its segment.
    #[error("a block of {length} bytes exceeds the {allowed} that are allowed here")]
    Block {
        /// Its length in bytes.
        length: u64,
        /// The most that could come.
        allowed: u64,
    },
    /// Closed as complete before all bytes came.
    #[error("a segment ended {missing} bytes short")]
    Short {
        /// Bytes that did not come.
        missing: u64,
    },
    /// A part of a recipe has more bytes than any.
    #[error("a part of a recipe has {0} bytes")]
    PartLength(u64),
    /// A recipe or a list has more parts than allowed.
    #[error("a recipe or a list has more than {allowed} parts")]
    Parts {
        /// The most that could come.
        allowed: usize,
    },
    /// The explanation of an abort is too long or not UTF-8.
    #[error("a segment was given up with an impossible explanation")]
    Detail,
    /// The stream ended within a segment.
    #[error("the stream ended within a segment")]
    Truncated,
}

/// Appends the header of a content segment.
pub fn put_begin(out: &mut Vec<u8>, id: EntryId, span: Span) {
    out.push(CONTENT);
    put_place(out, id, span);
    out.push(RAW);
}

/// Appends the length of a block of content; exactly that many bytes (1 to [`BLOCK_BYTES`]) must follow.
pub fn put_block_length(out: &mut Vec<u8>, length: usize) {
    debug_assert!((1..=BLOCK_BYTES).contains(&length));
    put_number(out, length as u64);
}

/// Appends a hole: `length` bytes of content, at least 1, that are all zero and do not follow.
pub fn put_hole(out: &mut Vec<u8>, length: u64) {
    put_number(out, BLOCK_BYTES as u64 + length);
}

/// Closes a segment of content whose bytes were all put, or a recipe whose parts were.
pub fn put_end(out: &mut Vec<u8>, hash: ContentHash) {
    out.extend_from_slice(&[0, END]);
    out.extend_from_slice(&hash.0);
}

/// Closes a segment that is given up, between two blocks or parts.
pub fn put_aborted(out: &mut Vec<u8>, cause: Cause, detail: &str) {
    let detail = cut_detail(detail.to_owned());
    out.extend_from_slice(&[0, ABORTED]);
    put_number(out, u64::from(cause.code()));
    put_number(out, detail.len() as u64);
    out.extend_from_slice(detail.as_bytes());
}

/// Appends a digest.
pub fn put_digest(out: &mut Vec<u8>, id: EntryId, span: Span, hash: ContentHash) {
    out.push(DIGEST);
    put_place(out, id, span);
    out.extend_from_slice(&hash.0);
}

/// Appends the header of a piece: 1 to [`RANGE_BYTES`] bytes of an entry.
pub fn put_piece(out: &mut Vec<u8>, id: EntryId, bytes: Run) {
    debug_assert!((1..=RANGE_BYTES).contains(&bytes.count));
    out.push(PIECE);
    put_bytes(out, id, bytes);
    out.push(RAW);
}

/// Appends the header of a recipe.
pub fn put_recipe(out: &mut Vec<u8>, id: EntryId, grain: Grain) {
    out.push(RECIPE);
    put_number(out, id.0);
    out.push(match grain {
        Grain::Chunks => CHUNKS,
        Grain::Groups => GROUPS,
    });
}

/// Appends the header of the list of the chunks in some bytes of an entry.
pub fn put_list(out: &mut Vec<u8>, id: EntryId, bytes: Run) {
    out.push(LIST);
    put_bytes(out, id, bytes);
}

/// Appends a part of a recipe or a list.
pub fn put_part(out: &mut Vec<u8>, part: Part) {
    put_number(out, part.length.into());
    out.extend_from_slice(&part.name.0);
}

/// Closes a list whose parts were all put.
pub fn put_list_end(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0, END]);
}

fn put_bytes(out: &mut Vec<u8>, id: EntryId, bytes: Run) {
    [id.0, bytes.first, bytes.count].into_iter().for_each(|number| put_number(out, number));
}

fn put_place(out: &mut Vec<u8>, id: EntryId, span: Span) {
    [id.0, span.offset, span.length].into_iter().for_each(|number| put_number(out, number));
}

#[cfg(test)]
mod tests;
