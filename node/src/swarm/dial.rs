//! Dialing a peer at all its addresses, and saying for each why it failed.

use std::{fmt, io, time::Duration};

use ketch_channel::{ControllerError, SetupError, TransportKind};
use libp2p::{
    Multiaddr, PeerId, TransportError,
    swarm::{self, ConnectionDenied},
};
use tokio::{
    runtime::Handle,
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    address::split_peer,
    connection::Connection,
    limits::{DIAL_ADDRESSES, FOUND_QUEUE},
    meet::meet_at,
    order::View,
    race::{Won, race},
    reach::split_relay,
    resolve::resolve,
    task::Command,
};

/// Where a peer may be reached, and how it should be.
#[derive(Debug, Clone, Default)]
pub struct DialRequest {
    /// Where it is known or said to be.
    pub addresses: Vec<Multiaddr>,
    /// Whether it is also looked for wherever this node can, for instance on the LAN.
    pub seek: bool,
    /// The only transport that may be used.
    pub only: Option<TransportKind>,
    /// The transport that is known to carry more on this path. Another one is used where this one does not connect soon.
    pub faster: Option<TransportKind>,
}

/// These addresses and no others.
impl From<Vec<Multiaddr>> for DialRequest {
    fn from(addresses: Vec<Multiaddr>) -> Self {
        Self { addresses, ..Self::default() }
    }
}

/// Why a peer could not be reached.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// There was nothing to try.
    #[error("reaching {0}: no address is known")]
    NoAddress(PeerId),
    /// More addresses than one dial tries.
    #[error("reaching {peer}: {count} addresses were given, at most {DIAL_ADDRESSES} are allowed")]
    ManyAddresses {
        /// Who was dialed.
        peer: PeerId,
        /// How many addresses were given.
        count: usize,
    },
    /// This process may not choose the congestion controller that was asked for.
    #[error(transparent)]
    Controller(#[from] ControllerError),
    /// No address led to the peer.
    #[error("reaching {peer}: {}", Listed(.attempts))]
    Unreachable {
        /// Who was dialed.
        peer: PeerId,
        /// What came of each address.
        attempts: Vec<Attempt>,
    },
}

/// A failed attempt at one address.
#[derive(Debug, thiserror::Error)]
#[error("{address}: {cause}")]
pub struct Attempt {
    /// What was dialed.
    pub address: Multiaddr,
    /// Why it failed.
    pub cause: AttemptError,
}

/// Why one address did not lead to the peer.
#[derive(Debug, thiserror::Error)]
pub enum AttemptError {
    /// A step of setting up the connection failed.
    #[error(transparent)]
    Setup(Box<SetupError>),
    /// Somebody else answered.
    #[error("another peer answered: {0}")]
    WrongPeer(PeerId),
    /// The address says that it is somebody else's.
    #[error("this is an address of peer {0}")]
    OtherPeer(PeerId),
    /// The address is our own.
    #[error("this is an address of this node itself")]
    Own,
    /// The address leads nowhere from any other machine.
    #[error("not tried: {0}")]
    Senseless(&'static str),
    /// No transport of ours takes such an address.
    #[error("not an address of tcp or quic")]
    Unsupported,
    /// The relay in the address could not be reached.
    #[error("reaching the relay {relay}: {cause}")]
    Relay {
        /// Which relay.
        relay: PeerId,
        /// Why.
        cause: Box<AttemptError>,
    },
    /// The name in the address has no address.
    #[error("resolving the name: {0}")]
    Name(io::Error),
    /// A limit of this node refused the connection.
    #[error("refused by a limit of this node: {0}")]
    Limit(ConnectionDenied),
    /// Nothing came, not even from the transport.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Silence(Duration),
    /// The attempt failed in another way.
    #[error("{0}")]
    Other(String),
    /// The node has been shut down.
    #[error("the node has stopped")]
    Stopped,
}

/// Shows attempts on one line; the text of one alone needs no separator.
struct Listed<'a>(&'a [Attempt]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, attempt) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}{attempt}")?;
        }
        Ok(())
    }
}

/// Races the addresses of a peer; the connections that lost are closed as they come.
pub(super) async fn dial(
    commands: &mpsc::Sender<Command>,
    peer: PeerId,
    request: DialRequest,
    own: Vec<Multiaddr>,
    elsewhere: impl Future<Output = Vec<Multiaddr>> + Send + 'static,
    limit: Duration,
) -> Result<Connection, DialError> {
    let DialRequest { addresses, seek: seeks, only, faster } = request;
    if addresses.len() > DIAL_ADDRESSES {
        return Err(DialError::ManyAddresses { peer, count: addresses.len() });
    }
    let (finder, found) = mpsc::channel(FOUND_QUEUE);
    if seeks {
        let finds = finder.clone();
        tokio::spawn(async move {
            // The dial may have come to its end.
            let _ = finds.send(elsewhere.await).await;
        });
        // A node that has stopped tells so by each attempt.
        let _ = commands.send(Command::Seek { peer, finder }).await;
    }
    let (known, foreign) = split_by_peer(addresses, peer);
    let connect = async |address: Multiaddr| {
        let tried = timeout(limit, attempt(commands, peer, address)).await;
        tried.unwrap_or(Err(AttemptError::Silence(limit)))
    };
    let raced =
        race(known, found, View { own, only, faster }, connect, |address| resolve(address, peer)).await;
    match raced {
        Ok(Won { connection, beaten }) => {
            beaten.into_iter().for_each(close_aside);
            Ok(connection)
        }
        Err(failed) if failed.is_empty() && foreign.is_empty() => Err(DialError::NoAddress(peer)),
        Err(failed) => {
            let attempts = foreign.into_iter().chain(failed).collect();
            Err(DialError::Unreachable { peer, attempts })
        }
    }
}

/// The addresses of this peer, without its PeerId at their ends, and those that name another peer there.
fn split_by_peer(addresses: Vec<Multiaddr>, peer: PeerId) -> (Vec<Multiaddr>, Vec<Attempt>) {
    let (mut known, mut foreign) = (Vec::new(), Vec::new());
    for address in addresses {
        match split_peer(address.clone()) {
            Some((named, bare)) if named == peer => known.push(bare),
            Some((named, _)) => foreign.push(Attempt { address, cause: AttemptError::OtherPeer(named) }),
            None => known.push(address),
        }
    }
    (known, foreign)
}

async fn attempt(
    commands: &mpsc::Sender<Command>,
    peer: PeerId,
    address: Multiaddr,
) -> Result<Connection, AttemptError> {
    // Kept until the circuit is there.
    let _relay = match split_relay(&address) {
        Some((relay, at)) => {
            let met = meet_at(commands, relay, &at).await;
            Some(met.map_err(|cause| AttemptError::Relay { relay, cause: Box::new(cause) })?)
        }
        None => None,
    };
    let (reply, dialed) = oneshot::channel();
    let command = Command::Dial { peer, address, reply };
    let mut dialed = Dialed(dialed);
    commands.send(command).await.map_err(|_| AttemptError::Stopped)?;
    (&mut dialed.0).await.map_err(|_| AttemptError::Stopped)?
}

/// What comes of an attempt. A connection that came as another one won is closed, not left to grow idle.
struct Dialed(oneshot::Receiver<Result<Connection, AttemptError>>);

impl Drop for Dialed {
    fn drop(&mut self) {
        self.0.close();
        if let Ok(Ok(connection)) = self.0.try_recv() {
            close_aside(connection);
        }
    }
}

/// Closes a connection that nobody waits for any more.
fn close_aside(connection: Connection) {
    // Without a runtime there is no node either.
    if let Ok(runtime) = Handle::try_current() {
        runtime.spawn(async move { connection.close().await });
    }
}

/// What the swarm says of one failed attempt, in our words.
pub(super) fn explain(error: swarm::DialError) -> AttemptError {
    use swarm::DialError;
    match error {
        DialError::WrongPeerId { obtained, .. } => AttemptError::WrongPeer(obtained),
        DialError::LocalPeerId { .. } | DialError::NoAddresses => AttemptError::Own,
        DialError::Denied { cause } => AttemptError::Limit(cause),
        DialError::Transport(failed) => match failed.into_iter().next() {
            Some((_, TransportError::Other(error))) => explain_setup(error),
            Some((_, TransportError::MultiaddrNotSupported(_))) | None => AttemptError::Unsupported,
        },
        DialError::Aborted | DialError::DialPeerConditionFalse(_) => {
            AttemptError::Other("the attempt was given up".into())
        }
    }
}

fn explain_setup(error: io::Error) -> AttemptError {
    match error.downcast::<SetupError>() {
        Ok(setup) => AttemptError::Setup(Box::new(setup)),
        Err(other) => AttemptError::Other(other.to_string()),
    }
}
