//! A data stream of the receiver: its async half, which moves blocks to where they are stored.

use std::sync::{Arc, Mutex};

use futures::{AsyncReadExt as _, AsyncWriteExt as _, io::WriteHalf};
use ketch_protocol::{
    io::{acknowledge, pump_in},
    limits::BLOCK_BYTES,
};
use tokio::{sync::mpsc, time::timeout};

use super::{
    arrivals::DataStream,
    blocking, lock,
    pace::Pace,
    pulse::{Broken, LOSS_GRACE},
    receiving::Work,
    store::Store,
    storing::Storing,
};
use crate::swarm::Stream;

/// A data stream of the session being stored.
pub(super) struct DataIn {
    /// Whether the session goes on when the connection is lost.
    pub(super) spare: bool,
    pub(super) pace: Pace,
    pub(super) store: Arc<Store>,
    pub(super) report: mpsc::Sender<Work>,
}

impl DataIn {
    /// Stores what a data stream of the session brings.
    pub(super) async fn bring(self, brought: DataStream) {
        let DataStream { connection, stream, form } = brought;
        let store = Arc::clone(&self.store);
        let storing = if form.compressed { Storing::compressed(store) } else { Ok(Storing::new(store)) };
        let storing = match storing {
            Ok(storing) => Arc::new(Mutex::new(storing)),
            Err(error) => {
                let detail = format!("a stream can't be decompressed: {error}");
                return drop(self.report.send(Work::Broken(detail)).await);
            }
        };
        let Err(Broken(detail)) = self.take_all(stream, form.acknowledged, &storing).await else { return };
        let work = if self.spare && timeout(LOSS_GRACE, connection.closed()).await.is_ok() {
            Work::Stored(blocking(move || lock(&storing).abandon()).await)
        } else {
            Work::Broken(detail)
        };
        // The session has ended if nobody takes it.
        let _ = self.report.send(work).await;
    }

    /// Takes all blocks; the end of this side then tells the sender that they were taken.
    async fn take_all(
        &self,
        stream: Stream,
        acknowledged: bool,
        storing: &Arc<Mutex<Storing>>,
    ) -> Result<(), Broken> {
        let (content, answers) = stream.split();
        let mut content = self.pace.of(content);
        let answers = tokio::sync::Mutex::new(answers);
        let heard = acknowledged.then_some(&answers);
        pump_in(&mut content, BLOCK_BYTES, |block| self.take(Arc::clone(storing), block, heard)).await?;
        lock(storing).finish().map_err(|error| Broken(error.to_string()))?;
        // A sender that is gone needs it no more.
        let _ = answers.into_inner().close().await;
        Ok(())
    }

    /// Stores one block, reports what came of it and acknowledges it; gives the block back.
    async fn take(
        &self,
        storing: Arc<Mutex<Storing>>,
        block: Vec<u8>,
        answers: Option<&tokio::sync::Mutex<WriteHalf<Stream>>>,
    ) -> Result<Vec<u8>, Broken> {
        let (block, stored) = blocking(move || {
            let stored = lock(&storing).take(&block);
            (block, stored)
        })
        .await;
        let (ends, segments) = (stored.end.is_some(), stored.segments);
        if (ends || !stored.outcomes.is_empty()) && self.report.send(Work::Stored(stored)).await.is_err() {
            return Err(Broken("the session has ended".into()));
        }
        if ends {
            return Err(Broken("it brought what could not be stored".into()));
        }
        if let (1.., Some(answers)) = (segments, answers) {
            acknowledge(&mut *answers.lock().await, segments).await?;
        }
        Ok(block)
    }
}
