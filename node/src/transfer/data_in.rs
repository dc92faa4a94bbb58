//! A data stream of the receiver: its async half, which waits for blocks.

use std::sync::{Arc, Mutex};

use futures::{AsyncReadExt as _, AsyncWriteExt as _, io::ReadHalf};
use ketch_protocol::{
    io::{ReadBlock, acknowledge},
    limits::BLOCK_BYTES,
};
use tokio::{sync::mpsc, time::timeout};

use super::{
    BLOCKS_AT_A_TIME,
    arrivals::DataStream,
    blocking, lock,
    pace::{Pace, Paced},
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
        let (content, mut answers) = stream.split();
        let mut bringing = Bringing {
            content: self.pace.of(content),
            block: ReadBlock::new(BLOCK_BYTES),
            storing: Arc::clone(storing),
            report: self.report.clone(),
        };
        while bringing.block.read(&mut bringing.content).await? {
            let stored;
            (bringing, stored) = self
                .store
                .crew
                .run(move || {
                    let stored = bringing.store_blocks();
                    (bringing, stored)
                })
                .await;
            let segments = stored?;
            if acknowledged && segments > 0 {
                acknowledge(&mut answers, segments).await?;
            }
        }
        lock(storing).finish().map_err(|error| Broken(error.to_string()))?;
        // A sender that is gone needs it no more.
        let _ = answers.close().await;
        Ok(())
    }
}

/// A stream and what stores what it brings. They go together to a thread that may block and back, so that a block
/// is read, hashed and written on one processor while it is in its cache.
struct Bringing {
    content: Paced<ReadHalf<Stream>>,
    block: ReadBlock,
    storing: Arc<Mutex<Storing>>,
    report: mpsc::Sender<Work>,
}

impl Bringing {
    /// Stores the block at hand and those that follow it without waiting for any; says how many segments were taken.
    fn store_blocks(&mut self) -> Result<usize, Broken> {
        let mut segments = self.store_block()?;
        for _ in 1..BLOCKS_AT_A_TIME {
            // Who ended the session does not wait for this thread, and the target is to be free.
            if lock(&self.storing).is_over() || !self.block.read_now(&mut self.content)? {
                break;
            }
            segments += self.store_block()?;
        }
        Ok(segments)
    }

    fn store_block(&mut self) -> Result<usize, Broken> {
        let stored = lock(&self.storing).take(self.block.bytes());
        let (ends, segments) = (stored.end.is_some(), stored.segments);
        if (ends || !stored.outcomes.is_empty()) && self.report.blocking_send(Work::Stored(stored)).is_err() {
            return Err(Broken("the session has ended".into()));
        }
        if ends { Err(Broken("it brought what could not be stored".into())) } else { Ok(segments) }
    }
}
