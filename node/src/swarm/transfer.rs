//! The behaviour of the transfer protocol: it gives every connection its handler and keeps the event
//! loop's ends of all links.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use ketch_channel::{Controller, DialedGauge, Gauge, Gauges, TransportKind};
use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm,
    },
};
use tokio::sync::{mpsc, watch};

use super::{
    address::without_peer,
    connection::{CloseReason, Connection, Link, LinkRoute, LinkState},
    duplicates::Candidate,
    handler::Handler,
    inbound::Inlets,
    reach::{Circuit, CircuitLimit, split_relay},
    task::Command,
};

/// All links, by connection.
pub(super) struct Transfer {
    inbound: Inlets,
    commands: mpsc::WeakSender<Command>,
    links: HashMap<ConnectionId, (Arc<Link>, watch::Sender<LinkState>)>,
    /// What every connection is asked for.
    asked: Option<Controller>,
    gauges: Gauges,
    /// The gauges of connections that are being dialed.
    dialing: HashMap<ConnectionId, DialedGauge>,
    /// What relays allow on a circuit, as they said last.
    limits: HashMap<PeerId, CircuitLimit>,
}

/// A connection whose address names no transport of ours.
#[derive(Debug, thiserror::Error)]
#[error("no transport of ours carries {0}")]
struct UnknownTransport(Multiaddr);

impl Transfer {
    pub(super) fn new(
        inbound: Inlets,
        commands: mpsc::WeakSender<Command>,
        asked: Option<Controller>,
        gauges: Gauges,
    ) -> Self {
        Self {
            inbound,
            commands,
            links: HashMap::new(),
            asked,
            gauges,
            dialing: HashMap::new(),
            limits: HashMap::new(),
        }
    }

    /// Notes that a connection is being dialed, as soon as that was started.
    pub(super) fn dialing(&mut self, id: ConnectionId) {
        if let Some(gauge) = self.gauges.take_dialed() {
            self.dialing.insert(id, gauge);
        }
    }

    /// A handle of an established connection.
    pub(super) fn connection(&self, id: ConnectionId) -> Option<Connection> {
        self.links.get(&id).map(|(link, _)| link.connection())
    }

    /// Whether the peer of a connection sees what the router makes of a port that is listened on.
    pub(super) fn shows_port(&self, id: ConnectionId) -> bool {
        self.links.get(&id).is_some_and(|(link, _)| link.shows_port())
    }

    /// All direct connections with a peer.
    pub(super) fn directs(&self, peer: &PeerId) -> Vec<Connection> {
        let links = self.links.values().map(|(link, _)| link);
        let direct = links.filter(|link| link.route.peer == *peer && link.route.relay.is_none());
        direct.map(|link| link.connection()).collect()
    }

    /// Notes what a relay allows on a circuit.
    pub(super) fn relay_allows(&mut self, relay: PeerId, limit: CircuitLimit) {
        self.limits.insert(relay, limit);
        for (link, state) in self.links.values().filter(|(link, _)| link.route.relay == Some(relay)) {
            tracing::trace!(peer = %link.route.peer, %relay, %limit, "a circuit has this limit");
            state.send_modify(|state| state.circuit_limit = limit);
        }
    }

    /// Every connection that has not ended.
    pub(super) fn connections(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.links.keys().copied()
    }

    /// The direct connections with a peer.
    pub(super) fn candidates(&self, peer: &PeerId) -> Vec<Candidate<ConnectionId>> {
        let links = self.links.values().map(|(link, _)| link);
        links
            .filter(|link| link.route.peer == *peer && link.route.relay.is_none())
            .map(|link| Candidate {
                id: link.id,
                dialed: link.route.dialed,
                is_circuit: link.route.relay.is_some(),
                carries_streams: link.carries_streams(),
            })
            .collect()
    }

    /// Notes what became known of a connection.
    pub(super) fn note(&mut self, id: ConnectionId, change: impl FnOnce(&mut LinkState)) {
        if let Some((_, state)) = self.links.get(&id) {
            state.send_modify(change);
        }
    }

    /// Tells every holder that the connection has ended.
    pub(super) fn ended(&mut self, id: ConnectionId, reason: CloseReason) {
        self.dialing.remove(&id);
        if let Some((link, state)) = self.links.remove(&id) {
            let reason = through_relay(&link, &state, reason);
            state.send_modify(|state| state.ended = Some(reason));
        }
    }

    fn add(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        origin: Origin,
        address: &Multiaddr,
        gauge: Option<Gauge>,
    ) -> Result<Handler, ConnectionDenied> {
        let transport = TransportKind::of(address)
            .ok_or_else(|| ConnectionDenied::new(UnknownTransport(address.clone())))?;
        let relay = split_relay(address).map(|(relay, _)| relay);
        let circuit_limit = relay.and_then(|relay| self.limits.get(&relay).copied()).unwrap_or_default();
        let address = without_peer(address, peer);
        let Origin { dialed, shows_port } = origin;
        let asked = self.asked;
        let route = LinkRoute { peer, dialed, shows_port, address, transport, relay, asked, gauge };
        let ends = Link::open(id, route, self.commands.clone());
        ends.state.send_modify(|state| state.circuit_limit = circuit_limit);
        self.links.insert(id, (ends.link.clone(), ends.state.clone()));
        Ok(Handler::new(ends, self.inbound.clone()))
    }
}

/// How a connection came about.
struct Origin {
    dialed: bool,
    /// Whether it was dialed from a port that is listened on.
    shows_port: bool,
}

/// The end of a circuit is the relay's as likely as the peer's.
fn through_relay(link: &Link, state: &watch::Sender<LinkState>, reason: CloseReason) -> CloseReason {
    match (link.route.relay, reason) {
        (Some(relay), CloseReason::Lost(why)) => {
            let limit = state.borrow().circuit_limit;
            CloseReason::Circuit { circuit: Box::new(Circuit { relay, limit }), why }
        }
        (_, reason) => reason,
    }
}

impl NetworkBehaviour for Transfer {
    type ConnectionHandler = Handler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        local: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let gauge = self.gauges.take_accepted(local, remote);
        // Whoever comes over a circuit has no address but that of the relay.
        let address = if split_relay(local).is_some() { local } else { remote };
        self.add(id, peer, Origin { dialed: false, shows_port: false }, address, gauge)
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        role: Endpoint,
        port: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        let gauge = self.dialing.remove(&id).and_then(|dialed| dialed.gauge());
        // Where both sides dial to get through, one of them plays the part of the listener.
        let origin = Origin { dialed: role.is_dialer(), shows_port: port == PortUse::Reuse };
        self.add(id, peer, origin, remote, gauge)
    }

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}
