//! What a path is like, and the queue before its narrowest link.

use std::{collections::VecDeque, time::Duration};

/// Length of every packet, in bytes.
pub(crate) const PACKET_BYTES: u64 = 1_452;

/// A path with one narrow link, behind which packets may be lost.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    rate_bytes_per_s: f64,
    pub(crate) rtt: Duration,
    queue_bytes: u64,
    /// Probability that a packet is lost behind the link.
    pub(crate) loss: f64,
    /// Share of packets that the link marks instead of dropping them, once its queue is half full.
    pub(crate) marks: bool,
    policer: Option<Policer>,
    /// Acknowledgements arrive at multiples of it only.
    pub(crate) ack_slot: Option<Duration>,
}

/// Drops what comes faster than a rate, but for a burst.
#[derive(Debug, Clone, Copy)]
struct Policer {
    rate_bytes_per_s: f64,
    burst_bytes: f64,
}

impl Path {
    /// With a queue that holds as much as the path itself.
    pub(crate) fn new(mbit: f64, rtt_ms: u64) -> Self {
        let path = Self {
            rate_bytes_per_s: mbit * 125_000.0,
            rtt: Duration::from_millis(rtt_ms),
            queue_bytes: 0,
            loss: 0.0,
            marks: false,
            policer: None,
            ack_slot: None,
        };
        path.queue(1.0)
    }

    /// With a queue of so many times what the path itself holds.
    pub(crate) fn queue(self, bdps: f64) -> Self {
        let queue_bytes = (self.bdp_bytes() * bdps) as u64;
        Self { queue_bytes, ..self }
    }

    pub(crate) fn loss(self, loss: f64) -> Self {
        Self { loss, ..self }
    }

    pub(crate) fn marking(self) -> Self {
        Self { marks: true, ..self }
    }

    pub(crate) fn ack_slot(self, slot: Duration) -> Self {
        Self { ack_slot: Some(slot), ..self }
    }

    pub(crate) fn policed_to(self, mbit: f64, burst_bytes: f64) -> Self {
        let policer = Policer { rate_bytes_per_s: mbit * 125_000.0, burst_bytes };
        Self { policer: Some(policer), ..self }
    }

    /// What it holds without a queue.
    pub(crate) fn bdp_bytes(&self) -> f64 {
        self.rate_bytes_per_s * self.rtt.as_secs_f64()
    }
}

/// One packet of one flow.
#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub(super) flow: usize,
    pub(super) number: u64,
    pub(super) marked: bool,
}

/// What became of a packet at the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Arrival {
    Dropped,
    Queued,
    /// The link was idle; the packet leaves after [`Link::service_time`].
    First,
}

/// The narrowest link with its queue.
#[derive(Debug)]
pub(super) struct Link {
    pub(super) path: Path,
    queue: VecDeque<Packet>,
    policed_bytes: f64,
    policed_at: Duration,
}

impl Link {
    pub(super) fn new(path: Path) -> Self {
        let policed_bytes = path.policer.map_or(0.0, |policer| policer.burst_bytes);
        Self { path, queue: VecDeque::new(), policed_bytes, policed_at: Duration::ZERO }
    }

    pub(super) fn on_arrival(&mut self, now: Duration, mut packet: Packet) -> Arrival {
        let queued = self.queued_bytes();
        if self.polices(now) || queued + PACKET_BYTES > self.path.queue_bytes.max(PACKET_BYTES) {
            return Arrival::Dropped;
        }
        packet.marked = self.path.marks && queued > self.path.queue_bytes / 2;
        self.queue.push_back(packet);
        if self.queue.len() == 1 { Arrival::First } else { Arrival::Queued }
    }

    /// The packet that leaves the link now.
    pub(super) fn depart(&mut self) -> Option<Packet> {
        self.queue.pop_front()
    }

    pub(super) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    pub(super) fn service_time(&self) -> Duration {
        Duration::from_secs_f64(PACKET_BYTES as f64 / self.path.rate_bytes_per_s)
    }

    pub(super) fn queue_delay(&self) -> Duration {
        Duration::from_secs_f64(self.queued_bytes() as f64 / self.path.rate_bytes_per_s)
    }

    fn queued_bytes(&self) -> u64 {
        self.queue.len() as u64 * PACKET_BYTES
    }

    fn polices(&mut self, now: Duration) -> bool {
        let Some(policer) = self.path.policer else { return false };
        let earned = policer.rate_bytes_per_s * (now - self.policed_at).as_secs_f64();
        self.policed_at = now;
        self.policed_bytes = (self.policed_bytes + earned).min(policer.burst_bytes);
        let passes = self.policed_bytes >= PACKET_BYTES as f64;
        if passes {
            self.policed_bytes -= PACKET_BYTES as f64;
        }
        !passes
    }
}
