//! Dialing a peer at several addresses at once, and saying for each why it failed.

use std::{fmt, io, net::SocketAddr, time::Duration};

use futures::{StreamExt, stream::FuturesUnordered};
use ketch_channel::{ControllerError, SetupError};
use libp2p::{
    Multiaddr, PeerId, TransportError,
    multiaddr::Protocol,
    swarm::{self, ConnectionDenied},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    connection::Connection, limits::DIAL_ADDRESSES, meet::meet_at, reach::split_relay, task::Command,
};

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

/// Tries all addresses at once; the first connection wins and the others are closed as they come.
pub(super) async fn dial(
    commands: &mpsc::Sender<Command>,
    peer: PeerId,
    addresses: Vec<Multiaddr>,
    limit: Duration,
) -> Result<Connection, DialError> {
    if addresses.is_empty() {
        return Err(DialError::NoAddress(peer));
    }
    if addresses.len() > DIAL_ADDRESSES {
        return Err(DialError::ManyAddresses { peer, count: addresses.len() });
    }
    let attempt = |address: Multiaddr| async move {
        let tried = timeout(limit, attempt(commands, peer, &address)).await;
        let cause = match tried {
            Ok(Ok(connection)) => return Ok(connection),
            Ok(Err(cause)) => cause,
            Err(_) => AttemptError::Silence(limit),
        };
        Err(Attempt { address, cause })
    };
    let mut running = addresses.into_iter().map(attempt).collect::<FuturesUnordered<_>>();
    let mut attempts = Vec::new();
    while let Some(finished) = running.next().await {
        match finished {
            Ok(connection) => return Ok(connection),
            Err(failed) => attempts.push(failed),
        }
    }
    Err(DialError::Unreachable { peer, attempts })
}

async fn attempt(
    commands: &mpsc::Sender<Command>,
    peer: PeerId,
    address: &Multiaddr,
) -> Result<Connection, AttemptError> {
    let address = resolve(&bare(address, peer)?).await?;
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
    commands.send(command).await.map_err(|_| AttemptError::Stopped)?;
    dialed.await.map_err(|_| AttemptError::Stopped)?
}

/// The address without the PeerId at its end, which must be the one that is dialed.
pub(super) fn bare(address: &Multiaddr, peer: PeerId) -> Result<Multiaddr, AttemptError> {
    let mut bare = address.clone();
    match bare.pop() {
        Some(Protocol::P2p(named)) if named == peer => Ok(bare),
        Some(Protocol::P2p(named)) => Err(AttemptError::OtherPeer(named)),
        Some(_) | None => Ok(address.clone()),
    }
}

/// Replaces a name at the front of an address by the first IP address it stands for.
pub(super) async fn resolve(address: &Multiaddr) -> Result<Multiaddr, AttemptError> {
    let mut parts = address.iter();
    let (Some(first), Some(Protocol::Tcp(port) | Protocol::Udp(port))) = (parts.next(), parts.next()) else {
        return Ok(address.clone());
    };
    let (Protocol::Dns(name) | Protocol::Dns4(name) | Protocol::Dns6(name)) = &first else {
        return Ok(address.clone());
    };
    let fits = |found: &SocketAddr| {
        (found.is_ipv4() || !matches!(first, Protocol::Dns4(_)))
            && (found.is_ipv6() || !matches!(first, Protocol::Dns6(_)))
    };
    let mut found = tokio::net::lookup_host((name.as_ref(), port)).await.map_err(AttemptError::Name)?;
    let none = || AttemptError::Name(io::Error::other("it has no address of the family asked for"));
    let ip = found.find(fits).ok_or_else(none)?.ip();
    Ok(std::iter::once(Protocol::from(ip)).chain(address.iter().skip(1)).collect())
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
