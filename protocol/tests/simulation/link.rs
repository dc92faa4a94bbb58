//! A link in memory, in virtual time: each direction carries the bytes of several streams in order.

use std::{collections::VecDeque, time::Duration};

use super::Side;

/// The control stream; every other number is a data stream.
pub(crate) const CONTROL: usize = 0;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arrival {
    Bytes { stream: usize, bytes: Vec<u8> },
    Lost,
}

/// Where the link breaks: behind this many bytes of one side.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Cut {
    pub(crate) said_by: Side,
    pub(crate) after_bytes: u64,
    pub(crate) kind: Break,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    /// Both sides learn of it.
    Reset,
    /// Nobody does: nothing arrives any more.
    DeadAir,
}

pub(crate) struct Link {
    pub(crate) latency: Duration,
    /// Infinite when absent.
    pub(crate) bytes_per_second: Option<u64>,
    /// Bytes arrive in pieces of these lengths, over and over; whole when there are none.
    pub(crate) pieces: Vec<usize>,
    /// What the control stream lags behind the data streams.
    pub(crate) control_lag: Duration,
    pub(crate) cut: Option<Cut>,
    broken: bool,
    from_sender: Direction,
    from_receiver: Direction,
}

#[derive(Default)]
struct Direction {
    carried: u64,
    busy_until: Duration,
    in_flight: VecDeque<(Duration, Arrival)>,
    pieces_cut: usize,
}

impl Link {
    pub(crate) fn new(latency: Duration) -> Self {
        Self {
            latency,
            bytes_per_second: None,
            pieces: Vec::new(),
            control_lag: Duration::ZERO,
            cut: None,
            broken: false,
            from_sender: Direction::default(),
            from_receiver: Direction::default(),
        }
    }

    /// Bytes that `side` has said.
    pub(crate) fn carried(&self, side: Side) -> u64 {
        match side {
            Side::Sender => self.from_sender.carried,
            Side::Receiver => self.from_receiver.carried,
        }
    }

    pub(crate) fn send(&mut self, side: Side, stream: usize, bytes: &[u8], now: Duration) {
        if self.broken {
            return;
        }
        let room = match self.cut {
            Some(cut) if cut.said_by == side => cut.after_bytes - self.carried(side),
            Some(_) | None => u64::MAX,
        };
        let passing = &bytes[..(bytes.len() as u64).min(room) as usize];
        self.carry(side, stream, passing, now);
        if let Some(cut) = self.cut
            && cut.said_by == side
            && self.carried(side) == cut.after_bytes
        {
            self.break_now(cut.kind, now);
        }
    }

    fn carry(&mut self, side: Side, stream: usize, mut bytes: &[u8], now: Duration) {
        let lag = if stream == CONTROL { self.control_lag } else { Duration::ZERO };
        while !bytes.is_empty() {
            let (latency, rate) = (self.latency, self.bytes_per_second);
            let cycle = self.direction(side).pieces_cut;
            let piece = self.pieces.get(cycle % self.pieces.len().max(1)).copied().unwrap_or(usize::MAX);
            let (front, rest) = bytes.split_at(piece.clamp(1, bytes.len()));
            bytes = rest;
            let direction = self.direction(side);
            let serialised =
                rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(front.len() as f64 / rate as f64));
            direction.busy_until = direction.busy_until.max(now) + serialised;
            direction.carried += front.len() as u64;
            direction.pieces_cut += 1;
            let arrival = Arrival::Bytes { stream, bytes: front.to_vec() };
            direction.queue(direction.busy_until + latency + lag, arrival);
        }
    }

    fn break_now(&mut self, kind: Break, now: Duration) {
        self.broken = true;
        if kind == Break::Reset {
            let at = now + self.latency + self.control_lag;
            self.from_sender.queue(at, Arrival::Lost);
            self.from_receiver.queue(at, Arrival::Lost);
        }
    }

    fn direction(&mut self, side: Side) -> &mut Direction {
        match side {
            Side::Sender => &mut self.from_sender,
            Side::Receiver => &mut self.from_receiver,
        }
    }

    /// When something next arrives at either side.
    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        let next = |direction: &Direction| direction.in_flight.front().map(|(at, _)| *at);
        [next(&self.from_sender), next(&self.from_receiver)].into_iter().flatten().min()
    }

    /// What has arrived at `side` by now.
    pub(crate) fn take(&mut self, side: Side, now: Duration) -> Option<Arrival> {
        let in_flight = &mut self.direction(side.other()).in_flight;
        if in_flight.front().is_some_and(|(at, _)| *at <= now) {
            return in_flight.pop_front().map(|(_, arrival)| arrival);
        }
        None
    }
}

impl Direction {
    /// Behind everything that arrives no later.
    fn queue(&mut self, at: Duration, arrival: Arrival) {
        let place = self.in_flight.partition_point(|(earlier, _)| *earlier <= at);
        self.in_flight.insert(place, (at, arrival));
    }
}
