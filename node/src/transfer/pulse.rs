//! The beat of a session: when to tell it the time, when to show progress, and when a broken data stream
//! means that the session is lost.

use std::{io, time::Duration};

use ketch_protocol::session::TICK;
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

/// How often progress is told: as often as an eye can follow.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(100);

/// How long after a data stream broke the control stream may still bring the reason.
const GRACE: Duration = Duration::from_secs(1);

/// How long after a data stream broke it may take until its connection is known to be lost. A stream that breaks on a
/// connection that lives is a matter of the whole session.
pub(super) const LOSS_GRACE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Pulse {
    ticks: Interval,
    progressed: Instant,
    /// When and how a data stream broke.
    broken: Option<(Instant, String)>,
}

impl Pulse {
    pub(super) fn new() -> Self {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Self { ticks, progressed: Instant::now(), broken: None }
    }

    /// Waits for the next beat. Dropped while it waits, it misses none.
    pub(super) async fn beat(&mut self) {
        self.ticks.tick().await;
    }

    /// Whether progress should be told now; not again before some time has passed.
    pub(super) fn is_progress_due(&mut self) -> bool {
        let due = self.progressed.elapsed() >= PROGRESS_INTERVAL;
        if due {
            self.progressed = Instant::now();
        }
        due
    }

    /// Notes that a data stream broke; the first one counts.
    pub(super) fn note_broken(&mut self, detail: String) {
        self.broken.get_or_insert((Instant::now(), detail));
    }

    /// How the session was lost: a data stream broke, and no reason came since.
    pub(super) fn lost(&self) -> Option<String> {
        self.broken.as_ref().filter(|(when, _)| when.elapsed() >= GRACE).map(|(_, detail)| detail.clone())
    }
}

/// A data stream that can bring or take nothing more, and why.
#[derive(Debug)]
pub(super) struct Broken(pub(super) String);

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self(format!("a data stream broke: {error}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_broken_stream_is_a_loss_only_after_some_grace() {
        let mut pulse = Pulse::new();
        pulse.note_broken("first".into());
        pulse.note_broken("second".into());
        assert_eq!(pulse.lost(), None);
        tokio::time::advance(GRACE).await;
        assert_eq!(pulse.lost(), Some("first".into()));
    }

    #[tokio::test(start_paused = true)]
    async fn progress_is_due_once_in_its_interval() {
        let mut pulse = Pulse::new();
        assert!(!pulse.is_progress_due());
        tokio::time::advance(PROGRESS_INTERVAL).await;
        assert_eq!((pulse.is_progress_due(), pulse.is_progress_due()), (true, false));
    }
}
