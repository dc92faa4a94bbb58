//! [`RelayServer`]: what `ketch relay` runs. It relays circuits between peers that cannot dial each other, lets peers
//! leave their addresses for each other, and tells each which of its own addresses others can dial.

mod hop;
mod rendezvous;
mod reserve;
mod services;
mod wire;

use std::{sync::Arc, time::Instant};

use futures::StreamExt;
use ketch_channel::{ChannelSettings, Deadlines, transport};
use libp2p::{
    Multiaddr, PeerId, Swarm, autonat, connection_limits, identify,
    identity::{Keypair, PublicKey},
    ping,
    swarm::{self, NetworkBehaviour, SwarmEvent},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use self::{
    reserve::Reserve,
    services::{Services, Shared},
};
use super::{
    address::dialable_by_others,
    limits::{
        PING_INTERVAL, PING_TIMEOUT, RELAY_CONNECTIONS, RELAY_CONNECTIONS_PER_PEER, RELAY_DIALS,
        RELAY_IDLE_TIMEOUT, SHUTDOWN_TIMEOUT,
    },
    node::{NodeError, NodeOptions, listen},
};
use crate::relay::{Policy, metrics};

/// How a relay meets the network.
#[derive(Debug, Clone, Default)]
pub struct RelayOptions {
    /// Addresses to listen on. Each must work, or the relay does not start.
    pub listen: Vec<Multiaddr>,
    /// Addresses to listen on where the machine can.
    pub listen_where_possible: Vec<Multiaddr>,
    /// Addresses at which others reach it, where it can't see them itself.
    pub external: Vec<Multiaddr>,
    /// How much it does for whom.
    pub policy: Policy,
}

/// A running relay. It ends when it is shut down or dropped.
pub struct RelayServer {
    peer: PeerId,
    listens: bool,
    addresses: watch::Receiver<Vec<Multiaddr>>,
    gauges: watch::Receiver<metrics::Gauges>,
    shared: Arc<Shared>,
    stop: mpsc::Sender<oneshot::Sender<()>>,
}

impl RelayServer {
    /// Starts it in a task of its own. Must run within a tokio runtime.
    pub async fn start(keypair: Keypair, options: RelayOptions) -> Result<Self, NodeError> {
        let (transport, _) = transport(&keypair, Deadlines::default(), ChannelSettings::default())?;
        let peer = keypair.public().to_peer_id();
        let config = swarm::Config::with_tokio_executor().with_idle_connection_timeout(RELAY_IDLE_TIMEOUT);
        let RelayOptions { listen: required, listen_where_possible, external, policy } = options;
        let shared = Shared::new(policy);
        let mut swarm =
            Swarm::new(transport, Behaviour::new(&keypair.public(), shared.clone()), peer, config);
        let wanted = NodeOptions { listen: required, listen_where_possible, ..NodeOptions::default() };
        listen(&mut swarm, &wanted).await?;
        external.iter().for_each(|address| swarm.add_external_address(address.clone()));
        let (addresses, mut known) = watch::channel(Vec::new());
        let (counted, gauges) = watch::channel(metrics::Gauges::default());
        let (stop, stopped) = mpsc::channel(1);
        let (is_told, listens) = (!external.is_empty(), swarm.listeners().next().is_some());
        let mut task = Task { swarm, is_told, addresses, gauges: counted, shared: shared.clone() };
        task.note_addresses();
        known.mark_unchanged();
        tokio::spawn(task.run(stopped));
        Ok(Self { peer, listens, addresses: known, gauges, shared, stop })
    }

    /// Who it is.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// The addresses at which others reach it, as far as it knows, without its PeerId.
    pub fn addresses(&self) -> Vec<Multiaddr> {
        self.addresses.borrow().clone()
    }

    /// Whether it listens anywhere.
    pub fn listens(&self) -> bool {
        self.listens
    }

    /// Resolves when these have changed since this was asked last.
    pub async fn addresses_changed(&mut self) {
        if self.addresses.changed().await.is_err() {
            // It has ended, and nothing will change any more.
            std::future::pending::<()>().await;
        }
    }

    /// What it has done and does, in the format of Prometheus.
    pub fn metrics(&self) -> impl Fn() -> String + Send + Sync + use<> {
        let (shared, gauges) = (self.shared.clone(), self.gauges.clone());
        move || metrics::render(&shared.ledger(), &shared.board(), *gauges.borrow(), Instant::now())
    }

    /// Closes all connections and ends, within half a second even when a peer takes nothing.
    pub async fn shutdown(&self) {
        let (done, finished) = oneshot::channel();
        if self.stop.send(done).await.is_ok() {
            // An error means that it has ended.
            let _ = finished.await;
        }
    }
}

/// The limits come first, so that a connection they refuse is seen by nobody else.
#[derive(NetworkBehaviour)]
struct Behaviour {
    limits: connection_limits::Behaviour,
    reserve: Reserve,
    identify: identify::Behaviour,
    ping: ping::Behaviour,
    services: Services,
    autonat: autonat::v2::server::Behaviour,
}

impl Behaviour {
    fn new(key: &PublicKey, shared: Arc<Shared>) -> Self {
        let limits = connection_limits::ConnectionLimits::default()
            .with_max_established_per_peer(Some(RELAY_CONNECTIONS_PER_PEER))
            .with_max_pending_outgoing(Some(RELAY_DIALS))
            .with_max_established(Some(RELAY_CONNECTIONS));
        let identify = identify::Config::new("/ketch/1".into(), key.clone())
            .with_agent_version(concat!("ketch-relay/", env!("CARGO_PKG_VERSION")).into());
        let ping = ping::Config::new().with_interval(PING_INTERVAL).with_timeout(PING_TIMEOUT);
        Self {
            limits: connection_limits::Behaviour::new(limits),
            reserve: Reserve::new(),
            identify: identify::Behaviour::new(identify),
            ping: ping::Behaviour::new(ping),
            services: Services::new(shared),
            autonat: Default::default(),
        }
    }
}

struct Task {
    swarm: Swarm<Behaviour>,
    /// Whether somebody said where it is reached. Otherwise it is where it listens.
    is_told: bool,
    addresses: watch::Sender<Vec<Multiaddr>>,
    gauges: watch::Sender<metrics::Gauges>,
    shared: Arc<Shared>,
}

impl Task {
    async fn run(mut self, mut stopped: mpsc::Receiver<oneshot::Sender<()>>) {
        let done = loop {
            tokio::select! {
                event = self.swarm.select_next_some() => self.on_event(event),
                done = stopped.recv() => break done,
            }
        };
        self.close_all().await;
        if let Some(done) = done {
            // Whoever asked may not wait for it.
            let _ = done.send(());
        }
    }

    fn on_event(&mut self, event: SwarmEvent<BehaviourEvent>) {
        match event {
            SwarmEvent::NewListenAddr { .. } | SwarmEvent::ExpiredListenAddr { .. } => self.note_addresses(),
            SwarmEvent::ListenerError { error, .. } => tracing::warn!(%error, "a listener failed"),
            SwarmEvent::ListenerClosed { addresses, reason, .. } => {
                tracing::warn!(?addresses, ?reason, "a listener ended");
            }
            SwarmEvent::ConnectionEstablished { .. } | SwarmEvent::ConnectionClosed { .. } => {
                let connections = self.swarm.network_info().connection_counters().num_established() as usize;
                self.gauges.send_modify(|gauges| gauges.connections = connections);
            }
            SwarmEvent::Behaviour(BehaviourEvent::Autonat(event)) => {
                tracing::debug!(peer = %event.client, address = %event.tested_addr, "tried an address for a peer");
                self.gauges.send_modify(|gauges| gauges.address_checks += 1);
            }
            SwarmEvent::Behaviour(
                BehaviourEvent::Identify(_)
                | BehaviourEvent::Ping(_)
                | BehaviourEvent::Limits(_)
                | BehaviourEvent::Reserve(_)
                | BehaviourEvent::Services(_),
            )
            | SwarmEvent::IncomingConnection { .. }
            | SwarmEvent::IncomingConnectionError { .. }
            | SwarmEvent::OutgoingConnectionError { .. }
            | SwarmEvent::Dialing { .. }
            | SwarmEvent::NewExternalAddrCandidate { .. }
            | SwarmEvent::ExternalAddrConfirmed { .. }
            | SwarmEvent::ExternalAddrExpired { .. }
            | SwarmEvent::NewExternalAddrOfPeer { .. }
            | _ => {}
        }
    }

    /// Whoever runs a relay says where it is, or runs it where its own addresses are those that others dial.
    fn note_addresses(&mut self) {
        if !self.is_told {
            let before: Vec<_> = self.swarm.external_addresses().cloned().collect();
            let now = dialable_by_others(self.swarm.listeners().cloned().collect());
            before
                .iter()
                .filter(|old| !now.contains(old))
                .for_each(|old| self.swarm.remove_external_address(old));
            now.into_iter().for_each(|address| self.swarm.add_external_address(address));
        }
        let known: Vec<_> = self.swarm.external_addresses().cloned().collect();
        let own = *self.swarm.local_peer_id();
        let named = known.iter().map(|address| named(address, own)).collect();
        self.shared.set_addresses(named);
        self.swarm.behaviour_mut().reserve.is_reached_at(&known);
        self.addresses.send_if_modified(|before| {
            let is_new = *before != known;
            *before = known;
            is_new
        });
    }

    async fn close_all(&mut self) {
        let peers: Vec<_> = self.swarm.connected_peers().copied().collect();
        for peer in peers {
            // One that has gone meanwhile is closed.
            let _ = self.swarm.disconnect_peer_id(peer);
        }
        let drain = async {
            while self.swarm.connected_peers().next().is_some() {
                self.swarm.select_next_some().await;
            }
        };
        if timeout(SHUTDOWN_TIMEOUT, drain).await.is_err() {
            tracing::debug!("some peers did not take the end of their connection in time");
        }
    }
}

/// The address with the PeerId at its end, once.
fn named(address: &Multiaddr, own: PeerId) -> Multiaddr {
    // One that names somebody else is left as its owner wrote it.
    address.clone().with_p2p(own).unwrap_or_else(|other| other)
}
