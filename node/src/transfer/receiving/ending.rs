//! What becomes of a receiver session when it has ended.

use ketch_protocol::{
    message::Counts,
    session::{Ending, SessionError, receiver::Agreed},
};

use super::{
    super::{
        blocking,
        event::{Progress, Report},
        known_tree::Ended,
    },
    Doing, Receiving,
};
use crate::tree::Unfinished;

/// A session that ended early.
#[derive(Debug)]
pub(in crate::transfer) struct CutShort {
    /// Why.
    pub(in crate::transfer) error: SessionError,
    /// What is kept of large files for the next try.
    pub(in crate::transfer) unfinished: Unfinished,
}

impl Receiving {
    /// Keeps what was learnt of the target. Where nothing was changed and nothing is amiss, the two trees are
    /// as they should be, though they may differ.
    async fn fold(&self, counts: &Counts) {
        let Some(own) = self.own.clone() else { return };
        let unchanged = counts.sent == 0 && counts.removed == 0 && counts.problems == 0;
        let roots = self.receiver.root().zip(self.own_root).filter(|_| unchanged);
        let agreed = roots.map(|(theirs, own)| Agreed { theirs: theirs.hash, own });
        blocking(move || own.fold(Ended::Complete(agreed))).await;
    }

    pub(super) async fn conclude(self, ending: Ending) -> Result<Report, CutShort> {
        let durable = self.started.elapsed();
        match ending {
            Ending::Complete(counts) => {
                self.fold(&counts).await;
                let Progress { moved_bytes, found_bytes, .. } = self.doing.moved();
                let planned_bytes = self.doing.store().is_none().then(|| self.receiver.planned_bytes());
                let (unsettled, ready) = (self.unsettled, self.ready);
                let connections = self.links.counts();
                let channel = self.channel;
                Ok(Report {
                    counts,
                    moved_bytes,
                    found_bytes,
                    planned_bytes,
                    unsettled,
                    connections,
                    ready,
                    durable,
                    channel,
                })
            }
            Ending::Failed(error) => {
                let Doing::Store(store) = self.doing else {
                    return Err(CutShort { error, unfinished: Unfinished::default() });
                };
                let unfinished = blocking(move || {
                    // So that no directory keeps the mode it had for the time of the session. What can't be
                    // set now is set when the session is resumed.
                    store.target.finish();
                    store.target.unfinished()
                })
                .await;
                Err(CutShort { error, unfinished })
            }
        }
    }
}
