//! How large the datagrams of a connection may become.

use std::{
    io,
    net::{IpAddr, SocketAddr, UdpSocket},
};

use rustix::net::sockopt::{ip_mtu, ipv6_mtu};

use super::socket::any_port;
use crate::limits::{QUIC_DATAGRAM_BYTES, QUIC_LEAST_DATAGRAM_BYTES, QUIC_USUAL_DATAGRAM_BYTES};

/// Bytes of the headers of IPv6 and UDP; those of IPv4 are shorter.
const HEADER_BYTES: u32 = 48;

/// The largest payload that is worth trying towards `remote`, in bytes. Within a machine and a local network the link
/// decides, which may carry more than Ethernet does. Beyond, nothing does, and trying costs round trips.
pub(super) fn largest_datagram(remote: SocketAddr) -> u16 {
    if !is_near(remote.ip()) {
        return QUIC_USUAL_DATAGRAM_BYTES;
    }
    link_mtu(remote).map_or(QUIC_USUAL_DATAGRAM_BYTES, largest_payload)
}

fn largest_payload(mtu: u32) -> u16 {
    let bounded = mtu.saturating_sub(HEADER_BYTES).min(QUIC_DATAGRAM_BYTES.into());
    u16::try_from(bounded).unwrap_or(QUIC_DATAGRAM_BYTES).max(QUIC_LEAST_DATAGRAM_BYTES)
}

/// What the system would send towards `remote` in one piece. Nothing is sent to find out.
fn link_mtu(remote: SocketAddr) -> io::Result<u32> {
    let socket = UdpSocket::bind(any_port(remote))?;
    socket.connect(remote)?;
    Ok(match remote {
        SocketAddr::V4(_) => ip_mtu(&socket)?,
        SocketAddr::V6(_) => ipv6_mtu(&socket)?,
    })
}

/// Whether an address is one of this machine or of a local network.
fn is_near(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => address.is_loopback() || address.is_private() || address.is_link_local(),
        IpAddr::V6(address) => {
            address.is_loopback() || address.is_unique_local() || address.is_unicast_link_local()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_link_bounds_datagrams_between_what_every_path_carries_and_what_is_sent_at_once() {
        for (mtu, largest) in
            [(0, 1_200), (1_280, 1_232), (1_500, 1_452), (4_000, 3_952), (9_000, 6_500), (65_536, 6_500)]
        {
            assert_eq!(largest_payload(mtu), largest, "{mtu}");
        }
    }

    #[test]
    fn only_near_peers_are_tried_with_more_than_usual() {
        for (address, near) in [
            ("127.0.0.1", true),
            ("10.1.2.3", true),
            ("169.254.0.1", true),
            ("192.0.2.1", false),
            ("::1", true),
            ("fd00::1", true),
            ("fe80::1", true),
            ("2001:db8::1", false),
        ] {
            assert_eq!(is_near(address.parse().unwrap()), near, "{address}");
        }
        assert_eq!(largest_datagram("192.0.2.1:1".parse().unwrap()), QUIC_USUAL_DATAGRAM_BYTES);
    }

    #[test]
    fn within_a_machine_they_become_larger() {
        assert_eq!(largest_datagram("127.0.0.1:1".parse().unwrap()), QUIC_DATAGRAM_BYTES);
    }
}
