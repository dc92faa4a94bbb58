//! The QUIC library's errors as the rest of the crate knows them.

use std::io;

use noq::ConnectionError;

use crate::limits::QUIC_IDLE_TIMEOUT;

/// Why a connection ended, as an error of a socket.
pub(super) fn lost(error: ConnectionError) -> io::Error {
    match error {
        ConnectionError::ApplicationClosed(_) => {
            io::Error::new(io::ErrorKind::UnexpectedEof, "connection closed by the peer")
        }
        ConnectionError::Reset => {
            io::Error::new(io::ErrorKind::ConnectionReset, "connection reset by the peer")
        }
        ConnectionError::TimedOut => {
            let seconds = QUIC_IDLE_TIMEOUT.as_secs();
            io::Error::new(io::ErrorKind::TimedOut, format!("no sign of life from the peer for {seconds} s"))
        }
        ConnectionError::LocallyClosed => {
            io::Error::new(io::ErrorKind::NotConnected, "the connection was closed on this side")
        }
        ConnectionError::ConnectionClosed(_) => io::Error::new(io::ErrorKind::ConnectionAborted, error),
        ConnectionError::VersionMismatch
        | ConnectionError::TransportError(_)
        | ConnectionError::CidsExhausted => io::Error::other(error),
    }
}
