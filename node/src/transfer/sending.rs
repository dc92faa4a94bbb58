//! A running sender session: one loop that feeds the machine and carries out what it decides.

use std::sync::{Arc, atomic::Ordering};

use ketch_protocol::{
    io::NoMessage,
    limits::{BATCH_ENTRIES, DATA_STREAMS, FILE_STREAMS},
    manifest::Entry,
    message::{Ask, Compression, Connections, DiskId, Fate, Message, Propose, SessionId, Totals},
    problem::Reason,
    session::{
        Ending, SessionError, Stop,
        sender::{Action, Input, Sender},
    },
};
use tokio::{
    sync::{Semaphore, mpsc, oneshot},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Layout,
    arrivals::{Router, SessionStream, SessionStreams},
    channel::ChannelReport,
    connect::loss,
    crew::Crew,
    data_out::{DataEnd, DataOut, Moved, bundle_streams, bundle_streams_of_joined},
    event::{Change, Event, Progress, Report, Unsettled},
    known_tree::{Ended, KnownTree},
    line::{Line, leave},
    links::{LinkChange, LinkRole, Links},
    listing::{Listed, list},
    offer,
    pace::Pace,
    pulse::{Broken, Pulse},
    queue::{Portion, Queue},
    serve,
};
use crate::{
    swarm::{Connection, Stream},
    tree::{Catalogued, SourceError},
};

/// Large portions that each connection carries at once in the `files` layout, however many connections there are:
/// one is read while the other is written.
const LEAST_LARGE_PLACES: usize = 2;

/// Decides about asks.
pub(super) enum Judge {
    /// By the ticket of an offer.
    Offer(offer::Judge),
    /// By the rights on shares.
    Shares(serve::Judge),
    /// It answers a proposal of this side.
    Proposed(KnownTree),
}

/// What a receiver that was admitted gets.
#[derive(Debug)]
pub(super) struct Admission {
    pub(super) tree: KnownTree,
    /// What the tree was counted to be, once it was.
    pub(super) estimate: Option<Totals>,
    /// On what it lies, for those that know it by its place.
    pub(super) disk: Option<DiskId>,
}

/// Why a receiver gets nothing.
#[derive(Debug)]
pub(super) enum Denial {
    /// It hears no reason; this one is for the local log.
    Silent(String),
    /// It may have it, and that is why it can't.
    Told(Stop),
}

impl Judge {
    async fn admit(&self, ask: &Ask) -> Result<Admission, Denial> {
        match self {
            Self::Offer(judge) => judge.admit(ask).await,
            Self::Shares(judge) => judge.admit(ask).await,
            Self::Proposed(tree) => Ok(Admission { tree: tree.clone(), estimate: None, disk: None }),
        }
    }
}

/// A session about to run.
pub(super) struct Sending {
    connection: Connection,
    layout: Layout,
    /// How content crosses, where this side proposed it.
    compression: Option<Compression>,
    events: mpsc::Sender<Event>,
    judge: Judge,
    /// Known once the receiver is admitted.
    tree: Option<KnownTree>,
    sender: Sender,
    /// Actions not yet carried out.
    actions: Vec<Action>,
    queue: Arc<Queue>,
    /// Who reads for the data streams.
    crew: Crew,
    streams: JoinSet<DataEnd>,
    links: Links,
    /// Where connections that join are announced, on the side that is dialed.
    router: Option<Router>,
    arrivals: Option<SessionStreams>,
    /// What the data streams carry; known once the receiver is admitted.
    content: Option<Content>,
    listing: Option<mpsc::Receiver<Result<Listed, SourceError>>>,
    catalogued: Option<oneshot::Receiver<Input>>,
    list_complete: bool,
    listed: Totals,
    lead: Lead,
    moved: Arc<Moved>,
    began: Instant,
    /// From when the report counts: the beginning, or the receiver's consent.
    started: Instant,
    /// Entries that changed or vanished while they were read.
    unsettled: Unsettled,
    /// Whether every change of the target is told.
    itemize: bool,
    /// Whether the receiver only says what it would do.
    preview: bool,
    pace: Pace,
    channel: ChannelReport,
}

/// Whether more may be listed. What is listed first is sent first: a path that is slow at first takes many round trips to
/// carry the manifest of a large tree, and the content would wait behind it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lead {
    /// Nothing was listed yet that has content to be read.
    Open,
    /// There is something to be read, and nothing more is listed until some of it is on its way.
    Content,
    /// Content is on its way.
    Over,
}

/// What data streams are started with.
#[derive(Clone)]
struct Content {
    session: SessionId,
    tree: KnownTree,
    compression: Compression,
}

impl Sending {
    /// A session that the receiver begins.
    pub(super) fn new(
        connection: Connection,
        layout: Layout,
        judge: Judge,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let (began, channel) = (Instant::now(), ChannelReport::of(&connection));
        let links = Links::new(connection.clone(), LinkRole::Takes(Connections::ONE));
        Self {
            connection,
            layout,
            compression: None,
            events,
            judge,
            tree: None,
            sender: Sender::default(),
            actions: Vec::new(),
            queue: Arc::default(),
            crew: Crew::default(),
            streams: JoinSet::new(),
            links,
            router: None,
            arrivals: None,
            content: None,
            listing: None,
            catalogued: None,
            list_complete: false,
            listed: Totals::default(),
            lead: Lead::Open,
            moved: Arc::default(),
            began,
            started: began,
            unsettled: Unsettled::default(),
            itemize: false,
            preview: false,
            pace: Pace::default(),
            channel,
        }
    }

    /// Tells every change of the target.
    pub(super) fn itemizing(self, itemize: bool) -> Self {
        Self { itemize, ..self }
    }

    /// Takes connections that join, up to `most` in all.
    pub(super) fn taking(mut self, router: Router, most: Connections) -> Self {
        self.router = Some(router);
        self.links = Links::new(self.connection.clone(), LinkRole::Takes(most));
        self
    }

    /// Sends content no faster than that.
    pub(super) fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// A session that this side proposes, and more connections for it.
    pub(super) fn propose(
        links: Links,
        connection: Connection,
        propose: Propose,
        tree: KnownTree,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let compression = Some(propose.selection.compression);
        let (sender, actions) = Sender::propose(propose);
        let judge = Judge::Proposed(tree);
        let new = Self::new(connection, Layout::default(), judge, events);
        Self { sender, actions, compression, links, ..new }
    }

    /// What the receiver has said already.
    pub(super) fn hear(&mut self, message: Message) {
        self.feed(Input::Message(message));
    }

    pub(super) async fn run(
        mut self,
        mut line: Line<Stream>,
        stop: &CancellationToken,
    ) -> Result<Report, SessionError> {
        let mut pulse = Pulse::new();
        let mut stopped = false;
        let ending = loop {
            if let Some(ending) = self.act(&mut line).await {
                break ending;
            }
            let may_say = self.lead != Lead::Content && !line.is_full();
            let may_list = self.sender.room() >= BATCH_ENTRIES as u64 && may_say;
            let input = tokio::select! {
                message = line.next() => match message {
                    Ok(message) => {
                        if message == Message::Accept {
                            self.started = Instant::now();
                            self.tell(Event::Agreed).await;
                        }
                        Input::Message(message)
                    }
                    Err(NoMessage::Lost(detail)) => Input::Lost(loss(&self.connection, detail)),
                    Err(NoMessage::Violation(violation)) => Input::Violation(violation),
                },
                listed = next_listed(&mut self.listing), if may_list => self.hear_listed(listed),
                made = catalogue_made(&mut self.catalogued) => self.hear_catalogued(made),
                () = std::future::ready(()), if self.sender.may_announce() && may_say => Input::Room,
                () = self.moved.begun(), if self.lead == Lead::Content => {
                    self.lead = Lead::Over;
                    continue;
                }
                Some(ended) = self.streams.join_next() => {
                    match ended.unwrap_or_else(|failed| DataEnd::Broken(Broken(failed.to_string()))) {
                        DataEnd::Closed => {}
                        DataEnd::Broken(Broken(detail)) => pulse.note_broken(detail),
                        DataEnd::Lost(portions) => self.send_again(portions),
                    }
                    continue;
                }
                arrived = next_arrived(&mut self.arrivals) => {
                    match arrived {
                        SessionStream::Join(connection, stream) => self.links.take(connection, stream),
                        // A sender awaits no content; the stream is reset.
                        SessionStream::Data(_) => {}
                    }
                    continue;
                }
                change = self.links.next() => {
                    match change {
                        LinkChange::Made(connection) => self.start_streams(&connection, true),
                        LinkChange::Gone => {}
                        LinkChange::Dead(detail) => self.feed(Input::Lost(detail)),
                    }
                    continue;
                }
                () = stop.cancelled(), if !stopped => {
                    stopped = true;
                    Input::Stop(Stop::new(Reason::Interrupted, ""))
                }
                () = pulse.beat() => self.tick(&mut pulse),
            };
            self.feed(input);
        };
        self.channel.measure(&self.connection);
        self.queue.close();
        self.streams.abort_all();
        let leave = leave(&ending);
        tokio::join!(line.leave(leave), self.links.leave(leave.limit()));
        self.conclude(ending).await
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
                    Action::List => self.listing = self.tree.clone().map(list),
                    Action::Catalogue => self.start_catalogue(),
                    Action::Read(jobs) => {
                        self.links.grow(self.listed.bytes);
                        self.queue.push(jobs);
                        if self.lead == Lead::Open {
                            self.lead = Lead::Content;
                        }
                    }
                    Action::Report(problem) => {
                        self.unsettled.note(&problem);
                        self.tell(Event::Problem(problem)).await;
                    }
                    Action::Settled { fate, entries } => self.tell_settled(fate, &entries).await,
                    Action::Removed(paths) => {
                        for path in paths {
                            self.tell(Event::Changed { change: Change::Removed, path }).await;
                        }
                    }
                    Action::End(ending) => return Some(ending),
                }
            }
        }
        None
    }

    fn start_catalogue(&mut self) {
        let Some(tree) = self.tree.clone() else { return };
        let (report, made) = oneshot::channel();
        self.catalogued = Some(made);
        tokio::task::spawn_blocking(move || {
            let input = match tree.catalogue() {
                Ok(Catalogued { catalogue, problems, .. }) => {
                    Input::Catalogued { catalogue: Arc::new(catalogue), problems }
                }
                Err(error) => Input::Stop(unlistable(&error)),
            };
            // The session has ended if nobody takes it.
            let _ = report.send(input);
        });
    }

    async fn tell_settled(&self, fate: Fate, entries: &[Arc<Entry>]) {
        let Some(change) = Change::of(fate).filter(|_| self.itemize) else { return };
        for entry in entries {
            self.tell(Event::Changed { change, path: entry.path.clone() }).await;
        }
    }

    async fn judge(&mut self, ask: &Ask) {
        let peer = self.connection.peer();
        self.preview = ask.preview;
        match self.judge.admit(ask).await {
            Ok(Admission { tree, estimate, disk }) => {
                let congestion = self.channel.grant(&self.connection, ask.controller);
                self.sender.tell_congestion(congestion);
                self.links.agree_on_controller(ask.controller);
                self.channel.peer = ask.congestion.clone();
                let compression = self.compression.unwrap_or(ask.selection.compression);
                self.tree = Some(tree.clone());
                self.content = Some(Content { session: ask.session, tree, compression });
                let connections = self.agree(ask);
                self.start_streams(&self.connection.clone(), false);
                self.feed(Input::Admitted { estimate, connections, disk });
                self.tell(Event::Admitted { peer, estimate }).await;
            }
            Err(Denial::Silent(why)) => {
                self.feed(Input::Denied);
                self.tell(Event::TurnedAway { peer, why }).await;
            }
            Err(Denial::Told(stop)) => {
                self.tell(Event::TurnedAway { peer, why: stop.to_string() }).await;
                self.feed(Input::Stop(stop));
            }
        }
    }

    fn hear_listed(&mut self, listed: Option<Result<Listed, SourceError>>) -> Input {
        match listed {
            Some(Err(error)) => Input::Stop(unlistable(&error)),
            Some(Ok(Listed { entries, problems, .. })) => {
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

    /// What is listed to be compared is listed at once.
    fn hear_catalogued(&mut self, made: Input) -> Input {
        if let Input::Catalogued { catalogue, problems } = &made {
            self.listed = Totals { problems: problems.len() as u64, ..catalogue.totals() };
            self.list_complete = true;
        }
        made
    }

    /// Agrees on the number of connections; what the receiver is told of it.
    fn agree(&mut self, ask: &Ask) -> Connections {
        let asked = match &self.judge {
            Judge::Proposed(_) => self.links.most(Connections::ONE),
            Judge::Offer(_) | Judge::Shares(_) => ask.connections,
        };
        let granted = match &self.judge {
            Judge::Proposed(_) => ask.connections,
            Judge::Offer(_) | Judge::Shares(_) => self.take_joins(ask),
        };
        self.links.agree(ask.session, asked, granted);
        self.links.agreed()
    }

    /// Begins to take connections, if there may be more than one.
    fn take_joins(&mut self, ask: &Ask) -> Connections {
        let granted = self.links.most(ask.connections);
        if granted == Connections::ONE {
            return granted;
        }
        let router = self.router.as_ref();
        self.arrivals = router.and_then(|router| router.register(self.connection.peer(), ask.session));
        // Another session of that name takes them.
        if self.arrivals.is_some() { granted } else { Connections::ONE }
    }

    /// Starts data streams on a connection; `spare` says that the session goes on without it.
    fn start_streams(&mut self, connection: &Connection, spare: bool) {
        let Some(Content { session, tree, compression }) = self.content.clone() else { return };
        let count = match (self.layout, spare) {
            (Layout::Bundle, false) => bundle_streams(connection.transport()),
            (Layout::Bundle, true) => bundle_streams_of_joined(connection.transport()),
            (Layout::Files, _) => FILE_STREAMS / self.links.agreed().count(),
        };
        let places = (DATA_STREAMS as usize / self.links.agreed().count()).max(LEAST_LARGE_PLACES);
        let large = Arc::new(Semaphore::new(places));
        for _ in 0..count {
            let stream = DataOut {
                connection: connection.clone(),
                spare,
                session,
                layout: self.layout,
                queue: Arc::clone(&self.queue),
                crew: self.crew.clone(),
                tree: tree.clone(),
                moved: Arc::clone(&self.moved),
                compression,
                pace: self.pace.clone(),
                large: Arc::clone(&large),
                ledger: Arc::default(),
            };
            self.streams.spawn(stream.run());
        }
    }

    /// Has others send what was lost with a connection, as far as the receiver has not settled it meanwhile.
    fn send_again(&mut self, portions: Vec<Portion>) {
        let still_open = |portion: Portion| portion.of_open(|id| self.sender.is_open(id));
        self.queue.put_back(portions.into_iter().filter_map(still_open).collect());
    }

    fn tick(&mut self, pulse: &mut Pulse) -> Input {
        if self.listed.entries > 0 && pulse.is_progress_due() {
            let progress = Progress {
                listed: self.listed,
                list_complete: self.list_complete,
                counts: self.sender.counts(),
                moved_bytes: self.moved.content.load(Ordering::Relaxed),
                found_bytes: self.moved.digest.load(Ordering::Relaxed),
            };
            // A consumer that is behind misses a picture, not a fact.
            let _ = self.events.try_send(Event::Progress(progress));
        }
        pulse.lost().map_or(Input::Tick, |detail| Input::Lost(loss(&self.connection, detail)))
    }

    async fn tell(&self, event: Event) {
        // Nobody listens any more: the session goes on.
        let _ = self.events.send(event).await;
    }

    async fn conclude(self, ending: Ending) -> Result<Report, SessionError> {
        let elapsed = self.started.elapsed();
        if let Some(tree) = self.tree.clone() {
            let ended = match &ending {
                Ending::Complete(_) => Ended::Complete(None),
                Ending::Failed(_) => Ended::Early,
            };
            super::blocking(move || tree.fold(ended)).await;
        }
        match ending {
            Ending::Complete(counts) => Ok(Report {
                counts,
                moved_bytes: self.moved.content.load(Ordering::Relaxed),
                found_bytes: self.moved.digest.load(Ordering::Relaxed),
                planned_bytes: self.preview.then(|| self.sender.planned_bytes()),
                unsettled: self.unsettled,
                connections: self.links.counts(),
                ready: elapsed,
                durable: elapsed,
                channel: self.channel,
            }),
            Ending::Failed(error) => Err(error),
        }
    }
}

/// A tree that can't be listed must not pass for an empty one.
fn unlistable(error: &dyn std::error::Error) -> Stop {
    Stop::new(Reason::Internal, format_args!("listing the source: {error}"))
}

/// The catalogue, once it is made; waits for ever where none is.
async fn catalogue_made(catalogued: &mut Option<oneshot::Receiver<Input>>) -> Input {
    let made = match catalogued {
        Some(making) => making.await.ok(),
        None => None,
    };
    *catalogued = None;
    match made {
        Some(input) => input,
        None => std::future::pending().await,
    }
}

/// The next stream of the session; waits for ever where none is taken.
async fn next_arrived(arrivals: &mut Option<SessionStreams>) -> SessionStream {
    match arrivals {
        Some(arrivals) => arrivals.next().await,
        None => std::future::pending().await,
    }
}

/// The next batch; waits for ever where nothing is listed.
async fn next_listed(
    listing: &mut Option<mpsc::Receiver<Result<Listed, SourceError>>>,
) -> Option<Result<Listed, SourceError>> {
    match listing {
        Some(listing) => listing.recv().await,
        None => std::future::pending().await,
    }
}
