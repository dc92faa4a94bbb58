//! The definition of `ready_s`.
//!
//! `ready_s` is the time from before the first connection is dialed until the last file of the target is closed, on the
//! target's monotonic clock. So it contains the set-up of all connections, the request, the reads of the source's files
//! as they are needed, the opening of streams, the transfer, and the making, writing and closing of every file. It does
//! not contain: identities, the listening of the source, the reading of the source beforehand, the start of either
//! process, acknowledgements, the closing of connections, sync, hashes and verification.
//!
//! Whether the last file was the last is known only later, from the source's counts, which come behind the content.
//! Therefore every close is noted, and the latest one counts once the counts agree.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Runs from [`Stopwatch::start`] on. Shared by all threads that close files.
#[derive(Debug)]
pub(crate) struct Stopwatch {
    began: Instant,
    /// Nanoseconds from there to the latest close; 0 before the first.
    closed_ns: AtomicU64,
}

impl Stopwatch {
    /// To be called right before the first connection is dialed.
    pub(crate) fn start() -> Self {
        Self { began: Instant::now(), closed_ns: AtomicU64::new(0) }
    }

    /// To be called right after a file was closed.
    pub(crate) fn note_close(&self) {
        self.note(self.began.elapsed());
    }

    /// `ready_s`, once every file is closed. Without any file it is the time until this is called.
    pub(crate) fn ready(&self) -> Duration {
        match self.closed_ns.load(Ordering::Acquire) {
            0 => self.elapsed(),
            nanoseconds => Duration::from_nanos(nanoseconds),
        }
    }

    /// Time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }

    fn note(&self, at: Duration) {
        // 584 years fit.
        self.closed_ns.fetch_max(at.as_nanos() as u64, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_close_counts_whichever_thread_notes_it_first() {
        let stopwatch = Stopwatch::start();
        for milliseconds in [5, 9, 7] {
            stopwatch.note(Duration::from_millis(milliseconds));
        }
        assert_eq!(stopwatch.ready(), Duration::from_millis(9));
    }

    #[test]
    fn without_files_it_runs_until_it_is_read() {
        let stopwatch = Stopwatch::start();
        assert!(stopwatch.ready() <= stopwatch.elapsed());
    }
}
