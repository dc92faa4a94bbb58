//! The source's side of one data connection: records onto streams, in either layout.

use std::sync::Arc;

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch_protocol::io::WriteBlock;
use libp2p_core::muxing::SubstreamBox;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    task::JoinSet,
};

use super::{
    condition::{Condition, Layout},
    connection::Opener,
    error::Trouble,
    limits::FILES_IN_FLIGHT,
    reading::{Gathered, Records, Sent, SharedQueue},
};

/// Streams whose own half is closed, until the target closes the other one.
#[derive(Debug, Default)]
pub(super) struct Recycling(JoinSet<Result<(), Trouble>>);

impl Recycling {
    fn add(&mut self, stream: SubstreamBox, permit: Option<OwnedSemaphorePermit>) {
        self.0.spawn(await_other_half(stream, permit));
    }

    /// Fails when any of those that have ended has not ended well.
    fn reap(&mut self) -> Result<(), Trouble> {
        while let Some(recycled) = self.0.try_join_next() {
            joined(recycled)?;
        }
        Ok(())
    }

    /// Waits for all of them.
    pub(super) async fn finish(mut self) -> Result<(), Trouble> {
        while let Some(recycled) = self.0.join_next().await {
            joined(recycled)?;
        }
        Ok(())
    }

    fn merge(&mut self, mut other: Self) {
        self.0.spawn(async move {
            while let Some(recycled) = other.0.join_next().await {
                joined(recycled)?;
            }
            Ok(())
        });
    }
}

/// Sends what is left in `queue` by one connection, along with others that share it. Everything is written then, and
/// perhaps still under way.
pub(super) async fn send(
    opener: &Opener,
    queue: &Arc<SharedQueue>,
    condition: Condition,
) -> Result<(Sent, Recycling), Trouble> {
    let in_flight = Arc::new(Semaphore::new(FILES_IN_FLIGHT));
    let mut lanes = JoinSet::new();
    for _ in 0..condition.lanes() {
        let (opener, records) = (opener.clone(), Records::start(queue.clone()));
        match condition.layout {
            Layout::Files => lanes.spawn(send_files(opener, records, in_flight.clone())),
            Layout::Bundle => lanes.spawn(send_bundle(opener, records)),
        };
    }
    let (mut all, mut recycling) = (Sent::default(), Recycling::default());
    while let Some(lane) = lanes.join_next().await {
        let (sent, rest) = joined(lane)?;
        all.files += sent.files;
        all.bytes += sent.bytes;
        recycling.merge(rest);
    }
    Ok((all, recycling))
}

/// A stream for each file, the next one without waiting for anything but that fewer than [`FILES_IN_FLIGHT`] are open.
async fn send_files(
    opener: Opener,
    mut records: Records,
    in_flight: Arc<Semaphore>,
) -> Result<(Sent, Recycling), Trouble> {
    let mut recycling = Recycling::default();
    let mut buffer = WriteBlock::default();
    loop {
        let mut gathered = records.gather(buffer.renew(), true).await?;
        if gathered == Gathered::All {
            return Ok((records.sent, recycling));
        }
        let permit = in_flight.clone().acquire_owned().await;
        let permit = permit.map_err(|error| Trouble::failed("waiting for files in flight", &error))?;
        let mut stream = opener.open().await.map_err(Trouble::stream("opening a stream"))?;
        loop {
            buffer.write(&mut stream).await.map_err(Trouble::stream("sending"))?;
            if gathered != Gathered::Full {
                break;
            }
            gathered = records.gather(buffer.renew(), true).await?;
        }
        stream.close().await.map_err(Trouble::stream("ending a stream"))?;
        recycling.add(stream, Some(permit));
        recycling.reap()?;
    }
}

/// One stream for all that a lane sends.
async fn send_bundle(opener: Opener, mut records: Records) -> Result<(Sent, Recycling), Trouble> {
    let mut stream = opener.open().await.map_err(Trouble::stream("opening a stream"))?;
    let mut buffer = WriteBlock::default();
    let mut gathered = Gathered::Full;
    while gathered != Gathered::All {
        gathered = records.gather(buffer.renew(), false).await?;
        buffer.write(&mut stream).await.map_err(Trouble::stream("sending"))?;
    }
    stream.close().await.map_err(Trouble::stream("ending a stream"))?;
    let mut recycling = Recycling::default();
    recycling.add(stream, None);
    Ok((records.sent, recycling))
}

/// Nothing is said on the other half: the target closes it when it has read everything.
async fn await_other_half(
    mut stream: SubstreamBox,
    _permit: Option<OwnedSemaphorePermit>,
) -> Result<(), Trouble> {
    match stream.read(&mut [0]).await {
        Ok(0) => Ok(()),
        Ok(_) => Err(Trouble::Failed("the target wrote on a data stream".into())),
        Err(error) => Err(Trouble::lost("waiting for the end of a stream", &error)),
    }
}

fn joined<T>(ended: Result<Result<T, Trouble>, tokio::task::JoinError>) -> Result<T, Trouble> {
    ended.map_err(|error| Trouble::failed("sending", &error))?
}
