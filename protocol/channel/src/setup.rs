//! The steps from an address to a connection: their deadlines, and errors that name the step.

use std::{fmt, io, time::Duration};

use libp2p_core::upgrade::NegotiationError;
use tokio::time::{Instant, timeout_at};

use crate::{
    controller::ControllerError,
    limits::{CONNECT_TIMEOUT, SETUP_TIMEOUT},
    socket::OptionError,
};

/// How long a connection may take to come about.
#[derive(Debug, Clone, Copy)]
pub struct Deadlines {
    /// For the TCP connect alone.
    pub connect: Duration,
    /// For all steps together, the connect included.
    pub setup: Duration,
}

impl Default for Deadlines {
    fn default() -> Self {
        Self { connect: CONNECT_TIMEOUT, setup: SETUP_TIMEOUT }
    }
}

/// One step on the way to a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The TCP connect.
    Connect,
    /// Giving the TCP socket the options that were asked for.
    Socket,
    /// Agreeing with a dialing peer on TLS or Noise, and its handshake.
    Security,
    /// Agreeing on TLS, and its handshake.
    Tls,
    /// Agreeing on Noise, and its handshake.
    Noise,
    /// Agreeing on yamux.
    Multiplexer,
    /// The QUIC handshake.
    Quic,
    /// Getting a circuit through a relay.
    Circuit,
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connect => "connect",
            Self::Socket => "socket",
            Self::Security => "security handshake",
            Self::Tls => "tls handshake",
            Self::Noise => "noise handshake",
            Self::Multiplexer => "multiplexer",
            Self::Quic => "quic handshake",
            Self::Circuit => "circuit",
        })
    }
}

/// Why no connection came about.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {cause}")]
pub struct SetupError {
    /// The step that failed; those before it succeeded.
    pub step: Step,
    /// What came instead.
    pub cause: SetupCause,
}

/// What ended a step.
#[derive(Debug, thiserror::Error)]
pub enum SetupCause {
    /// The deadline passed.
    #[error("no answer within {} s", .0.as_secs_f32())]
    Silence(Duration),
    /// The peer declined the protocol that this step needs.
    #[error("the peer does not speak it")]
    NotSpoken,
    /// What answered is no libp2p peer.
    #[error("what answered is no libp2p peer")]
    Foreign,
    /// There were too many handshakes at once, and this one had waited longest.
    #[error("others came before it had proved who it is")]
    Displaced,
    /// The connection cannot have the congestion controller that was asked for.
    #[error(transparent)]
    Controller(ControllerError),
    /// The socket or the peer failed.
    #[error("{}", describe(.0))]
    Failed(io::Error),
}

impl From<OptionError> for SetupCause {
    fn from(error: OptionError) -> Self {
        match error {
            OptionError::Controller(error) => Self::Controller(error),
            OptionError::Socket(error) => Self::Failed(error),
        }
    }
}

impl SetupCause {
    pub(crate) fn from_io(error: io::Error) -> Self {
        match error.get_ref() {
            Some(inner) if matches!(inner.downcast_ref(), Some(NegotiationError::Failed)) => Self::NotSpoken,
            // The negotiation says no more of bytes that are none of its own; errors of TLS carry a text.
            None if error.kind() == io::ErrorKind::InvalidData => Self::Foreign,
            Some(_) | None => Self::Failed(error),
        }
    }
}

/// Says what an error of a socket or a multiplexer means, in the words a person would use.
pub fn describe(error: &io::Error) -> String {
    let words = [
        (io::ErrorKind::ConnectionRefused, "connection refused"),
        (io::ErrorKind::ConnectionReset, "connection reset by the peer"),
        (io::ErrorKind::BrokenPipe, "connection reset by the peer"),
        (io::ErrorKind::UnexpectedEof, "connection closed by the peer"),
    ];
    let known = words.iter().find(|(kind, _)| *kind == error.kind());
    known.map_or_else(|| error.to_string(), |(_, words)| (*words).into())
}

/// The time that one attempt has left; every step is run within it.
#[derive(Clone, Copy)]
pub(crate) struct Budget {
    started: Instant,
    deadlines: Deadlines,
}

impl Budget {
    pub(crate) fn start(deadlines: Deadlines) -> Self {
        Self { started: Instant::now(), deadlines }
    }

    /// Runs one step, at the end of which the budget may be used up.
    pub(crate) async fn run<T>(
        self,
        step: Step,
        work: impl Future<Output = io::Result<T>>,
    ) -> Result<T, SetupError> {
        let limit = match step {
            Step::Connect => self.deadlines.connect.min(self.deadlines.setup),
            Step::Socket
            | Step::Security
            | Step::Tls
            | Step::Noise
            | Step::Multiplexer
            | Step::Quic
            | Step::Circuit => self.deadlines.setup,
        };
        let cause = match timeout_at(self.started + limit, work).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(error)) => SetupCause::from_io(error),
            Err(_) => SetupCause::Silence(limit),
        };
        Err(SetupError { step, cause })
    }
}
