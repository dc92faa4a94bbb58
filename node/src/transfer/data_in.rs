//! A data stream of the receiver: its async half, which moves blocks to where they are stored.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use futures::AsyncWriteExt as _;
use ketch_protocol::{
    io::{StreamKind, pump_in},
    limits::{BLOCK_BYTES, HELLO_TIMEOUT_S},
    message::SessionId,
};
use tokio::{sync::mpsc, time::timeout};

use super::{
    blocking, lock,
    pulse::Broken,
    receiving::Work,
    storing::{Store, Storing},
};
use crate::swarm::Stream;

/// Stores what a stream of the sender brings.
pub(super) async fn bring(
    mut stream: Stream,
    session: SessionId,
    store: Arc<Store>,
    report: mpsc::Sender<Work>,
) {
    let kind = timeout(Duration::from_secs(HELLO_TIMEOUT_S), StreamKind::read(&mut stream)).await;
    let storing = match kind {
        Ok(Ok(StreamKind::Data(named))) if named == session => Ok(Storing::new(store)),
        Ok(Ok(StreamKind::Compressed(named))) if named == session => Storing::compressed(store),
        // A stream of something else is not ours to answer; dropping it resets it.
        Ok(_) | Err(_) => return,
    };
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
