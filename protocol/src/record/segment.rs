//! Segments: the node's unit on a data stream.
//!
//! A segment is a part of an entry ([`Span`]), in blocks of bounded length, closed by its hash or by the
//! reason it was given up. So a file that shrinks, vanishes or changes while it is read costs its own segment
//! and never the stream. A digest is a segment without content: the hash alone, for comparison.

use crate::{
    hash::{ContentHash, Hasher},
    limits::{BLOCK_BYTES, DETAIL_BYTES, RANGE_BYTES, WHOLE_BYTES},
    manifest::EntryId,
    problem::{Cause, cut_detail},
    record::cursor::{Carry, Field},
};

const CONTENT: u8 = 1;
const DIGEST: u8 = 2;

const RAW: u8 = 0;

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
    /// Some of that content, never more in all than the span.
    Data(&'a [u8]),
    /// All of the span was sent; this is its hash.
    End(ContentHash),
    /// The span was given up by the sender, before or after its last byte.
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
    #[error("a segment of {length} bytes at offset {offset} is neither a whole file nor a range")]
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

/// Closes a content segment whose bytes were all put.
pub fn put_end(out: &mut Vec<u8>, hash: ContentHash) {
    out.extend_from_slice(&[0, END]);
    out.extend_from_slice(&hash.0);
}

/// Closes a content segment that is given up, at a block border.
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

fn put_place(out: &mut Vec<u8>, id: EntryId, span: Span) {
    [id.0, span.offset, span.length].into_iter().for_each(|number| put_number(out, number));
}

/// LEB128: seven bits a byte, least significant first, the top bit on all but the last.
pub(crate) fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Cuts the bytes of a data stream into [`Item`]s, wherever reads happen to end.
#[derive(Debug)]
pub struct Decoder {
    expect: Expect,
    carry: Carry,
}

#[derive(Debug, Clone, Copy)]
enum Expect {
    Header,
    /// A block or the close; `left` bytes of the span have not come.
    Block {
        left: u64,
    },
    /// `block` more bytes of a block.
    Data {
        left: u64,
        block: u64,
    },
    Close {
        left: u64,
    },
}

enum Header {
    Content(EntryId, Span),
    Digest(EntryId, Span, ContentHash),
}

enum Close {
    End(ContentHash),
    Aborted(Cause, String),
}

impl Default for Decoder {
    fn default() -> Self {
        Self { expect: Expect::Header, carry: Carry::default() }
    }
}

impl Decoder {
    /// The next item in `input`, of which the bytes used are removed; `None` when it is used up. Data is
    /// borrowed from `input`, never copied. After an error the stream is beyond use.
    pub fn next_item<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Item<'a>>, SegmentError> {
        while !input.is_empty() {
            if let Some(item) = self.step(input)? {
                return Ok(Some(item));
            }
        }
        Ok(None)
    }

    /// Must be called at the end of the stream: fails when it ended within a segment.
    pub fn finish(&self) -> Result<(), SegmentError> {
        match self.expect {
            Expect::Header if self.carry.is_empty() => Ok(()),
            Expect::Header | Expect::Block { .. } | Expect::Data { .. } | Expect::Close { .. } => {
                Err(SegmentError::Truncated)
            }
        }
    }

    fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Item<'a>>, SegmentError> {
        match self.expect {
            Expect::Header => Ok(self.carry.parse(input, parse_header)?.map(|header| self.begin(header))),
            Expect::Block { left } => {
                if let Some(block) = self.carry.parse(input, parse_number)? {
                    self.expect = match block {
                        0 => Expect::Close { left },
                        _ => Expect::Data { left, block: check_block(block, left)? },
                    };
                }
                Ok(None)
            }
            Expect::Data { left, block } => Ok(Some(self.take_data(input, left, block))),
            Expect::Close { left } => {
                let Some(close) = self.carry.parse(input, parse_close)? else { return Ok(None) };
                self.expect = Expect::Header;
                close_item(close, left).map(Some)
            }
        }
    }

    fn begin(&mut self, header: Header) -> Item<'static> {
        match header {
            Header::Content(id, span) => {
                self.expect = Expect::Block { left: span.length };
                Item::Begin { id, span }
            }
            Header::Digest(id, span, hash) => Item::Digest { id, span, hash },
        }
    }

    fn take_data<'a>(&mut self, input: &mut &'a [u8], left: u64, block: u64) -> Item<'a> {
        let length = (input.len() as u64).min(block);
        let (data, rest) = input.split_at(length as usize);
        *input = rest;
        let left = left - length;
        self.expect = if length == block {
            Expect::Block { left }
        } else {
            Expect::Data { left, block: block - length }
        };
        Item::Data(data)
    }
}

fn check_block(block: u64, left: u64) -> Result<u64, SegmentError> {
    let allowed = left.min(BLOCK_BYTES as u64);
    if block > allowed { Err(SegmentError::Block { length: block, allowed }) } else { Ok(block) }
}

fn close_item(close: Close, left: u64) -> Result<Item<'static>, SegmentError> {
    match close {
        Close::End(_) if left > 0 => Err(SegmentError::Short { missing: left }),
        Close::End(hash) => Ok(Item::End(hash)),
        Close::Aborted(cause, detail) => Ok(Item::Aborted { cause, detail }),
    }
}

/// Reads fields one after another from the front of some bytes; `None` where they end.
struct Reader<'a> {
    bytes: &'a [u8],
    used: usize,
}

impl<'a> Reader<'a> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.used)?;
        self.used += 1;
        Some(byte)
    }

    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.used..self.used + length)?;
        self.used += length;
        Some(taken)
    }

    fn hash(&mut self) -> Option<ContentHash> {
        self.take(32)?.first_chunk().map(|hash| ContentHash(*hash))
    }

    fn number(&mut self) -> Result<Option<u64>, SegmentError> {
        let mut number = 0u64;
        for shift in (0..64).step_by(7) {
            let Some(byte) = self.byte() else { return Ok(None) };
            let bits = u64::from(byte & 0x7f);
            if bits << shift >> shift != bits {
                return Err(SegmentError::Overflow);
            }
            number |= bits << shift;
            if byte < 0x80 {
                return Ok(Some(number));
            }
        }
        Err(SegmentError::Overflow)
    }
}

/// Turns a parser that says `None` at the end of its bytes into one that says how far it came.
fn field<T>(
    bytes: &[u8],
    parse: impl FnOnce(&mut Reader<'_>) -> Result<Option<T>, SegmentError>,
) -> Result<Field<T>, SegmentError> {
    let mut reader = Reader { bytes, used: 0 };
    Ok(match parse(&mut reader)? {
        Some(value) => Field::Complete(value, reader.used),
        None => Field::Incomplete,
    })
}

/// `let Some(x) = … else { return Ok(None) }` for parsers of fields.
macro_rules! or_incomplete {
    ($value:expr) => {
        match $value {
            Some(value) => value,
            None => return Ok(None),
        }
    };
}

fn parse_number(bytes: &[u8]) -> Result<Field<u64>, SegmentError> {
    field(bytes, |reader| reader.number())
}

fn parse_header(bytes: &[u8]) -> Result<Field<Header>, SegmentError> {
    field(bytes, |reader| {
        let tag = or_incomplete!(reader.byte());
        if tag != CONTENT && tag != DIGEST {
            return Err(SegmentError::Unknown { field: "tag", value: tag.into() });
        }
        let id = EntryId(or_incomplete!(reader.number()?));
        let offset = or_incomplete!(reader.number()?);
        let length = or_incomplete!(reader.number()?);
        let span = Span::parse(offset, length).ok_or(SegmentError::Span { offset, length })?;
        if tag == DIGEST {
            return Ok(reader.hash().map(|hash| Header::Digest(id, span, hash)));
        }
        match or_incomplete!(reader.byte()) {
            RAW => Ok(Some(Header::Content(id, span))),
            other => Err(SegmentError::Unknown { field: "encoding", value: other.into() }),
        }
    })
}

fn parse_close(bytes: &[u8]) -> Result<Field<Close>, SegmentError> {
    field(bytes, |reader| match or_incomplete!(reader.byte()) {
        END => Ok(reader.hash().map(Close::End)),
        ABORTED => {
            let code = or_incomplete!(reader.number()?);
            let cause = u32::try_from(code).ok().and_then(Cause::from_code);
            let cause = cause.ok_or(SegmentError::Unknown { field: "cause", value: code })?;
            let length = or_incomplete!(reader.number()?);
            if length > DETAIL_BYTES as u64 {
                return Err(SegmentError::Detail);
            }
            let detail = or_incomplete!(reader.take(length as usize));
            let detail = std::str::from_utf8(detail).map_err(|_| SegmentError::Detail)?;
            Ok(Some(Close::Aborted(cause, detail.to_owned())))
        }
        other => Err(SegmentError::Unknown { field: "close", value: other.into() }),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn segment(id: u64, content: &[u8]) -> Vec<u8> {
        let span = Span::whole(content.len() as u64);
        let mut out = Vec::new();
        put_begin(&mut out, EntryId(id), span);
        for block in content.chunks(BLOCK_BYTES) {
            put_block_length(&mut out, block.len());
            out.extend_from_slice(block);
        }
        let mut hasher = span.hasher(span.length());
        hasher.update(content);
        put_end(&mut out, hasher.finish());
        out
    }

    /// What came out, with adjoining data joined.
    fn decode(pieces: &[&[u8]]) -> Result<Vec<String>, SegmentError> {
        let mut decoder = Decoder::default();
        let mut seen: Vec<String> = Vec::new();
        let mut data: Vec<u8> = Vec::new();
        for piece in pieces {
            let mut input = *piece;
            while let Some(item) = decoder.next_item(&mut input)? {
                if let Item::Data(bytes) = item {
                    data.extend_from_slice(bytes);
                } else {
                    if !data.is_empty() {
                        seen.push(format!("{} bytes {}", data.len(), blake3::hash(&data).to_hex()));
                        data.clear();
                    }
                    seen.push(format!("{item:?}"));
                }
            }
        }
        decoder.finish()?;
        Ok(seen)
    }

    fn stream() -> Vec<u8> {
        let mut bytes = segment(0, b"hello");
        put_begin(&mut bytes, EntryId(300), Span::whole(10));
        put_block_length(&mut bytes, 4);
        bytes.extend_from_slice(b"trun");
        put_aborted(&mut bytes, Cause::Changed, "10 bytes were listed, 4 were there");
        put_digest(&mut bytes, EntryId(7), Span::range(WHOLE_BYTES + 1, 8), ContentHash([9; 32]));
        bytes.extend(segment(1 << 40, &[5; 100]));
        bytes
    }

    #[test]
    fn a_file_that_shrinks_costs_its_own_segment_and_the_stream_goes_on() {
        let items = decode(&[&stream()]).unwrap();
        assert_eq!(items.len(), 10);
        assert!(items[3].contains("#300"), "{items:?}");
        assert!(items[5].contains("Aborted { cause: Changed"), "{items:?}");
        assert!(items[6].contains("Digest"), "{items:?}");
    }

    #[test]
    fn items_are_the_same_wherever_the_stream_is_cut() {
        let bytes = stream();
        let whole = decode(&[&bytes]).unwrap();
        for cut in 0..bytes.len() {
            let (front, back) = bytes.split_at(cut);
            assert_eq!(decode(&[front, back]).as_ref(), Ok(&whole), "cut at {cut}");
        }
        let single: Vec<&[u8]> = bytes.chunks(1).collect();
        assert_eq!(decode(&single), Ok(whole));
    }

    #[test]
    fn a_stream_that_ends_early_is_an_error_unless_between_segments() {
        let bytes = stream();
        let ends: Vec<usize> = (0..=bytes.len()).filter(|&end| decode(&[&bytes[..end]]).is_ok()).collect();
        assert_eq!(ends.len(), 5, "{ends:?}");
    }

    #[test]
    fn lengths_that_lie_are_refused() {
        let mut long_block = Vec::new();
        put_begin(&mut long_block, EntryId(0), Span::whole(4));
        put_number(&mut long_block, 5);
        assert_eq!(decode(&[&long_block, b"12345"]), Err(SegmentError::Block { length: 5, allowed: 4 }));

        let mut short = Vec::new();
        put_begin(&mut short, EntryId(0), Span::whole(4));
        put_end(&mut short, ContentHash::of_nothing());
        assert_eq!(decode(&[&short]), Err(SegmentError::Short { missing: 4 }));

        let huge = [CONTENT, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, RAW];
        assert!(matches!(decode(&[&huge]), Err(SegmentError::Span { .. })));
        let overflow = [CONTENT, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
        assert_eq!(decode(&[&overflow]), Err(SegmentError::Overflow));
        assert!(matches!(decode(&[&[9]]), Err(SegmentError::Unknown { field: "tag", value: 9 })));
        assert!(matches!(
            decode(&[&[CONTENT, 0, 0, 1, 7]]),
            Err(SegmentError::Unknown { field: "encoding", .. })
        ));
    }

    #[test]
    fn spans_are_whole_files_or_aligned_ranges() {
        for (offset, length, legal) in [
            (0, 0, true),
            (0, WHOLE_BYTES, true),
            (0, WHOLE_BYTES + 1, false),
            (1, 1, false),
            (RANGE_BYTES, RANGE_BYTES, true),
            (RANGE_BYTES, RANGE_BYTES + 1, false),
            (RANGE_BYTES, 0, false),
        ] {
            assert_eq!(Span::parse(offset, length).is_some(), legal, "{offset} {length}");
        }
        let size = WHOLE_BYTES + 5;
        assert_eq!(Span::count(size), 9);
        assert_eq!(Span::range(size, 8), Span { offset: 8 * RANGE_BYTES, length: 5 });
        assert!(Span::range(size, 8).is_of(size) && !Span::range(size, 8).is_of(size + 1));
        assert!(Span::whole(5).is_of(5) && !Span::whole(5).is_of(6));
        assert!((0..9).all(|index| Span::range(size, index).index() == index));
    }

    proptest! {
        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
            let cut = cut.min(bytes.len());
            let _ = decode(&[&bytes[..cut], &bytes[cut..]]);
        }

        #[test]
        fn numbers_survive(number in any::<u64>()) {
            let mut out = Vec::new();
            put_number(&mut out, number);
            prop_assert_eq!(parse_number(&out), Ok(Field::Complete(number, out.len())));
        }
    }
}
