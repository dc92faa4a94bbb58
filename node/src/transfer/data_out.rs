//! A data stream of the sender: its async half, which moves blocks from where they are read.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch_protocol::{
    io::{StreamKind, pump_out},
    message::SessionId,
    record::compressed::Compressor,
};

use super::{
    blocking,
    known_tree::KnownTree,
    lock,
    pulse::Broken,
    queue::{Portion, Queue},
    reading::Reading,
};
use crate::swarm::{Connection, Stream, TransportKind};

/// Bytes that the data streams of a session have read.
#[derive(Debug, Default)]
pub(super) struct Moved {
    pub(super) content: AtomicU64,
    pub(super) digest: AtomicU64,
}

/// Streams that share a bundle. Over QUIC a stream has a window of 1 MiB (a larger one can exceed the
/// library's limit of out-of-order spans and kill the connection), so several are needed to fill a long
/// path; over TCP all share one window and each only adds a thread that reads and writes files.
pub(super) fn bundle_streams(transport: TransportKind) -> usize {
    match transport {
        TransportKind::Tcp => 4,
        TransportKind::Quic => 8,
    }
}

/// What a data stream of a session needs.
pub(super) struct DataOut {
    pub(super) connection: Connection,
    pub(super) session: SessionId,
    pub(super) queue: Arc<Queue>,
    pub(super) tree: KnownTree,
    pub(super) moved: Arc<Moved>,
    /// Whether what crosses is compressed where that pays.
    pub(super) compress: bool,
}

impl DataOut {
    /// Sends portions back to back on one stream until the session ends.
    pub(super) async fn bundle(self) -> Result<(), Broken> {
        let Some(portion) = self.queue.next(usize::MAX).await else { return Ok(()) };
        let mut stream = self.open().await?;
        let reading = self.reading(portion)?;
        pump_out(&mut stream, |block| self.fill(Arc::clone(&reading), block, Next::Portion)).await?;
        end(stream).await
    }

    /// Sends each file, or span of a large one, on a stream of its own.
    pub(super) async fn files(self) -> Result<(), Broken> {
        while let Some(portion) = self.queue.next(1).await {
            // Each portion of a block or more costs its stream two blocks of memory on either side.
            let _place = if portion.is_large() { self.queue.large_place().await } else { None };
            let mut stream = self.open().await?;
            let reading = self.reading(portion)?;
            pump_out(&mut stream, |block| self.fill(Arc::clone(&reading), block, Next::End)).await?;
            end(stream).await?;
        }
        Ok(())
    }

    async fn open(&self) -> Result<Stream, Broken> {
        let mut stream = self.connection.open_stream().await.map_err(|error| Broken(error.to_string()))?;
        let kind =
            if self.compress { StreamKind::Compressed(self.session) } else { StreamKind::Data(self.session) };
        kind.write(&mut stream).await?;
        Ok(stream)
    }

    fn reading(&self, portion: Portion) -> io::Result<Arc<Mutex<Reading>>> {
        let compressor = self.compress.then(Compressor::new).transpose()?;
        let mut reading = Reading::new(&self.tree, compressor);
        reading.begin(portion);
        Ok(Arc::new(Mutex::new(reading)))
    }

    /// Fills the next block; `None` when there is nothing more to send on this stream.
    async fn fill(
        &self,
        reading: Arc<Mutex<Reading>>,
        mut block: Vec<u8>,
        next: Next,
    ) -> Result<Option<Vec<u8>>, Broken> {
        block.clear();
        while block.is_empty() {
            if lock(&reading).is_idle() {
                match next {
                    Next::End => return Ok(None),
                    Next::Portion => match self.queue.next(usize::MAX).await {
                        Some(portion) => lock(&reading).begin(portion),
                        None => return Ok(None),
                    },
                }
            }
            let reading = Arc::clone(&reading);
            let read;
            (block, read) = blocking(move || {
                let read = lock(&reading).fill(&mut block);
                (block, read)
            })
            .await;
            let read = read?;
            self.moved.content.fetch_add(read.content, Ordering::Relaxed);
            self.moved.digest.fetch_add(read.digest, Ordering::Relaxed);
        }
        Ok(Some(block))
    }
}

/// Ends a stream and waits for the receiver to end its side, which says that it took everything. A stream
/// dropped before that is reset, and one that is short may be gone before its negotiation was answered.
async fn end(mut stream: Stream) -> Result<(), Broken> {
    stream.close().await?;
    match stream.read(&mut [0]).await? {
        0 => Ok(()),
        _ => Err(Broken("the receiver spoke on a data stream".into())),
    }
}

/// What follows a portion on its stream.
#[derive(Debug, Clone, Copy)]
enum Next {
    Portion,
    End,
}
