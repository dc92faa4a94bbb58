//! Stands in for `ketch-channel`: the same interface over quinn 0.11.9, the `yamux` crate and TLS as `libp2p-tls` sets it up.
//!
//! What names no library is `ketch-channel`'s own source.

#[path = "../../../../protocol/channel/src/buffer.rs"]
mod buffer;
#[allow(dead_code, reason = "no circuit is relayed here")]
#[path = "../../../../protocol/channel/src/circuit.rs"]
mod circuit;
#[path = "../../../../protocol/channel/src/controller/kernel.rs"]
mod controller;
#[path = "../../../../protocol/channel/src/diagnosis.rs"]
mod diagnosis;
#[path = "../../../../protocol/channel/src/doorway.rs"]
mod doorway;
#[path = "../../../../protocol/channel/src/gauge.rs"]
mod gauge;
#[allow(dead_code, reason = "the multiplexer that is not here has bounds of its own")]
#[path = "../../../../protocol/channel/src/limits.rs"]
pub mod limits;
mod mux;
mod quic;
#[path = "../../../../protocol/channel/src/security.rs"]
mod security;
#[path = "../../../../protocol/channel/src/settings.rs"]
mod settings;
#[path = "../../../../protocol/channel/src/setup.rs"]
mod setup;
#[path = "../../../../protocol/channel/src/socket.rs"]
mod socket;
#[path = "../../../../protocol/channel/src/tcp.rs"]
mod tcp;
mod tls;
#[allow(dead_code, reason = "no circuit is relayed here")]
#[path = "../../../../protocol/channel/src/transport.rs"]
mod transport;

pub use controller::{ControllerError, check_controller};
pub use gauge::{DialedGauge, Gauge, Gauges};
pub use settings::{
    BufferSize, ChannelSettings, Controller, ControllerNameError, Effective, PathStatistics, QuicBbr,
    QuicFlow, QuicStack, TcpFlow,
};
pub use setup::{Deadlines, SetupCause, SetupError, Step, describe};
pub use tls::IdentityError;
pub use transport::{TransportKind, TransportKindError, transport};
