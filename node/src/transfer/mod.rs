//! One session between two peers: joins the decisions of `ketch-protocol`, the streams of a connection and
//! the trees on disk through bounded queues.
//!
//! [`receive`] runs the receiver, [`offer`](fn@offer) the sender; [`sync`](fn@sync) runs either role with a
//! peer that runs the other one in [`serve`](fn@serve). All tell what happens as [`Event`]s. A
//! data stream has two halves: an async one that moves blocks (`data_in`, `data_out`), and a blocking one
//! (`reading`, `storing`) that turns files into blocks or blocks into files, many small files at a time.

mod agreement;
mod arrivals;
mod beside;
mod channel;
mod checkpoints;
mod connect;
mod crew;
mod data_in;
mod data_out;
mod described;
mod describing;
mod dialer;
mod error;
mod event;
mod known_tree;
mod ledger;
mod line;
mod links;
mod listing;
mod moves;
mod offer;
mod pace;
mod places;
mod planning;
mod preview;
mod pulse;
mod queue;
mod reading;
mod rebuilding;
mod receive;
mod receiving;
mod registry;
mod retry;
mod sending;
mod serve;
mod sides;
mod store;
mod storing;
mod sync;
mod targets;
mod wish;

use std::sync::{Mutex, MutexGuard, PoisonError};

use ketch_protocol::message::SessionId;

pub use channel::ChannelReport;
pub use error::{ConnectError, DialedError, OfferError, ReceiveError, ServeError, SyncError};
pub use event::{
    Change, ConnectionCounts, Consultation, Direction, Event, Progress, Report, Route, ServeEvent, Unsettled,
};
pub use known_tree::OpenError;
pub use offer::{OfferRequest, offer};
pub use receive::{ReceiveRequest, receive};
pub use serve::serve;
pub use sync::{SyncRequest, sync};
pub use wish::ConnectionWish;

/// How files are laid on data streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Layout {
    /// Segments back to back on a few streams.
    #[default]
    Bundle,
    /// A stream for each file.
    Files,
}

/// Blocks that a thread moves before it gives its stream back, however many follow: a session that ends need not
/// wait for more, and what the hand-over costs is small beside them.
const BLOCKS_AT_A_TIME: usize = 16;

/// Runs blocking work on the runtime's bounded pool of threads. A panic there goes on here.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(failed) => match failed.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            // Only a runtime that is shutting down cancels blocking work; nobody waits for it then.
            Err(_cancelled) => std::future::pending().await,
        },
    }
}

/// Locks what sessions share. All of it is whole between any two statements that hold the lock, so a panic
/// elsewhere leaves it usable.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A name for a new session.
fn random_session() -> Result<SessionId, getrandom::Error> {
    let mut id = [0; 16];
    getrandom::fill(&mut id)?;
    Ok(SessionId(id))
}
