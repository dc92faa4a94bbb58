//! Compressed data streams: the bytes of a data stream in frames, each as it is or compressed with zstd.
//!
//! All compressed frames of a stream are one zstd stream, flushed at the end of each frame, so that small files
//! gain from what came before them. A frame that goes as it is passes it by.

use std::io;

use zstd::{
    stream::raw::{CParameter, DParameter, Decoder, Encoder, InBuffer, Operation as _, OutBuffer},
    zstd_safe::compress_bound,
};

use super::cursor::{Carry, Field};
use crate::limits::{BLOCK_BYTES, FRAME_WINDOW_BITS};

/// Where zstd costs about as much as a fast link: some 400 MB/s a core, and half of what source code takes.
const LEVEL: i32 = 3;

/// Compression pays when it saves at least one part in so many.
const SAVED_PART: usize = 16;

/// Frames of fewer bytes do not tell whether compression pays.
const JUDGED_BYTES: usize = 4 * 1024;

/// The longest rest from trying, in frames: what can't be compressed costs a try in 64.
const MOST_REST: u32 = 64;

/// What zstd may add to what it can't compress and to end a frame, in bytes.
const OVERHEAD_BYTES: usize = BLOCK_BYTES / 128 + 1_024;

/// Why bytes are not frames.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A frame is empty or longer than allowed.
    #[error("a frame of {raw} bytes in {stored} is not one")]
    Length {
        /// Its bytes.
        raw: u64,
        /// Its bytes as they cross.
        stored: u64,
    },
    /// Its bytes do not decompress to what it should hold.
    #[error("a compressed frame is damaged: {0}")]
    Damaged(String),
    /// The stream ended within a frame.
    #[error("the stream ended within a frame")]
    Truncated,
}

/// Puts bytes into frames.
pub struct Compressor {
    encoder: Encoder<'static>,
    compressed: Vec<u8>,
    /// Frames that go as they are before the next try.
    rest: u32,
    /// How long the rest is after a try that does not pay.
    next_rest: u32,
}

impl std::fmt::Debug for Compressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Compressor").field("rest", &self.rest).finish_non_exhaustive()
    }
}

impl Compressor {
    /// For a new stream. Fails when there is no memory for it.
    pub fn new() -> io::Result<Self> {
        let mut encoder = Encoder::new(LEVEL)?;
        encoder.set_parameter(CParameter::WindowLog(FRAME_WINDOW_BITS))?;
        Ok(Self { encoder, compressed: Vec::new(), rest: 0, next_rest: 1 })
    }

    /// Appends `bytes` to `out` in frames.
    pub fn put(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        // Of like lengths: a short last one would gain nothing.
        let frames = bytes.len().div_ceil(BLOCK_BYTES).max(1);
        for frame in bytes.chunks(bytes.len().div_ceil(frames).max(1)) {
            if let Some(rest) = self.rest.checked_sub(1) {
                self.rest = rest;
                put_frame(out, frame.len(), 0, frame);
                continue;
            }
            self.compress(frame)?;
            put_frame(out, frame.len(), self.compressed.len(), &self.compressed);
            self.judge(frame.len());
        }
        Ok(())
    }

    fn compress(&mut self, frame: &[u8]) -> io::Result<()> {
        self.compressed.clear();
        self.compressed.reserve(compress_bound(frame.len()) + OVERHEAD_BYTES);
        let mut input = InBuffer::around(frame);
        let mut output = OutBuffer::around(&mut self.compressed);
        while input.pos() < frame.len() {
            self.encoder.run(&mut input, &mut output)?;
        }
        while self.encoder.flush(&mut output)? > 0 {}
        Ok(())
    }

    /// Rests longer and longer as long as it does not pay. What is short says nothing and costs little.
    fn judge(&mut self, raw: usize) {
        if raw < JUDGED_BYTES {
            return;
        }
        if self.compressed.len() + raw / SAVED_PART <= raw {
            self.next_rest = 1;
        } else {
            self.rest = self.next_rest;
            self.next_rest = (2 * self.next_rest).min(MOST_REST);
        }
    }
}

/// A stored length of 0 says that the bytes are as they are.
fn put_frame(out: &mut Vec<u8>, raw: usize, stored: usize, bytes: &[u8]) {
    put_number(out, raw);
    put_number(out, stored);
    out.extend_from_slice(bytes);
}

fn put_number(out: &mut Vec<u8>, number: usize) {
    super::number::put(out, number as u64);
}

/// Takes bytes out of frames, wherever reads happen to end.
pub struct Decompressor {
    decoder: Decoder<'static>,
    expect: Expect,
    carry: Carry,
    /// What came of a compressed frame.
    stored: Vec<u8>,
    /// What it decompresses to.
    raw: Vec<u8>,
}

impl std::fmt::Debug for Decompressor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Decompressor").field("expect", &self.expect).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
enum Expect {
    Header,
    /// So many bytes of a frame as it is.
    Raw(usize),
    /// The rest of a frame of `stored` bytes that decompresses to `raw`.
    Compressed {
        raw: usize,
        stored: usize,
    },
}

impl Decompressor {
    /// For a new stream. Fails when there is no memory for it.
    pub fn new() -> io::Result<Self> {
        let mut decoder = Decoder::new()?;
        decoder.set_parameter(DParameter::WindowLogMax(FRAME_WINDOW_BITS))?;
        let (carry, stored, raw) = (Carry::default(), Vec::new(), Vec::new());
        Ok(Self { decoder, expect: Expect::Header, carry, stored, raw })
    }

    /// The next plain bytes of `input`, from which what was used is removed: at most [`BLOCK_BYTES`] of them.
    /// `None` when it is used up. After an error the stream is beyond use.
    pub fn next_bytes<'a, 'b: 'a>(
        &'a mut self,
        input: &mut &'b [u8],
    ) -> Result<Option<&'a [u8]>, FrameError> {
        while !input.is_empty() {
            match self.expect {
                Expect::Header => {
                    if let Some(expect) = self.carry.parse(input, parse_header)? {
                        self.expect = expect;
                    }
                }
                Expect::Raw(left) => {
                    let bytes = take(input, left);
                    self.expect =
                        if bytes.len() == left { Expect::Header } else { Expect::Raw(left - bytes.len()) };
                    return Ok(Some(bytes));
                }
                Expect::Compressed { raw, stored } => {
                    self.stored.extend_from_slice(take(input, stored - self.stored.len()));
                    if self.stored.len() == stored {
                        self.decompress(raw)?;
                        self.expect = Expect::Header;
                        return Ok(Some(&self.raw));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Must be called at the end of the stream: fails when it ended within a frame.
    pub fn finish(&self) -> Result<(), FrameError> {
        match self.expect {
            Expect::Header if self.carry.is_empty() => Ok(()),
            Expect::Header | Expect::Raw(_) | Expect::Compressed { .. } => Err(FrameError::Truncated),
        }
    }

    fn decompress(&mut self, raw: usize) -> Result<(), FrameError> {
        let damaged = |error: io::Error| FrameError::Damaged(error.to_string());
        // One byte more shows a frame that holds more than it says.
        self.raw.resize(raw + 1, 0);
        let mut input = InBuffer::around(&self.stored);
        let mut output = OutBuffer::around(&mut self.raw[..]);
        loop {
            let before = (input.pos(), output.pos());
            self.decoder.run(&mut input, &mut output).map_err(damaged)?;
            if before == (input.pos(), output.pos()) {
                break;
            }
        }
        let (used, held) = (input.pos(), output.pos());
        if used < self.stored.len() || held != raw {
            return Err(FrameError::Damaged(format!("{held} bytes where {raw} were announced")));
        }
        self.raw.truncate(raw);
        self.stored.clear();
        Ok(())
    }
}

fn take<'a>(input: &mut &'a [u8], most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(most.min(input.len()));
    *input = rest;
    taken
}

fn parse_header(bytes: &[u8]) -> Result<Field<Expect>, FrameError> {
    let overflow = FrameError::Length { raw: u64::MAX, stored: u64::MAX };
    let number = |bytes: &[u8]| super::number::parse(bytes).map_err(|_| overflow.clone());
    let Field::Complete(raw, raw_used) = number(bytes)? else { return Ok(Field::Incomplete) };
    let Field::Complete(stored, stored_used) = number(&bytes[raw_used..])? else {
        return Ok(Field::Incomplete);
    };
    let within = |number: u64, most: usize| usize::try_from(number).ok().filter(|number| *number <= most);
    let lengths = (within(raw, BLOCK_BYTES), within(stored, BLOCK_BYTES + OVERHEAD_BYTES));
    let expect = match lengths {
        (Some(raw), Some(0)) if raw > 0 => Expect::Raw(raw),
        (Some(raw), Some(stored)) if raw > 0 => Expect::Compressed { raw, stored },
        (Some(_) | None, Some(_) | None) => return Err(FrameError::Length { raw, stored }),
    };
    Ok(Field::Complete(expect, raw_used + stored_used))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn noise(length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().finalize_xof().fill(&mut bytes);
        bytes
    }

    fn text(length: usize) -> Vec<u8> {
        (0..).flat_map(|line| format!("line {line} of a text\n").into_bytes()).take(length).collect()
    }

    fn frames<'a>(blocks: impl IntoIterator<Item = &'a [u8]>) -> Vec<u8> {
        let (mut compressor, mut out) = (Compressor::new().unwrap(), Vec::new());
        for block in blocks {
            compressor.put(block, &mut out).unwrap();
        }
        out
    }

    fn plain<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<Vec<u8>, FrameError> {
        let (mut decompressor, mut out) = (Decompressor::new().unwrap(), Vec::new());
        for mut piece in pieces {
            while let Some(bytes) = decompressor.next_bytes(&mut piece)? {
                assert!(bytes.len() <= BLOCK_BYTES);
                out.extend_from_slice(bytes);
            }
        }
        decompressor.finish()?;
        Ok(out)
    }

    #[test]
    fn text_shrinks_and_comes_out_as_it_went_in() {
        let content = text(3 << 20);
        let sent = frames(content.chunks(100_000));
        assert!(sent.len() * 4 < content.len(), "{} bytes", sent.len());
        assert_eq!(plain([&sent[..]]), Ok(content));
    }

    #[test]
    fn what_cannot_be_compressed_costs_next_to_nothing() {
        let content = noise(16 << 20);
        let sent = frames([&content[..]]);
        assert!(sent.len() < content.len() + 1_024, "{} bytes more", sent.len() - content.len());
        assert_eq!(plain([&sent[..]]), Ok(content));
    }

    #[test]
    fn text_behind_noise_shrinks_again() {
        let content = [noise(4 << 20), text(40 << 20)].concat();
        let sent = frames(content.chunks(BLOCK_BYTES));
        assert!(sent.len() < 20 << 20, "{} bytes", sent.len());
        assert_eq!(plain([&sent[..]]), Ok(content));
    }

    #[test]
    fn each_block_can_be_read_as_soon_as_it_is_there() {
        let (mut compressor, mut decompressor) = (Compressor::new().unwrap(), Decompressor::new().unwrap());
        for block in [text(10), text(50_000), vec![7]] {
            let mut out = Vec::new();
            compressor.put(&block, &mut out).unwrap();
            let mut input = &out[..];
            let mut got = Vec::new();
            while let Some(bytes) = decompressor.next_bytes(&mut input).unwrap() {
                got.extend_from_slice(bytes);
            }
            assert_eq!(got, block);
        }
    }

    #[test]
    fn frames_that_lie_are_refused() {
        let header = |raw: usize, stored: usize| {
            let mut out = Vec::new();
            put_frame(&mut out, raw, stored, &[1; 100]);
            plain([&out[..]])
        };
        let length =
            |raw: usize, stored: usize| Err(FrameError::Length { raw: raw as u64, stored: stored as u64 });
        assert_eq!(header(0, 0), length(0, 0));
        assert_eq!(header(BLOCK_BYTES + 1, 0), length(BLOCK_BYTES + 1, 0));
        assert_eq!(header(5, 2 * BLOCK_BYTES), length(5, 2 * BLOCK_BYTES));
        assert!(matches!(header(100, 100), Err(FrameError::Damaged(_))));

        let mut sent = frames([&text(1_000)[..]]);
        for lie in [999, 1_001] {
            let mut out = Vec::new();
            put_number(&mut out, lie);
            out.extend_from_slice(&sent[2..]);
            assert!(matches!(plain([&out[..]]), Err(FrameError::Damaged(_))), "{lie}");
        }
        sent.pop();
        assert_eq!(plain([&sent[..]]), Err(FrameError::Truncated));
    }

    #[test]
    fn a_small_frame_cannot_grow_beyond_its_word() {
        // 64 MiB of zeros, in a frame that says it holds 100 bytes.
        let bomb = zstd::bulk::compress(&vec![0; 64 << 20], 3).unwrap();
        let mut out = Vec::new();
        put_frame(&mut out, 100, bomb.len(), &bomb);
        assert!(matches!(plain([&out[..]]), Err(FrameError::Damaged(_))));
    }

    proptest! {
        #[test]
        fn frames_survive_being_cut_anywhere(length in 0usize..300_000, block in 1usize..300_000, piece in 1usize..5_000) {
            let content = text(length);
            let sent = frames(content.chunks(block));
            prop_assert_eq!(plain(sent.chunks(piece)), Ok(content));
        }

        #[test]
        fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = plain([&bytes[..]]);
        }
    }
}
