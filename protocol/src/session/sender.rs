//! The role that has the source: answers an ask or proposes, lists its tree, sends what is needed.

use std::{sync::Arc, time::Duration};

use super::{
    Ending, SessionError, Stop, Violation,
    answering::Answering,
    clock::{Clock, Due},
    last_words,
    listing::{Account, Listing},
};
use crate::{
    difference::Catalogue,
    limits::{CONSENT_TIMEOUT_S, HELLO_TIMEOUT_S, SILENCE_TIMEOUT_S, VERSION},
    manifest::{Entry, EntryId},
    message::{
        Ask, Claim, Congestion, Connections, Consent, Counts, DiskId, Fate, List, Message, Offer, Propose,
        Run, TargetView, Totals,
    },
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
    /// The ask may be answered with what is known of the tree.
    Admitted {
        /// What was counted so far, if counting has ended.
        estimate: Option<Totals>,
        /// How many connections this side takes.
        connections: Connections,
        /// On what it lies.
        disk: Option<DiskId>,
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
    /// All of the tree was catalogued.
    Catalogued {
        /// The catalogue.
        catalogue: Arc<Catalogue>,
        /// What is left out.
        problems: Vec<Problem>,
    },
    /// The control stream takes another batch: answers [`Sender::may_announce`].
    Room,
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
    /// Make a catalogue of the tree: [`Input::Catalogued`].
    Catalogue,
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
    /// What it consists of.
    Recipe,
    /// The chunks of these bytes, for each run.
    Lists(Vec<Run>),
    /// The content of these bytes, for each run.
    Pieces(Vec<Run>),
}

/// The state machine. The default one waits for a receiver to ask.
#[derive(Debug, Default)]
pub struct Sender {
    state: State,
    clock: Clock,
    proposed: Option<Propose>,
    /// To be said in the offer.
    congestion: Option<Congestion>,
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
    /// The tree is being catalogued.
    Cataloguing(Listing),
    /// The root was said: the receiver compares.
    Comparing(Listing),
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

    /// What this side has on the connection, to be said in the offer. To be known before the receiver is admitted.
    pub fn tell_congestion(&mut self, congestion: Congestion) {
        self.congestion = Some(congestion);
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
            Input::Admitted { estimate, connections, disk } => self.admit(estimate, connections, disk, now),
            Input::Denied => self.fail(SessionError::Stopped(Stop::new(Reason::NotAdmitted, ""))),
            Input::Listed { entries, problems } => self.list(entries, problems),
            Input::ListEnded => self.end_list(),
            Input::Catalogued { catalogue, problems } => self.catalogued(catalogue, problems, now),
            Input::Room => self.announce_asked(),
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
        self.listing().map_or(0, Listing::room)
    }

    /// Whether entries that the receiver asked for wait to be announced, by [`Input::Room`].
    pub fn may_announce(&self) -> bool {
        self.listing().is_some_and(Listing::may_announce)
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
            State::AwaitAccept(listing)
            | State::Cataloguing(listing)
            | State::Comparing(listing)
            | State::Sending(listing) => listing.account,
            State::Ended(account) => *account,
        }
    }

    /// Whether an entry still waits to be settled; content of others need not be read.
    pub fn is_open(&self, id: EntryId) -> bool {
        self.listing().is_some_and(|listing| listing.outstanding.entry(id).is_some())
    }

    fn listing(&self) -> Option<&Listing> {
        match &self.state {
            State::AwaitAccept(listing)
            | State::Cataloguing(listing)
            | State::Comparing(listing)
            | State::Sending(listing) => Some(listing),
            State::AwaitAsk | State::AwaitAdmission(_) | State::Ended(_) => None,
        }
    }

    /// Takes it out of a state that is left at once.
    fn take_listing(&mut self) -> Option<Listing> {
        match std::mem::take(&mut self.state) {
            State::AwaitAccept(listing)
            | State::Cataloguing(listing)
            | State::Comparing(listing)
            | State::Sending(listing) => Some(listing),
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
            (State::Comparing(listing), Message::Expand(expand)) => {
                Ok(listing.expand(&expand)?.into_iter().map(Message::Nodes).map(Action::Send).collect())
            }
            (State::Comparing(_), Message::List(list)) => self.hear_list(list, now),
            (State::Sending(listing), Message::List(list)) if listing.may_be_asked() => {
                self.hear_list(list, now)
            }
            (State::Comparing(listing), Message::Done(counts)) => {
                // What was not asked for is kept.
                listing.end_scan();
                self.hear_done(counts)
            }
            (State::Sending(listing), Message::Want(want)) => listing.want(want).map(read),
            (State::Comparing(listing) | State::Sending(listing), Message::Settled(settled)) => {
                listing.settle(settled)
            }
            (State::Sending(listing), Message::Done(counts)) if listing.is_settled() => {
                self.hear_done(counts)
            }
            (
                State::AwaitAsk
                | State::AwaitAdmission(_)
                | State::AwaitAccept(_)
                | State::Cataloguing(_)
                | State::Comparing(_)
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

    fn admit(
        &mut self,
        estimate: Option<Totals>,
        connections: Connections,
        disk: Option<DiskId>,
        now: Duration,
    ) -> Actions {
        let State::AwaitAdmission(ask) = &self.state else { return Vec::new() };
        let listing = Listing::new(ask, self.proposed.as_ref().map(|proposed| &proposed.policy));
        let (admitted, scan) = match (ask.target, ask.consent) {
            (TargetView::Comparable, _) => (State::Cataloguing(listing), Action::Catalogue),
            (TargetView::Empty | TargetView::Occupied, Consent::Given) => {
                (State::Sending(listing), Action::List)
            }
            (TargetView::Empty | TargetView::Occupied, Consent::Pending) => {
                (State::AwaitAccept(listing), Action::List)
            }
        };
        self.enter(admitted, now);
        let offer =
            Offer { version: VERSION, estimate, connections, congestion: self.congestion.take(), disk };
        vec![Action::Send(Message::Offer(offer)), scan]
    }

    fn catalogued(&mut self, catalogue: Arc<Catalogue>, problems: Vec<Problem>, now: Duration) -> Actions {
        if !matches!(self.state, State::Cataloguing(_)) {
            return Vec::new();
        }
        let Some(mut listing) = self.take_listing() else { return Vec::new() };
        let mut actions = announce(&mut listing, Vec::new(), problems).0;
        actions.push(Action::Send(Message::Root(listing.compare(Answering::new(catalogue)))));
        self.enter(State::Comparing(listing), now);
        actions
    }

    fn hear_list(&mut self, list: List, now: Duration) -> Result<Actions, Violation> {
        let Some(mut listing) = self.take_listing() else { return Ok(Vec::new()) };
        let asked = listing.ask(list);
        self.enter(State::Sending(listing), now);
        Ok(asked?.map(Message::ManifestEnd).map(Action::Send).into_iter().collect())
    }

    fn announce_asked(&mut self) -> Actions {
        let State::Sending(listing) = &mut self.state else { return Vec::new() };
        let (batches, totals) = listing.announce_asked();
        let batches = batches.into_iter().map(Message::Manifest);
        batches.chain(totals.map(Message::ManifestEnd)).map(Action::Send).collect()
    }

    fn hear_done(&mut self, counts: Counts) -> Result<Actions, Violation> {
        if let State::Comparing(listing) | State::Sending(listing) = &self.state {
            listing.check_account(counts)?;
        }
        self.state = State::Ended(self.account());
        Ok(vec![Action::Send(Message::Farewell), Action::End(Ending::Complete(counts))])
    }

    fn accepted(&mut self, now: Duration) -> Actions {
        let Some(listing) = self.take_listing() else { return Vec::new() };
        let jobs = listing.pushed();
        self.enter(State::Sending(listing), now);
        read(jobs)
    }

    fn list(&mut self, entries: Vec<Entry>, problems: Vec<Problem>) -> Actions {
        let (listing, may_send) = match &mut self.state {
            State::AwaitAccept(listing) if listing.is_scanning() => (listing, false),
            State::Sending(listing) if listing.is_scanning() => (listing, true),
            State::AwaitAsk
            | State::AwaitAdmission(_)
            | State::AwaitAccept(_)
            | State::Cataloguing(_)
            | State::Comparing(_)
            | State::Sending(_)
            | State::Ended(_) => return Vec::new(),
        };
        let (mut actions, jobs) = announce(listing, entries, problems);
        if may_send && listing.target == TargetView::Empty {
            actions.extend(read(jobs));
        }
        actions
    }

    fn end_list(&mut self) -> Actions {
        match &mut self.state {
            State::AwaitAccept(listing) | State::Sending(listing) if listing.is_scanning() => {
                listing.end_scan().map(Message::ManifestEnd).map(Action::Send).into_iter().collect()
            }
            State::AwaitAsk
            | State::AwaitAdmission(_)
            | State::AwaitAccept(_)
            | State::Cataloguing(_)
            | State::Comparing(_)
            | State::Sending(_)
            | State::Ended(_) => Vec::new(),
        }
    }

    fn tick(&mut self, now: Duration) -> Actions {
        let limit_s = match &self.state {
            State::AwaitAsk => Some(HELLO_TIMEOUT_S),
            // The receiver gives up first and says so; this is for one that does not.
            State::AwaitAccept(_) => Some(CONSENT_TIMEOUT_S + SILENCE_TIMEOUT_S),
            State::AwaitAdmission(_)
            | State::Cataloguing(_)
            | State::Comparing(_)
            | State::Sending(_)
            | State::Ended(_) => None,
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
            State::Cataloguing(_) => "the catalogue",
            State::Comparing(_) => "expand",
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

/// Says what was found; and the jobs that follow when the receiver has nothing.
fn announce(listing: &mut Listing, entries: Vec<Entry>, problems: Vec<Problem>) -> (Actions, Vec<Job>) {
    let reports: Actions = problems.iter().cloned().map(Action::Report).collect();
    let (batches, jobs) = listing.announce(entries, problems);
    let said = batches.into_iter().map(Message::Manifest).map(Action::Send);
    (reports.into_iter().chain(said).collect(), jobs)
}

fn read(jobs: Vec<Job>) -> Actions {
    if jobs.is_empty() { Vec::new() } else { vec![Action::Read(jobs)] }
}
