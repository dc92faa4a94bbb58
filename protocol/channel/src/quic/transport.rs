//! The transport: sockets that listen, dial and punch holes.

use std::{
    collections::HashMap,
    io,
    net::SocketAddr,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use futures::{FutureExt, TryFutureExt, channel::oneshot, future::BoxFuture};
use libp2p_core::{
    Endpoint, Multiaddr, Transport,
    muxing::StreamMuxerBox,
    transport::{DialOpts, ListenerId, PortUse, TransportError, TransportEvent},
};
use libp2p_identity::{Keypair, PeerId};
use noq::{Connecting, Connection, Incoming};

use super::{
    address::{from_socket, to_socket},
    config::Configs,
    connection::{Muxer, established},
    datagram::largest_datagram,
    error::lost,
    gauge::QuicGauge,
    listener::{Event, Listener},
    punch::punch,
    socket::{Bound, UdpProperties, any_port},
};
use crate::{
    gauge::{Gauge, Gauges, Held, Place},
    settings::{ChannelSettings, QuicFlow},
    setup::{Budget, Deadlines, SetupCause, SetupError, Step},
    tls::IdentityError,
};

type Connected = (PeerId, StreamMuxerBox);
type Setup = BoxFuture<'static, Result<Connected, SetupError>>;
type TransportResult<T> = Result<T, TransportError<SetupError>>;

/// The QUIC transport for one identity.
pub(crate) struct QuicTransport {
    configs: Configs,
    deadlines: Deadlines,
    buffer_bytes: Option<u32>,
    /// The oldest first.
    listeners: Vec<(ListenerId, Listener)>,
    /// Sockets that only dial, IPv4 and IPv6, while no listener can be used.
    dialers: [Option<Bound>; 2],
    /// Peers whose connection is awaited where a hole is being punched for it.
    punching: HashMap<SocketAddr, oneshot::Sender<Connecting>>,
    gauges: Gauges,
    events: Vec<TransportEvent<Setup, SetupError>>,
    waker: Option<Waker>,
}

impl QuicTransport {
    pub(crate) fn new(
        identity: &Keypair,
        deadlines: Deadlines,
        settings: &ChannelSettings,
        gauges: Gauges,
    ) -> Result<Self, IdentityError> {
        Ok(Self {
            configs: Configs::new(identity, settings)?,
            deadlines,
            buffer_bytes: settings.udp_buffer_bytes,
            listeners: Vec::new(),
            dialers: [None, None],
            punching: HashMap::new(),
            gauges,
            events: Vec::new(),
            waker: None,
        })
    }

    fn wake(&mut self) {
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// The socket to dial from: that of a listener, so that routers on the way see one flow, or one of its own.
    fn dialing_socket(&mut self, remote: SocketAddr, port_use: PortUse) -> io::Result<Bound> {
        if port_use == PortUse::New {
            return self.new_dialer(remote);
        }
        if let Some(listener) = self.listener_for(remote) {
            return Ok(listener.bound.clone());
        }
        let family = usize::from(remote.is_ipv6());
        if let Some(dialer) = &self.dialers[family] {
            return Ok(dialer.clone());
        }
        let dialer = self.new_dialer(remote)?;
        self.dialers[family] = Some(dialer.clone());
        Ok(dialer)
    }

    fn new_dialer(&self, remote: SocketAddr) -> io::Result<Bound> {
        Bound::new(any_port(remote), self.buffer_bytes, self.configs.endpoint.clone(), None)
    }

    /// The oldest listener that reaches `remote`.
    fn listener_for(&self, remote: SocketAddr) -> Option<&Listener> {
        self.listeners.iter().map(|(_, listener)| listener).find(|listener| listener.reaches(remote))
    }

    fn connect(&mut self, remote: SocketAddr, port_use: PortUse) -> Result<Setup, SetupError> {
        let socket = self.dialing_socket(remote, port_use).map_err(failed)?;
        let client = self.configs.client(largest_datagram(remote));
        let properties = socket.properties.clone();
        let connecting = async move {
            // The specification forbids a server name: an unspecified address sends none.
            let connecting = socket.endpoint.connect_with(client, remote, "0.0.0.0");
            connecting.map_err(io::Error::other)?.await.map_err(lost)
        };
        Ok(self.set_up(connecting, properties, self.gauges.dialing()))
    }

    /// Makes a hole for `remote` in our routers, through which it connects to us.
    fn await_through_hole(&mut self, remote: SocketAddr) -> Result<Setup, SetupError> {
        let Some(listener) = self.listener_for(remote) else {
            return Err(failed(io::Error::other("no listener from whose socket a hole could be punched")));
        };
        let properties = listener.bound.properties.clone();
        let punching = punch(listener.bound.raw.clone(), remote);
        self.punching.retain(|_, waiting| !waiting.is_canceled());
        if self.punching.contains_key(&remote) {
            return Err(failed(io::Error::other("a hole for this address is being punched already")));
        }
        let (sender, arriving) = oneshot::channel();
        self.punching.insert(remote, sender);
        let connecting = async move {
            let arrived = tokio::select! {
                arrived = arriving => arrived.map_err(|_| io::Error::other("the listener was closed")),
                error = punching => Err(error),
            };
            arrived?.await.map_err(lost)
        };
        Ok(self.set_up(connecting, properties, self.gauges.dialing()))
    }

    fn set_up(
        &self,
        connecting: impl Future<Output = io::Result<Connection>> + Send + 'static,
        socket: Arc<UdpProperties>,
        place: Place,
    ) -> Setup {
        set_up(connecting, self.deadlines, self.configs.flow, socket, place).boxed()
    }

    fn forget(&mut self, id: ListenerId) -> bool {
        let before = self.listeners.len();
        self.listeners.retain(|(other, _)| *other != id);
        self.listeners.len() < before
    }

    /// What is next at any listener, with its id and its socket.
    fn next_event(&mut self, context: &mut Context<'_>) -> Option<(ListenerId, Bound, Event)> {
        self.listeners.iter_mut().find_map(|(id, listener)| match listener.poll(context) {
            Poll::Ready(event) => Some((*id, listener.bound.clone(), event)),
            Poll::Pending => None,
        })
    }

    fn on_event(
        &mut self,
        id: ListenerId,
        socket: Bound,
        event: Event,
    ) -> Option<TransportEvent<Setup, SetupError>> {
        Some(match event {
            Event::Address(listen_addr) => TransportEvent::NewAddress { listener_id: id, listen_addr },
            Event::Expired(listen_addr) => TransportEvent::AddressExpired { listener_id: id, listen_addr },
            Event::Failed(error) => TransportEvent::ListenerError { listener_id: id, error: failed(error) },
            Event::Ended => {
                self.forget(id);
                TransportEvent::ListenerClosed { listener_id: id, reason: Ok(()) }
            }
            Event::Attempt(incoming) => return self.on_attempt(id, socket, *incoming),
        })
    }

    /// Whoever comes through a hole belongs to the dial that punched it.
    fn on_attempt(
        &mut self,
        id: ListenerId,
        socket: Bound,
        incoming: Incoming,
    ) -> Option<TransportEvent<Setup, SetupError>> {
        let remote = incoming.remote_address();
        let mut attempt = match incoming.accept_with(self.configs.server(largest_datagram(remote))) {
            Ok(attempt) => attempt,
            Err(error) => {
                tracing::debug!(%remote, %error, "an attempt to connect could not be taken");
                return None;
            }
        };
        if let Some(waiting) = self.punching.remove(&remote) {
            match waiting.send(attempt) {
                Ok(()) => return None,
                Err(unwanted) => attempt = unwanted,
            }
        }
        let (local_addr, send_back_addr) = (from_socket(socket.local), from_socket(remote));
        let place = self.gauges.accepting(&local_addr, &send_back_addr);
        let upgrade = self.set_up(attempt.map_err(lost), socket.properties, place);
        Some(TransportEvent::Incoming { listener_id: id, upgrade, local_addr, send_back_addr })
    }
}

impl Transport for QuicTransport {
    type Output = Connected;
    type Error = SetupError;
    type Dial = Setup;
    type ListenerUpgrade = Setup;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> TransportResult<()> {
        let socket = to_socket(&address).ok_or(TransportError::MultiaddrNotSupported(address))?;
        let Configs { endpoint, server, .. } = self.configs.clone();
        let listener = Bound::new(socket, self.buffer_bytes, endpoint, Some(server)).and_then(Listener::new);
        self.listeners.push((id, listener.map_err(|error| TransportError::Other(failed(error)))?));
        // From now on the listener's socket dials; the other one ends with its last connection.
        self.dialers[usize::from(socket.is_ipv6())] = None;
        self.wake();
        Ok(())
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        if !self.forget(id) {
            return false;
        }
        self.events.push(TransportEvent::ListenerClosed { listener_id: id, reason: Ok(()) });
        self.wake();
        true
    }

    fn dial(&mut self, address: Multiaddr, options: DialOpts) -> TransportResult<Setup> {
        let remote = to_socket(&address).filter(|remote| remote.port() != 0 && !remote.ip().is_unspecified());
        let remote = remote.ok_or(TransportError::MultiaddrNotSupported(address))?;
        match options.role {
            Endpoint::Dialer => self.connect(remote, options.port_use),
            Endpoint::Listener => self.await_through_hole(remote),
        }
        .map_err(TransportError::Other)
    }

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<TransportEvent<Setup, SetupError>> {
        let this = &mut *self;
        if let Some(event) = this.events.pop() {
            return Poll::Ready(event);
        }
        while let Some((id, socket, event)) = this.next_event(context) {
            if let Some(event) = this.on_event(id, socket, event) {
                return Poll::Ready(event);
            }
        }
        this.waker = Some(context.waker().clone());
        Poll::Pending
    }
}

async fn set_up(
    connecting: impl Future<Output = io::Result<Connection>>,
    deadlines: Deadlines,
    flow: QuicFlow,
    socket: Arc<UdpProperties>,
    place: Place,
) -> Result<Connected, SetupError> {
    let (peer, connection) = Budget::start(deadlines).run(Step::Quic, established(connecting)).await?;
    if let Some(gauge) = QuicGauge::new(&connection, socket) {
        place.fill(Gauge::quic(gauge));
    }
    Ok((peer, StreamMuxerBox::new(Held::new(Muxer::new(connection, flow), place))))
}

fn failed(error: io::Error) -> SetupError {
    SetupError { step: Step::Quic, cause: SetupCause::Failed(error) }
}
