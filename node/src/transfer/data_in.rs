//! A data stream of the receiver: its async half, which waits for blocks.

use std::{io, sync::Arc};

use futures::AsyncWriteExt as _;
use ketch_protocol::{io::ReadBlock, limits::BLOCK_BYTES};
use tokio::sync::mpsc;

use super::{
    BLOCKS_AT_A_TIME,
    arrivals::DataStream,
    blocking,
    pace::{Pace, Paced},
    pulse::Broken,
    receiving::Work,
    store::Store,
    storing::Storing,
};
use crate::swarm::Stream;

/// Stores what a data stream of the session brings.
pub(super) async fn bring(brought: DataStream, pace: Pace, store: Arc<Store>, report: mpsc::Sender<Work>) {
    let bringing = Bringing::new(brought, &pace, store, report.clone());
    if let Err(Broken(detail)) = run(bringing).await {
        // The session has ended if nobody takes it.
        drop(report.send(Work::Broken(detail)).await);
    }
}

/// A stream and what stores what it brings. They go together to a thread that may block and back, so that a block
/// is read, hashed and written on one processor while it is in its cache.
struct Bringing {
    stream: Paced<Stream>,
    block: ReadBlock,
    storing: Storing,
    report: mpsc::Sender<Work>,
}

async fn run(bringing: io::Result<Bringing>) -> Result<(), Broken> {
    let mut bringing =
        bringing.map_err(|error| Broken(format!("a stream can't be decompressed: {error}")))?;
    while bringing.block.read(&mut bringing.stream).await? {
        let stored;
        (bringing, stored) = blocking(move || {
            let stored = bringing.store_blocks();
            (bringing, stored)
        })
        .await;
        stored?;
    }
    bringing.storing.finish().map_err(|error| Broken(error.to_string()))?;
    // The other half was never written to; its end tells the sender that all was taken.
    drop(bringing.stream.close().await);
    Ok(())
}

impl Bringing {
    fn new(
        brought: DataStream,
        pace: &Pace,
        store: Arc<Store>,
        report: mpsc::Sender<Work>,
    ) -> io::Result<Self> {
        let DataStream { stream, compressed } = brought;
        let storing = if compressed { Storing::compressed(store)? } else { Storing::new(store) };
        Ok(Self { stream: pace.of(stream), block: ReadBlock::new(BLOCK_BYTES), storing, report })
    }

    /// Stores the block at hand and those that follow it without waiting for any.
    fn store_blocks(&mut self) -> Result<(), Broken> {
        self.store_block()?;
        for _ in 1..BLOCKS_AT_A_TIME {
            // Who ended the session does not wait for this thread, and the target is to be free.
            if self.storing.is_over() || !self.block.read_now(&mut self.stream)? {
                break;
            }
            self.store_block()?;
        }
        Ok(())
    }

    fn store_block(&mut self) -> Result<(), Broken> {
        let stored = self.storing.take(self.block.bytes());
        let ends = stored.end.is_some();
        if (ends || !stored.outcomes.is_empty()) && self.report.blocking_send(Work::Stored(stored)).is_err() {
            return Err(Broken("the session has ended".into()));
        }
        if ends { Err(Broken("it brought what could not be stored".into())) } else { Ok(()) }
    }
}
