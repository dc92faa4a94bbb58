//! The states and what leads from one to the next (§5.3).

use std::time::Instant;

use super::{
    Bbr,
    constants::{
        AGGREGATION_ROUNDS, CRUISE_WINDOW_GAIN, DOWN_PACING_GAIN, DRAIN_PACING_GAIN, DRAIN_ROUNDS,
        FULL_PIPE_GROWTH, PROBE_RTT_WINDOW_GAIN, RATE_CYCLES, STARTUP_AGGREGATION_ROUNDS,
        STARTUP_LOST_RANGES, STARTUP_PACING_GAIN, UP_GROWTH, UP_PACING_GAIN, UP_WINDOW_GAIN, WINDOW_GAIN,
    },
    losses::Round,
    probe::ProbeRtt,
    rate::Rate,
    reaction::Ended,
    sampler::Sample,
};

/// What a controller is doing, with what is true of that alone.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// Doubles the rate each round until the pipe is full.
    Startup,
    /// Sends slowly until what Startup has queued is gone.
    Drain { since_round: u64 },
    /// Sends slowly until what Up has queued is gone.
    Down,
    /// Sends as fast as the path delivers.
    Cruise,
    /// Fills the pipe for a round, so that Up tries the path and not its emptiness.
    Refill,
    /// Sends faster than the path delivered, to see whether it can.
    Up,
    /// Leaves the queue empty to measure the round trip.
    ProbeRtt(ProbeRtt),
}

/// The states of §5.1.1 by name.
#[cfg(test)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Phase {
    #[cfg(test)]
    pub(super) fn state(self) -> State {
        match self {
            Self::Startup => State::Startup,
            Self::Drain { .. } => State::Drain,
            Self::Down => State::Down,
            Self::Cruise => State::Cruise,
            Self::Refill => State::Refill,
            Self::Up => State::Up,
            Self::ProbeRtt(_) => State::ProbeRtt,
        }
    }

    /// The table of §5.6.1.
    pub(super) fn pacing_gain(self) -> f64 {
        match self {
            Self::Startup => STARTUP_PACING_GAIN,
            Self::Drain { .. } => DRAIN_PACING_GAIN,
            Self::Down => DOWN_PACING_GAIN,
            Self::Up => UP_PACING_GAIN,
            Self::Cruise | Self::Refill | Self::ProbeRtt(_) => 1.0,
        }
    }

    /// The table of §5.6.1, but for [`CRUISE_WINDOW_GAIN`].
    pub(super) fn window_gain(self) -> f64 {
        match self {
            Self::Up => UP_WINDOW_GAIN,
            Self::ProbeRtt(_) => PROBE_RTT_WINDOW_GAIN,
            Self::Down | Self::Cruise => CRUISE_WINDOW_GAIN,
            Self::Startup | Self::Drain { .. } | Self::Refill => WINDOW_GAIN,
        }
    }

    /// One of the four that follow each other for as long as a connection lives.
    pub(super) fn is_cycling(self) -> bool {
        match self {
            Self::Down | Self::Cruise | Self::Refill | Self::Up => true,
            Self::Startup | Self::Drain { .. } | Self::ProbeRtt(_) => false,
        }
    }

    /// Sends more than is proven, so that losses are expected.
    pub(super) fn is_probing(self) -> bool {
        match self {
            Self::Startup | Self::Refill | Self::Up => true,
            Self::Drain { .. } | Self::Down | Self::Cruise | Self::ProbeRtt(_) => false,
        }
    }
}

impl Bbr {
    /// The steps of §5.2.3, in its order.
    pub(super) fn update_model_and_state(&mut self, now: Instant, sample: &Sample) {
        let ended = self.losses.on_sample(sample, self.sampler.delivered);
        self.update_rate(sample);
        if let Some(round) = ended {
            self.judge_round(&round);
        }
        self.update_aggregation(now, sample);
        self.check_pipe(sample);
        self.check_startup(ended);
        self.check_drain(now);
        self.advance_cycle(now, sample);
        self.check_round_trip(now, sample);
        if ended.is_some() {
            self.losses.next_round(sample, self.sampler.delivered);
        }
        self.check_collapse();
    }

    /// What the application limited counts only where it beats the estimate (§5.5.5).
    fn update_rate(&mut self, sample: &Sample) {
        self.rounds.on_sample(sample.delivered_before, self.sampler.delivered);
        if self.rounds.started {
            self.cycle.rounds_since_probe += 1;
        }
        let Some(rate) = sample.rate else { return };
        if rate >= self.max_rate() || !sample.app_limited {
            self.max_rate.update(self.cycle.count, rate, RATE_CYCLES);
        }
    }

    fn update_aggregation(&mut self, now: Instant, sample: &Sample) {
        let extra = self.aggregation.on_acked(now, sample.newly_acked, self.bounded_rate());
        let rounds = if self.pipe.was_full { AGGREGATION_ROUNDS } else { STARTUP_AGGREGATION_ROUNDS };
        self.aggregation.remember(self.rounds.count, extra.min(self.window), rounds);
    }

    fn check_pipe(&mut self, sample: &Sample) {
        if self.rounds.started && !sample.app_limited {
            let growth = if matches!(self.phase, Phase::Up) { UP_GROWTH } else { FULL_PIPE_GROWTH };
            self.pipe.on_round(sample.rate.unwrap_or(Rate::ZERO), growth);
        }
    }

    fn check_startup(&mut self, ended: Option<Round>) {
        if !matches!(self.phase, Phase::Startup) {
            return;
        }
        if ended.is_some_and(|round| self.is_startup_over(&round)) {
            self.end_startup_by_loss();
        } else if self.pipe.was_full {
            self.start_drain();
        }
    }

    /// What was delivered in a round is proven (§5.3.1.3).
    pub(super) fn end_startup_by_loss(&mut self) {
        self.undo.ended = Some(Ended::Startup);
        self.pipe.was_full = true;
        let volume = self.pipe_volume(self.bounded_rate(), 1.0);
        self.long_term_in_flight = Some(volume.max(self.losses.latest_delivered()));
        self.start_drain();
    }

    fn start_drain(&mut self) {
        self.phase = Phase::Drain { since_round: self.rounds.count };
    }

    /// §5.3.1.3, and the rate must have stopped growing. Losses on a path that still delivers a quarter more each round
    /// are its own: where one packet in a hundred is lost, one start in six ended below the rate by chance, and cycles of
    /// seconds had to find the rest.
    fn is_startup_over(&self, round: &Round) -> bool {
        self.is_too_much(round.lost, round.settled)
            && round.ranges >= STARTUP_LOST_RANGES
            && self.pipe.flat_rounds > 0
    }

    fn check_drain(&mut self, now: Instant) {
        let Phase::Drain { since_round } = self.phase else { return };
        let is_empty = self.sampler.in_flight <= self.in_flight_at(self.bounded_rate(), 1.0);
        if is_empty || self.rounds.count > since_round + DRAIN_ROUNDS {
            self.start_down(now);
        }
    }

    /// Nothing is in flight and there was nothing to send (§5.4.1).
    pub(super) fn restart_from_idle(&mut self, now: Instant) {
        self.restarts_from_idle = true;
        self.aggregation.restart(now);
        if self.phase.is_cycling() {
            self.set_pacing(1.0);
        } else {
            self.check_probe_rtt_done(now);
        }
    }
}
