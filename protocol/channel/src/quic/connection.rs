//! One QUIC connection: from the handshake to the goodbye.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{FutureExt, future::BoxFuture};
use libp2p_core::muxing::{StreamMuxer, StreamMuxerEvent};
use libp2p_identity::PeerId;
use noq::{Connection, ConnectionError, RecvStream, SendStream, VarInt};
use rustls::pki_types::CertificateDer;
use tokio::time::{sleep, timeout};

use super::{error::lost, stream::Stream, window::Window};
use crate::{limits::QUIC_FAREWELL, settings::QuicFlow, tls::peer_of};

/// Waits for the handshake, which proves who the peer is.
pub(super) async fn established(
    connecting: impl Future<Output = io::Result<Connection>>,
) -> io::Result<(PeerId, Connection)> {
    let connection = connecting.await?;
    let chain = connection.peer_identity().and_then(|chain| chain.downcast::<Vec<CertificateDer<'_>>>().ok());
    let peer = peer_of(chain.as_deref().map(Vec::as_slice))?;
    Ok((peer, connection))
}

type Streams = BoxFuture<'static, Result<(SendStream, RecvStream), ConnectionError>>;

/// The connection as a swarm uses it.
pub(super) struct Muxer {
    connection: Connection,
    window: Arc<Window>,
    accepting: Option<Streams>,
    opening: Option<Streams>,
    closing: Option<BoxFuture<'static, ()>>,
}

impl Muxer {
    pub(super) fn new(connection: Connection, flow: QuicFlow) -> Self {
        let window = Arc::new(Window::new(connection.clone(), flow));
        Self { connection, window, accepting: None, opening: None, closing: None }
    }
}

impl StreamMuxer for Muxer {
    type Substream = Stream;
    type Error = io::Error;

    fn poll_inbound(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let this = &mut *self;
        let accepting = this.accepting.get_or_insert_with(|| {
            let connection = this.connection.clone();
            async move { connection.accept_bi().await }.boxed()
        });
        let accepted = ready!(accepting.poll_unpin(context));
        this.accepting = None;
        Poll::Ready(accepted.map(|ends| Stream::new(ends, this.window.clone())).map_err(lost))
    }

    fn poll_outbound(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<Stream>> {
        let this = &mut *self;
        let opening = this.opening.get_or_insert_with(|| {
            let connection = this.connection.clone();
            async move { connection.open_bi().await }.boxed()
        });
        let opened = ready!(opening.poll_unpin(context));
        this.opening = None;
        Poll::Ready(opened.map(|ends| Stream::new(ends, this.window.clone())).map_err(lost))
    }

    /// The peer's address never changes: migration is off.
    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        Poll::Pending
    }

    /// Ready once the peer has been told, so that the process may end after it.
    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let closing = this.closing.get_or_insert_with(|| say_goodbye(this.connection.clone()).boxed());
        ready!(closing.poll_unpin(context));
        Poll::Ready(Ok(()))
    }
}

/// The library sends the goodbye from a task of its own and has nothing to wait for; its counter of sent frames
/// moves in the same step in which the socket takes the datagram.
async fn say_goodbye(connection: Connection) {
    connection.close(VarInt::from_u32(0), b"");
    let told = async {
        while connection.stats().frame_tx.connection_close == 0 {
            sleep(Duration::from_millis(1)).await;
        }
    };
    if connection.close_reason() == Some(ConnectionError::LocallyClosed)
        && timeout(QUIC_FAREWELL, told).await.is_err()
    {
        tracing::debug!("the socket did not take the end of a connection in time");
    }
}
