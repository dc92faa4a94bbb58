//! The pump: moves messages and blocks between streams and whoever makes or takes them.
//!
//! Everything here is generic over futures' `AsyncRead` and `AsyncWrite`, so that the node, the study and a
//! test over memory move bytes by the same code.

use std::{future::poll_fn, io, pin::Pin, task::Poll};

use futures::{
    future::join,
    io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _},
};

use crate::{
    message::{Frames, Message, MessageError, SessionId, encode},
    session::Violation,
};

/// Bytes asked for in one read of the control stream.
const READ_BYTES: usize = 16 * 1024;

/// Bytes of the first block read from a stream. A block that was filled doubles the next, so that a stream
/// of one small file costs little memory.
const FIRST_BLOCK_BYTES: usize = 16 * 1024;

/// What a stream is for; its first bytes say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StreamKind {
    /// Control messages of a session that begins with them.
    Control,
    /// Segments of a session.
    Data(SessionId, DataForm),
    /// Nothing but that its connection belongs to a session.
    Join(SessionId),
}

/// How the segments of a data stream cross.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct DataForm {
    /// Whether they are in frames ([`crate::record::compressed`]).
    pub compressed: bool,
    /// Whether the receiver acknowledges each of them.
    pub acknowledged: bool,
}

const CONTROL: u8 = 0;
const DATA: u8 = 1;
const COMPRESSED: u8 = 2;
const JOIN: u8 = 3;
const ACKNOWLEDGED: u8 = 5;
const ACKNOWLEDGED_COMPRESSED: u8 = 6;

/// What the side that takes a connection says on the stream by which it joins.
pub const JOINED: u8 = 0;

/// What a side that lets go of a connection says on that stream. Without it the connection was lost: a stream may
/// seem to end where its connection was cut.
pub const LEFT: u8 = 1;

impl StreamKind {
    /// Says what the stream is for; the first thing written to it.
    pub async fn write(self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        let (kind, session) = match self {
            Self::Control => return stream.write_all(&[CONTROL]).await,
            Self::Data(session, form) => (form.code(), session),
            Self::Join(session) => (JOIN, session),
        };
        let mut header = [kind; 17];
        header[1..].copy_from_slice(&session.0);
        stream.write_all(&header).await
    }

    /// Reads what the stream is for.
    pub async fn read(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Self> {
        let mut kind = [0];
        stream.read_exact(&mut kind).await?;
        let form = match kind[0] {
            CONTROL => return Ok(Self::Control),
            JOIN => None,
            DATA => Some(DataForm { compressed: false, acknowledged: false }),
            COMPRESSED => Some(DataForm { compressed: true, acknowledged: false }),
            ACKNOWLEDGED => Some(DataForm { compressed: false, acknowledged: true }),
            ACKNOWLEDGED_COMPRESSED => Some(DataForm { compressed: true, acknowledged: true }),
            other => {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidData,
                    format!("unknown kind of stream {other}"),
                ));
            }
        };
        let mut session = [0; 16];
        stream.read_exact(&mut session).await?;
        let session = SessionId(session);
        Ok(form.map_or(Self::Join(session), |form| Self::Data(session, form)))
    }
}

impl DataForm {
    fn code(self) -> u8 {
        match (self.compressed, self.acknowledged) {
            (false, false) => DATA,
            (true, false) => COMPRESSED,
            (false, true) => ACKNOWLEDGED,
            (true, true) => ACKNOWLEDGED_COMPRESSED,
        }
    }
}

/// Acknowledges segments: each byte stands for 1 to 255 of them.
pub async fn acknowledge(stream: &mut (impl AsyncWrite + Unpin), segments: usize) -> io::Result<()> {
    let mut bytes = vec![u8::MAX; segments / usize::from(u8::MAX)];
    bytes.extend(Some((segments % usize::from(u8::MAX)) as u8).filter(|rest| *rest > 0));
    stream.write_all(&bytes).await?;
    stream.flush().await
}

/// How many segments were acknowledged since the last call; `None` when the receiver has taken everything.
pub async fn read_acknowledged(stream: &mut (impl AsyncRead + Unpin)) -> io::Result<Option<usize>> {
    let mut bytes = [0; 64];
    match stream.read(&mut bytes).await? {
        0 => Ok(None),
        read if bytes[..read].contains(&0) => {
            Err(io::Error::new(io::ErrorKind::InvalidData, "no segments were acknowledged"))
        }
        read => Ok(Some(bytes[..read].iter().copied().map(usize::from).sum())),
    }
}

/// Sends one control message.
pub async fn write_message(stream: &mut (impl AsyncWrite + Unpin), message: &Message) -> io::Result<()> {
    stream.write_all(&encode(message)).await?;
    stream.flush().await
}

/// Why no message came.
#[derive(Debug)]
pub enum NoMessage {
    /// The stream failed or ended.
    Lost(String),
    /// The bytes that came are no message.
    Violation(Violation),
}

impl From<MessageError> for NoMessage {
    fn from(error: MessageError) -> Self {
        Self::Violation(error.into())
    }
}

/// Reads control messages from a stream.
#[derive(Debug)]
pub struct MessageReader<R> {
    stream: R,
    frames: Frames,
    buffer: Box<[u8]>,
}

impl<R: AsyncRead + Unpin> MessageReader<R> {
    /// A reader of what follows on `stream`.
    pub fn new(stream: R) -> Self {
        Self { stream, frames: Frames::default(), buffer: vec![0; READ_BYTES].into() }
    }

    /// The next message. May be dropped while it waits: nothing read is lost.
    pub async fn next(&mut self) -> Result<Message, NoMessage> {
        loop {
            if let Some(message) = self.frames.next_message()? {
                return Ok(message);
            }
            match self.stream.read(&mut self.buffer).await {
                Ok(0) if self.frames.is_mid_message() => {
                    return Err(NoMessage::Lost("the control stream ended within a message".into()));
                }
                Ok(0) => return Err(NoMessage::Lost("the control stream was closed".into())),
                Ok(length) => self.frames.push(&self.buffer[..length]),
                Err(error) => return Err(NoMessage::Lost(error.to_string())),
            }
        }
    }
}

/// Reads a block: at least one byte, then all that is there without waiting, up to `block_bytes` in all.
/// An empty block is the end of the stream. `block` is overwritten.
pub async fn read_block(
    stream: &mut (impl AsyncRead + Unpin),
    block: &mut Vec<u8>,
    block_bytes: usize,
) -> io::Result<()> {
    block.resize(block_bytes, 0);
    let mut filled = 0;
    let outcome = poll_fn(|cx| {
        while filled < block_bytes {
            match Pin::new(&mut *stream).poll_read(cx, &mut block[filled..]) {
                Poll::Pending if filled == 0 => return Poll::Pending,
                Poll::Pending | Poll::Ready(Ok(0)) => break,
                Poll::Ready(Ok(length)) => filled += length,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
            }
        }
        Poll::Ready(Ok(()))
    })
    .await;
    block.truncate(filled);
    outcome
}

/// Moves blocks of at most `block_bytes` from a stream to `take` until the stream ends, reading the next one while the last is taken.
/// `take` gives its block back to be filled again. Ends early with the error of either side.
pub async fn pump_in<E: From<io::Error>, F: Future<Output = Result<Vec<u8>, E>>>(
    stream: &mut (impl AsyncRead + Unpin),
    block_bytes: usize,
    mut take: impl FnMut(Vec<u8>) -> F,
) -> Result<(), E> {
    let mut current = Vec::new();
    let mut spare = Vec::new();
    let mut asked = FIRST_BLOCK_BYTES.min(block_bytes);
    read_block(stream, &mut current, asked).await?;
    while !current.is_empty() {
        if current.len() == asked {
            asked = (2 * asked).min(block_bytes);
        }
        let (read, taken) = join(read_block(stream, &mut spare, asked), take(current)).await;
        current = taken?;
        read?;
        std::mem::swap(&mut current, &mut spare);
    }
    Ok(())
}

/// Moves blocks from `make` to a stream until there are no more, making the next one while the last is
/// written. `make` is given a block to fill again. The stream is left open.
pub async fn pump_out<E: From<io::Error>, F: Future<Output = Result<Option<Vec<u8>>, E>>>(
    stream: &mut (impl AsyncWrite + Unpin),
    mut make: impl FnMut(Vec<u8>) -> F,
) -> Result<(), E> {
    let mut spare = Vec::new();
    let mut current = make(Vec::new()).await?;
    while let Some(block) = current {
        let write = async {
            stream.write_all(&block).await?;
            stream.flush().await
        };
        let (written, made) = join(write, make(spare)).await;
        written?;
        spare = block;
        current = made?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use futures::{executor::block_on, io::Cursor};

    use super::*;

    #[test]
    fn a_stream_says_what_it_is_for() {
        let session = SessionId([7; 16]);
        let forms = [(false, false), (true, false), (false, true), (true, true)]
            .map(|(compressed, acknowledged)| DataForm { compressed, acknowledged });
        let data = forms.map(|form| StreamKind::Data(session, form));
        for kind in data.into_iter().chain([StreamKind::Control, StreamKind::Join(session)]) {
            let mut bytes = Vec::new();
            block_on(kind.write(&mut bytes)).unwrap();
            assert_eq!(block_on(StreamKind::read(&mut Cursor::new(bytes))).unwrap(), kind);
        }
        for unknown in [4, 7, 255] {
            assert!(block_on(StreamKind::read(&mut Cursor::new([unknown; 17]))).is_err());
        }
    }

    #[test]
    fn as_many_segments_are_acknowledged_as_were_taken() {
        for segments in [1, 254, 255, 256, 510, 6_000] {
            let mut bytes = Vec::new();
            block_on(acknowledge(&mut bytes, segments)).unwrap();
            let (mut stream, mut heard) = (Cursor::new(bytes), 0);
            while let Some(more) = block_on(read_acknowledged(&mut stream)).unwrap() {
                heard += more;
            }
            assert_eq!(heard, segments);
        }
        assert!(block_on(read_acknowledged(&mut Cursor::new([1, 0]))).is_err());
    }

    #[test]
    fn blocks_are_filled_from_what_is_there() {
        let mut stream = Cursor::new(vec![1u8; 10]);
        let mut block = Vec::new();
        let mut lengths = Vec::new();
        for _ in 0..4 {
            block_on(read_block(&mut stream, &mut block, 4)).unwrap();
            lengths.push(block.len());
        }
        assert_eq!(lengths, [4, 4, 2, 0]);
    }

    #[test]
    fn what_is_pumped_out_comes_in() {
        let mut source: VecDeque<Vec<u8>> = (1..=9u8).map(|n| vec![n; 1000 * usize::from(n)]).collect();
        let expected: Vec<u8> = source.iter().flatten().copied().collect();
        let mut wire = Vec::new();
        block_on(pump_out::<io::Error, _>(&mut wire, |_| {
            let next = source.pop_front();
            async { Ok(next) }
        }))
        .unwrap();
        let mut got = Vec::new();
        block_on(pump_in::<io::Error, _>(&mut Cursor::new(wire), 4096, |block| {
            got.extend_from_slice(&block);
            async { Ok(block) }
        }))
        .unwrap();
        assert_eq!(got, expected);
    }

    #[test]
    fn an_error_of_the_taker_ends_the_pump() {
        let mut stream = Cursor::new(vec![1u8; 10_000]);
        let mut taken = 0;
        let outcome = block_on(pump_in::<io::Error, _>(&mut stream, 1000, |_| {
            taken += 1;
            async { Err(io::Error::other("full")) }
        }));
        assert_eq!((outcome.unwrap_err().to_string(), taken), ("full".into(), 1));
    }

    #[test]
    fn messages_are_read_one_by_one_and_a_torn_one_is_lost() {
        let mut wire = Vec::new();
        block_on(write_message(&mut wire, &Message::Accept)).unwrap();
        block_on(write_message(&mut wire, &Message::KeepAlive)).unwrap();
        wire.pop();
        let mut reader = MessageReader::new(Cursor::new(wire));
        assert!(matches!(block_on(reader.next()), Ok(Message::Accept)));
        assert!(matches!(block_on(reader.next()), Err(NoMessage::Lost(detail)) if detail.contains("within")));
    }
}
