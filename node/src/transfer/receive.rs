//! Receiving what a ticket offers, from the look at the destination to the report.

use std::{path::PathBuf, sync::Arc, time::Duration};

use ketch_protocol::{
    io::StreamKind,
    limits::{HELLO_TIMEOUT_S, VERSION},
    message::{Ask, Consent, TargetView},
};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    ReceiveError,
    event::{Event, Report, Route},
    receiving::Receiving,
    storing::Store,
};
use crate::{
    swarm::{Connection, Inbound, Node, Stream, TransportKind},
    tree::{self, Target},
    trust::Ticket,
};

/// What to receive, and how.
#[derive(Debug)]
pub struct ReceiveRequest {
    /// From whom, and the proof that it may be had.
    pub ticket: Ticket,
    /// The directory below which it is stored; made if missing.
    pub destination: PathBuf,
    /// How it is stored.
    pub options: tree::Options,
    /// Over what; either when not given.
    pub transport: Option<TransportKind>,
    /// Whether a person must agree first ([`Event::Consult`]).
    pub consent: Consent,
}

/// Receives what a ticket offers. The target is checked before the peer is dialed. Cancelling `stop` tells
/// the other side and keeps what is stored of large files.
pub async fn receive(
    node: &Node,
    inbound: &mut Inbound,
    request: ReceiveRequest,
    events: &mpsc::Sender<Event>,
    stop: &CancellationToken,
) -> Result<Report, ReceiveError> {
    let (target, view, free_bytes) = open_target(request.destination, request.options).await?;
    let connection = tokio::select! {
        dialed = dial(node, &request.ticket, request.transport) => dialed?,
        () = stop.cancelled() => return Err(ReceiveError::Interrupted),
    };
    // Nobody listens to events any more: the session goes on without them.
    let _ = events.send(Event::Connected(Route::of(&connection))).await;
    let stream = open_control(&connection).await?;
    let ask = Ask {
        version: VERSION,
        session: super::random_session().map_err(ReceiveError::Random)?,
        secret: *request.ticket.secret(),
        consent: request.consent,
        target: view,
    };
    let store = Arc::new(Store::new(target));
    let receiving = Receiving::new(connection.clone(), ask, store, free_bytes, events.clone());
    let result = receiving.run(stream, inbound, stop).await;
    connection.close().await;
    result
}

async fn open_target(
    destination: PathBuf,
    options: tree::Options,
) -> Result<(Target, TargetView, u64), ReceiveError> {
    super::blocking(move || {
        let target = Target::open(&destination, options)?;
        let unused = target.is_empty().map_err(ReceiveError::LookAtTarget)? && target.unfinished().files == 0;
        let view = if unused { TargetView::Empty } else { TargetView::Occupied };
        let free_bytes = target.free_bytes().map_err(ReceiveError::LookAtTarget)?;
        Ok((target, view, free_bytes))
    })
    .await
}

async fn dial(
    node: &Node,
    ticket: &Ticket,
    transport: Option<TransportKind>,
) -> Result<Connection, ReceiveError> {
    let fits = |kind| transport.is_none_or(|wanted| wanted == kind);
    let addresses: Vec<_> = ticket
        .addresses()
        .iter()
        .filter(|address| TransportKind::of(address).is_some_and(fits))
        .cloned()
        .collect();
    if addresses.is_empty() {
        return Err(ReceiveError::NoAddress { transport });
    }
    Ok(node.dial(ticket.peer(), addresses).await?)
}

async fn open_control(connection: &Connection) -> Result<Stream, ReceiveError> {
    let open = async {
        let mut stream = connection.open_stream().await?;
        StreamKind::Control.write(&mut stream).await.map_err(ReceiveError::Control)?;
        Ok(stream)
    };
    let opened = timeout(Duration::from_secs(HELLO_TIMEOUT_S), open).await;
    opened.unwrap_or(Err(ReceiveError::Silent { seconds: HELLO_TIMEOUT_S }))
}
