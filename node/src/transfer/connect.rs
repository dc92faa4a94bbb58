//! Reaching a peer, and the control stream of a session with it.

use std::time::Duration;

use ketch_protocol::{io::StreamKind, limits::HELLO_TIMEOUT_S};
use tokio::time::timeout;

use super::ConnectError;
use crate::swarm::{Connection, Stream};

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
