//! The role that has the source: answers an ask, lists its tree, sends what is needed.

use std::{sync::Arc, time::Duration};

use super::{
    Ending, SessionError, Stop, Violation,
    clock::{Clock, Due},
    outstanding::Outstanding,
};
use crate::{
    limits::{CONSENT_TIMEOUT_S, HELLO_TIMEOUT_S, RANGE_BYTES, SILENCE_TIMEOUT_S, VERSION, WHOLE_BYTES},
    manifest::{Entry, EntryId, EntryKind},
    message::{Ask, Batch, Consent, Counts, Message, Offer, Parts, Run, Settled, TargetView, Totals, Want},
    problem::{Problem, Reason},
};

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// The receiver said something.
    Message(Message),
    /// The receiver's bytes broke the protocol.
    Violation(Violation),
    /// The ask may be answered; `estimate` is what is known of the tree.
    Admitted {
        /// What was counted so far, if counting has ended.
        estimate: Option<Totals>,
    },
    /// The ask is turned away.
    Denied,
    /// The scan found more, in manifest order. No more entries than [`Sender::room`] said.
    Listed {
        /// Entries.
        entries: Vec<Entry>,
        /// What is left out.
        problems: Vec<Problem>,
    },
    /// The scan has ended.
    ListEnded,
    /// This side must end the session.
    Stop(Stop),
    /// The connection is gone.
    Lost(String),
    /// Nothing but time has passed.
    Tick,
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a control message.
    Send(Message),
    /// Decide whether this receiver may have what it asks for: [`Input::Admitted`] or [`Input::Denied`].
    Admit(Ask),
    /// Begin to scan: [`Input::Listed`], then [`Input::ListEnded`].
    List,
    /// Read these and send them as segments.
    Read(Vec<Job>),
    /// Tell a person.
    Report(Problem),
    /// The session is over; nothing follows.
    End(Ending),
}

/// What to send of one entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// Its id.
    pub id: EntryId,
    /// The entry, a file with content.
    pub entry: Arc<Entry>,
    /// Which parts of it.
    pub wanted: Wanted,
}

/// Which parts of an entry to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Wanted {
    /// All of its content.
    Content,
    /// The hashes of all its spans.
    Digest,
    /// Some of its ranges: indexes of those whose content and of those whose hash is needed.
    Parts {
        /// Ranges to send.
        content: Vec<Run>,
        /// Ranges to hash only.
        digest: Vec<Run>,
    },
}

/// The state machine.
#[derive(Debug, Default)]
pub struct Sender {
    state: State,
    clock: Clock,
}

#[derive(Debug, Default)]
enum State {
    /// Nothing is known of the receiver.
    #[default]
    AwaitAsk,
    /// The ask is being judged.
    AwaitAdmission(Ask),
    /// Listing; content may not flow before `accept`.
    AwaitAccept(Listing),
    /// Listing and sending.
    Sending(Listing),
    Ended,
}

#[derive(Debug)]
struct Listing {
    target: TargetView,
    outstanding: Outstanding,
    scan: Scan,
    totals: Totals,
    counts: Counts,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    Running,
    Ended,
}

type Actions = Vec<Action>;

impl Sender {
    /// Handles one input; `now` is the time since the session began.
    pub fn handle(&mut self, input: Input, now: Duration) -> Actions {
        let mut actions = match input {
            Input::Message(message) => {
                self.clock.hear(now);
                self.handle_message(message, now).unwrap_or_else(|violation| self.violated(violation))
            }
            Input::Violation(violation) => self.violated(violation),
            Input::Admitted { estimate } => self.admit(estimate, now),
            Input::Denied => self.stop(Stop::new(Reason::NotAdmitted, "")),
            Input::Listed { entries, problems } => self.list(entries, problems),
            Input::ListEnded => self.end_list(),
            Input::Stop(stop) => self.stop(stop),
            Input::Lost(detail) => {
                let awaited = self.awaited();
                self.fail(SessionError::Lost { awaited, detail })
            }
            Input::Tick => self.tick(now),
        };
        self.note_speech(&mut actions, now);
        actions
    }

    /// How many entries may be listed now.
    pub fn room(&self) -> u64 {
        match &self.state {
            State::AwaitAccept(listing) | State::Sending(listing) => listing.outstanding.room(),
            State::AwaitAsk | State::AwaitAdmission(_) | State::Ended => 0,
        }
    }

    /// The account so far.
    pub fn counts(&self) -> Counts {
        match &self.state {
            State::AwaitAccept(listing) | State::Sending(listing) => listing.counts,
            State::AwaitAsk | State::AwaitAdmission(_) | State::Ended => Counts::default(),
        }
    }

    /// Whether an entry still waits to be settled; content of others need not be read.
    pub fn is_open(&self, id: EntryId) -> bool {
        match &self.state {
            State::AwaitAccept(listing) | State::Sending(listing) => listing.outstanding.entry(id).is_some(),
            State::AwaitAsk | State::AwaitAdmission(_) | State::Ended => false,
        }
    }

    fn handle_message(&mut self, message: Message, now: Duration) -> Result<Actions, Violation> {
        if let Message::Refuse(refuse) = message {
            return Ok(self.fail(SessionError::Refused(refuse.into())));
        }
        let awaited = self.awaited();
        match (&mut self.state, message) {
            (State::Ended, _) | (_, Message::KeepAlive) => Ok(Vec::new()),
            (State::AwaitAsk, Message::Ask(ask)) => Ok(self.hear_ask(ask, now)),
            (State::AwaitAccept(_), Message::Accept) => Ok(self.accepted(now)),
            (State::Sending(listing), Message::Want(want)) => listing.want(want),
            (State::Sending(listing), Message::Settled(settled)) => listing.settle(settled),
            (State::Sending(listing), Message::Done(counts)) => {
                listing.check_done(counts)?;
                self.state = State::Ended;
                Ok(vec![Action::Send(Message::Farewell), Action::End(Ending::Complete(counts))])
            }
            (
                State::AwaitAsk | State::AwaitAdmission(_) | State::AwaitAccept(_) | State::Sending(_),
                unexpected,
            ) => Err(Violation::Unexpected { message: unexpected.name(), awaited }),
        }
    }

    fn hear_ask(&mut self, ask: Ask, now: Duration) -> Actions {
        if ask.version != VERSION {
            let detail = format!("version {} was asked for, version {VERSION} is spoken here", ask.version);
            return self.stop(Stop::new(Reason::Version, detail));
        }
        self.clock.enter(now);
        self.state = State::AwaitAdmission(ask.clone());
        vec![Action::Admit(ask)]
    }

    fn admit(&mut self, estimate: Option<Totals>, now: Duration) -> Actions {
        let State::AwaitAdmission(ask) = &self.state else { return Vec::new() };
        let (consent, target) = (ask.consent, ask.target);
        let listing = Listing {
            target,
            outstanding: Outstanding::default(),
            scan: Scan::Running,
            totals: Totals::default(),
            counts: Counts::default(),
        };
        self.clock.enter(now);
        self.state = match consent {
            Consent::Given => State::Sending(listing),
            Consent::Pending => State::AwaitAccept(listing),
        };
        vec![Action::Send(Message::Offer(Offer { version: VERSION, estimate })), Action::List]
    }

    fn accepted(&mut self, now: Duration) -> Actions {
        let State::AwaitAccept(listing) = std::mem::take(&mut self.state) else { return Vec::new() };
        let jobs = match listing.target {
            TargetView::Empty => {
                listing.outstanding.iter().filter_map(|(id, entry)| push_job(id, entry)).collect()
            }
            TargetView::Occupied => Vec::new(),
        };
        self.clock.enter(now);
        self.state = State::Sending(listing);
        read(jobs)
    }

    fn list(&mut self, entries: Vec<Entry>, problems: Vec<Problem>) -> Actions {
        match &mut self.state {
            State::AwaitAccept(listing) => listing.announce(entries, problems).0,
            State::Sending(listing) => {
                let (mut actions, jobs) = listing.announce(entries, problems);
                if listing.target == TargetView::Empty {
                    actions.extend(read(jobs));
                }
                actions
            }
            State::AwaitAsk | State::AwaitAdmission(_) | State::Ended => Vec::new(),
        }
    }

    fn end_list(&mut self) -> Actions {
        match &mut self.state {
            State::AwaitAccept(listing) | State::Sending(listing) => {
                listing.scan = Scan::Ended;
                vec![Action::Send(Message::ManifestEnd(listing.totals))]
            }
            State::AwaitAsk | State::AwaitAdmission(_) | State::Ended => Vec::new(),
        }
    }

    fn tick(&mut self, now: Duration) -> Actions {
        let limit_s = match &self.state {
            State::AwaitAsk => Some(HELLO_TIMEOUT_S),
            // The receiver gives up first and says so; this is for one that does not.
            State::AwaitAccept(_) => Some(CONSENT_TIMEOUT_S + SILENCE_TIMEOUT_S),
            State::AwaitAdmission(_) | State::Sending(_) => None,
            State::Ended => return Vec::new(),
        };
        match limit_s {
            Some(seconds) if self.clock.in_state(now) >= Duration::from_secs(seconds) => {
                self.time_out(seconds)
            }
            Some(_) | None => match self.clock.due(now) {
                Due::Nothing => Vec::new(),
                Due::KeepAlive => vec![Action::Send(Message::KeepAlive)],
                Due::Silence(seconds) => self.time_out(seconds),
            },
        }
    }

    fn time_out(&mut self, seconds: u64) -> Actions {
        let awaited = self.awaited();
        let refuse = Stop::new(Reason::Timeout, format!("{awaited} did not come for {seconds} s"));
        let mut actions = vec![Action::Send(Message::Refuse(refuse.into()))];
        actions.extend(self.fail(SessionError::Timeout { awaited, seconds }));
        actions
    }

    fn violated(&mut self, violation: Violation) -> Actions {
        let refuse = Stop::new(Reason::Violation, &violation);
        let mut actions = vec![Action::Send(Message::Refuse(refuse.into()))];
        actions.extend(self.fail(SessionError::Violation(violation)));
        actions
    }

    fn stop(&mut self, stop: Stop) -> Actions {
        let mut actions = vec![Action::Send(Message::Refuse(stop.clone().into()))];
        actions.extend(self.fail(SessionError::Stopped(stop)));
        actions
    }

    fn fail(&mut self, error: SessionError) -> Actions {
        match std::mem::replace(&mut self.state, State::Ended) {
            State::Ended => Vec::new(),
            State::AwaitAsk | State::AwaitAdmission(_) | State::AwaitAccept(_) | State::Sending(_) => {
                vec![Action::End(Ending::Failed(error))]
            }
        }
    }

    /// Notes when something was said, and lets nothing be said behind an end that came before.
    fn note_speech(&mut self, actions: &mut Actions, now: Duration) {
        let speaks = actions.iter().any(|action| matches!(action, Action::Send(_)));
        let ends = actions.iter().any(|action| matches!(action, Action::End(_)));
        if matches!(self.state, State::Ended) && !ends {
            actions.clear();
        } else if speaks {
            self.clock.speak(now);
        }
    }

    fn awaited(&self) -> &'static str {
        match &self.state {
            State::AwaitAsk => "ask",
            State::AwaitAdmission(_) => "admission",
            State::AwaitAccept(_) => "accept",
            State::Sending(listing) if listing.scan == Scan::Running => "settled",
            State::Sending(_) => "done",
            State::Ended => "nothing",
        }
    }
}

impl Listing {
    /// Announces a batch; the jobs that follow when the receiver has nothing.
    fn announce(&mut self, entries: Vec<Entry>, problems: Vec<Problem>) -> (Actions, Vec<Job>) {
        self.totals.problems += problems.len() as u64;
        self.counts.listed += (entries.len() + problems.len()) as u64;
        problems.iter().for_each(|problem| self.counts.add_problem(problem));
        let mut actions: Actions = problems.iter().cloned().map(Action::Report).collect();
        let batch = Batch { first: self.outstanding.next_id(), entries, problems };
        let mut jobs = Vec::new();
        for entry in &batch.entries {
            self.totals.entries += 1;
            self.totals.bytes += entry.size();
            let entry = Arc::new(entry.clone());
            let id = self.outstanding.announce(Arc::clone(&entry));
            jobs.extend(push_job(id, &entry));
        }
        actions.push(Action::Send(Message::Manifest(batch)));
        (actions, jobs)
    }

    fn want(&self, want: Want) -> Result<Actions, Violation> {
        let mut jobs = Vec::new();
        for (runs, wanted) in [(want.content, Wanted::Content), (want.digest, Wanted::Digest)] {
            for id in runs.iter().flat_map(|run| run.numbers()).map(EntryId) {
                jobs.push(Job { id, entry: self.file(id)?, wanted: wanted.clone() });
            }
        }
        for Parts { id, content, digest } in want.parts {
            let entry = self.file(id)?;
            check_ranges(id, &entry, &content)?;
            check_ranges(id, &entry, &digest)?;
            jobs.push(Job { id, entry, wanted: Wanted::Parts { content, digest } });
        }
        Ok(read(jobs))
    }

    /// An open entry that is a file.
    fn file(&self, id: EntryId) -> Result<Arc<Entry>, Violation> {
        let entry = self.outstanding.entry(id).ok_or(Violation::NotOpen(id))?;
        match entry.kind {
            EntryKind::File { .. } => Ok(Arc::clone(entry)),
            EntryKind::Directory | EntryKind::Symlink { .. } => Err(Violation::NoSuchPart(id)),
        }
    }

    fn settle(&mut self, settled: Settled) -> Result<Actions, Violation> {
        for id in settled.stored.iter().flat_map(|run| run.numbers()).map(EntryId) {
            self.outstanding.settle(id).ok_or(Violation::NotOpen(id))?;
            self.counts.sent += 1;
        }
        for id in settled.kept.iter().flat_map(|run| run.numbers()).map(EntryId) {
            self.outstanding.settle(id).ok_or(Violation::NotOpen(id))?;
            self.counts.kept += 1;
        }
        let mut actions = Vec::new();
        for (id, problem) in settled.problems {
            self.outstanding.settle(id).ok_or(Violation::NotOpen(id))?;
            self.counts.add_problem(&problem);
            actions.push(Action::Report(problem));
        }
        for problem in settled.late {
            self.counts.listed += 1;
            self.counts.add_problem(&problem);
            actions.push(Action::Report(problem));
        }
        Ok(actions)
    }

    fn check_done(&self, theirs: Counts) -> Result<(), Violation> {
        if let Some((id, _)) = self.outstanding.iter().next() {
            return Err(Violation::NotOpen(id));
        }
        if self.scan == Scan::Running {
            return Err(Violation::Unexpected { message: "done", awaited: "settled" });
        }
        if theirs == self.counts { Ok(()) } else { Err(Violation::Account { theirs, ours: self.counts }) }
    }
}

fn check_ranges(id: EntryId, entry: &Entry, runs: &[Run]) -> Result<(), Violation> {
    let ranges = if entry.size() > WHOLE_BYTES { entry.size().div_ceil(RANGE_BYTES) } else { 0 };
    let inside = runs.iter().all(|run| run.first + run.count <= ranges);
    if inside { Ok(()) } else { Err(Violation::NoSuchPart(id)) }
}

/// The job of sending a file that the receiver lacks; an empty one is complete with its entry.
fn push_job(id: EntryId, entry: &Arc<Entry>) -> Option<Job> {
    (entry.size() > 0).then(|| Job { id, entry: Arc::clone(entry), wanted: Wanted::Content })
}

fn read(jobs: Vec<Job>) -> Actions {
    if jobs.is_empty() { Vec::new() } else { vec![Action::Read(jobs)] }
}
