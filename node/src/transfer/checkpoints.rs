//! [`Checkpoints`]: when a receiver's session writes what it stored to its disk before its end, so that a power cut
//! costs little.

use std::time::Duration;

use tokio::time::Instant;

/// How long what is stored may stay in memory alone: a power cut loses no more than that.
const INTERVAL: Duration = Duration::from_secs(5);

/// How many bytes may: a disk writes them in about a second.
const BYTES: u64 = 100_000_000;

/// How long the disk is left to others in between: a session of a second is not slowed at all.
const PAUSE: Duration = Duration::from_secs(1);

/// How much is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Stored {
    pub(super) bytes: u64,
    pub(super) entries: u64,
}

/// Counts since the last checkpoint.
#[derive(Debug)]
pub(super) struct Checkpoints {
    ended: Instant,
    covered: Stored,
    is_running: bool,
}

impl Checkpoints {
    pub(super) fn new(now: Instant) -> Self {
        Self { ended: now, covered: Stored::default(), is_running: false }
    }

    /// Whether one is to begin; the caller then begins it.
    pub(super) fn begin(&mut self, stored: Stored, now: Instant) -> bool {
        let elapsed = now - self.ended;
        let is_much = stored.bytes.saturating_sub(self.covered.bytes) >= BYTES;
        let is_due = stored != self.covered && (elapsed >= INTERVAL || is_much && elapsed >= PAUSE);
        if self.is_running || !is_due {
            return false;
        }
        (self.covered, self.is_running) = (stored, true);
        true
    }

    /// Notes that it has ended.
    pub(super) fn end(&mut self, now: Instant) {
        (self.ended, self.is_running) = (now, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(bytes: u64) -> Stored {
        Stored { bytes, entries: 0 }
    }

    #[test]
    fn one_is_due_after_some_time_if_anything_was_stored() {
        let now = Instant::now();
        let mut checkpoints = Checkpoints::new(now);
        assert!(!checkpoints.begin(Stored::default(), now + INTERVAL));
        assert!(!checkpoints.begin(stored(1), now + INTERVAL / 2));
        assert!(checkpoints.begin(stored(1), now + INTERVAL));
        checkpoints.end(now + INTERVAL);
        assert!(!checkpoints.begin(stored(1), now + 2 * INTERVAL));
        assert!(checkpoints.begin(Stored { bytes: 1, entries: 1 }, now + 2 * INTERVAL));
    }

    #[test]
    fn much_is_written_sooner_but_not_without_a_pause() {
        let now = Instant::now();
        let mut checkpoints = Checkpoints::new(now);
        assert!(!checkpoints.begin(stored(BYTES - 1), now + PAUSE));
        assert!(!checkpoints.begin(stored(BYTES), now + PAUSE / 2));
        assert!(checkpoints.begin(stored(BYTES), now + PAUSE));
    }

    #[test]
    fn there_is_one_at_a_time() {
        let now = Instant::now();
        let mut checkpoints = Checkpoints::new(now);
        assert!(checkpoints.begin(stored(1), now + INTERVAL));
        assert!(!checkpoints.begin(stored(2 * BYTES), now + 2 * INTERVAL));
        checkpoints.end(now + 2 * INTERVAL);
        assert!(!checkpoints.begin(stored(2 * BYTES), now + 2 * INTERVAL));
        assert!(checkpoints.begin(stored(2 * BYTES), now + 2 * INTERVAL + PAUSE));
    }
}
