//! Between the addresses of libp2p and those of UDP sockets.

use std::net::{IpAddr, SocketAddr};

use libp2p_core::{Multiaddr, multiaddr::Protocol};

/// The UDP address that `address` names; `None` unless it is `/ip4|ip6/…/udp/…/quic-v1`, with or without a PeerId.
pub(super) fn to_socket(address: &Multiaddr) -> Option<SocketAddr> {
    let mut parts = address.iter();
    let ip = to_ip(&parts.next()?)?;
    let Protocol::Udp(port) = parts.next()? else { return None };
    let Protocol::QuicV1 = parts.next()? else { return None };
    parts.all(|part| matches!(part, Protocol::P2p(_))).then(|| SocketAddr::new(ip, port))
}

/// The address of libp2p for QUIC at `socket`.
pub(super) fn from_socket(socket: SocketAddr) -> Multiaddr {
    Multiaddr::from(socket.ip()).with(Protocol::Udp(socket.port())).with(Protocol::QuicV1)
}

fn to_ip(part: &Protocol<'_>) -> Option<IpAddr> {
    if let Protocol::Ip4(ip) = part {
        return Some((*ip).into());
    }
    if let Protocol::Ip6(ip) = part { Some((*ip).into()) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ours_names_a_socket() {
        let peer = "12D3KooW9xk7Zp1gejwfwNpfm6L9zH5NL4Bx5rm94LRYJJHJuARZ";
        let cases = [
            ("/ip4/10.0.0.1/udp/4001/quic-v1", Some("10.0.0.1:4001")),
            ("/ip6/2001:db8::1/udp/4001/quic-v1", Some("[2001:db8::1]:4001")),
            (&format!("/ip4/10.0.0.1/udp/4001/quic-v1/p2p/{peer}"), Some("10.0.0.1:4001")),
            (&format!("/ip4/10.0.0.1/udp/4001/quic-v1/p2p/{peer}/p2p-circuit"), None),
            ("/ip4/10.0.0.1/udp/4001/quic-v1/webtransport", None),
            ("/ip4/10.0.0.1/udp/4001/quic", None),
            ("/ip4/10.0.0.1/udp/4001", None),
            ("/ip4/10.0.0.1/tcp/4001", None),
            ("/dns4/localhost/udp/4001/quic-v1", None),
            ("/ip4/10.0.0.1", None),
        ];
        for (address, socket) in cases {
            let expected = socket.map(|socket: &str| socket.parse().unwrap());
            assert_eq!(to_socket(&address.parse().unwrap()), expected, "{address}");
        }
    }

    #[test]
    fn a_socket_is_read_back_from_its_address() {
        for socket in ["10.0.0.1:4001", "[2001:db8::1]:1"] {
            let socket = socket.parse().unwrap();
            assert_eq!(to_socket(&from_socket(socket)), Some(socket));
        }
    }
}
