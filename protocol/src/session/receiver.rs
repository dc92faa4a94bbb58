//! The role that has the target: asks or is asked, plans what it needs, reports what became of it.

mod comparing;
mod said;

use std::{sync::Arc, time::Duration};

use super::{
    Ending, SessionError, Stop, Violation,
    batches::Wants,
    clock::{Clock, Due},
    last_words,
    listing::Account,
    storing::Storing,
};
use crate::{
    difference::{Catalogue, Narrowing},
    limits::{CONSENT_TIMEOUT_S, FAREWELL_TIMEOUT_S, HELLO_TIMEOUT_S, VERSION},
    manifest::{Entry, EntryId},
    message::{
        Ask, Claim, Congestion, Connections, Consent, Counts, Message, Offer, Propose, Root, Selection,
        Settled, TargetView, Totals,
    },
    path::EntryPath,
    problem::{Problem, Reason},
};

pub use said::{Action, Agreed, Answer, Input, Outcome};

/// A person is asked after this long at the latest, with what was listed by then.
const CONSULT_AFTER: Duration = Duration::from_secs(2);

/// The state machine.
#[derive(Debug)]
pub struct Receiver {
    state: State,
    clock: Clock,
    consent: Consent,
    target: TargetView,
    /// What the target holds, until it is compared.
    own: Option<Own>,
    root: Option<Root>,
    narrowing: Option<Narrowing>,
    /// To be said in answer to a proposal.
    congestion: Option<Congestion>,
}

/// What is compared with the sender's tree.
#[derive(Debug)]
struct Own {
    catalogue: Arc<Catalogue>,
    agreed: Option<Agreed>,
}

#[derive(Debug)]
enum State {
    /// The proposal is being judged.
    AwaitAdmission(Propose),
    /// Asked; the sender has not answered.
    AwaitOffer,
    /// The tree is being listed; nothing is written before the person agrees.
    AwaitConsent { storing: Storing, consulted: bool },
    /// The sender makes its catalogue.
    AwaitRoot(Storing),
    /// Its root was heard; this side still makes its own.
    AwaitCatalogue(Storing),
    /// The two are compared.
    Narrowing(Storing),
    /// Entries are planned, content is stored.
    Storing(Storing),
    /// All is settled; directories and durability are left.
    Finishing(Storing),
    /// Done was said.
    AwaitFarewell(Account),
    /// The account as it was at the end.
    Ended(Account),
}

type Actions = Vec<Action>;

impl Receiver {
    /// A session that this side begins with `ask`, and its first actions.
    pub fn new(ask: Ask) -> (Self, Actions) {
        let mut receiver = Self::in_state(State::AwaitOffer);
        let actions = receiver.ask(ask);
        (receiver, actions)
    }

    /// A session that a sender proposes, and its first actions.
    pub fn answer(propose: Propose) -> (Self, Actions) {
        let mut receiver = Self::in_state(State::AwaitAdmission(propose.clone()));
        let actions = if propose.version == VERSION {
            vec![Action::Admit(propose)]
        } else {
            receiver.part("proposed", propose.version)
        };
        (receiver, actions)
    }

    fn in_state(state: State) -> Self {
        let (consent, target) = (Consent::Given, TargetView::Occupied);
        let clock = Clock::default();
        Self { state, clock, consent, target, own: None, root: None, narrowing: None, congestion: None }
    }

    /// What this side has on the connection, to be said in answer to a proposal. To be known before it is admitted.
    pub fn tell_congestion(&mut self, congestion: Congestion) {
        self.congestion = Some(congestion);
    }

    /// Handles one input; `now` is the time since the session began.
    pub fn handle(&mut self, input: Input, now: Duration) -> Actions {
        if matches!(self.state, State::Ended(_)) {
            return Vec::new();
        }
        let mut actions = match input {
            Input::Message(message) => {
                self.clock.hear(now);
                self.hear(message, now)
                    .unwrap_or_else(|violation| self.fail(SessionError::Violation(violation)))
            }
            Input::Violation(violation) => self.fail(SessionError::Violation(violation)),
            Input::Admitted { target, connections } => self.admit(target, connections, now),
            Input::Denied => self.fail(SessionError::Stopped(Stop::new(Reason::NotAdmitted, ""))),
            Input::Catalogued { catalogue, agreed } => self
                .catalogued(Own { catalogue, agreed }, now)
                .unwrap_or_else(|violation| self.fail(SessionError::Violation(violation))),
            Input::Consent(answer) => self.hear_answer(answer, now),
            Input::Outcomes(outcomes) => self.note_outcomes(outcomes),
            Input::Removed(paths) => self.note_removed(paths),
            Input::Planned { bytes } => self.note_planned(bytes),
            Input::Finished { late } => self.finished(late, now),
            Input::Stop(stop) => self.stop(stop),
            Input::Lost(detail) => {
                let awaited = self.awaited();
                self.lose(SessionError::Lost { awaited, detail })
            }
            Input::Tick => self.tick(now),
        };
        actions.extend(self.consult(now));
        actions.extend(self.finish_if_settled());
        if actions.iter().any(|action| matches!(action, Action::Send(_))) {
            self.clock.speak(now);
        }
        actions
    }

    /// What was listed so far: totals, and whether that is all.
    pub fn listed(&self) -> (Totals, bool) {
        self.storing().map_or_else(Default::default, |storing| (storing.listed, storing.is_listed()))
    }

    /// The root of the sender's catalogue, once it was heard; also after the end.
    pub fn root(&self) -> Option<Root> {
        self.root
    }

    /// Once, from [`Action::Compared`] on: what of the target is not equal to anything of the sender. Nothing
    /// where the trees are equal, or are those of an earlier session that left nothing to do.
    pub fn take_narrowing(&mut self) -> Option<Narrowing> {
        match self.state {
            State::Storing(_) | State::Finishing(_) => self.narrowing.take(),
            State::AwaitAdmission(_)
            | State::AwaitOffer
            | State::AwaitConsent { .. }
            | State::AwaitRoot(_)
            | State::AwaitCatalogue(_)
            | State::Narrowing(_)
            | State::AwaitFarewell(_)
            | State::Ended(_) => None,
        }
    }

    /// Entries that were listed and are not settled; while a person is asked, all of them.
    pub fn open_entries(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.storing().into_iter().flat_map(|storing| storing.outstanding.iter().map(|(_, entry)| entry))
    }

    /// How many entries were listed and are not settled.
    pub fn open_count(&self) -> usize {
        self.storing().map_or(0, |storing| storing.outstanding.count())
    }

    /// Whether nothing more can be listed before something is settled.
    pub fn is_full(&self) -> bool {
        self.storing().is_some_and(|storing| storing.outstanding.room() == 0)
    }

    /// An entry that was listed and is not settled.
    pub fn open_entry(&self, id: EntryId) -> Option<&Arc<Entry>> {
        self.storing()?.outstanding.entry(id)
    }

    /// The account so far; after the end, as it was then.
    pub fn counts(&self) -> Counts {
        self.account().counts
    }

    /// In a preview, bytes of content that would have been needed so far.
    pub fn planned_bytes(&self) -> u64 {
        self.account().planned_bytes
    }

    fn account(&self) -> Account {
        match &self.state {
            State::AwaitAdmission(_) | State::AwaitOffer => Account::default(),
            State::AwaitConsent { storing, .. }
            | State::AwaitRoot(storing)
            | State::AwaitCatalogue(storing)
            | State::Narrowing(storing)
            | State::Storing(storing)
            | State::Finishing(storing) => storing.account,
            State::AwaitFarewell(account) | State::Ended(account) => *account,
        }
    }

    fn storing(&self) -> Option<&Storing> {
        match &self.state {
            State::AwaitConsent { storing, .. }
            | State::AwaitRoot(storing)
            | State::AwaitCatalogue(storing)
            | State::Narrowing(storing)
            | State::Storing(storing)
            | State::Finishing(storing) => Some(storing),
            State::AwaitAdmission(_) | State::AwaitOffer | State::AwaitFarewell(_) | State::Ended(_) => None,
        }
    }

    fn hear(&mut self, message: Message, now: Duration) -> Result<Actions, Violation> {
        let awaited = self.awaited();
        match (&mut self.state, message) {
            (_, Message::KeepAlive) => Ok(Vec::new()),
            (_, Message::Refuse(refuse)) => Ok(self.fail(SessionError::Refused(refuse.into()))),
            (State::AwaitOffer, Message::Offer(offer)) => Ok(self.hear_offer(offer, now)),
            (State::AwaitConsent { storing, .. }, Message::Manifest(batch)) if !storing.is_listed() => {
                storing.hear_batch(batch).map(|(reports, _)| reports)
            }
            (State::Storing(storing), Message::Manifest(batch)) if !storing.is_listed() => {
                let (mut actions, plan) = storing.hear_batch(batch)?;
                actions.extend(plan);
                Ok(actions)
            }
            (State::AwaitConsent { storing, .. } | State::Storing(storing), Message::ManifestEnd(totals))
                if !storing.is_listed() =>
            {
                storing.hear_end(totals).map(|()| Vec::new())
            }
            (State::AwaitRoot(storing), Message::Manifest(batch)) => storing.hear_unasked(batch),
            (State::AwaitRoot(_), Message::Root(root)) => self.hear_root(root, now),
            (State::Narrowing(_), Message::Nodes(nodes)) => self.hear_nodes(&nodes, now),
            (State::AwaitFarewell(account), Message::Farewell) => {
                let account = *account;
                Ok(self.complete(account))
            }
            (
                State::AwaitAdmission(_)
                | State::AwaitOffer
                | State::AwaitConsent { .. }
                | State::AwaitRoot(_)
                | State::AwaitCatalogue(_)
                | State::Narrowing(_)
                | State::Storing(_)
                | State::Finishing(_)
                | State::AwaitFarewell(_)
                | State::Ended(_),
                unexpected,
            ) => Err(Violation::Unexpected { message: unexpected.name(), awaited }),
        }
    }

    fn admit(&mut self, target: TargetView, connections: Connections, now: Duration) -> Actions {
        let State::AwaitAdmission(proposed) = &self.state else { return Vec::new() };
        let preview = proposed.policy.preview;
        let ask = Ask {
            version: VERSION,
            session: proposed.session,
            claim: Claim::Proposed,
            consent: Consent::Given,
            target,
            selection: Selection::default(),
            preview,
            connections,
            controller: None,
            congestion: self.congestion.take(),
            missed: Vec::new(),
        };
        self.enter(State::AwaitOffer, now);
        self.ask(ask)
    }

    fn ask(&mut self, mut ask: Ask) -> Actions {
        if ask.preview && ask.target == TargetView::Empty {
            // Into nothing, content would come unasked.
            ask.target = TargetView::Occupied;
        }
        (self.consent, self.target) = (ask.consent, ask.target);
        let catalogue = (ask.target == TargetView::Comparable).then_some(Action::Catalogue);
        [Action::Send(Message::Ask(ask))].into_iter().chain(catalogue).collect()
    }

    /// Ends a session with a side that speaks another version.
    fn part(&mut self, said: &str, version: u32) -> Actions {
        let detail = format!("version {version} was {said}, version {VERSION} is spoken here");
        self.fail(SessionError::Stopped(Stop::new(Reason::Version, detail)))
    }

    fn hear_offer(&mut self, offer: Offer, now: Duration) -> Actions {
        if offer.version != VERSION {
            return self.part("offered", offer.version);
        }
        let storing = Storing::default();
        let admitted = match (self.target, self.consent) {
            (TargetView::Comparable, _) => State::AwaitRoot(storing),
            (TargetView::Empty | TargetView::Occupied, Consent::Given) => State::Storing(storing),
            (TargetView::Empty | TargetView::Occupied, Consent::Pending) => {
                State::AwaitConsent { storing, consulted: false }
            }
        };
        self.enter(admitted, now);
        vec![Action::Offered(offer)]
    }

    /// Asks the person once: when all is listed, when no more can be, or when some time has passed.
    fn consult(&mut self, now: Duration) -> Option<Action> {
        let waited = self.clock.in_state(now) >= CONSULT_AFTER;
        let State::AwaitConsent { storing, consulted: consulted @ false } = &mut self.state else {
            return None;
        };
        let complete = storing.is_listed();
        let full = storing.outstanding.room() == 0;
        *consulted = complete || full || (waited && storing.account.counts.listed > 0);
        consulted.then_some(Action::Consult { complete })
    }

    fn hear_answer(&mut self, answer: Answer, now: Duration) -> Actions {
        let State::AwaitConsent { storing, .. } = &mut self.state else { return Vec::new() };
        match answer {
            Answer::No => self.fail(SessionError::Stopped(Stop::new(Reason::Declined, ""))),
            Answer::Yes => {
                let storing = std::mem::take(storing);
                let plan = storing.plan_all();
                self.enter(State::Storing(storing), now);
                [Action::Send(Message::Accept)].into_iter().chain(plan).collect()
            }
        }
    }

    fn note_outcomes(&mut self, outcomes: Vec<(EntryId, Outcome)>) -> Actions {
        let State::Storing(storing) = &mut self.state else { return Vec::new() };
        let mut actions = Vec::new();
        let mut wants = Wants::default();
        for (id, outcome) in outcomes {
            actions.extend(storing.note_outcome(id, outcome, self.target, &mut wants));
            actions.extend(storing.outcomes.take_full().map(send_settled));
        }
        actions.extend(wants.finish().into_iter().map(Message::Want).map(Action::Send));
        actions
    }

    fn note_removed(&mut self, paths: Vec<EntryPath>) -> Actions {
        let (State::Storing(storing) | State::Finishing(storing)) = &mut self.state else {
            return Vec::new();
        };
        let mut actions = Vec::new();
        for path in paths {
            storing.note_removed(path);
            actions.extend(storing.outcomes.take_full().map(send_settled));
        }
        actions
    }

    fn note_planned(&mut self, bytes: u64) -> Actions {
        let (State::Storing(storing) | State::Finishing(storing)) = &mut self.state else {
            return Vec::new();
        };
        storing.note_planned(bytes);
        Vec::new()
    }

    fn finish_if_settled(&mut self) -> Actions {
        let State::Storing(storing) = &mut self.state else { return Vec::new() };
        if !storing.is_settled() {
            return Vec::new();
        }
        let mut storing = std::mem::take(storing);
        let settled = storing.outcomes.take();
        self.state = State::Finishing(storing);
        settled.map(send_settled).into_iter().chain([Action::Finish]).collect()
    }

    fn finished(&mut self, late: Vec<Problem>, now: Duration) -> Actions {
        let State::Finishing(storing) = &mut self.state else { return Vec::new() };
        let mut actions: Actions = late.iter().cloned().map(Action::Report).collect();
        for problem in late {
            storing.note_late(problem);
            actions.extend(storing.outcomes.take_full().map(send_settled));
        }
        actions.extend(storing.outcomes.take().map(send_settled));
        let account = storing.account;
        self.enter(State::AwaitFarewell(account), now);
        actions.push(Action::Send(Message::Done(account.counts)));
        actions
    }

    fn tick(&mut self, now: Duration) -> Actions {
        let limit_s = match &self.state {
            State::AwaitOffer => Some(HELLO_TIMEOUT_S),
            State::AwaitConsent { .. } => Some(CONSENT_TIMEOUT_S),
            State::AwaitFarewell(_) => Some(FAREWELL_TIMEOUT_S),
            State::AwaitAdmission(_)
            | State::AwaitRoot(_)
            | State::AwaitCatalogue(_)
            | State::Narrowing(_)
            | State::Storing(_)
            | State::Finishing(_)
            | State::Ended(_) => None,
        };
        match self.clock.due(limit_s, now) {
            Due::TimeOut(seconds) => self.time_out(seconds),
            Due::KeepAlive => self.flush().or(Some(Action::Send(Message::KeepAlive))).into_iter().collect(),
            Due::Nothing => self.flush().into_iter().collect(),
        }
    }

    /// Says which outcomes were collected.
    fn flush(&mut self) -> Option<Action> {
        let (State::Storing(storing) | State::Finishing(storing)) = &mut self.state else { return None };
        storing.outcomes.take().map(send_settled)
    }

    fn time_out(&mut self, seconds: u64) -> Actions {
        if matches!(self.state, State::AwaitConsent { .. }) && seconds == CONSENT_TIMEOUT_S {
            let detail = format!("nobody answered for {seconds} s");
            return self.fail(SessionError::Stopped(Stop::new(Reason::Declined, detail)));
        }
        let awaited = self.awaited();
        self.lose(SessionError::Timeout { awaited, seconds })
    }

    /// Ends a session whose sender is gone. Once `done` was said all is stored, and that takes nothing back.
    fn lose(&mut self, error: SessionError) -> Actions {
        match self.state {
            State::AwaitFarewell(account) => self.complete(account),
            State::AwaitAdmission(_)
            | State::AwaitOffer
            | State::AwaitConsent { .. }
            | State::AwaitRoot(_)
            | State::AwaitCatalogue(_)
            | State::Narrowing(_)
            | State::Storing(_)
            | State::Finishing(_)
            | State::Ended(_) => self.fail(error),
        }
    }

    fn enter(&mut self, state: State, now: Duration) {
        self.clock.enter(now);
        self.state = state;
    }

    fn complete(&mut self, account: Account) -> Actions {
        self.state = State::Ended(account);
        vec![Action::End(Ending::Complete(account.counts))]
    }

    /// Ends by this side's will. What was done, or would be in a dry run, is told before.
    fn stop(&mut self, stop: Stop) -> Actions {
        let mut actions: Actions = match &mut self.state {
            State::Storing(storing) | State::Finishing(storing) => {
                storing.outcomes.take().map(send_settled).into_iter().collect()
            }
            State::AwaitAdmission(_)
            | State::AwaitOffer
            | State::AwaitConsent { .. }
            | State::AwaitRoot(_)
            | State::AwaitCatalogue(_)
            | State::Narrowing(_)
            | State::AwaitFarewell(_)
            | State::Ended(_) => Actions::new(),
        };
        actions.extend(self.fail(SessionError::Stopped(stop)));
        actions
    }

    fn fail(&mut self, error: SessionError) -> Actions {
        self.state = State::Ended(self.account());
        last_words(error, Action::Send, Action::End)
    }

    fn awaited(&self) -> &'static str {
        match &self.state {
            State::AwaitAdmission(_) => "admission",
            State::AwaitOffer => "offer",
            State::AwaitConsent { .. } => "consent",
            State::AwaitRoot(_) => "root",
            State::AwaitCatalogue(_) => "the catalogue",
            State::Narrowing(_) => "nodes",
            State::Storing(storing) if storing.is_listed() => "content",
            State::Storing(_) => "manifest",
            State::Finishing(_) => "the end of storing",
            State::AwaitFarewell(_) => "farewell",
            State::Ended(_) => "nothing",
        }
    }
}

fn send_settled(settled: Settled) -> Action {
    Action::Send(Message::Settled(settled))
}
