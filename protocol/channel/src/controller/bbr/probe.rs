//! Emptying the queue to measure the round trip (§5.3.4).

use std::time::Instant;

use super::{Bbr, constants::PROBE_RTT_TIME, machine::Phase, sampler::Sample};

/// How far Probe RTT is.
#[derive(Debug, Clone, Copy)]
pub(super) enum ProbeRtt {
    /// More than half a pipe is in flight.
    Draining,
    /// It is not; until then at least, and for a round.
    Measuring { until: Instant, round_over: bool },
}

impl Bbr {
    pub(super) fn check_round_trip(&mut self, now: Instant, sample: &Sample) {
        let is_first = self.round_trip.least().is_none();
        let expired = self.round_trip.on_sample(now, sample.rtt);
        if is_first {
            self.init_pacing();
        }
        if expired && !self.restarts_from_idle && !matches!(self.phase, Phase::ProbeRtt(_)) {
            self.enter_probe_rtt();
        }
        self.follow_probe_rtt(now);
        self.restarts_from_idle &= sample.delivered == 0;
    }

    fn enter_probe_rtt(&mut self) {
        self.save_window();
        self.phase = Phase::ProbeRtt(ProbeRtt::Draining);
        self.cycle.stop_probing();
        self.rounds.restart(self.sampler.delivered);
    }

    fn follow_probe_rtt(&mut self, now: Instant) {
        let Phase::ProbeRtt(progress) = self.phase else { return };
        // What is measured meanwhile is our own restraint.
        self.sampler.mark_app_limited();
        match progress {
            ProbeRtt::Draining if self.sampler.in_flight <= self.probe_rtt_window() => {
                let until = now + PROBE_RTT_TIME;
                self.phase = Phase::ProbeRtt(ProbeRtt::Measuring { until, round_over: false });
                self.rounds.restart(self.sampler.delivered);
            }
            ProbeRtt::Draining => {}
            ProbeRtt::Measuring { until, round_over } => {
                let round_over = round_over || self.rounds.started;
                self.phase = Phase::ProbeRtt(ProbeRtt::Measuring { until, round_over });
                if round_over {
                    self.check_probe_rtt_done(now);
                }
            }
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        let Phase::ProbeRtt(ProbeRtt::Measuring { until, .. }) = self.phase else { return };
        if now <= until {
            return;
        }
        self.round_trip.postpone(now);
        self.restore_window();
        self.forget_short_term();
        if self.pipe.was_full {
            // The queue is empty: nothing is left for Down to do but to set the clock of the next probe (§5.3.4.4).
            self.start_down(now);
            self.phase = Phase::Cruise;
        } else {
            self.phase = Phase::Startup;
        }
    }
}
