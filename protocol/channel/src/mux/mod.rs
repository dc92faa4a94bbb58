//! Many streams on one ordered connection, by yamux (<https://github.com/hashicorp/yamux/blob/master/spec.md>).
//!
//! `core` decides and knows no socket; `inbox` and `window` are its parts, `frame` the bytes. [`Multiplexer`] moves bytes
//! between it and the connection below, in few packets (`gathering`), and [`Stream`] between it and whoever uses a stream.
//! Decision 0017 says why it is our own.

mod core;
mod frame;
mod gathering;
mod inbox;
mod stream;
#[cfg(test)]
mod tests;
mod window;

use std::{
    io,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll, Waker},
    time::Duration,
};

use futures::{AsyncRead, AsyncWrite, ready};
use libp2p_core::muxing::{StreamMuxer, StreamMuxerEvent};
use tokio::time::{Instant, Sleep, sleep};

use self::{
    core::{Content, Core, End, Heard},
    frame::{HEADER_BYTES, Header, Kind},
    gathering::Gathering,
    inbox::Chunk,
};
use crate::{
    limits::{
        CLOSING_BYTES, CLOSING_TIME, FRAMES_PER_TURN, SMALL_WRITE_BYTES, SMALL_WRITES_BYTES, TCP_FAREWELL,
    },
    settings::TcpFlow,
    setup::describe,
};

pub(crate) use self::core::Role;
pub(crate) use stream::Stream;

/// The name by which it is agreed on.
pub(crate) const PROTOCOL: &str = "/yamux/1.0.0";

/// How a peer broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Violation {
    #[error("a frame of version {0}, there is only 0")]
    Version(u8),
    #[error("a frame of kind {0}, there are 0 to 3")]
    Kind(u8),
    #[error("stream {0} was begun, which is not free or not the peer's to begin")]
    Stream(u32),
    #[error("too many streams were begun")]
    Streams,
    #[error("stream {0} has more content than its window allows")]
    Window(u32),
    #[error("stream {0} has content behind its end")]
    AfterEnd(u32),
    #[error("the window of stream {0} grew beyond 4 GiB")]
    WindowOverflow(u32),
    #[error("more was sent than is kept for streams that are not read")]
    Unread,
}

/// A multiplexed connection over `io`.
#[derive(Debug)]
pub(crate) struct Multiplexer<C> {
    io: C,
    began: Instant,
    shared: Shared,
    incoming: Incoming,
    outgoing: Outgoing,
    gathering: Gathering,
    written_bytes: u64,
    acceptor: Option<Waker>,
    closing: Closing,
}

/// How far the end of a connection has come.
#[derive(Debug)]
enum Closing {
    /// Nobody wants it.
    Open,
    /// Goodbye is said behind all that was written, to a peer that takes it in time.
    Speaking { until: Pin<Box<Sleep>>, is_spoken_to: bool },
    /// All was said. What the peer sent before it heard that is read and dropped, so many bytes at most.
    Hearing { until: Pin<Box<Sleep>>, left: usize },
}

/// What the connection and its streams share.
#[derive(Debug, Clone)]
struct Shared(Arc<Mutex<Core>>);

impl Shared {
    fn core(&self) -> MutexGuard<'_, Core> {
        // Nothing in it panics half way but on a broken invariant.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What is being read.
#[derive(Debug)]
enum Incoming {
    Header {
        bytes: [u8; HEADER_BYTES],
        filled: usize,
    },
    /// Content of a stream, of which so many bytes are left.
    Content {
        stream: u32,
        left: usize,
        ends: bool,
        chunk: Chunk,
    },
    /// Content that nobody takes.
    Nothing {
        left: usize,
    },
}

impl Incoming {
    const START: Self = Self::Header { bytes: [0; HEADER_BYTES], filled: 0 };
}

/// What is being written: first `control`, then `frames`, of both of which so many bytes are done.
#[derive(Debug, Default)]
struct Outgoing {
    control: Vec<u8>,
    frames: Vec<u8>,
    done: usize,
    needs_flush: bool,
}

impl Outgoing {
    fn left(&self) -> &[u8] {
        let control = self.control.len();
        match self.control.get(self.done..) {
            Some(left) if !left.is_empty() => left,
            Some(_) | None => self.frames.get(self.done - control..).unwrap_or_default(),
        }
    }

    /// What is written next, behind `written_bytes`. Each write is sealed by itself, and nothing of it can be read before
    /// all has come: at first, when few packets go at once, each is to bring something.
    fn next(&self, written_bytes: u64) -> &[u8] {
        let left = self.left();
        let most = if written_bytes < SMALL_WRITES_BYTES { SMALL_WRITE_BYTES } else { left.len() };
        &left[..left.len().min(most)]
    }

    /// Takes what is to be sent next; whether there is anything.
    fn refill(&mut self, shared: &Shared, now: Duration) -> bool {
        self.control.clear();
        self.frames.clear();
        self.done = 0;
        shared.core().collect(&mut self.control, &mut self.frames, now);
        !self.left().is_empty()
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> Multiplexer<C> {
    pub(crate) fn new(io: C, role: Role) -> Self {
        Self {
            io,
            began: Instant::now(),
            shared: Shared(Arc::new(Mutex::new(Core::new(role)))),
            incoming: Incoming::START,
            outgoing: Outgoing::default(),
            gathering: Gathering::default(),
            written_bytes: 0,
            acceptor: None,
            closing: Closing::Open,
        }
    }

    /// The same with other bounds, before it is used.
    pub(crate) fn allowing(self, flow: TcpFlow) -> Self {
        self.shared.core().allow(flow);
        self
    }

    /// Moves bytes both ways until neither way takes more.
    fn drive(&mut self, context: &mut Context<'_>) -> Result<(), End> {
        self.shared.core().keep_driver(context);
        loop {
            let is_written = self.write(context).map_err(|error| lost(&error))?;
            match self.read(context)? {
                Progress::Pending => {}
                Progress::More => {
                    // Others get their turn; what was read may have to be answered.
                    let _ = self.write(context).map_err(|error| lost(&error))?;
                    context.waker().wake_by_ref();
                    return Ok(());
                }
            }
            // Answers to what was read, unless the connection takes no more anyway.
            if !is_written || !self.refill(context) {
                return Ok(());
            }
        }
    }

    /// Writes what there is; whether that is all.
    fn write(&mut self, context: &mut Context<'_>) -> io::Result<bool> {
        loop {
            while !self.outgoing.left().is_empty() {
                let next = self.outgoing.next(self.written_bytes);
                let Poll::Ready(written) = Pin::new(&mut self.io).poll_write(context, next) else {
                    return Ok(false);
                };
                match written? {
                    0 => return Err(io::ErrorKind::WriteZero.into()),
                    bytes => {
                        self.outgoing.done += bytes;
                        self.written_bytes += bytes as u64;
                    }
                }
                self.outgoing.needs_flush = true;
            }
            if !self.refill(context) {
                break;
            }
        }
        if self.outgoing.needs_flush {
            let Poll::Ready(flushed) = Pin::new(&mut self.io).poll_flush(context) else { return Ok(true) };
            flushed?;
            self.outgoing.needs_flush = false;
        }
        Ok(true)
    }

    /// Takes what is to be sent next, unless it is little and may wait for more; whether there is anything.
    fn refill(&mut self, context: &mut Context<'_>) -> bool {
        let (waiting_bytes, round_trip) = {
            let core = self.shared.core();
            (core.waiting_bytes(), core.round_trip())
        };
        if matches!(self.closing, Closing::Open) && self.gathering.holds(waiting_bytes, round_trip, context) {
            return false;
        }
        let is_filled = self.outgoing.refill(&self.shared, self.began.elapsed());
        if is_filled {
            self.gathering.note_sent();
        }
        is_filled
    }

    /// Reads some frames.
    fn read(&mut self, context: &mut Context<'_>) -> Result<Progress, End> {
        for _ in 0..FRAMES_PER_TURN {
            if self.read_frame(context)?.is_pending() {
                return Ok(Progress::Pending);
            }
        }
        Ok(Progress::More)
    }

    /// Reads the rest of a header, or of the content behind it.
    fn read_frame(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, End> {
        match &mut self.incoming {
            Incoming::Header { bytes, filled } => {
                while *filled < HEADER_BYTES {
                    let Poll::Ready(read) = read_some(&mut self.io, context, &mut bytes[*filled..])? else {
                        return Ok(Poll::Pending);
                    };
                    *filled += read;
                }
                let header = Header::decode(*bytes).map_err(violated)?;
                self.incoming = self.begin(header)?;
            }
            Incoming::Nothing { left } => {
                let mut void = [0; 4 * 1024];
                while *left > 0 {
                    let length = void.len().min(*left);
                    let Poll::Ready(read) = read_some(&mut self.io, context, &mut void[..length])? else {
                        return Ok(Poll::Pending);
                    };
                    *left -= read;
                }
                self.incoming = Incoming::START;
            }
            Incoming::Content { .. } => return self.read_content(context),
        }
        Ok(Poll::Ready(()))
    }

    fn begin(&self, header: Header) -> Result<Incoming, End> {
        let mut core = self.shared.core();
        let content = core.hear(header, self.began.elapsed()).map_err(|heard| match heard {
            Heard::Goodbye => lost(&io::ErrorKind::UnexpectedEof.into()),
            Heard::Violation(violation) => violated(violation),
        })?;
        let left = match header.kind {
            Kind::Data => header.length as usize,
            Kind::Window | Kind::Ping | Kind::GoAway => 0,
        };
        Ok(match content {
            Content::Stream { ends } if left > 0 => {
                Incoming::Content { stream: header.stream, left, ends, chunk: core.buffer(left) }
            }
            Content::Nowhere if left > 0 => Incoming::Nothing { left },
            Content::Stream { .. } | Content::Nowhere => Incoming::START,
        })
    }

    /// Reads content, and delivers it when a buffer is full or nothing more is there.
    fn read_content(&mut self, context: &mut Context<'_>) -> Result<Poll<()>, End> {
        let Incoming::Content { stream, left, ends, chunk } = &mut self.incoming else {
            return Ok(Poll::Ready(()));
        };
        let mut is_pending = false;
        while *left > 0 && !is_pending {
            let room = chunk.room(*left);
            if room.is_empty() {
                break;
            }
            match read_some(&mut self.io, context, room)? {
                Poll::Ready(read) => {
                    chunk.fill(read);
                    *left -= read;
                }
                Poll::Pending => is_pending = true,
            }
        }
        let mut core = self.shared.core();
        if chunk.len() > 0 {
            let delivered = core.deliver(*stream, std::mem::take(chunk), *ends && *left == 0);
            let kept = delivered.map_err(violated)?;
            *chunk = match kept {
                Some(kept) if *left > 0 => kept,
                Some(kept) => {
                    core.spare(kept);
                    Chunk::default()
                }
                None if *left > 0 => core.buffer(*left),
                None => Chunk::default(),
            };
        }
        if *left == 0 {
            drop(core);
            self.incoming = Incoming::START;
        }
        Ok(if is_pending { Poll::Pending } else { Poll::Ready(()) })
    }

    /// Drives the connection; an error once it has ended.
    fn turn(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        if let Some(end) = self.shared.core().ended() {
            return Err(end.error());
        }
        if let Err(end) = self.drive(context) {
            let error = end.error();
            self.shared.core().end(end);
            return Err(error);
        }
        Ok(())
    }

    /// Writes all that was said, and that nothing more comes.
    fn speak_last(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.write(context)? {
            return Poll::Pending;
        }
        ready!(Pin::new(&mut self.io).poll_flush(context))?;
        Pin::new(&mut self.io).poll_close(context)
    }

    /// Reads what is there and drops it. A socket that is closed with something unread, or that gets something
    /// afterwards, takes back from the peer what it has not received yet.
    fn hear_last(&mut self, left: &mut usize, context: &mut Context<'_>) -> Poll<()> {
        let mut void = [0; 4 * 1024];
        for _ in 0..FRAMES_PER_TURN {
            match read_some(&mut self.io, context, &mut void) {
                Ok(Poll::Ready(read)) if read < *left => *left -= read,
                Ok(Poll::Pending) => return Poll::Pending,
                Ok(Poll::Ready(_)) | Err(_) => return Poll::Ready(()),
            }
        }
        context.waker().wake_by_ref();
        Poll::Pending
    }

    fn stream(&self, id: u32) -> Stream {
        Stream::new(self.shared.clone(), id)
    }
}

/// Whether more could be read at once.
enum Progress {
    Pending,
    More,
}

fn read_some(
    io: &mut (impl AsyncRead + Unpin),
    context: &mut Context<'_>,
    buffer: &mut [u8],
) -> Result<Poll<usize>, End> {
    match Pin::new(io).poll_read(context, buffer) {
        Poll::Ready(Ok(0)) => Err(lost(&io::ErrorKind::UnexpectedEof.into())),
        Poll::Ready(Ok(read)) => Ok(Poll::Ready(read)),
        Poll::Ready(Err(error)) => Err(lost(&error)),
        Poll::Pending => Ok(Poll::Pending),
    }
}

fn lost(error: &io::Error) -> End {
    End { kind: error.kind(), why: describe(error) }
}

fn violated(violation: Violation) -> End {
    End {
        kind: io::ErrorKind::InvalidData,
        why: format!("the peer broke the protocol of yamux: {violation}"),
    }
}

impl<C: AsyncRead + AsyncWrite + Unpin> StreamMuxer for Multiplexer<C> {
    type Substream = Stream;
    type Error = io::Error;

    fn poll_inbound(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let accepted = self.shared.core().accept();
        if let Some(id) = accepted {
            return Poll::Ready(Ok(self.stream(id)));
        }
        if let Some(end) = self.shared.core().ended() {
            return Poll::Ready(Err(end.error()));
        }
        self.acceptor = Some(context.waker().clone());
        Poll::Pending
    }

    fn poll_outbound(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let opened = self.shared.core().open(self.began.elapsed(), context);
        opened.map_ok(|id| self.stream(id))
    }

    /// Says goodbye behind everything that streams have written, to a peer that takes it in time. Where the peer is likely to be sending, it then waits
    /// for the peer's end, and not long.
    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match std::mem::replace(&mut self.closing, Closing::Open) {
                Closing::Open => {
                    let is_spoken_to = self.shared.core().close(self.began.elapsed());
                    self.closing = Closing::Speaking { until: Box::pin(sleep(TCP_FAREWELL)), is_spoken_to };
                }
                Closing::Speaking { mut until, is_spoken_to } => {
                    let is_late = until.as_mut().poll(context).is_ready();
                    self.closing = Closing::Speaking { until, is_spoken_to };
                    if is_late {
                        return Poll::Ready(Ok(()));
                    }
                    ready!(self.speak_last(context))?;
                    let mut left = CLOSING_BYTES;
                    if !is_spoken_to {
                        // At most an answer to a ping is there.
                        let _ = self.hear_last(&mut left, context);
                        return Poll::Ready(Ok(()));
                    }
                    self.closing = Closing::Hearing { until: Box::pin(sleep(CLOSING_TIME)), left };
                }
                Closing::Hearing { mut until, mut left } => {
                    let is_over = self.hear_last(&mut left, context).is_ready()
                        || until.as_mut().poll(context).is_ready();
                    self.closing = Closing::Hearing { until, left };
                    return if is_over { Poll::Ready(Ok(())) } else { Poll::Pending };
                }
            }
        }
    }

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        if let Err(error) = self.turn(context) {
            return Poll::Ready(Err(error));
        }
        if self.shared.core().has_arrived()
            && let Some(acceptor) = self.acceptor.take()
        {
            acceptor.wake();
        }
        Poll::Pending
    }
}

impl<C> Drop for Multiplexer<C> {
    fn drop(&mut self) {
        let mut core = self.shared.core();
        core.end(End { kind: io::ErrorKind::ConnectionAborted, why: "the connection was given up".into() });
    }
}
