//! [`Lan`]: the behaviour that finds peers on the LAN by mDNS, and lets them find this node, as libp2p specifies it
//! (specs/discovery/mdns.md). It needs neither a route nor a name server.
//!
//! What strangers on the LAN say is a hint: a peer is whoever proves to be it, and an address that leads to another one
//! costs an attempt. Where multicast is not possible nothing is found, and nothing fails.

use std::{
    collections::HashMap,
    convert::Infallible,
    task::{Context, Poll},
    time::Instant,
};

use libp2p::{
    Multiaddr, PeerId,
    core::{
        Endpoint,
        transport::{ListenerId, PortUse},
    },
    mdns,
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, ListenAddresses, NetworkBehaviour, NewListenAddr,
        THandler, THandlerInEvent, THandlerOutEvent, ToSwarm, dummy,
    },
};

use super::{
    address::{is_loopback, split_peer},
    limits::{LAN_ADDRESSES, LAN_PATIENCE, LAN_QUERY_INTERVAL, LAN_SEEKERS, LAN_TTL, SEEK_TIMEOUT},
    task::Finder,
};

/// Finds peers on the LAN.
pub(super) struct Lan {
    own: PeerId,
    /// One for each family of addresses; none where nobody wants it.
    families: Vec<mdns::tokio::Behaviour>,
    listening: ListenAddresses,
    known: HashMap<PeerId, Vec<Multiaddr>>,
    seekers: Vec<(PeerId, Finder)>,
    /// When it was last asked who is there.
    asked: Instant,
}

impl Lan {
    /// Asks and answers on every interface of the machine. It begins within the swarm's task.
    pub(super) fn on(own: PeerId) -> Self {
        Self { families: families(own), ..Self::off(own) }
    }

    /// Neither asks nor answers.
    pub(super) fn off(own: PeerId) -> Self {
        let (families, listening, known, seekers) = Default::default();
        Self { own, families, listening, known, seekers, asked: Instant::now() }
    }

    /// Tells where a peer is, now and as long as answers to the latest question may come. Where the LAN is not empty and
    /// was not asked for a while, it is asked anew: the peer may have another address since.
    pub(super) fn seek(&mut self, peer: PeerId, finder: Finder) {
        if let Some(addresses) = self.known.get(&peer) {
            tell(&finder, addresses.clone());
        }
        if !self.known.is_empty() && self.asked.elapsed() > LAN_PATIENCE {
            self.begin_anew();
        }
        self.seekers.retain(|(_, finder)| !finder.is_closed());
        let is_awaited = !self.families.is_empty() && self.asked.elapsed() < SEEK_TIMEOUT;
        if is_awaited && self.seekers.len() < LAN_SEEKERS {
            self.seekers.push((peer, finder));
        }
    }

    fn note(&mut self, event: mdns::Event) {
        match event {
            mdns::Event::Discovered(found) => {
                for (peer, address) in found.into_iter().filter(|(_, address)| !is_loopback(address)) {
                    self.discovered(peer, bare(address));
                }
            }
            mdns::Event::Expired(gone) => {
                for (peer, address) in gone {
                    self.expired(&peer, &bare(address));
                }
            }
        }
    }

    fn discovered(&mut self, peer: PeerId, address: Multiaddr) {
        tracing::debug!(%peer, %address, "found on the LAN");
        let wanted = self.seekers.iter().filter(|(sought, _)| *sought == peer);
        wanted.for_each(|(_, finder)| tell(finder, vec![address.clone()]));
        self.known.entry(peer).or_default().push(address);
    }

    fn expired(&mut self, peer: &PeerId, address: &Multiaddr) {
        if let Some(addresses) = self.known.get_mut(peer) {
            addresses.retain(|known| known != address);
            if addresses.is_empty() {
                self.known.remove(peer);
            }
        }
    }

    /// Takes what there is.
    fn hear(&mut self, context: &mut Context<'_>) {
        for index in 0..self.families.len() {
            while let Poll::Ready(event) = self.families[index].poll(context) {
                // What else it says is for dials without addresses, which nobody makes.
                if let ToSwarm::GenerateEvent(event) = event {
                    self.note(event);
                }
            }
        }
    }

    /// Whether more is known than any LAN has: somebody makes it up.
    fn is_overfull(&self) -> bool {
        self.families.iter().map(|family| family.discovered_nodes().len()).sum::<usize>() > LAN_ADDRESSES
    }

    /// Forgets everything and asks again.
    fn begin_anew(&mut self) {
        self.known.clear();
        self.asked = Instant::now();
        self.families = families(self.own);
        for addr in self.listening.iter() {
            let listens = FromSwarm::NewListenAddr(NewListenAddr { listener_id: ListenerId::next(), addr });
            self.families.iter_mut().for_each(|family| family.on_swarm_event(listens));
        }
    }
}

/// What asks and answers over IPv4, and over IPv6; less where the system does not tell its interfaces.
fn families(own: PeerId) -> Vec<mdns::tokio::Behaviour> {
    let family = |enable_ipv6| {
        let config = mdns::Config { ttl: LAN_TTL, query_interval: LAN_QUERY_INTERVAL, enable_ipv6 };
        let made = mdns::tokio::Behaviour::new(config, own);
        made.inspect_err(|error| tracing::info!(%error, "not looking for peers on the LAN")).ok()
    };
    [false, true].into_iter().filter_map(family).collect()
}

/// A seeker that has enough waiting has enough.
fn tell(finder: &Finder, addresses: Vec<Multiaddr>) {
    let _ = finder.try_send(addresses);
}

fn bare(address: Multiaddr) -> Multiaddr {
    split_peer(address.clone()).map_or(address, |(_, bare)| bare)
}

impl NetworkBehaviour for Lan {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn handle_established_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: PeerId,
        _: &Multiaddr,
        _: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        Ok(dummy::ConnectionHandler)
    }

    fn on_swarm_event(&mut self, event: FromSwarm<'_>) {
        self.listening.on_swarm_event(&event);
        self.families.iter_mut().for_each(|family| family.on_swarm_event(event));
    }

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        self.hear(context);
        if self.is_overfull() {
            tracing::warn!("forgetting what was found on the LAN: it is more than can be true");
            self.begin_anew();
            self.hear(context);
        }
        Poll::Pending
    }
}
