//! When something was last heard and said, and what follows from silence.

use std::time::Duration;

use crate::limits::{KEEP_ALIVE_S, SILENCE_TIMEOUT_S};

/// What is due.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Due {
    Nothing,
    /// A sign of life to the other side.
    KeepAlive,
    /// What was waited for did not come for this many seconds.
    TimeOut(u64),
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

    /// What is due in a state that may last `limit_s` seconds, if it is limited at all.
    pub(super) fn due(&self, limit_s: Option<u64>, now: Duration) -> Due {
        let silence = now.saturating_sub(self.heard);
        match limit_s {
            Some(limit_s) if self.in_state(now) >= Duration::from_secs(limit_s) => Due::TimeOut(limit_s),
            Some(_) | None if silence >= Duration::from_secs(SILENCE_TIMEOUT_S) => {
                Due::TimeOut(SILENCE_TIMEOUT_S)
            }
            Some(_) | None if now.saturating_sub(self.spoke) >= Duration::from_secs(KEEP_ALIVE_S) => {
                Due::KeepAlive
            }
            Some(_) | None => Due::Nothing,
        }
    }
}
