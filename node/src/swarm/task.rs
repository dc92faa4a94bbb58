//! The event loop: the one task that owns the Swarm.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures::StreamExt;
use ketch_channel::TransportKind;
use libp2p::{
    Multiaddr, PeerId, Swarm, connection_limits, dcutr, identify,
    identity::PublicKey,
    ping, relay,
    swarm::{
        ConnectionError, ConnectionId, NetworkBehaviour, SwarmEvent,
        dial_opts::{DialOpts, PeerCondition, WithPeerIdWithAddresses},
    },
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::{sleep, timeout},
};

use super::{
    connection::{CloseReason, Connection},
    dial::{AttemptError, explain},
    direct::{DirectWaits, Hints, NoDirect},
    duplicates::{Candidate, duplicates},
    limits::{CONNECTIONS, CONNECTIONS_PER_PEER, DIRECT_LIMIT, SHUTDOWN_TIMEOUT},
    mdns::Lan,
    reach::{Reach, ReachEvent, split_relay, told_limit},
    rendezvous::{Errand, Errands, Found},
    reservation::{ReservationState, Reservations},
    transfer::Transfer,
    upnp::{OpenedPorts, note_ports},
};

/// What handles ask of the event loop.
pub(super) enum Command {
    /// One attempt to reach a peer at one address.
    Dial { peer: PeerId, address: Multiaddr, reply: DialReply },
    /// A connection to a relay, the one there is or a new one.
    Meet { relay: PeerId, address: Multiaddr, reply: DialReply },
    /// A reservation at a relay, to which there is a connection from this address.
    Reserve { relay: PeerId, address: Multiaddr, state: watch::Sender<ReservationState> },
    /// A direct connection with a peer, over this transport or any, once there is one.
    Direct { peer: PeerId, transport: Option<TransportKind>, reply: DirectReply },
    /// Something asked of a rendezvous point, to which there is a connection.
    Errand { at: PeerId, errand: Errand },
    /// Look for a peer wherever this node can, until the other end of `finder` is dropped.
    Seek { peer: PeerId, finder: Finder },
    /// Who is on the LAN, as far as is known.
    Neighbours(oneshot::Sender<Vec<Found>>),
    /// End a connection; its holders learn of it from its state.
    Close(ConnectionId),
    /// Close everything and end.
    Shutdown(oneshot::Sender<()>),
}

/// Where addresses of a peer that are found go, as many as there is room for. Whoever has nothing more to say drops it.
pub(super) type Finder = mpsc::Sender<Vec<Multiaddr>>;

type DialReply = oneshot::Sender<Result<Connection, AttemptError>>;

type DirectReply = oneshot::Sender<Result<Connection, NoDirect>>;

/// All behaviours. The limits come first, so that a connection they refuse is seen by nobody else.
#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    limits: connection_limits::Behaviour,
    pub(super) transfer: Transfer,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    reach: Reach,
    lan: Lan,
}

impl Behaviour {
    pub(super) fn new(
        transfer: Transfer,
        reach: Reach,
        lan: Lan,
        key: PublicKey,
        ping_interval: Duration,
        ping_timeout: Duration,
    ) -> Self {
        let limits = connection_limits::ConnectionLimits::default()
            .with_max_established_per_peer(Some(CONNECTIONS_PER_PEER))
            .with_max_established(Some(CONNECTIONS));
        let identify = identify::Config::new("/ketch/1".into(), key)
            .with_agent_version(concat!("ketch/", env!("CARGO_PKG_VERSION")).into());
        let ping = ping::Config::new().with_interval(ping_interval).with_timeout(ping_timeout);
        Self {
            limits: connection_limits::Behaviour::new(limits),
            transfer,
            identify: identify::Behaviour::new(identify),
            ping: ping::Behaviour::new(ping),
            reach,
            lan,
        }
    }
}

/// Where the event loop tells what it knows of this node's addresses.
pub(super) struct Told {
    /// Those that are listened on.
    pub(super) addresses: watch::Sender<Vec<Multiaddr>>,
    /// Those at which others were seen to reach us, those through relays among them.
    pub(super) external: watch::Sender<Vec<Multiaddr>>,
    /// Those that a router has opened.
    pub(super) ports: watch::Sender<OpenedPorts>,
}

/// The state of the event loop.
pub(super) struct Task {
    swarm: Swarm<Behaviour>,
    commands: mpsc::Receiver<Command>,
    told: Told,
    reservations: Reservations,
    directs: DirectWaits,
    errands: Errands,
    dialing: HashMap<ConnectionId, DialReply>,
    duplicate_grace: Duration,
    /// Peers with which there may be a connection too many, each looked at when its time has come.
    doubted: HashSet<PeerId>,
    doubts: JoinSet<PeerId>,
}

impl Task {
    pub(super) fn new(
        swarm: Swarm<Behaviour>,
        commands: mpsc::Receiver<Command>,
        told: Told,
        hints: watch::Sender<Hints>,
        duplicate_grace: Duration,
    ) -> Self {
        let (dialing, doubted, doubts) = (HashMap::new(), HashSet::new(), JoinSet::new());
        let (reservations, errands) = Default::default();
        let directs = DirectWaits::new(hints);
        Self {
            swarm,
            commands,
            told,
            reservations,
            directs,
            errands,
            dialing,
            duplicate_grace,
            doubted,
            doubts,
        }
    }

    /// Runs until it is told to shut down or every [`Node`](super::Node) is gone.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_event(event),
                Some(Ok(peer)) = self.doubts.join_next() => self.close_duplicates(peer),
                command = self.commands.recv() => match command {
                    Some(Command::Dial { peer, address, reply }) => self.dial(peer, address, reply),
                    Some(Command::Meet { relay, address, reply }) => self.meet(relay, address, reply),
                    Some(Command::Reserve { relay, address, state }) => {
                        self.reservations.ask(&mut self.swarm, relay, &address, state);
                    }
                    Some(Command::Direct { peer, transport, reply }) => {
                        self.directs.wait(peer, transport, reply);
                        self.transfer().directs(&peer).iter().for_each(|there| self.directs.came(there));
                    }
                    Some(Command::Errand { at, errand }) => {
                        let rendezvous = &mut self.swarm.behaviour_mut().reach.rendezvous;
                        self.errands.run(rendezvous, at, errand);
                    }
                    Some(Command::Seek { peer, finder }) => self.seek(peer, finder),
                    Some(Command::Neighbours(reply)) => {
                        // Whoever asked may have given up.
                        let _ = reply.send(self.swarm.behaviour().lan.neighbours());
                    }
                    Some(Command::Close(id)) => {
                        self.swarm.close_connection(id);
                    }
                    Some(Command::Shutdown(done)) => {
                        self.close_all().await;
                        // Whoever asked may not wait for it.
                        let _ = done.send(());
                        return;
                    }
                    None => return self.close_all().await,
                },
            }
        }
    }

    fn dial(&mut self, peer: PeerId, address: Multiaddr, reply: DialReply) {
        let options = DialOpts::peer_id(peer).condition(PeerCondition::Always);
        // A TCP connect from the listening port to the same address twice would clash with itself.
        let options = match TransportKind::of(&address) {
            Some(TransportKind::Tcp) | None => options.allocate_new_port(),
            Some(TransportKind::Quic) => options,
        };
        self.start_dial(options.addresses(vec![address]), reply);
    }

    /// Dials a relay from the port that is listened on, so that the port which it sees is the one that others can use.
    fn meet(&mut self, relay: PeerId, address: Multiaddr, reply: DialReply) {
        let there = self.transfer().directs(&relay);
        let kind = TransportKind::of(&address);
        if let Some(connection) = there.into_iter().find(|there| Some(there.transport()) == kind) {
            // Whoever asked may have given up.
            let _ = reply.send(Ok(connection));
            return;
        }
        let options = DialOpts::peer_id(relay).condition(PeerCondition::Always);
        self.start_dial(options.addresses(vec![address]), reply);
    }

    fn start_dial(&mut self, options: WithPeerIdWithAddresses, reply: DialReply) {
        let options = options.build();
        let id = options.connection_id();
        self.dialing.insert(id, reply);
        match self.swarm.dial(options) {
            Ok(()) => self.transfer().dialing(id),
            Err(error) => self.dial_failed(id, error),
        }
    }

    fn seek(&mut self, peer: PeerId, finder: Finder) {
        self.swarm.behaviour_mut().lan.seek(peer, finder);
    }

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::ConnectionEstablished { connection_id, peer_id, .. } => {
                self.established(connection_id);
                self.note_direct(connection_id);
                self.doubt(peer_id);
            }
            SwarmEvent::OutgoingConnectionError { connection_id, error, .. } => {
                self.dial_failed(connection_id, error);
            }
            SwarmEvent::IncomingConnectionError { connection_id, send_back_addr, error, .. } => {
                tracing::debug!(address = %send_back_addr, %error, "an inbound connection failed");
                self.transfer().ended(connection_id, CloseReason::Local);
            }
            SwarmEvent::ConnectionClosed { connection_id, cause, .. } => {
                self.transfer().ended(connection_id, close_reason(cause));
                self.directs.forget_leavers();
            }
            SwarmEvent::NewListenAddr { listener_id, address } => {
                let own = *self.swarm.local_peer_id();
                if !self.reservations.on_address(listener_id, &address, own) {
                    self.note_addresses();
                }
            }
            SwarmEvent::ExpiredListenAddr { .. } => self.note_addresses(),
            SwarmEvent::ExternalAddrConfirmed { .. } | SwarmEvent::ExternalAddrExpired { .. } => {
                self.told.external.send_replace(self.swarm.external_addresses().cloned().collect());
            }
            SwarmEvent::ListenerError { error, .. } => tracing::warn!(%error, "a listener failed"),
            SwarmEvent::ListenerClosed { listener_id, addresses, reason } => {
                if !self.reservations.on_closed(listener_id, &reason) {
                    tracing::warn!(?addresses, ?reason, "a listener ended");
                }
            }
            SwarmEvent::Behaviour(event) => self.on_behaviour_event(event),
            SwarmEvent::IncomingConnection { .. }
            | SwarmEvent::Dialing { .. }
            | SwarmEvent::NewExternalAddrCandidate { .. }
            | SwarmEvent::NewExternalAddrOfPeer { .. }
            | _ => {}
        }
    }

    fn on_behaviour_event(&mut self, event: BehaviourEvent) {
        match event {
            BehaviourEvent::Identify(identify::Event::Received { connection_id, peer_id, info }) => {
                self.note_observed(connection_id, peer_id, &info.observed_addr);
                self.transfer().note(connection_id, |state| state.agent = Some(info.agent_version));
            }
            BehaviourEvent::Ping(ping::Event { connection, result, .. }) => {
                // The behaviour says nothing of a first failure, nor of a peer that answers at the second try.
                let silent = match &result {
                    Ok(_) | Err(ping::Failure::Unsupported) => false,
                    Err(ping::Failure::Timeout | ping::Failure::Other { .. }) => true,
                };
                self.transfer().note(connection, |state| {
                    state.pings += 1;
                    state.silent = silent;
                    state.last_ping = Some(result.map_err(|failure| failure.to_string()));
                });
            }
            BehaviourEvent::Identify(identify::Event::Error { peer_id, error, .. }) => {
                tracing::debug!(peer = %peer_id, %error, "the peer did not identify itself");
            }
            BehaviourEvent::Identify(identify::Event::Sent { .. } | identify::Event::Pushed { .. }) => {}
            BehaviourEvent::Reach(event) => self.on_reach_event(event),
            BehaviourEvent::Transfer(never) => match never {},
            BehaviourEvent::Limits(never) | BehaviourEvent::Lan(never) => match never {},
        }
    }

    fn on_reach_event(&mut self, event: ReachEvent) {
        match event {
            ReachEvent::Relay(
                relay::client::Event::ReservationReqAccepted { relay_peer_id, limit, .. }
                | relay::client::Event::OutboundCircuitEstablished { relay_peer_id, limit },
            ) => {
                let limit = limit.map(|limit| told_limit(limit.data_in_bytes(), limit.duration()));
                self.transfer().relay_allows(relay_peer_id, limit.unwrap_or_default());
            }
            ReachEvent::Relay(relay::client::Event::InboundCircuitEstablished { src_peer_id, .. }) => {
                tracing::debug!(peer = %src_peer_id, "a peer comes over a circuit");
            }
            ReachEvent::Dcutr(dcutr::Event { remote_peer_id, result }) => {
                tracing::debug!(peer = %remote_peer_id, ?result, "punching a hole has ended");
                if result.is_err() {
                    self.directs.failed(remote_peer_id);
                }
            }
            ReachEvent::Upnp(event) => note_ports(&self.told.ports, event, &self.told.addresses.borrow()),
            ReachEvent::Rendezvous(event) => self.errands.on_event(event),
            ReachEvent::Autonat(event) => {
                tracing::debug!(address = %event.tested_addr, result = ?event.result, "an address of ours was tried");
            }
        }
    }

    /// Circuits are no addresses that this node listens on by itself.
    fn note_addresses(&mut self) {
        let own = self.swarm.listeners().filter(|address| split_relay(address).is_none());
        self.told.addresses.send_replace(own.cloned().collect());
    }

    fn note_observed(&mut self, id: ConnectionId, by: PeerId, observed: &Multiaddr) {
        if self.transfer().shows_port(id) {
            let listening = self.told.addresses.borrow().clone();
            self.directs.observed(by, observed, &listening);
        }
    }

    fn note_direct(&mut self, id: ConnectionId) {
        let connection = self.transfer().connection(id).filter(|connection| connection.circuit().is_none());
        if let Some(connection) = connection {
            self.directs.came(&connection);
        }
    }

    fn established(&mut self, id: ConnectionId) {
        let Some(reply) = self.dialing.remove(&id) else { return };
        let Some(connection) = self.transfer().connection(id) else { return };
        if reply.send(Ok(connection)).is_err() {
            // Another address was faster, or whoever dialed gave up.
            self.swarm.close_connection(id);
        }
    }

    /// Looks at the connections with a peer some time from now, if there may be one too many.
    fn doubt(&mut self, peer: PeerId) {
        let duplicates = self.duplicates(&peer);
        if duplicates.is_empty() || !self.doubted.insert(peer) {
            return;
        }
        // Whoever waits for a direct connection of another transport may still go over the circuit.
        let is_circuit = duplicates.iter().any(|duplicate| duplicate.is_circuit);
        let grace = self.duplicate_grace + if is_circuit { DIRECT_LIMIT } else { Duration::ZERO };
        self.doubts.spawn(async move {
            sleep(grace).await;
            peer
        });
    }

    /// Closes the connections with a peer that are too much and carry nothing; looks again at those that do.
    fn close_duplicates(&mut self, peer: PeerId) {
        self.doubted.remove(&peer);
        for duplicate in self.duplicates(&peer).into_iter().filter(|duplicate| !duplicate.carries_streams) {
            self.transfer().ended(duplicate.id, CloseReason::Duplicate);
            self.swarm.close_connection(duplicate.id);
        }
        self.doubt(peer);
    }

    fn duplicates(&mut self, peer: &PeerId) -> Vec<Candidate<ConnectionId>> {
        // A relay that tries our addresses dials too, and the reservation is on one of the two connections.
        if self.reservations.has(peer) {
            return Vec::new();
        }
        let own = *self.swarm.local_peer_id();
        duplicates(&own, peer, &self.transfer().candidates(peer))
    }

    fn dial_failed(&mut self, id: ConnectionId, error: libp2p::swarm::DialError) {
        self.transfer().ended(id, CloseReason::Local);
        if let Some(reply) = self.dialing.remove(&id) {
            // Another address may have been faster.
            let _ = reply.send(Err(explain(error)));
        }
    }

    async fn close_all(&mut self) {
        let open = self.transfer().connections().collect::<Vec<_>>();
        for &id in &open {
            self.swarm.close_connection(id);
        }
        if timeout(SHUTDOWN_TIMEOUT, self.drain()).await.is_err() {
            tracing::debug!("some peers did not take the end of their connection in time");
        }
    }

    async fn drain(&mut self) {
        while self.transfer().connections().next().is_some() {
            let event = self.swarm.select_next_some().await;
            self.on_event(event);
        }
    }

    fn transfer(&mut self) -> &mut Transfer {
        &mut self.swarm.behaviour_mut().transfer
    }
}

fn close_reason(cause: Option<ConnectionError>) -> CloseReason {
    match cause {
        None => CloseReason::Local,
        Some(ConnectionError::KeepAliveTimeout) => CloseReason::Idle,
        Some(ConnectionError::IO(error)) => CloseReason::Lost(ketch_channel::describe(&error)),
    }
}
