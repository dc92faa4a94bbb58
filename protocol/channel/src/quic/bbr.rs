//! Our own BBR as a controller of the QUIC library.

use std::{any::Any, time::Instant};

use noq::congestion::{self, ControllerMetrics};
use noq_proto::RttEstimator;

use crate::controller::bbr::{Bbr, Found};

/// Tells [`Bbr`] what the library sees, and the library's pacer what it decides.
#[derive(Debug, Clone)]
pub(super) struct OwnBbr(Bbr);

impl OwnBbr {
    pub(super) fn new(now: Instant, mtu: u16) -> Self {
        Self(Bbr::new(now, mtu, fastrand::u64(..)))
    }

    /// For a path of which another controller has found something.
    pub(super) fn taking_over(now: Instant, mtu: u16, found: Found) -> Self {
        let mut own = Self::new(now, mtu);
        own.0.take_over(now, found);
        own
    }
}

impl congestion::Controller for OwnBbr {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, number: u64) {
        self.0.on_sent(now, number, bytes.into());
    }

    fn on_cwnd_limited(&mut self) {
        self.0.on_window_limited();
    }

    fn on_ack(&mut self, now: Instant, _: Instant, bytes: u64, number: u64, _: bool, _: &RttEstimator) {
        self.0.on_acked(now, number, bytes);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, _: Option<u64>) {
        self.0.on_acks_end(now, in_flight, app_limited);
    }

    fn on_packet_lost(&mut self, bytes: u16, number: u64, now: Instant) {
        self.0.on_lost(now, number, bytes.into());
    }

    /// Losses were told one by one before.
    fn on_congestion_event(&mut self, now: Instant, _: Instant, persistent: bool, ecn: bool, _: u64, _: u64) {
        if ecn {
            self.0.on_mark(now);
        }
        if persistent {
            self.0.on_persistent_congestion();
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        self.0.on_spurious_loss();
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.0.set_packet_bytes(mtu);
    }

    fn window(&self) -> u64 {
        self.0.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.0.window();
        metrics.pacing_rate = Some(self.0.pacing_rate());
        metrics.send_quantum = Some(self.0.send_quantum());
        metrics.bandwidth_estimate = self.0.rate().map(|bytes_per_s| bytes_per_s.saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn congestion::Controller> {
        Box::new(self.clone())
    }

    fn initial_window(&self) -> u64 {
        self.0.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
