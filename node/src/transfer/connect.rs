//! The control stream of a session, and what to say when the connection below it was lost.

use std::time::Duration;

use ketch_protocol::{io::StreamKind, limits::HELLO_TIMEOUT_S};
use tokio::time::timeout;

use super::ConnectError;
use crate::swarm::{Circuit, Connection, Stream};

/// Opens the control stream.
pub(super) async fn open_control(connection: &Connection) -> Result<Stream, ConnectError> {
    let open = async {
        let mut stream = connection.open_stream().await?;
        StreamKind::Control.write(&mut stream).await.map_err(ConnectError::Control)?;
        Ok(stream)
    };
    let opened = timeout(Duration::from_secs(HELLO_TIMEOUT_S), open).await;
    opened.unwrap_or(Err(ConnectError::Silent { seconds: HELLO_TIMEOUT_S }))
}

/// How a session lost its connection. The relay of a circuit ends it as likely as the peer does, and has limits.
pub(super) fn loss(connection: &Connection, detail: String) -> String {
    match connection.circuit() {
        Some(Circuit { relay, limit }) => {
            format!("{detail}; it went through the relay {relay}, which carries {limit} on one circuit")
        }
        None => detail,
    }
}
