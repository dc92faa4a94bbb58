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
    rendezvous::Found,
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

    /// Who is there, as far as it was heard.
    pub(super) fn neighbours(&self) -> Vec<Found> {
        let known = self.known.iter();
        known.map(|(peer, addresses)| Found { peer: *peer, addresses: addresses.clone() }).collect()
    }

    fn note(&mut self, event: mdns::Event) {
        match event {
            mdns::Event::Discovered(found) => {
                // Together, so that a dial can tell which of them to begin with.
                let mut by_peer: HashMap<PeerId, Vec<Multiaddr>> = HashMap::new();
                for (peer, address) in found.into_iter().filter(|(_, address)| !is_loopback(address)) {
                    by_peer.entry(peer).or_default().push(bare(address));
                }
                by_peer.into_iter().for_each(|(peer, addresses)| self.discovered(peer, addresses));
            }
            mdns::Event::Expired(gone) => {
                for (peer, address) in gone {
                    self.expired(&peer, &bare(address));
                }
            }
        }
    }

    fn discovered(&mut self, peer: PeerId, addresses: Vec<Multiaddr>) {
        tracing::debug!(%peer, ?addresses, "found on the LAN");
        let wanted = self.seekers.iter().filter(|(sought, _)| *sought == peer);
        wanted.for_each(|(_, finder)| tell(finder, addresses.clone()));
        self.known.entry(peer).or_default().extend(addresses);
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

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc;

    use super::*;

    fn named(text: &str, peer: PeerId) -> (PeerId, Multiaddr) {
        (peer, format!("{text}/p2p/{peer}").parse().unwrap())
    }

    fn addresses(list: &[&str]) -> Vec<Multiaddr> {
        list.iter().map(|text| text.parse().unwrap()).collect()
    }

    /// What a seeker that comes now hears at once.
    fn heard(lan: &mut Lan, peer: PeerId) -> Vec<Multiaddr> {
        let (finder, mut found) = mpsc::channel(1);
        lan.seek(peer, finder);
        found.try_recv().unwrap_or_default()
    }

    #[test]
    fn who_seeks_a_peer_hears_of_that_one_what_others_can_dial() {
        let (mut lan, [peer, other]) = (Lan::off(PeerId::random()), [(); 2].map(|()| PeerId::random()));
        let found = vec![
            named("/ip4/10.0.0.7/tcp/1", peer),
            named("/ip4/127.0.0.1/tcp/1", peer),
            named("/ip4/10.0.0.8/tcp/1", other),
            named("/ip4/10.0.0.7/udp/1/quic-v1", peer),
        ];
        lan.note(mdns::Event::Discovered(found));
        assert_eq!(heard(&mut lan, peer), addresses(&["/ip4/10.0.0.7/tcp/1", "/ip4/10.0.0.7/udp/1/quic-v1"]));
        assert_eq!(heard(&mut lan, PeerId::random()), []);
        let mut neighbours: Vec<_> = lan.neighbours().into_iter().map(|found| found.peer).collect();
        neighbours.sort();
        let mut both = [peer, other];
        both.sort();
        assert_eq!(neighbours, both);
    }

    #[test]
    fn what_is_gone_is_told_no_more() {
        let (mut lan, peer) = (Lan::off(PeerId::random()), PeerId::random());
        lan.note(mdns::Event::Discovered(vec![named("/ip4/10.0.0.7/tcp/1", peer)]));
        lan.note(mdns::Event::Expired(vec![named("/ip4/10.0.0.7/tcp/1", peer)]));
        assert_eq!((heard(&mut lan, peer), lan.known.len()), (vec![], 0));
    }

    #[test]
    fn who_waits_hears_what_is_found_later_and_nobody_waits_in_vain() {
        let (mut lan, peer) = (Lan::off(PeerId::random()), PeerId::random());
        let (finder, mut found) = mpsc::channel(1);
        lan.seekers.push((peer, finder));
        lan.note(mdns::Event::Discovered(vec![named("/ip4/10.0.0.7/tcp/1", peer)]));
        assert_eq!(found.try_recv().unwrap(), addresses(&["/ip4/10.0.0.7/tcp/1"]));

        // One that does not ask knows at once that nothing will come.
        let (finder, mut found) = mpsc::channel(1);
        lan.seek(PeerId::random(), finder);
        assert_eq!(found.try_recv(), Err(mpsc::error::TryRecvError::Disconnected));
    }
}
