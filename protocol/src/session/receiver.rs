//! The role that has the target: asks, plans what it needs, reports what became of it.

use std::{sync::Arc, time::Duration};

use super::{
    Ending, Outcomes, SessionError, Stop, Violation,
    clock::{Clock, Due},
    outstanding::Outstanding,
};
use crate::{
    limits::{CONSENT_TIMEOUT_S, FAREWELL_TIMEOUT_S, HELLO_TIMEOUT_S, VERSION},
    manifest::{Entry, EntryId, Order},
    message::{Ask, Batch, Consent, Counts, Message, Offer, Parts, Run, Settled, TargetView, Totals, Want},
    problem::{Problem, Reason},
};

/// A person is asked after this long at the latest, with what was listed by then.
const CONSULT_AFTER: Duration = Duration::from_secs(2);

/// Most problems in one `settled` message: 128 with the longest paths stay below the message limit.
const LATE_PROBLEMS: usize = 20;

/// What happened.
#[derive(Debug, Clone)]
pub enum Input {
    /// The sender said something.
    Message(Message),
    /// The sender's bytes broke the protocol.
    Violation(Violation),
    /// The person answered [`Action::Consult`].
    Consent(Answer),
    /// What became of entries, or is needed for them.
    Outcomes(Vec<(EntryId, Outcome)>),
    /// Directories are complete and everything is as durable as was asked.
    Finished {
        /// Directories whose mode or times could not be set.
        late: Vec<Problem>,
    },
    /// This side must end the session.
    Stop(Stop),
    /// The connection is gone.
    Lost(String),
    /// Nothing but time has passed.
    Tick,
}

/// A person's answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    /// Go on.
    Yes,
    /// Take nothing.
    No,
}

/// What became of an entry, or what is needed for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It is stored under its final name.
    Stored,
    /// An equal one was there.
    Kept,
    /// It is not stored as listed.
    Problem(Problem),
    /// All of its content is needed.
    Content,
    /// Its content is needed although it was sent before.
    ContentAgain,
    /// Its hashes are needed, to compare with what is there.
    Digest,
    /// Some of its ranges are needed.
    Parts {
        /// Ranges whose content is needed.
        content: Vec<Run>,
        /// Ranges whose hash is needed.
        digest: Vec<Run>,
    },
}

/// What to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Send a control message.
    Send(Message),
    /// The sender has admitted us.
    Offered(Offer),
    /// Ask the person; [`Receiver::listed`] has what is known.
    Consult {
        /// Whether the list is complete.
        complete: bool,
    },
    /// Compare these with the target and make what has no content: [`Input::Outcomes`] for each of them.
    Plan {
        /// Id of the first; the others follow.
        first: EntryId,
        /// The entries.
        entries: Vec<Arc<Entry>>,
    },
    /// Complete the directories, make all durable: [`Input::Finished`].
    Finish,
    /// Tell a person.
    Report(Problem),
    /// The session is over; nothing follows.
    End(Ending),
}

/// The state machine.
#[derive(Debug)]
pub struct Receiver {
    state: State,
    clock: Clock,
    consent: Consent,
    target: TargetView,
}

#[derive(Debug)]
enum State {
    /// Asked; the sender has not answered.
    AwaitOffer,
    /// The tree is being listed; nothing is written before the person agrees.
    AwaitConsent {
        storing: Storing,
        consulted: bool,
    },
    /// Entries are planned, content is stored.
    Storing(Storing),
    /// All is settled; directories and durability are left.
    Finishing(Storing),
    /// Done was said.
    AwaitFarewell(Counts),
    Ended,
}

#[derive(Debug, Default)]
struct Storing {
    order: Order,
    outstanding: Outstanding,
    outcomes: Outcomes,
    listed: Totals,
    manifest: Manifest,
    counts: Counts,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Manifest {
    #[default]
    Open,
    Complete,
}

type Actions = Vec<Action>;

impl Receiver {
    /// A session for `ask`, and its first actions.
    pub fn new(ask: Ask) -> (Self, Actions) {
        let receiver = Self {
            state: State::AwaitOffer,
            clock: Clock::default(),
            consent: ask.consent,
            target: ask.target,
        };
        (receiver, vec![Action::Send(Message::Ask(ask))])
    }

    /// Handles one input; `now` is the time since the session began.
    pub fn handle(&mut self, input: Input, now: Duration) -> Actions {
        let mut actions = match input {
            Input::Message(message) => {
                self.clock.hear(now);
                self.handle_message(message, now).unwrap_or_else(|violation| self.violated(violation))
            }
            Input::Violation(violation) => self.violated(violation),
            Input::Consent(answer) => self.hear_answer(answer, now),
            Input::Outcomes(outcomes) => self.note_outcomes(outcomes),
            Input::Finished { late } => self.finished(late, now),
            Input::Stop(stop) => self.stop(stop),
            Input::Lost(detail) => self.lose(detail),
            Input::Tick => self.tick(now),
        };
        actions.extend(self.finish_if_settled());
        self.note_speech(&mut actions, now);
        actions
    }

    /// What was listed so far: totals, and whether that is all.
    pub fn listed(&self) -> (Totals, bool) {
        match &self.state {
            State::AwaitConsent { storing, .. } | State::Storing(storing) | State::Finishing(storing) => {
                (storing.listed, storing.manifest == Manifest::Complete)
            }
            State::AwaitOffer | State::AwaitFarewell(_) | State::Ended => (Totals::default(), false),
        }
    }

    /// Entries that were listed and are not settled; while a person is asked, all of them.
    pub fn open_entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        let storing = match &self.state {
            State::AwaitConsent { storing, .. } | State::Storing(storing) => Some(storing),
            State::AwaitOffer | State::Finishing(_) | State::AwaitFarewell(_) | State::Ended => None,
        };
        storing.into_iter().flat_map(|storing| storing.outstanding.iter().map(|(_, entry)| entry))
    }

    /// The account so far.
    pub fn counts(&self) -> Counts {
        match &self.state {
            State::AwaitConsent { storing, .. } | State::Storing(storing) | State::Finishing(storing) => {
                storing.counts
            }
            State::AwaitFarewell(counts) => *counts,
            State::AwaitOffer | State::Ended => Counts::default(),
        }
    }

    fn handle_message(&mut self, message: Message, now: Duration) -> Result<Actions, Violation> {
        if let Message::Refuse(refuse) = message {
            return Ok(self.fail(SessionError::Refused(refuse.into())));
        }
        let awaited = self.awaited();
        match (&mut self.state, message) {
            (State::Ended, _) | (_, Message::KeepAlive) => Ok(Vec::new()),
            (State::AwaitOffer, Message::Offer(offer)) => Ok(self.hear_offer(offer, now)),
            (State::AwaitConsent { storing, .. }, Message::Manifest(batch)) => storing
                .hear_batch(batch)
                .map(|(reports, _)| reports)
                .map(|reports| self.consult(reports, now)),
            (State::AwaitConsent { storing, .. }, Message::ManifestEnd(totals)) => {
                storing.hear_end(totals)?;
                Ok(self.consult(Vec::new(), now))
            }
            (State::Storing(storing), Message::Manifest(batch)) => {
                let (mut actions, plan) = storing.hear_batch(batch)?;
                actions.extend(plan);
                Ok(actions)
            }
            (State::Storing(storing), Message::ManifestEnd(totals)) => {
                storing.hear_end(totals).map(|()| Vec::new())
            }
            (State::AwaitFarewell(counts), Message::Farewell) => {
                let complete = Action::End(Ending::Complete(*counts));
                self.state = State::Ended;
                Ok(vec![complete])
            }
            (
                State::AwaitOffer
                | State::AwaitConsent { .. }
                | State::Storing(_)
                | State::Finishing(_)
                | State::AwaitFarewell(_),
                unexpected,
            ) => Err(Violation::Unexpected { message: unexpected.name(), awaited }),
        }
    }

    fn hear_offer(&mut self, offer: Offer, now: Duration) -> Actions {
        if offer.version != VERSION {
            let detail = format!("version {} was offered, version {VERSION} is spoken here", offer.version);
            return self.stop(Stop::new(Reason::Version, detail));
        }
        self.clock.enter(now);
        self.state = match self.consent {
            Consent::Given => State::Storing(Storing::default()),
            Consent::Pending => State::AwaitConsent { storing: Storing::default(), consulted: false },
        };
        vec![Action::Offered(offer)]
    }

    /// Asks the person once: when all is listed, when no more can be, or when some time has passed.
    fn consult(&mut self, mut actions: Actions, now: Duration) -> Actions {
        let waited = self.clock.in_state(now) >= CONSULT_AFTER;
        if let State::AwaitConsent { storing, consulted: consulted @ false } = &mut self.state {
            let complete = storing.manifest == Manifest::Complete;
            let full = storing.outstanding.room() == 0;
            if complete || full || (waited && storing.counts.listed > 0) {
                *consulted = true;
                actions.push(Action::Consult { complete });
            }
        }
        actions
    }

    fn hear_answer(&mut self, answer: Answer, now: Duration) -> Actions {
        if !matches!(self.state, State::AwaitConsent { .. }) {
            return Vec::new();
        }
        match answer {
            Answer::No => self.stop(Stop::new(Reason::Declined, "")),
            Answer::Yes => {
                let State::AwaitConsent { storing, .. } = std::mem::replace(&mut self.state, State::Ended)
                else {
                    return Vec::new();
                };
                let entries: Vec<_> =
                    storing.outstanding.iter().map(|(_, entry)| Arc::clone(entry)).collect();
                self.clock.enter(now);
                self.state = State::Storing(storing);
                let accept = Action::Send(Message::Accept);
                let plan = (!entries.is_empty()).then_some(Action::Plan { first: EntryId(0), entries });
                std::iter::once(accept).chain(plan).collect()
            }
        }
    }

    fn note_outcomes(&mut self, outcomes: Vec<(EntryId, Outcome)>) -> Actions {
        let target = self.target;
        let State::Storing(storing) = &mut self.state else { return Vec::new() };
        let mut actions = Vec::new();
        let mut want = Want::default();
        for (id, outcome) in outcomes {
            storing.note_outcome(id, outcome, target, &mut want, &mut actions);
        }
        if !want.is_empty() {
            actions.push(Action::Send(Message::Want(want)));
        }
        actions
    }

    fn finish_if_settled(&mut self) -> Actions {
        let State::Storing(storing) = &mut self.state else { return Vec::new() };
        if storing.manifest == Manifest::Open || !storing.outstanding.is_empty() {
            return Vec::new();
        }
        let settled = storing.outcomes.take();
        let State::Storing(storing) = std::mem::replace(&mut self.state, State::Ended) else {
            return Vec::new();
        };
        self.state = State::Finishing(storing);
        settled.map(send_settled).into_iter().chain([Action::Finish]).collect()
    }

    fn finished(&mut self, late: Vec<Problem>, now: Duration) -> Actions {
        let State::Finishing(storing) = &mut self.state else { return Vec::new() };
        let mut actions: Actions = late.iter().cloned().map(Action::Report).collect();
        for problem in &late {
            storing.counts.listed += 1;
            storing.counts.add_problem(problem);
        }
        for late in late.chunks(LATE_PROBLEMS) {
            actions.push(send_settled(Settled { late: late.to_vec(), ..Settled::default() }));
        }
        let counts = storing.counts;
        actions.push(Action::Send(Message::Done(counts)));
        self.clock.enter(now);
        self.state = State::AwaitFarewell(counts);
        actions
    }

    fn tick(&mut self, now: Duration) -> Actions {
        let limit_s = match &self.state {
            State::AwaitOffer => Some(HELLO_TIMEOUT_S),
            State::AwaitConsent { .. } => Some(CONSENT_TIMEOUT_S),
            State::AwaitFarewell(_) => Some(FAREWELL_TIMEOUT_S),
            State::Storing(_) | State::Finishing(_) => None,
            State::Ended => return Vec::new(),
        };
        let mut actions = match limit_s {
            Some(seconds) if self.clock.in_state(now) >= Duration::from_secs(seconds) => {
                return self.time_out(seconds);
            }
            Some(_) | None => match self.clock.due(now) {
                Due::Nothing => Vec::new(),
                Due::KeepAlive => vec![Action::Send(Message::KeepAlive)],
                Due::Silence(seconds) => return self.time_out(seconds),
            },
        };
        if let State::Storing(storing) = &mut self.state {
            actions.extend(storing.outcomes.take().map(send_settled));
        }
        self.consult(actions, now)
    }

    /// Once all is stored and `done` was said, the sender's silence takes nothing back.
    fn time_out(&mut self, seconds: u64) -> Actions {
        if let State::AwaitFarewell(counts) = self.state {
            self.state = State::Ended;
            return vec![Action::End(Ending::Complete(counts))];
        }
        let awaited = self.awaited();
        let refuse = Stop::new(Reason::Timeout, format!("{awaited} did not come for {seconds} s"));
        let mut actions = vec![Action::Send(Message::Refuse(refuse.into()))];
        actions.extend(self.fail(SessionError::Timeout { awaited, seconds }));
        actions
    }

    fn lose(&mut self, detail: String) -> Actions {
        if let State::AwaitFarewell(counts) = self.state {
            self.state = State::Ended;
            return vec![Action::End(Ending::Complete(counts))];
        }
        let awaited = self.awaited();
        self.fail(SessionError::Lost { awaited, detail })
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
            State::AwaitOffer
            | State::AwaitConsent { .. }
            | State::Storing(_)
            | State::Finishing(_)
            | State::AwaitFarewell(_) => vec![Action::End(Ending::Failed(error))],
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
            State::AwaitOffer => "offer",
            State::AwaitConsent { .. } => "consent",
            State::Storing(storing) if storing.manifest == Manifest::Open => "manifest",
            State::Storing(_) => "content",
            State::Finishing(_) => "the end of storing",
            State::AwaitFarewell(_) => "farewell",
            State::Ended => "nothing",
        }
    }
}

impl Storing {
    /// Checks and notes a batch: what to report, and what to plan.
    fn hear_batch(&mut self, batch: Batch) -> Result<(Actions, Option<Action>), Violation> {
        let Batch { first, entries, problems } = batch;
        if self.manifest == Manifest::Complete {
            return Err(Violation::Unexpected { message: "manifest", awaited: "content" });
        }
        if first != self.outstanding.next_id() {
            return Err(Violation::Gap { expected: self.outstanding.next_id(), got: first });
        }
        if entries.len() as u64 > self.outstanding.room() {
            return Err(Violation::Window);
        }
        self.counts.listed += (entries.len() + problems.len()) as u64;
        self.listed.problems += problems.len() as u64;
        problems.iter().for_each(|problem| self.counts.add_problem(problem));
        let reports = problems.into_iter().map(Action::Report).collect();
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            self.order.admit(&entry)?;
            self.listed.entries += 1;
            self.listed.bytes = self.listed.bytes.saturating_add(entry.size());
            let entry = Arc::new(entry);
            self.outstanding.announce(Arc::clone(&entry));
            planned.push(entry);
        }
        let plan = (!planned.is_empty()).then_some(Action::Plan { first, entries: planned });
        Ok((reports, plan))
    }

    fn hear_end(&mut self, totals: Totals) -> Result<(), Violation> {
        if self.manifest == Manifest::Complete {
            return Err(Violation::Unexpected { message: "manifest end", awaited: "content" });
        }
        if totals != self.listed {
            return Err(Violation::Totals);
        }
        self.manifest = Manifest::Complete;
        Ok(())
    }

    fn note_outcome(
        &mut self,
        id: EntryId,
        outcome: Outcome,
        target: TargetView,
        want: &mut Want,
        actions: &mut Actions,
    ) {
        match outcome {
            Outcome::Content if target == TargetView::Empty => {}
            Outcome::Content | Outcome::ContentAgain => Run::append(&mut want.content, id.0),
            Outcome::Digest => Run::append(&mut want.digest, id.0),
            Outcome::Parts { content, digest } => want.parts.push(Parts { id, content, digest }),
            Outcome::Stored => {
                if self.outstanding.settle(id).is_some() {
                    self.counts.sent += 1;
                    self.outcomes.stored(id);
                }
            }
            Outcome::Kept => {
                if self.outstanding.settle(id).is_some() {
                    self.counts.kept += 1;
                    self.outcomes.kept(id);
                }
            }
            Outcome::Problem(problem) => {
                if self.outstanding.settle(id).is_some() {
                    self.counts.add_problem(&problem);
                    actions.push(Action::Report(problem.clone()));
                    self.outcomes.problem(id, problem);
                }
            }
        }
        if self.outcomes.is_full() {
            actions.extend(self.outcomes.take().map(send_settled));
        }
    }
}

fn send_settled(settled: Settled) -> Action {
    Action::Send(Message::Settled(settled))
}
