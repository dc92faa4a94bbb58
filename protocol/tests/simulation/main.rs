//! Two sessions over a link in memory, in virtual time. The bytes are real, the drivers are thin: what holds
//! here is decided by the protocol crate alone.

mod content;
mod cuts;
mod flights;
mod incoming;
mod link;
mod random;
mod source;
mod stalls;
mod sync;
mod target;
mod tree;
mod world;

/// One of the two roles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Sender,
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
