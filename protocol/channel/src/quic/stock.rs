//! QUIC as stock `libp2p-quic` carries it, to compare with: with our windows and errors, and nothing else to choose.

use libp2p_core::{Transport, muxing::StreamMuxerBox};
use libp2p_identity::{Keypair, PeerId};
use libp2p_quic::{Config, tokio};

use crate::{
    limits::{
        QUIC_CONNECTION_WINDOW_BYTES, QUIC_IDLE_TIMEOUT, QUIC_KEEP_ALIVE, QUIC_STREAM_WINDOW_BYTES,
        QUIC_STREAMS,
    },
    setup::{Deadlines, SetupCause, SetupError, Step},
};

/// The stock QUIC transport for one identity.
pub(crate) fn stock_transport(
    identity: &Keypair,
    deadlines: Deadlines,
) -> impl Transport<
    Output = (PeerId, StreamMuxerBox),
    Error = SetupError,
    Dial: Send + 'static,
    ListenerUpgrade: Send + 'static,
> + Send
+ Unpin
+ 'static {
    let limit = deadlines.setup;
    tokio::Transport::new(config(identity, deadlines))
        .map(|(peer, connection), _| (peer, StreamMuxerBox::new(connection)))
        .map_err(move |error| SetupError { step: Step::Quic, cause: cause(error, limit) })
}

fn config(identity: &Keypair, deadlines: Deadlines) -> Config {
    let mut config = Config::new(identity);
    config.handshake_timeout = deadlines.setup;
    config.max_idle_timeout = QUIC_IDLE_TIMEOUT.as_millis() as u32;
    config.keep_alive_interval = QUIC_KEEP_ALIVE;
    config.max_concurrent_stream_limit = QUIC_STREAMS;
    config.max_stream_data = QUIC_STREAM_WINDOW_BYTES;
    config.max_connection_data = QUIC_CONNECTION_WINDOW_BYTES;
    config
}

fn cause(error: libp2p_quic::Error, limit: std::time::Duration) -> SetupCause {
    use libp2p_quic::Error;
    match error {
        Error::HandshakeTimedOut => SetupCause::Silence(limit),
        Error::Io(error) => SetupCause::Failed(error),
        other @ (Error::Reach(_)
        | Error::Connection(_)
        | Error::NoActiveListenerForDialAsListener
        | Error::HolePunchInProgress(_)) => SetupCause::Failed(std::io::Error::other(other)),
    }
}
