//! A data stream of the receiver: its async half, which moves blocks to where they are stored.

use std::sync::{Arc, Mutex};

use futures::AsyncWriteExt as _;
use ketch_protocol::{io::pump_in, limits::BLOCK_BYTES};
use tokio::sync::mpsc;

use super::{
    arrivals::DataStream, blocking, lock, pace::Pace, pulse::Broken, receiving::Work, store::Store,
    storing::Storing,
};

/// Stores what a data stream of the session brings.
pub(super) async fn bring(brought: DataStream, pace: Pace, store: Arc<Store>, report: mpsc::Sender<Work>) {
    let DataStream { stream, compressed } = brought;
    let mut stream = pace.of(stream);
    let storing = if compressed { Storing::compressed(store) } else { Ok(Storing::new(store)) };
    let storing = match storing {
        Ok(storing) => Arc::new(Mutex::new(storing)),
        Err(error) => {
            return drop(report.send(Work::Broken(format!("a stream can't be decompressed: {error}"))).await);
        }
    };
    let pumped = pump_in(&mut stream, BLOCK_BYTES, |block| take(Arc::clone(&storing), block, &report)).await;
    let ended = pumped.and_then(|()| lock(&storing).finish().map_err(|error| Broken(error.to_string())));
    match ended {
        // The other half was never written to; its end tells the sender that all was taken.
        Ok(()) => drop(stream.close().await),
        Err(Broken(detail)) => drop(report.send(Work::Broken(detail)).await),
    }
}

/// Stores one block and reports what came of it; gives the block back.
async fn take(
    storing: Arc<Mutex<Storing>>,
    block: Vec<u8>,
    report: &mpsc::Sender<Work>,
) -> Result<Vec<u8>, Broken> {
    let (block, stored) = blocking(move || {
        let stored = lock(&storing).take(&block);
        (block, stored)
    })
    .await;
    let ends = stored.end.is_some();
    if (ends || !stored.outcomes.is_empty()) && report.send(Work::Stored(stored)).await.is_err() {
        return Err(Broken("the session has ended".into()));
    }
    if ends { Err(Broken("it brought what could not be stored".into())) } else { Ok(block) }
}
