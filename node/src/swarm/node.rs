//! [`Node`]: the handle of the swarm.

use std::{collections::HashSet, io, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future};
use ketch_channel::{
    ChannelSettings, Controller, ControllerError, Deadlines, Gauges, IdentityError, TransportKind,
    check_controller,
    limits::{QUIC_STREAMS, YAMUX_STREAMS},
    transport_with_circuits,
};
use libp2p::{
    Multiaddr, PeerId, Swarm, TransportError,
    core::{
        Transport as _,
        muxing::StreamMuxerBox,
        transport::{Boxed, ListenerId},
        upgrade::Version,
    },
    identity::Keypair,
    swarm::{self, NetworkBehaviour, SwarmEvent},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    task::JoinSet,
    time::{Instant, timeout, timeout_at},
};

use super::{
    connection::Connection,
    dial::{DialError, DialRequest, dial},
    direct::{Hints, NoDirect, wait_for_direct},
    inbound::{Inbound, Inlets},
    limits::{
        COMMAND_QUEUE, DIAL_GRACE, DUPLICATE_GRACE, IDLE_TIMEOUT, LISTEN_TIMEOUT, PING_INTERVAL,
        PING_TIMEOUT, PORTS_LIMIT,
    },
    mdns::Lan,
    meet::meet,
    ping::{PingError, PingReport, ping},
    reach::{Reach, explain_circuit},
    relays::KeptReservations,
    reservation::{Relay, Reservation, ReservationError, ReservationState},
    taken::check_free,
    task::{Behaviour, Command, Task, Told},
    transfer::Transfer,
    upnp::OpenedPorts,
};

/// How a node meets the network.
#[derive(Debug, Clone)]
pub struct NodeOptions {
    /// Addresses to listen on. Each must work, or the node does not start.
    pub listen: Vec<Multiaddr>,
    /// Addresses to listen on where the machine can, for instance IPv6.
    pub listen_where_possible: Vec<Multiaddr>,
    /// How long a connection may take to come about.
    pub deadlines: Deadlines,
    /// What connections are asked for.
    pub settings: ChannelSettings,
    /// Whether it looks for peers on the LAN, and tells there where it listens.
    pub lan: bool,
    /// Time between the pings of a connection. The first one is sent at once.
    pub ping_interval: Duration,
    /// Time that one ping may take.
    pub ping_timeout: Duration,
    /// Time a connection may stay without handle and stream.
    pub idle_timeout: Duration,
    /// Time a connection that both sides dialed at once may stay without a stream. After it the one of the peer with
    /// the greater PeerId is closed.
    pub duplicate_grace: Duration,
    /// Relays through which it meets others: where it reserves places, leaves its addresses and looks for peers.
    pub relays: Vec<Relay>,
    /// Whether peers may come to be introduced ([`Inbound::take_introductions`]).
    pub introductions: bool,
    /// Whether routers are asked to open the ports that it listens on (UPnP).
    pub opens_ports: bool,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            listen_where_possible: Vec::new(),
            deadlines: Deadlines::default(),
            settings: ChannelSettings::default(),
            lan: false,
            ping_interval: PING_INTERVAL,
            ping_timeout: PING_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            duplicate_grace: DUPLICATE_GRACE,
            relays: Vec::new(),
            introductions: false,
            opens_ports: false,
        }
    }
}

/// Why a node did not start.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The identity cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// This process may not choose the congestion controller that was asked for.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// An address to listen on is taken, not ours, or of no transport we speak.
    #[error("listening on {address}: {cause}")]
    Listen {
        /// What was asked for.
        address: Multiaddr,
        /// Why it failed.
        cause: String,
    },
}

/// A running swarm. Cheap to clone; it ends when it is shut down or the last clone is dropped.
#[derive(Clone)]
pub struct Node {
    peer: PeerId,
    deadlines: Deadlines,
    controller: Option<Controller>,
    commands: mpsc::Sender<Command>,
    addresses: watch::Receiver<Vec<Multiaddr>>,
    external: watch::Receiver<Vec<Multiaddr>>,
    ports: watch::Receiver<OpenedPorts>,
    hints: watch::Receiver<Hints>,
    /// When it began to listen to the LAN, if it does.
    pub(super) on_lan_since: Option<Instant>,
    pub(super) relays: Arc<[Relay]>,
}

impl Node {
    /// Starts the swarm in a task of its own, listening on all addresses. Must run within a tokio runtime.
    pub async fn start(keypair: Keypair, options: NodeOptions) -> Result<(Self, Inbound), NodeError> {
        check_listening(&options)?;
        let (reach, circuits) = Reach::new(&keypair, options.opens_ports);
        let circuits = circuits.map_err(explain_circuit);
        let settings = options.settings.clone();
        let (transport, gauges) = transport_with_circuits(&keypair, options.deadlines, settings, circuits)?;
        Self::run(keypair, options, transport, reach, gauges).await
    }

    /// The same over a transport of the caller's own, for instance one in memory. It proves who is at the other end, and its
    /// addresses are such as those of a [`TransportKind`]; of its connections nothing else is known. Circuits are none of it.
    pub async fn start_over(
        transport: Boxed<(PeerId, StreamMuxerBox)>,
        keypair: Keypair,
        options: NodeOptions,
    ) -> Result<(Self, Inbound), NodeError> {
        let (reach, circuits) = Reach::new(&keypair, false);
        // Its behaviour expects it to live as long as the swarm.
        let none =
            circuits.and_then(|_, _| future::ready(Err(io::Error::other("nothing goes over circuits here"))));
        let transport = transport.or_transport(none).map(|connected, _| connected.into_inner()).boxed();
        Self::run(keypair, options, transport, reach, Gauges::default()).await
    }

    async fn run(
        keypair: Keypair,
        options: NodeOptions,
        transport: Boxed<(PeerId, StreamMuxerBox)>,
        reach: Reach,
        gauges: Gauges,
    ) -> Result<(Self, Inbound), NodeError> {
        let (commands, commanded) = mpsc::channel(COMMAND_QUEUE);
        let (inbound, arriving) = Inlets::open(options.introductions);
        let transfer = Transfer::new(inbound, commands.downgrade(), options.settings.controller, gauges);
        let mut swarm = swarm(&keypair, transport, transfer, reach, &options);
        listen(&mut swarm, &options).await?;
        let listening: Vec<_> = swarm.listeners().cloned().collect();
        let (ports, opened) = watch::channel(OpenedPorts::begin(options.opens_ports, &listening));
        let (addresses, listened) = watch::channel(listening);
        let (external, reachable) = watch::channel(Vec::new());
        let (told, hints) = watch::channel(Hints::default());
        let peer = *swarm.local_peer_id();
        let NodeOptions {
            deadlines,
            settings: ChannelSettings { controller, .. },
            duplicate_grace,
            relays,
            lan,
            ..
        } = options;
        let tells = Told { addresses, external, ports };
        tokio::spawn(Task::new(swarm, commanded, tells, told, duplicate_grace).run());
        let node = Self {
            peer,
            deadlines,
            controller,
            commands,
            addresses: listened,
            external: reachable,
            ports: opened,
            hints,
            on_lan_since: lan.then(Instant::now),
            relays: relays.into(),
        };
        Ok((node, arriving))
    }

    /// Where the event loop takes its orders.
    pub(super) fn commands(&self) -> &mpsc::Sender<Command> {
        &self.commands
    }

    /// Who this node is.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// The addresses it is listening on now, one for each interface, without its PeerId.
    pub fn listen_addresses(&self) -> Vec<Multiaddr> {
        self.addresses.borrow().clone()
    }

    /// The addresses at which others were seen to reach this node, or that a router has opened: public ones, and those
    /// through relays. They end in its PeerId or not.
    pub fn external_addresses(&self) -> Vec<Multiaddr> {
        self.external.borrow().clone()
    }

    /// Reserves a place at a relay, through which peers reach this node until the reservation ends.
    pub async fn reserve(&self, relay: &Relay) -> Result<Reservation, ReservationError> {
        let limit = self.deadlines.setup + DIAL_GRACE;
        let listened = self.transports();
        let fits = |address: &&Multiaddr| {
            listened.is_empty() || TransportKind::of(address).is_some_and(|kind| listened.contains(&kind))
        };
        let addresses: Vec<_> = relay.addresses.iter().filter(fits).cloned().collect();
        let connection = meet(&self.commands, relay.peer, &addresses, limit).await?;
        let others = self.views(relay.peer, addresses, connection.transport());
        let (state, told) = watch::channel(ReservationState::Asked);
        let address = connection.remote_address().clone();
        let command = Command::Reserve { relay: relay.peer, address, state };
        self.commands.send(command).await.map_err(|_| ReservationError::Stopped)?;
        Reservation::granted(relay.peer, connection, others, told).await
    }

    /// Over what it listens.
    fn transports(&self) -> HashSet<TransportKind> {
        self.addresses.borrow().iter().filter_map(TransportKind::of).collect()
    }

    /// Connects with a relay over the other transports too, in the background: over each of them it sees another port of
    /// this node, and only over one of which it was seen can a hole be punched.
    fn views(
        &self,
        relay: PeerId,
        addresses: Vec<Multiaddr>,
        met: TransportKind,
    ) -> JoinSet<Option<Connection>> {
        let other: Vec<_> =
            addresses.into_iter().filter(|address| TransportKind::of(address) != Some(met)).collect();
        let (commands, limit) = (self.commands.clone(), self.deadlines.setup + DIAL_GRACE);
        let mut views = JoinSet::new();
        if !other.is_empty() {
            views.spawn(async move { meet(&commands, relay, &other, limit).await.ok() });
        }
        views
    }

    /// Keeps reservations at up to two of the relays that the node knows, and the node's addresses there under the name
    /// of its PeerId, until what is returned is dropped.
    pub fn keep_reservations(&self) -> KeptReservations {
        KeptReservations::start(self.clone(), self.relays.to_vec())
    }

    /// Makes a new connection with a peer, over whichever of its addresses answers first, or the faster transport where
    /// one is known ([`DialRequest::faster`]). It ends in a bounded time, and dropping it gives up.
    pub async fn dial(&self, peer: PeerId, request: impl Into<DialRequest>) -> Result<Connection, DialError> {
        let request = request.into();
        if let Some(controller) = self.controller
            && has_tcp(&request.addresses)
        {
            check_controller(controller)?;
        }
        let limit = self.deadlines.setup + DIAL_GRACE;
        let node = self.clone();
        let at_relays = async move { node.addresses_at_relays(peer).await };
        dial(&self.commands, peer, request, self.listen_addresses(), at_relays, limit).await
    }

    /// Moves from a circuit to a direct connection with its peer, over this transport or any, and closes the circuit. To
    /// bring the connection about is the business of both sides together, and ends within 12 s; where none comes the
    /// circuit stays.
    pub async fn direct(
        &self,
        circuit: &Connection,
        transport: Option<TransportKind>,
    ) -> Result<Connection, NoDirect> {
        let direct = wait_for_direct(&self.commands, circuit.peer(), transport, &self.hints).await?;
        let circuit = circuit.clone();
        // A relay that takes nothing any more must not hold up the session.
        tokio::spawn(async move { circuit.close().await });
        Ok(direct)
    }

    /// Waits until the router has opened all ports that are listened on, or will not; for two seconds at most. Then they
    /// are among the external addresses.
    pub async fn ports_settled(&self) {
        let mut ports = self.ports.clone();
        // The node has stopped, or the router says nothing: what has come until now is all there is.
        let _ = timeout(PORTS_LIMIT, ports.wait_for(|ports| ports.is_settled)).await;
    }

    /// Measures `count` round trips on a connection, one after the other, at the interval of the options.
    pub async fn ping(&self, connection: &Connection, count: u32) -> Result<PingReport, PingError> {
        ping(connection, count).await
    }

    /// Closes all connections and ends, within half a second even when a peer takes nothing.
    pub async fn shutdown(&self) {
        let (done, finished) = oneshot::channel();
        if self.commands.send(Command::Shutdown(done)).await.is_ok() {
            // An error means that it ended by another's order.
            let _ = finished.await;
        }
    }
}

fn swarm(
    keypair: &Keypair,
    transport: Boxed<(PeerId, StreamMuxerBox)>,
    transfer: Transfer,
    reach: Reach,
    options: &NodeOptions,
) -> Swarm<Behaviour> {
    let config = swarm::Config::with_tokio_executor()
        .with_substream_upgrade_protocol_override(Version::V1Lazy)
        // More streams than this in negotiation would be dropped; neither transport allows more.
        .with_max_negotiating_inbound_streams(YAMUX_STREAMS.max(QUIC_STREAMS as usize))
        .with_idle_connection_timeout(options.idle_timeout);
    let own = keypair.public().to_peer_id();
    let lan = if options.lan { Lan::on(own) } else { Lan::off(own) };
    let behaviour =
        Behaviour::new(transfer, reach, lan, keypair.public(), options.ping_interval, options.ping_timeout);
    Swarm::new(transport, behaviour, own, config)
}

/// Who listens on TCP hears before anybody comes that connections there can't have the controller asked for.
fn check_listening(options: &NodeOptions) -> Result<(), ControllerError> {
    let Some(controller) = options.settings.controller else { return Ok(()) };
    if has_tcp(&options.listen) || has_tcp(&options.listen_where_possible) {
        check_controller(controller)?;
    }
    Ok(())
}

fn has_tcp(addresses: &[Multiaddr]) -> bool {
    addresses.iter().any(|address| TransportKind::of(address) == Some(TransportKind::Tcp))
}

/// Listens everywhere and waits until each listener has its first address, or the others have had time enough.
pub(super) async fn listen<B: NetworkBehaviour>(
    swarm: &mut Swarm<B>,
    options: &NodeOptions,
) -> Result<(), NodeError> {
    let mut waiting = Vec::new();
    for address in &options.listen {
        check_free(address).map_err(|error| listen_failed(address, &error))?;
    }
    // Before any is listened on: one may overlap with another.
    let (free, taken): (Vec<_>, Vec<_>) =
        options.listen_where_possible.iter().partition(|address| check_free(address).is_ok());
    taken.iter().for_each(|address| tracing::info!(%address, "not listening here: it is taken"));
    for address in &options.listen {
        let id = swarm.listen_on(address.clone()).map_err(|error| listen_error(address, error))?;
        waiting.push((id, address, true));
    }
    for address in free {
        match swarm.listen_on(address.clone()) {
            Ok(id) => waiting.push((id, address, false)),
            Err(error) => tracing::info!(%address, %error, "not listening here"),
        }
    }
    let deadline = Instant::now() + LISTEN_TIMEOUT;
    while !waiting.is_empty() {
        let Ok((id, failure)) = timeout_at(deadline, listener_event(swarm)).await else { break };
        let Some(index) = waiting.iter().position(|(waiting, ..)| *waiting == id) else { continue };
        let (_, address, required) = waiting.swap_remove(index);
        match failure {
            Some(error) if required => return Err(listen_failed(address, &error)),
            Some(error) => tracing::info!(%address, %error, "not listening here"),
            None => {}
        }
    }
    if let Some((_, address, _)) = waiting.iter().find(|(.., required)| *required) {
        let cause = "no interface has an address of its family".into();
        return Err(NodeError::Listen { address: (*address).clone(), cause });
    }
    // A wildcard address stands for several; the others are usually known at the same time.
    while listener_event(swarm).now_or_never().is_some() {}
    Ok(())
}

/// The next listener that got an address, or ended.
async fn listener_event<B: NetworkBehaviour>(swarm: &mut Swarm<B>) -> (ListenerId, Option<io::Error>) {
    loop {
        let event = swarm.select_next_some().await;
        if let SwarmEvent::NewListenAddr { listener_id, .. } = event {
            return (listener_id, None);
        }
        if let SwarmEvent::ListenerClosed { listener_id, reason, .. } = event {
            let error = reason.err().unwrap_or_else(|| io::Error::other("the listener ended"));
            return (listener_id, Some(error));
        }
    }
}

fn listen_error(address: &Multiaddr, error: TransportError<io::Error>) -> NodeError {
    match error {
        TransportError::MultiaddrNotSupported(_) => {
            let cause = "not an address of tcp or quic".into();
            NodeError::Listen { address: address.clone(), cause }
        }
        TransportError::Other(error) => listen_failed(address, &error),
    }
}

fn listen_failed(address: &Multiaddr, error: &io::Error) -> NodeError {
    NodeError::Listen { address: address.clone(), cause: ketch_channel::describe(error) }
}
