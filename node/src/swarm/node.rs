//! [`Node`]: the handle of the swarm.

use std::{io, time::Duration};

use futures::{FutureExt, StreamExt};
use ketch_channel::{
    ChannelSettings, Controller, ControllerError, Deadlines, IdentityError, TransportKind, check_controller,
    limits::{QUIC_STREAMS, YAMUX_STREAMS},
    transport,
};
use libp2p::{
    Multiaddr, PeerId, Swarm, TransportError,
    core::{
        muxing::StreamMuxerBox,
        transport::{Boxed, ListenerId},
        upgrade::Version,
    },
    identity::Keypair,
    swarm::{self, SwarmEvent},
};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::{Instant, timeout_at},
};

use super::{
    connection::Connection,
    dial::{DialError, dial},
    inbound::{Inbound, Inlets},
    limits::{
        COMMAND_QUEUE, DIAL_GRACE, DUPLICATE_GRACE, IDLE_TIMEOUT, LISTEN_TIMEOUT, PING_INTERVAL, PING_TIMEOUT,
    },
    ping::{PingError, PingReport, ping},
    taken::check_free,
    task::{Behaviour, Command, Task},
    transfer::Transfer,
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
    /// Time between the pings of a connection. The first one is sent at once.
    pub ping_interval: Duration,
    /// Time that one ping may take.
    pub ping_timeout: Duration,
    /// Time a connection may stay without handle and stream.
    pub idle_timeout: Duration,
    /// Time a connection that both sides dialed at once may stay without a stream. After it the one of the peer with
    /// the greater PeerId is closed.
    pub duplicate_grace: Duration,
    /// Whether peers may come to be introduced ([`Inbound::take_introductions`]).
    pub introductions: bool,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self {
            listen: Vec::new(),
            listen_where_possible: Vec::new(),
            deadlines: Deadlines::default(),
            settings: ChannelSettings::default(),
            ping_interval: PING_INTERVAL,
            ping_timeout: PING_TIMEOUT,
            idle_timeout: IDLE_TIMEOUT,
            duplicate_grace: DUPLICATE_GRACE,
            introductions: false,
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
}

impl Node {
    /// Starts the swarm in a task of its own, listening on all addresses. Must run within a tokio runtime.
    pub async fn start(keypair: Keypair, options: NodeOptions) -> Result<(Self, Inbound), NodeError> {
        let (commands, commanded) = mpsc::channel(COMMAND_QUEUE);
        let (inbound, arriving) = Inlets::open(options.introductions);
        check_listening(&options)?;
        let (transport, gauges) = transport(&keypair, options.deadlines, options.settings.clone())?;
        let transfer = Transfer::new(inbound, commands.downgrade(), options.settings.controller, gauges);
        let mut swarm = swarm(&keypair, transport, transfer, &options);
        listen(&mut swarm, &options).await?;
        let (addresses, listened) = watch::channel(swarm.listeners().cloned().collect());
        let peer = *swarm.local_peer_id();
        let NodeOptions { deadlines, settings: ChannelSettings { controller, .. }, duplicate_grace, .. } =
            options;
        tokio::spawn(Task::new(swarm, commanded, addresses, duplicate_grace).run());
        let node = Self { peer, deadlines, controller, commands, addresses: listened };
        Ok((node, arriving))
    }

    /// Who this node is.
    pub fn peer(&self) -> PeerId {
        self.peer
    }

    /// The addresses it is listening on now, one for each interface, without its PeerId.
    pub fn listen_addresses(&self) -> Vec<Multiaddr> {
        self.addresses.borrow().clone()
    }

    /// Makes a new connection with a peer, over whichever address answers first. It ends within a second
    /// of the set-up deadline, and dropping it gives up.
    pub async fn dial(&self, peer: PeerId, addresses: Vec<Multiaddr>) -> Result<Connection, DialError> {
        if let Some(controller) = self.controller
            && has_tcp(&addresses)
        {
            check_controller(controller)?;
        }
        dial(&self.commands, peer, addresses, self.deadlines.setup + DIAL_GRACE).await
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
    options: &NodeOptions,
) -> Swarm<Behaviour> {
    let config = swarm::Config::with_tokio_executor()
        .with_substream_upgrade_protocol_override(Version::V1Lazy)
        // More streams than this in negotiation would be dropped; neither transport allows more.
        .with_max_negotiating_inbound_streams(YAMUX_STREAMS.max(QUIC_STREAMS as usize))
        .with_idle_connection_timeout(options.idle_timeout);
    let behaviour = Behaviour::new(transfer, keypair.public(), options.ping_interval, options.ping_timeout);
    Swarm::new(transport, behaviour, keypair.public().to_peer_id(), config)
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
async fn listen(swarm: &mut Swarm<Behaviour>, options: &NodeOptions) -> Result<(), NodeError> {
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
async fn listener_event(swarm: &mut Swarm<Behaviour>) -> (ListenerId, Option<io::Error>) {
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
