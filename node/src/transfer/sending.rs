//! A running sender session: one loop that feeds the machine and carries out what it decides.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch_protocol::{
    io::{NoMessage, StreamKind, pump_out},
    limits::{BATCH_ENTRIES, FILE_STREAMS},
    message::{Ask, Message, SessionId, Totals},
    problem::Reason,
    session::{
        Ending, SessionError, Stop, TICK,
        sender::{Action, Input, Sender},
    },
};
use tokio::{
    sync::mpsc,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval},
};
use tokio_util::sync::CancellationToken;

use super::{
    Layout, PROGRESS_INTERVAL,
    event::{Event, Progress, Report},
    line::{Line, leave},
    listing::{Listed, list},
    offer::Judge,
    queue::{Piece, Queue},
    reading::Reading,
};
use crate::{
    swarm::{Connection, Stream, TransportKind},
    tree::Source,
};

/// How long after a data stream broke the control stream may still bring the reason.
const GRACE: Duration = Duration::from_secs(1);

/// What a session sends, and what it needs to know.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) source: Source,
    pub(super) layout: Layout,
    /// What the tree was counted to be, once it was.
    pub(super) estimate: Arc<std::sync::OnceLock<Totals>>,
    pub(super) events: mpsc::Sender<Event>,
}

/// A session about to run.
pub(super) struct Sending {
    connection: Connection,
    outgoing: Outgoing,
    judge: Judge,
    sender: Sender,
    /// Actions not yet carried out.
    actions: Vec<Action>,
    queue: Arc<Queue>,
    streams: JoinSet<Result<(), Broken>>,
    listing: Option<mpsc::Receiver<Listed>>,
    list_complete: bool,
    listed: Totals,
    moved: Arc<Moved>,
    began: Instant,
    /// From when the report counts: the beginning, or the receiver's consent.
    started: Instant,
    progressed: Instant,
    /// When and how a data stream broke.
    broken: Option<(Instant, String)>,
}

/// Bytes that the data streams of a session have read.
#[derive(Debug, Default)]
struct Moved {
    content: AtomicU64,
    digest: AtomicU64,
}

/// A data stream that can take nothing more.
struct Broken(String);

impl From<std::io::Error> for Broken {
    fn from(error: std::io::Error) -> Self {
        Self(format!("a data stream broke: {error}"))
    }
}

impl Sending {
    pub(super) fn new(connection: Connection, outgoing: Outgoing, judge: Judge) -> Self {
        let began = Instant::now();
        Self {
            connection,
            outgoing,
            judge,
            sender: Sender::default(),
            actions: Vec::new(),
            queue: Arc::default(),
            streams: JoinSet::new(),
            listing: None,
            list_complete: false,
            listed: Totals::default(),
            moved: Arc::default(),
            began,
            started: began,
            progressed: began,
            broken: None,
        }
    }

    pub(super) async fn run(
        mut self,
        control: Stream,
        stop: &CancellationToken,
    ) -> Result<Report, SessionError> {
        let mut line = Line::new(control);
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut stopped = false;
        let ending = loop {
            if let Some(ending) = self.act(&mut line).await {
                break ending;
            }
            let may_list = self.sender.room() >= BATCH_ENTRIES as u64 && !line.is_full();
            let input = tokio::select! {
                message = line.next() => match message {
                    Ok(message) => {
                        if message == Message::Accept {
                            self.started = Instant::now();
                        }
                        Input::Message(message)
                    }
                    Err(NoMessage::Lost(detail)) => Input::Lost(detail),
                    Err(NoMessage::Violation(violation)) => Input::Violation(violation),
                },
                listed = next_listed(&mut self.listing), if may_list => self.hear_listed(listed),
                Some(ended) = self.streams.join_next() => {
                    self.note_stream(ended.unwrap_or_else(|failed| Err(Broken(failed.to_string()))));
                    continue;
                }
                () = stop.cancelled(), if !stopped => {
                    stopped = true;
                    Input::Stop(Stop::new(Reason::Interrupted, ""))
                }
                _ = ticks.tick() => self.tick(),
            };
            self.feed(input);
        };
        self.queue.close();
        self.streams.abort_all();
        line.leave(leave(&ending)).await;
        self.conclude(ending)
    }

    fn feed(&mut self, input: Input) {
        self.actions.extend(self.sender.handle(input, self.began.elapsed()));
    }

    /// Carries out what the machine decided; the ending, once there is one.
    async fn act(&mut self, line: &mut Line<Stream>) -> Option<Ending> {
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                match action {
                    Action::Send(message) => line.say(&message),
                    Action::Admit(ask) => self.judge(&ask).await,
                    Action::List => self.listing = Some(list(self.outgoing.source.clone())),
                    Action::Read(jobs) => self.queue.push(jobs),
                    Action::Report(problem) => self.tell(Event::Problem(problem)).await,
                    Action::End(ending) => return Some(ending),
                }
            }
        }
        None
    }

    async fn judge(&mut self, ask: &Ask) {
        let peer = self.connection.peer();
        match self.judge.admit(ask) {
            Ok(()) => {
                let estimate = self.outgoing.estimate.get().copied();
                self.start_streams(ask.session);
                self.feed(Input::Admitted { estimate });
                self.tell(Event::Admitted { peer, estimate }).await;
            }
            Err(why) => {
                self.feed(Input::Denied);
                self.tell(Event::TurnedAway { peer, why: why.to_string() }).await;
            }
        }
    }

    fn hear_listed(&mut self, listed: Option<Listed>) -> Input {
        match listed {
            Some(Listed { entries, problems, .. }) => {
                self.listed.entries += entries.len() as u64;
                self.listed.bytes += entries.iter().map(|entry| entry.size()).sum::<u64>();
                self.listed.problems += problems.len() as u64;
                Input::Listed { entries, problems }
            }
            None => {
                self.listing = None;
                self.list_complete = true;
                Input::ListEnded
            }
        }
    }

    fn start_streams(&mut self, session: SessionId) {
        let (streams, files) = match self.outgoing.layout {
            Layout::Bundle => (bundle_streams(self.connection.transport()), usize::MAX),
            Layout::Files => (FILE_STREAMS, 1),
        };
        for _ in 0..streams {
            let carrier = Carrier {
                connection: self.connection.clone(),
                session,
                queue: Arc::clone(&self.queue),
                source: self.outgoing.source.clone(),
                moved: Arc::clone(&self.moved),
            };
            match self.outgoing.layout {
                Layout::Bundle => self.streams.spawn(carrier.bundle()),
                Layout::Files => self.streams.spawn(carrier.files(files)),
            };
        }
    }

    fn note_stream(&mut self, ended: Result<(), Broken>) {
        if let Err(Broken(detail)) = ended {
            self.broken.get_or_insert((Instant::now(), detail));
        }
    }

    fn tick(&mut self) -> Input {
        if self.progressed.elapsed() >= PROGRESS_INTERVAL && self.listed.entries > 0 {
            self.progressed = Instant::now();
            let progress = Progress {
                listed: self.listed,
                list_complete: self.list_complete,
                counts: self.sender.counts(),
                moved_bytes: self.moved.content.load(Ordering::Relaxed),
                found_bytes: self.moved.digest.load(Ordering::Relaxed),
            };
            // A consumer that is behind misses a picture, not a fact.
            let _ = self.outgoing.events.try_send(Event::Progress(progress));
        }
        match &self.broken {
            Some((when, detail)) if when.elapsed() >= GRACE => Input::Lost(detail.clone()),
            Some(_) | None => Input::Tick,
        }
    }

    async fn tell(&self, event: Event) {
        // Nobody listens any more: the session goes on.
        let _ = self.outgoing.events.send(event).await;
    }

    fn conclude(self, ending: Ending) -> Result<Report, SessionError> {
        let elapsed = self.started.elapsed();
        match ending {
            Ending::Complete(counts) => Ok(Report {
                counts,
                moved_bytes: self.moved.content.load(Ordering::Relaxed),
                found_bytes: self.moved.digest.load(Ordering::Relaxed),
                ready: elapsed,
                durable: elapsed,
            }),
            Ending::Failed(error) => Err(error),
        }
    }
}

/// The next batch; waits for ever where nothing is listed.
async fn next_listed(listing: &mut Option<mpsc::Receiver<Listed>>) -> Option<Listed> {
    match listing {
        Some(listing) => listing.recv().await,
        None => std::future::pending().await,
    }
}

/// Streams that share a bundle. Over QUIC a stream has a window of 1 MiB (a larger one can exceed the
/// library's limit of out-of-order spans and kill the connection), so several are needed to fill a long
/// path; over TCP all share one window and each only adds a thread that reads and writes files.
fn bundle_streams(transport: TransportKind) -> usize {
    match transport {
        TransportKind::Tcp => 4,
        TransportKind::Quic => 8,
    }
}

/// What one data stream needs.
struct Carrier {
    connection: Connection,
    session: SessionId,
    queue: Arc<Queue>,
    source: Source,
    moved: Arc<Moved>,
}

impl Carrier {
    /// Sends pieces back to back on one stream until the session ends.
    async fn bundle(self) -> Result<(), Broken> {
        let Some(piece) = self.queue.next(usize::MAX).await else { return Ok(()) };
        let mut stream = self.open().await?;
        let reading = self.reading(piece);
        pump_out(&mut stream, |block| self.fill(Arc::clone(&reading), block, Next::Piece)).await?;
        end(stream).await
    }

    /// Sends each piece on a stream of its own.
    async fn files(self, most: usize) -> Result<(), Broken> {
        while let Some(piece) = self.queue.next(most).await {
            let mut stream = self.open().await?;
            let reading = self.reading(piece);
            pump_out(&mut stream, |block| self.fill(Arc::clone(&reading), block, Next::End)).await?;
            end(stream).await?;
        }
        Ok(())
    }

    async fn open(&self) -> Result<Stream, Broken> {
        let mut stream = self.connection.open_stream().await.map_err(|error| Broken(error.to_string()))?;
        StreamKind::Data(self.session).write(&mut stream).await?;
        Ok(stream)
    }

    fn reading(&self, piece: Piece) -> Arc<Mutex<Reading>> {
        let mut reading = Reading::new(self.source.clone());
        reading.begin(piece);
        Arc::new(Mutex::new(reading))
    }

    /// Fills the next block; `None` when there is nothing more to send on this stream.
    async fn fill(
        &self,
        reading: Arc<Mutex<Reading>>,
        mut block: Vec<u8>,
        next: Next,
    ) -> Result<Option<Vec<u8>>, Broken> {
        block.clear();
        while block.is_empty() {
            if lock(&reading).is_idle() {
                match next {
                    Next::End => return Ok(None),
                    Next::Piece => match self.queue.next(usize::MAX).await {
                        Some(piece) => lock(&reading).begin(piece),
                        None => return Ok(None),
                    },
                }
            }
            let reading = Arc::clone(&reading);
            let read;
            (block, read) = super::blocking(move || {
                let read = lock(&reading).fill(&mut block);
                (block, read)
            })
            .await;
            self.moved.content.fetch_add(read.content, Ordering::Relaxed);
            self.moved.digest.fetch_add(read.digest, Ordering::Relaxed);
        }
        Ok(Some(block))
    }
}

/// Ends a stream and waits for the receiver to end its side, which says that it took everything. A stream
/// dropped before that is reset, and one that is short may be gone before its negotiation was answered.
async fn end(mut stream: Stream) -> Result<(), Broken> {
    stream.close().await?;
    match stream.read(&mut [0]).await? {
        0 => Ok(()),
        _ => Err(Broken("the receiver spoke on a data stream".into())),
    }
}

/// What follows a piece on its stream.
#[derive(Debug, Clone, Copy)]
enum Next {
    Piece,
    End,
}

/// What is being read is whole between any two blocks, so a panic leaves it usable.
fn lock(reading: &Mutex<Reading>) -> std::sync::MutexGuard<'_, Reading> {
    reading.lock().unwrap_or_else(PoisonError::into_inner)
}
