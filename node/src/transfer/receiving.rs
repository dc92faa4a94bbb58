//! A running receiver session: one loop that feeds the machine and carries out what it decides.

mod ending;
mod work;

use std::{sync::Arc, time::Duration};

use ketch_protocol::{
    difference::RangeHash,
    io::NoMessage,
    manifest::EntryId,
    message::{Ask, Connections, Offer, Policy, Propose, Removal, SessionId, TargetView},
    path::EntryPath,
    problem::Reason,
    session::{
        Ending, Stop,
        receiver::{Action, Answer, Input, Outcome, Receiver},
    },
};
use tokio::{
    sync::{mpsc, oneshot},
    task::{JoinHandle, JoinSet},
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    agreement::{Agreement, Shown},
    arrivals::{SESSION_STREAMS, SessionStream, SessionStreams},
    channel::ChannelReport,
    checkpoints::Checkpoints,
    connect::loss,
    data_in::DataIn,
    event::{Change, Consultation, Event, Progress, Report, Unsettled},
    known_tree::KnownTree,
    line::{Line, leave},
    links::{LinkChange, LinkRole, Links},
    pace::Pace,
    planning::Order,
    pulse::Pulse,
    store::EndCause,
};
use crate::swarm::{Connection, Stream};

pub(super) use self::{
    ending::CutShort,
    work::{Doing, Work},
};

/// Reports that wait for the loop, each of a block of content at the most.
const REPORTS: usize = 64;

/// A session about to run.
pub(super) struct Receiving {
    connection: Connection,
    view: TargetView,
    receiver: Receiver,
    /// Actions not yet carried out.
    actions: Vec<Action>,
    doing: Doing,
    free_bytes: u64,
    events: mpsc::Sender<Event>,
    began: Instant,
    /// From when the report counts: the beginning, or a person's consent.
    started: Instant,
    progress: Progress,
    ready: Duration,
    answer: Option<oneshot::Receiver<Answer>>,
    report: mpsc::Sender<Work>,
    orders: Option<mpsc::UnboundedSender<Order>>,
    /// What is to be removed.
    removal: Removal,
    /// Whether content that is missing is looked for under other names of the target.
    find_moves: bool,
    /// Lists the target, to compare it.
    own: Option<KnownTree>,
    /// Entries of the target before the session, once it was listed.
    own_entries: u64,
    own_root: Option<RangeHash>,
    /// How many entries wait for others to be settled.
    waiting: usize,
    checkpoints: Checkpoints,
    /// Writes what was stored to its disk beside the loop.
    checkpoint: Option<JoinHandle<()>>,
    /// Entries that changed or vanished while they were read.
    unsettled: Unsettled,
    /// Whether every change of the target is told.
    itemize: bool,
    /// Changes to be told before anything else.
    changes: Vec<(Change, EntryPath)>,
    pace: Pace,
    links: Links,
    agreement: Agreement,
    /// How much content the sender counted before, if it did.
    estimated_bytes: u64,
    /// What session, and how many connections, this side asked for, if it did.
    asked: Option<(SessionId, Connections)>,
    channel: ChannelReport,
}

/// What wakes the loop.
enum Wake {
    Input(Input),
    Work(Work),
    Stream(SessionStream),
    Nothing,
}

impl Receiving {
    /// A session that this side begins.
    pub(super) fn ask(
        connection: Connection,
        ask: Ask,
        doing: Doing,
        free_bytes: u64,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let (view, asked) = (ask.target, Some((ask.session, ask.connections)));
        let (receiver, actions) = Receiver::new(ask);
        let new = Self::new(connection, receiver, actions, view, doing, free_bytes, events);
        Self { asked, ..new }
    }

    /// A session that the sender proposed and that was admitted, with as many connections as it says.
    pub(super) fn answer(
        connection: Connection,
        propose: Propose,
        view: TargetView,
        doing: Doing,
        free_bytes: u64,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let (session, connections, wish) = (propose.session, propose.connections, propose.controller);
        let mut channel = ChannelReport::of(&connection);
        let congestion = channel.grant(&connection, wish);
        let (mut receiver, _admit) = Receiver::answer(propose);
        receiver.tell_congestion(congestion);
        let actions = receiver.handle(Input::Admitted { target: view, connections }, Duration::ZERO);
        let mut links = Links::new(connection.clone(), LinkRole::Takes(connections));
        links.agree(session, connections, connections);
        links.agree_on_controller(wish);
        let new = Self::new(connection, receiver, actions, view, doing, free_bytes, events);
        Self { links, channel, ..new }
    }

    fn new(
        connection: Connection,
        receiver: Receiver,
        actions: Vec<Action>,
        view: TargetView,
        doing: Doing,
        free_bytes: u64,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let (began, channel) = (Instant::now(), ChannelReport::of(&connection));
        let links = Links::new(connection.clone(), LinkRole::Takes(Connections::ONE));
        Self {
            connection,
            view,
            receiver,
            actions,
            doing,
            free_bytes,
            events,
            began,
            started: began,
            progress: Progress::default(),
            ready: Duration::ZERO,
            answer: None,
            // Replaced when the loop begins.
            report: mpsc::channel(1).0,
            orders: None,
            removal: Removal::Nothing,
            find_moves: false,
            own: None,
            own_entries: 0,
            estimated_bytes: 0,
            own_root: None,
            waiting: 0,
            checkpoints: Checkpoints::new(began),
            checkpoint: None,
            unsettled: Unsettled::default(),
            itemize: false,
            changes: Vec::new(),
            pace: Pace::default(),
            links,
            agreement: Agreement::default(),
            asked: None,
            channel,
        }
    }

    /// Compares the target with the source, listing it by `own`, and does what `policy` says of the rest.
    pub(super) fn comparing(self, own: Option<KnownTree>, policy: &Policy) -> Self {
        Self { own, removal: policy.removal, find_moves: policy.find_moves, ..self }
    }

    /// Tells every change of the target.
    pub(super) fn itemizing(self, itemize: bool) -> Self {
        Self { itemize, ..self }
    }

    /// Makes more connections once there is something to store.
    pub(super) fn linked(self, links: Links) -> Self {
        Self { links, ..self }
    }

    /// Takes content no faster than that.
    pub(super) fn paced(self, pace: Pace) -> Self {
        Self { pace, ..self }
    }

    /// Asks a person no more about what was agreed to before.
    pub(super) fn agreed_to(self, agreement: Agreement) -> Self {
        Self { agreement, ..self }
    }

    pub(super) async fn run(
        mut self,
        mut line: Line<Stream>,
        mut data: SessionStreams,
        stop: &CancellationToken,
    ) -> Result<Report, CutShort> {
        let mut streams = JoinSet::new();
        let (report, mut reports) = mpsc::channel(REPORTS);
        self.report = report;
        self.orders = Some(self.start_planning());
        self.start_rebuilding();
        let mut pulse = Pulse::new();
        let mut stopped = false;
        let ending = loop {
            if let Some(ending) = self.act(&mut line).await {
                break ending;
            }
            let wake = tokio::select! {
                message = line.next() => Wake::Input(match message {
                    Ok(message) => Input::Message(message),
                    Err(NoMessage::Lost(detail)) => Input::Lost(loss(&self.connection, detail)),
                    Err(NoMessage::Violation(violation)) => Input::Violation(violation),
                }),
                Some(work) = reports.recv() => Wake::Work(work),
                stream = data.next(), if streams.len() < SESSION_STREAMS => Wake::Stream(stream),
                Some(_) = streams.join_next() => Wake::Nothing,
                change = self.links.next() => match change {
                    // The sender sees for itself where it can send.
                    LinkChange::Made(_) | LinkChange::Gone => Wake::Nothing,
                    LinkChange::Dead(detail) => Wake::Input(Input::Lost(detail)),
                },
                answer = answered(&mut self.answer) => {
                    self.started = Instant::now();
                    if answer == Answer::Yes {
                        self.agreement.note();
                        self.tell(Event::Agreed).await;
                    }
                    Wake::Input(Input::Consent(answer))
                }
                () = stop.cancelled(), if !stopped => {
                    stopped = true;
                    Wake::Input(Input::Stop(Stop::new(Reason::Interrupted, "")))
                }
                () = pulse.beat() => Wake::Input(self.tick(&mut pulse)),
            };
            self.wake(wake, &mut streams, &mut pulse);
        };
        self.channel.measure(&self.connection);
        self.doing.store().inspect(|store| store.close());
        // Whoever still reports hears that nobody listens, and lets go of the target, so that it is free for others
        // when the session is over.
        drop(reports);
        streams.shutdown().await;
        if let Some(checkpoint) = self.checkpoint.take() {
            // It panics no more than this does.
            let _ = checkpoint.await;
        }
        self.orders = None;
        let leave = leave(&ending);
        tokio::join!(line.leave(leave), self.links.leave(leave.limit()));
        self.conclude(ending).await
    }

    /// Feeds the machine with what happened.
    fn wake(&mut self, wake: Wake, streams: &mut JoinSet<()>, pulse: &mut Pulse) {
        let input = match wake {
            Wake::Nothing => return,
            Wake::Input(input) => input,
            Wake::Stream(SessionStream::Join(connection, stream)) => {
                return self.links.take(connection, stream);
            }
            Wake::Stream(SessionStream::Data(stream)) => {
                // In a preview no content comes; the stream of a peer that sends some is reset.
                if let Some(store) = self.doing.store() {
                    let spare = !stream.connection.is_same(&self.connection);
                    let (pace, store, report) = (self.pace.clone(), Arc::clone(store), self.report.clone());
                    streams.spawn(DataIn { spare, pace, store, report }.bring(stream));
                }
                return;
            }
            Wake::Work(Work::Broken(detail)) => {
                pulse.note_broken(detail);
                return;
            }
            Wake::Work(Work::Checkpointed) => return self.checkpoints.end(Instant::now()),
            Wake::Work(Work::Stop(stop)) => Input::Stop(stop),
            Wake::Work(Work::Catalogued(catalogue, agreed)) => {
                self.own_entries = catalogue.totals().entries;
                self.own_root = Some(catalogue.root());
                Input::Catalogued { catalogue, agreed }
            }
            Wake::Work(Work::Planned { bytes }) => Input::Planned { bytes },
            Wake::Work(Work::Removed(paths)) => {
                self.changes.extend(paths.iter().map(|path| (Change::Removed, path.clone())));
                Input::Removed(paths)
            }
            Wake::Work(Work::Finished { late, ready }) => {
                self.ready = ready - self.started;
                Input::Finished { late }
            }
            Wake::Work(Work::Stored(stored)) => {
                self.note_changes(&stored.outcomes);
                self.waiting += stored.waiting;
                self.feed(Input::Outcomes(stored.outcomes));
                match stored.end {
                    None => return,
                    Some(EndCause::Violation(violation)) => Input::Violation(violation),
                    Some(EndCause::Stop(stop)) => Input::Stop(stop),
                }
            }
        };
        self.feed(input);
    }

    fn note_changes(&mut self, outcomes: &[(EntryId, Outcome)]) {
        if !self.itemize {
            return;
        }
        for (id, outcome) in outcomes {
            if let (Some(change), Some(entry)) = (Change::of_outcome(outcome), self.receiver.open_entry(*id))
            {
                self.changes.push((change, entry.path.clone()));
            }
        }
    }

    fn feed(&mut self, input: Input) {
        self.actions.extend(self.receiver.handle(input, self.began.elapsed()));
        // Nothing else is open than what waits for others, nor can be: those are settled.
        let (listed, complete) = self.receiver.listed();
        let is_last = complete || self.receiver.is_full();
        if self.waiting > 0 && is_last && self.receiver.open_count() == self.waiting {
            self.waiting = 0;
            self.order(Order::Others { listed: complete.then_some(listed) });
        }
    }

    /// Carries out what the machine decided; the ending, once there is one.
    async fn act(&mut self, line: &mut Line<Stream>) -> Option<Ending> {
        for (change, path) in std::mem::take(&mut self.changes) {
            self.tell(Event::Changed { change, path }).await;
        }
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                match action {
                    Action::Send(message) => line.say(&message),
                    // A proposal was judged before.
                    Action::Admit(_) => {}
                    Action::Catalogue => self.start_catalogue(),
                    Action::Compared => {
                        let narrowing = self.receiver.take_narrowing().map(Box::new);
                        self.order(Order::Compared { narrowing, own_entries: self.own_entries });
                    }
                    Action::Offered(offer) => self.offered(offer).await,
                    Action::Consult { complete } => self.consult(complete).await,
                    Action::Plan { first, entries } => {
                        if self.doing.store().is_some() {
                            let (listed, _) = self.receiver.listed();
                            self.links.grow(listed.bytes.max(self.estimated_bytes));
                        }
                        self.order(Order::Plan { first, entries });
                    }
                    Action::Finish => self.order(Order::Finish { listed: self.receiver.listed().0 }),
                    Action::Report(problem) => {
                        self.unsettled.note(&problem);
                        self.order(Order::Spare(problem.path.clone()));
                        self.tell(Event::Problem(problem)).await;
                    }
                    Action::End(ending) => return Some(ending),
                }
            }
        }
        None
    }

    async fn offered(&mut self, offer: Offer) {
        if let Some((session, connections)) = self.asked {
            self.links.agree(session, connections, offer.connections);
        }
        self.channel.peer = offer.congestion;
        self.estimated_bytes = offer.estimate.map_or(0, |estimate| estimate.bytes);
        let too_much = offer.estimate.filter(|estimate| estimate.bytes > self.free_bytes);
        if let (TargetView::Empty, Some(estimate)) = (self.view, too_much) {
            let detail = format!("{} bytes are offered, {} are free", estimate.bytes, self.free_bytes);
            self.feed(Input::Stop(Stop::new(Reason::NoSpace, detail)));
        }
        let is_elsewhere = self.own.as_mut().is_some_and(|own| own.comes_from(offer.disk));
        if is_elsewhere && matches!(self.removal, Removal::Extra { force_empty: false, .. }) {
            // The disk that belongs there may not be mounted.
            self.feed(Input::Stop(Stop::new(Reason::OtherSource, "nothing was removed")));
        }
        self.tell(Event::Admitted { peer: self.connection.peer(), estimate: offer.estimate }).await;
    }

    async fn consult(&mut self, complete: bool) {
        let (reply, answer) = oneshot::channel();
        self.answer = Some(answer);
        let names = Consultation::names_of(self.receiver.open_entries().map(|entry| &entry.path));
        let (listed, _) = self.receiver.listed();
        if self.agreement.covers(&Shown { listed, complete, names: names.clone() }) {
            // It waits for the answer.
            let _ = reply.send(Answer::Yes);
            return;
        }
        self.tell(Event::Consult(Consultation { listed, complete, names, reply })).await;
    }

    fn tick(&mut self, pulse: &mut Pulse) -> Input {
        let (listed, list_complete) = self.receiver.listed();
        if listed.entries > 0 {
            let counts = self.receiver.counts();
            self.progress = Progress { listed, list_complete, counts, ..self.doing.moved() };
            self.checkpoint_if_due();
        }
        if pulse.is_progress_due() {
            // A consumer that is behind misses a picture, not a fact.
            let _ = self.events.try_send(Event::Progress(self.progress));
        }
        pulse.lost().map_or(Input::Tick, |detail| Input::Lost(loss(&self.connection, detail)))
    }

    async fn tell(&self, event: Event) {
        // Nobody listens any more: the session goes on.
        let _ = self.events.send(event).await;
    }
}

/// The person's answer; one that went away without answering declines.
async fn answered(answer: &mut Option<oneshot::Receiver<Answer>>) -> Answer {
    match answer {
        Some(waiting) => {
            let answered = waiting.await.unwrap_or(Answer::No);
            *answer = None;
            answered
        }
        None => std::future::pending().await,
    }
}
