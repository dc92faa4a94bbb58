//! Waiting for a direct connection with a peer that was reached through a relay.
//!
//! While both keep the circuit, the peer that was dialed over it has both dial each other at once, so that the routers on
//! either side take what comes for an answer. What this node sees of its own addresses tells why that may fail.

use std::{collections::HashMap, fmt, time::Duration};

use ketch_channel::TransportKind;
use libp2p::{Multiaddr, PeerId, multiaddr::Protocol};
use tokio::sync::{oneshot, watch};

use super::connection::Connection;

/// Why there is no direct connection.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoDirect {
    /// It was tried, and failed.
    #[error("no hole could be punched{0}")]
    Failed(Hints),
    /// Nothing came of it in time.
    #[error("no direct connection came about within {} s{hints}", .limit.as_secs())]
    Silence {
        /// How long it was waited for.
        limit: Duration,
        /// What this node saw.
        hints: Hints,
    },
    /// The node has been shut down.
    #[error("the node has stopped")]
    Stopped,
}

/// What this node saw of itself that makes a direct connection unlikely. Of the other side it knows nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Hints {
    /// Relays see other ports than those that are listened on: the router seems to take one for each destination.
    pub symmetric: bool,
    /// No relay was reached over UDP, and one over TCP.
    pub udp_blocked: bool,
}

impl fmt::Display for Hints {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let symmetric = "the router of this side takes another port for each destination (a symmetric NAT)";
        match (self.symmetric, self.udp_blocked) {
            (true, true) => write!(f, ": {symmetric}, and UDP seems to be blocked"),
            (true, false) => write!(f, ": {symmetric}"),
            (false, true) => f.write_str(": UDP seems to be blocked on this side"),
            (false, false) => f.write_str("; this side's router is none that would prevent it"),
        }
    }
}

type Reply = oneshot::Sender<Result<Connection, NoDirect>>;

/// Who waits, and what is known of this node's own addresses.
pub(super) struct DirectWaits {
    waiting: HashMap<PeerId, Vec<(Option<TransportKind>, Reply)>>,
    seen: HashMap<(PeerId, TransportKind), Seen>,
    hints: watch::Sender<Hints>,
}

/// How a relay sees this node.
struct Seen {
    /// Whether the port is that of a listener.
    is_listened_on: bool,
}

impl DirectWaits {
    /// What they see is told to `hints`.
    pub(super) fn new(hints: watch::Sender<Hints>) -> Self {
        Self { waiting: HashMap::new(), seen: HashMap::new(), hints }
    }

    /// Somebody waits for a connection over this transport, or over any.
    pub(super) fn wait(&mut self, peer: PeerId, transport: Option<TransportKind>, reply: Reply) {
        self.waiting.entry(peer).or_default().push((transport, reply));
    }

    /// There is a direct connection.
    pub(super) fn came(&mut self, connection: &Connection) {
        let Some(waiting) = self.waiting.remove(&connection.peer()) else { return };
        let fits = |(wanted, _): &(Option<TransportKind>, Reply)| {
            wanted.is_none_or(|wanted| wanted == connection.transport())
        };
        let (served, others): (Vec<_>, Vec<_>) = waiting.into_iter().partition(fits);
        for (_, reply) in served {
            // Whoever waited may have given up.
            let _ = reply.send(Ok(connection.clone()));
        }
        if !others.is_empty() {
            self.waiting.insert(connection.peer(), others);
        }
    }

    /// There will be none.
    pub(super) fn failed(&mut self, peer: PeerId) {
        let hints = *self.hints.borrow();
        for (_, reply) in self.waiting.remove(&peer).into_iter().flatten() {
            let _ = reply.send(Err(NoDirect::Failed(hints)));
        }
    }

    /// A peer told under which address it sees this node.
    pub(super) fn observed(&mut self, by: PeerId, observed: &Multiaddr, listening: &[Multiaddr]) {
        let Some((port, transport)) = port_of(observed) else { return };
        let is_listened_on = listening.iter().any(|address| port_of(address) == Some((port, transport)));
        self.seen.insert((by, transport), Seen { is_listened_on });
        self.hints.send_replace(self.conclude(listening));
    }

    /// What there is to say of this node's router.
    fn conclude(&self, listening: &[Multiaddr]) -> Hints {
        let over = |kind| self.seen.iter().filter(move |((_, transport), _)| *transport == kind);
        let is_seen = |kind| over(kind).next().is_some();
        let wants_udp =
            listening.iter().any(|address| TransportKind::of(address) == Some(TransportKind::Quic));
        Hints {
            symmetric: self.seen.values().any(|seen| !seen.is_listened_on),
            udp_blocked: wants_udp && is_seen(TransportKind::Tcp) && !is_seen(TransportKind::Quic),
        }
    }
}

fn port_of(address: &Multiaddr) -> Option<(u16, TransportKind)> {
    let transport = TransportKind::of(address)?;
    address.iter().find_map(|part| match part {
        Protocol::Tcp(port) | Protocol::Udp(port) => Some((port, transport)),
        _ => None,
    })
}
