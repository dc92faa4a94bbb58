//! [`Links`]: the connections of one session beside the first, which carries its control stream.
//!
//! The side that dialed makes them, since the other may not be able to dial it, and opens a stream on each that
//! names the session ([`Links::grow`]); the other side takes them as long as there are fewer than agreed
//! ([`Links::take`]). That stream stays open as long as the connection belongs to the session, and a connection belongs
//! to it once at the most: its data streams live until it ends. One that is lost takes nothing with it but what it was
//! carrying, and the side that made it makes another. The first is watched by the side that dialed it: where it is
//! silent and the peer can be reached all the same, the session is over and another one follows.

use std::{io, time::Duration};

use futures::{AsyncReadExt as _, AsyncWriteExt as _, future::join_all};
use ketch_protocol::{
    io::{JOINED, LEFT, StreamKind},
    limits::HELLO_TIMEOUT_S,
    message::{Connections, SessionId},
};
use tokio::{
    task::JoinSet,
    time::{sleep, timeout},
};
use tokio_util::sync::CancellationToken;

use super::{channel::set_controller, dialer::Dialer, event::ConnectionCounts, wish::ConnectionWish};
use crate::swarm::{Connection, Controller, Stream};

/// How long making one connection may take beside what dialing has for itself.
const JOIN_LIMIT: Duration = Duration::from_secs(HELLO_TIMEOUT_S);

/// The pause before a lost connection is made again; each one after a try that failed is twice as long.
const FIRST_PAUSE: Duration = Duration::from_secs(1);

/// Tries to make one again, over a minute in all: the other side may notice only after half of that that the lost one
/// is gone, and has no place for another until then.
const TRIES: u32 = 6;

/// Lost connections of one session that are made again. A path on which more are lost carries better without.
const REPLACED: usize = 64;

/// What this side does to have more connections.
#[derive(Clone)]
pub(super) enum LinkRole {
    /// It dialed, and makes them.
    Makes(Box<Dialer>, ConnectionWish),
    /// It was dialed, and takes so many in all.
    Takes(Connections),
}

/// The connections of a session.
pub(super) struct Links {
    first: Connection,
    role: LinkRole,
    /// What session, and how many connections both sides want for it.
    agreed: Option<(SessionId, Connections)>,
    /// The congestion controller that the other side wishes for.
    controller: Option<Controller>,
    /// Those beside the first that belong to the session.
    joined: Vec<Connection>,
    work: JoinSet<Happened>,
    leave: CancellationToken,
    /// Whether more were begun to be made.
    grown: bool,
    counts: ConnectionCounts,
}

/// A change that a session acts on.
#[derive(Debug)]
pub(super) enum LinkChange {
    /// One more belongs to the session.
    Made(Connection),
    /// One less does.
    Gone,
    /// The first is dead, and so is the session; how that was found.
    Dead(String),
}

enum Happened {
    /// So many are to be made.
    Decided(Connections),
    Joined(Connection, Stream),
    /// One could not be made.
    NotMade(String),
    Lost(Connection),
    /// The other side has ended the session.
    Left(Connection),
    /// The first one is dead.
    Dead(String),
    /// The session has ended.
    Over,
}

impl Links {
    pub(super) fn new(first: Connection, role: LinkRole) -> Self {
        let counts = ConnectionCounts { asked: 1, made: 1, lost: 0 };
        let (joined, work, leave) = (Vec::new(), JoinSet::new(), CancellationToken::new());
        Self { first, role, agreed: None, controller: None, joined, work, leave, grown: false, counts }
    }

    /// Notes the congestion controller that the other side wishes for: those that join get it, as the first did.
    pub(super) fn agree_on_controller(&mut self, wish: Option<Controller>) {
        self.controller = wish;
    }

    /// How many connections this side asks for, or grants to one that asks for `asked`.
    pub(super) fn most(&self, asked: Connections) -> Connections {
        match &self.role {
            LinkRole::Makes(_, wish) => wish.at_most(&self.first),
            LinkRole::Takes(most) => asked.min(*most),
        }
    }

    /// Notes what was asked for a session and what the other side answered: the smaller number counts.
    pub(super) fn agree(&mut self, session: SessionId, asked: Connections, granted: Connections) {
        self.counts.asked = match &self.role {
            LinkRole::Makes(_, ConnectionWish::Exactly(count)) => count.count(),
            // It is decided when there is content to carry.
            LinkRole::Makes(_, ConnectionWish::Auto) => 1,
            LinkRole::Takes(_) => asked.count(),
        };
        self.agreed = Some((session, asked.min(granted)));
        self.watch_first();
    }

    /// Watches over the first connection, on the side that can make another.
    fn watch_first(&mut self) {
        let LinkRole::Makes(dialer, _) = &self.role else { return };
        let (dialer, first, leave) = (dialer.clone(), self.first.clone(), self.leave.clone());
        self.work.spawn(async move {
            tokio::select! {
                how = dialer.outlive(&first) => Happened::Dead(how),
                () = leave.cancelled() => Happened::Over,
            }
        });
    }

    /// How many connections the session may have.
    pub(super) fn agreed(&self) -> Connections {
        self.agreed.map_or(Connections::ONE, |(_, agreed)| agreed)
    }

    /// Begins to make the connections that were agreed, on the side that does, once they are worth it for so much
    /// content; once.
    pub(super) fn grow(&mut self, content_bytes: u64) {
        let LinkRole::Makes(_, wish) = self.role else { return };
        if self.grown || self.agreed() == Connections::ONE || !wish.deserves_more(content_bytes) {
            return;
        }
        self.grown = true;
        let first = self.first.clone();
        self.work.spawn(async move { Happened::Decided(wish.decide(&first).await) });
    }

    /// Takes a connection that is to join, if it may: it is another one, and there are fewer than agreed. The stream
    /// of one that may not is reset.
    pub(super) fn take(&mut self, connection: Connection, stream: Stream) {
        let is_known = self.connections().any(|known| known.is_same(&connection));
        let is_full = 1 + self.joined.len() >= self.agreed().count();
        if matches!(self.role, LinkRole::Makes(..)) || is_known || is_full {
            return;
        }
        // Where it can't be, the other side was told so of the first.
        let _ = self.controller.map(|wish| set_controller(&connection, wish));
        self.joined.push(connection.clone());
        self.work.spawn(answer(connection, stream));
    }

    /// The next change. Dropped while it waits, it misses none.
    pub(super) async fn next(&mut self) -> LinkChange {
        loop {
            match self.work.join_next().await {
                Some(Ok(happened)) => {
                    if let Some(change) = self.note(happened) {
                        return change;
                    }
                }
                // It panicked, which costs a connection at the most.
                Some(Err(_)) => {}
                None => return std::future::pending().await,
            }
        }
    }

    fn note(&mut self, happened: Happened) -> Option<LinkChange> {
        match happened {
            Happened::Decided(count) => {
                self.make(count);
                None
            }
            Happened::Joined(connection, stream) => {
                if !self.joined.iter().any(|known| known.is_same(&connection)) {
                    self.joined.push(connection.clone());
                }
                self.counts.made += 1;
                self.work.spawn(watch(connection.clone(), stream, self.leave.clone()));
                Some(LinkChange::Made(connection))
            }
            Happened::NotMade(why) => {
                tracing::info!(why, "one more connection could not be made");
                None
            }
            Happened::Lost(connection) => {
                self.counts.lost += 1;
                if self.counts.lost <= REPLACED {
                    self.spawn_join(TRIES);
                }
                self.forget(&connection)
            }
            Happened::Left(connection) => self.forget(&connection),
            Happened::Dead(how) => Some(LinkChange::Dead(how)),
            Happened::Over => None,
        }
    }

    fn forget(&mut self, connection: &Connection) -> Option<LinkChange> {
        self.joined.retain(|known| !known.is_same(connection));
        Some(LinkChange::Gone)
    }

    fn make(&mut self, wanted: Connections) {
        self.counts.asked = wanted.count();
        for _ in 1..wanted.min(self.agreed()).count() {
            self.spawn_join(0);
        }
    }

    /// Makes one more, on the side that does: at once, or in place of one that was lost in so many tries.
    fn spawn_join(&mut self, tries: u32) {
        let (LinkRole::Makes(dialer, _), Some((session, _))) = (&self.role, self.agreed) else { return };
        let (dialer, first, leave) = (dialer.clone(), self.first.clone(), self.leave.clone());
        self.work.spawn(async move {
            let joined = async {
                match tries {
                    0 => join(&dialer, &first, session).await,
                    tries => join_again(&dialer, &first, session, tries).await,
                }
            };
            tokio::select! {
                joined = joined => joined.unwrap_or_else(Happened::NotMade),
                () = leave.cancelled() => Happened::Over,
            }
        });
    }

    fn connections(&self) -> impl Iterator<Item = &Connection> {
        [&self.first].into_iter().chain(&self.joined)
    }

    /// How many there were.
    pub(super) fn counts(&self) -> ConnectionCounts {
        self.counts
    }

    /// Lets go of all but the first, within a time; the side that made them closes them.
    pub(super) async fn leave(&mut self, limit: Duration) {
        self.leave.cancel();
        let (makes, joined) = (matches!(self.role, LinkRole::Makes(..)), std::mem::take(&mut self.joined));
        let farewell = async {
            while self.work.join_next().await.is_some() {}
            if makes {
                join_all(joined.iter().map(Connection::close)).await;
            }
        };
        // The session has ended either way.
        let _ = timeout(limit, farewell).await;
    }
}

/// Makes one more connection, over the address of the first.
async fn join(dialer: &Dialer, first: &Connection, session: SessionId) -> Result<Happened, String> {
    let connection = dialer.join(first).await.map_err(|error| error.to_string())?;
    let asked = timeout(JOIN_LIMIT, ask_to_join(&connection, session)).await;
    match asked.unwrap_or_else(|_| Err(format!("no answer within {HELLO_TIMEOUT_S} s"))) {
        Ok(stream) => Ok(Happened::Joined(connection, stream)),
        Err(why) => {
            connection.close().await;
            Err(why)
        }
    }
}

/// Makes one in place of one that was lost.
async fn join_again(
    dialer: &Dialer,
    first: &Connection,
    session: SessionId,
    tries: u32,
) -> Result<Happened, String> {
    let mut why = String::new();
    for number in 0..tries {
        sleep(FIRST_PAUSE * 2_u32.pow(number)).await;
        match join(dialer, first, session).await {
            Ok(joined) => return Ok(joined),
            Err(error) => why = error,
        }
    }
    Err(why)
}

async fn ask_to_join(connection: &Connection, session: SessionId) -> Result<Stream, String> {
    let mut stream = connection.open_stream().await.map_err(|error| error.to_string())?;
    let mut answer = [JOINED ^ 1];
    let asked = async {
        StreamKind::Join(session).write(&mut stream).await?;
        stream.flush().await?;
        stream.read_exact(&mut answer).await
    };
    asked.await.map_err(|error| format!("the peer did not take it: {error}"))?;
    if answer == [JOINED] { Ok(stream) } else { Err("the peer answered something else".into()) }
}

/// Says that a connection was taken.
async fn answer(connection: Connection, mut stream: Stream) -> Happened {
    let said = async {
        stream.write_all(&[JOINED]).await?;
        stream.flush().await
    };
    match timeout(JOIN_LIMIT, said).await {
        Ok(Ok(())) => Happened::Joined(connection, stream),
        Ok(Err(_)) | Err(_) => Happened::Left(connection),
    }
}

/// Waits until a connection does not belong to the session any more, which it does until it ends, also when the other
/// side has let go of it. One of which the other side does not say so is lost.
async fn watch(connection: Connection, mut stream: Stream, leave: CancellationToken) -> Happened {
    let mut word = [0];
    tokio::select! {
        biased;
        read = stream.read_exact(&mut word) => match read {
            Ok(()) if word == [LEFT] => {
                drop(stream);
                tokio::select! {
                    _reason = connection.closed() => {}
                    () = leave.cancelled() => {}
                }
                Happened::Left(connection)
            }
            Ok(()) | Err(_) => lost(connection).await,
        },
        // Also when it has ended.
        () = connection.silent() => lost(connection).await,
        () = leave.cancelled() => {
            // The other side may be gone already.
            let _ = say_left(&mut stream).await;
            Happened::Left(connection)
        }
    }
}

/// Closes a connection that does not do what it is for; it may have ended already.
async fn lost(connection: Connection) -> Happened {
    connection.close().await;
    Happened::Lost(connection)
}

async fn say_left(stream: &mut Stream) -> io::Result<()> {
    stream.write_all(&[LEFT]).await?;
    stream.close().await
}
