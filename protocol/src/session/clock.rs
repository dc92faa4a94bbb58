//! When something was last heard and said, and what follows from silence.

use std::time::Duration;

use crate::limits::{KEEP_ALIVE_S, SILENCE_TIMEOUT_S};

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// A sign of life to the other side.
    KeepAlive,
    /// The session is lost: nothing was heard for this many seconds.
    Silence(u64),
}

/// Times are since the session began.
#[derive(Debug, Default)]
pub(super) struct Clock {
    heard: Duration,
    spoke: Duration,
    /// When the present state began.
    entered: Duration,
}

impl Clock {
    pub(super) fn hear(&mut self, now: Duration) {
        self.heard = now;
    }

    pub(super) fn speak(&mut self, now: Duration) {
        self.spoke = now;
    }

    pub(super) fn enter(&mut self, now: Duration) {
        self.entered = now;
    }

    /// How long the present state has lasted.
    pub(super) fn in_state(&self, now: Duration) -> Duration {
        now.saturating_sub(self.entered)
    }

    pub(super) fn due(&self, now: Duration) -> Due {
        if now.saturating_sub(self.heard) >= Duration::from_secs(SILENCE_TIMEOUT_S) {
            Due::Silence(SILENCE_TIMEOUT_S)
        } else if now.saturating_sub(self.spoke) >= Duration::from_secs(KEEP_ALIVE_S) {
            Due::KeepAlive
        } else {
            Due::Nothing
        }
    }
}
