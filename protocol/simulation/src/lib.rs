//! Two sessions over a link in memory, in virtual time: the state machines of the protocol with the thinnest
//! drivers that a session needs. Whatever holds here is decided by the protocol crate alone.
//!
//! A [`world::World`] has a [`source::Source`], a [`target::Target`] and the [`link::Link`] between them, and a clock that moves
//! only when nothing is left to do. It is for tests and for the model of latency: what cannot be, by the rules of the
//! protocol, panics.

mod incoming;
pub mod link;
pub mod source;
pub mod target;
pub mod tree;
pub mod world;

/// One of the two roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The one that has the source.
    Sender,
    /// The one that has the target.
    Receiver,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::Sender => Self::Receiver,
            Self::Receiver => Self::Sender,
        }
    }
}
