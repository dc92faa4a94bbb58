//! A link in memory, in virtual time: each direction carries the bytes of several streams in order.

use std::{
    collections::{BTreeMap, VecDeque},
    time::Duration,
};

use crate::Side;

/// The control stream; every other number is a data stream.
pub const CONTROL: usize = 0;

/// What arrives at one side.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Arrival {
    Bytes { stream: usize, bytes: Vec<u8> },
    Lost,
}

/// Where the link breaks: behind this many bytes of one side.
#[derive(Debug, Clone, Copy)]
pub struct Cut {
    /// Whose bytes are counted.
    pub said_by: Side,
    /// How many of them still arrive.
    pub after_bytes: u64,
    /// What the sides see of it.
    pub kind: Break,
}

/// How a link breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Break {
    /// Both sides learn of it.
    Reset,
    /// Nobody does: nothing arrives any more.
    DeadAir,
}

/// The link. What arrives is taken at once.
#[derive(Debug)]
pub struct Link {
    /// How long a byte is under way.
    pub latency: Duration,
    /// Infinite when absent.
    pub bytes_per_second: Option<u64>,
    /// Most bytes of one stream and direction that are under way, as many as there may be when absent: what is written
    /// beyond waits until some have been read.
    pub stream_bytes: Option<usize>,
    /// Bytes arrive in pieces of these lengths, over and over; whole when there are none.
    pub pieces: Vec<usize>,
    /// What the control stream lags behind the data streams.
    pub control_lag: Duration,
    /// Where it breaks, if it does.
    pub cut: Option<Cut>,
    broken: bool,
    from_sender: Direction,
    from_receiver: Direction,
}

#[derive(Debug, Default)]
struct Direction {
    carried: u64,
    busy_until: Duration,
    in_flight: VecDeque<(Duration, Arrival)>,
    pieces_cut: usize,
    streams: BTreeMap<usize, Stream>,
}

/// What of one stream was said and has not arrived.
#[derive(Debug, Default)]
struct Stream {
    under_way_bytes: usize,
    waiting: VecDeque<u8>,
}

impl Link {
    /// A link without a bandwidth, on which as much may be under way as is said.
    pub fn new(latency: Duration) -> Self {
        Self {
            latency,
            bytes_per_second: None,
            stream_bytes: None,
            pieces: Vec::new(),
            control_lag: Duration::ZERO,
            cut: None,
            broken: false,
            from_sender: Direction::default(),
            from_receiver: Direction::default(),
        }
    }

    /// Bytes that `side` has said and the link has taken.
    pub fn carried(&self, side: Side) -> u64 {
        match side {
            Side::Sender => self.from_sender.carried,
            Side::Receiver => self.from_receiver.carried,
        }
    }

    /// Whether what `side` says next on a stream goes on its way at once.
    pub(crate) fn takes(&self, side: Side, stream: usize) -> bool {
        self.room(side, stream) > 0
    }

    /// Whether anything is under way on a data stream, or waits for that.
    pub(crate) fn is_busy(&self) -> bool {
        let data = |direction: &Direction| {
            direction.streams.range(CONTROL + 1..).any(|(_, stream)| stream.under_way_bytes > 0)
        };
        data(&self.from_sender) || data(&self.from_receiver)
    }

    pub(crate) fn send(&mut self, side: Side, stream: usize, bytes: &[u8], now: Duration) {
        let room = self.room(side, stream);
        let (passing, waiting) = bytes.split_at(bytes.len().min(room));
        self.direction(side).streams.entry(stream).or_default().waiting.extend(waiting);
        self.pass(side, stream, passing, now);
    }

    /// What has arrived at `side` by now. Another of what waited behind it goes on its way.
    pub(crate) fn take(&mut self, side: Side, now: Duration) -> Option<Arrival> {
        let direction = self.direction(side.other());
        let (_, arrival) = direction.in_flight.pop_front_if(|(at, _)| *at <= now)?;
        if let Arrival::Bytes { stream, bytes } = &arrival
            && let Some(left) = direction.streams.get_mut(stream)
        {
            left.under_way_bytes -= bytes.len();
            self.go_on(side.other(), *stream, now);
        }
        Some(arrival)
    }

    /// When something next arrives at either side.
    pub(crate) fn next_arrival(&self) -> Option<Duration> {
        let next = |direction: &Direction| direction.in_flight.front().map(|(at, _)| *at);
        [next(&self.from_sender), next(&self.from_receiver)].into_iter().flatten().min()
    }

    fn room(&self, side: Side, stream: usize) -> usize {
        let direction = match side {
            Side::Sender => &self.from_sender,
            Side::Receiver => &self.from_receiver,
        };
        let under_way = direction.streams.get(&stream).map_or(0, |stream| stream.under_way_bytes);
        self.stream_bytes.map_or(usize::MAX, |most| most.saturating_sub(under_way))
    }

    /// Lets go on its way what waited, as far as there is room.
    fn go_on(&mut self, side: Side, stream: usize, now: Duration) {
        let room = self.room(side, stream);
        let Some(left) = self.direction(side).streams.get_mut(&stream) else { return };
        let passing: Vec<u8> = left.waiting.drain(..room.min(left.waiting.len())).collect();
        self.pass(side, stream, &passing, now);
    }

    /// As far as the link does not break.
    fn pass(&mut self, side: Side, stream: usize, bytes: &[u8], now: Duration) {
        if self.broken {
            return;
        }
        let left = match self.cut {
            Some(cut) if cut.said_by == side => cut.after_bytes - self.carried(side),
            Some(_) | None => u64::MAX,
        };
        let passing = &bytes[..(bytes.len() as u64).min(left) as usize];
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
            direction.streams.entry(stream).or_default().under_way_bytes += front.len();
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
}

impl Direction {
    /// Behind everything that arrives no later.
    fn queue(&mut self, at: Duration, arrival: Arrival) {
        let place = self.in_flight.partition_point(|(earlier, _)| *earlier <= at);
        self.in_flight.insert(place, (at, arrival));
    }
}
