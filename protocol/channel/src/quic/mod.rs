//! QUIC with libp2p identities, on the wire the same as stock `libp2p-quic`, over the QUIC library `noq`
//! (docs/decisions/0015-quic-library.md).
//!
//! Ours are: a controller that is chosen and can be exchanged while a connection lives, socket buffers that suit
//! fast paths, windows that survive loss, AES-128-GCM first, holes that are punched, streams that are reset
//! when they are dropped unfinished, errors that name what happened, and a goodbye that one can wait for.

mod address;
mod bbr;
mod config;
mod connection;
mod controller;
mod datagram;
mod error;
mod gauge;
mod listener;
mod punch;
mod socket;
#[cfg(feature = "stock-quic")]
mod stock;
mod stream;
mod transport;
mod window;

pub(crate) use gauge::QuicGauge;
#[cfg(feature = "stock-quic")]
pub(crate) use stock::stock_transport;
pub(crate) use transport::QuicTransport;
