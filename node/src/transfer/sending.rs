//! A running sender session: one loop that feeds the machine and carries out what it decides.

use std::sync::{Arc, OnceLock, atomic::Ordering};

use ketch_protocol::{
    io::NoMessage,
    limits::{BATCH_ENTRIES, FILE_STREAMS},
    message::{Ask, Compression, Message, SessionId, Totals},
    problem::Reason,
    session::{
        Ending, SessionError, Stop,
        sender::{Action, Input, Sender},
    },
};
use tokio::{sync::mpsc, task::JoinSet, time::Instant};
use tokio_util::sync::CancellationToken;

use super::{
    Layout,
    data_out::{DataOut, Moved, bundle_streams},
    event::{Event, Progress, Report},
    line::{Line, leave},
    listing::{Listed, list},
    offer::Judge,
    pulse::{Broken, Pulse},
    queue::Queue,
};
use crate::{
    swarm::{Connection, Stream},
    tree::Source,
};

/// What a session sends, and what it needs to know.
#[derive(Debug, Clone)]
pub(super) struct Outgoing {
    pub(super) source: Source,
    pub(super) layout: Layout,
    /// What the tree was counted to be, once it was.
    pub(super) estimate: Arc<OnceLock<Totals>>,
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
        }
    }

    pub(super) async fn run(
        mut self,
        control: Stream,
        stop: &CancellationToken,
    ) -> Result<Report, SessionError> {
        let mut line = Line::new(control);
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
                    // An offer admits nobody who compares.
                    Action::Catalogue => self.feed(Input::Denied),
                    Action::Read(jobs) => self.queue.push(jobs),
                    Action::Report(problem) => self.tell(Event::Problem(problem)).await,
                    // An offer is counted; nobody reads its entries one by one.
                    Action::Settled { .. } | Action::Removed(_) => {}
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
                self.start_streams(ask.session, ask.selection.compression);
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

    fn start_streams(&mut self, session: SessionId, compression: Compression) {
        let compress = match compression {
            Compression::Zstd => true,
            // Whether it saves time depends on a rate that is not known yet.
            Compression::Auto | Compression::None => false,
        };
        let layout = self.outgoing.layout;
        let count = match layout {
            Layout::Bundle => bundle_streams(self.connection.transport()),
            Layout::Files => FILE_STREAMS,
        };
        for _ in 0..count {
            let stream = DataOut {
                connection: self.connection.clone(),
                session,
                queue: Arc::clone(&self.queue),
                source: self.outgoing.source.clone(),
                moved: Arc::clone(&self.moved),
                compress,
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
            let _ = self.outgoing.events.try_send(Event::Progress(progress));
        }
        pulse.lost().map_or(Input::Tick, Input::Lost)
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
