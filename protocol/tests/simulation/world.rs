//! Two sessions, the link between them, and the clock that only moves when nothing is left to do.

use std::time::Duration;

use ketch_protocol::{
    limits::VERSION,
    message::{Ask, Claim, Consent, Counts, Secret, Selection, SessionId, TargetView},
    session::{Ending, TICK, receiver, sender},
};

use super::{
    Side,
    link::{Arrival, Link},
    source::Source,
    target::Target,
    tree::Tree,
};

/// Long enough for flights to be told from ticks.
pub(crate) const LATENCY: Duration = Duration::from_secs(1);

/// Longer than any timeout of the protocol: a session that still runs hangs.
const PATIENCE: Duration = Duration::from_secs(700);

pub(crate) struct World {
    pub(crate) now: Duration,
    pub(crate) link: Link,
    pub(crate) source: Source,
    pub(crate) target: Target,
    next_tick: Duration,
    first_actions: Vec<receiver::Action>,
}

pub(crate) fn ask(consent: Consent, target: TargetView) -> Ask {
    Ask {
        version: VERSION,
        session: SessionId([5; 16]),
        claim: Claim::Ticket(Secret::from_bytes([7; 16])),
        consent,
        target,
        selection: Selection::default(),
        preview: false,
    }
}

impl World {
    /// A source with `tree`, a target with nothing, a link without a bandwidth.
    pub(crate) fn new(tree: Tree, consent: Consent, view: TargetView) -> Self {
        let (target, first_actions) = Target::new(ask(consent, view), Tree::new());
        Self {
            now: Duration::ZERO,
            link: Link::new(LATENCY),
            source: Source::new(tree, Secret::from_bytes([7; 16])),
            target,
            next_tick: TICK,
            first_actions,
        }
    }

    /// A fresh copy that needs no question.
    pub(crate) fn fresh(tree: Tree) -> Self {
        Self::new(tree, Consent::Given, TargetView::Empty)
    }

    /// A target that holds something.
    pub(crate) fn onto(tree: Tree, there: Tree) -> Self {
        let mut world = Self::new(tree, Consent::Given, TargetView::Occupied);
        world.target.tree = there;
        world
    }

    /// Runs until both sides have ended.
    pub(crate) fn run(&mut self) {
        self.run_until(PATIENCE);
        assert!(self.source.ending.is_some(), "the sender hangs");
        assert!(self.target.ending.is_some(), "the receiver hangs");
    }

    /// Runs until both sides have ended or the time has come.
    pub(crate) fn run_until(&mut self, end: Duration) {
        let first = std::mem::take(&mut self.first_actions);
        if !first.is_empty() {
            self.target.open(first, self.now, &mut self.link);
        }
        while self.now < end && (self.source.ending.is_none() || self.target.ending.is_none()) {
            self.deliver();
            let next = self.link.next_arrival().unwrap_or(self.next_tick).min(self.next_tick);
            self.now = next.max(self.now);
            if self.now == self.next_tick {
                self.deliver();
                self.tick();
            }
        }
    }

    fn deliver(&mut self) {
        loop {
            let to_sender = self.link.take(Side::Sender, self.now);
            let to_receiver = self.link.take(Side::Receiver, self.now);
            if to_sender.is_none() && to_receiver.is_none() {
                return;
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
    pub(crate) fn endings(&self) -> (&Ending, &Ending) {
        let ended = "run() goes on until both have ended";
        (self.source.ending.as_ref().expect(ended), self.target.ending.as_ref().expect(ended))
    }

    /// Runs, and demands that both sides agree that all is well.
    pub(crate) fn run_to_completion(&mut self) {
        self.run();
        let (Ending::Complete(sent), Ending::Complete(stored)) = self.endings() else {
            panic!("{:?}", self.endings());
        };
        assert_eq!(sent, stored);
        assert_eq!(sent.sent + sent.kept + sent.skipped + sent.failed, sent.listed);
    }

    /// The account of the sender, which equals the receiver's once both have completed.
    pub(crate) fn counts(&self) -> Counts {
        self.source.machine.counts()
    }

    /// One-way journeys until both sides had ended.
    pub(crate) fn flights(&self) -> f64 {
        self.now.as_secs_f64() / LATENCY.as_secs_f64()
    }
}
