//! How others reach a command that waits for them from outside: reservations, what is said of them, and open ports.

use std::{convert::Infallible, time::Duration};

use ketch::swarm::{
    KeptReservations, Multiaddr, Node, PeerId,
    address::{is_circuit, without_peer},
};
use tokio::{join, time::timeout};

use super::{
    json,
    output::{print_json, print_line},
};

/// Time that relays have to answer before others are told how to reach this node.
const RESERVING: Duration = Duration::from_secs(5);

/// Reservations that are kept until this is dropped.
pub(super) struct Reserving {
    kept: KeptReservations,
    /// Public addresses that lead here beside those that are listened on.
    public: Vec<Multiaddr>,
    /// Those of which was told.
    told: Vec<PeerId>,
    json: bool,
}

impl Reserving {
    /// Reserves at the relays that a node knows, has the router open ports if it is to, and waits until there is something
    /// to tell others.
    pub(super) async fn start(node: &Node, json: bool) -> Self {
        let kept = node.keep_reservations();
        let (reserved, ()) = join!(timeout(RESERVING, kept.settled()), node.ports_settled());
        if reserved.is_err() {
            print_line("warning: not every relay has answered yet");
        }
        kept.troubles().iter().for_each(|trouble| print_line(&format!("warning: {trouble}")));
        let told = kept.held().iter().map(|reservation| reservation.relay()).collect();
        Self { kept, public: public_addresses(node), told, json }
    }

    /// Addresses at which others reach this node though it does not listen on them: those of its router, and those
    /// through the relays.
    pub(super) fn addresses(&self) -> Vec<Multiaddr> {
        self.public.iter().cloned().chain(self.kept.addresses()).collect()
    }

    /// Tells of every reservation that is lost or replaced, for as long as it is awaited.
    pub(super) async fn tell(&mut self) -> Infallible {
        loop {
            self.kept.changed().await;
            let held = self.kept.held();
            let relays: Vec<_> = held.iter().map(|reservation| reservation.relay()).collect();
            for lost in self.told.iter().filter(|relay| !relays.contains(relay)) {
                self.say_lost(*lost);
            }
            for reservation in held.iter().filter(|reservation| !self.told.contains(&reservation.relay())) {
                self.say_reserved(reservation.relay(), &reservation.addresses());
            }
            self.told = relays;
        }
    }

    fn say_lost(&self, relay: PeerId) {
        let why = self.kept.troubles().first().map(ToString::to_string).unwrap_or_default();
        match self.json {
            true => print_json(&json::reservation_lost(&relay.to_string(), &why)),
            false => print_line(&format!("warning: no longer reachable through the relay {relay}: {why}")),
        }
    }

    fn say_reserved(&self, relay: PeerId, addresses: &[Multiaddr]) {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        match self.json {
            true => print_json(&json::reserved(&relay.to_string(), &addresses)),
            false => print_line(&format!("reachable through the relay {relay}: {}", addresses.join(", "))),
        }
    }
}

fn public_addresses(node: &Node) -> Vec<Multiaddr> {
    let (listening, peer) = (node.listen_addresses(), node.peer());
    let external = node.external_addresses().into_iter().filter(|address| !is_circuit(address));
    let mut public: Vec<_> = external.map(|address| without_peer(&address, peer)).collect();
    public.retain(|address| !listening.contains(address));
    // In any order that routers and peers answered in; the same offer should have the same ticket.
    public.sort();
    public
}
