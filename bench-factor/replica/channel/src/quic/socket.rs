//! UDP sockets, and what the system gave them.

use std::{
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
};

use noq::{Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime};
use rustix::net::sockopt;
use socket2::{Domain, Protocol, Socket, Type};

use crate::settings::BufferSize;

/// What the system gave a UDP socket.
#[derive(Debug, Clone, Copy)]
pub(super) struct UdpProperties {
    pub(super) send_buffer: BufferSize,
    pub(super) receive_buffer: BufferSize,
    pub(super) gso: bool,
    pub(super) gro: bool,
}

/// A UDP socket and the QUIC endpoint that runs on it. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Bound {
    pub(super) endpoint: Endpoint,
    pub(super) properties: Arc<UdpProperties>,
    pub(super) local: SocketAddr,
    /// The same socket, for the packets that punch holes.
    pub(super) raw: Arc<UdpSocket>,
}

impl Bound {
    /// Binds `address`, with buffers as near to `buffer_bytes` as the system allows. Without a server
    /// configuration it accepts nobody.
    pub(super) fn new(
        address: SocketAddr,
        buffer_bytes: u32,
        config: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            // The same port of IPv4 belongs to another listener.
            socket.set_only_v6(true)?;
        }
        let receive_buffer = ask_receive_buffer(&socket, buffer_bytes)?;
        let send_buffer = ask_send_buffer(&socket, buffer_bytes)?;
        socket.bind(&address.into())?;
        let raw = Arc::new(UdpSocket::from(socket.try_clone()?));
        let wrapped = TokioRuntime.wrap_udp_socket(socket.into())?;
        let properties = UdpProperties {
            send_buffer,
            receive_buffer,
            gso: wrapped.max_transmit_segments() > 1,
            gro: wrapped.max_receive_segments() > 1,
        };
        let local = wrapped.local_addr()?;
        let endpoint = Endpoint::new_with_abstract_socket(config, server, wrapped, Arc::new(TokioRuntime))?;
        Ok(Self { endpoint, properties: Arc::new(properties), local, raw })
    }
}

/// Any free port, for dialing addresses of the family of `remote`.
pub(super) fn any_port(remote: SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
        SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

/// A privileged process may go beyond the system's limit; any other one gets what the limit leaves.
fn ask_receive_buffer(socket: &Socket, bytes: u32) -> io::Result<BufferSize> {
    #[cfg(target_os = "linux")]
    let forced = sockopt::set_socket_recv_buffer_size_force(socket, bytes as usize).is_ok();
    #[cfg(not(target_os = "linux"))]
    let forced = false;
    if !forced {
        sockopt::set_socket_recv_buffer_size(socket, bytes as usize)?;
    }
    let effective = sockopt::socket_recv_buffer_size(socket)?;
    Ok(BufferSize { asked: Some(bytes), effective: clamped(effective), limit: system_limit("rmem_max") })
}

fn ask_send_buffer(socket: &Socket, bytes: u32) -> io::Result<BufferSize> {
    #[cfg(target_os = "linux")]
    let forced = sockopt::set_socket_send_buffer_size_force(socket, bytes as usize).is_ok();
    #[cfg(not(target_os = "linux"))]
    let forced = false;
    if !forced {
        sockopt::set_socket_send_buffer_size(socket, bytes as usize)?;
    }
    let effective = sockopt::socket_send_buffer_size(socket)?;
    Ok(BufferSize { asked: Some(bytes), effective: clamped(effective), limit: system_limit("wmem_max") })
}

/// Reads `/proc/sys/net/core`; `None` where there is none.
fn system_limit(name: &str) -> Option<u32> {
    fs::read_to_string(format!("/proc/sys/net/core/{name}")).ok()?.trim().parse().ok()
}

fn clamped(bytes: usize) -> u32 {
    u32::try_from(bytes).unwrap_or(u32::MAX)
}
