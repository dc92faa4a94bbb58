//! What was lost in a round, and what was delivered in it at best (§5.5.10).

use super::{rate::Rate, sampler::Sample};

/// Collects over one round; a round with losses begins at the first of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Losses {
    seen: bool,
    marked: bool,
    bytes: u64,
    ranges: u32,
    last_number: Option<u64>,
    delivered_at_start: u64,
    ends_at: u64,
    latest_rate: Rate,
    latest_delivered: u64,
}

/// A round that is over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Round {
    /// The path marked packets.
    pub(super) marked: bool,
    pub(super) lost: u64,
    /// Lost and delivered.
    pub(super) settled: u64,
    /// Ranges of consecutive packets that were lost.
    pub(super) ranges: u32,
}

impl Losses {
    pub(super) fn new() -> Self {
        Self {
            seen: false,
            marked: false,
            bytes: 0,
            ranges: 0,
            last_number: None,
            delivered_at_start: 0,
            ends_at: 0,
            latest_rate: Rate::ZERO,
            latest_delivered: 0,
        }
    }

    /// True for the first one of a round.
    pub(super) fn on_lost(&mut self, number: u64, bytes: u64, delivered: u64) -> bool {
        let first = self.begin(delivered);
        if self.last_number.is_none_or(|last| number != last.wrapping_add(1)) {
            self.ranges += 1;
        }
        self.last_number = Some(number);
        self.bytes += bytes;
        first
    }

    /// True for the first one of a round.
    pub(super) fn on_mark(&mut self, delivered: u64) -> bool {
        self.marked = true;
        self.begin(delivered)
    }

    /// Takes in what was delivered; the round that ended with it, if one did.
    pub(super) fn on_sample(&mut self, sample: &Sample, delivered: u64) -> Option<Round> {
        self.latest_rate = self.latest_rate.max(sample.rate.unwrap_or(Rate::ZERO));
        self.latest_delivered = self.latest_delivered.max(sample.delivered);
        (sample.delivered_before >= self.ends_at).then(|| self.round(delivered))
    }

    /// After a round has ended and was judged.
    pub(super) fn next_round(&mut self, sample: &Sample, delivered: u64) {
        self.forget();
        self.delivered_at_start = delivered;
        self.ends_at = delivered;
        self.latest_rate = sample.rate.unwrap_or(Rate::ZERO);
        self.latest_delivered = sample.delivered;
    }

    /// What was lost so far is dealt with, and what was delivered so far no longer counts.
    pub(super) fn restart(&mut self) {
        self.forget();
        self.latest_rate = Rate::ZERO;
        self.latest_delivered = 0;
    }

    /// What was lost so far does not count.
    pub(super) fn forget(&mut self) {
        self.seen = false;
        self.marked = false;
        self.bytes = 0;
        self.ranges = 0;
        self.last_number = None;
    }

    /// Ranges of consecutive packets that were lost in the round so far.
    pub(super) fn ranges(&self) -> u32 {
        self.ranges
    }

    /// The greatest rate of the round.
    pub(super) fn latest_rate(&self) -> Rate {
        self.latest_rate
    }

    /// The most that was delivered within a round trip of the round.
    pub(super) fn latest_delivered(&self) -> u64 {
        self.latest_delivered
    }

    fn begin(&mut self, delivered: u64) -> bool {
        let first = !self.seen;
        if first {
            self.seen = true;
            self.delivered_at_start = delivered;
            self.ends_at = delivered;
        }
        first
    }

    fn round(&self, delivered: u64) -> Round {
        let settled = self.bytes + (delivered - self.delivered_at_start);
        Round { marked: self.marked, lost: self.bytes, settled, ranges: self.ranges }
    }
}
