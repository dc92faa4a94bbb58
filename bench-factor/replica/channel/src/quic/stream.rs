//! One stream of a QUIC connection.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use futures::{AsyncRead, AsyncWrite};
use noq::{ReadError, RecvStream, SendStream, VarInt, WriteError};

use super::{error::lost, window::Window};

/// Both directions of a stream. Closing it ends our direction; a stream that is dropped before that is reset, so
/// that the peer never takes what it got for the whole.
pub(super) struct Stream {
    send: SendStream,
    receive: RecvStream,
    window: Arc<Window>,
    closed: bool,
}

impl Stream {
    pub(super) fn new((send, receive): (SendStream, RecvStream), window: Arc<Window>) -> Self {
        Self { send, receive, window, closed: false }
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = ready!(self.receive.poll_read(context, buffer)).map_err(read_error)?;
        self.window.on_read(read);
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
        ReadError::ClosedStream | ReadError::ZeroRttRejected | ReadError::IllegalOrderedRead => {
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
