//! What goes wrong between the runner and the remote host.

use std::io;

use ketch_protocol::path::escape;

use super::super::error::RunError;
use crate::tools::{error::ToolsError, process::tail};

/// The remote host is not, or no longer, to be worked with.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RemoteError {
    /// `ssh` itself could not be started.
    #[error("cannot start ssh, which is needed to reach {}", escape(host.as_bytes()))]
    Ssh { host: String, source: io::Error },
    /// `ssh` knows nothing of the host, or it has no address.
    #[error("cannot find an address of {}: {}", escape(host.as_bytes()), escape(why.as_bytes()))]
    NoAddress { host: String, why: String },
    /// The agent was not started.
    #[error("cannot start the agent on {}: {}", escape(host.as_bytes()), escape(said.as_bytes()))]
    NoAgent { host: String, said: String },
    /// A program is missing there.
    #[error("{} lacks the program {}", escape(host.as_bytes()), escape(program.as_bytes()))]
    Lacks { host: String, program: String },
    /// An executable came there with another hash.
    #[error("{} got another executable than was sent", escape(host.as_bytes()))]
    Damaged { host: String },
    /// The channel has ended, so that nothing is known of the observation under way.
    #[error(
        "the control channel to {} was lost while {doing}: {}; --resume goes on once the host is back",
        escape(host.as_bytes()),
        escape(said.as_bytes())
    )]
    Lost { host: String, doing: &'static str, said: String },
    /// There is no answer.
    #[error("{} did not answer within {limit_s} s while {doing}", escape(host.as_bytes()))]
    Late { host: String, doing: &'static str, limit_s: u64 },
    /// The answer makes no sense.
    #[error("{} answers {} while {doing}", escape(host.as_bytes()), escape(tail(said).as_bytes()))]
    Senseless { host: String, doing: &'static str, said: String },
    /// The agent could not do what was asked.
    #[error("{} failed while {doing}: {}", escape(host.as_bytes()), escape(reason.as_bytes()))]
    Refused { host: String, doing: &'static str, reason: String },
    /// Somebody wants the run to end.
    #[error(transparent)]
    Step(#[from] ToolsError),
}

impl RemoteError {
    /// Whether it says something of the one observation that was to be made, and leaves the host to be worked with.
    pub(in super::super) fn is_of_observation(&self) -> bool {
        match self {
            Self::Refused { .. } => true,
            Self::Ssh { .. }
            | Self::NoAddress { .. }
            | Self::NoAgent { .. }
            | Self::Lacks { .. }
            | Self::Damaged { .. }
            | Self::Lost { .. }
            | Self::Late { .. }
            | Self::Senseless { .. }
            | Self::Step(_) => false,
        }
    }
}

impl RunError {
    /// Whether the run cannot go on, so that there is nothing to say of the observation under way.
    pub(in super::super) fn ends_run(&self) -> bool {
        if let Self::Remote(error) = self {
            return !error.is_of_observation();
        }
        matches!(self, Self::Step(ToolsError::Interrupted))
    }
}
