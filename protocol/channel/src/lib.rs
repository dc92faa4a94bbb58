//! One authenticated, multiplexed connection between two peers, over TCP (TLS 1.3, yamux) or QUIC.
//!
//! [`transport()`] gives both as one libp2p transport, [`transport_with_circuits`] also what goes through relays. It stays wire-compatible with stock libp2p peers; what
//! is our own is the order of the ciphers, the deadlines and the errors, which name the step that failed.

mod buffer;
mod circuit;
mod controller;
#[cfg(target_os = "linux")]
mod diagnosis;
mod doorway;
mod gauge;
pub mod limits;
mod mux;
mod quic;
mod security;
mod settings;
mod setup;
mod socket;
mod tcp;
mod tls;
mod transport;

pub use controller::{ControllerError, check_controller};
pub use gauge::{DialedGauge, Gauge, Gauges};
pub use settings::{
    BufferSize, ChannelSettings, Controller, ControllerNameError, Effective, PathStatistics, QuicBbr,
    QuicFlow, QuicStack, TcpFlow,
};
pub use setup::{Deadlines, SetupCause, SetupError, Step, describe};
pub use tls::IdentityError;
pub use transport::{TransportKind, TransportKindError, transport, transport_with_circuits};

/// Other systems are not asked yet.
#[cfg(not(target_os = "linux"))]
mod diagnosis {
    pub(crate) fn path_statistics(_: impl std::os::fd::AsFd) -> std::io::Result<crate::PathStatistics> {
        Ok(crate::PathStatistics::default())
    }
}
