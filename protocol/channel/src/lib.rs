//! One authenticated, multiplexed connection between two peers, over TCP (TLS 1.3, yamux) or QUIC.
//!
//! [`transport()`] gives both as one libp2p transport. It stays wire-compatible with stock libp2p peers; what
//! is our own is the order of the ciphers, the deadlines and the errors, which name the step that failed.

mod controller;
mod gauge;
pub mod limits;
mod quic;
mod settings;
mod setup;
mod tcp;
mod tls;
mod transport;

pub use controller::ControllerError;
pub use gauge::{DialedGauge, Gauge, Gauges};
pub use settings::{
    BufferSize, ChannelSettings, Controller, ControllerNameError, Effective, PathStatistics, QuicStack,
};
pub use setup::{Deadlines, SetupCause, SetupError, Step, describe};
pub use tls::IdentityError;
pub use transport::{TransportKind, TransportKindError, transport};
