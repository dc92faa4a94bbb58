//! The least round trip, and when the queue must be emptied to measure it (§5.3.4.3, §5.5.7).

use std::time::{Duration, Instant};

use super::constants::{MIN_RTT_WINDOW, PROBE_RTT_INTERVAL, PROVES_MIN_RTT};

/// Two minima: one that lasts, and a younger one that decides when to measure.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundTrip {
    least: Option<Measured>,
    recent: Option<Measured>,
}

#[derive(Debug, Clone, Copy)]
struct Measured {
    rtt: Duration,
    at: Instant,
}

impl RoundTrip {
    pub(super) fn new() -> Self {
        Self { least: None, recent: None }
    }

    /// `None` before the first acknowledgement.
    pub(super) fn least(&self) -> Option<Duration> {
        self.least.map(|measured| measured.rtt)
    }

    /// True when the recent minimum is too old: time to measure.
    pub(super) fn on_sample(&mut self, now: Instant, rtt: Duration) -> bool {
        let expired = self.recent.is_some_and(|recent| now > recent.at + PROBE_RTT_INTERVAL);
        let recent = match self.recent {
            Some(recent) if !expired && rtt > recent.rtt.mul_f64(PROVES_MIN_RTT) => recent,
            Some(recent) if !expired => Measured { rtt: rtt.min(recent.rtt), at: now },
            Some(_) | None => Measured { rtt, at: now },
        };
        self.recent = Some(recent);
        if self.least.is_none_or(|least| recent.rtt < least.rtt || now > least.at + MIN_RTT_WINDOW) {
            self.least = Some(recent);
        }
        expired
    }

    /// Measured just now: the next time is a whole interval away.
    pub(super) fn postpone(&mut self, now: Instant) {
        if let Some(recent) = &mut self.recent {
            recent.at = now;
        }
    }
}
