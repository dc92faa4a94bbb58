//! The last words of a connection reach a peer that is still sending, and nobody is waited for for long.

use futures::channel::oneshot as signal;
use tokio::net::{TcpListener, TcpSocket};

use super::*;
use crate::limits::CLOSING_TIME;

/// A connection that tells when its end was said.
struct Telling {
    stream: TcpStream,
    said: Option<signal::Sender<()>>,
}

impl AsyncRead for Telling {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl AsyncWrite for Telling {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let closed = Pin::new(&mut self.stream).poll_close(context);
        if closed.is_ready()
            && let Some(said) = self.said.take()
        {
            let _ = said.send(());
        }
        closed
    }
}

/// Two sockets, of which the accepted one takes little and the dialed one a lot of what is not read.
async fn narrow_sockets() -> (TcpStream, tokio::net::TcpStream) {
    let listening = TcpSocket::new_v4().unwrap();
    listening.set_recv_buffer_size(4 * 1024).unwrap();
    listening.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener: TcpListener = listening.listen(1).unwrap();
    let dialing = TcpSocket::new_v4().unwrap();
    dialing.set_send_buffer_size(1024 * 1024).unwrap();
    let (dialed, accepted) =
        futures::join!(dialing.connect(listener.local_addr().unwrap()), listener.accept());
    (TcpStream(dialed.unwrap()), accepted.unwrap().0)
}

async fn close<C: AsyncRead + AsyncWrite + Unpin>(mut muxer: Multiplexer<C>) {
    poll_fn(|context| Pin::new(&mut muxer).poll_close(context)).await.unwrap();
}

/// Drives a connection until the peer's stream is there.
async fn accept<C: AsyncRead + AsyncWrite + Unpin>(muxer: &mut Multiplexer<C>) -> super::super::Stream {
    let accepting = poll_fn(|context| {
        assert!(Pin::new(&mut *muxer).poll(context).is_pending());
        Pin::new(&mut *muxer).poll_inbound(context)
    });
    timeout(PATIENCE, accepting).await.unwrap().unwrap()
}

#[tokio::test]
async fn a_peer_that_still_sends_gets_the_last_words() {
    // given a peer with a stream that it goes on with, and that has not read yet what is said to it
    let (near, far) = narrow_sockets().await;
    let (said, hearing) = signal::channel();
    let mut muxer = Multiplexer::new(Telling { stream: near, said: Some(said) }, Role::Listener);
    let mut peer = Raw(far);
    peer.data(SYN, 1, b"begun").await;
    let mut stream = accept(&mut muxer).await;
    let words = content(7, 100_000);
    stream.write_all(&words[..60_000]).await.unwrap();
    stream.write_all(&words[60_000..]).await.unwrap();
    // when this side ends the connection, and the peer goes on after that
    let closing = tokio::spawn(close(muxer));
    hearing.await.unwrap();
    let (mut heard, mut buffer) = (Vec::new(), [0; 1_000]);
    loop {
        peer.data(0, 1, b"more").await;
        match timeout(PATIENCE, peer.0.read(&mut buffer)).await.unwrap() {
            Ok(0) => break,
            read => heard.extend_from_slice(&buffer[..read.unwrap()]),
        }
    }
    // then it hears everything, and the goodbye at its end
    let goodbye = Header { kind: Kind::GoAway, flags: 0, stream: 0, length: 0 }.encode();
    assert!(heard.len() > words.len() && heard.ends_with(&goodbye), "{} bytes", heard.len());
    drop(peer);
    timeout(PATIENCE, closing).await.unwrap().unwrap();
}

/// How long the end takes where the peer has done this, so long ago, and neither says more nor ends.
async fn closing_time(frames: &[(u16, u32)], silence: Duration) -> Duration {
    let (near, far) = narrow_sockets().await;
    let mut muxer = Multiplexer::new(near, Role::Listener);
    let mut peer = Raw(far);
    let mut streams = Vec::new();
    for &(flags, stream) in frames {
        peer.data(flags, stream, b"word").await;
        streams.push(accept(&mut muxer).await);
    }
    tokio::time::pause();
    tokio::time::advance(silence).await;
    let began = Instant::now();
    close(muxer).await;
    let took = began.elapsed();
    tokio::time::resume();
    took
}

#[tokio::test]
async fn a_peer_that_has_said_all_is_not_waited_for() {
    assert!(closing_time(&[], Duration::ZERO).await < CLOSING_TIME);
    assert!(closing_time(&[(SYN | FIN, 1)], Duration::ZERO).await < CLOSING_TIME);
}

#[tokio::test]
async fn a_peer_that_was_silent_for_long_is_not_waited_for() {
    assert!(closing_time(&[(SYN, 1)], 2 * CLOSING_TIME).await < CLOSING_TIME);
}

#[tokio::test]
async fn a_peer_that_may_go_on_and_does_nothing_is_waited_for_a_second_only() {
    let took = closing_time(&[(SYN | FIN, 1), (SYN, 3)], Duration::ZERO).await;
    assert!(took >= CLOSING_TIME && took < 2 * CLOSING_TIME, "{took:?}");
}

#[tokio::test]
async fn a_stream_that_was_dropped_while_the_peer_sent_counts_as_one_on_which_it_may_go_on() {
    let (near, far) = narrow_sockets().await;
    let mut muxer = Multiplexer::new(near, Role::Listener);
    let mut peer = Raw(far);
    peer.data(SYN, 1, b"begun").await;
    drop(accept(&mut muxer).await);
    tokio::time::pause();
    let began = Instant::now();
    close(muxer).await;
    assert!(began.elapsed() >= CLOSING_TIME);
}
