//! What the model says of the window, the pacing rate and the quantum (§5.6).

use super::{
    Bbr,
    constants::{
        HEADROOM, LEAST_WINDOW_PACKETS, PACING_MARGIN, PROBE_RTT_WINDOW_GAIN, QUANTUM_BYTES, QUANTUM_PACKETS,
        QUANTUM_TIME, STARTUP_PACING_GAIN, SUPPOSED_RTT,
    },
    machine::Phase,
    rate::Rate,
    sampler::Sample,
};

impl Bbr {
    /// The first rate: a window in the round trip, as far as that is known (§5.6.2).
    pub(super) fn init_pacing(&mut self) {
        let rtt = self.round_trip.least().filter(|rtt| !rtt.is_zero()).unwrap_or(SUPPOSED_RTT);
        let nominal = Rate::of(self.initial_window, rtt).unwrap_or(Rate::ZERO);
        self.pacing_rate = nominal.times(STARTUP_PACING_GAIN);
        self.set_send_quantum();
    }

    pub(super) fn update_control(&mut self, sample: &Sample) {
        self.set_pacing(self.phase.pacing_gain());
        self.set_send_quantum();
        self.set_window(sample.newly_acked);
    }

    /// Until the pipe was full the rate only rises: what the application left unused says nothing of the path. Where no rate
    /// was measured, as by a clock that stands still, the last one stays: by none nothing would ever leave.
    pub(super) fn set_pacing(&mut self, gain: f64) {
        let rate = self.bounded_rate().times(gain * PACING_MARGIN);
        if rate > self.pacing_rate || (self.pipe.was_full && rate > Rate::ZERO) {
            self.pacing_rate = rate;
        }
    }

    pub(super) fn set_send_quantum(&mut self) {
        let quantum = self.pacing_rate.bytes_in(QUANTUM_TIME).min(QUANTUM_BYTES);
        self.send_quantum = quantum.max(QUANTUM_PACKETS * self.packet_bytes);
    }

    /// The rate that the path delivers and that recent losses leave (§5.5.10.3).
    pub(super) fn bounded_rate(&self) -> Rate {
        let rate = self.max_rate();
        self.short_term_rate.map_or(rate, |bound| rate.min(bound))
    }

    pub(super) fn max_rate(&self) -> Rate {
        self.max_rate.value().unwrap_or(Rate::ZERO)
    }

    /// `gain` times what fills the pipe at `rate`, without a queue.
    pub(super) fn pipe_volume(&self, rate: Rate, gain: f64) -> u64 {
        match self.round_trip.least() {
            Some(rtt) => rate.times(gain).bytes_in(rtt),
            None => self.initial_window,
        }
    }

    /// The same, and no less than sending in quanta takes (§5.6.4.2).
    pub(super) fn in_flight_at(&self, rate: Rate, gain: f64) -> u64 {
        self.with_quanta(self.pipe_volume(rate, gain))
    }

    pub(super) fn least_window(&self) -> u64 {
        LEAST_WINDOW_PACKETS * self.packet_bytes
    }

    /// The proven bound without what is left to others; `None` where nothing is proven (§5.3.3.9).
    pub(super) fn bound_with_headroom(&self) -> Option<u64> {
        let bound = self.long_term_in_flight?;
        let headroom = ((bound as f64 * HEADROOM) as u64).max(self.packet_bytes);
        Some(bound.saturating_sub(headroom).max(self.least_window()))
    }

    /// What Probe RTT lets in flight.
    pub(super) fn probe_rtt_window(&self) -> u64 {
        self.pipe_volume(self.bounded_rate(), PROBE_RTT_WINDOW_GAIN).max(self.least_window())
    }

    pub(super) fn save_window(&mut self) {
        let is_cut = self.collapsed || matches!(self.phase, Phase::ProbeRtt(_));
        self.prior_window = if is_cut { self.prior_window.max(self.window) } else { self.window };
    }

    pub(super) fn restore_window(&mut self) {
        self.window = self.window.max(self.prior_window);
    }

    /// It grows by no more than what was acknowledged, and falls to the model at once (§5.6.4.6).
    fn set_window(&mut self, newly_acked: u64) {
        let wanted = self.wanted_window();
        if self.pipe.was_full {
            self.window = (self.window + newly_acked).min(wanted);
        } else if self.window < wanted || self.sampler.delivered < self.initial_window {
            self.window += newly_acked;
        }
        self.window = self.window.min(self.window_bound()).max(self.least_window());
    }

    fn wanted_window(&self) -> u64 {
        let volume = self.pipe_volume(self.bounded_rate(), self.phase.window_gain());
        self.with_quanta(volume.saturating_add(self.aggregation.extra()))
    }

    fn with_quanta(&self, volume: u64) -> u64 {
        let volume = volume.max(self.send_quantum).max(self.least_window());
        match self.phase {
            Phase::Up => volume.saturating_add(2 * self.packet_bytes),
            Phase::Startup
            | Phase::Drain { .. }
            | Phase::Down
            | Phase::Cruise
            | Phase::Refill
            | Phase::ProbeRtt(_) => volume,
        }
    }

    /// What losses and the state leave of the window (§5.6.4.5, §5.6.4.7).
    fn window_bound(&self) -> u64 {
        let long_term = match self.phase {
            Phase::Startup | Phase::Drain { .. } => None,
            Phase::Down | Phase::Refill | Phase::Up => self.long_term_in_flight,
            Phase::Cruise | Phase::ProbeRtt(_) => self.bound_with_headroom(),
        };
        let probe_rtt = matches!(self.phase, Phase::ProbeRtt(_)).then(|| self.probe_rtt_window());
        let bounds = [long_term, self.short_term_in_flight, probe_rtt];
        bounds.into_iter().flatten().min().unwrap_or(u64::MAX)
    }
}
