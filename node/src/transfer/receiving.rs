//! A running receiver session: one loop that feeds the machine and carries out what it decides.

use std::{sync::Arc, time::Duration};

use ketch_protocol::{
    io::NoMessage,
    limits::{DATA_STREAMS, FILE_STREAMS},
    manifest::{Entry, EntryId},
    message::{Ask, Offer, SessionId, TargetView},
    path::EntryPath,
    problem::{Problem, Reason},
    session::{
        Ending, Stop,
        receiver::{Action, Answer, Input, Receiver},
    },
};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinSet,
    time::Instant,
};
use tokio_util::sync::CancellationToken;

use super::{
    ReceiveError,
    data_in::bring,
    event::{Consultation, Event, Progress, Report},
    line::{Line, leave},
    planning::Planning,
    pulse::Pulse,
    rebuilding::Rebuilding,
    storing::{EndCause, Store, Stored},
};
use crate::swarm::{Connection, Inbound, Stream};

/// Names shown to a person who is asked; the rest is counted.
const NAMES_SHOWN: usize = 20;

/// Reports that wait for the loop, each of a block of content at the most.
const REPORTS: usize = 64;

/// A session about to run.
pub(super) struct Receiving {
    connection: Connection,
    session: SessionId,
    view: TargetView,
    receiver: Receiver,
    /// Actions not yet carried out.
    actions: Vec<Action>,
    store: Arc<Store>,
    free_bytes: u64,
    events: mpsc::Sender<Event>,
    began: Instant,
    /// From when the report counts: the beginning, or a person's consent.
    started: Instant,
    progress: Progress,
    ready: Duration,
    answer: Option<oneshot::Receiver<Answer>>,
    report: mpsc::Sender<Work>,
    plans: Option<mpsc::UnboundedSender<Plan>>,
}

type Plan = (EntryId, Vec<Arc<Entry>>);

/// What the work beside the loop reports.
pub(super) enum Work {
    /// Entries were planned or stored.
    Stored(Stored),
    /// Everything is in place.
    Finished { late: Vec<Problem>, ready: Instant },
    /// The session can't go on.
    Stop(Stop),
    /// A data stream broke.
    Broken(String),
}

/// What wakes the loop.
enum Wake {
    Input(Input),
    Work(Work),
    Stream(Stream),
    Nothing,
}

impl Receiving {
    pub(super) fn new(
        connection: Connection,
        ask: Ask,
        store: Arc<Store>,
        free_bytes: u64,
        events: mpsc::Sender<Event>,
    ) -> Self {
        let (session, view, began) = (ask.session, ask.target, Instant::now());
        let (receiver, actions) = Receiver::new(ask);
        Self {
            connection,
            session,
            view,
            receiver,
            actions,
            store,
            free_bytes,
            events,
            began,
            started: began,
            progress: Progress::default(),
            ready: Duration::ZERO,
            answer: None,
            // Replaced when the loop begins.
            report: mpsc::channel(1).0,
            plans: None,
        }
    }

    pub(super) async fn run(
        mut self,
        control: Stream,
        inbound: &mut Inbound,
        stop: &CancellationToken,
    ) -> Result<Report, ReceiveError> {
        let mut line = Line::new(control);
        let mut streams = JoinSet::new();
        let (report, mut reports) = mpsc::channel(REPORTS);
        self.report = report;
        self.plans = Some(self.start_planning());
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
                    Err(NoMessage::Lost(detail)) => Input::Lost(detail),
                    Err(NoMessage::Violation(violation)) => Input::Violation(violation),
                }),
                Some(work) = reports.recv() => Wake::Work(work),
                Some((connection, stream)) = inbound.next(), if streams.len() < stream_limit() => {
                    // Others have no business here; their streams are reset.
                    if connection.peer() == self.connection.peer() { Wake::Stream(stream) } else { Wake::Nothing }
                }
                Some(_) = streams.join_next() => Wake::Nothing,
                answer = answered(&mut self.answer) => {
                    self.started = Instant::now();
                    if answer == Answer::Yes {
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
        self.store.close();
        streams.abort_all();
        self.plans = None;
        line.leave(leave(&ending)).await;
        self.conclude(ending).await
    }

    /// Feeds the machine with what happened.
    fn wake(&mut self, wake: Wake, streams: &mut JoinSet<()>, pulse: &mut Pulse) {
        let input = match wake {
            Wake::Nothing => return,
            Wake::Input(input) => input,
            Wake::Stream(stream) => {
                streams.spawn(bring(stream, self.session, Arc::clone(&self.store), self.report.clone()));
                return;
            }
            Wake::Work(Work::Broken(detail)) => {
                pulse.note_broken(detail);
                return;
            }
            Wake::Work(Work::Stop(stop)) => Input::Stop(stop),
            Wake::Work(Work::Finished { late, ready }) => {
                self.ready = ready - self.started;
                Input::Finished { late }
            }
            Wake::Work(Work::Stored(stored)) => {
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

    fn feed(&mut self, input: Input) {
        self.actions.extend(self.receiver.handle(input, self.began.elapsed()));
    }

    /// Carries out what the machine decided; the ending, once there is one.
    async fn act(&mut self, line: &mut Line<Stream>) -> Option<Ending> {
        while !self.actions.is_empty() {
            for action in std::mem::take(&mut self.actions) {
                match action {
                    Action::Send(message) => line.say(&message),
                    // Only of a session that the sender proposes.
                    Action::Admit(_) => self.feed(Input::Denied),
                    // A ticket's receiver compares nothing.
                    Action::Catalogue | Action::Compared => {}
                    Action::Offered(offer) => self.offered(offer).await,
                    Action::Consult { complete } => self.consult(complete).await,
                    Action::Plan { first, entries } => {
                        // A planner that is gone has ended the session with a report of its own.
                        let _ = self.plans.as_ref().map(|plans| plans.send((first, entries)));
                    }
                    Action::Finish => self.start_finishing(),
                    Action::Report(problem) => self.tell(Event::Problem(problem)).await,
                    Action::End(ending) => return Some(ending),
                }
            }
        }
        None
    }

    async fn offered(&mut self, offer: Offer) {
        let too_much = offer.estimate.filter(|estimate| estimate.bytes > self.free_bytes);
        if let (TargetView::Empty, Some(estimate)) = (self.view, too_much) {
            let detail = format!("{} bytes are offered, {} are free", estimate.bytes, self.free_bytes);
            self.feed(Input::Stop(Stop::new(Reason::NoSpace, detail)));
        }
        self.tell(Event::Admitted { peer: self.connection.peer(), estimate: offer.estimate }).await;
    }

    async fn consult(&mut self, complete: bool) {
        let (reply, answer) = oneshot::channel();
        self.answer = Some(answer);
        let names = names_to_show(self.receiver.open_entries().map(|entry| &entry.path));
        let (listed, _) = self.receiver.listed();
        self.tell(Event::Consult(Consultation { listed, complete, names, reply })).await;
    }

    fn tick(&mut self, pulse: &mut Pulse) -> Input {
        let (listed, list_complete) = self.receiver.listed();
        if listed.entries > 0 {
            let counts = self.receiver.counts();
            self.progress = Progress { listed, list_complete, counts, ..self.store.moved() };
        }
        if pulse.is_progress_due() {
            // A consumer that is behind misses a picture, not a fact.
            let _ = self.events.try_send(Event::Progress(self.progress));
        }
        pulse.lost().map_or(Input::Tick, Input::Lost)
    }

    async fn tell(&self, event: Event) {
        // Nobody listens any more: the session goes on.
        let _ = self.events.send(event).await;
    }

    fn start_planning(&self) -> mpsc::UnboundedSender<Plan> {
        // Bounded by the window of the protocol.
        let (plans, mut planned) = mpsc::unbounded_channel::<Plan>();
        let mut planning = Planning::new(Arc::clone(&self.store), self.free_bytes);
        let report = self.report.clone();
        tokio::task::spawn_blocking(move || {
            while let Some((first, entries)) = planned.blocking_recv() {
                if report.blocking_send(Work::Stored(planning.plan(first, &entries))).is_err() {
                    return;
                }
            }
        });
        plans
    }

    /// On a thread of its own: it waits for most of the session, and would take one from the pool all that time.
    fn start_rebuilding(&mut self) {
        let rebuilding = Rebuilding::new(Arc::clone(&self.store));
        let report = self.report.clone();
        let work = move || rebuilding.run(|stored| report.blocking_send(Work::Stored(stored)).is_ok());
        if let Err(error) = std::thread::Builder::new().name("rebuilding".into()).spawn(work) {
            let detail = format_args!("starting a thread: {error}");
            self.feed(Input::Stop(Stop::new(Reason::Internal, detail)));
        }
    }

    fn start_finishing(&self) {
        let (store, report) = (Arc::clone(&self.store), self.report.clone());
        tokio::task::spawn_blocking(move || {
            let late = store.target.finish();
            let ready = Instant::now();
            let work = match store.target.sync() {
                Ok(()) => Work::Finished { late, ready },
                Err(error) => Work::Stop(Stop::new(Reason::Internal, format_args!("syncing: {error}"))),
            };
            // The session has ended if nobody takes it.
            let _ = report.blocking_send(work);
        });
    }

    async fn conclude(self, ending: Ending) -> Result<Report, ReceiveError> {
        let durable = self.started.elapsed();
        match ending {
            Ending::Complete(counts) => {
                let Progress { moved_bytes, found_bytes, .. } = self.store.moved();
                Ok(Report { counts, moved_bytes, found_bytes, ready: self.ready, durable })
            }
            Ending::Failed(error) => {
                let store = self.store;
                let unfinished = super::blocking(move || {
                    // So that no directory keeps the mode it had for the time of the session. What can't be
                    // set now is set when the session is resumed.
                    store.target.finish();
                    store.target.unfinished()
                })
                .await;
                Err(ReceiveError::Session { error, unfinished })
            }
        }
    }
}

fn stream_limit() -> usize {
    DATA_STREAMS as usize + FILE_STREAMS
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

/// The first names, those with a component that begins with a dot before all others.
fn names_to_show<'a>(paths: impl Iterator<Item = &'a EntryPath>) -> Vec<EntryPath> {
    let is_hidden = |path: &&EntryPath| path.components().any(|component| component[0] == b'.');
    let (mut hidden, plain): (Vec<_>, Vec<_>) = paths.partition(is_hidden);
    hidden.extend(plain);
    hidden.into_iter().take(NAMES_SHOWN).cloned().collect()
}
