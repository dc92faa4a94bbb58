//! Connections between peers: the only folder of the node that names libp2p.
//!
//! [`Node::start`] gives a handle and the queue of inbound streams. [`Node::dial`] gives a [`Connection`];
//! both peers open transfer streams on it with [`Connection::open_stream`], and the other side finds them in
//! its [`Inbound`]; those of an introduction, which two peers have before they trust each other, are kept apart. What the first bytes of a stream mean is decided elsewhere.
//!
//! A connection lives while somebody holds its handle or a stream of it, and a short idle time beyond.
//! Dropping every [`Node`] closes all connections; [`Node::shutdown`] also waits for that.

pub mod address;
mod connection;
mod dial;
mod direct;
mod duplicates;
mod handler;
mod heard;
mod inbound;
pub mod kad;
mod limits;
mod mdns;
mod meet;
mod meeting;
pub mod network;
mod node;
mod order;
mod ping;
mod race;
mod reach;
mod relay;
mod relays;
mod rendezvous;
mod reservation;
mod resolve;
mod scope;
mod taken;
mod task;
mod transfer;
mod upnp;

pub use ketch_channel::{
    BufferSize, ChannelSettings, Controller, ControllerError, ControllerNameError, Deadlines, Effective,
    Gauge, PathStatistics, SetupCause, SetupError, Step, TransportKind, TransportKindError,
};
pub use libp2p::{Multiaddr, PeerId, identity::Keypair};

pub use connection::{CloseReason, Connection, Stream, StreamError};
pub use dial::{Attempt, AttemptError, DialError, DialRequest};
pub use direct::{Hints, NoDirect};
pub use heard::Heard;
pub use inbound::{Inbound, Introductions};
pub use node::{Node, NodeError, NodeOptions};
pub use ping::{PingError, PingReport};
pub use reach::{Circuit, CircuitLimit};
pub use relay::{RelayOptions, RelayServer};
pub use relays::KeptReservations;
pub use rendezvous::{Found, MeetingName, MeetingNameError, RendezvousError};
pub use reservation::{Relay, Reservation, ReservationError};
pub use scope::Scope;
