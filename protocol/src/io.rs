//! The pump: moves messages and blocks between streams and whoever makes or takes them.
//!
//! Everything here is generic over futures' `AsyncRead` and `AsyncWrite`, so that the node, the study and a
//! test over memory move bytes by the same code.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll, Waker, ready},
};

use futures::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};

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

/// A block that a stream fills again and again. It grows as it is filled, and its memory is zeroed only then.
#[derive(Debug)]
pub struct ReadBlock {
    buffer: Vec<u8>,
    filled: usize,
    /// Most bytes of a block.
    block_bytes: usize,
    ended: bool,
}

impl ReadBlock {
    /// A block of at most `block_bytes`.
    pub fn new(block_bytes: usize) -> Self {
        Self { buffer: vec![0; FIRST_BLOCK_BYTES.min(block_bytes)], filled: 0, block_bytes, ended: false }
    }

    /// What was read last.
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[..self.filled]
    }

    /// Reads over what was read before: at least one byte, then all that is there without waiting.
    /// Says whether there was any; none is the end of the stream. May be dropped while it waits, and tried
    /// again: nothing read is lost.
    pub async fn read(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        poll_fn(|context| self.poll_read(context, stream)).await
    }

    /// Reads as [`Self::read`] does, but waits for nothing. Says whether there was any; none may come later, or be the
    /// end. Nobody is woken for what comes later.
    pub fn read_now(&mut self, stream: &mut (impl AsyncRead + Unpin)) -> io::Result<bool> {
        match self.poll_read(&mut Context::from_waker(Waker::noop()), stream) {
            Poll::Ready(read) => read,
            Poll::Pending => Ok(false),
        }
    }

    fn poll_read(
        &mut self,
        context: &mut Context<'_>,
        stream: &mut (impl AsyncRead + Unpin),
    ) -> Poll<io::Result<bool>> {
        if self.filled == self.buffer.len() {
            self.buffer.resize((2 * self.filled).min(self.block_bytes), 0);
        }
        self.filled = 0;
        while !self.ended && self.filled < self.buffer.len() {
            match Pin::new(&mut *stream).poll_read(context, &mut self.buffer[self.filled..]) {
                Poll::Ready(Ok(0)) => self.ended = true,
                Poll::Ready(Ok(length)) => self.filled += length,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending if self.filled == 0 => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        Poll::Ready(Ok(self.filled > 0))
    }
}

/// A block on its way to a stream, filled anew once it is written.
#[derive(Debug, Default)]
pub struct WriteBlock {
    block: Vec<u8>,
    written: usize,
}

impl WriteBlock {
    /// An empty block to fill. What was not written of the one before is dropped.
    pub fn renew(&mut self) -> &mut Vec<u8> {
        self.block.clear();
        self.written = 0;
        &mut self.block
    }

    /// Writes and flushes what is left of the block. May be dropped while it waits, and goes on where it was.
    pub async fn write(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<()> {
        poll_fn(|context| self.poll_write(context, stream)).await
    }

    /// Writes as [`Self::write`] does, but waits for nothing. Says whether all is written; nobody is woken for the rest.
    pub fn write_now(&mut self, stream: &mut (impl AsyncWrite + Unpin)) -> io::Result<bool> {
        match self.poll_write(&mut Context::from_waker(Waker::noop()), stream) {
            Poll::Ready(written) => written.map(|()| true),
            Poll::Pending => Ok(false),
        }
    }

    fn poll_write(
        &mut self,
        context: &mut Context<'_>,
        stream: &mut (impl AsyncWrite + Unpin),
    ) -> Poll<io::Result<()>> {
        while self.written < self.block.len() {
            match ready!(Pin::new(&mut *stream).poll_write(context, &self.block[self.written..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => self.written += written,
            }
        }
        Pin::new(stream).poll_flush(context)
    }
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

    /// A stream that takes and gives in turns: one byte more each time, then nothing.
    #[derive(Default)]
    struct Hesitant {
        bytes: VecDeque<u8>,
        turn: usize,
    }

    impl Hesitant {
        /// How many bytes may pass in this turn; after none somebody is woken at once.
        fn allowed(&mut self, context: &mut Context<'_>) -> Poll<usize> {
            self.turn += 1;
            if self.turn.is_multiple_of(2) {
                context.waker().wake_by_ref();
                return Poll::Pending;
            }
            Poll::Ready(self.turn)
        }
    }

    impl AsyncRead for Hesitant {
        fn poll_read(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            buffer: &mut [u8],
        ) -> Poll<io::Result<usize>> {
            let most = ready!(self.allowed(context)).min(buffer.len());
            Poll::Ready(io::Read::read(&mut self.bytes, &mut buffer[..most]))
        }
    }

    impl AsyncWrite for Hesitant {
        fn poll_write(
            mut self: Pin<&mut Self>,
            context: &mut Context<'_>,
            bytes: &[u8],
        ) -> Poll<io::Result<usize>> {
            let most = ready!(self.allowed(context)).min(bytes.len());
            Poll::Ready(io::Write::write(&mut self.bytes, &bytes[..most]))
        }

        fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }

        fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            Poll::Ready(Ok(()))
        }
    }

    #[test]
    fn blocks_are_filled_from_what_is_there_and_grow_as_they_are_filled() {
        let mut stream = Cursor::new(vec![1u8; 100 * 1024]);
        let mut block = ReadBlock::new(40 * 1024);
        let mut lengths = Vec::new();
        while block_on(block.read(&mut stream)).unwrap() {
            lengths.push(block.bytes().len() / 1024);
        }
        assert_eq!(lengths, [16, 32, 40, 12]);
        assert!(!block_on(block.read(&mut stream)).unwrap(), "the end stays the end");
    }

    #[test]
    fn what_goes_out_comes_in_whether_it_is_waited_for_or_not() {
        let content: Vec<u8> = (0..=255).cycle().take(50_000).collect();
        for patient in [true, false] {
            let (mut wire, mut outgoing) = (Hesitant::default(), WriteBlock::default());
            for block in content.chunks(7_000) {
                outgoing.renew().extend_from_slice(block);
                while !patient && !outgoing.write_now(&mut wire).unwrap() {}
                block_on(outgoing.write(&mut wire)).unwrap();
            }
            let (mut incoming, mut got) = (ReadBlock::new(4_096), Vec::new());
            while got.len() < content.len() {
                let read =
                    if patient { block_on(incoming.read(&mut wire)) } else { incoming.read_now(&mut wire) };
                got.extend_from_slice(if read.unwrap() { incoming.bytes() } else { &[] });
            }
            assert!(!block_on(incoming.read(&mut wire)).unwrap());
            assert!(got == content, "patient: {patient}");
        }
    }

    #[test]
    fn a_stream_that_takes_nothing_more_is_an_error() {
        let mut outgoing = WriteBlock::default();
        outgoing.renew().extend_from_slice(&[1; 10]);
        let error = block_on(outgoing.write(&mut Cursor::new([0; 4].as_mut_slice()))).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::WriteZero);
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
