//! One stream of a QUIC connection.

use std::{
    io,
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf as _, Bytes};
use futures::{AsyncRead, AsyncWrite};
use noq::{ReadError, RecvStream, SendStream, VarInt, WriteError};

use super::{error::lost, window::Window};
use crate::limits::{QUIC_SLICES, QUIC_USUAL_DATAGRAM_BYTES};

/// Both directions of a stream. Closing it ends our direction; a stream that is dropped before that is reset, so
/// that the peer never takes what it got for the whole.
pub(super) struct Stream {
    send: SendStream,
    receive: RecvStream,
    arrived: Arrived,
    window: Arc<Window>,
    closed: bool,
}

/// What was taken from the connection and not yet from the stream. It is copied from here, so that meanwhile the
/// connection is free to go on.
#[derive(Default)]
struct Arrived {
    slices: Vec<Bytes>,
    /// The first that is not used up.
    next: usize,
}

impl Stream {
    pub(super) fn new((send, receive): (SendStream, RecvStream), window: Arc<Window>) -> Self {
        Self { send, receive, arrived: Arrived::default(), window, closed: false }
    }
}

impl Arrived {
    fn is_empty(&self) -> bool {
        self.next == self.slices.len()
    }

    /// Takes about as much as a reader of `wanted` bytes needs; nothing at the end of the stream.
    fn poll_fill(
        &mut self,
        context: &mut Context<'_>,
        receive: &mut RecvStream,
        wanted: usize,
    ) -> Poll<Result<(), ReadError>> {
        let most = wanted.div_ceil(QUIC_USUAL_DATAGRAM_BYTES.into()).min(QUIC_SLICES);
        self.next = 0;
        self.slices.resize(most, Bytes::new());
        let taken = pin!(receive.read_many_chunks(&mut self.slices)).poll(context);
        let count = match &taken {
            Poll::Ready(Ok(Some(count))) => *count,
            Poll::Ready(Ok(None) | Err(_)) | Poll::Pending => 0,
        };
        self.slices.truncate(count);
        taken.map_ok(|_| ())
    }

    /// Copies as much as there is and fits; says how much.
    fn copy_to(&mut self, buffer: &mut [u8]) -> usize {
        let mut copied = 0;
        while let Some(slice) = self.slices.get_mut(self.next)
            && copied < buffer.len()
        {
            let length = slice.len().min(buffer.len() - copied);
            slice.copy_to_slice(&mut buffer[copied..copied + length]);
            copied += length;
            if slice.is_empty() {
                // Its datagram need not be kept any longer.
                *slice = Bytes::new();
                self.next += 1;
            }
        }
        copied
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let this = &mut *self;
        if this.arrived.is_empty() {
            ready!(this.arrived.poll_fill(context, &mut this.receive, buffer.len())).map_err(read_error)?;
        }
        let read = this.arrived.copy_to(buffer);
        this.window.on_read(read);
        Poll::Ready(Ok(read))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.send).poll_write(context, bytes).map_err(write_error)
    }

    /// What was written is sent without being asked.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends our direction at once; the library repeats what gets lost for as long as the connection lives.
    fn poll_close(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.closed {
            self.closed = true;
            self.send.finish().map_err(|closed| write_error(closed.into()))?;
        }
        Poll::Ready(Ok(()))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !self.closed {
            // It fails only where there is nothing left to reset.
            let _ = self.send.reset(VarInt::from_u32(0));
        }
    }
}

fn read_error(error: ReadError) -> io::Error {
    match error {
        ReadError::ConnectionLost(cause) => lost(cause),
        ReadError::Reset(_) => io::Error::new(io::ErrorKind::ConnectionReset, error),
        ReadError::ClosedStream | ReadError::ZeroRttRejected => {
            io::Error::new(io::ErrorKind::NotConnected, error)
        }
    }
}

fn write_error(error: WriteError) -> io::Error {
    match error {
        WriteError::ConnectionLost(cause) => lost(cause),
        WriteError::Stopped(_) => io::Error::new(io::ErrorKind::ConnectionReset, error),
        WriteError::ClosedStream | WriteError::ZeroRttRejected => {
            io::Error::new(io::ErrorKind::NotConnected, error)
        }
    }
}
