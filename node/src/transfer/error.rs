//! Why a transfer did not come to its end.

use std::{io, path::PathBuf};

use ketch_protocol::session::SessionError;

use super::known_tree::OpenError;
use crate::{
    state::show,
    swarm::{Circuit, DialError, NoDirect, StreamError, TransportKind},
    tree::{SourceError, TargetError, Unfinished},
    trust::offers::OffersError,
};

/// Why there is no session with a peer.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// It could not be reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// It is reached through a relay alone, which limits what it carries.
    #[error("{why}; the relay {} would carry {}: --relay takes that way", .circuit.relay, .circuit.limit)]
    OnlyRelayed {
        /// Whose circuit, and what it allows.
        circuit: Box<Circuit>,
        /// Why there is no direct connection.
        why: NoDirect,
    },
    /// No control stream could be opened.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// The control stream failed before the session began.
    #[error("opening the session")]
    Control(#[source] io::Error),
    /// The peer is connected and says nothing.
    #[error("opening the session: no answer within {seconds} s")]
    Silent {
        /// How long it was waited for, in seconds.
        seconds: u64,
    },
}

/// Why a session with a peer that this side dials did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum DialedError {
    /// The peer could not be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The session ended early.
    #[error("{error}")]
    Session {
        /// Why.
        error: SessionError,
        /// What is kept of large files for the next try.
        unfinished: Unfinished,
    },
    /// Stopped while no session ran.
    #[error("interrupted")]
    Interrupted,
    /// The system gave no random numbers.
    #[error("making a session id")]
    Random(#[source] getrandom::Error),
}

/// Why nothing, or not all, was received.
#[derive(Debug, thiserror::Error)]
pub enum ReceiveError {
    /// The destination can't be written.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The destination can't be looked at.
    #[error("looking at the destination")]
    LookAtTarget(#[source] io::Error),
    /// The destination can't be listed.
    #[error(transparent)]
    List(#[from] SourceError),
    /// The ticket has no address for the transport, and nothing else has one either.
    #[error("the ticket has no address {}, and none is known otherwise", over(*transport))]
    NoAddress {
        /// What was asked for.
        transport: Option<TransportKind>,
    },
    /// The session did not come to its end.
    #[error(transparent)]
    Dialed(#[from] DialedError),
}

fn over(transport: Option<TransportKind>) -> String {
    transport.map_or_else(|| "that can be dialed".into(), |transport| format!("for {transport}"))
}

/// Why a target does not have what its source has.
#[derive(Debug, thiserror::Error)]
pub enum SyncError {
    /// The source can't be opened.
    #[error("cannot open {}", show(.path))]
    Source {
        /// What was named.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The source lies elsewhere than before, and for its sake nothing is removed.
    #[error("{} lies on another file system than what was synced before, so nothing is removed", show(.path))]
    OtherSource {
        /// What was named.
        path: PathBuf,
    },
    /// The tree on this side can't be listed as it was asked for.
    #[error(transparent)]
    Tree(#[from] OpenError),
    /// The target can't be written.
    #[error(transparent)]
    Target(#[from] TargetError),
    /// The target can't be looked at.
    #[error("looking at the target")]
    LookAtTarget(#[source] io::Error),
    /// The session did not come to its end.
    #[error(transparent)]
    Dialed(#[from] DialedError),
}

impl ReceiveError {
    /// What became of the session, if that is why.
    pub(super) fn dialed(&self) -> Option<&DialedError> {
        match self {
            Self::Dialed(error) => Some(error),
            Self::Target(_) | Self::LookAtTarget(_) | Self::List(_) | Self::NoAddress { .. } => None,
        }
    }
}

impl SyncError {
    /// What became of the session, if that is why.
    pub(super) fn dialed(&self) -> Option<&DialedError> {
        match self {
            Self::Dialed(error) => Some(error),
            Self::Source { .. }
            | Self::OtherSource { .. }
            | Self::Tree(_)
            | Self::Target(_)
            | Self::LookAtTarget(_) => None,
        }
    }
}

/// Why an offer ended without its uses being spent.
#[derive(Debug, thiserror::Error)]
pub enum OfferError {
    /// A session ended in a way that no further try would mend.
    #[error("{0}")]
    Session(SessionError),
    /// The offer expired.
    #[error("the offer has expired")]
    Expired,
    /// The offer's state could not be written.
    #[error(transparent)]
    State(#[from] OffersError),
    /// Stopped by its user.
    #[error("interrupted")]
    Interrupted,
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}

/// Why shares are served no longer.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The node has stopped.
    #[error("the node has stopped")]
    Stopped,
}
