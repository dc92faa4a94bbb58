//! Sorts the streams that peers open: a control stream begins a session, any other goes to the session that it
//! names, if the same peer runs it.
//!
//! A session that awaits content or connections calls [`Router::register`] before it tells the peer; its streams
//! wait in order in [`SessionStreams`]. What belongs to nothing is dropped, which resets it.

use std::{
    collections::{HashMap, VecDeque},
    convert::Infallible,
    sync::{Arc, Mutex},
    time::Duration,
};

use ketch_protocol::{
    io::{DataForm, StreamKind},
    limits::{DATA_STREAMS, FILE_STREAMS, HELLO_TIMEOUT_S},
    message::SessionId,
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
    time::timeout,
};

use super::{
    lock,
    places::{Place, Places},
};
use crate::swarm::{Connection, Inbound, PeerId, Stream};

/// Data streams of one session at once.
pub(super) const SESSION_STREAMS: usize = DATA_STREAMS as usize + FILE_STREAMS;

/// Streams of one peer at once that have not said what they are, or that wait for their session to take them:
/// those of one session.
const UNSORTED_PER_PEER: usize = SESSION_STREAMS;

/// Streams of all peers at once that have not said what they are; one more takes the place of another. All are taken, as
/// what is sent on one that nobody takes would fill its connection.
const UNSORTED: usize = 5 * UNSORTED_PER_PEER;

/// Control streams of one peer that wait until there is room for a session: as many as it may have sessions where it may
/// have most.
const WAITING_PER_PEER: usize = 16;

/// Data streams that wait for their session beside the tasks that bring them.
const WAITING_STREAMS: usize = 16;

/// Which session takes the streams of which peer. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Router(Arc<Mutex<Routes>>);

type Routes = HashMap<(PeerId, SessionId), mpsc::Sender<SessionStream>>;

impl Router {
    /// Takes the streams of a session from now on; `None` where one of this name runs already.
    pub(super) fn register(&self, peer: PeerId, session: SessionId) -> Option<SessionStreams> {
        let mut routes = lock(&self.0);
        let route = (peer, session);
        if routes.contains_key(&route) {
            return None;
        }
        let (deliver, streams) = mpsc::channel(WAITING_STREAMS);
        routes.insert(route, deliver);
        Some(SessionStreams { router: self.clone(), route, streams })
    }

    async fn deliver(&self, peer: PeerId, session: SessionId, stream: SessionStream) {
        let route = lock(&self.0).get(&(peer, session)).cloned();
        if let Some(deliver) = route {
            // A session that ended meanwhile has no use for it.
            let _ = deliver.send(stream).await;
        }
    }
}

/// A stream of a session that said what it is.
#[derive(Debug)]
pub(super) enum SessionStream {
    /// It brings content.
    Data(DataStream),
    /// Its connection is to be one more of the session.
    Join(Connection, Stream),
}

/// A stream that brings content.
#[derive(Debug)]
pub(super) struct DataStream {
    pub(super) connection: Connection,
    pub(super) stream: Stream,
    pub(super) form: DataForm,
}

/// The streams of one session. Once this is dropped those that come are reset.
#[derive(Debug)]
pub(super) struct SessionStreams {
    router: Router,
    route: (PeerId, SessionId),
    streams: mpsc::Receiver<SessionStream>,
}

impl SessionStreams {
    /// The next one. Dropped while it waits, it loses none.
    pub(super) async fn next(&mut self) -> SessionStream {
        match self.streams.recv().await {
            Some(stream) => stream,
            // The router keeps the other end until this is dropped.
            None => std::future::pending().await,
        }
    }
}

impl Drop for SessionStreams {
    fn drop(&mut self) {
        lock(&self.router.0).remove(&self.route);
    }
}

/// The streams that peers open, sorted as they come.
pub(super) struct Arrivals<'a> {
    inbound: &'a mut Inbound,
    router: Router,
    places: Places,
    sorting: JoinSet<Option<Sorted>>,
    /// Those that were silent when last looked at, the longest waiting first.
    silent: VecDeque<(PeerId, AbortHandle)>,
    /// Streams that wait for their session to take them.
    delivering: JoinSet<()>,
    /// Control streams for which there was no room.
    waiting: VecDeque<(Place, Connection, Stream)>,
    waiting_places: Places,
}

/// A stream that said what it is.
enum Sorted {
    Control(Connection, Stream),
    OfSession(Place, SessionId, PeerId, SessionStream),
}

impl<'a> Arrivals<'a> {
    pub(super) fn new(inbound: &'a mut Inbound, router: Router) -> Self {
        Self {
            inbound,
            router,
            places: Places::new(UNSORTED_PER_PEER),
            sorting: JoinSet::new(),
            silent: VecDeque::new(),
            delivering: JoinSet::new(),
            waiting: VecDeque::new(),
            waiting_places: Places::new(WAITING_PER_PEER),
        }
    }

    /// The next control stream, if there is room for its session; `None` once the node has stopped. Data streams move
    /// while this is waited for, also without room: those of running sessions are among them. Dropped while it waits, it
    /// loses none.
    pub(super) async fn next(&mut self, has_room: bool) -> Option<(Connection, Stream)> {
        if has_room && let Some((_place, connection, stream)) = self.waiting.pop_front() {
            return Some((connection, stream));
        }
        loop {
            tokio::select! {
                // Half of these have said what they are or were reset, and wait for the next branch at the most.
                arrived = self.inbound.next(), if self.sorting.len() < 2 * UNSORTED => {
                    let (connection, stream) = arrived?;
                    self.sort(connection, stream);
                }
                Some(sorted) = self.sorting.join_next() => {
                    match sorted {
                        Ok(Some(Sorted::Control(connection, stream))) if has_room => {
                            return Some((connection, stream));
                        }
                        Ok(Some(Sorted::Control(connection, stream))) => self.keep(connection, stream),
                        Ok(Some(Sorted::OfSession(place, session, peer, stream))) => {
                            self.deliver(place, session, peer, stream);
                        }
                        // It said nothing of use, or nothing in time.
                        Ok(None) | Err(_) => {}
                    }
                }
                Some(_) = self.delivering.join_next() => {}
            }
        }
    }

    /// Moves data streams for ever and resets every control stream: nobody asks anything of this side.
    pub(super) async fn move_data(&mut self) -> Infallible {
        while self.next(true).await.is_some() {}
        // The session notices by itself that the node has stopped.
        std::future::pending().await
    }

    /// Keeps a control stream until there is room. That of a peer that has too many is reset.
    fn keep(&mut self, connection: Connection, stream: Stream) {
        if let Some(place) = self.waiting_places.take(connection.peer()) {
            self.waiting.push_back((place, connection, stream));
        }
    }

    fn deliver(&mut self, place: Place, session: SessionId, peer: PeerId, stream: SessionStream) {
        let router = self.router.clone();
        self.delivering.spawn(async move {
            router.deliver(peer, session, stream).await;
            drop(place);
        });
    }

    /// Finds out what a stream is. That of a peer that has too many is reset.
    fn sort(&mut self, connection: Connection, stream: Stream) {
        let peer = connection.peer();
        let Some(place) = self.places.take(peer) else { return };
        self.make_room();
        self.silent.push_back((peer, self.sorting.spawn(sort(place, connection, stream))));
    }

    /// Where too many are silent, resets the one that has been for longest of the peer that has most.
    fn make_room(&mut self) {
        if self.silent.len() >= UNSORTED {
            self.silent.retain(|(_, sorting)| !sorting.is_finished());
        }
        if self.silent.len() < UNSORTED {
            return;
        }
        let mut counts = HashMap::<PeerId, usize>::new();
        self.silent.iter().for_each(|(peer, _)| *counts.entry(*peer).or_default() += 1);
        let most = counts.values().copied().max();
        let leaves = self.silent.iter().position(|(peer, _)| counts.get(peer).copied() == most);
        if let Some((_, sorting)) = leaves.and_then(|index| self.silent.remove(index)) {
            sorting.abort();
        }
    }
}

/// What a stream says that it is; `None` where that is nothing of use, or does not come in time.
async fn sort(place: Place, connection: Connection, mut stream: Stream) -> Option<Sorted> {
    let limit = Duration::from_secs(HELLO_TIMEOUT_S);
    let kind = timeout(limit, StreamKind::read(&mut stream)).await.ok()?.ok()?;
    let peer = connection.peer();
    Some(match kind {
        StreamKind::Control => Sorted::Control(connection, stream),
        StreamKind::Data(session, form) => {
            let stream = DataStream { connection, stream, form };
            Sorted::OfSession(place, session, peer, SessionStream::Data(stream))
        }
        StreamKind::Join(session) => {
            Sorted::OfSession(place, session, peer, SessionStream::Join(connection, stream))
        }
    })
}
