//! [`Dialer`]: reaches one peer, and reaches it again when a connection dies.
//!
//! Nothing tells this side that a path is gone: an address that changed, a NAT that forgot, a relay that went. What it
//! sees is silence, which a lossy or crowded path knows too. So it does not give a silent connection up; it tries to make
//! another beside it. Where that succeeds while the first stays silent, the path is there and the first is dead.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::{StreamExt as _, stream::FuturesUnordered};
use ketch_protocol::limits::KEEP_ALIVE_S;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{ConnectError, connect::reach, lock};
use crate::swarm::{
    Attempt, AttemptError, Connection, DialError, DialRequest, Heard, Multiaddr, Node, PeerId,
};

/// Silence after which another connection is tried: two signs of life are missing.
const DOUBTFUL: Duration = Duration::from_secs(2 * KEEP_ALIVE_S);

/// Silence after which a connection is dead, if another one can be made: one more is missing than when that was begun,
/// and what is sent again after a loss has had time to come.
const DEAD: Duration = Duration::from_secs(3 * KEEP_ALIVE_S);

/// Time between the beginnings of two tries. A try waits for a lost packet longer and longer, and may sleep while
/// the path comes back; the next one begins beside it. Its own deadline bounds how many there are.
const TRY_EVERY: Duration = Duration::from_secs(2);

/// Reaches a peer. Clones share the connection that was made in time.
#[derive(Clone)]
pub(super) struct Dialer {
    node: Node,
    peer: PeerId,
    request: DialRequest,
    /// Whether content may cross a relay that limits what it carries.
    over_relay: bool,
    /// Made while the one before was dying.
    spare: Arc<Mutex<Option<Connection>>>,
}

impl Dialer {
    pub(super) fn new(node: Node, peer: PeerId, request: DialRequest, over_relay: bool) -> Self {
        Self { node, peer, request, over_relay, spare: Arc::default() }
    }

    /// Makes a connection, in one try.
    pub(super) async fn connect(&self) -> Result<Connection, ConnectError> {
        reach(&self.node, self.peer, &self.request, self.over_relay).await
    }

    /// One more connection beside `first`, the way that it took.
    pub(super) async fn join(&self, first: &Connection) -> Result<Connection, DialError> {
        self.node.dial(self.peer, vec![first.remote_address().clone()]).await
    }

    /// Makes a connection in as many tries as `limit` has room for, unless one was made in time.
    pub(super) async fn connect_again(&self, limit: Duration) -> Result<Connection, ConnectError> {
        if let Some(spare) = lock(&self.spare).take() {
            return Ok(spare);
        }
        let mut last = None;
        let reached = timeout(limit, again_and_again(|| self.connect(), &mut last)).await;
        reached.map_err(|_| last.unwrap_or_else(|| self.silence(limit).into()))
    }

    /// Resolves when a connection is dead, with how it was found; the one that is to follow is ready then.
    pub(super) async fn outlive(&self, first: &Connection) -> String {
        let reach = || async { again_and_again(|| self.connect(), &mut None).await };
        let spare = outlive(&first.heard(), reach, close).await;
        lock(&self.spare).replace(spare);
        format!("nothing came for {} s, and the peer answers elsewhere", DEAD.as_secs())
    }

    fn silence(&self, limit: Duration) -> DialError {
        let silent =
            |address: &Multiaddr| Attempt { address: address.clone(), cause: AttemptError::Silence(limit) };
        DialError::Unreachable {
            peer: self.peer,
            attempts: self.request.addresses.iter().map(silent).collect(),
        }
    }
}

async fn close(spare: Connection) {
    spare.close().await;
}

/// Dials until a connection stands, each try beside those that are not over yet. Notes how the last one failed.
async fn again_and_again<C, E, F: Future<Output = Result<C, E>>>(
    dial: impl Fn() -> F,
    last: &mut Option<E>,
) -> C {
    let mut begin = interval(TRY_EVERY);
    begin.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut running = FuturesUnordered::new();
    loop {
        tokio::select! {
            _ = begin.tick() => running.push(dial()),
            Some(tried) = running.next() => match tried {
                Ok(connection) => return connection,
                Err(error) => *last = Some(error),
            },
        }
    }
}

/// Resolves when nothing is heard although `reach` succeeds, with what it brought. What it brings while something is
/// heard again after all is given to `discard`.
async fn outlive<C, R: Future<Output = C>, D: Future<Output = ()>>(
    heard: &Heard,
    reach: impl Fn() -> R,
    discard: impl Fn(C) -> D,
) -> C {
    loop {
        heard.silent_for(DOUBTFUL).await;
        let spare = tokio::select! {
            spare = reach() => spare,
            () = heard.again() => continue,
        };
        tokio::select! {
            biased;
            () = heard.again() => discard(spare).await,
            () = heard.silent_for(DEAD) => return spare,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::time::{Instant, sleep};

    use super::*;

    const HANDSHAKE: Duration = Duration::from_millis(300);

    #[tokio::test(start_paused = true)]
    async fn a_try_that_sleeps_keeps_none_from_beginning() {
        let (began, path_back) = (Instant::now(), Duration::from_secs(11));
        let dial = || async {
            if began.elapsed() < path_back {
                sleep(Duration::from_secs(8)).await;
                return Err("silence");
            }
            sleep(HANDSHAKE).await;
            Ok(())
        };
        let mut last = None;
        again_and_again(dial, &mut last).await;
        assert!(began.elapsed() <= path_back + TRY_EVERY + HANDSHAKE, "{:?}", began.elapsed());
        assert_eq!(last, Some("silence"));
    }

    #[tokio::test(start_paused = true)]
    async fn tries_that_fail_at_once_are_apart() {
        let tries = Cell::new(0);
        let dial = || async {
            tries.set(tries.get() + 1);
            if tries.get() < 5 { Err(()) } else { Ok(()) }
        };
        let began = Instant::now();
        again_and_again(dial, &mut None).await;
        assert_eq!(began.elapsed(), TRY_EVERY * 4);
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_dead_when_it_is_silent_and_another_stands() {
        let began = Instant::now();
        let reach = || sleep(HANDSHAKE);
        outlive(&Heard::default(), reach, |()| async { panic!("it was needed") }).await;
        assert_eq!(began.elapsed(), DEAD);
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_connection_lives_as_long_as_no_other_can_be_made() {
        let heard = Heard::default();
        let reach = std::future::pending::<()>;
        let kept = timeout(Duration::from_secs(25), outlive(&heard, reach, |()| async {})).await;
        kept.unwrap_err();
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_that_is_heard_again_is_kept_and_the_other_closed() {
        let (heard, discarded) = (Heard::default(), Cell::new(0));
        let speaks = async {
            for _ in 0..4 {
                sleep(DOUBTFUL + HANDSHAKE * 2).await;
                heard.note();
            }
        };
        let outlived = outlive(
            &heard,
            async || sleep(HANDSHAKE).await,
            async |()| {
                discarded.set(discarded.get() + 1);
            },
        );
        tokio::select! {
            () = outlived => panic!("it was given up"),
            () = speaks => {}
        }
        assert_eq!(discarded.get(), 3, "the last one has just been made");
    }
}
