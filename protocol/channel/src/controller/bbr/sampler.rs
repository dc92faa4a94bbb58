//! How fast the path delivers, measured from one packet's departure to its acknowledgement (§4.1).

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{constants::STALE_ROUNDS, rate::Rate};

/// What was known when a packet left (§4.1.2.1.2).
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    pub(super) number: u64,
    pub(super) bytes: u64,
    sent: Instant,
    /// All that had been delivered.
    delivered: u64,
    delivered_at: Instant,
    /// When the first packet of its flight left.
    flight_since: Instant,
    /// All that had been lost.
    pub(super) lost: u64,
    /// What was in flight with it.
    pub(super) in_flight: u64,
    pub(super) app_limited: bool,
    round: u64,
    settled: bool,
}

/// What the acknowledgements that came together tell (§4.1.2.1.3), of the newest packet among them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample {
    /// `None` where the interval was too short to be relied on.
    pub(super) rate: Option<Rate>,
    pub(super) rtt: Duration,
    /// Whether the application had too little to send.
    pub(super) app_limited: bool,
    /// Delivered from the packet's departure to its acknowledgement.
    pub(super) delivered: u64,
    /// Delivered before its departure.
    pub(super) delivered_before: u64,
    /// Lost from its departure to its acknowledgement.
    pub(super) lost: u64,
    /// In flight when it left.
    pub(super) in_flight: u64,
    pub(super) newly_acked: u64,
}

/// Follows every packet from its departure until it is settled.
#[derive(Debug, Clone)]
pub(super) struct Sampler {
    pub(super) delivered: u64,
    delivered_at: Instant,
    pub(super) lost: u64,
    pub(super) in_flight: u64,
    /// Departure of the newest packet that was delivered, or of the first one after idleness.
    flight_since: Instant,
    /// Samples are limited by the application until so much is delivered.
    app_limited_until: Option<u64>,
    /// In the order of their numbers.
    departures: VecDeque<Departure>,
    newest: Option<Departure>,
    newly_acked: u64,
}

impl Sampler {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            delivered: 0,
            delivered_at: now,
            lost: 0,
            in_flight: 0,
            flight_since: now,
            app_limited_until: None,
            departures: VecDeque::new(),
            newest: None,
            newly_acked: 0,
        }
    }

    /// A number that is not greater than the last one begins a new space of numbers; what was under way in the old one
    /// is forgotten. QUIC has three, and leaves the first two within its first round trips.
    pub(super) fn on_sent(&mut self, now: Instant, number: u64, bytes: u64, round: u64) {
        if self.departures.back().is_some_and(|last| last.number >= number) {
            self.departures.clear();
        }
        if self.in_flight == 0 {
            self.flight_since = now;
            self.delivered_at = now;
        }
        self.in_flight += bytes;
        self.departures.push_back(Departure {
            number,
            bytes,
            sent: now,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            flight_since: self.flight_since,
            lost: self.lost,
            in_flight: self.in_flight,
            app_limited: self.app_limited(),
            round,
            settled: false,
        });
    }

    pub(super) fn on_acked(&mut self, now: Instant, number: u64, bytes: u64) {
        self.delivered += bytes;
        self.delivered_at = now;
        self.newly_acked += bytes;
        self.in_flight = self.in_flight.saturating_sub(bytes);
        let Some(departure) = self.settle(number) else { return };
        let newer = |other: Departure| (departure.sent, departure.number) > (other.sent, other.number);
        if self.newest.is_none_or(newer) {
            self.newest = Some(departure);
        }
    }

    /// `None` for a packet that is not known.
    pub(super) fn on_lost(&mut self, number: u64, bytes: u64) -> Option<Departure> {
        self.lost += bytes;
        self.in_flight = self.in_flight.saturating_sub(bytes);
        self.settle(number)
    }

    /// What the packets that were acknowledged since the last call tell; `None` where none of them is known.
    pub(super) fn sample(&mut self, now: Instant, min_rtt: Option<Duration>, round: u64) -> Option<Sample> {
        if self.app_limited_until.is_some_and(|until| self.delivered > until) {
            self.app_limited_until = None;
        }
        self.forget(round);
        let newly_acked = std::mem::take(&mut self.newly_acked);
        let newest = self.newest.take()?;
        self.flight_since = self.flight_since.max(newest.sent);
        let send_time = newest.sent.duration_since(newest.flight_since);
        let ack_time = now.duration_since(newest.delivered_at);
        let interval = send_time.max(ack_time);
        let delivered = self.delivered - newest.delivered;
        let reliable = min_rtt.is_none_or(|least| interval >= least);
        Some(Sample {
            rate: Rate::of(delivered, interval).filter(|_| reliable),
            rtt: now.duration_since(newest.sent),
            app_limited: newest.app_limited,
            delivered,
            delivered_before: newest.delivered,
            lost: self.lost - newest.lost,
            in_flight: newest.in_flight,
            newly_acked,
        })
    }

    /// What is in flight now tells nothing of what the path could deliver (§4.1.2.4).
    pub(super) fn mark_app_limited(&mut self) {
        self.app_limited_until = Some(self.delivered + self.in_flight);
    }

    pub(super) fn app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.departures.len()
    }

    fn settle(&mut self, number: u64) -> Option<Departure> {
        let index = self.departures.binary_search_by_key(&number, |departure| departure.number).ok()?;
        let departure = &mut self.departures[index];
        let settled = (!departure.settled).then_some(*departure);
        departure.settled = true;
        settled
    }

    fn forget(&mut self, round: u64) {
        while self.departures.front().is_some_and(|first| first.settled || first.round + STALE_ROUNDS < round)
        {
            self.departures.pop_front();
        }
    }
}
