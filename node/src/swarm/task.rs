//! The event loop: the one task that owns the Swarm.

use std::{
    collections::{HashMap, HashSet},
    time::Duration,
};

use futures::StreamExt;
use ketch_channel::TransportKind;
use libp2p::{
    Multiaddr, PeerId, Swarm, connection_limits, identify,
    identity::PublicKey,
    ping,
    swarm::{
        ConnectionError, ConnectionId, NetworkBehaviour, SwarmEvent,
        dial_opts::{DialOpts, PeerCondition},
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
    duplicates::{Candidate, duplicates},
    limits::{CONNECTIONS, CONNECTIONS_PER_PEER, SHUTDOWN_TIMEOUT},
    mdns::Lan,
    transfer::Transfer,
};

/// What handles ask of the event loop.
pub(super) enum Command {
    /// One attempt to reach a peer at one address.
    Dial { peer: PeerId, address: Multiaddr, reply: DialReply },
    /// Look for a peer wherever this node can, until the other end of `finder` is dropped.
    Seek { peer: PeerId, finder: Finder },
    /// End a connection; its holders learn of it from its state.
    Close(ConnectionId),
    /// Close everything and end.
    Shutdown(oneshot::Sender<()>),
}

/// Where addresses of a peer that are found go, as many as there is room for. Whoever has nothing more to say drops it.
pub(super) type Finder = mpsc::Sender<Vec<Multiaddr>>;

type DialReply = oneshot::Sender<Result<Connection, AttemptError>>;

/// All behaviours. The limits come first, so that a connection they refuse is seen by nobody else.
#[derive(NetworkBehaviour)]
pub(super) struct Behaviour {
    limits: connection_limits::Behaviour,
    pub(super) transfer: Transfer,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    lan: Lan,
}

impl Behaviour {
    pub(super) fn new(
        transfer: Transfer,
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
            lan,
        }
    }
}

/// The state of the event loop.
pub(super) struct Task {
    swarm: Swarm<Behaviour>,
    commands: mpsc::Receiver<Command>,
    addresses: watch::Sender<Vec<Multiaddr>>,
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
        addresses: watch::Sender<Vec<Multiaddr>>,
        duplicate_grace: Duration,
    ) -> Self {
        let (dialing, doubted, doubts) = (HashMap::new(), HashSet::new(), JoinSet::new());
        Self { swarm, commands, addresses, dialing, duplicate_grace, doubted, doubts }
    }

    /// Runs until it is told to shut down or every [`Node`](super::Node) is gone.
    pub(super) async fn run(mut self) {
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_event(event),
                Some(Ok(peer)) = self.doubts.join_next() => self.close_duplicates(peer),
                command = self.commands.recv() => match command {
                    Some(Command::Dial { peer, address, reply }) => self.dial(peer, address, reply),
                    Some(Command::Seek { peer, finder }) => self.seek(peer, finder),
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
        let options = options.addresses(vec![address]).build();
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
            }
            SwarmEvent::NewListenAddr { .. } | SwarmEvent::ExpiredListenAddr { .. } => {
                self.addresses.send_replace(self.swarm.listeners().cloned().collect());
            }
            SwarmEvent::ListenerError { error, .. } => tracing::warn!(%error, "a listener failed"),
            SwarmEvent::ListenerClosed { addresses, reason, .. } => {
                tracing::warn!(?addresses, ?reason, "a listener ended");
            }
            SwarmEvent::Behaviour(event) => self.on_behaviour_event(event),
            SwarmEvent::IncomingConnection { .. }
            | SwarmEvent::Dialing { .. }
            | SwarmEvent::NewExternalAddrCandidate { .. }
            | SwarmEvent::ExternalAddrConfirmed { .. }
            | SwarmEvent::ExternalAddrExpired { .. }
            | SwarmEvent::NewExternalAddrOfPeer { .. }
            | _ => {}
        }
    }

    fn on_behaviour_event(&mut self, event: BehaviourEvent) {
        match event {
            BehaviourEvent::Identify(identify::Event::Received { connection_id, info, .. }) => {
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
            BehaviourEvent::Transfer(never) => match never {},
            BehaviourEvent::Limits(never) | BehaviourEvent::Lan(never) => match never {},
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
        if self.duplicates(&peer).is_empty() || !self.doubted.insert(peer) {
            return;
        }
        let grace = self.duplicate_grace;
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
