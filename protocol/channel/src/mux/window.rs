//! The receive window of one stream: what the peer may still send, and when it may send more.

use std::time::Duration;

use crate::settings::TcpFlow;

/// The window that every stream begins with, by the specification.
pub(super) const FIRST_WINDOW_BYTES: u32 = 256 * 1024;

/// What the windows of all streams of a connection may come to together.
#[derive(Debug, Default)]
pub(super) struct Budget {
    bytes: u64,
    flow: TcpFlow,
}

impl Budget {
    pub(super) fn within(flow: TcpFlow) -> Self {
        Self { bytes: 0, flow }
    }

    /// Every stream has its first window, whatever that comes to.
    pub(super) fn add_stream(&mut self) {
        self.bytes += u64::from(FIRST_WINDOW_BYTES);
    }

    pub(super) fn remove_stream(&mut self, window: &ReceiveWindow) {
        self.bytes -= u64::from(window.limit);
    }

    /// Takes so many bytes, if they are there.
    fn take(&mut self, bytes: u32) -> bool {
        let fits = self.bytes + u64::from(bytes) <= self.flow.windows_bytes;
        if fits {
            self.bytes += u64::from(bytes);
        }
        fits
    }
}

/// The receive window of one stream.
#[derive(Debug)]
pub(super) struct ReceiveWindow {
    /// What the peer may still send.
    granted: u32,
    /// What it may have sent that was not read, at most.
    limit: u32,
    /// When it was last allowed to send more.
    granted_at: Duration,
}

impl ReceiveWindow {
    pub(super) fn new(now: Duration) -> Self {
        Self { granted: FIRST_WINDOW_BYTES, limit: FIRST_WINDOW_BYTES, granted_at: now }
    }

    /// Counts what is coming; `false` where the peer was not allowed to send so much.
    #[must_use]
    pub(super) fn take(&mut self, bytes: u32) -> bool {
        match self.granted.checked_sub(bytes) {
            Some(left) => {
                self.granted = left;
                true
            }
            None => false,
        }
    }

    /// Whether the peer should hear that it may send more: half of the window is free and not granted.
    pub(super) fn is_due(&self, unread: u32) -> bool {
        self.free(unread) >= self.limit / 2
    }

    /// What the peer may send beyond what it knows; it counts as told. Where it used up half a window in less than two
    /// round trips, the window was what held it up, and is doubled within the limits.
    pub(super) fn grant(
        &mut self,
        unread: u32,
        now: Duration,
        round_trip: Option<Duration>,
        budget: &mut Budget,
    ) -> u32 {
        let is_short =
            round_trip.is_some_and(|round_trip| now.saturating_sub(self.granted_at) < round_trip * 2);
        let more = self.limit.min(budget.flow.stream_window_bytes.saturating_sub(self.limit));
        if is_short && more > 0 && budget.take(more) {
            self.limit += more;
        }
        let free = self.free(unread);
        self.granted += free;
        self.granted_at = now;
        free
    }

    fn free(&self, unread: u32) -> u32 {
        // What was granted and what is unread never exceed the limit together.
        self.limit.saturating_sub(self.granted).saturating_sub(unread)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::limits::{RECEIVE_BYTES, STREAM_WINDOW_BYTES};

    const HALF: u32 = FIRST_WINDOW_BYTES / 2;

    #[test]
    fn more_is_granted_once_half_of_the_window_was_read() {
        let (now, mut budget) = (Duration::ZERO, Budget::default());
        budget.add_stream();
        let mut window = ReceiveWindow::new(now);
        assert!(window.take(HALF));
        assert!(!window.is_due(HALF) && !window.is_due(1));
        assert!(window.is_due(0));
        assert_eq!(window.grant(0, now, None, &mut budget), HALF);
        assert!(window.take(FIRST_WINDOW_BYTES));
        assert!(!window.take(1));
    }

    #[test]
    fn a_window_that_holds_the_peer_up_is_doubled_within_its_limits() {
        // given a peer that uses up whatever it is given at once
        let (now, mut budget) = (Duration::ZERO, Budget::default());
        budget.add_stream();
        let mut window = ReceiveWindow::new(now);
        let mut granted = FIRST_WINDOW_BYTES;
        let mut largest = granted;
        for _ in 0..20 {
            assert!(window.take(granted));
            granted = window.grant(0, now, Some(Duration::from_millis(141)), &mut budget);
            largest = largest.max(granted);
        }
        // then its window grew to what one stream may have
        assert_eq!(largest, STREAM_WINDOW_BYTES);
        budget.remove_stream(&window);
        assert_eq!(budget.bytes, 0);
    }

    #[test]
    fn a_window_that_is_used_up_slowly_stays() {
        let (now, mut budget) = (Duration::ZERO, Budget::default());
        budget.add_stream();
        let mut window = ReceiveWindow::new(now);
        assert!(window.take(FIRST_WINDOW_BYTES));
        let later = now + Duration::from_secs(1);
        let granted = window.grant(0, later, Some(Duration::from_millis(141)), &mut budget);
        assert_eq!(granted, FIRST_WINDOW_BYTES);
    }

    #[test]
    fn all_windows_together_do_not_grow_beyond_the_budget() {
        let (now, mut budget) = (Duration::ZERO, Budget::default());
        let mut windows: Vec<_> = (0..100).map(|_| ReceiveWindow::new(now)).collect();
        windows.iter().for_each(|_| budget.add_stream());
        for _ in 0..20 {
            for window in &mut windows {
                window.grant(0, now, Some(Duration::from_secs(1)), &mut budget);
            }
        }
        let sum: u64 = windows.iter().map(|window| u64::from(window.limit)).sum();
        assert!(sum <= RECEIVE_BYTES && sum > RECEIVE_BYTES / 2, "{sum}");
    }
}
