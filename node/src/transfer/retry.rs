//! [`Retry`]: whether a session that was cut is tried again, and when.

use std::time::Duration;

use ketch_protocol::{problem::Reason, session::SessionError};
use tokio::time::Instant;

use super::{DialedError, SyncError};

/// The first wait; each one after it is twice as long. A cable that was moved is back by then.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// The longest wait: what a person who watches would do.
const LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Counts the time since a connection was lost.
#[derive(Debug)]
pub(super) struct Retry {
    limit: Duration,
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Lost {
    since: Instant,
    wait: Duration,
}

impl Retry {
    /// Tries again for as long as `limit` after each loss.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, lost: None }
    }

    /// How long to wait before the next try; `None` for an error that ends it. Only what was admitted once can be
    /// lost: a peer that was never reached is a mistake more often than a cut.
    pub(super) fn wait(&mut self, error: &SyncError, now: Instant) -> Option<Duration> {
        match passing(error) {
            Passing::Cut => self.lost = Some(Lost { since: now, wait: FIRST_WAIT }),
            Passing::Perhaps => {}
            Passing::Not => return None,
        }
        let lost = self.lost.as_mut()?;
        let left = self.limit.checked_sub(now - lost.since).filter(|left| !left.is_zero())?;
        let wait = lost.wait.min(left);
        lost.wait = (lost.wait * 2).min(LONGEST_WAIT);
        Some(wait)
    }
}

/// Whether an error passes.
enum Passing {
    /// A session that was admitted lost its connection.
    Cut,
    /// It may pass while the peer comes back: it is not there yet, or has not noticed that the last session is over.
    Perhaps,
    Not,
}

fn passing(error: &SyncError) -> Passing {
    match error {
        SyncError::Dialed(error) => match error {
            DialedError::Connect(_) => Passing::Perhaps,
            DialedError::Session { error, .. } => session_passing(error),
            DialedError::Interrupted | DialedError::Random(_) => Passing::Not,
        },
        SyncError::Source { .. }
        | SyncError::OtherSource { .. }
        | SyncError::Tree(_)
        | SyncError::Target(_)
        | SyncError::LookAtTarget(_) => Passing::Not,
    }
}

fn session_passing(error: &SessionError) -> Passing {
    match error {
        SessionError::Lost { awaited, .. } | SessionError::Timeout { awaited, .. } if is_hello(awaited) => {
            Passing::Perhaps
        }
        SessionError::Lost { .. } | SessionError::Timeout { .. } => Passing::Cut,
        SessionError::Refused(stop) if stop.reason == Reason::Timeout => Passing::Cut,
        SessionError::Refused(stop) if stop.reason == Reason::Busy => Passing::Perhaps,
        SessionError::Refused(_) | SessionError::Stopped(_) | SessionError::Violation(_) => Passing::Not,
    }
}

/// Whether the peer had not answered yet.
fn is_hello(awaited: &str) -> bool {
    matches!(awaited, "offer" | "ask")
}

#[cfg(test)]
mod tests {
    use ketch_protocol::session::Stop;

    use super::*;
    use crate::tree::Unfinished;

    fn session(error: SessionError) -> SyncError {
        DialedError::Session { error, unfinished: Unfinished::default() }.into()
    }

    fn cut() -> SyncError {
        session(SessionError::Lost { awaited: "content", detail: "reset".into() })
    }

    fn refused(reason: Reason) -> SyncError {
        session(SessionError::Refused(Stop::new(reason, "")))
    }

    fn unreachable() -> SyncError {
        DialedError::Connect(super::super::ConnectError::Silent { seconds: 8 }).into()
    }

    #[tokio::test(start_paused = true)]
    async fn waits_grow_until_the_time_is_up() {
        let mut retry = Retry::new(Duration::from_secs(60));
        let (mut now, mut waits) = (Instant::now(), Vec::new());
        let mut error = cut();
        while let Some(wait) = retry.wait(&error, now) {
            waits.push(wait.as_secs());
            now += wait;
            error = unreachable();
        }
        assert_eq!(waits, [1, 2, 4, 8, 16, 29]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_ran_again_gets_the_whole_time_again() {
        let mut retry = Retry::new(Duration::from_secs(10));
        let now = Instant::now();
        retry.wait(&cut(), now).unwrap();
        assert!(retry.wait(&unreachable(), now + Duration::from_secs(10)).is_none());
        assert_eq!(retry.wait(&cut(), now + Duration::from_secs(10)), Some(FIRST_WAIT));
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_lost_is_tried_again() {
        let now = Instant::now();
        let wait = |error: &SyncError| Retry::new(Duration::from_secs(10)).wait(error, now);
        assert!(wait(&cut()).is_some());
        for never_began in [
            unreachable(),
            session(SessionError::Lost { awaited: "offer", detail: String::new() }),
            session(SessionError::Timeout { awaited: "ask", seconds: 8 }),
            refused(Reason::NotAdmitted),
            refused(Reason::Busy),
            refused(Reason::Interrupted),
            DialedError::Interrupted.into(),
        ] {
            assert!(wait(&never_began).is_none(), "{never_began}");
        }
        assert!(Retry::new(Duration::ZERO).wait(&cut(), now).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_still_holds_the_last_session_is_asked_again() {
        let (mut retry, now) = (Retry::new(Duration::from_secs(10)), Instant::now());
        retry.wait(&cut(), now).unwrap();
        assert!(retry.wait(&refused(Reason::Busy), now).is_some());
        assert!(retry.wait(&refused(Reason::NotAdmitted), now).is_none());
    }
}
