//! The multiplexer against itself, against the stock one, and against peers that keep to no rule.

mod closing;
mod interleavings;

use std::{
    env,
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use futures::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, future::join_all};
use libp2p_core::{
    StreamMuxer,
    muxing::{StreamMuxerBox, SubstreamBox},
    upgrade::{InboundConnectionUpgrade as _, OutboundConnectionUpgrade as _},
};
use libp2p_tcp::tokio::TcpStream;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::{Instant, timeout},
};

use super::{
    Multiplexer, Outgoing, PROTOCOL, Role, Shared,
    frame::{ACK, FIN, HEADER_BYTES, Header, Kind, RST, SYN},
    window::FIRST_WINDOW_BYTES,
};
use crate::limits::{SMALL_WRITE_BYTES, SMALL_WRITES_BYTES, UNREAD_BYTES, YAMUX_STREAMS};

/// Far above what anything here takes; it only keeps a failed test from hanging.
const PATIENCE: Duration = Duration::from_secs(60);

type Opened = oneshot::Sender<io::Result<SubstreamBox>>;

/// A connection that a task of its own drives.
struct Driven {
    requests: mpsc::UnboundedSender<Opened>,
    arrived: mpsc::UnboundedReceiver<SubstreamBox>,
    ended: JoinHandle<io::Error>,
}

impl Driven {
    fn new(muxer: impl StreamMuxer<Substream: Send + 'static, Error: Send + Sync> + Send + 'static) -> Self {
        let (requests, mut requested) = mpsc::unbounded_channel::<Opened>();
        let (arriving, arrived) = mpsc::unbounded_channel();
        let (mut muxer, mut opening) = (StreamMuxerBox::new(muxer), None);
        let mut drive = move |context: &mut Context<'_>| {
            while let Poll::Ready(Ok(stream)) = Pin::new(&mut muxer).poll_inbound(context) {
                drop(arriving.send(stream));
            }
            loop {
                if opening.is_none() {
                    let Poll::Ready(Some(request)) = requested.poll_recv(context) else { break };
                    opening = Some(request);
                }
                let Poll::Ready(opened) = Pin::new(&mut muxer).poll_outbound(context) else { break };
                drop(opening.take().map(|reply| reply.send(opened)));
            }
            match Pin::new(&mut muxer).poll(context) {
                Poll::Ready(Err(error)) => Poll::Ready(error),
                Poll::Ready(Ok(_)) | Poll::Pending => Poll::Pending,
            }
        };
        let ended = tokio::spawn(async move { poll_fn(|context| drive(context)).await });
        Self { requests, arrived, ended }
    }

    async fn open(&self) -> SubstreamBox {
        let (reply, opened) = oneshot::channel();
        self.requests.send(reply).unwrap();
        timeout(PATIENCE, opened).await.unwrap().unwrap().unwrap()
    }

    async fn accept(&mut self) -> SubstreamBox {
        timeout(PATIENCE, self.arrived.recv()).await.unwrap().unwrap()
    }

    async fn ended(self) -> io::Error {
        timeout(PATIENCE, self.ended).await.unwrap().unwrap()
    }
}

async fn sockets() -> (TcpStream, TcpStream) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (dialed, accepted) = futures::join!(tokio::net::TcpStream::connect(address), listener.accept());
    (TcpStream(dialed.unwrap()), TcpStream(accepted.unwrap().0))
}

/// Who the two ends are: the dialing one, then the accepting one.
#[derive(Debug, Clone, Copy)]
enum Ends {
    Ours,
    OursDialsStock,
    StockDialsOurs,
}

async fn connect(ends: Ends) -> (Driven, Driven) {
    let (near, far) = sockets().await;
    join(ends, near, far).await
}

/// Drives both ends of a connection over `near` and `far`.
async fn join<C>(ends: Ends, near: C, far: C) -> (Driven, Driven)
where
    C: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let stock = libp2p_yamux::Config::default;
    match ends {
        Ends::Ours => (
            Driven::new(Multiplexer::new(near, Role::Dialer)),
            Driven::new(Multiplexer::new(far, Role::Listener)),
        ),
        Ends::OursDialsStock => (
            Driven::new(Multiplexer::new(near, Role::Dialer)),
            Driven::new(stock().upgrade_inbound(far, PROTOCOL).await.unwrap()),
        ),
        Ends::StockDialsOurs => (
            Driven::new(stock().upgrade_outbound(near, PROTOCOL).await.unwrap()),
            Driven::new(Multiplexer::new(far, Role::Listener)),
        ),
    }
}

/// Bytes that say where they belong.
fn content(seed: usize, length: usize) -> Vec<u8> {
    (0..length).map(|index| (seed * 31 + index * 7 + index / 251) as u8).collect()
}

/// Sends `length` bytes and its end, and reads as many back.
async fn ask(mut stream: SubstreamBox, seed: usize, length: usize) {
    let sent = content(seed, length);
    let header = [(seed as u32).to_be_bytes(), (length as u32).to_be_bytes()].concat();
    stream.write_all(&header).await.unwrap();
    for piece in sent.chunks(1 + seed * 10_007) {
        stream.write_all(piece).await.unwrap();
    }
    stream.close().await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    assert!(answer == sent, "stream {seed}: {} of {length} bytes, or others", answer.len());
}

/// Reads to the end, and sends it all back.
async fn echo(mut stream: SubstreamBox) {
    let mut header = [0; 8];
    stream.read_exact(&mut header).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    stream.write_all(&bytes).await.unwrap();
    stream.close().await.unwrap();
}

#[test]
fn what_is_written_first_is_cut_into_packets_and_the_rest_is_not() {
    let outgoing = Outgoing { frames: vec![0; 10_000], ..Outgoing::default() };
    assert_eq!(outgoing.next(0).len(), SMALL_WRITE_BYTES);
    assert_eq!(outgoing.next(SMALL_WRITES_BYTES).len(), 10_000);
    let few = Outgoing { frames: vec![0; 10], ..Outgoing::default() };
    assert_eq!(few.next(0).len(), 10);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn streams_cross_whole_in_both_directions_with_ourselves_and_with_stock_peers() {
    for ends in [Ends::Ours, Ends::OursDialsStock, Ends::StockDialsOurs] {
        // given streams of all lengths, below and above windows and frames, opened by both sides
        let (mut near, mut far) = connect(ends).await;
        let lengths = [0, 1, 4_095, 65_537, 262_144, 262_145, 1_500_000];
        let mut asked = Vec::new();
        for (seed, length) in lengths.into_iter().enumerate() {
            asked.push(tokio::spawn(ask(near.open().await, seed, length)));
            asked.push(tokio::spawn(ask(far.open().await, seed, length)));
        }
        // when the other side sends them back
        for _ in lengths {
            tokio::spawn(echo(near.accept().await));
            tokio::spawn(echo(far.accept().await));
        }
        // then all is as it was
        for ended in timeout(PATIENCE, join_all(asked)).await.unwrap() {
            ended.unwrap();
        }
    }
}

#[tokio::test]
async fn a_dropped_stream_is_reset_and_a_closed_one_ends() {
    let (near, mut far) = connect(Ends::Ours).await;
    let mut dropped = near.open().await;
    dropped.write_all(b"half").await.unwrap();
    let mut read = far.accept().await;
    drop(dropped);
    let mut all = Vec::new();
    let error = read.read_to_end(&mut all).await.unwrap_err();
    assert_eq!((all.as_slice(), error.kind()), (b"half".as_slice(), io::ErrorKind::ConnectionReset));
    let mut closed = near.open().await;
    closed.write_all(b"all").await.unwrap();
    closed.close().await.unwrap();
    let mut read = far.accept().await;
    all.clear();
    read.read_to_end(&mut all).await.unwrap();
    assert_eq!(all, b"all");
}

#[tokio::test]
async fn a_stream_that_was_closed_and_forgotten_does_not_hold_the_peer_up() {
    // given a stream that is closed and dropped while the peer still sends
    let (near, mut far) = connect(Ends::Ours).await;
    let mut stream = near.open().await;
    stream.write_all(b"?").await.unwrap();
    stream.close().await.unwrap();
    drop(stream);
    // then the peer can send any number of windows
    let mut answering = far.accept().await;
    let block = vec![0; 100_000];
    for _ in 0..20 {
        timeout(PATIENCE, answering.write_all(&block)).await.unwrap().unwrap();
    }
    answering.close().await.unwrap();
}

#[tokio::test]
async fn both_sides_hear_the_end_of_a_connection() {
    let (near, far) = sockets().await;
    let (mut muxer, far) =
        (Multiplexer::new(near, Role::Dialer), Driven::new(Multiplexer::new(far, Role::Listener)));
    let mut open = far.open().await;
    poll_fn(|context| Pin::new(&mut muxer).poll_close(context)).await.unwrap();
    assert_eq!(open.read(&mut [0]).await.unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    assert_eq!(far.ended().await.to_string(), "connection closed by the peer");
}

/// rust-libp2p 5410: two sides that send and are sent much at once could wait for each other's window for ever.
/// `KETCH_SOAK_S` seconds, or ten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_sides_that_send_at_once_never_wait_for_each_other() {
    let seconds = soak_seconds();
    let until = Instant::now() + Duration::from_secs(seconds);
    let (mut near, mut far) = connect(Ends::Ours).await;
    let mut running = Vec::new();
    for seed in 0..16 {
        let (there, here) = (near.open().await, far.open().await);
        running.push(tokio::spawn(pump(there, seed, until)));
        running.push(tokio::spawn(pump(here, seed, until)));
    }
    for seed in 0..16 {
        running.push(tokio::spawn(pump(near.accept().await, seed, until)));
        running.push(tokio::spawn(pump(far.accept().await, seed, until)));
    }
    let limit = Duration::from_secs(seconds) + PATIENCE;
    for ended in timeout(limit, join_all(running)).await.unwrap() {
        ended.unwrap();
    }
}

#[expect(clippy::disallowed_methods, reason = "a longer soak is asked for from outside")]
fn soak_seconds() -> u64 {
    env::var("KETCH_SOAK_S").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// Sends as much as it can until the time is up, and reads to the end in pieces of an odd length.
async fn pump(stream: SubstreamBox, seed: usize, until: Instant) {
    let (mut reading, mut writing) = stream.split();
    let write = async {
        let block = content(seed, 1 + seed * 9_973);
        while Instant::now() < until {
            writing.write_all(&block).await.unwrap();
        }
        writing.close().await.unwrap();
    };
    let read = async {
        let mut block = vec![0; 1 + seed * 13_001];
        while reading.read(&mut block).await.unwrap() > 0 {}
    };
    futures::join!(write, read);
}

/// A peer that says what it likes to ours, which listens.
struct Raw(tokio::net::TcpStream);

impl Raw {
    async fn meet() -> (Self, Driven, Shared) {
        let (near, far) = sockets().await;
        let muxer = Multiplexer::new(far, Role::Listener);
        let shared = muxer.shared.clone();
        (Self(near.0), Driven::new(muxer), shared)
    }

    async fn say(&mut self, kind: Kind, flags: u16, stream: u32, length: u32, content: &[u8]) {
        let header = Header { kind, flags, stream, length }.encode();
        // One that was cut off takes no more.
        let _ = self.0.write_all(&[header.as_slice(), content].concat()).await;
    }

    async fn data(&mut self, flags: u16, stream: u32, content: &[u8]) {
        self.say(Kind::Data, flags, stream, content.len() as u32, content).await;
    }

    /// The next frame without content that fits.
    async fn hear(&mut self, fits: impl Fn(&Header) -> bool) -> Header {
        loop {
            let mut bytes = [0; HEADER_BYTES];
            timeout(PATIENCE, self.0.read_exact(&mut bytes)).await.unwrap().unwrap();
            let header = Header::decode(bytes).unwrap();
            if fits(&header) {
                return header;
            }
        }
    }
}

#[tokio::test]
async fn a_peer_that_ignores_windows_is_cut_off() {
    let (mut peer, driven, shared) = Raw::meet().await;
    let window = vec![0; FIRST_WINDOW_BYTES as usize];
    peer.data(SYN, 1, &window).await;
    peer.data(0, 1, b"x").await;
    let error = driven.ended().await;
    assert!(error.to_string().contains("stream 1 has more content than its window allows"), "{error}");
    assert!(shared.core().unread() <= window.len());
}

#[tokio::test]
async fn a_frame_longer_than_the_window_is_refused_before_it_is_read() {
    let (mut peer, driven, shared) = Raw::meet().await;
    peer.say(Kind::Data, SYN, 1, u32::MAX, &[]).await;
    let error = driven.ended().await;
    assert!(error.to_string().contains("window"), "{error}");
    assert_eq!(shared.core().unread(), 0);
}

#[tokio::test]
async fn one_stream_too_many_is_refused_and_the_others_live() {
    // given a peer with as many streams as it may have
    let (mut peer, mut driven, shared) = Raw::meet().await;
    let mut held = Vec::new();
    for number in 0..YAMUX_STREAMS as u32 {
        peer.say(Kind::Window, SYN, 1 + 2 * number, 0, &[]).await;
        held.push(driven.accept().await);
    }
    // when it opens another
    let beyond = 1 + 2 * YAMUX_STREAMS as u32;
    peer.data(SYN, beyond, b"lost").await;
    // then that one is refused
    let refused = peer.hear(|header| header.stream == beyond).await;
    assert!(refused.has(RST), "{refused:?}");
    assert_eq!(shared.core().streams(), YAMUX_STREAMS);
    // and the others go on
    peer.data(FIN, 1, b"still").await;
    let mut all = Vec::new();
    held[0].read_to_end(&mut all).await.unwrap();
    assert_eq!(all, b"still");
}

#[tokio::test]
async fn frames_of_unknown_streams_are_passed_over() {
    let (mut peer, mut driven, shared) = Raw::meet().await;
    peer.data(0, 77, &vec![1; 100_000]).await;
    peer.say(Kind::Window, 0, 79, 5, &[]).await;
    peer.data(RST, 81, &[]).await;
    peer.data(FIN, 2, &[]).await;
    peer.data(SYN | FIN, 1, b"known").await;
    let mut all = Vec::new();
    driven.accept().await.read_to_end(&mut all).await.unwrap();
    assert_eq!((all.as_slice(), shared.core().unread()), (b"known".as_slice(), 0));
}

#[tokio::test]
async fn a_peer_that_stops_in_a_frame_gives_what_came_and_then_an_error() {
    let (mut peer, mut driven, _) = Raw::meet().await;
    peer.say(Kind::Data, SYN, 1, 10, b"four").await;
    let mut stream = driven.accept().await;
    let mut four = [0; 4];
    stream.read_exact(&mut four).await.unwrap();
    assert_eq!(&four, b"four");
    peer.0.shutdown().await.unwrap();
    assert!(stream.read(&mut [0]).await.is_err());
    assert_eq!(driven.ended().await.to_string(), "connection closed by the peer");
}

#[tokio::test]
async fn the_rest_of_a_frame_of_a_stream_that_was_dropped_is_passed_over() {
    // given a stream that is dropped while a long frame of it is on its way
    let (mut peer, mut driven, shared) = Raw::meet().await;
    let length = FIRST_WINDOW_BYTES;
    peer.say(Kind::Data, SYN, 1, length, b"begun").await;
    let mut stream = driven.accept().await;
    stream.read_exact(&mut [0; 5]).await.unwrap();
    drop(stream);
    // when the rest of it comes
    peer.0.write_all(&vec![0; length as usize - 5]).await.unwrap();
    // then the next stream is heard
    peer.data(SYN | FIN, 3, b"next").await;
    let mut all = Vec::new();
    driven.accept().await.read_to_end(&mut all).await.unwrap();
    assert_eq!((all.as_slice(), shared.core().unread()), (b"next".as_slice(), 0));
}

#[tokio::test]
async fn what_breaks_the_protocol_ends_the_connection_with_its_name() {
    type Frame = (Kind, u16, u32, u32);
    let cases: [(&str, &[Frame]); 4] = [
        ("stream 2 was begun", &[(Kind::Data, SYN, 2, 0)]),
        ("stream 1 was begun", &[(Kind::Data, SYN, 1, 0), (Kind::Data, SYN, 1, 0)]),
        ("beyond 4 GiB", &[(Kind::Window, SYN, 1, u32::MAX)]),
        ("behind its end", &[(Kind::Data, SYN | FIN, 1, 0), (Kind::Data, 0, 1, 1)]),
    ];
    for (named, frames) in cases {
        let (mut peer, driven, _) = Raw::meet().await;
        for &(kind, flags, stream, length) in frames {
            peer.say(kind, flags, stream, length, &[]).await;
        }
        let error = driven.ended().await;
        assert!(error.to_string().contains(named), "{error}");
    }
}

#[tokio::test]
async fn a_peer_that_fills_streams_which_nobody_reads_is_cut_off() {
    // given nobody who reads, and a peer that uses all windows it has
    let (mut peer, driven, shared) = Raw::meet().await;
    let window = vec![0; FIRST_WINDOW_BYTES as usize];
    for number in 0..YAMUX_STREAMS as u32 {
        peer.data(SYN, 1 + 2 * number, &window).await;
    }
    // then it is cut off once that is too much
    let error = driven.ended().await;
    assert!(error.to_string().contains("more was sent than is kept"), "{error}");
    assert!(shared.core().unread() <= UNREAD_BYTES + window.len());
}

#[tokio::test]
async fn pings_are_answered_and_a_flood_of_them_takes_no_memory() {
    let (mut peer, _driven, _) = Raw::meet().await;
    for number in 0..10_000 {
        peer.say(Kind::Ping, SYN, 0, number, &[]).await;
    }
    let answer = peer.hear(|header| header.kind == Kind::Ping && header.has(ACK) && header.length == 9_999);
    answer.await;
}

#[tokio::test]
async fn a_stream_is_answered_when_it_is_accepted_though_nothing_is_written() {
    let (mut peer, mut driven, _) = Raw::meet().await;
    peer.say(Kind::Window, SYN, 1, 0, &[]).await;
    let _stream = driven.accept().await;
    peer.hear(|header| header.stream == 1 && header.has(ACK)).await;
}

#[tokio::test]
async fn streams_beyond_those_that_may_be_unanswered_wait() {
    // given a peer that answers nothing
    let (mut peer, driven, _) = Raw::meet().await;
    let mut opened = Vec::new();
    for _ in 0..crate::limits::UNANSWERED_STREAMS {
        let mut stream = driven.open().await;
        stream.write_all(b"x").await.unwrap();
        opened.push(stream);
    }
    let (reply, mut next) = oneshot::channel();
    driven.requests.send(reply).unwrap();
    let last = 2 * crate::limits::UNANSWERED_STREAMS as u32;
    let mut bytes = vec![0; (HEADER_BYTES + 1) * opened.len()];
    timeout(PATIENCE, peer.0.read_exact(&mut bytes)).await.unwrap().unwrap();
    assert!(next.try_recv().is_err());
    // when it answers one
    peer.say(Kind::Window, ACK, last, 0, &[]).await;
    // then another can be opened
    timeout(PATIENCE, next).await.unwrap().unwrap().unwrap();
}
