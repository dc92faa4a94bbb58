//! On which network this machine is, seen from a path.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};

use libp2p::Multiaddr;

use super::address::ip_of;

/// Any port: nothing is sent.
const PORT: u16 = 9;

/// The network from which this machine would reach an address now, such as `192.168.1.0/24`: the 24 bits (of IPv6 64)
/// that the addresses of one network mostly share. `None` for a name, and where no route leads there. Two networks may
/// have the same private addresses; they are taken for one.
pub fn network_toward(address: &Multiaddr) -> Option<String> {
    let ip = ip_of(address)?;
    let any: SocketAddr = match ip {
        IpAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        IpAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    };
    // To connect a UDP socket asks the system for a route, and sends nothing.
    let socket = UdpSocket::bind(any).ok()?;
    socket.connect((ip, PORT)).ok()?;
    Some(network_of(socket.local_addr().ok()?.ip()))
}

fn network_of(ip: IpAddr) -> String {
    match ip {
        IpAddr::V4(ip) => format!("{}/24", Ipv4Addr::from_bits(ip.to_bits() & !0xff)),
        IpAddr::V6(ip) => format!("{}/64", Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_is_what_its_addresses_share() {
        assert_eq!(network_of([192, 168, 1, 77].into()), "192.168.1.0/24");
        assert_eq!(network_of("2001:db8:1:2:3:4:5:6".parse().unwrap()), "2001:db8:1:2::/64");
    }

    #[test]
    fn a_path_begins_in_a_network_and_a_name_tells_none() {
        let of = |text: &str| network_toward(&text.parse().unwrap());
        assert_eq!(of("/ip4/127.0.0.1/tcp/1").as_deref(), Some("127.0.0.0/24"));
        assert_eq!(of("/dns/example.org/tcp/1"), None);
    }
}
