//! A data stream of the sender: its async half, which moves blocks from where they are read.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch_protocol::{
    io::{StreamKind, pump_out},
    message::{Compression, SessionId},
    record::compressed::Compressor,
};
use tokio::time::timeout;

use super::{
    blocking,
    known_tree::KnownTree,
    lock,
    pace::{Pace, Paced},
    pulse::Broken,
    queue::{Portion, Queue},
    reading::Reading,
};
use crate::swarm::{Connection, Multiaddr, Stream, TransportKind, address::is_loopback};

/// From this round trip on, what a connection carries is compressed where the peer leaves that to us. Below lie
/// networks of one place, which carry more than one core compresses; above, the rate of a connection falls with
/// its round trip and a core keeps up.
const SLOW_ROUND_TRIP: Duration = Duration::from_millis(5);

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
    /// How what is read crosses.
    pub(super) compression: Compression,
    /// How fast it crosses.
    pub(super) pace: Pace,
}

impl DataOut {
    /// Sends portions back to back on one stream until the session ends.
    pub(super) async fn bundle(self) -> Result<(), Broken> {
        let Some(portion) = self.queue.next(usize::MAX).await else { return Ok(()) };
        let compress = self.compresses().await;
        let mut stream = self.open(compress).await?;
        let reading = self.reading(portion, compress)?;
        pump_out(&mut stream, |block| self.fill(Arc::clone(&reading), block, Next::Portion)).await?;
        end(stream).await
    }

    /// Sends each file, or span of a large one, on a stream of its own.
    pub(super) async fn files(self) -> Result<(), Broken> {
        while let Some(portion) = self.queue.next(1).await {
            // Each portion of a block or more costs its stream two blocks of memory on either side.
            let _place = if portion.is_large() { self.queue.large_place().await } else { None };
            let compress = self.compresses().await;
            let mut stream = self.open(compress).await?;
            let reading = self.reading(portion, compress)?;
            pump_out(&mut stream, |block| self.fill(Arc::clone(&reading), block, Next::End)).await?;
            end(stream).await?;
        }
        Ok(())
    }

    /// Whether what crosses next is compressed where it becomes shorter.
    async fn compresses(&self) -> bool {
        match self.compression {
            Compression::None => false,
            Compression::Zstd => true,
            Compression::Auto => {
                is_slow(self.connection.remote_address(), self.connection.round_trip()).await
            }
        }
    }

    async fn open(&self, compress: bool) -> Result<Paced<Stream>, Broken> {
        let mut stream = self.connection.open_stream().await.map_err(|error| Broken(error.to_string()))?;
        let kind =
            if compress { StreamKind::Compressed(self.session) } else { StreamKind::Data(self.session) };
        kind.write(&mut stream).await?;
        Ok(self.pace.of(stream))
    }

    fn reading(&self, portion: Portion, compress: bool) -> io::Result<Arc<Mutex<Reading>>> {
        let compressor = compress.then(Compressor::new).transpose()?;
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

/// Whether a path is slow: its round trip is long, or not known by the time at which a short one would be.
async fn is_slow(peer: &Multiaddr, round_trip: impl Future<Output = Option<Duration>>) -> bool {
    if is_loopback(peer) {
        return false;
    }
    match timeout(SLOW_ROUND_TRIP, round_trip).await {
        Ok(known) => known.is_some_and(|round_trip| round_trip >= SLOW_ROUND_TRIP),
        Err(_unknown) => true,
    }
}

/// Ends a stream and waits for the receiver to end its side, which says that it took everything. A stream
/// dropped before that is reset, and one that is short may be gone before its negotiation was answered.
async fn end(mut stream: Paced<Stream>) -> Result<(), Broken> {
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

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};

    use super::*;

    const FAR: &str = "/ip4/192.0.2.7/tcp/1";

    #[tokio::test(start_paused = true)]
    async fn a_path_is_slow_by_its_round_trip() {
        let far = FAR.parse().unwrap();
        let known = |ms| ready(Some(Duration::from_millis(ms)));
        assert!(!is_slow(&far, known(4)).await);
        assert!(is_slow(&far, known(5)).await);
        assert!(is_slow(&far, pending()).await, "an answer that is not there yet is late");
        assert!(!is_slow(&far, ready(None)).await, "of a peer that answers no pings nothing is known");
    }

    #[tokio::test(start_paused = true)]
    async fn no_path_within_a_machine_is_slow() {
        for address in ["/ip4/127.0.0.1/tcp/1", "/ip6/::1/udp/1/quic-v1"] {
            assert!(!is_slow(&address.parse().unwrap(), pending()).await, "{address}");
        }
    }
}
