//! Making two trees the same with a peer that serves one of them, from this side, which dials.

use std::{num::NonZeroU64, path::PathBuf, sync::Arc, time::Duration};

use ketch_protocol::{
    limits::VERSION,
    message::{Ask, Claim, Connections, Consent, Place, Policy, Propose, Selection, SessionId, TargetView},
    path::EntryPath,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    DialedError, SyncError,
    arrivals::{Arrivals, Router},
    blocking,
    connect::{close, connect},
    dialer::Dialer,
    event::{Direction, Event, Report},
    known_tree::KnownTree,
    line::Line,
    links::{LinkRole, Links},
    pace::Pace,
    random_session,
    receiving::{CutShort, Receiving},
    retry::Retry,
    sending::Sending,
    sides::{OpenTarget, Opening, open_local_source, open_local_target},
    wish::ConnectionWish,
};
use crate::{
    index::Indexes,
    swarm::{Connection, DialRequest, Inbound, Node, PeerId, Stream},
    tree::Unfinished,
};

/// What to make the same as what.
#[derive(Debug, Clone)]
pub struct SyncRequest {
    /// Who serves the other tree.
    pub peer: PeerId,
    /// Where that peer is, and how it is reached.
    pub reach: DialRequest,
    /// Whether content may cross a relay that limits what it carries, where no direct connection comes about.
    pub over_relay: bool,
    /// The other tree.
    pub place: Place,
    /// Which of the two is the source.
    pub direction: Direction,
    /// The tree on this side. A target is made if it is missing.
    pub local: PathBuf,
    /// Where what is removed or replaced in a target on this side goes.
    pub trash: Option<PathBuf>,
    /// What is listed, and how it crosses.
    pub selection: Selection,
    /// What becomes of the target.
    pub policy: Policy,
    /// Whether every change of the target is told ([`Event::Changed`]), or removals alone.
    pub itemize: bool,
    /// How many connections carry content.
    pub connections: ConnectionWish,
    /// Most bytes of content a second, if there is a limit.
    pub bytes_per_s: Option<NonZeroU64>,
    /// How long to try again after a connection was lost.
    pub retry_for: Duration,
    /// What is remembered of trees.
    pub indexes: Arc<Indexes>,
}

/// Makes the target the same as the source, in as many sessions as that takes: another one after each that was
/// cut, for a time, and once when entries changed or vanished while they were read. Cancelling `stop` tells the
/// other side; what is stored by then stays.
pub async fn sync(
    node: &Node,
    inbound: &mut Inbound,
    request: SyncRequest,
    events: &mpsc::Sender<Event>,
    stop: &CancellationToken,
) -> Result<Report, SyncError> {
    let mut retry = Retry::new(request.retry_for);
    let mut is_first = true;
    let pace = Pace::new(request.bytes_per_s);
    let dialer = Dialer::new(node.clone(), request.peer, request.reach.clone(), request.over_relay);
    let (patience, missed) = (None, Vec::new());
    let mut syncing = Syncing { pace, dialer, patience, inbound, request, events, stop, missed };
    loop {
        let error = match syncing.attempt().await {
            Ok(report) if report.unsettled.entries > 0 && is_first && !stop.is_cancelled() => {
                is_first = false;
                syncing.missed = report.unsettled.names.clone();
                let _ = events.send(Event::Again(report)).await;
                continue;
            }
            Ok(report) => return Ok(report),
            Err(error) => error,
        };
        syncing.patience = retry.pause(error.dialed(), events, stop).await?;
        if syncing.patience.is_none() {
            return Err(error);
        }
    }
}

struct Syncing<'a> {
    pace: Pace,
    dialer: Dialer,
    /// How long the peer may be dialed, after a loss.
    patience: Option<Duration>,
    inbound: &'a mut Inbound,
    request: SyncRequest,
    events: &'a mpsc::Sender<Event>,
    stop: &'a CancellationToken,
    /// What changed or vanished in the session before.
    missed: Vec<EntryPath>,
}

impl Syncing<'_> {
    /// One session.
    async fn attempt(&mut self) -> Result<Report, SyncError> {
        match self.request.direction {
            Direction::Pull => self.pull().await,
            Direction::Push => self.push().await,
        }
    }

    async fn pull(&mut self) -> Result<Report, SyncError> {
        let session = random_session().map_err(DialedError::Random)?;
        let opened = self.open_target(session).await?;
        let (connection, stream) = self.connect().await?;
        let links = self.links(&connection);
        let connections = links.most(Connections::MOST);
        let ask = Ask { connections, ..self.ask(session, opened.view, &connection) };
        let router = Router::default();
        let data = router.register(connection.peer(), ask.session).expect("it is the only session");
        let mut arrivals = Arrivals::new(self.inbound, router);
        let OpenTarget { doing, free_bytes, own, .. } = opened;
        let receiving = Receiving::ask(connection.clone(), ask, doing, free_bytes, self.events.clone());
        let receiving = receiving
            .comparing(own, &self.request.policy)
            .itemizing(self.request.itemize)
            .linked(links)
            .paced(self.pace.clone());
        let result = tokio::select! {
            result = receiving.run(Line::new(stream), data, self.stop) => result,
            never = arrivals.move_data() => match never {},
        };
        close(&connection, result.as_ref().err().map(|cut| &cut.error)).await;
        result.map_err(|CutShort { error, unfinished }| DialedError::Session { error, unfinished }.into())
    }

    async fn push(&mut self) -> Result<Report, SyncError> {
        let source = self.open_source().await?;
        let (connection, stream) = self.connect().await?;
        let links = self.links(&connection);
        let propose = Propose {
            version: VERSION,
            session: random_session().map_err(DialedError::Random)?,
            place: self.request.place.clone(),
            selection: self.request.selection.clone(),
            policy: self.request.policy.clone(),
            connections: links.most(Connections::MOST),
            controller: connection.asked_controller(),
        };
        let sending = Sending::propose(links, connection.clone(), propose, source, self.events.clone());
        let sending = sending.itemizing(self.request.itemize).paced(self.pace.clone());
        let result = sending.run(Line::new(stream), self.stop).await;
        close(&connection, result.as_ref().err()).await;
        result.map_err(|error| DialedError::Session { error, unfinished: Unfinished::default() }.into())
    }

    fn ask(&self, session: SessionId, target: TargetView, connection: &Connection) -> Ask {
        Ask {
            version: VERSION,
            session,
            claim: Claim::Share(self.request.place.clone()),
            consent: Consent::Given,
            target,
            selection: self.request.selection.clone(),
            preview: self.request.policy.preview,
            connections: Connections::ONE,
            controller: connection.asked_controller(),
            congestion: None,
            missed: self.missed.clone(),
        }
    }

    /// More connections for what crosses; nothing does in a preview.
    fn links(&self, connection: &Connection) -> Links {
        let wish = match self.request.policy.preview {
            true => ConnectionWish::Exactly(Connections::ONE),
            false => self.request.connections,
        };
        Links::new(connection.clone(), LinkRole::Makes(Box::new(self.dialer.clone()), wish))
    }

    async fn open_target(&self, session: SessionId) -> Result<OpenTarget, SyncError> {
        let SyncRequest { peer, place, local, trash, policy, selection, indexes, .. } = self.request.clone();
        let exclude = Vec::new();
        let direction = Direction::Pull;
        let opening = Opening { peer, place, session, selection, policy, trash, direction, exclude, indexes };
        blocking(move || open_local_target(&local, &opening)).await
    }

    async fn open_source(&self) -> Result<KnownTree, SyncError> {
        let SyncRequest { local, selection, policy, indexes, .. } = self.request.clone();
        let source = blocking(move || open_local_source(local, &selection, &policy, &indexes)).await?;
        Ok(source.expecting(&self.missed))
    }

    async fn connect(&self) -> Result<(Connection, Stream), DialedError> {
        connect(&self.dialer, self.patience, self.events, self.stop).await
    }
}
