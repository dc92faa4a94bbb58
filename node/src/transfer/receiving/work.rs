//! The work beside the loop of a receiver session, on threads that may block: what it is told to do, and what it
//! reports.

use std::sync::Arc;

use ketch_protocol::{
    difference::Catalogue,
    path::EntryPath,
    problem::{Problem, Reason},
    session::{
        Stop,
        receiver::{Agreed, Input},
    },
};
use tokio::{sync::mpsc, time::Instant};

use super::{
    super::{
        checkpoints,
        event::Progress,
        planning::{Order, Task, plan_all},
        preview::{Previewed, preview_all},
        rebuilding::Rebuilding,
        store::{Store, Stored},
    },
    Receiving,
};
use crate::tree::{Catalogued, Filter, Handling};

/// What is done with what is listed.
#[derive(Debug, Clone)]
pub(in crate::transfer) enum Doing {
    /// It is stored.
    Store(Arc<Store>),
    /// It is said what would be done.
    Preview {
        /// What would be done with what differs.
        handling: Handling,
        /// What takes part.
        filter: Filter,
    },
}

impl Doing {
    /// What stores; nothing does in a preview.
    pub(super) fn store(&self) -> Option<&Arc<Store>> {
        match self {
            Self::Store(store) => Some(store),
            Self::Preview { .. } => None,
        }
    }

    /// The bytes of a progress that is otherwise empty.
    pub(super) fn moved(&self) -> Progress {
        self.store().map_or_else(Progress::default, |store| store.moved())
    }
}

/// What the work beside the loop reports.
pub(in crate::transfer) enum Work {
    /// Entries were planned or stored.
    Stored(Stored),
    /// The target was listed.
    Catalogued(Arc<Catalogue>, Option<Agreed>),
    /// In a preview: content that would cross.
    Planned { bytes: u64 },
    /// What was there and was not listed is gone.
    Removed(Vec<EntryPath>),
    /// What was stored some time ago is on its disk.
    Checkpointed,
    /// Everything is in place.
    Finished { late: Vec<Problem>, ready: Instant },
    /// The session can't go on.
    Stop(Stop),
    /// A data stream broke.
    Broken(String),
}

impl Receiving {
    pub(super) fn start_planning(&self) -> mpsc::UnboundedSender<Order> {
        // Bounded by the window of the protocol.
        let (orders, ordered) = mpsc::unbounded_channel();
        let (doing, report) = (self.doing.clone(), self.report.clone());
        let (free_bytes, removal, find_moves) = (self.free_bytes, self.removal, self.find_moves);
        tokio::task::spawn_blocking(move || match doing {
            Doing::Store(store) => {
                plan_all(Task { store, free_bytes, removal, find_moves }, ordered, &report)
            }
            Doing::Preview { handling, filter } => {
                preview_all(Previewed { handling, filter, removal, find_moves }, ordered, &report);
            }
        });
        orders
    }

    /// On a thread of its own: it waits for most of the session, and would take one from the pool all that time.
    pub(super) fn start_rebuilding(&mut self) {
        let Some(store) = self.doing.store() else { return };
        let rebuilding = Rebuilding::new(Arc::clone(store));
        let report = self.report.clone();
        let work = move || rebuilding.run(|stored| report.blocking_send(Work::Stored(stored)).is_ok());
        if let Err(error) = std::thread::Builder::new().name("rebuilding".into()).spawn(work) {
            let detail = format_args!("starting a thread: {error}");
            self.feed(Input::Stop(Stop::new(Reason::Internal, detail)));
        }
    }

    pub(super) fn order(&self, order: Order) {
        // A planner that is gone has ended the session with a report of its own.
        let _ = self.orders.as_ref().map(|orders| orders.send(order));
    }

    pub(super) fn start_catalogue(&mut self) {
        let (Some(own), report) = (self.own.clone(), self.report.clone()) else { return };
        tokio::task::spawn_blocking(move || {
            let work = match own.catalogue() {
                Ok(Catalogued { catalogue, .. }) => Work::Catalogued(Arc::new(catalogue), own.agreed()),
                Err(error) => {
                    Work::Stop(Stop::new(Reason::Internal, format_args!("listing the target: {error}")))
                }
            };
            // The session has ended if nobody takes it.
            let _ = report.blocking_send(work);
        });
    }

    /// Has what was stored written to its disk, from time to time, where a power cut is to be survived.
    pub(super) fn checkpoint_if_due(&mut self) {
        let Some(store) = self.doing.store().filter(|store| store.target.is_synced()) else { return };
        let Progress { moved_bytes, counts, .. } = self.progress;
        let stored = checkpoints::Stored { bytes: moved_bytes, entries: counts.sent };
        if !self.checkpoints.begin(stored, Instant::now()) {
            return;
        }
        let (store, report) = (Arc::clone(store), self.report.clone());
        self.checkpoint = Some(tokio::task::spawn_blocking(move || {
            let work = match store.sync() {
                Ok(()) => Work::Checkpointed,
                // The system says so once.
                Err(error) => Work::Stop(Stop::new(Reason::Internal, format_args!("syncing: {error}"))),
            };
            // The session has ended if nobody takes it.
            let _ = report.blocking_send(work);
        }));
    }
}
