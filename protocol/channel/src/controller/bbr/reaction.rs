//! What losses and marks change in the model (§5.5.10, §5.5.11).

use std::time::Instant;

use super::{
    Bbr,
    constants::{BETA, BORNE_LOSS, CHANCE_DEVIATIONS, LOSS_THRESHOLD, STARTUP_LOST_RANGES, STARTUP_OVERFLOW},
    losses::Round,
    machine::Phase,
    rate::Rate,
    sampler::Departure,
};

/// What losses changed, to be put back should they turn out to be none (§5.5.11.1).
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Undo {
    /// The probe that they ended.
    pub(super) ended: Option<Ended>,
    short_term_rate: Option<Rate>,
    short_term_in_flight: Option<u64>,
    long_term_in_flight: Option<u64>,
}

/// A probe that losses can end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ended {
    Startup,
    Up,
}

impl Bbr {
    pub(super) fn remember_for_undo(&mut self) {
        self.save_window();
        self.undo = Undo {
            ended: None,
            short_term_rate: self.short_term_rate,
            short_term_in_flight: self.short_term_in_flight,
            long_term_in_flight: self.long_term_in_flight,
        };
    }

    /// Of packets that left while we asked for more: is it too much, and where did it become so (§5.5.10.2)?
    pub(super) fn react_to_loss(&mut self, now: Instant, departure: &Departure) {
        let lost = self.sampler.lost - departure.lost;
        if self.cycle.is_probe_sample && self.is_too_much(lost, departure.in_flight) {
            self.lower_long_term(now, in_flight_at_loss(departure, lost), departure.app_limited);
        }
        if matches!(self.phase, Phase::Startup) && self.is_overflowing(lost, departure.in_flight) {
            self.end_startup_by_loss();
        }
    }

    /// The draft waits until a round with losses is over (§5.3.1.3). Where three tenths are lost a queue overflows: without this
    /// a queue of a quarter of what the path holds lost 1.6 times that, and 0.95 times with it.
    fn is_overflowing(&self, lost: u64, in_flight: u64) -> bool {
        self.losses.ranges() >= STARTUP_LOST_RANGES && lost as f64 > in_flight as f64 * STARTUP_OVERFLOW
    }

    pub(super) fn react_to_mark(&mut self, now: Instant) {
        if self.cycle.is_probe_sample {
            self.lower_long_term(now, self.sampler.in_flight, self.sampler.app_limited());
        }
        if matches!(self.phase, Phase::Startup) {
            self.end_startup_by_loss();
        }
    }

    /// At the end of a round: outside of probes, go down to what was delivered (§5.5.10.3), where more was lost than a
    /// probe may lose. The draft goes down after any loss, and so by two percent a round on a path that loses one packet in
    /// a hundred by itself, which cost a tenth of it; beside CUBIC it made no difference.
    pub(super) fn judge_round(&mut self, round: &Round) {
        let is_congested = round.marked || self.is_too_much(round.lost, round.settled);
        if self.phase.is_probing() || !is_congested {
            return;
        }
        let rate = self.short_term_rate.unwrap_or(self.max_rate());
        self.short_term_rate = Some(self.losses.latest_rate().max(rate.times(BETA)));
        let in_flight = self.short_term_in_flight.unwrap_or(self.window);
        self.short_term_in_flight = Some(self.losses.latest_delivered().max(beta(in_flight)));
    }

    /// Whether so much lost of so much is more than a path may lose by itself: two percent (§2.14), and what chance adds to
    /// one percent. The draft has no room for chance: where little is in flight, and one in a hundred is lost, most probes
    /// ended by it, and a rate that had once fallen stayed low.
    pub(super) fn is_too_much(&self, lost: u64, of: u64) -> bool {
        let packets = of as f64 / self.packet_bytes as f64;
        let chance = CHANCE_DEVIATIONS * (packets * BORNE_LOSS).sqrt();
        lost as f64 > (packets * LOSS_THRESHOLD + chance) * self.packet_bytes as f64
    }

    pub(super) fn forget_short_term(&mut self) {
        self.short_term_rate = None;
        self.short_term_in_flight = None;
    }

    /// What fills the pipe, or the window where that is less.
    pub(super) fn target_in_flight(&self) -> u64 {
        self.pipe_volume(self.bounded_rate(), 1.0).min(self.window)
    }

    /// Nothing arrives any more: begin with the least window, and go back once a round was whole (§5.6.4.4).
    pub(super) fn collapse(&mut self) {
        self.remember_for_undo();
        self.collapsed = true;
        self.rounds.restart(self.sampler.delivered);
        self.window = self.least_window();
    }

    pub(super) fn check_collapse(&mut self) {
        if self.collapsed && self.rounds.started {
            self.collapsed = false;
            self.restore_window();
        }
    }

    /// What was taken for lost has arrived: go back to where it was noticed (§5.5.11.2).
    pub(super) fn undo_losses(&mut self) {
        self.restore_window();
        self.losses.forget();
        self.pipe.restart(Rate::ZERO);
        let ended = self.undo.ended.take();
        let undo = self.undo;
        self.short_term_rate = higher(self.short_term_rate, undo.short_term_rate);
        self.short_term_in_flight = higher(self.short_term_in_flight, undo.short_term_in_flight);
        self.long_term_in_flight = higher(self.long_term_in_flight, undo.long_term_in_flight);
        self.go_back_to(ended);
    }

    fn go_back_to(&mut self, ended: Option<Ended>) {
        let measuring = matches!(self.phase, Phase::ProbeRtt(_));
        match ended {
            Some(Ended::Startup) => {
                self.pipe.was_full = false;
                if !measuring {
                    self.phase = Phase::Startup;
                }
            }
            Some(Ended::Up) if !measuring && !matches!(self.phase, Phase::Up) => self.start_refill(),
            Some(Ended::Up) | None => {}
        }
    }

    /// Once for each probe: what was in flight is too much, but no less than CUBIC would keep is left.
    fn lower_long_term(&mut self, now: Instant, in_flight: u64, app_limited: bool) {
        self.cycle.went_too_high = true;
        self.cycle.is_probe_sample = false;
        if !app_limited {
            self.long_term_in_flight = Some(in_flight.max(beta(self.target_in_flight())));
        }
        if matches!(self.phase, Phase::Up) {
            self.undo.ended = Some(Ended::Up);
            self.start_down(now);
        }
    }
}

fn beta(bytes: u64) -> u64 {
    (bytes as f64 * BETA) as u64
}

/// The bound that holds less back; none is the highest.
fn higher<T: PartialOrd>(one: Option<T>, other: Option<T>) -> Option<T> {
    let (one, other) = (one?, other?);
    Some(if one < other { other } else { one })
}

/// What was in flight where the losses passed the threshold: somewhere within the lost packet (§5.5.10.2).
fn in_flight_at_loss(departure: &Departure, lost: u64) -> u64 {
    let before = departure.in_flight.saturating_sub(departure.bytes) as f64;
    let lost_before = lost.saturating_sub(departure.bytes) as f64;
    let part = (LOSS_THRESHOLD * before - lost_before) / (1.0 - LOSS_THRESHOLD);
    (before + part).max(0.0) as u64
}
