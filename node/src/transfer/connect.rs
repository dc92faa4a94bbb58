//! The first connection of a session with a peer that this side dials: its beginning and its end.

use std::time::{Duration, Instant};

use ketch_protocol::{io::StreamKind, limits::HELLO_TIMEOUT_S, session::SessionError};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    ConnectError, DialedError,
    dialer::Dialer,
    event::{Event, Route},
    line::Leave,
};
use crate::swarm::{Circuit, CircuitLimit, Connection, DialRequest, Node, PeerId, Stream};

/// Reaches the peer, tells that it is reached, and opens the control stream. `patience` is for how long it is tried
/// again and again; without any it is tried once.
pub(super) async fn connect(
    dialer: &Dialer,
    patience: Option<Duration>,
    events: &mpsc::Sender<Event>,
    stop: &CancellationToken,
) -> Result<(Connection, Stream), DialedError> {
    let began = Instant::now();
    let dial = async {
        match patience {
            Some(limit) => dialer.connect_again(limit).await,
            None => dialer.connect().await,
        }
    };
    let connection = tokio::select! {
        dialed = dial => dialed?,
        () = stop.cancelled() => return Err(DialedError::Interrupted),
    };
    // Nobody listens to events any more: the session goes on without them.
    let _ = events.send(Event::Connected(Route::of(&connection, began.elapsed()))).await;
    let stream = open_control(&connection).await?;
    Ok((connection, stream))
}

/// Reaches a peer for a session: over a direct connection, which is waited for where the first one is a circuit. Where none
/// comes, content crosses a relay that limits what it carries only if it may.
pub(super) async fn reach(
    node: &Node,
    peer: PeerId,
    request: &DialRequest,
    over_relay: bool,
) -> Result<Connection, ConnectError> {
    let first = node.dial(peer, request.clone()).await?;
    if first.circuit().is_none() {
        return Ok(first);
    }
    let why = match node.direct(&first, request.only).await {
        Ok(direct) => return Ok(direct),
        Err(why) => why,
    };
    match first.circuit() {
        Some(circuit) if !over_relay && circuit.limit != CircuitLimit::default() => {
            Err(ConnectError::OnlyRelayed { circuit: circuit.into(), why })
        }
        Some(_) | None => Ok(first),
    }
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

/// How a session lost its connection. The relay of a circuit ends it as likely as the peer does, and has limits.
pub(super) fn loss(connection: &Connection, detail: String) -> String {
    match connection.circuit() {
        Some(Circuit { relay, limit }) => {
            format!("{detail}; it went through the relay {relay}, which carries {limit} on one circuit")
        }
        None => detail,
    }
}
