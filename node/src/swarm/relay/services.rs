//! [`Services`]: the behaviour by which peers open streams for what a relay does, each of which a future serves.

use std::{
    collections::{HashMap, hash_map::Entry},
    convert::Infallible,
    future::{Ready, ready},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::{Duration, Instant},
};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use libp2p::{
    Multiaddr, PeerId, StreamProtocol,
    core::{
        Endpoint,
        transport::PortUse,
        upgrade::{InboundUpgrade, ReadyUpgrade, UpgradeInfo},
    },
    multiaddr::Protocol,
    relay::STOP_PROTOCOL_NAME,
    swarm::{
        ConnectionDenied, ConnectionHandler, ConnectionHandlerEvent, ConnectionId, FromSwarm,
        NetworkBehaviour, Stream, SubstreamProtocol, THandler, THandlerInEvent, THandlerOutEvent, ToSwarm,
        handler::{ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound},
    },
};
use tokio::sync::{mpsc, oneshot};

use super::{hop, rendezvous};
use crate::{
    relay::{Board, Ledger, Policy},
    swarm::limits::{RELAY_ASKS, RELAY_CONNECTIONS_PER_ADDRESS, RELAY_STREAM_TIMEOUT, RELAY_STREAMS},
};

/// What all connections of a relay share.
pub(super) struct Shared {
    started: Instant,
    ledger: Mutex<Ledger>,
    board: Mutex<Board>,
    /// The connection that each reservation is on.
    routes: Mutex<HashMap<PeerId, Link>>,
    /// The addresses of the relay, with its PeerId.
    addresses: Mutex<Vec<Multiaddr>>,
}

impl Shared {
    pub(super) fn new(policy: Policy) -> Arc<Self> {
        Arc::new(Self {
            started: Instant::now(),
            ledger: Mutex::new(Ledger::new(policy)),
            board: Mutex::default(),
            routes: Mutex::default(),
            addresses: Mutex::default(),
        })
    }

    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        lock(&self.ledger)
    }

    pub(super) fn board(&self) -> MutexGuard<'_, Board> {
        lock(&self.board)
    }

    pub(super) fn addresses(&self) -> Vec<Multiaddr> {
        lock(&self.addresses).clone()
    }

    pub(super) fn set_addresses(&self, addresses: Vec<Multiaddr>) {
        *lock(&self.addresses) = addresses;
    }

    /// Circuits to this peer go over this connection from now on, which stays open for so long.
    pub(super) fn route(&self, peer: PeerId, link: Link, time: Duration) {
        let until = self.started.elapsed() + time;
        link.keep_until_s.store(until.as_secs(), Ordering::Relaxed);
        lock(&self.routes).insert(peer, link);
    }

    /// The connection over which circuits to this peer go.
    pub(super) fn route_to(&self, peer: &PeerId) -> Option<Link> {
        lock(&self.routes).get(peer).cloned()
    }

    /// A reservation ends with the connection it is on.
    fn ended(&self, peer: &PeerId, connection: ConnectionId) {
        let mut routes = lock(&self.routes);
        if routes.get(peer).is_some_and(|link| link.id == connection) {
            routes.remove(peer);
            self.ledger().release(peer);
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Every change is whole before anything can panic.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One connection, as those see it that want a stream on it.
#[derive(Debug, Clone)]
pub(super) struct Link {
    id: ConnectionId,
    asks: mpsc::Sender<Ask>,
    /// Until this second of the relay's life it stays open.
    keep_until_s: Arc<AtomicU64>,
}

impl Link {
    /// Opens a stream to the other end of a circuit; `None` where that fails.
    pub(super) async fn open(&self) -> Option<Stream> {
        let (reply, opened) = oneshot::channel();
        self.asks.send(reply).await.ok()?;
        opened.await.ok()
    }
}

type Ask = oneshot::Sender<Stream>;

/// Who opened a stream.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    pub(super) peer: PeerId,
    /// Where it is: an address of IPv4, or the network of one of IPv6, of which a machine has as many as it likes.
    pub(super) origin: Option<IpAddr>,
    pub(super) link: Link,
}

/// The behaviour.
pub(super) struct Services {
    shared: Arc<Shared>,
    /// How many connections there are, by where they come from.
    connections: HashMap<Option<IpAddr>, usize>,
}

/// Whoever comes has as many connections as one address may.
#[derive(Debug, thiserror::Error)]
#[error("there are {0} connections from this address")]
struct Crowded(usize);

impl Services {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self { shared, connections: HashMap::new() }
    }

    /// An address may have as many as it may have reservations, and others that come and go.
    fn check_crowd(&self, origin: Option<IpAddr>) -> Result<(), ConnectionDenied> {
        let most =
            RELAY_CONNECTIONS_PER_ADDRESS.max(2 * self.shared.ledger().policy().reservations_per_address);
        match self.connections.get(&origin) {
            Some(&count) if count >= most => Err(ConnectionDenied::new(Crowded(count))),
            Some(_) | None => Ok(()),
        }
    }

    fn handler(&self, peer: PeerId, id: ConnectionId, remote: &Multiaddr) -> Handler {
        let (asks, asked) = mpsc::channel(RELAY_ASKS);
        let link = Link { id, asks, keep_until_s: Arc::default() };
        let caller = Caller { peer, origin: origin(remote), link };
        Handler { shared: self.shared.clone(), caller, asked, serving: FuturesUnordered::new() }
    }
}

fn origin(address: &Multiaddr) -> Option<IpAddr> {
    let first = address.iter().next()?;
    if let Protocol::Ip4(ip) = first {
        return Some(ip.into());
    }
    let Protocol::Ip6(ip) = first else { return None };
    let [a, b, c, d, ..] = ip.segments();
    Some(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into())
}

impl NetworkBehaviour for Services {
    type ConnectionHandler = Handler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.check_crowd(origin(remote))?;
        Ok(self.handler(peer, id, remote))
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(self.handler(peer, id, remote))
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        if let FromSwarm::ConnectionEstablished(established) = event {
            let origin = origin(established.endpoint.get_remote_address());
            *self.connections.entry(origin).or_default() += 1;
        } else if let FromSwarm::ConnectionClosed(closed) = event {
            self.shared.ended(&closed.peer_id, closed.connection_id);
            let origin = origin(closed.endpoint.get_remote_address());
            if let Entry::Occupied(mut count) = self.connections.entry(origin) {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
        }
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

/// Serves the streams of one connection. What it serves ends with the connection.
pub(super) struct Handler {
    shared: Arc<Shared>,
    caller: Caller,
    asked: mpsc::Receiver<Ask>,
    serving: FuturesUnordered<BoxFuture<'static, ()>>,
}

impl Handler {
    fn serve(&mut self, service: Service, stream: Stream) {
        if self.serving.len() >= RELAY_STREAMS {
            // Dropped, it is reset.
            return;
        }
        let (shared, caller) = (self.shared.clone(), self.caller.clone());
        self.serving.push(match service {
            Service::Relay => hop::serve(shared, caller, stream).boxed(),
            Service::Rendezvous => rendezvous::serve(shared, caller, stream).boxed(),
        });
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Infallible;
    type ToBehaviour = Infallible;
    type InboundProtocol = Offered;
    type OutboundProtocol = ReadyUpgrade<StreamProtocol>;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = Ask;

    fn listen_protocol(&self) -> SubstreamProtocol<Offered> {
        SubstreamProtocol::new(Offered, ())
    }

    fn connection_keep_alive(&self) -> bool {
        let until = Duration::from_secs(self.caller.link.keep_until_s.load(Ordering::Relaxed));
        !self.serving.is_empty() || self.shared.started.elapsed() < until
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<ConnectionHandlerEvent<Self::OutboundProtocol, Ask, Infallible>> {
        while let Poll::Ready(Some(())) = self.serving.poll_next_unpin(context) {}
        match self.asked.poll_recv(context) {
            Poll::Ready(Some(ask)) => {
                let proposal = SubstreamProtocol::new(ReadyUpgrade::new(STOP_PROTOCOL_NAME), ask);
                Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest {
                    protocol: proposal.with_timeout(RELAY_STREAM_TIMEOUT),
                })
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn on_behaviour_event(&mut self, event: Infallible) {
        match event {}
    }

    fn on_connection_event(&mut self, event: ConnectionEvent<Offered, Self::OutboundProtocol, (), Ask>) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound {
                protocol: (stream, service),
                ..
            }) => self.serve(service, stream),
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound { protocol, info }) => {
                // Whoever asked may have given up; the stream is then reset.
                let _ = info.send(protocol);
            }
            // Dropping the ask tells whoever asked.
            ConnectionEvent::DialUpgradeError(DialUpgradeError { .. })
            | ConnectionEvent::ListenUpgradeError(_)
            | ConnectionEvent::AddressChange(_)
            | ConnectionEvent::LocalProtocolsChange(_)
            | ConnectionEvent::RemoteProtocolsChange(_)
            | _ => {}
        }
    }
}

/// What peers may open streams for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Service {
    Relay,
    Rendezvous,
}

impl AsRef<str> for Service {
    fn as_ref(&self) -> &str {
        match self {
            Self::Relay => "/libp2p/circuit/relay/0.2.0/hop",
            Self::Rendezvous => "/rendezvous/1.0.0",
        }
    }
}

/// Both of them, without a word beyond the name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offered;

impl UpgradeInfo for Offered {
    type Info = Service;
    type InfoIter = std::array::IntoIter<Service, 2>;

    fn protocol_info(&self) -> Self::InfoIter {
        [Service::Relay, Service::Rendezvous].into_iter()
    }
}

impl<S> InboundUpgrade<S> for Offered {
    type Output = (S, Service);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: S, service: Service) -> Self::Future {
        ready(Ok((stream, service)))
    }
}
