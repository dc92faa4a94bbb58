//! The control stream of a session, and what to say when the connection below it was lost.

use std::time::Duration;

use ketch_protocol::{io::StreamKind, limits::HELLO_TIMEOUT_S};
use tokio::time::timeout;

use super::ConnectError;
use crate::swarm::{Circuit, CircuitLimit, Connection, Multiaddr, Node, PeerId, Stream, TransportKind};

/// Over what content may go.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Way {
    /// One transport, or either.
    pub transport: Option<TransportKind>,
    /// Whether it may cross a relay that limits what it carries, where no direct connection comes about.
    pub over_relay: bool,
}

impl Way {
    /// Whether an address leads there. A circuit does where its relay is reached over the transport: that is the one over
    /// which the two then look for a direct connection.
    pub fn has(&self, address: &Multiaddr) -> bool {
        TransportKind::of(address).is_some_and(|kind| self.transport.is_none_or(|wanted| wanted == kind))
    }
}

/// Reaches a peer for a session: over a direct connection, which is waited for where the first one is a circuit.
pub(super) async fn reach(
    node: &Node,
    peer: PeerId,
    addresses: Vec<Multiaddr>,
    way: Way,
) -> Result<Connection, ConnectError> {
    let first = node.dial(peer, addresses).await?;
    if first.circuit().is_none() {
        return Ok(first);
    }
    let why = match node.direct(&first, way.transport).await {
        Ok(direct) => return Ok(direct),
        Err(why) => why,
    };
    match first.circuit() {
        Some(circuit) if !way.over_relay && circuit.limit != CircuitLimit::default() => {
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

/// How a session lost its connection. The relay of a circuit ends it as likely as the peer does, and has limits.
pub(super) fn loss(connection: &Connection, detail: String) -> String {
    match connection.circuit() {
        Some(Circuit { relay, limit }) => {
            format!("{detail}; it went through the relay {relay}, which carries {limit} on one circuit")
        }
        None => detail,
    }
}
