//! [`Gathering`]: holds little things back for a moment, so that they go in one packet.
//!
//! A congestion window that has not grown is counted in packets. What streams say of themselves when a connection begins
//! would use it up in a dozen of them, and content would wait for a round trip.

use std::{
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::time::{Instant, Sleep, sleep_until};

use crate::limits::{GATHER_TIME, PACKET_BYTES};

/// Round trips of so many times the time of gathering make it unnoticeable.
const UNNOTICED: u32 = 32;

/// When something was last sent, and until when little things wait.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    sent: Option<Instant>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl Gathering {
    /// Whether so many bytes wait for more; whoever asks is woken when they need not. A short path does without: there
    /// is nothing to be gained. One of which the round trip is not known yet is taken for a long one.
    pub(super) fn holds(
        &mut self,
        waiting_bytes: usize,
        round_trip: Option<Duration>,
        context: &mut Context<'_>,
    ) -> bool {
        let is_near = round_trip.is_some_and(|round_trip| round_trip < UNNOTICED * GATHER_TIME);
        if waiting_bytes == 0 || waiting_bytes >= PACKET_BYTES || is_near {
            return false;
        }
        let until = self.sent.map(|sent| sent + GATHER_TIME).filter(|until| Instant::now() < *until);
        until.is_some_and(|until| self.wait(until, context))
    }

    /// Notes that everything is sent now.
    pub(super) fn note_sent(&mut self) {
        (self.sent, self.timer) = (Some(Instant::now()), None);
    }

    fn wait(&mut self, until: Instant, context: &mut Context<'_>) -> bool {
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(until)));
        timer.as_mut().poll(context) == Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::time::advance;

    use super::*;

    const FAR: Option<Duration> = Some(Duration::from_millis(100));

    async fn holds(gathering: &mut Gathering, waiting_bytes: usize, round_trip: Option<Duration>) -> bool {
        poll_fn(|context| Poll::Ready(gathering.holds(waiting_bytes, round_trip, context))).await
    }

    #[tokio::test(start_paused = true)]
    async fn little_things_wait_for_each_other_behind_the_first() {
        let mut gathering = Gathering::default();
        assert!(!holds(&mut gathering, 12, None).await, "nothing was sent before");
        gathering.note_sent();
        assert!(holds(&mut gathering, 12, None).await);
        assert!(holds(&mut gathering, 24, FAR).await);
        advance(GATHER_TIME).await;
        assert!(!holds(&mut gathering, 24, FAR).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_full_packet_waits_for_nothing() {
        let mut gathering = Gathering::default();
        gathering.note_sent();
        assert!(holds(&mut gathering, PACKET_BYTES - 1, FAR).await);
        assert!(!holds(&mut gathering, PACKET_BYTES, FAR).await);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_waits_on_a_short_path() {
        let mut gathering = Gathering::default();
        gathering.note_sent();
        assert!(!holds(&mut gathering, 12, Some(Duration::from_millis(1))).await);
    }
}
