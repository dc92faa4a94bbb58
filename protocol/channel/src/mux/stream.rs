//! [`Stream`]: the handle of one stream of a multiplexed connection.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{AsyncRead, AsyncWrite};

use super::Shared;

/// One ordered byte channel. Dropping it before it is closed resets it, and the peer sees an error; once the peer has
/// ended its half, dropping it ends this one.
#[derive(Debug)]
pub(crate) struct Stream {
    shared: Shared,
    id: u32,
}

impl Stream {
    pub(super) fn new(shared: Shared, id: u32) -> Self {
        Self { shared, id }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.shared.core().forget(self.id);
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        self.shared.core().read(self.id, buffer, context)
    }
}

impl AsyncWrite for Stream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.shared.core().write(self.id, bytes, context)
    }

    /// What was written goes out by itself, in order.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Ends this half behind what was written; it does not wait for the peer.
    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.shared.core().finish(self.id))
    }
}
