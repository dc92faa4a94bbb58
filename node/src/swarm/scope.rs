//! From how far away an address can be meant.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use libp2p::Multiaddr;

use super::address::ip_of;

/// From how far away an address can be meant; the nearer one is the lesser one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// On this machine: the loopback, and no address at all.
    Machine,
    /// On one network segment, and there only with a zone (RFC 3927; RFC 4291, 2.5.6), or all who are on it.
    Segment,
    /// Within one site, or behind one provider's translator (RFC 1918, RFC 4193, RFC 6598).
    Site,
    /// From everywhere. So is a name, as far as can be told.
    Everywhere,
}

impl Scope {
    /// The scope of what an address begins with: for a circuit that is its relay.
    pub fn of(address: &Multiaddr) -> Self {
        match ip_of(address).map(|ip| ip.to_canonical()) {
            Some(IpAddr::V4(ip)) => of_ip4(ip),
            Some(IpAddr::V6(ip)) => of_ip6(ip),
            None if address.is_empty() => Self::Machine,
            None => Self::Everywhere,
        }
    }

    /// Whether nobody beyond this machine and its network segment is meant.
    pub fn is_near(self) -> bool {
        self <= Self::Segment
    }
}

fn of_ip4(ip: Ipv4Addr) -> Scope {
    let is_shared = ip.octets()[0] == 100 && ip.octets()[1] & 0b1100_0000 == 64;
    if ip.is_loopback() || ip.is_unspecified() {
        Scope::Machine
    } else if ip.is_link_local() || ip.is_multicast() || ip.is_broadcast() {
        Scope::Segment
    } else if ip.is_private() || is_shared {
        Scope::Site
    } else {
        Scope::Everywhere
    }
}

fn of_ip6(ip: Ipv6Addr) -> Scope {
    if ip.is_loopback() || ip.is_unspecified() {
        Scope::Machine
    } else if ip.is_unicast_link_local() || ip.is_multicast() {
        Scope::Segment
    } else if ip.is_unique_local() {
        Scope::Site
    } else {
        Scope::Everywhere
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_meant_from_as_far_away_as_its_kind_says() {
        let table = [
            (Scope::Machine, "/ip4/127.0.0.1/tcp/1"),
            (Scope::Machine, "/ip4/0.0.0.0/tcp/1"),
            (Scope::Machine, "/ip6/::1/udp/1/quic-v1"),
            (Scope::Machine, "/ip6/::ffff:127.0.0.1/tcp/1"),
            (Scope::Segment, "/ip4/169.254.169.254/tcp/80"),
            (Scope::Segment, "/ip4/224.0.0.251/udp/1/quic-v1"),
            (Scope::Segment, "/ip4/255.255.255.255/udp/1/quic-v1"),
            (Scope::Segment, "/ip6/fe80::1/tcp/1"),
            (Scope::Segment, "/ip6/ff02::fb/tcp/1"),
            (Scope::Site, "/ip4/10.0.0.1/tcp/1"),
            (Scope::Site, "/ip4/172.31.0.1/tcp/1"),
            (Scope::Site, "/ip4/192.168.0.1/tcp/1"),
            (Scope::Site, "/ip4/100.64.0.1/tcp/1"),
            (Scope::Site, "/ip6/fd00::1/tcp/1"),
            (Scope::Everywhere, "/ip4/192.0.2.1/tcp/1"),
            (Scope::Everywhere, "/ip4/100.128.0.1/tcp/1"),
            (Scope::Everywhere, "/ip4/172.32.0.1/tcp/1"),
            (Scope::Everywhere, "/ip6/2001:db8::1/tcp/1"),
            (Scope::Everywhere, "/dns4/relay.example/tcp/1"),
        ];
        for (scope, address) in table {
            assert_eq!(Scope::of(&address.parse().unwrap()), scope, "{address}");
        }
        assert_eq!(Scope::of(&Multiaddr::empty()), Scope::Machine);
    }

    #[test]
    fn a_circuit_is_meant_from_as_far_away_as_its_relay() {
        let circuit = |ip: &str| {
            let peer = libp2p::PeerId::random();
            format!("/ip4/{ip}/tcp/1/p2p/{peer}/p2p-circuit").parse().unwrap()
        };
        assert_eq!(Scope::of(&circuit("192.0.2.1")), Scope::Everywhere);
        assert_eq!(Scope::of(&circuit("10.0.0.1")), Scope::Site);
    }

    #[test]
    fn near_is_what_no_router_forwards() {
        let near = [Scope::Machine, Scope::Segment, Scope::Site, Scope::Everywhere].map(Scope::is_near);
        assert_eq!(near, [true, true, false, false]);
    }
}
