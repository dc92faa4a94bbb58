//! [`Connection`]: the handle of one connection, and [`Stream`]: one ordered byte channel on it.

use std::{
    fmt, io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use futures::{AsyncRead, AsyncWrite, AsyncWriteExt};
use ketch_channel::{Controller, Gauge, TransportKind, limits::OPEN_STREAMS};
use libp2p::{
    Multiaddr, PeerId, StreamProtocol,
    core::upgrade::NegotiationError,
    swarm::{self, ConnectionId},
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};

use super::{
    heard::Heard,
    inbound::StreamKind,
    limits::OPEN_QUEUE,
    reach::{Circuit, CircuitLimit},
    task::Command,
};

/// One authenticated connection with a peer. Cheap to clone; it stays open while a clone is held.
#[derive(Clone)]
pub struct Connection {
    link: Arc<Link>,
    /// Counted by [`Link::is_held`].
    _hold: Arc<()>,
}

/// Why a connection ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    /// This node closed it.
    #[error("closed by this node")]
    Local,
    /// Both sides had dialed at once, and the other connection is kept.
    #[error("closed because there is another one with the same peer")]
    Duplicate,
    /// Nobody held it and no stream was open.
    #[error("closed because it was idle")]
    Idle,
    /// The peer closed it, or the path between us broke.
    #[error("{0}")]
    Lost(String),
    /// It went through a relay, which ended it, or was itself lost.
    #[error("the circuit through the relay {} ended ({why}); it carries {}", .circuit.relay, .circuit.limit)]
    Circuit {
        /// Whose circuit, and what it allows.
        circuit: Box<Circuit>,
        /// What was seen.
        why: String,
    },
    /// The node has been shut down.
    #[error("the node has stopped")]
    Stopped,
}

/// Why no stream could be opened.
#[derive(Debug, thiserror::Error)]
pub enum StreamError {
    /// The connection has ended.
    #[error("opening a stream: the connection has ended: {0}")]
    Closed(CloseReason),
    /// The peer does not speak the protocol of the stream.
    #[error("opening a stream: the peer does not speak {0}")]
    NotSpoken(StreamProtocol),
    /// The peer left the stream unanswered.
    #[error("opening a stream: no answer within {0} s")]
    Silence(u64),
    /// The stream failed while it was opened.
    #[error("opening a stream: {0}")]
    Failed(#[from] io::Error),
}

impl Connection {
    /// The peer, as it proved itself.
    pub fn peer(&self) -> PeerId {
        self.link.route.peer
    }

    /// Whether the two are handles of one connection.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.link, &other.link)
    }

    /// How the bytes travel.
    pub fn transport(&self) -> TransportKind {
        self.link.route.transport
    }

    /// The congestion controller that this node asks for on its connections.
    pub fn asked_controller(&self) -> Option<Controller> {
        self.link.route.asked
    }

    /// What the connection is asked, got and does; `None` where its transport tells nothing.
    pub fn gauge(&self) -> Option<&Gauge> {
        self.link.route.gauge.as_ref()
    }

    /// The relay that it goes through; `None` for a direct connection.
    pub fn circuit(&self) -> Option<Circuit> {
        let limit = self.link.state.borrow().circuit_limit;
        self.link.route.relay.map(|relay| Circuit { relay, limit })
    }

    /// The peer's address on this connection, without its PeerId: of a circuit, the address of the relay and what makes
    /// it one.
    pub fn remote_address(&self) -> &Multiaddr {
        &self.link.route.address
    }

    /// When something last came in on its transfer streams.
    pub fn heard(&self) -> Heard {
        self.link.heard.clone()
    }

    /// The program that the peer says it is, once it has told.
    pub fn agent(&self) -> Option<String> {
        self.link.state.borrow().agent.clone()
    }

    /// How long a message to the peer and its answer take, once that is measured: the first time shortly after the
    /// connection was made. `None` where the peer does not answer pings, or the connection ends.
    pub async fn round_trip(&self) -> Option<Duration> {
        let mut state = self.link.state.clone();
        let known = state.wait_for(|state| state.last_ping.is_some() || state.ended.is_some()).await.ok()?;
        known.last_ping.as_ref()?.as_ref().ok().copied()
    }

    /// Opens a transfer stream on this connection. When as many are open as the connection carries, it
    /// waits for one to be dropped. Dropping the future gives up the stream.
    pub async fn open_stream(&self) -> Result<Stream, StreamError> {
        self.open(StreamKind::Transfer).await
    }

    /// Opens a stream for an introduction. Dropping the future gives up the stream.
    pub async fn open_introduction(&self) -> Result<Stream, StreamError> {
        self.open(StreamKind::Introduction).await
    }

    async fn open(&self, kind: StreamKind) -> Result<Stream, StreamError> {
        tokio::select! {
            opened = self.try_open(kind) => opened,
            reason = self.closed() => Err(StreamError::Closed(reason)),
        }
    }

    /// Resolves when the connection ends.
    pub async fn closed(&self) -> CloseReason {
        let mut state = self.link.state.clone();
        match state.wait_for(|state| state.ended.is_some()).await {
            Ok(state) => state.ended.clone().unwrap_or(CloseReason::Stopped),
            Err(_) => CloseReason::Stopped,
        }
    }

    /// Resolves when the peer has left two pings in a row unanswered, or the connection ends. Where nothing is on its
    /// way to the peer, TCP never notices by itself that the path is gone.
    pub async fn silent(&self) {
        let mut state = self.link.state.clone();
        // An error means that the node has stopped.
        let _ = state.wait_for(|state| state.silent || state.ended.is_some()).await;
    }

    /// Closes the connection, whoever else holds it, and waits until it has ended. Bytes already written
    /// are sent first, as far as the peer takes them.
    pub async fn close(&self) {
        if let Some(commands) = self.link.commands.upgrade() {
            // A stopped node has closed it already.
            let _ = commands.send(Command::Close(self.link.id)).await;
        }
        self.closed().await;
    }

    /// Opens a stream; while the connection ends it may never resolve.
    async fn try_open(&self, kind: StreamKind) -> Result<Stream, StreamError> {
        let Ok(slot) = self.link.slots.clone().acquire_owned().await else {
            return std::future::pending().await;
        };
        let (reply, opened) = oneshot::channel();
        if self.link.requests.send(OpenRequest { kind, reply }).await.is_err() {
            return std::future::pending().await;
        }
        let Ok(opened) = opened.await else {
            return std::future::pending().await;
        };
        let mut stream = Stream { _slot: Some(slot), ..Stream::inbound(opened?, &self.link) };
        // The lazy negotiation keeps our proposal until the first write. A peer can answer only what it
        // has seen, and yamux lets no more than 256 unanswered streams be opened.
        stream.flush().await?;
        Ok(stream)
    }

    /// What becomes known of the connection while it lives.
    pub(super) fn watch(&self) -> watch::Receiver<LinkState> {
        self.link.state.clone()
    }
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection")
            .field("peer", &self.link.route.peer)
            .field("address", &self.link.route.address)
            .finish_non_exhaustive()
    }
}

/// What the handle, the handler and the event loop share of one connection.
pub(super) struct Link {
    pub(super) id: ConnectionId,
    pub(super) route: LinkRoute,
    requests: mpsc::Sender<OpenRequest>,
    slots: Arc<Semaphore>,
    state: watch::Receiver<LinkState>,
    commands: mpsc::WeakSender<Command>,
    hold: Arc<()>,
    streams: Arc<()>,
    heard: Heard,
}

/// What is known of a connection from its beginning.
pub(super) struct LinkRoute {
    pub(super) peer: PeerId,
    /// Whether this node dialed it.
    pub(super) dialed: bool,
    /// Whether it was dialed from a port that is listened on, so that the peer sees what the router makes of that.
    pub(super) shows_port: bool,
    pub(super) address: Multiaddr,
    pub(super) transport: TransportKind,
    /// The relay it goes through.
    pub(super) relay: Option<PeerId>,
    pub(super) asked: Option<Controller>,
    pub(super) gauge: Option<Gauge>,
}

/// What becomes known of a connection while it lives.
#[derive(Default)]
pub(super) struct LinkState {
    pub(super) agent: Option<String>,
    pub(super) ended: Option<CloseReason>,
    /// How many pings have ended, and how the last of them did.
    pub(super) pings: u64,
    pub(super) last_ping: Option<Result<Duration, String>>,
    /// Whether pings were answered no more.
    pub(super) silent: bool,
    /// What the relay allows, if it goes through one.
    pub(super) circuit_limit: CircuitLimit,
}

/// Somebody waits for a stream.
pub(super) struct OpenRequest {
    pub(super) kind: StreamKind,
    pub(super) reply: oneshot::Sender<Result<swarm::Stream, StreamError>>,
}

/// The ends of a new link: one for its handler, one for the event loop.
pub(super) struct LinkEnds {
    pub(super) link: Arc<Link>,
    pub(super) requests: mpsc::Receiver<OpenRequest>,
    pub(super) state: watch::Sender<LinkState>,
}

impl Link {
    /// The link of a connection that is being established.
    pub(super) fn open(id: ConnectionId, route: LinkRoute, commands: mpsc::WeakSender<Command>) -> LinkEnds {
        let (requests, requested) = mpsc::channel(OPEN_QUEUE);
        let (state, watched) = watch::channel(LinkState::default());
        let slots = Arc::new(Semaphore::new(OPEN_STREAMS));
        let (hold, streams, heard) = Default::default();
        let link = Self { id, route, requests, slots, state: watched, commands, hold, streams, heard };
        LinkEnds { link: Arc::new(link), requests: requested, state }
    }

    /// A handle, which keeps the connection open.
    pub(super) fn connection(self: &Arc<Self>) -> Connection {
        Connection { link: self.clone(), _hold: self.hold.clone() }
    }

    /// Whether transfer streams are open.
    pub(super) fn carries_streams(&self) -> bool {
        Arc::strong_count(&self.streams) > 1
    }

    /// Whether it is direct, and its peer sees what the router makes of a port that is listened on.
    pub(super) fn shows_port(&self) -> bool {
        self.route.shows_port && self.route.relay.is_none()
    }

    /// Whether a handle is held.
    pub(super) fn is_held(&self) -> bool {
        Arc::strong_count(&self.hold) > 1
    }
}

/// One ordered byte channel on a connection. Dropping it before it is closed resets it; the peer then
/// sees an error, never a clean end.
pub struct Stream {
    inner: swarm::Stream,
    /// How a read failed. A failed one may have been that of the peer's answer in the negotiation, after
    /// which libp2p panics at any further use.
    failed: Option<io::ErrorKind>,
    /// Frees the place among this side's open streams.
    _slot: Option<OwnedSemaphorePermit>,
    /// Counted by [`Link::carries_streams`].
    _open: Arc<()>,
    /// When anything last came in, on all streams of the connection.
    heard: Heard,
}

impl Stream {
    /// A stream that the peer opened.
    pub(super) fn inbound(inner: swarm::Stream, link: &Link) -> Self {
        let heard = link.heard.clone();
        Self { inner, failed: None, _slot: None, _open: Arc::clone(&link.streams), heard }
    }

    /// The stream below, unless a read has failed.
    fn usable(&mut self) -> io::Result<Pin<&mut swarm::Stream>> {
        match self.failed {
            Some(kind) => Err(kind.into()),
            None => Ok(Pin::new(&mut self.inner)),
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// The peer's answer in the negotiation comes with the first read, and may be a no.
fn explain_read(error: io::Error) -> io::Error {
    let cause = error.get_ref().and_then(|cause| cause.downcast_ref::<NegotiationError>());
    match cause {
        Some(NegotiationError::Failed) => {
            io::Error::new(io::ErrorKind::Unsupported, "the peer does not speak the protocol of the stream")
        }
        Some(NegotiationError::ProtocolError(_)) | None => error,
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut [u8],
    ) -> Poll<io::Result<usize>> {
        let read = self.usable()?.poll_read(context, buffer).map_err(explain_read);
        match &read {
            Poll::Ready(Ok(1..)) => self.heard.note(),
            Poll::Ready(Err(error)) => self.failed = Some(error.kind()),
            Poll::Ready(Ok(0)) | Poll::Pending => {}
        }
        read
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.usable()?.poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.usable()?.poll_flush(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.usable()?.poll_close(context)
    }
}
