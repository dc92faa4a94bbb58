//! Round trips counted by what was delivered, not by the clock (§5.5.1).

/// A round ends with the acknowledgement of a packet that left after the round had begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rounds {
    pub(super) count: u64,
    /// Whether the latest acknowledgement began a round.
    pub(super) started: bool,
    ends_at: u64,
}

impl Rounds {
    pub(super) fn new() -> Self {
        Self { count: 0, started: false, ends_at: 0 }
    }

    /// The round begins anew with what leaves from now on.
    pub(super) fn restart(&mut self, delivered: u64) {
        self.ends_at = delivered;
    }

    /// `delivered_before` was delivered when the newest acknowledged packet left, `delivered` by now.
    pub(super) fn on_sample(&mut self, delivered_before: u64, delivered: u64) {
        self.started = delivered_before >= self.ends_at;
        if self.started {
            self.restart(delivered);
            self.count += 1;
        }
    }
}
