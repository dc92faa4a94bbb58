//! The first connection of a session with a peer that this side dials: its beginning and its end.

use std::time::Duration;

use ketch_protocol::{io::StreamKind, limits::HELLO_TIMEOUT_S, session::SessionError};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    ConnectError, DialedError,
    dialer::Dialer,
    event::{Event, Route},
    line::Leave,
};
use crate::swarm::{Connection, Stream};

/// Reaches the peer, tells that it is reached, and opens the control stream. `patience` is for how long it is tried
/// again and again; without any it is tried once.
pub(super) async fn connect(
    dialer: &Dialer,
    patience: Option<Duration>,
    events: &mpsc::Sender<Event>,
    stop: &CancellationToken,
) -> Result<(Connection, Stream), DialedError> {
    let dial = async {
        match patience {
            Some(limit) => dialer.connect_again(limit).await,
            None => dialer.connect().await,
        }
    };
    let connection = tokio::select! {
        dialed = dial => dialed.map_err(ConnectError::from)?,
        () = stop.cancelled() => return Err(DialedError::Interrupted),
    };
    // Nobody listens to events any more: the session goes on without them.
    let _ = events.send(Event::Connected(Route::of(&connection))).await;
    let stream = open_control(&connection).await?;
    Ok((connection, stream))
}

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

/// Closes the connection, whose session may have failed. A path that is gone takes no farewell: the node goes on
/// with it by itself.
pub(super) async fn close(connection: &Connection, failed: Option<&SessionError>) {
    let leave = failed.map_or(Leave::AtOnce, Leave::of);
    let _ = timeout(leave.limit(), connection.close()).await;
}
