//! UDP sockets, and what the system gave them.

use std::{
    io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    sync::Arc,
};

use noq::{Endpoint, EndpointConfig, Runtime, ServerConfig, TokioRuntime};
use socket2::{Domain, Protocol, Socket, Type};

use crate::{
    buffer::{self, Way, limit_of_asked, read_back},
    settings::BufferSize,
};

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
    /// Binds `address`, with buffers as near to `buffer_bytes` as the system allows, or as it gives them by itself.
    /// Without a server configuration it accepts nobody.
    pub(super) fn new(
        address: SocketAddr,
        buffer_bytes: Option<u32>,
        config: EndpointConfig,
        server: Option<ServerConfig>,
    ) -> io::Result<Self> {
        let socket = Socket::new(Domain::for_address(address), Type::DGRAM, Some(Protocol::UDP))?;
        if address.is_ipv6() {
            // The same port of IPv4 belongs to another listener.
            socket.set_only_v6(true)?;
        }
        if let Some(bytes) = buffer_bytes {
            buffer::ask(&socket, bytes)?;
        }
        let buffer = |way| read_back(&socket, way, buffer_bytes, limit_of_asked(way));
        let (send_buffer, receive_buffer) = (buffer(Way::Send)?, buffer(Way::Receive)?);
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
