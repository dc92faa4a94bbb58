//! Waiting for a direct connection with a peer that was reached through a relay.
//!
//! While both keep the circuit, the peer that was dialed over it has both dial each other at once, so that the routers on
//! either side take what comes for an answer. What this node sees of its own addresses tells why that may fail.

use std::{collections::HashMap, fmt, time::Duration};

use ketch_channel::TransportKind;
use libp2p::{Multiaddr, PeerId};
use tokio::{
    sync::{mpsc, oneshot, watch},
    time::timeout,
};

use super::{
    address::transport_port_of,
    connection::Connection,
    limits::{DIRECT_LIMIT, VIEWS},
    task::Command,
};

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
        let symmetric =
            "the router of this side seems to take another port for each destination (a symmetric NAT)";
        match (self.symmetric, self.udp_blocked) {
            (true, true) => write!(f, ": {symmetric}, and UDP seems to be blocked"),
            (true, false) => write!(f, ": {symmetric}"),
            (false, true) => f.write_str(": UDP seems to be blocked on this side"),
            (false, false) => f.write_str("; this side sees no reason for that"),
        }
    }
}

type Reply = oneshot::Sender<Result<Connection, NoDirect>>;

/// Waits for a direct connection for as long as one may take.
pub(super) async fn wait_for_direct(
    commands: &mpsc::Sender<Command>,
    peer: PeerId,
    transport: Option<TransportKind>,
    hints: &watch::Receiver<Hints>,
) -> Result<Connection, NoDirect> {
    let (reply, came) = oneshot::channel();
    let command = Command::Direct { peer, transport, reply };
    commands.send(command).await.map_err(|_| NoDirect::Stopped)?;
    match timeout(DIRECT_LIMIT, came).await {
        Ok(Ok(result)) => result,
        Ok(Err(_)) => Err(NoDirect::Stopped),
        Err(_) => Err(NoDirect::Silence { limit: DIRECT_LIMIT, hints: *hints.borrow() }),
    }
}

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
    /// What is seen is told to `hints`.
    pub(super) fn new(hints: watch::Sender<Hints>) -> Self {
        Self { waiting: HashMap::new(), seen: HashMap::new(), hints }
    }

    /// Somebody waits for a connection over this transport, or over any.
    pub(super) fn wait(&mut self, peer: PeerId, transport: Option<TransportKind>, reply: Reply) {
        self.forget_leavers();
        self.waiting.entry(peer).or_default().push((transport, reply));
    }

    /// Leaves no trace of those who have given up.
    pub(super) fn forget_leavers(&mut self) {
        self.waiting.retain(|_, waiting| {
            waiting.retain(|(_, reply)| !reply.is_closed());
            !waiting.is_empty()
        });
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

    /// A peer that was dialed from a port which is listened on told under which address it sees this node.
    pub(super) fn observed(&mut self, by: PeerId, observed: &Multiaddr, listening: &[Multiaddr]) {
        let Some((port, transport)) = transport_port_of(observed) else { return };
        let is_listened_on =
            listening.iter().any(|address| transport_port_of(address) == Some((port, transport)));
        if self.seen.len() < VIEWS || self.seen.contains_key(&(by, transport)) {
            self.seen.insert((by, transport), Seen { is_listened_on });
        }
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

#[cfg(test)]
mod tests {
    use libp2p::swarm::ConnectionId;

    use super::{
        super::connection::{Link, LinkRoute},
        *,
    };

    fn waits() -> (DirectWaits, watch::Receiver<Hints>) {
        let (told, hints) = watch::channel(Hints::default());
        (DirectWaits::new(told), hints)
    }

    fn addresses(list: &[&str]) -> Vec<Multiaddr> {
        list.iter().map(|address| address.parse().unwrap()).collect()
    }

    fn connection(peer: PeerId, address: &str) -> Connection {
        let address: Multiaddr = address.parse().unwrap();
        let route = LinkRoute {
            peer,
            dialed: true,
            shows_port: true,
            transport: TransportKind::of(&address).unwrap(),
            address,
            relay: None,
            asked: None,
            gauge: None,
        };
        let (commands, _) = mpsc::channel(1);
        Link::open(ConnectionId::new_unchecked(1), route, commands.downgrade()).link.connection()
    }

    #[test]
    fn who_waits_for_one_transport_does_not_get_the_other() {
        let ((mut waits, _), peer) = (waits(), PeerId::random());
        let (any, mut any_came) = oneshot::channel();
        let (tcp, mut tcp_came) = oneshot::channel();
        waits.wait(peer, None, any);
        waits.wait(peer, Some(TransportKind::Tcp), tcp);
        waits.came(&connection(peer, "/ip4/11.0.0.1/udp/1/quic-v1"));
        assert_eq!(any_came.try_recv().unwrap().unwrap().transport(), TransportKind::Quic);
        assert!(tcp_came.try_recv().is_err());
        waits.came(&connection(peer, "/ip4/11.0.0.1/tcp/1"));
        assert_eq!(tcp_came.try_recv().unwrap().unwrap().transport(), TransportKind::Tcp);
        assert!(waits.waiting.is_empty());
    }

    #[test]
    fn a_failure_is_told_to_those_that_wait_for_this_peer_alone() {
        let ((mut waits, _), peer, other) = (waits(), PeerId::random(), PeerId::random());
        let (reply, mut failed) = oneshot::channel();
        let (reply_of_other, mut other_came) = oneshot::channel();
        waits.wait(peer, None, reply);
        waits.wait(other, None, reply_of_other);
        waits.failed(peer);
        assert_eq!(failed.try_recv().unwrap().unwrap_err(), NoDirect::Failed(Hints::default()));
        assert!(other_came.try_recv().is_err());
    }

    #[test]
    fn whoever_gives_up_leaves_no_entry() {
        let (mut waits, _) = waits();
        for _ in 0..1000 {
            waits.wait(PeerId::random(), None, oneshot::channel().0);
            assert_eq!(waits.waiting.len(), 1);
        }
        waits.forget_leavers();
        assert!(waits.waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_lets_nothing_come_is_waited_for_as_long_as_the_limit_says() {
        // Nobody answers, and the command is kept.
        let (commands, _kept) = mpsc::channel(1);
        let (_told, hints) = watch::channel(Hints { udp_blocked: true, ..Hints::default() });
        let began = tokio::time::Instant::now();
        let error = wait_for_direct(&commands, PeerId::random(), None, &hints).await.unwrap_err();
        assert_eq!(began.elapsed(), DIRECT_LIMIT);
        let said = "no direct connection came about within 12 s: UDP seems to be blocked on this side";
        assert_eq!(error.to_string(), said);
    }

    #[test]
    fn a_router_that_changes_the_port_is_hinted_at() {
        let (mut waits, hints) = waits();
        let listening = addresses(&["/ip4/192.168.1.2/tcp/7", "/ip4/192.168.1.2/udp/8/quic-v1"]);
        let relay = PeerId::random();
        waits.observed(relay, &"/ip4/11.0.0.1/udp/8/quic-v1".parse().unwrap(), &listening);
        assert_eq!(*hints.borrow(), Hints::default());
        waits.observed(relay, &"/ip4/11.0.0.1/tcp/4711".parse().unwrap(), &listening);
        assert_eq!(*hints.borrow(), Hints { symmetric: true, udp_blocked: false });
    }

    #[test]
    fn udp_seems_blocked_where_it_is_listened_on_and_only_tcp_got_through() {
        let seen_over_tcp = |listening: &[&str]| {
            let (mut waits, hints) = waits();
            let listening = addresses(listening);
            waits.observed(PeerId::random(), &"/ip4/11.0.0.1/tcp/7".parse().unwrap(), &listening);
            hints.borrow().udp_blocked
        };
        assert!(seen_over_tcp(&["/ip4/192.168.1.2/tcp/7", "/ip4/192.168.1.2/udp/8/quic-v1"]));
        assert!(!seen_over_tcp(&["/ip4/192.168.1.2/tcp/7"]));
    }

    #[test]
    fn a_crowd_that_tells_how_it_sees_this_node_takes_no_more_than_its_room() {
        let (mut waits, _) = waits();
        for _ in 0..2 * VIEWS {
            waits.observed(PeerId::random(), &"/ip4/11.0.0.1/tcp/7".parse().unwrap(), &[]);
        }
        assert_eq!(waits.seen.len(), VIEWS);
        // What names no port says nothing.
        waits.observed(PeerId::random(), &"/ip4/11.0.0.1".parse().unwrap(), &[]);
    }

    #[test]
    fn a_side_that_saw_nothing_claims_nothing() {
        let said = NoDirect::Failed(Hints::default()).to_string();
        assert_eq!(said, "no hole could be punched; this side sees no reason for that");
        let both = Hints { symmetric: true, udp_blocked: true }.to_string();
        assert!(both.contains("symmetric NAT") && both.ends_with("UDP seems to be blocked"), "{both}");
    }
}
