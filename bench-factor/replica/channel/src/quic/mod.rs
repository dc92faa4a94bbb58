//! QUIC with libp2p identities over quinn 0.11.9: the transport of `ketch-channel` with what that library does not have
//! left out. The controller is chosen when a connection begins, and windows keep their length.

#[path = "../../../../../protocol/channel/src/quic/address.rs"]
mod address;
mod config;
#[path = "../../../../../protocol/channel/src/quic/connection.rs"]
mod connection;
#[path = "../../../../../protocol/channel/src/quic/datagram.rs"]
mod datagram;
#[path = "../../../../../protocol/channel/src/quic/error.rs"]
mod error;
mod gauge;
#[path = "../../../../../protocol/channel/src/quic/listener.rs"]
mod listener;
#[path = "../../../../../protocol/channel/src/quic/punch.rs"]
mod punch;
mod socket;
mod stream;
#[path = "../../../../../protocol/channel/src/quic/transport.rs"]
mod transport;
mod window;

pub(crate) use gauge::QuicGauge;
pub(crate) use transport::QuicTransport;
