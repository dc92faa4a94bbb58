//! Serving shares: answers every peer that asks for one or proposes to write into one, many at once.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ketch_protocol::{
    limits::{HELLO_TIMEOUT_S, VERSION},
    message::{Ask, Claim, Connections, Message, Place, Propose},
    problem::Reason,
    session::{
        Ending, SessionError, Stop,
        receiver::{Action, Input, Receiver},
    },
};
use tokio::{sync::mpsc, task::JoinSet, time::timeout};
use tokio_util::sync::CancellationToken;

use super::{
    Layout, ServeError,
    arrivals::{Arrivals, Router, SessionStreams},
    blocking,
    event::{Direction, Event, Report, ServeEvent},
    line::{Leave, Line},
    offer::SESSIONS,
    places::Places,
    receiving::Receiving,
    sending::{self, Admission, Denial, Sending},
    sides::{OpenTarget, Opening, open_shared_source, open_shared_target},
    targets::{Busy, HeldTarget, Targets},
};
use crate::{
    index::Indexes,
    swarm::{Connection, Inbound, PeerId, Stream},
    trust::{Shares, shares::Access},
};

/// Sessions of one peer at once: more than one person keeps in mind, and a quarter of all.
const SESSIONS_PER_PEER: usize = SESSIONS / 4;

/// Events of one session that wait to be passed on.
const EVENTS: usize = 64;

/// Answers peers, each session on at most `connections`, until `stop` is cancelled, which tells the peers of running sessions and waits for their ends.
pub async fn serve(
    inbound: &mut Inbound,
    shares: Shares,
    indexes: Arc<Indexes>,
    connections: Connections,
    events: &mpsc::Sender<ServeEvent>,
    stop: &CancellationToken,
) -> Result<(), ServeError> {
    let mut serving = Serving {
        shares: Arc::new(shares),
        indexes,
        connections,
        router: Router::default(),
        targets: Targets::default(),
        events: events.clone(),
        sessions: JoinSet::new(),
        places: Places::new(SESSIONS_PER_PEER),
        begun: 0,
    };
    let mut arrivals = Arrivals::new(inbound, serving.router.clone());
    loop {
        tokio::select! {
            arrived = arrivals.next(serving.sessions.len() < SESSIONS) => {
                let Some((connection, stream)) = arrived else { return Err(ServeError::Stopped) };
                serving.start(connection, stream, stop);
            }
            Some(_) = serving.sessions.join_next() => {}
            () = stop.cancelled() => {
                while serving.sessions.join_next().await.is_some() {}
                return Ok(());
            }
        }
    }
}

struct Serving {
    shares: Arc<Shares>,
    indexes: Arc<Indexes>,
    /// Most connections of one session.
    connections: Connections,
    router: Router,
    targets: Targets,
    events: mpsc::Sender<ServeEvent>,
    sessions: JoinSet<()>,
    places: Places,
    begun: u64,
}

impl Serving {
    /// Begins a session. The stream of a peer that has too many is reset.
    fn start(&mut self, connection: Connection, stream: Stream, stop: &CancellationToken) {
        let Some(place) = self.places.take(connection.peer()) else { return };
        self.begun += 1;
        let (number, peer) = (self.begun, connection.peer());
        let (events, mut told) = mpsc::channel(EVENTS);
        let session = Session {
            shares: Arc::clone(&self.shares),
            indexes: Arc::clone(&self.indexes),
            connections: self.connections,
            router: self.router.clone(),
            targets: self.targets.clone(),
            connection,
            log: Log { events, began: Arc::default() },
            stop: stop.child_token(),
        };
        let all = self.events.clone();
        let pass_on = async move {
            while let Some(event) = told.recv().await {
                // Nobody listens any more: the session goes on.
                let _ = all.send(ServeEvent { session: number, peer, event }).await;
            }
        };
        self.sessions.spawn(async move {
            tokio::join!(session.run(stream), pass_on);
            drop(place);
        });
    }
}

/// One session with a peer that came.
struct Session {
    shares: Arc<Shares>,
    indexes: Arc<Indexes>,
    connections: Connections,
    router: Router,
    targets: Targets,
    connection: Connection,
    log: Log,
    stop: CancellationToken,
}

impl Session {
    async fn run(self, stream: Stream) {
        let mut line = Line::new(stream);
        let first = tokio::select! {
            first = timeout(Duration::from_secs(HELLO_TIMEOUT_S), line.next()) => first,
            () = self.stop.cancelled() => return,
        };
        // One that says nothing, or no message, is a stranger; its stream is reset.
        let Ok(Ok(first)) = first else { return };
        if let Message::Propose(mut propose) = first {
            propose.connections = propose.connections.min(self.connections);
            return self.take(line, propose).await;
        }
        // Anything but an ask ends that session.
        self.give(line, first).await;
    }

    /// The peer is the receiver.
    async fn give(self, line: Line<Stream>, first: Message) {
        let peer = self.connection.peer();
        let judge = Judge { shares: self.shares, indexes: self.indexes, peer, log: self.log.clone() };
        let events = self.log.events.clone();
        let judge = sending::Judge::Shares(judge);
        let mut sending = Sending::new(self.connection, Layout::default(), judge, events)
            .taking(self.router, self.connections);
        sending.hear(first);
        let outcome = sending.run(line, &self.stop).await;
        self.log.ended(peer, outcome).await;
    }

    /// The peer is the sender.
    async fn take(self, line: Line<Stream>, propose: Propose) {
        let peer = self.connection.peer();
        let outcome = match self.open(&propose).await {
            Ok(opened) => self.store(line, propose, opened).await,
            Err(denial) => Err(self.refuse(line, propose, denial).await),
        };
        self.log.ended(peer, outcome).await;
    }

    /// Opens the target of a proposal, if the peer may write there and nobody else does.
    async fn open(&self, propose: &Propose) -> Result<Opened, Denial> {
        let Propose { version, session, place, policy, selection, connections: _, controller: _ } = propose;
        let peer = self.connection.peer();
        if *version != VERSION {
            // The session says it better.
            return Err(Denial::Told(Stop::new(Reason::Version, "")));
        }
        let judged = self.shares.judge(peer, place, Access::of_push(policy));
        let admitted = judged.map_err(|refusal| Denial::Silent(refusal.to_string()))?;
        let data = self.router.register(peer, *session).ok_or_else(|| {
            Denial::Told(Stop::new(Reason::Violation, "it names a session that runs already"))
        })?;
        let heard = self.connection.heard();
        let path = admitted.full_path();
        let held = self.targets.take(&path, peer, heard, self.stop.clone()).await;
        let held = held.map_err(|Busy| Denial::Told(Stop::new(Reason::Busy, place)))?;
        let (selection, policy) = (selection.clone(), policy.clone());
        let (trash, exclude) = (admitted.share.trash.clone(), admitted.share.exclude.clone());
        let indexes = Arc::clone(&self.indexes);
        let (place, session) = (place.clone(), *session);
        let direction = Direction::Push;
        let opening = Opening { peer, place, session, selection, policy, trash, direction, exclude, indexes };
        let target = blocking(move || open_shared_target(&admitted, &opening)).await;
        let target = target.map_err(Denial::Told)?;
        Ok(Opened { target, data, _held: held })
    }

    async fn store(
        &self,
        line: Line<Stream>,
        propose: Propose,
        opened: Opened,
    ) -> Result<Report, SessionError> {
        self.log.began(propose.place.clone(), Direction::Push, propose.policy.preview).await;
        let Opened { target: OpenTarget { doing, view, free_bytes, own }, data, _held } = opened;
        let (connection, events) = (self.connection.clone(), self.log.events.clone());
        let policy = propose.policy.clone();
        let receiving = Receiving::answer(connection, propose, view, doing, free_bytes, events);
        let stored = receiving.comparing(own, &policy).run(line, data, &self.stop).await;
        stored.map_err(|cut| cut.error)
    }

    /// Says that a proposal is not accepted, and no more than the peer may know.
    async fn refuse(&self, mut line: Line<Stream>, propose: Propose, denial: Denial) -> SessionError {
        let (mut receiver, mut actions) = Receiver::answer(propose);
        let (why, input) = match denial {
            Denial::Silent(why) => (why, Input::Denied),
            Denial::Told(stop) => (stop.to_string(), Input::Stop(stop)),
        };
        actions.extend(receiver.handle(input, Duration::ZERO));
        self.log.turned_away(self.connection.peer(), why).await;
        let mut ended = None;
        for action in actions {
            match action {
                Action::Send(message) => line.say(&message),
                Action::End(Ending::Failed(error)) => ended = Some(error),
                Action::End(Ending::Complete(_))
                | Action::Admit(_)
                | Action::Catalogue
                | Action::Offered(_)
                | Action::Compared
                | Action::Consult { .. }
                | Action::Plan { .. }
                | Action::Finish
                | Action::Report(_) => {}
            }
        }
        line.leave(Leave::WhenHeard).await;
        ended.expect("a session that is denied ends")
    }
}

/// A target that a session may write into.
struct Opened {
    target: OpenTarget,
    data: SessionStreams,
    _held: HeldTarget,
}

/// Decides about one peer that wants to read.
pub(super) struct Judge {
    shares: Arc<Shares>,
    indexes: Arc<Indexes>,
    peer: PeerId,
    log: Log,
}

impl Judge {
    /// Opens the tree that the peer asks for, if it may have it.
    pub(super) async fn admit(&self, ask: &Ask) -> Result<Admission, Denial> {
        let Claim::Share(place) = &ask.claim else {
            return Err(Denial::Silent("it asks for something else than a share".into()));
        };
        let judged = self.shares.judge(self.peer, place, Access::Read);
        let admitted = judged.map_err(|refusal| Denial::Silent(refusal.to_string()))?;
        let (selection, indexes) = (ask.selection.clone(), Arc::clone(&self.indexes));
        let tree = blocking(move || open_shared_source(&admitted, &selection, &indexes)).await;
        let tree = tree.map_err(Denial::Told)?.expecting(&ask.missed);
        self.log.began(place.clone(), Direction::Pull, ask.preview).await;
        Ok(Admission { disk: tree.lies_on(), tree, estimate: None })
    }
}

/// Tells what happens in one session.
#[derive(Debug, Clone)]
struct Log {
    events: mpsc::Sender<Event>,
    /// Whether the peer was admitted: of a stranger only that it was turned away is told.
    began: Arc<AtomicBool>,
}

impl Log {
    async fn began(&self, place: Place, direction: Direction, preview: bool) {
        self.began.store(true, Ordering::Relaxed);
        self.tell(Event::Began { place, direction, preview }).await;
    }

    async fn turned_away(&self, peer: PeerId, why: String) {
        self.tell(Event::TurnedAway { peer, why }).await;
    }

    async fn ended(&self, peer: PeerId, outcome: Result<Report, SessionError>) {
        if self.began.load(Ordering::Relaxed) {
            self.tell(Event::SessionEnded { peer, outcome }).await;
        }
    }

    async fn tell(&self, event: Event) {
        // Nobody listens any more: the session goes on.
        let _ = self.events.send(event).await;
    }
}
