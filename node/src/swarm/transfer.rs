//! The behaviour of the transfer protocol: it gives every connection its handler and keeps the event
//! loop's ends of all links.

use std::{
    collections::HashMap,
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use ketch_channel::TransportKind;
use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    multiaddr::Protocol,
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm,
    },
};
use tokio::sync::{mpsc, watch};

use super::{
    connection::{CloseReason, Connection, Link, LinkState, Stream},
    duplicates::Candidate,
    handler::Handler,
    task::Command,
};

/// All links, by connection.
pub(super) struct Transfer {
    inbound: mpsc::Sender<(Connection, Stream)>,
    commands: mpsc::WeakSender<Command>,
    links: HashMap<ConnectionId, (Arc<Link>, watch::Sender<LinkState>)>,
}

/// A connection whose address names no transport of ours.
#[derive(Debug, thiserror::Error)]
#[error("no transport of ours carries {0}")]
struct UnknownTransport(Multiaddr);

impl Transfer {
    pub(super) fn new(
        inbound: mpsc::Sender<(Connection, Stream)>,
        commands: mpsc::WeakSender<Command>,
    ) -> Self {
        Self { inbound, commands, links: HashMap::new() }
    }

    /// A handle of an established connection.
    pub(super) fn connection(&self, id: ConnectionId) -> Option<Connection> {
        self.links.get(&id).map(|(link, _)| link.connection())
    }

    /// Every connection that has not ended.
    pub(super) fn connections(&self) -> impl Iterator<Item = ConnectionId> + '_ {
        self.links.keys().copied()
    }

    /// The connections with a peer.
    pub(super) fn candidates(&self, peer: &PeerId) -> Vec<Candidate<ConnectionId>> {
        let with_peer = self.links.values().map(|(link, _)| link).filter(|link| link.peer == *peer);
        with_peer
            .map(|link| Candidate {
                id: link.id,
                dialed: link.dialed,
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
        if let Some((_, state)) = self.links.remove(&id) {
            state.send_modify(|state| state.ended = Some(reason));
        }
    }

    fn add(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        dialed: bool,
        address: &Multiaddr,
    ) -> Result<Handler, ConnectionDenied> {
        let transport = TransportKind::of(address)
            .ok_or_else(|| ConnectionDenied::new(UnknownTransport(address.clone())))?;
        let ends = Link::open(id, peer, dialed, without_peer(address), transport, self.commands.clone());
        self.links.insert(id, (ends.link.clone(), ends.state.clone()));
        Ok(Handler::new(ends, self.inbound.clone()))
    }
}

fn without_peer(address: &Multiaddr) -> Multiaddr {
    address.iter().filter(|part| !matches!(part, Protocol::P2p(_))).collect()
}

impl NetworkBehaviour for Transfer {
    type ConnectionHandler = Handler;
    type ToSwarm = Infallible;

    fn handle_established_inbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        _: &Multiaddr,
        remote: &Multiaddr,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        self.add(id, peer, false, remote)
    }

    fn handle_established_outbound_connection(
        &mut self,
        id: ConnectionId,
        peer: PeerId,
        remote: &Multiaddr,
        role: Endpoint,
        _: PortUse,
    ) -> Result<THandler<Self>, ConnectionDenied> {
        // Where both sides dial to get through, one of them plays the part of the listener.
        self.add(id, peer, role.is_dialer(), remote)
    }

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Infallible, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}
