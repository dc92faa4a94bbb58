//! Whether packets leave as fast as the pacing rate says.

use std::time::Instant;

use super::{constants::CATCH_UP_TIME, rate::Rate};

/// When the next packet is due. Whoever paces wakes late on a busy machine, and forgets what it might have sent meanwhile.
#[derive(Debug, Clone, Copy)]
pub(super) struct Schedule {
    due: Option<Instant>,
    behind: bool,
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self { due: None, behind: false }
    }

    pub(super) fn on_sent(&mut self, now: Instant, bytes: u64, rate: Rate) {
        let earliest = now.checked_sub(CATCH_UP_TIME).unwrap_or(now);
        let due = self.due.map_or(now, |due| due.max(earliest)) + rate.time_of(bytes);
        self.due = Some(due);
        self.behind = due < now;
    }

    /// Something else than the rate held sending back: nothing of it is owed.
    pub(super) fn restart(&mut self) {
        *self = Self::new();
    }

    pub(super) fn is_behind(&self) -> bool {
        self.behind
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::controller::bbr::constants::CATCH_UP_GAIN;

    const BYTES: u64 = 1_200;

    /// What the QUIC library's pacer keeps of what it might have sent.
    const KEPT: Duration = Duration::from_millis(2);

    fn rate() -> Rate {
        Rate::of(25_000_000, Duration::from_secs(1)).unwrap()
    }

    /// What leaves in a second, in bytes, by a pacer that wakes at these intervals.
    fn paced(interval: Duration) -> u64 {
        let start = Instant::now();
        let mut schedule = Schedule::new();
        let (mut sent, mut tokens, mut woken) = (0, 0, start);
        while woken < start + Duration::from_secs(1) {
            let now = woken + interval;
            let gain = |schedule: &Schedule| if schedule.is_behind() { CATCH_UP_GAIN } else { 1.0 };
            let offered = rate().times(gain(&schedule));
            tokens = (tokens + offered.bytes_in(interval)).min(offered.bytes_in(KEPT));
            while tokens >= BYTES {
                tokens -= BYTES;
                sent += BYTES;
                schedule.on_sent(now, BYTES, rate());
            }
            woken = now;
        }
        sent
    }

    #[test]
    fn one_that_wakes_in_time_sends_no_faster() {
        let sent = paced(Duration::from_millis(1));
        assert!((24_800_000..25_200_000).contains(&sent), "{sent} bytes");
    }

    #[test]
    fn one_that_wakes_late_keeps_its_rate() {
        let sent = paced(Duration::from_millis(4));
        assert!((24_000_000..25_200_000).contains(&sent), "{sent} bytes");
    }

    #[test]
    fn no_more_than_a_little_is_owed() {
        let mut schedule = Schedule::new();
        let start = Instant::now();
        schedule.on_sent(start, BYTES, rate());
        let later = start + Duration::from_secs(5);
        let owed = rate().bytes_in(CATCH_UP_TIME) / BYTES;
        for _ in 0..owed {
            schedule.on_sent(later, BYTES, rate());
            assert!(schedule.is_behind());
        }
        schedule.on_sent(later, BYTES, rate());
        assert!(!schedule.is_behind());
    }

    #[test]
    fn what_something_else_held_back_is_not_owed() {
        let mut schedule = Schedule::new();
        let start = Instant::now();
        schedule.on_sent(start, BYTES, rate());
        schedule.restart();
        schedule.on_sent(start + Duration::from_secs(5), BYTES, rate());
        assert!(!schedule.is_behind());
    }
}
