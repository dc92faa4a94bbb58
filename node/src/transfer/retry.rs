//! [`Retry`]: whether a session that was cut is tried again, and when.

use std::time::Duration;

use ketch_protocol::{problem::Reason, session::SessionError};
use tokio::{
    sync::mpsc,
    time::{Instant, sleep},
};
use tokio_util::sync::CancellationToken;

use super::{DialedError, Event};

/// The first pause: the other side tidies up. Each one after it is twice as long.
const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// The longest pause: a path that has come back is used soon.
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// A session that lasted so long was no mere repetition of what cut the one before.
const LASTING: Duration = Duration::from_secs(10);

/// Counts the time since a connection was lost.
#[derive(Debug)]
pub(super) struct Retry {
    limit: Duration,
    lost: Option<Lost>,
}

#[derive(Debug)]
struct Lost {
    since: Instant,
    pause: Duration,
}

/// A session may be tried again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Again {
    pause: Duration,
    /// How long it may take from now on, the pause included.
    left: Duration,
}

impl Retry {
    /// Tries again for as long as `limit` after each loss.
    pub(super) fn new(limit: Duration) -> Self {
        Self { limit, lost: None }
    }

    /// Tells that a session was lost, and pauses; gives how long the peer may be dialed for the next one, or nothing
    /// for an error that ends it all.
    pub(super) async fn pause(
        &mut self,
        error: Option<&DialedError>,
        events: &mpsc::Sender<Event>,
        stop: &CancellationToken,
    ) -> Result<Option<Duration>, DialedError> {
        let Some(error) = error else { return Ok(None) };
        let Some(Again { pause, left }) = self.again(error, Instant::now()) else { return Ok(None) };
        let limit = (self.limit != Duration::MAX).then_some(left);
        // Nobody listens to events any more: it goes on without them.
        let _ = events.send(Event::Retrying { why: error.to_string(), wait: pause, limit }).await;
        tokio::select! {
            () = sleep(pause) => Ok(Some(left - pause)),
            () = stop.cancelled() => Err(DialedError::Interrupted),
        }
    }

    /// When to try again; `None` for an error that ends it. Only what was admitted once can be lost: a peer that was
    /// never reached is a mistake more often than a cut.
    fn again(&mut self, error: &DialedError, now: Instant) -> Option<Again> {
        match passing(error) {
            Passing::Cut => {
                let before = self.lost.take().filter(|lost| now - lost.since < LASTING);
                let pause = before.map_or(FIRST_PAUSE, |lost| lost.pause);
                self.lost = Some(Lost { since: now, pause });
            }
            Passing::Perhaps => {}
            Passing::Not => return None,
        }
        let lost = self.lost.as_mut()?;
        let left = self.limit.checked_sub(now - lost.since).filter(|left| !left.is_zero())?;
        let pause = lost.pause.min(left);
        lost.pause = (lost.pause * 2).min(LONGEST_PAUSE);
        Some(Again { pause, left })
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

fn passing(error: &DialedError) -> Passing {
    match error {
        DialedError::Connect(_) => Passing::Perhaps,
        DialedError::Session { error, .. } => session_passing(error),
        DialedError::Interrupted | DialedError::Random(_) => Passing::Not,
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

    fn session(error: SessionError) -> DialedError {
        DialedError::Session { error, unfinished: Unfinished::default() }
    }

    fn cut() -> DialedError {
        session(SessionError::Lost { awaited: "content", detail: "reset".into() })
    }

    fn refused(reason: Reason) -> DialedError {
        session(SessionError::Refused(Stop::new(reason, "")))
    }

    fn unreachable() -> DialedError {
        DialedError::Connect(super::super::ConnectError::Silent { seconds: 8 })
    }

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_until_the_time_is_up() {
        let mut retry = Retry::new(Duration::from_secs(8));
        let (mut now, mut pauses) = (Instant::now(), Vec::new());
        let mut error = cut();
        while let Some(again) = retry.again(&error, now) {
            pauses.push(again.pause.as_millis());
            now += again.pause;
            error = unreachable();
        }
        assert_eq!(pauses, [250, 500, 1000, 2000, 2000, 2000, 250]);
    }

    #[tokio::test(start_paused = true)]
    async fn the_peer_is_dialed_for_what_is_left_of_the_time() {
        let (mut retry, now) = (Retry::new(Duration::from_secs(10)), Instant::now());
        let again = retry.again(&cut(), now).unwrap();
        assert_eq!(again, Again { pause: FIRST_PAUSE, left: Duration::from_secs(10) });
        let later = retry.again(&unreachable(), now + Duration::from_secs(9)).unwrap();
        assert_eq!(later.left, Duration::from_secs(1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_ran_again_gets_the_whole_time_again() {
        let mut retry = Retry::new(Duration::from_secs(10));
        let now = Instant::now();
        retry.again(&cut(), now).unwrap();
        assert_eq!(retry.again(&unreachable(), now + Duration::from_secs(10)), None);
        let again = retry.again(&cut(), now + Duration::from_secs(10)).unwrap();
        assert_eq!(again, Again { pause: FIRST_PAUSE, left: Duration::from_secs(10) });
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_that_are_cut_at_once_are_further_and_further_apart() {
        let (mut retry, now) = (Retry::new(Duration::from_secs(10)), Instant::now());
        let pauses = [(); 5].map(|()| retry.again(&cut(), now).unwrap().pause.as_millis());
        assert_eq!(pauses, [250, 500, 1000, 2000, 2000]);
    }

    #[tokio::test(start_paused = true)]
    async fn only_what_was_lost_is_tried_again() {
        let now = Instant::now();
        let again = |error: &DialedError| Retry::new(Duration::from_secs(10)).again(error, now);
        assert!(again(&cut()).is_some());
        for never_began in [
            unreachable(),
            session(SessionError::Lost { awaited: "offer", detail: String::new() }),
            session(SessionError::Timeout { awaited: "ask", seconds: 8 }),
            refused(Reason::NotAdmitted),
            refused(Reason::Busy),
            refused(Reason::Interrupted),
            DialedError::Interrupted,
        ] {
            assert!(again(&never_began).is_none(), "{never_began}");
        }
        assert!(Retry::new(Duration::ZERO).again(&cut(), now).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_still_holds_the_last_session_is_asked_again() {
        let (mut retry, now) = (Retry::new(Duration::from_secs(10)), Instant::now());
        retry.again(&cut(), now).unwrap();
        assert!(retry.again(&refused(Reason::Busy), now).is_some());
        assert!(retry.again(&refused(Reason::NotAdmitted), now).is_none());
    }
}
