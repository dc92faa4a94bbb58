//! Offering a source until its uses are spent.

use std::{
    collections::HashMap,
    pin::pin,
    sync::{Arc, Mutex, OnceLock},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use ketch_protocol::{
    message::{Ask, Claim, Connections, Counts, Hashes, TargetView, Totals},
    problem::Reason,
    session::SessionError,
};
use tokio::{sync::mpsc, task::JoinSet, time::sleep};
use tokio_util::sync::CancellationToken;

use super::{
    Layout, OfferError,
    arrivals::{Arrivals, Router},
    blocking,
    event::{Event, Report},
    known_tree::KnownTree,
    line::Line,
    listing::count,
    lock,
    places::Places,
    sending::{self, Admission, Denial, Sending},
};
use crate::{
    index::Indexes,
    swarm::{Connection, Inbound, PeerId, Stream},
    tree::Source,
    trust::{HeldOffer, offer::Refusal, offers::AdmitError},
};

/// Sessions at once, admitted ones and strangers that have not asked yet.
pub(super) const SESSIONS: usize = 64;

/// Sessions of one peer at once: the one it needs and those that are just being replaced.
const SESSIONS_PER_PEER: usize = 4;

/// What to offer, and how.
#[derive(Debug)]
pub struct OfferRequest {
    /// Who may have it, and how often.
    pub offer: HeldOffer,
    /// The tree.
    pub source: Source,
    /// How files are laid on streams.
    pub layout: Layout,
    /// Most connections of one session.
    pub connections: Connections,
    /// What is remembered of trees.
    pub indexes: Arc<Indexes>,
}

/// Answers peers until the uses are spent; the accounts of the sessions that spent them. Cancelling `stop`
/// tells the peers of running sessions.
pub async fn offer(
    inbound: &mut Inbound,
    request: OfferRequest,
    events: &mpsc::Sender<Event>,
    stop: &CancellationToken,
) -> Result<Vec<Counts>, OfferError> {
    let OfferRequest { offer, source, layout, connections, indexes } = request;
    let estimate = Arc::default();
    start_counting(source.clone(), Arc::clone(&estimate), events.clone());
    let offering = Offering {
        single: offer.uses_left() == 1,
        offer: Arc::new(Mutex::new(offer)),
        source,
        indexes,
        layout,
        connections,
        router: Router::default(),
        estimate,
        events: events.clone(),
        admitted: Arc::default(),
        sessions: JoinSet::new(),
        places: Places::new(SESSIONS_PER_PEER),
        begun: 0,
        spent: Vec::new(),
    };
    offering.run(inbound, stop).await
}

struct Offering {
    offer: Arc<Mutex<HeldOffer>>,
    /// Whether it was good for one receiver when it began.
    single: bool,
    source: Source,
    indexes: Arc<Indexes>,
    layout: Layout,
    /// Most connections of one session.
    connections: Connections,
    router: Router,
    /// What the tree was counted to be, once it was.
    estimate: Arc<OnceLock<Totals>>,
    events: mpsc::Sender<Event>,
    admitted: Arc<Mutex<Admitted>>,
    sessions: JoinSet<Ended>,
    places: Places,
    begun: u64,
    spent: Vec<Counts>,
}

/// The running session of each admitted peer, by its number. A peer that comes again replaces the session
/// it had: that one's connection may be dead without this side having noticed.
type Admitted = HashMap<PeerId, (u64, CancellationToken)>;

struct Ended {
    number: u64,
    peer: PeerId,
    outcome: Result<Report, SessionError>,
}

impl Offering {
    async fn run(
        mut self,
        inbound: &mut Inbound,
        stop: &CancellationToken,
    ) -> Result<Vec<Counts>, OfferError> {
        let mut arrivals = Arrivals::new(inbound, self.router.clone());
        let mut expiry = pin!(expire(lock(&self.offer).expires_s()));
        let mut expired = false;
        while !expired || !lock(&self.admitted).is_empty() {
            tokio::select! {
                arrived = arrivals.next(self.sessions.len() < SESSIONS) => {
                    let Some((connection, stream)) = arrived else { return Err(OfferError::Stopped) };
                    self.start(connection, stream, stop);
                }
                Some(ended) = self.sessions.join_next() => {
                    let Ok(ended) = ended else { continue };
                    if let Some(end) = self.conclude(ended).await {
                        return end;
                    }
                }
                () = stop.cancelled() => {
                    while self.sessions.join_next().await.is_some() {}
                    return Err(OfferError::Interrupted);
                }
                () = &mut expiry, if !expired => expired = true,
            }
        }
        Err(OfferError::Expired)
    }

    /// Begins a session. The stream of a peer that has too many is reset.
    fn start(&mut self, connection: Connection, stream: Stream, stop: &CancellationToken) {
        let Some(place) = self.places.take(connection.peer()) else { return };
        self.begun += 1;
        let (number, peer, own_stop) = (self.begun, connection.peer(), stop.child_token());
        let judge = Judge {
            offer: Arc::clone(&self.offer),
            source: self.source.clone(),
            indexes: Arc::clone(&self.indexes),
            estimate: Arc::clone(&self.estimate),
            admitted: Arc::clone(&self.admitted),
            peer,
            number,
            stop: own_stop.clone(),
        };
        let sending =
            Sending::new(connection, self.layout, sending::Judge::Offer(judge), self.events.clone())
                .taking(self.router.clone(), self.connections);
        self.sessions.spawn(async move {
            let outcome = sending.run(Line::new(stream), &own_stop).await;
            drop(place);
            Ended { number, peer, outcome }
        });
    }

    /// Notes the end of a session; the end of the offer, if it is.
    async fn conclude(&mut self, ended: Ended) -> Option<Result<Vec<Counts>, OfferError>> {
        let Ended { number, peer, outcome } = ended;
        if !self.dismiss(peer, number) {
            return None;
        }
        let counts = outcome.as_ref().ok().map(|report| report.counts);
        let fatal = outcome.as_ref().err().filter(|error| self.single && is_fatal(error)).cloned();
        if let Err(SessionError::Refused(stop)) = &outcome
            && stop.reason == Reason::Declined
        {
            // The place is free again for somebody else; a store that fails keeps it, which is safe.
            let _ = lock(&self.offer).release(peer);
        }
        // Nobody listens any more: the offer goes on.
        let _ = self.events.send(Event::SessionEnded { peer, outcome }).await;
        let Some(counts) = counts else { return fatal.map(|error| Err(OfferError::Session(error))) };
        self.spent.push(counts);
        match lock(&self.offer).spend(peer) {
            Ok(0) => Some(Ok(std::mem::take(&mut self.spent))),
            Ok(_) => None,
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Forgets a session; whether it was admitted and not replaced.
    fn dismiss(&self, peer: PeerId, number: u64) -> bool {
        let mut admitted = lock(&self.admitted);
        let current = admitted.get(&peer).is_some_and(|(running, _)| *running == number);
        if current {
            admitted.remove(&peer);
        }
        current
    }
}

/// Decides about one peer's ask.
pub(super) struct Judge {
    offer: Arc<Mutex<HeldOffer>>,
    source: Source,
    indexes: Arc<Indexes>,
    estimate: Arc<OnceLock<Totals>>,
    admitted: Arc<Mutex<Admitted>>,
    peer: PeerId,
    number: u64,
    stop: CancellationToken,
}

impl Judge {
    /// Admits the peer, or says why not, for the local user.
    pub(super) async fn admit(&self, ask: &Ask) -> Result<Admission, Denial> {
        self.reserve(ask).map_err(|error| Denial::Silent(error.to_string()))?;
        let (source, indexes, target) = (self.source.clone(), Arc::clone(&self.indexes), ask.target);
        let tree = blocking(move || KnownTree::by_ticket(source, &indexes, target, Hashes::Known)).await;
        Ok(Admission { tree, estimate: self.estimate.get().copied(), disk: None })
    }

    fn reserve(&self, ask: &Ask) -> Result<(), AdmitError> {
        let (Claim::Ticket(secret), TargetView::Empty | TargetView::Occupied) = (&ask.claim, ask.target)
        else {
            return Err(Refusal::Claim.into());
        };
        lock(&self.offer).admit(self.peer, secret, now_s())?;
        let running = (self.number, self.stop.clone());
        if let Some((_, replaced)) = lock(&self.admitted).insert(self.peer, running) {
            replaced.cancel();
        }
        Ok(())
    }
}

/// What no further try of the same receiver would mend without its user doing something first.
fn is_fatal(error: &SessionError) -> bool {
    match error {
        SessionError::Refused(stop) => matches!(stop.reason, Reason::NoSpace | Reason::ReadOnly),
        SessionError::Stopped(_)
        | SessionError::Violation(_)
        | SessionError::Timeout { .. }
        | SessionError::Lost { .. } => false,
    }
}

/// Resolves when an offer expires; never for one that does not.
async fn expire(expires_s: Option<u64>) {
    match expires_s {
        Some(expires_s) => sleep(Duration::from_secs(expires_s.saturating_sub(now_s()))).await,
        None => std::future::pending().await,
    }
}

/// Counts the tree beside everything else, so that receivers can be told how much it is.
fn start_counting(source: Source, estimate: Arc<OnceLock<Totals>>, events: mpsc::Sender<Event>) {
    tokio::task::spawn_blocking(move || {
        let totals = *estimate.get_or_init(|| count(&source));
        // Nobody listens any more.
        let _ = events.blocking_send(Event::Counted(totals));
    });
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
