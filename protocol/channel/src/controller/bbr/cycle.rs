//! The cycle of bandwidth probes: Down, Cruise, Refill, Up (§5.3.3).

use std::time::{Duration, Instant};

use super::{
    Bbr,
    constants::{PROBE_ROUNDS, PROBE_WAIT, UP_DOUBLINGS, UP_RTT_GROWTH},
    machine::Phase,
    rate::Rate,
    sampler::Sample,
};

/// Where a cycle stands.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cycle {
    /// Cycles so far.
    pub(super) count: u64,
    pub(super) rounds_since_probe: u64,
    since: Instant,
    wait: Duration,
    acks: Acks,
    /// What is acknowledged or lost left while we asked for more.
    pub(super) is_probe_sample: bool,
    /// The last probe lost too much.
    pub(super) went_too_high: bool,
    /// The last probe ended where the one before lost too much.
    was_cautious: bool,
    growth: Growth,
    rtt_before_up: Duration,
}

/// What acknowledgements tell of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Acks {
    /// Nothing in particular.
    Steady,
    /// Up has begun, and they are of packets from before.
    ProbeStarting,
    /// They are of Up's packets.
    ProbeFeedback,
    /// Up has ended, and they are of its packets.
    ProbeStopping,
}

/// How Up raises the proven bound: by one packet in its first round, then by two, by four (§5.3.3.5).
#[derive(Debug, Clone, Copy)]
struct Growth {
    doublings: u32,
    acked: u64,
    acked_per_packet: u64,
}

impl Growth {
    fn new() -> Self {
        Self { doublings: 0, acked: 0, acked_per_packet: u64::MAX }
    }

    fn steepen(&mut self, window: u64, packet_bytes: u64) {
        self.acked_per_packet = (window >> self.doublings).max(packet_bytes);
        self.doublings = (self.doublings + 1).min(UP_DOUBLINGS);
    }

    /// Packets by which to raise the bound.
    fn on_acked(&mut self, bytes: u64) -> u64 {
        self.acked += bytes;
        let packets = self.acked / self.acked_per_packet;
        self.acked %= self.acked_per_packet;
        packets
    }
}

impl Cycle {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            count: 0,
            rounds_since_probe: 0,
            since: now,
            wait: Duration::ZERO,
            acks: Acks::Steady,
            is_probe_sample: false,
            went_too_high: false,
            was_cautious: false,
            growth: Growth::new(),
            rtt_before_up: Duration::ZERO,
        }
    }

    /// Acknowledgements are of what left before from now on.
    pub(super) fn stop_probing(&mut self) {
        self.acks = Acks::ProbeStopping;
    }
}

impl Bbr {
    pub(super) fn start_down(&mut self, now: Instant) {
        self.losses.restart();
        self.cycle.growth = Growth::new();
        self.cycle.rounds_since_probe = self.random.u64(0..=1);
        self.cycle.wait = PROBE_WAIT + Duration::from_secs_f64(self.random.f64());
        self.cycle.since = now;
        self.cycle.stop_probing();
        self.rounds.restart(self.sampler.delivered);
        self.phase = Phase::Down;
    }

    pub(super) fn start_refill(&mut self) {
        self.forget_short_term();
        self.cycle.growth = Growth::new();
        self.cycle.was_cautious = false;
        self.cycle.acks = Acks::Steady;
        self.rounds.restart(self.sampler.delivered);
        self.phase = Phase::Refill;
    }

    fn start_up(&mut self, sample: &Sample) {
        self.cycle.rtt_before_up = sample.rtt;
        self.cycle.acks = Acks::ProbeStarting;
        self.cycle.is_probe_sample = true;
        self.rounds.restart(self.sampler.delivered);
        self.pipe.restart(sample.rate.unwrap_or(Rate::ZERO));
        self.phase = Phase::Up;
        self.cycle.growth.steepen(self.window, self.packet_bytes);
    }

    /// One step of the cycle, where one is due (§5.3.3.9).
    pub(super) fn advance_cycle(&mut self, now: Instant, sample: &Sample) {
        if !self.pipe.was_full || self.adapt_long_term(sample) {
            return;
        }
        match self.phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(now) => self.start_refill(),
            Phase::Down if self.is_time_to_cruise() => self.phase = Phase::Cruise,
            Phase::Refill if self.rounds.started => self.start_up(sample),
            Phase::Up => self.follow_up(now, sample),
            Phase::Startup
            | Phase::Drain { .. }
            | Phase::Down
            | Phase::Cruise
            | Phase::Refill
            | Phase::ProbeRtt(_) => {}
        }
    }

    /// Follows which packets are acknowledged, and raises what is proven. True where that changed the state.
    fn adapt_long_term(&mut self, sample: &Sample) -> bool {
        if self.rounds.started && self.on_cycle_round(sample) {
            return true;
        }
        if self.is_too_much(sample.lost, sample.in_flight) {
            return false;
        }
        if let Some(bound) = &mut self.long_term_in_flight {
            *bound = (*bound).max(sample.in_flight);
            if matches!(self.phase, Phase::Up) {
                self.raise_long_term(sample);
            }
        }
        false
    }

    /// True where a probe that was cautious and lost little leads to a bold one at once.
    fn on_cycle_round(&mut self, sample: &Sample) -> bool {
        match self.cycle.acks {
            Acks::ProbeStarting => self.cycle.acks = Acks::ProbeFeedback,
            Acks::ProbeStopping => return self.on_probe_over(sample),
            Acks::Steady | Acks::ProbeFeedback => {}
        }
        false
    }

    fn on_probe_over(&mut self, sample: &Sample) -> bool {
        self.cycle.is_probe_sample = false;
        self.cycle.acks = Acks::Steady;
        if !self.phase.is_cycling() {
            return false;
        }
        if !sample.app_limited {
            self.cycle.count += 1;
        }
        let goes_on = self.cycle.was_cautious && !self.cycle.went_too_high;
        if goes_on {
            self.start_refill();
        }
        goes_on
    }

    fn raise_long_term(&mut self, sample: &Sample) {
        if !self.is_held_by_long_term() {
            return;
        }
        let packets = self.cycle.growth.on_acked(sample.newly_acked);
        if let Some(bound) = &mut self.long_term_in_flight {
            *bound += packets * self.packet_bytes;
        }
        if self.rounds.started {
            self.cycle.growth.steepen(self.window, self.packet_bytes);
        }
    }

    fn is_time_to_probe(&self, now: Instant) -> bool {
        now > self.cycle.since + self.cycle.wait || self.cycle.rounds_since_probe >= self.reno_rounds()
    }

    /// Rounds in which Reno would have won back half a window.
    fn reno_rounds(&self) -> u64 {
        (self.target_in_flight() / self.packet_bytes).min(PROBE_ROUNDS)
    }

    fn is_time_to_cruise(&self) -> bool {
        let in_flight = self.sampler.in_flight;
        self.bound_with_headroom().is_none_or(|bound| in_flight <= bound)
            && in_flight <= self.in_flight_at(self.max_rate(), 1.0)
    }

    /// Up ends where the last one lost too much, or once the path carries no more (§5.3.3.7).
    fn follow_up(&mut self, now: Instant, sample: &Sample) {
        let reached = self.long_term_in_flight.is_some_and(|bound| self.sampler.in_flight >= bound);
        if self.cycle.went_too_high && reached {
            self.cycle.was_cautious = true;
            self.end_up(now);
        } else if self.is_held_by_long_term() {
            self.pipe.restart(sample.rate.unwrap_or(Rate::ZERO));
        } else if self.pipe.full || self.is_queue_growing(sample) {
            self.end_up(now);
        }
    }

    /// One round that brought no more and a round trip that has grown meanwhile say what the draft waits three rounds for.
    /// Two rounds more of queue, every few seconds, took a third of CUBIC's share of a long path.
    fn is_queue_growing(&self, sample: &Sample) -> bool {
        let least = self.round_trip.least().unwrap_or(sample.rtt);
        let bound = self.cycle.rtt_before_up + least.mul_f64(UP_RTT_GROWTH);
        self.pipe.flat_rounds > 0 && sample.rtt > bound
    }

    fn end_up(&mut self, now: Instant) {
        self.cycle.went_too_high = false;
        self.start_down(now);
    }

    /// The proven bound, and nothing else, is what holds sending back.
    fn is_held_by_long_term(&self) -> bool {
        let lately = self.window_limited_in.is_some_and(|round| round + 1 >= self.rounds.count);
        lately && self.long_term_in_flight.is_some_and(|bound| self.window >= bound)
    }
}
