//! Two sessions, the link between them, and the clock that only moves when nothing is left to do.

use std::time::Duration;

use ketch_protocol::{
    limits::VERSION,
    message::{
        Ask, Claim, Connections, Consent, Counts, Place, Policy, Propose, Removal, Secret, Selection,
        SessionId, ShareName, TargetView,
    },
    session::{Ending, TICK, receiver, sender},
};

use crate::{
    Side,
    link::{Arrival, Link},
    source::Source,
    target::Target,
    tree::Tree,
};

/// Long enough for flights to be told from ticks.
pub const LATENCY: Duration = Duration::from_secs(1);

/// Longer than any timeout of the protocol: a session that still runs hangs.
const PATIENCE: Duration = Duration::from_secs(700);

/// The world.
#[derive(Debug)]
pub struct World {
    /// Since the session began.
    pub now: Duration,
    /// For how much of that no content was under way.
    pub idle: Duration,
    /// Between the sides.
    pub link: Link,
    /// The sender's side.
    pub source: Source,
    /// The receiver's side.
    pub target: Target,
    next_tick: Duration,
    first: Option<First>,
}

/// How a session begins.
#[derive(Debug)]
enum First {
    Ask(Ask),
    Propose(Propose),
}

/// What a receiver asks that has a ticket.
pub fn ask(consent: Consent, target: TargetView) -> Ask {
    Ask {
        version: VERSION,
        session: SessionId([5; 16]),
        claim: Claim::Ticket(Secret::from_bytes([7; 16])),
        consent,
        target,
        selection: Selection::default(),
        preview: false,
        connections: Connections::ONE,
        controller: None,
        congestion: None,
        missed: Vec::new(),
    }
}

fn share() -> Place {
    Place { share: ShareName::parse("photos").expect("it is a name"), path: None }
}

impl World {
    /// A source with `tree`, a target with nothing, a link without a bandwidth.
    pub fn new(tree: Tree, consent: Consent, view: TargetView) -> Self {
        Self {
            now: Duration::ZERO,
            idle: Duration::ZERO,
            link: Link::new(LATENCY),
            source: Source::new(tree, Secret::from_bytes([7; 16])),
            target: Target::new(Tree::new()),
            next_tick: TICK,
            first: Some(First::Ask(ask(consent, view))),
        }
    }

    /// A receiver that makes its tree the same as that of a share, and removes what is too much.
    pub fn pull(tree: Tree, there: Tree) -> Self {
        let mut world = Self::new(tree, Consent::Given, TargetView::Comparable);
        let claim = Claim::Share(share());
        world.first = Some(First::Ask(Ask { claim, ..ask(Consent::Given, TargetView::Comparable) }));
        world.target.tree = there;
        (world.target.overwrite, world.target.remove) = (true, true);
        world
    }

    /// A sender that makes a share the same as its tree likewise.
    pub fn push(tree: Tree, there: Tree, policy: Policy) -> Self {
        let mut world = Self::pull(tree, there);
        world.target.remove = policy.removal != Removal::Nothing;
        world.first = Some(First::Propose(Propose {
            version: VERSION,
            session: SessionId([5; 16]),
            place: share(),
            selection: Selection::default(),
            policy,
            connections: Connections::ONE,
            controller: None,
        }));
        world
    }

    /// A fresh copy that needs no question.
    pub fn fresh(tree: Tree) -> Self {
        Self::new(tree, Consent::Given, TargetView::Empty)
    }

    /// A target that holds something.
    pub fn onto(tree: Tree, there: Tree) -> Self {
        let mut world = Self::new(tree, Consent::Given, TargetView::Occupied);
        world.target.tree = there;
        world
    }

    /// Runs until both sides have ended.
    pub fn run(&mut self) {
        self.run_until(PATIENCE);
        assert!(self.source.ending.is_some(), "the sender hangs");
        assert!(self.target.ending.is_some(), "the receiver hangs");
    }

    /// Runs until both sides have ended or the time has come.
    pub fn run_until(&mut self, end: Duration) {
        match self.first.take() {
            Some(First::Ask(ask)) => self.target.ask(ask, self.now, &mut self.link),
            Some(First::Propose(propose)) => self.source.propose(propose, self.now, &mut self.link),
            None => {}
        }
        while self.now < end && !self.has_ended() {
            self.deliver();
            if self.has_ended() {
                return;
            }
            let next = self.link.next_arrival().unwrap_or(self.next_tick).min(self.next_tick);
            self.advance(next.max(self.now));
            if self.now == self.next_tick {
                self.deliver();
                self.tick();
            }
        }
    }

    fn has_ended(&self) -> bool {
        self.source.ending.is_some() && self.target.ending.is_some()
    }

    fn advance(&mut self, to: Duration) {
        if !self.link.is_busy() {
            self.idle += to - self.now;
        }
        self.now = to;
    }

    fn deliver(&mut self) {
        loop {
            let to_sender = self.link.take(Side::Sender, self.now);
            let to_receiver = self.link.take(Side::Receiver, self.now);
            if to_sender.is_none() && to_receiver.is_none() {
                return self.source.go_on(self.now, &mut self.link);
            }
            let (now, link) = (self.now, &mut self.link);
            match to_sender {
                Some(Arrival::Bytes { bytes, .. }) => self.source.hear(&bytes, now, link),
                Some(Arrival::Lost) => self.source.handle(sender::Input::Lost("reset".into()), now, link),
                None => {}
            }
            match to_receiver {
                Some(Arrival::Bytes { stream, bytes }) => self.target.hear(stream, &bytes, now, link),
                Some(Arrival::Lost) => self.target.handle(receiver::Input::Lost("reset".into()), now, link),
                None => {}
            }
        }
    }

    fn tick(&mut self) {
        self.next_tick += TICK;
        self.source.handle(sender::Input::Tick, self.now, &mut self.link);
        self.target.handle(receiver::Input::Tick, self.now, &mut self.link);
    }

    /// The endings of the sender and of the receiver.
    pub fn endings(&self) -> (&Ending, &Ending) {
        let ended = "run() goes on until both have ended";
        (self.source.ending.as_ref().expect(ended), self.target.ending.as_ref().expect(ended))
    }

    /// Runs, and demands that both sides agree that all is well.
    pub fn run_to_completion(&mut self) {
        self.run();
        let (Ending::Complete(sent), Ending::Complete(stored)) = self.endings() else {
            panic!("{:?}", self.endings());
        };
        assert_eq!(sent, stored);
        assert_eq!(sent.sent + sent.kept + sent.skipped + sent.failed, sent.listed);
        assert!(sent.listed >= self.source.tree.len() as u64, "{sent:?}");
    }

    /// The account of the sender, which equals the receiver's once both have completed.
    pub fn counts(&self) -> Counts {
        self.source.machine.counts()
    }

    /// One-way journeys until both sides had ended.
    pub fn flights(&self) -> f64 {
        self.now.as_secs_f64() / self.link.latency.as_secs_f64()
    }
}
