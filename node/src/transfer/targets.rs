//! [`Targets`]: the directories that sessions of this process write into, each by one session at a time.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use ketch_protocol::limits::KEEP_ALIVE_S;
use tokio::time::timeout;
use tokio_util::sync::CancellationToken;

use super::lock;
use crate::swarm::{Heard, PeerId};

/// How long a session whose peer is not heard counts as alive: one that is says something every [`KEEP_ALIVE_S`]
/// seconds. It must leave time to answer within the other side's patience for a hello.
const SILENCE: Duration = Duration::from_secs(3 * KEEP_ALIVE_S);

/// How long such a silence is waited for: what a peer sent before it fell silent may still come in for a while.
const DOUBT: Duration = Duration::from_secs(5 * KEEP_ALIVE_S);

/// How long a session that was stopped may take to let go.
const LETTING_GO: Duration = Duration::from_secs(1);

/// What is being written. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Targets(Arc<Mutex<Vec<Arc<Holder>>>>);

#[derive(Debug)]
struct Holder {
    path: PathBuf,
    peer: PeerId,
    heard: Heard,
    stop: CancellationToken,
    let_go: CancellationToken,
}

/// A directory that one session may write into, until this is dropped.
#[derive(Debug)]
pub(super) struct HeldTarget {
    targets: Targets,
    holder: Arc<Holder>,
}

/// Another session writes there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Busy;

impl Targets {
    /// Takes a directory for a session of `peer`, with everything above and below it; `stop` ends that session.
    ///
    /// A session of the same peer that holds it and is not heard any more lost its connection without this side
    /// having noticed: it is stopped, and the new one takes its place.
    pub(super) async fn take(
        &self,
        path: &Path,
        peer: PeerId,
        heard: Heard,
        stop: CancellationToken,
    ) -> Result<HeldTarget, Busy> {
        let let_go = CancellationToken::new();
        let holder = Arc::new(Holder { path: path.to_owned(), peer, heard, stop, let_go });
        if let Some(other) = self.try_hold(&holder) {
            if other.peer == peer && is_dead(&other).await {
                other.stop.cancel();
            }
            // One that has ended, which its peer may know, still tidies up. If it goes on, the look below says so.
            let _ = timeout(LETTING_GO, other.let_go.cancelled()).await;
            if self.try_hold(&holder).is_some() {
                return Err(Busy);
            }
        }
        Ok(HeldTarget { targets: self.clone(), holder })
    }

    /// Notes a holder, or gives the one that is in its way.
    fn try_hold(&self, holder: &Arc<Holder>) -> Option<Arc<Holder>> {
        let mut held = lock(&self.0);
        let overlaps = |other: &&Arc<Holder>| {
            other.path.starts_with(&holder.path) || holder.path.starts_with(&other.path)
        };
        let other = held.iter().find(overlaps).cloned();
        if other.is_none() {
            held.push(Arc::clone(holder));
        }
        other
    }
}

impl Drop for HeldTarget {
    fn drop(&mut self) {
        lock(&self.targets.0).retain(|holder| !Arc::ptr_eq(holder, &self.holder));
        self.holder.let_go.cancel();
    }
}

/// Whether nothing was heard for too long from the peer of a session. One that lets go meanwhile is as good as dead.
async fn is_dead(holder: &Holder) -> bool {
    let is_over = async {
        tokio::select! {
            () = holder.let_go.cancelled() => {}
            () = holder.heard.silent_for(SILENCE) => {}
        }
    };
    timeout(DOUBT, is_over).await.is_ok()
}

#[cfg(test)]
mod tests {
    use tokio::time::sleep;

    use super::*;

    /// A session that ends when it is stopped.
    async fn hold(targets: &Targets, path: &str, peer: PeerId, heard: Heard) -> Result<HeldTarget, Busy> {
        targets.take(Path::new(path), peer, heard, CancellationToken::new()).await
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_about_to_be_let_go_is_waited_for() {
        let targets = Targets::default();
        let held = hold(&targets, "/srv/a", PeerId::random(), Heard::default()).await.unwrap();
        let (next, ()) = tokio::join!(hold(&targets, "/srv/a", PeerId::random(), Heard::default()), async {
            sleep(LETTING_GO / 2).await;
            drop(held);
        });
        next.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn nobody_else_writes_there_nor_above_nor_below() {
        let (targets, [ann, bob]) = (Targets::default(), [(); 2].map(|()| PeerId::random()));
        let held = hold(&targets, "/srv/a", ann, Heard::default()).await.unwrap();
        for path in ["/srv/a", "/srv/a/b", "/srv"] {
            assert_eq!(hold(&targets, path, bob, Heard::default()).await.unwrap_err(), Busy, "{path}");
        }
        hold(&targets, "/srv/ab", bob, Heard::default()).await.unwrap();
        drop(held);
        hold(&targets, "/srv/a", bob, Heard::default()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_comes_again_replaces_a_session_that_is_silent() {
        let (targets, peer, stop) = (Targets::default(), PeerId::random(), CancellationToken::new());
        let held = targets.take(Path::new("/a"), peer, Heard::default(), stop.clone()).await.unwrap();
        tokio::spawn(async move {
            stop.cancelled().await;
            drop(held);
        });
        hold(&targets, "/a", peer, Heard::default()).await.unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn a_peer_that_comes_again_does_not_replace_a_session_that_is_heard() {
        let (targets, peer, heard) = (Targets::default(), PeerId::random(), Heard::default());
        let _held = hold(&targets, "/a", peer, heard.clone()).await.unwrap();
        let speaking = async {
            for _ in 0..DOUBT.as_secs() {
                sleep(Duration::from_secs(KEEP_ALIVE_S)).await;
                heard.note();
            }
        };
        let (refused, ()) = tokio::join!(hold(&targets, "/a", peer, Heard::default()), speaking);
        assert_eq!(refused.unwrap_err(), Busy);
    }
}
