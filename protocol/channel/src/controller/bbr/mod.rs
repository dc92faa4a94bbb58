//! BBR version 3, after draft-ietf-ccwg-bbr-06, whose sections are cited as "§": a model of the path (the rate at which
//! it delivers, its least round trip, what may be in flight on it) that says how fast to send, instead of waiting for a
//! queue to overflow.
//!
//! It knows neither sockets nor clocks. Whoever sends tells of each packet that leaves ([`Bbr::on_sent`]), of each that
//! was acknowledged ([`Bbr::on_acked`], and [`Bbr::on_acks_end`] once all that came together are told) and of each that
//! was lost ([`Bbr::on_lost`]), and keeps to [`Bbr::window`], [`Bbr::pacing_rate`] and [`Bbr::send_quantum`]. Times never
//! fall, and numbers of packets rise. Equal calls lead to equal decisions: what is random comes from a seed.
//!
//! What differs from the draft says so where it is done: `Bbr::is_startup_over`, `Bbr::is_overflowing`,
//! `Bbr::judge_round`, `Bbr::is_too_much`, `Bbr::is_queue_growing`, `UP_GROWTH`, `CRUISE_WINDOW_GAIN`, `PROVES_MIN_RTT`
//! and `Schedule` (docs/decisions/0022-own-bbr.md and 0030-bbr-on-a-path.md have the figures).

mod aggregation;
mod constants;
mod control;
mod cycle;
mod losses;
mod machine;
mod maximum;
mod pipe;
mod probe;
mod rate;
mod reaction;
mod round_trip;
mod rounds;
mod sampler;
mod schedule;
#[cfg(test)]
mod tests;

use std::time::{Duration, Instant};

use self::{
    aggregation::Aggregation,
    constants::{CATCH_UP_GAIN, INITIAL_WINDOW_PACKETS, RATE_CYCLES},
    cycle::Cycle,
    losses::Losses,
    machine::Phase,
    maximum::Maximum,
    pipe::Pipe,
    rate::Rate,
    reaction::Undo,
    round_trip::RoundTrip,
    rounds::Rounds,
    sampler::Sampler,
    schedule::Schedule,
};
#[cfg(test)]
pub(crate) use machine::State;

/// What a controller has found of a path.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Found {
    /// What may be in flight, in bytes.
    pub(crate) window: u64,
    /// The least round trip.
    pub(crate) rtt: Duration,
    /// The window no longer grew: it fills the path.
    pub(crate) is_full: bool,
}

/// One controller, of one path of one connection.
#[derive(Debug, Clone)]
pub(crate) struct Bbr {
    packet_bytes: u64,
    initial_window: u64,
    window: u64,
    pacing_rate: Rate,
    send_quantum: u64,
    schedule: Schedule,

    phase: Phase,
    cycle: Cycle,
    pipe: Pipe,

    sampler: Sampler,
    rounds: Rounds,
    round_trip: RoundTrip,
    aggregation: Aggregation,
    losses: Losses,
    /// The greatest rate of the last cycles.
    max_rate: Maximum<Rate>,
    /// What recent losses leave of it.
    short_term_rate: Option<Rate>,
    /// What recent losses leave room for in flight.
    short_term_in_flight: Option<u64>,
    /// The most in flight that did not lose too much.
    long_term_in_flight: Option<u64>,

    /// The round in which the window was what held sending back, lately.
    window_limited_in: Option<u64>,
    restarts_from_idle: bool,
    /// The window before something cut it for a while.
    prior_window: u64,
    /// Everything was lost; ends with the next round.
    collapsed: bool,
    undo: Undo,
    random: fastrand::Rng,
}

impl Bbr {
    /// For packets of at most `packet_bytes`. The seed decides the random part of the time between two bandwidth probes.
    pub(crate) fn new(now: Instant, packet_bytes: u16, seed: u64) -> Self {
        let packet_bytes = u64::from(packet_bytes);
        let initial_window = INITIAL_WINDOW_PACKETS * packet_bytes;
        let mut bbr = Self {
            packet_bytes,
            initial_window,
            window: initial_window,
            pacing_rate: Rate::ZERO,
            send_quantum: 0,
            schedule: Schedule::new(),
            phase: Phase::Startup,
            cycle: Cycle::new(now),
            pipe: Pipe::new(),
            sampler: Sampler::new(now),
            rounds: Rounds::new(),
            round_trip: RoundTrip::new(),
            aggregation: Aggregation::new(now),
            losses: Losses::new(),
            max_rate: Maximum::new(),
            short_term_rate: None,
            short_term_in_flight: None,
            long_term_in_flight: None,
            window_limited_in: None,
            restarts_from_idle: false,
            prior_window: 0,
            collapsed: false,
            undo: Undo::default(),
            random: fastrand::Rng::with_seed(seed),
        };
        bbr.init_pacing();
        bbr
    }

    /// Goes on from what another controller has found, instead of looking for it.
    pub(crate) fn take_over(&mut self, now: Instant, found: Found) {
        self.window = found.window.max(self.least_window());
        self.round_trip.on_sample(now, found.rtt);
        let Some(rate) = Rate::of(self.window, found.rtt).filter(|_| found.is_full) else {
            self.initial_window = self.window;
            return self.init_pacing();
        };
        self.max_rate.update(self.cycle.count, rate, RATE_CYCLES);
        self.pipe.was_full = true;
        self.start_down(now);
        self.set_pacing(self.phase.pacing_gain());
        self.set_send_quantum();
    }

    /// A packet leaves that the peer will acknowledge.
    pub(crate) fn on_sent(&mut self, now: Instant, number: u64, bytes: u64) {
        if self.sampler.in_flight == 0 && self.sampler.app_limited() {
            self.restart_from_idle(now);
        }
        if self.sampler.in_flight == 0 {
            self.schedule.restart();
        }
        self.schedule.on_sent(now, bytes, self.pacing_rate);
        self.sampler.on_sent(now, number, bytes, self.rounds.count);
    }

    /// Something waits for room in the window.
    pub(crate) fn on_window_limited(&mut self) {
        self.window_limited_in = Some(self.rounds.count);
        self.schedule.restart();
    }

    /// A packet was acknowledged.
    pub(crate) fn on_acked(&mut self, now: Instant, number: u64, bytes: u64) {
        self.sampler.on_acked(now, number, bytes);
    }

    /// All packets that were acknowledged at once are told. `in_flight` is what is left on the way, and `app_limited`
    /// says that there was room for more and nothing to send.
    pub(crate) fn on_acks_end(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        self.sampler.in_flight = in_flight;
        if app_limited {
            self.schedule.restart();
        }
        if app_limited && in_flight < self.window {
            self.sampler.mark_app_limited();
        }
        let min_rtt = self.round_trip.least();
        if let Some(sample) = self.sampler.sample(now, min_rtt, self.rounds.count) {
            self.update_model_and_state(now, &sample);
            self.update_control(&sample);
        }
    }

    /// A packet was lost.
    pub(crate) fn on_lost(&mut self, now: Instant, number: u64, bytes: u64) {
        let departure = self.sampler.on_lost(number, bytes);
        if self.losses.on_lost(number, bytes, self.sampler.delivered) {
            self.remember_for_undo();
        }
        if let Some(departure) = departure {
            self.react_to_loss(now, &departure);
        }
    }

    /// The path marked packets instead of dropping them (ECN). The draft leaves the answer open (§3.7): it is that to a
    /// round that loses too much.
    pub(crate) fn on_mark(&mut self, now: Instant) {
        if self.losses.on_mark(self.sampler.delivered) {
            self.remember_for_undo();
        }
        self.react_to_mark(now);
    }

    /// Nothing arrived for so long that the window may no longer be trusted (RFC 9002, section 7.6).
    pub(crate) fn on_persistent_congestion(&mut self) {
        self.collapse();
    }

    /// What was taken for lost has arrived.
    pub(crate) fn on_spurious_loss(&mut self) {
        self.undo_losses();
    }

    /// Packets may have another length from now on.
    pub(crate) fn set_packet_bytes(&mut self, packet_bytes: u16) {
        self.packet_bytes = u64::from(packet_bytes);
        self.window = self.window.max(self.least_window());
        self.set_send_quantum();
    }

    /// What may be in flight, in bytes.
    pub(crate) fn window(&self) -> u64 {
        self.window
    }

    /// What may be in flight before anything is known, in bytes.
    pub(crate) fn initial_window(&self) -> u64 {
        self.initial_window
    }

    /// How fast packets may leave, in bytes a second; faster for a while where they left too late.
    pub(crate) fn pacing_rate(&self) -> u64 {
        let gain = if self.schedule.is_behind() { CATCH_UP_GAIN } else { 1.0 };
        self.pacing_rate.times(gain).bytes_per_s()
    }

    /// What may leave at once, in bytes.
    pub(crate) fn send_quantum(&self) -> u64 {
        self.send_quantum
    }

    /// The rate at which the path delivers, in bytes a second; `None` before it is known.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.max_rate.value().map(Rate::bytes_per_s)
    }

    /// What it is doing.
    #[cfg(test)]
    pub(crate) fn state(&self) -> State {
        self.phase.state()
    }

    /// Packets that are followed.
    #[cfg(test)]
    fn remembered(&self) -> usize {
        self.sampler.remembered()
    }
}
