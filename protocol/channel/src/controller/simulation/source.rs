//! What an application has to send.

use std::time::Duration;

#[derive(Debug, Clone, Copy)]
pub(crate) enum Source {
    /// Always more.
    Bulk,
    /// So much, at the beginning of each interval.
    Bursts { bytes: u64, every: Duration },
}

impl Source {
    /// What was written by `now`, in bytes.
    pub(super) fn written(&self, now: Duration) -> u64 {
        match self {
            Self::Bulk => u64::MAX,
            Self::Bursts { bytes, every } => bytes * (intervals(now, *every) + 1),
        }
    }

    /// When it writes next; never for one that always has more.
    pub(super) fn next_write(&self, now: Duration) -> Option<Duration> {
        match self {
            Self::Bulk => None,
            Self::Bursts { every, .. } => Some(*every * (intervals(now, *every) + 1) as u32),
        }
    }
}

fn intervals(now: Duration, every: Duration) -> u64 {
    (now.as_nanos() / every.as_nanos()) as u64
}
