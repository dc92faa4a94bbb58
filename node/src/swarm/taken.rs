//! Whether somebody listens on an address already.

use std::{
    io,
    net::{IpAddr, SocketAddr},
};

use libp2p::{Multiaddr, multiaddr::Protocol};
use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, socket_with, sockopt};

/// Fails when somebody listens on a TCP address. The transport would share the port with them without a word,
/// and each of the two would meet some of the peers.
pub(super) fn check_free(address: &Multiaddr) -> io::Result<()> {
    let Some(address) = tcp(address) else { return Ok(()) };
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket = socket_with(family, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // As the transport does: connections that were closed a moment ago are in nobody's way.
    sockopt::set_socket_reuseaddr(&socket, true)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    Ok(bind(&socket, &address)?)
}

/// `None` for another transport, and for a port that is free by itself.
fn tcp(address: &Multiaddr) -> Option<SocketAddr> {
    let (mut ip, mut tcp) = (None, None);
    for part in address {
        if let Protocol::Ip4(address) = part {
            ip = Some(IpAddr::from(address));
        } else if let Protocol::Ip6(address) = part {
            ip = Some(IpAddr::from(address));
        } else if let Protocol::Tcp(port @ 1..) = part {
            tcp = Some(port);
        }
    }
    Some(SocketAddr::new(ip?, tcp?))
}
