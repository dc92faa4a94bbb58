//! [`KeptReservations`]: reservations at a few of the relays that a node knows, each replaced when it is lost.

use std::{convert::Infallible, sync::Arc, time::Duration};

use futures::{FutureExt, StreamExt, future::BoxFuture, stream::FuturesUnordered};
use libp2p::Multiaddr;
use tokio::{
    sync::watch,
    task::JoinHandle,
    time::{Instant, sleep, sleep_until},
};

use super::{
    limits::{RESERVATIONS, RESERVE_FIRST_WAIT, RESERVE_LONGEST_WAIT},
    node::Node,
    rendezvous::MeetingName,
    reservation::{Relay, Reservation, ReservationError},
};

/// Keeps reservations until it is dropped.
#[derive(Debug)]
pub struct KeptReservations {
    kept: watch::Receiver<Kept>,
    task: JoinHandle<()>,
}

/// What is kept at a moment.
#[derive(Debug, Clone, Default)]
struct Kept {
    held: Vec<Arc<Reservation>>,
    /// Why the latest attempts failed, or the latest reservations ended.
    troubles: Vec<ReservationError>,
    is_settled: bool,
}

impl KeptReservations {
    /// Keeps reservations at some of these relays.
    pub(super) fn start(node: Node, relays: Vec<Relay>) -> Self {
        let (told, kept) = watch::channel(Kept::default());
        Self { kept, task: tokio::spawn(keep(node, relays, told)) }
    }

    /// The reservations that are held now.
    pub fn held(&self) -> Vec<Arc<Reservation>> {
        self.kept.borrow().held.clone()
    }

    /// Addresses at which other peers reach this node through the relays, without this node's PeerId.
    pub fn addresses(&self) -> Vec<Multiaddr> {
        self.held().iter().flat_map(|reservation| reservation.addresses()).collect()
    }

    /// Why the latest attempts failed, or the latest reservations ended.
    pub fn troubles(&self) -> Vec<ReservationError> {
        self.kept.borrow().troubles.clone()
    }

    /// Resolves as soon as as many are held as are wanted, or every relay has been tried.
    pub async fn settled(&self) {
        let mut kept = self.kept.clone();
        // An error means that the node has stopped.
        let _ = kept.wait_for(|kept| kept.is_settled).await;
    }

    /// Resolves when something has changed since this was asked last.
    pub async fn changed(&mut self) {
        if self.kept.changed().await.is_err() {
            // The node has stopped, and nothing will change any more.
            std::future::pending::<()>().await;
        }
    }
}

impl Drop for KeptReservations {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// What came of one relay.
enum Outcome {
    Answered(usize, Result<Reservation, ReservationError>),
    Ended(usize, ReservationError),
}

async fn keep(node: Node, relays: Vec<Relay>, told: watch::Sender<Kept>) {
    let mut roster = Roster::new(relays.len());
    let mut running = FuturesUnordered::<BoxFuture<'static, Outcome>>::new();
    loop {
        while let Some(index) = roster.next(Instant::now()) {
            running.push(reserve(node.clone(), relays[index].clone(), index).boxed());
        }
        told.send_if_modified(|kept| {
            std::mem::replace(&mut kept.is_settled, roster.is_settled()) != kept.is_settled
        });
        let wake = roster.wakes();
        let outcome = tokio::select! {
            Some(outcome) = running.next() => outcome,
            () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => continue,
            else => return,
        };
        match outcome {
            Outcome::Answered(index, Ok(reservation)) => {
                roster.granted(index);
                let reservation = Arc::new(reservation);
                running.push(hold(node.clone(), relays[index].clone(), index, reservation.clone()).boxed());
                told.send_modify(|kept| kept.held.push(reservation));
            }
            Outcome::Answered(index, Err(error)) | Outcome::Ended(index, error) => {
                tracing::info!(%error, "a reservation failed or ended");
                roster.failed(index, Instant::now());
                let relay = relays[index].peer;
                told.send_modify(|kept| {
                    kept.held.retain(|held| held.relay() != relay);
                    kept.troubles.truncate(relays.len() - 1);
                    kept.troubles.insert(0, error);
                });
            }
        }
    }
}

async fn reserve(node: Node, relay: Relay, index: usize) -> Outcome {
    Outcome::Answered(index, node.reserve(&relay).await)
}

/// Holds a reservation until it ends, and keeps our addresses at its relay.
async fn hold(node: Node, relay: Relay, index: usize, reservation: Arc<Reservation>) -> Outcome {
    tokio::select! {
        error = reservation.ended() => Outcome::Ended(index, error),
        never = keep_registered(&node, &relay) => match never {},
    }
}

async fn keep_registered(node: &Node, relay: &Relay) -> Infallible {
    let name = MeetingName::of_peer(&node.peer());
    loop {
        match node.register_at(relay, &name).await {
            Ok(time) => sleep(time / 2).await,
            Err(error) => {
                tracing::info!(%error, "our addresses are not to be found at this relay");
                sleep(RESERVE_LONGEST_WAIT).await;
            }
        }
    }
}

/// Which relays are in use, and when those that failed are tried again.
#[derive(Debug)]
struct Roster(Vec<Place>);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Untried,
    /// Being asked; how long it rests if that fails.
    Asked {
        rest: Duration,
    },
    Held,
    Resting {
        until: Instant,
        rest: Duration,
    },
}

impl Roster {
    fn new(relays: usize) -> Self {
        Self(vec![Place::Untried; relays])
    }

    /// The relay to ask next, which is asked from now on. One that was never asked comes first, then whoever has rested
    /// longest.
    fn next(&mut self, now: Instant) -> Option<usize> {
        if self.in_use() >= RESERVATIONS {
            return None;
        }
        let untried = self.0.iter().position(|place| *place == Place::Untried);
        let index = untried.or_else(|| {
            let rested = self.0.iter().enumerate().filter_map(|(index, place)| Some((place.until()?, index)));
            rested.min().filter(|(until, _)| *until <= now).map(|(_, index)| index)
        })?;
        let rest = match self.0[index] {
            Place::Resting { rest, .. } => (rest * 2).min(RESERVE_LONGEST_WAIT),
            Place::Untried | Place::Asked { .. } | Place::Held => RESERVE_FIRST_WAIT,
        };
        self.0[index] = Place::Asked { rest };
        Some(index)
    }

    /// When a relay has rested that is wanted.
    fn wakes(&self) -> Option<Instant> {
        if self.in_use() >= RESERVATIONS {
            return None;
        }
        self.0.iter().filter_map(Place::until).min()
    }

    fn granted(&mut self, index: usize) {
        self.0[index] = Place::Held;
    }

    /// It said no, could not be reached, or was lost.
    fn failed(&mut self, index: usize, now: Instant) {
        let rest = match self.0[index] {
            Place::Asked { rest } => rest,
            Place::Untried | Place::Held | Place::Resting { .. } => RESERVE_FIRST_WAIT,
        };
        self.0[index] = Place::Resting { until: now + rest, rest };
    }

    fn in_use(&self) -> usize {
        self.0.iter().filter(|place| matches!(place, Place::Asked { .. } | Place::Held)).count()
    }

    /// Whether as many are held as are wanted, or none is left to be tried for the first time.
    fn is_settled(&self) -> bool {
        let held = self.0.iter().filter(|place| **place == Place::Held).count();
        let is_open = |place: &Place| match place {
            Place::Untried => true,
            Place::Asked { rest } => *rest == RESERVE_FIRST_WAIT,
            Place::Held | Place::Resting { .. } => false,
        };
        held >= RESERVATIONS || !self.0.iter().any(is_open)
    }
}

impl Place {
    fn until(&self) -> Option<Instant> {
        match self {
            Self::Resting { until, .. } => Some(*until),
            Self::Untried | Self::Asked { .. } | Self::Held => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn two_are_asked_and_a_lost_one_is_replaced_by_one_that_was_not_tried() {
        let (mut roster, now) = (Roster::new(3), Instant::now());
        assert_eq!((roster.next(now), roster.next(now), roster.next(now)), (Some(0), Some(1), None));
        roster.granted(0);
        assert!(!roster.is_settled());
        roster.granted(1);
        assert!(roster.is_settled());
        roster.failed(0, now);
        assert_eq!(roster.next(now), Some(2));
        roster.granted(2);
        assert_eq!((roster.next(now + second(3600)), roster.wakes()), (None, None));
    }

    #[tokio::test(start_paused = true)]
    async fn a_relay_that_fails_is_asked_again_ever_more_seldom() {
        let (mut roster, mut now, mut rests) = (Roster::new(1), Instant::now(), Vec::new());
        for _ in 0..8 {
            assert_eq!(roster.next(now), Some(0));
            roster.failed(0, now);
            assert!(roster.is_settled());
            let until = roster.wakes().unwrap();
            assert_eq!(roster.next(until - second(1) / 2), None);
            rests.push((until - now).as_secs());
            now = until;
        }
        assert_eq!(rests, [1, 2, 4, 8, 16, 30, 30, 30]);
        assert_eq!(roster.next(now), Some(0));
        roster.granted(0);
        roster.failed(0, now);
        assert_eq!(roster.wakes(), Some(now + second(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn without_relays_there_is_nothing_to_wait_for() {
        let mut roster = Roster::new(0);
        assert!(roster.is_settled());
        assert_eq!((roster.next(Instant::now()), roster.wakes()), (None, None));
    }
}
