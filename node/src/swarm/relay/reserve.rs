//! Where a relay dials: peers ask it to try their addresses, and it must not try what is near itself for strangers.

use std::task::{Context, Poll};

use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm, dummy,
    },
};

use crate::swarm::scope::Scope;

/// Refuses to dial what is nearer than the relay itself is reached from.
pub(super) struct Reserve {
    own: Scope,
}

/// The peer's address is nearer than that.
#[derive(Debug, thiserror::Error)]
#[error("the address is near this relay, and not meant for it")]
struct TooNear;

impl Reserve {
    pub(super) fn new() -> Self {
        Self { own: Scope::Machine }
    }

    /// The relay is reached here.
    pub(super) fn is_reached_at<'a>(&mut self, addresses: impl IntoIterator<Item = &'a Multiaddr>) {
        self.own = addresses.into_iter().map(Scope::of).max().unwrap_or(Scope::Machine);
    }
}

impl NetworkBehaviour for Reserve {
    type ConnectionHandler = dummy::ConnectionHandler;
    type ToSwarm = std::convert::Infallible;

    fn handle_pending_outbound_connection(
        &mut self,
        _: ConnectionId,
        _: Option<PeerId>,
        addresses: &[Multiaddr],
        _: Endpoint,
    ) -> Result<Vec<Multiaddr>, ConnectionDenied> {
        if addresses.iter().any(|address| Scope::of(address) < self.own) {
            return Err(ConnectionDenied::new(TooNear));
        }
        Ok(Vec::new())
    }

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

    fn on_swarm_event(&mut self, _: FromSwarm<'_>) {}

    fn on_connection_handler_event(&mut self, _: PeerId, _: ConnectionId, event: THandlerOutEvent<Self>) {
        match event {}
    }

    fn poll(&mut self, _: &mut Context<'_>) -> Poll<ToSwarm<Self::ToSwarm, THandlerInEvent<Self>>> {
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_public_relay_tries_nothing_near_itself_and_one_of_a_lan_its_lan() {
        let tries = |own: &str, asked: &str| {
            let mut reserve = Reserve::new();
            reserve.is_reached_at([&own.parse().unwrap()]);
            let asked = [asked.parse().unwrap()];
            let id = ConnectionId::new_unchecked(1);
            reserve.handle_pending_outbound_connection(id, None, &asked, Endpoint::Dialer).is_ok()
        };
        let [loopback, lan, public] = ["/ip4/127.0.0.1/tcp/1", "/ip4/10.0.0.1/tcp/1", "/ip4/192.0.2.1/tcp/1"];
        assert!(tries(public, public) && !tries(public, lan) && !tries(public, loopback));
        assert!(tries(lan, public) && tries(lan, lan) && !tries(lan, loopback));
        assert!(tries(loopback, loopback));
    }
}
