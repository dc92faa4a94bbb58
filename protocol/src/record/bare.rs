//! Bare records: what the factor study sends, and nothing else does.
//!
//! A record is a u16 path length, a u64 content length (both in network byte order), the path, then exactly
//! that many bytes of content. The receiver learns of an end of the stream only between records.

use crate::{
    limits::PATH_BYTES,
    path::{EntryPath, PathError},
    record::cursor::{Carry, Field},
};

/// Bytes of a record before its path.
pub const HEADER_BYTES: usize = 10;

/// Appends the header and the path of a record; exactly `length` bytes of content must follow.
///
/// A path that does not fit its length field cannot be said: [`EntryPath`] refuses it long before.
pub fn put_header(out: &mut Vec<u8>, path: &EntryPath, length: u64) {
    const { assert!(PATH_BYTES <= u16::MAX as usize) };
    let path = path.as_bytes();
    out.extend_from_slice(&(path.len() as u16).to_be_bytes());
    out.extend_from_slice(&length.to_be_bytes());
    out.extend_from_slice(path);
}

/// What a stream of bare records carries.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'a> {
    /// A file of `length` bytes follows.
    Begin {
        /// Its path.
        path: EntryPath,
        /// Its length in bytes.
        length: u64,
    },
    /// Some of its content.
    Data(&'a [u8]),
    /// All of it has come.
    End,
}

/// Why bytes are not bare records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BareError {
    /// The path is not an entry path.
    #[error("a record has an impossible path: {0}")]
    Path(#[from] PathError),
    /// The stream ended within a record.
    #[error("the stream ended within a record")]
    Truncated,
}

/// Cuts a stream into [`Item`]s, wherever reads happen to end.
#[derive(Debug, Default)]
pub struct Decoder {
    expect: Expect,
    carry: Carry,
}

#[derive(Debug, Clone, Copy, Default)]
enum Expect {
    #[default]
    Header,
    Data {
        left: u64,
    },
}

impl Decoder {
    /// The next item in `input`, of which the bytes used are removed; `None` when more bytes are needed.
    pub fn next_item<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Item<'a>>, BareError> {
        match self.expect {
            Expect::Header if input.is_empty() => Ok(None),
            Expect::Header => Ok(self.carry.parse(input, parse_header)?.map(|(path, length)| {
                self.expect = Expect::Data { left: length };
                Item::Begin { path, length }
            })),
            Expect::Data { left: 0 } => {
                self.expect = Expect::Header;
                Ok(Some(Item::End))
            }
            Expect::Data { .. } if input.is_empty() => Ok(None),
            Expect::Data { left } => {
                let (data, rest) = input.split_at((input.len() as u64).min(left) as usize);
                *input = rest;
                self.expect = Expect::Data { left: left - data.len() as u64 };
                Ok(Some(Item::Data(data)))
            }
        }
    }

    /// Must be called at the end of the stream: fails when it ended within a record.
    pub fn finish(&self) -> Result<(), BareError> {
        match self.expect {
            Expect::Header if self.carry.is_empty() => Ok(()),
            Expect::Header | Expect::Data { .. } => Err(BareError::Truncated),
        }
    }
}

fn parse_header(bytes: &[u8]) -> Result<Field<(EntryPath, u64)>, BareError> {
    let (Some(path_length), Some(length)) =
        (bytes.first_chunk::<2>(), bytes.get(2..).and_then(|rest| rest.first_chunk::<8>()))
    else {
        return Ok(Field::Incomplete);
    };
    let path_length = usize::from(u16::from_be_bytes(*path_length));
    if path_length > PATH_BYTES {
        return Err(PathError::LongPath(path_length).into());
    }
    let end = HEADER_BYTES + path_length;
    match bytes.get(HEADER_BYTES..end) {
        Some(path) => Ok(Field::Complete((EntryPath::parse(path)?, u64::from_be_bytes(*length)), end)),
        None => Ok(Field::Incomplete),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(bytes: &[u8]) -> EntryPath {
        EntryPath::parse(bytes).unwrap()
    }

    fn record(name: &[u8], content: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        put_header(&mut out, &path(name), content.len() as u64);
        out.extend_from_slice(content);
        out
    }

    /// Path and content.
    type File = (Vec<u8>, Vec<u8>);

    fn decode(pieces: &[&[u8]]) -> Result<Vec<File>, BareError> {
        let mut decoder = Decoder::default();
        let mut files: Vec<File> = Vec::new();
        let mut complete = 0;
        for piece in pieces {
            let mut input = *piece;
            while let Some(item) = decoder.next_item(&mut input)? {
                match item {
                    Item::Begin { path, .. } => files.push((path.as_bytes().to_vec(), Vec::new())),
                    Item::Data(data) => files.last_mut().unwrap().1.extend_from_slice(data),
                    Item::End => complete += 1,
                }
            }
        }
        decoder.finish()?;
        assert_eq!(complete, files.len());
        Ok(files)
    }

    #[test]
    fn the_bytes_of_a_record_are_those_of_its_definition() {
        assert_eq!(record(b"a/b", b"xyz"), b"\x00\x03\x00\x00\x00\x00\x00\x00\x00\x03a/bxyz");
    }

    #[test]
    fn records_survive_a_cut_anywhere() {
        let bytes = [record(b"a", b"one"), record(b"empty", b""), record(b"d\xff/z", &[7; 300])].concat();
        let whole = decode(&[&bytes]).unwrap();
        assert_eq!(whole.iter().map(|(_, content)| content.len()).collect::<Vec<_>>(), [3, 0, 300]);
        for cut in 0..bytes.len() {
            assert_eq!(decode(&[&bytes[..cut], &bytes[cut..]]).as_ref(), Ok(&whole), "cut at {cut}");
        }
    }

    #[test]
    fn a_stream_that_ends_within_a_record_is_an_error() {
        let bytes = record(b"abc", b"content");
        for end in 1..bytes.len() {
            assert_eq!(decode(&[&bytes[..end]]), Err(BareError::Truncated), "end {end}");
        }
    }

    #[test]
    fn a_path_that_is_too_long_is_refused_before_it_comes() {
        let header = b"\xff\xff\x00\x00\x00\x00\x00\x00\x00\x00";
        assert_eq!(decode(&[header]), Err(BareError::Path(PathError::LongPath(65_535))));
    }

    #[test]
    fn a_path_that_leaves_the_target_is_refused() {
        let bytes = b"\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00../x";
        assert_eq!(decode(&[bytes]), Err(BareError::Path(PathError::DotComponent)));
    }
}
