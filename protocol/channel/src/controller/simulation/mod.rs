//! Flows that share a path in virtual time: senders, a narrow link with a queue, loss behind it, and receivers that
//! acknowledge every other packet. Everything random comes from a seed, so each run of one simulation is the same.

mod cubic;
mod flow;
mod outcome;
mod path;
mod source;

use std::{
    cmp::Reverse,
    collections::{BinaryHeap, VecDeque},
    time::{Duration, Instant},
};

use self::{
    cubic::Cubic,
    flow::{ACK_DELAY, Controlled, Flow, Turn},
    outcome::{LOOK_INTERVAL, Look},
    path::{Arrival, Link, PACKET_BYTES, Packet},
};
pub(crate) use self::{outcome::Outcome, path::Path, source::Source};
use super::bbr::Bbr;

/// Packets that a receiver acknowledges together.
const PACKETS_PER_ACK: usize = 2;

/// A path, how it changes, and who sends on it.
#[derive(Debug)]
pub(crate) struct Simulation {
    now: Duration,
    epoch: Instant,
    link: Link,
    changes: VecDeque<(Duration, Path)>,
    flows: Vec<Flow>,
    receivers: Vec<Receiver>,
    events: BinaryHeap<Reverse<Event>>,
    events_so_far: u64,
    random: fastrand::Rng,
    outcome: Outcome,
}

#[derive(Debug, Default)]
struct Receiver {
    unacknowledged: Vec<u64>,
    marked: bool,
    /// The only wake-up of its sender that counts.
    wakes: Option<Duration>,
    alarm: Option<Duration>,
}

/// In the order of their times, and of their making.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Duration,
    order: u64,
    what: What,
}

#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    /// A flow may send.
    Wake(usize),
    /// A packet leaves the link.
    Depart,
    /// A receiver has waited long enough with an acknowledgement.
    Flush(usize),
    /// Acknowledgements reach a sender.
    Acks { flow: usize, numbers: Vec<u64>, marked: bool },
    /// A sender has heard nothing for long.
    Alarm(usize),
    /// The path becomes another one.
    Change,
    /// Counts are taken down.
    Look,
}

impl Simulation {
    pub(crate) fn new(path: Path, seed: u64) -> Self {
        Self {
            now: Duration::ZERO,
            epoch: Instant::now(),
            link: Link::new(path),
            changes: VecDeque::new(),
            flows: Vec::new(),
            receivers: Vec::new(),
            events: BinaryHeap::new(),
            events_so_far: 0,
            random: fastrand::Rng::with_seed(seed),
            outcome: Outcome::default(),
        }
    }

    /// Adds a flow of ours that starts then.
    pub(crate) fn bbr(mut self, second: f64, source: Source) -> Self {
        let starts = Duration::from_secs_f64(second);
        let seed = self.random.u64(..);
        let bbr = Bbr::new(self.epoch + starts, PACKET_BYTES as u16, seed);
        self.add(Controlled::Bbr(Box::new(bbr)), source, starts)
    }

    /// Adds a bulk flow of CUBIC that starts then.
    pub(crate) fn cubic(self, second: f64) -> Self {
        self.add(Controlled::Cubic(Cubic::new()), Source::Bulk, Duration::from_secs_f64(second))
    }

    /// From then on the path is another one; changes are told in their order.
    pub(crate) fn change(mut self, second: f64, path: Path) -> Self {
        self.changes.push_back((Duration::from_secs_f64(second), path));
        self
    }

    pub(crate) fn run(mut self, seconds: u64) -> Outcome {
        let end = Duration::from_secs(seconds);
        for flow in 0..self.flows.len() {
            self.wake(flow, self.flows[flow].starts);
        }
        for index in 0..self.changes.len() {
            self.schedule(self.changes[index].0, What::Change);
        }
        self.schedule(Duration::ZERO, What::Look);
        while let Some(Reverse(event)) = self.events.pop()
            && event.at <= end
        {
            self.now = event.at;
            self.handle(event.what);
        }
        self.outcome.estimates = self.flows.iter().map(Flow::rate).collect();
        self.outcome.states = self.flows.into_iter().map(|flow| flow.states).collect();
        self.outcome
    }

    fn add(mut self, controlled: Controlled, source: Source, starts: Duration) -> Self {
        self.flows.push(Flow::new(controlled, source, starts, self.epoch));
        self.receivers.push(Receiver::default());
        self
    }

    fn schedule(&mut self, at: Duration, what: What) {
        self.events_so_far += 1;
        self.events.push(Reverse(Event { at, order: self.events_so_far, what }));
    }

    fn handle(&mut self, what: What) {
        match what {
            What::Wake(flow) => self.on_wake(flow),
            What::Depart => self.on_depart(),
            What::Flush(flow) => self.acknowledge(flow),
            What::Acks { flow, numbers, marked } => {
                self.flows[flow].on_acks(self.now, &numbers, marked);
                self.send(flow);
            }
            What::Alarm(flow) => self.on_alarm(flow),
            What::Change => {
                if let Some((_, path)) = self.changes.pop_front() {
                    self.link.path = path;
                }
            }
            What::Look => self.look(),
        }
    }

    fn wake(&mut self, flow: usize, at: Duration) {
        self.receivers[flow].wakes = Some(at);
        self.schedule(at, What::Wake(flow));
    }

    fn on_wake(&mut self, flow: usize) {
        if self.receivers[flow].wakes == Some(self.now) {
            self.send(flow);
        }
    }

    fn send(&mut self, flow: usize) {
        loop {
            match self.flows[flow].turn(self.now) {
                Turn::Sends { first, count } => self.transmit(flow, first, count),
                Turn::Waits(at) => return self.wake(flow, at),
                Turn::Blocked => return,
            }
        }
    }

    fn transmit(&mut self, flow: usize, first: u64, count: u64) {
        for number in first..first + count {
            match self.link.on_arrival(self.now, Packet { flow, number, marked: false }) {
                Arrival::Dropped => self.flows[flow].counts.dropped += 1,
                Arrival::Queued => {}
                Arrival::First => self.schedule(self.now + self.link.service_time(), What::Depart),
            }
        }
        self.set_alarm(flow);
    }

    fn on_depart(&mut self) {
        let packet = self.link.depart().expect("a departure is scheduled only for a packet in the queue");
        if !self.link.is_idle() {
            self.schedule(self.now + self.link.service_time(), What::Depart);
        }
        if self.random.f64() >= self.link.path.loss {
            self.deliver(packet);
        }
    }

    fn deliver(&mut self, packet: Packet) {
        self.flows[packet.flow].counts.delivered += 1;
        let receiver = &mut self.receivers[packet.flow];
        receiver.unacknowledged.push(packet.number);
        receiver.marked |= packet.marked;
        match receiver.unacknowledged.len() {
            PACKETS_PER_ACK.. => self.acknowledge(packet.flow),
            _ => self.schedule(self.now + ACK_DELAY, What::Flush(packet.flow)),
        }
    }

    /// All delay of the path is on the way back.
    fn acknowledge(&mut self, flow: usize) {
        let receiver = &mut self.receivers[flow];
        if receiver.unacknowledged.is_empty() {
            return;
        }
        let numbers = std::mem::take(&mut receiver.unacknowledged);
        let marked = std::mem::take(&mut receiver.marked);
        let path = &self.link.path;
        let at = path.ack_slot.map_or(self.now + path.rtt, |slot| next_slot(self.now + path.rtt, slot));
        self.schedule(at, What::Acks { flow, numbers, marked });
    }

    fn set_alarm(&mut self, flow: usize) {
        let alarm = self.flows[flow].alarm(self.now);
        let pending = std::mem::replace(&mut self.receivers[flow].alarm, alarm);
        if let (Some(at), None) = (alarm, pending) {
            self.schedule(at, What::Alarm(flow));
        }
    }

    /// The latest departure has moved it on meanwhile, or nothing was heard since.
    fn on_alarm(&mut self, flow: usize) {
        match self.receivers[flow].alarm.take() {
            Some(at) if at > self.now => {
                self.receivers[flow].alarm = Some(at);
                self.schedule(at, What::Alarm(flow));
            }
            Some(_) | None => self.send_probe(flow),
        }
    }

    fn send_probe(&mut self, flow: usize) {
        self.flows[flow].find_lost(self.now);
        if self.flows[flow].alarm(self.now).is_some()
            && let Turn::Sends { first, count } = self.flows[flow].send_probe(self.now)
        {
            self.transmit(flow, first, count);
        }
        self.send(flow);
    }

    fn look(&mut self) {
        let counts = self.flows.iter().map(|flow| flow.counts).collect();
        self.outcome.looks.push(Look { queue_delay: self.link.queue_delay(), counts });
        self.schedule(self.now + LOOK_INTERVAL, What::Look);
    }
}

fn next_slot(at: Duration, slot: Duration) -> Duration {
    let slots = at.as_nanos().div_ceil(slot.as_nanos());
    slot * slots as u32
}
