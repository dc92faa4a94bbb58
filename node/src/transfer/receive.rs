//! Receiving what a ticket offers, from the look at the destination to the report.

use std::{error::Error as _, path::PathBuf, sync::Arc, time::Duration};

use ketch_protocol::{
    limits::VERSION,
    message::{Ask, Claim, Connections, Consent, Hashes, Message, Policy, Selection, TargetView},
    session::Stop,
};
use tokio::{sync::mpsc, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    ConnectError, DialedError, ReceiveError,
    agreement::Agreement,
    arrivals::{Arrivals, Router},
    connect::{close, connect, open_control},
    dialer::Dialer,
    event::{Event, Report},
    known_tree::KnownTree,
    line::{Leave, Line},
    links::{LinkRole, Links},
    receiving::{CutShort, Doing, Receiving},
    retry::Retry,
    sides::OpenTarget,
    store::Store,
    wish::ConnectionWish,
};
use crate::{
    index::Indexes,
    swarm::{Connection, DialError, DialRequest, Inbound, Node},
    tree::{self, HeldDirectory, Source, Target, TargetError},
    trust::Ticket,
};

/// How long a receiver that can take nothing tries to tell the sender.
const TELL_LIMIT: Duration = Duration::from_secs(2);

/// What to receive, and how.
#[derive(Debug)]
pub struct ReceiveRequest {
    /// From whom, and the proof that it may be had.
    pub ticket: Ticket,
    /// The directory below which it is stored; made if missing.
    pub destination: PathBuf,
    /// How it is stored.
    pub options: tree::Options,
    /// Which hashes of stored files count: those that are known, or only such as are made now.
    pub hashes: Hashes,
    /// Where the sender is, and how it is reached.
    pub reach: DialRequest,
    /// Whether content may cross a relay that limits what it carries, where no direct connection comes about.
    pub over_relay: bool,
    /// How many connections carry it.
    pub connections: ConnectionWish,
    /// Whether a person must agree first ([`Event::Consult`]).
    pub consent: Consent,
    /// How long to try again after a connection was lost.
    pub retry_for: Duration,
    /// What is remembered of trees.
    pub indexes: Arc<Indexes>,
}

/// Receives what a ticket offers, in as many sessions as that takes: another one after each that was cut, for a
/// time. The target is checked before anything moves; a sender hears of one that cannot be written. Cancelling `stop`
/// tells the other side and keeps what is stored of large files.
pub async fn receive(
    node: &Node,
    inbound: &mut Inbound,
    request: ReceiveRequest,
    events: &mpsc::Sender<Event>,
    stop: &CancellationToken,
) -> Result<Report, ReceiveError> {
    let mut retry = Retry::new(request.retry_for);
    let dialer = Dialer::new(node.clone(), request.ticket.peer(), request.reach.clone(), request.over_relay);
    let (patience, agreement) = (None, Agreement::default());
    let mut fetching = Fetching { request, dialer, patience, agreement, inbound, events, stop };
    loop {
        let error = match fetching.attempt().await {
            Ok(report) => return Ok(report),
            Err(error) => error,
        };
        fetching.patience = retry.pause(error.dialed(), events, stop).await?;
        if fetching.patience.is_none() {
            return Err(error);
        }
    }
}

struct Fetching<'a> {
    request: ReceiveRequest,
    dialer: Dialer,
    /// How long the sender may be dialed, after a loss.
    patience: Option<Duration>,
    agreement: Agreement,
    inbound: &'a mut Inbound,
    events: &'a mpsc::Sender<Event>,
    stop: &'a CancellationToken,
}

impl Fetching<'_> {
    /// One session.
    async fn attempt(&mut self) -> Result<Report, ReceiveError> {
        let opened = open_target(&self.request).await;
        if let Err(ReceiveError::Target(
            error @ (TargetError::ReadOnly { .. } | TargetError::NoSpace { .. }),
        )) = &opened
        {
            // The sender waits for somebody who cannot take anything; its user should know. A mistyped
            // destination is nobody's business but the receiver's.
            let _ = timeout(TELL_LIMIT, tell(&self.dialer, &self.request, error)).await;
        }
        let OpenTarget { doing, view, free_bytes, own } = opened?;
        let connected = connect(&self.dialer, self.patience, self.events, self.stop).await;
        let (connection, stream) = connected.map_err(|error| unreached(error, &self.request))?;
        let role = LinkRole::Makes(Box::new(self.dialer.clone()), self.request.connections);
        let links = Links::new(connection.clone(), role);
        let ask =
            Ask { connections: links.most(Connections::MOST), ..ask(&self.request, view, &connection)? };
        let router = Router::default();
        let data = router.register(connection.peer(), ask.session).expect("it is the only session");
        let mut arrivals = Arrivals::new(self.inbound, router);
        let receiving = Receiving::ask(connection.clone(), ask, doing, free_bytes, self.events.clone());
        let receiving =
            receiving.comparing(own, &Policy::default()).agreed_to(self.agreement.clone()).linked(links);
        let result = tokio::select! {
            result = receiving.run(Line::new(stream), data, self.stop) => result,
            never = arrivals.move_data() => match never {},
        };
        close(&connection, result.as_ref().err().map(|cut| &cut.error)).await;
        result.map_err(|CutShort { error, unfinished }| DialedError::Session { error, unfinished }.into())
    }
}

async fn open_target(request: &ReceiveRequest) -> Result<OpenTarget, ReceiveError> {
    let (destination, options, hashes) = (request.destination.clone(), request.options, request.hashes);
    let indexes = Arc::clone(&request.indexes);
    super::blocking(move || {
        let target = Target::open(&destination, options)?;
        let unused = target.is_empty().map_err(ReceiveError::LookAtTarget)? && target.unfinished().files == 0;
        let view = if unused { TargetView::Empty } else { TargetView::Occupied };
        let free_bytes = target.free_bytes().map_err(ReceiveError::LookAtTarget)?;
        let own = HeldDirectory::open(&destination).map_err(ReceiveError::LookAtTarget)?;
        let own = KnownTree::by_ticket(Source::of_root(&own)?, &indexes, view, hashes);
        let doing = Doing::Store(Arc::new(Store::known(target, Some(own.clone()), true)));
        Ok(OpenTarget { doing, view, free_bytes, own: Some(own) })
    })
    .await
}

/// Asks, and says at once why nothing can be taken.
async fn tell(dialer: &Dialer, request: &ReceiveRequest, error: &TargetError) -> Result<(), DialedError> {
    let connection = dialer.connect().await?;
    let mut line = Line::new(open_control(&connection).await?);
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    line.say(&Message::Ask(ask(request, TargetView::Occupied, &connection)?));
    line.say(&Message::Refuse(Stop::new(error.reason(), format_args!("{error}{cause}")).into()));
    line.leave(Leave::WhenHeard).await;
    connection.close().await;
    Ok(())
}

fn ask(request: &ReceiveRequest, target: TargetView, connection: &Connection) -> Result<Ask, DialedError> {
    let session = super::random_session().map_err(DialedError::Random)?;
    Ok(Ask {
        version: VERSION,
        session,
        claim: Claim::Ticket(*request.ticket.secret()),
        consent: request.consent,
        target,
        selection: Selection::default(),
        preview: false,
        connections: Connections::ONE,
        controller: connection.asked_controller(),
        congestion: None,
        missed: Vec::new(),
    })
}

/// A ticket without an address for the transport is told in other words than a sender that cannot be reached.
fn unreached(error: DialedError, request: &ReceiveRequest) -> ReceiveError {
    if matches!(error, DialedError::Connect(ConnectError::Dial(DialError::NoAddress(_)))) {
        return ReceiveError::NoAddress { transport: request.reach.only };
    }
    error.into()
}
