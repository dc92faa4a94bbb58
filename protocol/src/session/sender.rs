//! The role that has the source: answers an ask or proposes, lists its tree, sends what is needed.

use std::{sync::Arc, time::Duration};

use super::{
    Ending, SessionError, Stop, Violation,
    clock::{Clock, Due},
    last_words,
    listing::{Account, Listing},
};
use crate::{
    limits::{CONSENT_TIMEOUT_S, HELLO_TIMEOUT_S, SILENCE_TIMEOUT_S, VERSION},
    manifest::{Entry, EntryId},
    message::{Ask, Claim, Consent, Counts, Fate, Message, Offer, Propose, Run, TargetView, Totals},
    path::EntryPath,
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
    /// The scan found more, in manifest order. No more entries than [`Sender::room`] says just before.
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
    /// Decide whether this receiver may have what it asks for: [`Input::Admitted`] or [`Input::Denied`]. One
    /// that answers a proposal has accepted it.
    Admit(Ask),
    /// Begin to scan: [`Input::Listed`], then [`Input::ListEnded`].
    List,
    /// Read these and send them as segments.
    Read(Vec<Job>),
    /// Tell a person.
    Report(Problem),
    /// Tell a person, who wants to know everything.
    Settled {
        /// What became of them; in a preview, what would have.
        fate: Fate,
        /// The entries.
        entries: Vec<Arc<Entry>>,
    },
    /// Likewise of what the receiver had and the sender has not.
    Removed(Vec<EntryPath>),
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

/// The state machine. The default one waits for a receiver to ask.
#[derive(Debug, Default)]
pub struct Sender {
    state: State,
    clock: Clock,
    proposed: Option<Propose>,
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
    /// The account as it was at the end.
    Ended(Account),
}

type Actions = Vec<Action>;

impl Sender {
    /// A session that this side begins, and its first actions.
    pub fn propose(propose: Propose) -> (Self, Actions) {
        let sender = Self { proposed: Some(propose.clone()), ..Self::default() };
        (sender, vec![Action::Send(Message::Propose(propose))])
    }

    /// Handles one input; `now` is the time since the session began.
    pub fn handle(&mut self, input: Input, now: Duration) -> Actions {
        if matches!(self.state, State::Ended(_)) {
            return Vec::new();
        }
        let actions = match input {
            Input::Message(message) => {
                self.clock.hear(now);
                self.hear(message, now)
                    .unwrap_or_else(|violation| self.fail(SessionError::Violation(violation)))
            }
            Input::Violation(violation) => self.fail(SessionError::Violation(violation)),
            Input::Admitted { estimate } => self.admit(estimate, now),
            Input::Denied => self.fail(SessionError::Stopped(Stop::new(Reason::NotAdmitted, ""))),
            Input::Listed { entries, problems } => self.list(entries, problems),
            Input::ListEnded => self.end_list(),
            Input::Stop(stop) => self.fail(SessionError::Stopped(stop)),
            Input::Lost(detail) => self.fail(SessionError::Lost { awaited: self.awaited(), detail }),
            Input::Tick => self.tick(now),
        };
        if actions.iter().any(|action| matches!(action, Action::Send(_))) {
            self.clock.speak(now);
        }
        actions
    }

    /// How many entries may be listed now, by one [`Input::Listed`].
    pub fn room(&self) -> u64 {
        self.listing().map_or(0, |listing| listing.outstanding.room())
    }

    /// The account so far; after the end, as it was then.
    pub fn counts(&self) -> Counts {
        self.account().counts
    }

    /// In a preview, bytes of content that the receiver would have needed so far.
    pub fn planned_bytes(&self) -> u64 {
        self.account().planned_bytes
    }

    fn account(&self) -> Account {
        match &self.state {
            State::AwaitAsk | State::AwaitAdmission(_) => Account::default(),
            State::AwaitAccept(listing) | State::Sending(listing) => listing.account,
            State::Ended(account) => *account,
        }
    }

    /// Whether an entry still waits to be settled; content of others need not be read.
    pub fn is_open(&self, id: EntryId) -> bool {
        self.listing().is_some_and(|listing| listing.outstanding.entry(id).is_some())
    }

    fn listing(&self) -> Option<&Listing> {
        match &self.state {
            State::AwaitAccept(listing) | State::Sending(listing) => Some(listing),
            State::AwaitAsk | State::AwaitAdmission(_) | State::Ended(_) => None,
        }
    }

    fn hear(&mut self, message: Message, now: Duration) -> Result<Actions, Violation> {
        let awaited = self.awaited();
        match (&mut self.state, message) {
            (_, Message::KeepAlive) => Ok(Vec::new()),
            (_, Message::Refuse(refuse)) => Ok(self.fail(SessionError::Refused(refuse.into()))),
            (State::AwaitAsk, Message::Ask(ask)) => self.hear_ask(ask, now),
            (State::AwaitAccept(_), Message::Accept) => Ok(self.accepted(now)),
            (State::Sending(listing), Message::Want(want)) => listing.want(want).map(read),
            (State::Sending(listing), Message::Settled(settled)) => listing.settle(settled),
            (State::Sending(listing), Message::Done(counts)) if listing.is_settled() => {
                listing.check_account(counts)?;
                self.state = State::Ended(listing.account);
                Ok(vec![Action::Send(Message::Farewell), Action::End(Ending::Complete(counts))])
            }
            (
                State::AwaitAsk
                | State::AwaitAdmission(_)
                | State::AwaitAccept(_)
                | State::Sending(_)
                | State::Ended(_),
                unexpected,
            ) => Err(Violation::Unexpected { message: unexpected.name(), awaited }),
        }
    }

    fn hear_ask(&mut self, ask: Ask, now: Duration) -> Result<Actions, Violation> {
        if ask.version != VERSION {
            let detail = format!("version {} was asked for, version {VERSION} is spoken here", ask.version);
            return Ok(self.fail(SessionError::Stopped(Stop::new(Reason::Version, detail))));
        }
        if !fits(&ask, self.proposed.as_ref()) {
            return Err(Violation::Claim);
        }
        self.enter(State::AwaitAdmission(ask.clone()), now);
        Ok(vec![Action::Admit(ask)])
    }

    fn admit(&mut self, estimate: Option<Totals>, now: Duration) -> Actions {
        let State::AwaitAdmission(ask) = &self.state else { return Vec::new() };
        let listing = Listing::new(ask, self.proposed.as_ref().map(|proposed| &proposed.policy));
        let admitted = match ask.consent {
            Consent::Given => State::Sending(listing),
            Consent::Pending => State::AwaitAccept(listing),
        };
        self.enter(admitted, now);
        vec![Action::Send(Message::Offer(Offer { version: VERSION, estimate })), Action::List]
    }

    fn accepted(&mut self, now: Duration) -> Actions {
        let State::AwaitAccept(listing) = std::mem::take(&mut self.state) else { return Vec::new() };
        let jobs = listing.pushed();
        self.enter(State::Sending(listing), now);
        read(jobs)
    }

    fn list(&mut self, entries: Vec<Entry>, problems: Vec<Problem>) -> Actions {
        let (listing, may_send) = match &mut self.state {
            State::AwaitAccept(listing) => (listing, false),
            State::Sending(listing) => (listing, true),
            State::AwaitAsk | State::AwaitAdmission(_) | State::Ended(_) => return Vec::new(),
        };
        let mut actions: Actions = problems.iter().cloned().map(Action::Report).collect();
        let (batches, jobs) = listing.announce(entries, problems);
        actions.extend(batches.into_iter().map(Message::Manifest).map(Action::Send));
        if may_send && listing.target == TargetView::Empty {
            actions.extend(read(jobs));
        }
        actions
    }

    fn end_list(&mut self) -> Actions {
        match &mut self.state {
            State::AwaitAccept(listing) | State::Sending(listing) => {
                listing.end_scan().map(Message::ManifestEnd).map(Action::Send).into_iter().collect()
            }
            State::AwaitAsk | State::AwaitAdmission(_) | State::Ended(_) => Vec::new(),
        }
    }

    fn tick(&mut self, now: Duration) -> Actions {
        let limit_s = match &self.state {
            State::AwaitAsk => Some(HELLO_TIMEOUT_S),
            // The receiver gives up first and says so; this is for one that does not.
            State::AwaitAccept(_) => Some(CONSENT_TIMEOUT_S + SILENCE_TIMEOUT_S),
            State::AwaitAdmission(_) | State::Sending(_) | State::Ended(_) => None,
        };
        match self.clock.due(limit_s, now) {
            Due::Nothing => Vec::new(),
            Due::KeepAlive => vec![Action::Send(Message::KeepAlive)],
            Due::TimeOut(seconds) => self.fail(SessionError::Timeout { awaited: self.awaited(), seconds }),
        }
    }

    fn enter(&mut self, state: State, now: Duration) {
        self.clock.enter(now);
        self.state = state;
    }

    fn fail(&mut self, error: SessionError) -> Actions {
        self.state = State::Ended(self.account());
        last_words(error, Action::Send, Action::End)
    }

    fn awaited(&self) -> &'static str {
        match &self.state {
            State::AwaitAsk => "ask",
            State::AwaitAdmission(_) => "admission",
            State::AwaitAccept(_) => "accept",
            State::Sending(listing) if listing.is_settled() => "done",
            State::Sending(_) => "settled",
            State::Ended(_) => "nothing",
        }
    }
}

/// Whether an ask answers what was proposed, or is one of its own where nothing was.
fn fits(ask: &Ask, proposed: Option<&Propose>) -> bool {
    match (&ask.claim, proposed) {
        (Claim::Proposed, Some(proposed)) => {
            ask.session == proposed.session && ask.preview == proposed.policy.preview
        }
        (Claim::Ticket(_) | Claim::Share(_), None) => true,
        (Claim::Proposed, None) | (Claim::Ticket(_) | Claim::Share(_), Some(_)) => false,
    }
}

fn read(jobs: Vec<Job>) -> Actions {
    if jobs.is_empty() { Vec::new() } else { vec![Action::Read(jobs)] }
}
