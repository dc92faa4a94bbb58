//! Cuts a data stream into items.

use super::{
    ABORTED, CHUNKS, CONTENT, DIGEST, END, GROUPS, Item, LIST, PIECE, RAW, RECIPE, SegmentError, Span,
};
use crate::{
    chunk::{NAME_BYTES, Name, Part},
    delta::Grain,
    hash::ContentHash,
    limits::{BLOCK_BYTES, DETAIL_BYTES, GROUP_CHUNKS, RANGE_BYTES, RECIPE_CHUNKS, RECIPE_GROUPS},
    manifest::EntryId,
    message::Run,
    problem::Cause,
    record::{
        cursor::{Carry, Field},
        number,
    },
};

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
    /// The close of content or of a recipe.
    Close {
        left: u64,
    },
    /// A part or the close; `left` more parts may come.
    Part {
        of: Parts,
        left: usize,
    },
    ListClose,
}

/// What parts belong to.
#[derive(Debug, Clone, Copy)]
enum Parts {
    Recipe(Grain),
    List,
}

impl Parts {
    fn allowed(self) -> usize {
        match self {
            Self::Recipe(Grain::Chunks) => RECIPE_CHUNKS,
            Self::Recipe(Grain::Groups) => RECIPE_GROUPS,
            Self::List => GROUP_CHUNKS,
        }
    }
}

enum Header {
    Content(EntryId, Span),
    Digest(EntryId, Span, ContentHash),
    Recipe(EntryId, Grain),
    List(EntryId, Run),
    Piece(EntryId, Run),
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
            Expect::Header
            | Expect::Block { .. }
            | Expect::Data { .. }
            | Expect::Close { .. }
            | Expect::Part { .. }
            | Expect::ListClose => Err(SegmentError::Truncated),
        }
    }

    fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Item<'a>>, SegmentError> {
        match self.expect {
            Expect::Header => Ok(self.carry.parse(input, parse_header)?.map(|header| self.begin(header))),
            Expect::Block { left } => match self.carry.parse(input, parse_number)? {
                Some(block) => self.begin_block(block, left),
                None => Ok(None),
            },
            Expect::Data { left, block } => Ok(Some(self.take_data(input, left, block))),
            Expect::Close { left } => {
                let Some(close) = self.carry.parse(input, parse_close)? else { return Ok(None) };
                self.expect = Expect::Header;
                close_item(close, left).map(Some)
            }
            Expect::Part { of, left } => match self.carry.parse(input, parse_part)? {
                Some(part) => self.take_part(part, of, left),
                None => Ok(None),
            },
            Expect::ListClose => {
                let closed = self.carry.parse(input, parse_list_close)?;
                if closed.is_some() {
                    self.expect = Expect::Header;
                }
                Ok(closed)
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
            Header::Recipe(id, grain) => {
                self.expect_parts(Parts::Recipe(grain));
                Item::Recipe { id, grain }
            }
            Header::List(id, bytes) => {
                self.expect_parts(Parts::List);
                Item::List { id, bytes }
            }
            Header::Piece(id, bytes) => {
                self.expect = Expect::Block { left: bytes.count };
                Item::Piece { id, bytes }
            }
        }
    }

    fn expect_parts(&mut self, of: Parts) {
        self.expect = Expect::Part { of, left: of.allowed() };
    }

    /// The next part; none is the end of them.
    fn take_part(
        &mut self,
        part: Option<Part>,
        of: Parts,
        left: usize,
    ) -> Result<Option<Item<'static>>, SegmentError> {
        let Some(part) = part else {
            self.expect = match of {
                Parts::Recipe(_) => Expect::Close { left: 0 },
                Parts::List => Expect::ListClose,
            };
            return Ok(None);
        };
        let left = left.checked_sub(1).ok_or(SegmentError::Parts { allowed: of.allowed() })?;
        self.expect = Expect::Part { of, left };
        Ok(Some(Item::Part(part)))
    }

    /// A number of 0 ends the content, one up to [`BLOCK_BYTES`] is a block, and what it exceeds that by is the
    /// length of a hole.
    fn begin_block(&mut self, number: u64, left: u64) -> Result<Option<Item<'static>>, SegmentError> {
        if let Some(hole) = number.checked_sub(BLOCK_BYTES as u64).filter(|&hole| hole > 0) {
            let left = left.checked_sub(hole).ok_or(SegmentError::Block { length: hole, allowed: left })?;
            self.expect = Expect::Block { left };
            return Ok(Some(Item::Hole(hole)));
        }
        if number > left {
            return Err(SegmentError::Block { length: number, allowed: left });
        }
        self.expect = match number {
            0 => Expect::Close { left },
            block => Expect::Data { left, block },
        };
        Ok(None)
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

fn close_item(close: Close, left: u64) -> Result<Item<'static>, SegmentError> {
    match close {
        Close::End(_) if left > 0 => Err(SegmentError::Short { missing: left }),
        Close::End(hash) => Ok(Item::End(hash)),
        Close::Aborted(cause, detail) => Ok(Item::Aborted { cause, detail }),
    }
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

    fn place(&mut self) -> Result<Option<(EntryId, u64, u64)>, SegmentError> {
        let id = EntryId(or_incomplete!(self.number()?));
        let offset = or_incomplete!(self.number()?);
        Ok(self.number()?.map(|length| (id, offset, length)))
    }

    fn span(&mut self) -> Result<Option<(EntryId, Span)>, SegmentError> {
        let (id, offset, length) = or_incomplete!(self.place()?);
        let span = Span::parse(offset, length).ok_or(SegmentError::Span { offset, length })?;
        Ok(Some((id, span)))
    }

    /// Any bytes that a file may have, from 1 to `most`.
    fn bytes(&mut self, most: u64) -> Result<Option<(EntryId, Run)>, SegmentError> {
        let (id, offset, length) = or_incomplete!(self.place()?);
        let end = offset.checked_add(length).filter(|&end| end <= i64::MAX as u64);
        if end.is_none() || !(1..=most).contains(&length) {
            return Err(SegmentError::Span { offset, length });
        }
        Ok(Some((id, Run { first: offset, count: length })))
    }

    fn encoding(&mut self) -> Result<Option<()>, SegmentError> {
        match or_incomplete!(self.byte()) {
            RAW => Ok(Some(())),
            other => Err(SegmentError::Unknown { field: "encoding", value: other.into() }),
        }
    }

    fn grain(&mut self) -> Result<Option<Grain>, SegmentError> {
        match or_incomplete!(self.byte()) {
            CHUNKS => Ok(Some(Grain::Chunks)),
            GROUPS => Ok(Some(Grain::Groups)),
            other => Err(SegmentError::Unknown { field: "grain", value: other.into() }),
        }
    }

    fn abort(&mut self) -> Result<Option<(Cause, String)>, SegmentError> {
        let code = or_incomplete!(self.number()?);
        let cause = u32::try_from(code).ok().and_then(Cause::from_code);
        let cause = cause.ok_or(SegmentError::Unknown { field: "cause", value: code })?;
        let length = or_incomplete!(self.number()?);
        if length > DETAIL_BYTES as u64 {
            return Err(SegmentError::Detail);
        }
        let detail = or_incomplete!(self.take(length as usize));
        let detail = std::str::from_utf8(detail).map_err(|_| SegmentError::Detail)?;
        Ok(Some((cause, detail.to_owned())))
    }

    fn number(&mut self) -> Result<Option<u64>, SegmentError> {
        match number::parse(&self.bytes[self.used..]) {
            Ok(Field::Complete(number, used)) => {
                self.used += used;
                Ok(Some(number))
            }
            Ok(Field::Incomplete) => Ok(None),
            Err(number::Overflow) => Err(SegmentError::Overflow),
        }
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

fn parse_number(bytes: &[u8]) -> Result<Field<u64>, SegmentError> {
    field(bytes, |reader| reader.number())
}

fn parse_header(bytes: &[u8]) -> Result<Field<Header>, SegmentError> {
    field(bytes, |reader| match or_incomplete!(reader.byte()) {
        CONTENT => {
            let (id, span) = or_incomplete!(reader.span()?);
            Ok(reader.encoding()?.map(|()| Header::Content(id, span)))
        }
        DIGEST => {
            let (id, span) = or_incomplete!(reader.span()?);
            Ok(reader.hash().map(|hash| Header::Digest(id, span, hash)))
        }
        RECIPE => {
            let id = EntryId(or_incomplete!(reader.number()?));
            Ok(reader.grain()?.map(|grain| Header::Recipe(id, grain)))
        }
        LIST => Ok(reader.bytes(u64::MAX)?.map(|(id, bytes)| Header::List(id, bytes))),
        PIECE => {
            let (id, bytes) = or_incomplete!(reader.bytes(RANGE_BYTES)?);
            Ok(reader.encoding()?.map(|()| Header::Piece(id, bytes)))
        }
        other => Err(SegmentError::Unknown { field: "tag", value: other.into() }),
    })
}

/// A part, or none at the end of them.
fn parse_part(bytes: &[u8]) -> Result<Field<Option<Part>>, SegmentError> {
    field(bytes, |reader| {
        let length = or_incomplete!(reader.number()?);
        if length == 0 {
            return Ok(Some(None));
        }
        let length = u32::try_from(length).map_err(|_| SegmentError::PartLength(length))?;
        let name = or_incomplete!(reader.take(NAME_BYTES).and_then(|name| name.first_chunk()));
        Ok(Some(Some(Part { length, name: Name(*name) })))
    })
}

fn parse_list_close(bytes: &[u8]) -> Result<Field<Item<'static>>, SegmentError> {
    field(bytes, |reader| match or_incomplete!(reader.byte()) {
        END => Ok(Some(Item::ListEnd)),
        ABORTED => Ok(reader.abort()?.map(|(cause, detail)| Item::Aborted { cause, detail })),
        other => Err(SegmentError::Unknown { field: "close", value: other.into() }),
    })
}

fn parse_close(bytes: &[u8]) -> Result<Field<Close>, SegmentError> {
    field(bytes, |reader| match or_incomplete!(reader.byte()) {
        END => Ok(reader.hash().map(Close::End)),
        ABORTED => Ok(reader.abort()?.map(|(cause, detail)| Close::Aborted(cause, detail))),
        other => Err(SegmentError::Unknown { field: "close", value: other.into() }),
    })
}
