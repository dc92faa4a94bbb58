//! The receive window of a connection: small for a peer whose streams nobody reads, large where a long path is
//! read fast.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use noq::{Connection, PathId};

use crate::settings::QuicFlow;

/// Shared by the streams of a connection, which tell it what was read.
pub(super) struct Window {
    connection: Connection,
    read_bytes: AtomicU64,
    /// The next look at the window is due when so much has been read.
    due_bytes: AtomicU64,
    growth: Mutex<Growth>,
}

impl Window {
    pub(super) fn new(connection: Connection, flow: QuicFlow) -> Self {
        let growth = Growth::new(flow, Instant::now());
        let due_bytes = AtomicU64::new(growth.window_bytes.into());
        Self { connection, read_bytes: AtomicU64::new(0), due_bytes, growth: Mutex::new(growth) }
    }

    pub(super) fn on_read(&self, bytes: usize) {
        let read = self.read_bytes.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        if read >= self.due_bytes.load(Ordering::Relaxed) {
            self.look(read);
        }
    }

    fn look(&self, read: u64) {
        // Two streams may find it due at once. A change is whole before anything can panic.
        let mut growth = self.growth.lock().unwrap_or_else(PoisonError::into_inner);
        if read < self.due_bytes.load(Ordering::Relaxed) {
            return;
        }
        let rtt = self.connection.rtt(PathId::ZERO).unwrap_or_default();
        if growth.on_window_read(Instant::now(), rtt) {
            self.connection.set_receive_window(growth.window_bytes.into());
        }
        self.due_bytes.store(read + u64::from(growth.window_bytes), Ordering::Relaxed);
    }
}

/// Decides when the window is what holds the peer back.
struct Growth {
    window_bytes: u32,
    largest_bytes: u32,
    /// When a whole window had been read for the last time.
    since: Instant,
}

impl Growth {
    fn new(flow: QuicFlow, since: Instant) -> Self {
        Self { window_bytes: flow.window_bytes, largest_bytes: flow.largest_window_bytes, since }
    }

    /// A whole window was read. In less than two round trips that takes more than half of the rate that the window
    /// allows; then it is doubled. True when it has grown.
    fn on_window_read(&mut self, now: Instant, rtt: Duration) -> bool {
        let took = now.duration_since(self.since);
        self.since = now;
        let grown = self.window_bytes.saturating_mul(2).min(self.largest_bytes);
        if took >= 2 * rtt || grown == self.window_bytes {
            return false;
        }
        self.window_bytes = grown;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);

    #[test]
    fn a_window_that_is_read_fast_grows_to_its_limit() {
        let mut now = Instant::now();
        let mut growth = Growth::new(QuicFlow::default(), now);
        let mut sizes = Vec::new();
        for _ in 0..4 {
            now += RTT;
            growth.on_window_read(now, RTT);
            sizes.push(growth.window_bytes >> 20);
        }
        assert_eq!(sizes, [32, 64, 64, 64]);
    }

    #[test]
    fn a_window_that_is_read_slowly_stays() {
        let now = Instant::now();
        let mut growth = Growth::new(QuicFlow::default(), now);
        assert!(!growth.on_window_read(now + 2 * RTT, RTT));
        assert_eq!(growth.window_bytes, QuicFlow::default().window_bytes);
    }

    #[test]
    fn a_window_that_may_not_grow_stays() {
        let (now, flow) = (Instant::now(), QuicFlow::default());
        let mut growth = Growth::new(QuicFlow { largest_window_bytes: flow.window_bytes, ..flow }, now);
        assert!(!growth.on_window_read(now + RTT, RTT));
    }
}
