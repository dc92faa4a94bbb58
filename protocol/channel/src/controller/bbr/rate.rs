//! Bytes over time.

use std::time::Duration;

/// Bytes a second.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Rate(f64);

impl Rate {
    pub(super) const ZERO: Self = Self(0.0);

    /// `None` where no time has passed.
    pub(super) fn of(bytes: u64, time: Duration) -> Option<Self> {
        (!time.is_zero()).then(|| Self(bytes as f64 / time.as_secs_f64()))
    }

    pub(super) fn times(self, gain: f64) -> Self {
        Self(self.0 * gain)
    }

    pub(super) fn bytes_in(self, time: Duration) -> u64 {
        (self.0 * time.as_secs_f64()) as u64
    }

    /// How long so many bytes take; none where nothing moves.
    pub(super) fn time_of(self, bytes: u64) -> Duration {
        Duration::try_from_secs_f64(bytes as f64 / self.0).unwrap_or(Duration::ZERO)
    }

    pub(super) fn bytes_per_s(self) -> u64 {
        self.0.round() as u64
    }

    pub(super) fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    pub(super) fn min(self, other: Self) -> Self {
        Self(self.0.min(other.0))
    }
}
