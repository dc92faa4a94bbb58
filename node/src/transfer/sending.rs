//! A running sender session: one loop that feeds the machine and carries out what it decides.

use std::sync::{Arc, atomic::Ordering};

use ketch_protocol::{
    io::NoMessage,
    limits::{BATCH_ENTRIES, FILE_STREAMS},
    manifest::Entry,
    message::{Ask, Compression, DiskId, Fate, Message, Propose, Totals},
    problem::Reason,
    session::{
        Ending, SessionError, Stop,
        sender::{Action, Input, Sender},
    },
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    Layout,
    data_out::{DataOut, Moved, bundle_streams},
    event::{Change, Event, Progress, Report, Unsettled},
    known_tree::{Ended, KnownTree},
    line::{Line, leave},
    listing::{Listed, list},
    offer,
    pace::Pace,
    pulse::{Broken, Pulse},
    queue::Queue,
    serve,
};
use crate::{
    swarm::{Connection, Stream},
    tree::{Catalogued, SourceError},
};

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
            Self::Offer(judge) => judge.admit(ask),
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
    streams: JoinSet<Result<(), Broken>>,
    listing: Option<mpsc::Receiver<Result<Listed, SourceError>>>,
    catalogued: Option<oneshot::Receiver<Input>>,
    list_complete: bool,
    listed: Totals,
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
}

impl Sending {
    /// A session that the receiver begins.
    pub(super) fn new(
        connection: Connection,
        layout: Layout,
        judge: Judge,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let began = Instant::now();
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
            streams: JoinSet::new(),
            listing: None,
            catalogued: None,
            list_complete: false,
            listed: Totals::default(),
            moved: Arc::default(),
            began,
            started: began,
            unsettled: Unsettled::default(),
            itemize: false,
            preview: false,
            pace: Pace::default(),
        }
    }

    /// Tells every change of the target.
    pub(super) fn itemizing(self, itemize: bool) -> Self {
        Self { itemize, ..self }
    }

    /// Sends content no faster than that.
    pub(super) fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// A session that this side proposes.
    pub(super) fn propose(
        connection: Connection,
        propose: Propose,
        tree: KnownTree,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let compression = Some(propose.selection.compression);
        let (sender, actions) = Sender::propose(propose);
        let judge = Judge::Proposed(tree);
        Self { sender, actions, compression, ..Self::new(connection, Layout::default(), judge, events) }
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
            let may_list = self.sender.room() >= BATCH_ENTRIES as u64 && !line.is_full();
            let input = tokio::select! {
                message = line.next() => match message {
                    Ok(message) => {
                        if message == Message::Accept {
                            self.started = Instant::now();
                            self.tell(Event::Agreed).await;
                        }
                        Input::Message(message)
                    }
                    Err(NoMessage::Lost(detail)) => Input::Lost(detail),
                    Err(NoMessage::Violation(violation)) => Input::Violation(violation),
                },
                listed = next_listed(&mut self.listing), if may_list => self.hear_listed(listed),
                made = catalogue_made(&mut self.catalogued) => self.hear_catalogued(made),
                () = std::future::ready(()), if self.sender.may_announce() && !line.is_full() => Input::Room,
                Some(ended) = self.streams.join_next() => {
                    if let Err(Broken(detail)) = ended.unwrap_or_else(|failed| Err(Broken(failed.to_string()))) {
                        pulse.note_broken(detail);
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
        self.queue.close();
        self.streams.abort_all();
        line.leave(leave(&ending)).await;
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
                    Action::Read(jobs) => self.queue.push(jobs),
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
                self.start_streams(ask, &tree);
                self.tree = Some(tree);
                self.feed(Input::Admitted { estimate, disk });
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

    fn start_streams(&mut self, ask: &Ask, tree: &KnownTree) {
        let session = ask.session;
        let compression = self.compression.unwrap_or(ask.selection.compression);
        let layout = self.layout;
        let count = match layout {
            Layout::Bundle => bundle_streams(self.connection.transport()),
            Layout::Files => FILE_STREAMS,
        };
        for _ in 0..count {
            let stream = DataOut {
                connection: self.connection.clone(),
                session,
                queue: Arc::clone(&self.queue),
                tree: tree.clone(),
                moved: Arc::clone(&self.moved),
                compression,
                pace: self.pace.clone(),
            };
            match layout {
                Layout::Bundle => self.streams.spawn(stream.bundle()),
                Layout::Files => self.streams.spawn(stream.files()),
            };
        }
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
        pulse.lost().map_or(Input::Tick, Input::Lost)
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
                ready: elapsed,
                durable: elapsed,
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

/// The next batch; waits for ever where nothing is listed.
async fn next_listed(
    listing: &mut Option<mpsc::Receiver<Result<Listed, SourceError>>>,
) -> Option<Result<Listed, SourceError>> {
    match listing {
        Some(listing) => listing.recv().await,
        None => std::future::pending().await,
    }
}
