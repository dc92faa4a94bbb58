//! Connections between peers: the only folder of the node that names libp2p.
//!
//! [`Node::start`] gives a handle and the queue of inbound streams. [`Node::dial`] gives a [`Connection`];
//! both peers open transfer streams on it with [`Connection::open_stream`], and the other side finds them in
//! its [`Inbound`]. What the first bytes of a stream mean is decided elsewhere.
//!
//! A connection lives while somebody holds its handle or a stream of it, and a short idle time beyond.
//! Dropping every [`Node`] closes all connections; [`Node::shutdown`] also waits for that.

pub mod address;
mod connection;
mod dial;
mod duplicates;
mod handler;
mod heard;
mod limits;
mod node;
mod ping;
mod taken;
mod task;
mod transfer;

pub use ketch_channel::{
    BufferSize, ChannelSettings, Controller, ControllerError, ControllerNameError, Deadlines, Effective,
    Gauge, PathStatistics, SetupCause, SetupError, Step, TransportKind, TransportKindError,
};
pub use libp2p::{Multiaddr, PeerId, identity::Keypair};

pub use connection::{CloseReason, Connection, Stream, StreamError};
pub use dial::{Attempt, AttemptError, DialError};
pub use heard::Heard;
pub use node::{Inbound, Node, NodeError, NodeOptions};
pub use ping::{PingError, PingReport};
