//! Small questions about addresses, and small changes of them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ketch_channel::TransportKind;
use libp2p::{Multiaddr, PeerId, multiaddr::Protocol};

use super::scope::Scope;

/// The address with port 0, which stands for any.
pub fn with_any_port(address: &Multiaddr) -> Multiaddr {
    with_port(address, 0)
}

/// The address with another port.
pub fn with_port(address: &Multiaddr, port: u16) -> Multiaddr {
    address
        .iter()
        .map(|part| {
            if matches!(part, Protocol::Tcp(_)) {
                Protocol::Tcp(port)
            } else if matches!(part, Protocol::Udp(_)) {
                Protocol::Udp(port)
            } else {
                part
            }
        })
        .collect()
}

/// The address with the port of another one of the same transport.
pub fn with_port_of(address: &Multiaddr, other: &Multiaddr) -> Multiaddr {
    let is_port = |part: &Protocol<'_>| matches!(part, Protocol::Tcp(_) | Protocol::Udp(_));
    let port = other.iter().find(is_port);
    address.iter().map(|part| port.clone().filter(|_| is_port(&part)).unwrap_or(part)).collect()
}

/// The address without the PeerId of the peer that it leads to.
pub fn without_peer(address: &Multiaddr, peer: PeerId) -> Multiaddr {
    address.iter().filter(|part| *part != Protocol::P2p(peer)).collect()
}

/// The port that it names, and over which transport.
pub(super) fn transport_port_of(address: &Multiaddr) -> Option<(u16, TransportKind)> {
    Some((port_of(address)?, TransportKind::of(address)?))
}

/// The address on every interface of its family.
pub fn on_every_interface(address: &Multiaddr) -> Multiaddr {
    address
        .iter()
        .map(|part| {
            if matches!(part, Protocol::Ip4(_)) {
                Protocol::Ip4(Ipv4Addr::UNSPECIFIED)
            } else if matches!(part, Protocol::Ip6(_)) {
                Protocol::Ip6(Ipv6Addr::UNSPECIFIED)
            } else {
                part
            }
        })
        .collect()
}

/// The IP address that it begins with; `None` for a name.
pub fn ip_of(address: &Multiaddr) -> Option<IpAddr> {
    let first = address.iter().next()?;
    if let Protocol::Ip4(ip) = first {
        return Some(ip.into());
    }
    if let Protocol::Ip6(ip) = first { Some(ip.into()) } else { None }
}

/// The TCP or UDP port that it names first.
pub fn port_of(address: &Multiaddr) -> Option<u16> {
    address.iter().find_map(|part| {
        if let Protocol::Tcp(port) = part {
            return Some(port);
        }
        if let Protocol::Udp(port) = part { Some(port) } else { None }
    })
}

/// Whether it leads through a relay.
pub fn is_circuit(address: &Multiaddr) -> bool {
    address.iter().any(|part| part == Protocol::P2pCircuit)
}

/// Whether only this machine can dial it.
pub fn is_loopback(address: &Multiaddr) -> bool {
    ip_of(address).is_some_and(|ip| ip.is_loopback())
}

/// What another machine can dial of these addresses, and what this one can where that is nothing.
pub fn dialable_by_others(addresses: Vec<Multiaddr>) -> Vec<Multiaddr> {
    let (near, others): (Vec<_>, Vec<_>) =
        addresses.into_iter().partition(|address| Scope::of(address).is_near());
    if others.is_empty() { near } else { others }
}

/// The PeerId at the end of an address and the address before it; `None` where there is no such end.
pub fn split_peer(mut address: Multiaddr) -> Option<(PeerId, Multiaddr)> {
    let last = address.pop()?;
    if let Protocol::P2p(peer) = last { Some((peer, address)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    #[test]
    fn a_port_or_an_interface_can_be_left_open() {
        let quic = address("/ip4/10.0.0.1/udp/7/quic-v1");
        assert_eq!(with_any_port(&quic), address("/ip4/10.0.0.1/udp/0/quic-v1"));
        assert_eq!(on_every_interface(&quic), address("/ip4/0.0.0.0/udp/7/quic-v1"));
        assert_eq!(with_port_of(&address("/ip6/::/udp/0/quic-v1"), &quic), address("/ip6/::/udp/7/quic-v1"));
        assert_eq!(on_every_interface(&address("/ip6/fd00::1/tcp/7")), address("/ip6/::/tcp/7"));
    }

    #[test]
    fn the_loopback_is_known_in_both_families() {
        let loopback = ["/ip4/127.0.0.1/tcp/1", "/ip6/::1/tcp/1", "/ip4/10.0.0.1/tcp/1"]
            .map(|text| is_loopback(&address(text)));
        assert_eq!(loopback, [true, true, false]);
    }

    #[test]
    fn others_are_told_what_they_can_dial_and_this_machine_what_is_left() {
        let near = ["/ip4/127.0.0.1/tcp/1", "/ip4/169.254.0.1/tcp/1", "/ip6/fe80::1/tcp/1"].map(address);
        let all: Vec<_> = near.iter().cloned().chain([address("/ip4/10.0.0.1/tcp/1")]).collect();
        assert_eq!(dialable_by_others(all), [address("/ip4/10.0.0.1/tcp/1")]);
        assert_eq!(dialable_by_others(near.to_vec()), near);
    }

    #[test]
    fn an_address_names_its_peer_at_the_end_or_not_at_all() {
        let peer = PeerId::random();
        let named = address(&format!("/ip4/10.0.0.1/tcp/1/p2p/{peer}"));
        assert_eq!(split_peer(named), Some((peer, address("/ip4/10.0.0.1/tcp/1"))));
        assert_eq!(split_peer(address("/ip4/10.0.0.1/tcp/1")), None);
    }
}
