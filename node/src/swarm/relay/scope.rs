//! Where a relay dials: peers ask it to try their addresses, and it must not try what is near itself for strangers.

use std::{
    net::{Ipv4Addr, Ipv6Addr},
    task::{Context, Poll},
};

use libp2p::{
    Multiaddr, PeerId,
    core::{Endpoint, transport::PortUse},
    multiaddr::Protocol,
    swarm::{
        ConnectionDenied, ConnectionId, FromSwarm, NetworkBehaviour, THandler, THandlerInEvent,
        THandlerOutEvent, ToSwarm, dummy,
    },
};

/// From how far away an address can be meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    /// On this machine.
    Machine,
    /// On the network of this machine.
    Network,
    /// From everywhere.
    Everywhere,
}

impl Scope {
    pub(super) fn of(address: &Multiaddr) -> Self {
        let Some(first) = address.iter().next() else { return Self::Machine };
        if let Protocol::Ip4(ip) = first {
            return of_ip4(ip);
        }
        if let Protocol::Ip6(ip) = first {
            return ip.to_ipv4_mapped().map_or_else(|| of_ip6(ip), of_ip4);
        }
        // A name, which this transport does not take.
        Self::Everywhere
    }
}

fn of_ip4(ip: Ipv4Addr) -> Scope {
    let is_shared = ip.octets()[0] == 100 && ip.octets()[1] & 0b1100_0000 == 64;
    if ip.is_loopback() || ip.is_unspecified() {
        Scope::Machine
    } else if ip.is_private() || ip.is_link_local() || is_shared || ip.is_multicast() || ip.is_broadcast() {
        Scope::Network
    } else {
        Scope::Everywhere
    }
}

fn of_ip6(ip: Ipv6Addr) -> Scope {
    if ip.is_loopback() || ip.is_unspecified() {
        Scope::Machine
    } else if ip.is_unique_local() || ip.is_unicast_link_local() || ip.is_multicast() {
        Scope::Network
    } else {
        Scope::Everywhere
    }
}

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

    fn scope(address: &str) -> Scope {
        Scope::of(&address.parse().unwrap())
    }

    #[test]
    fn an_address_is_of_this_machine_of_its_network_or_from_everywhere() {
        for near in
            ["/ip4/127.0.0.1/tcp/1", "/ip4/0.0.0.0/tcp/1", "/ip6/::1/tcp/1", "/ip6/::ffff:127.0.0.1/tcp/1"]
        {
            assert_eq!(scope(near), Scope::Machine, "{near}");
        }
        for network in [
            "/ip4/10.0.0.1/tcp/1",
            "/ip4/100.64.0.1/tcp/1",
            "/ip4/169.254.169.254/tcp/80",
            "/ip6/fd00::1/tcp/1",
            "/ip6/fe80::1/tcp/1",
        ] {
            assert_eq!(scope(network), Scope::Network, "{network}");
        }
        for far in ["/ip4/192.0.2.1/tcp/1", "/ip4/100.128.0.1/tcp/1", "/ip6/2001:db8::1/tcp/1"] {
            assert_eq!(scope(far), Scope::Everywhere, "{far}");
        }
    }

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
