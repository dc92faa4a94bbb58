//! Acknowledgements that come late and many at once (§5.5.9).

use std::time::Instant;

use super::{maximum::Maximum, rate::Rate};

/// What was acknowledged beyond what the rate lets expect. The window needs as much more, to go on while nothing comes.
#[derive(Debug, Clone)]
pub(super) struct Aggregation {
    since: Instant,
    acked: u64,
    extra: Maximum<u64>,
}

impl Aggregation {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, acked: 0, extra: Maximum::new() }
    }

    pub(super) fn restart(&mut self, now: Instant) {
        self.since = now;
        self.acked = 0;
    }

    /// How much more was acknowledged since the last restart than `rate` lets expect.
    pub(super) fn on_acked(&mut self, now: Instant, acked: u64, rate: Rate) -> u64 {
        let mut expected = rate.bytes_in(now.duration_since(self.since));
        if self.acked <= expected {
            self.restart(now);
            expected = 0;
        }
        self.acked += acked;
        self.acked.saturating_sub(expected)
    }

    /// Lets `extra` count for so many rounds.
    pub(super) fn remember(&mut self, round: u64, extra: u64, rounds: u64) {
        self.extra.update(round, extra, rounds);
    }

    pub(super) fn extra(&self) -> u64 {
        self.extra.value().unwrap_or(0)
    }
}
