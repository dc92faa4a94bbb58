//! A data stream of the sender: its async half, which moves blocks from where they are read.

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread::available_parallelism,
    time::Duration,
};

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch_protocol::{
    io::{StreamKind, WriteBlock},
    message::{Compression, SessionId},
    record::compressed::Compressor,
};
use tokio::time::timeout;

use super::{
    BLOCKS_AT_A_TIME, blocking,
    known_tree::KnownTree,
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
/// path; over TCP all share one window and each only adds a thread that reads and writes files, which waits for
/// a processor where there are fewer.
pub(super) fn bundle_streams(transport: TransportKind) -> usize {
    match transport {
        TransportKind::Tcp => available_parallelism().map_or(2, usize::from).clamp(2, 4),
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
        self.carry(portion, compress, Next::Portion).await
    }

    /// Sends each file, or span of a large one, on a stream of its own.
    pub(super) async fn files(self) -> Result<(), Broken> {
        while let Some(portion) = self.queue.next(1).await {
            // Each portion of a block or more costs its stream a block of memory on either side.
            let _place = if portion.is_large() { self.queue.large_place().await } else { None };
            let compress = self.compresses().await;
            self.carry(portion, compress, Next::End).await?;
        }
        Ok(())
    }

    /// Sends a portion, and what is next, on a stream of its own.
    async fn carry(&self, portion: Portion, compress: bool, next: Next) -> Result<(), Broken> {
        let mut carrying = Carrying {
            stream: self.open(compress).await?,
            reading: self.reading(compress)?,
            block: WriteBlock::default(),
            queue: Arc::clone(&self.queue),
            moved: Arc::clone(&self.moved),
            next,
        };
        carrying.reading.begin(portion);
        while carrying.begin_next().await {
            let carried;
            (carrying, carried) = blocking(move || {
                let carried = carrying.carry_blocks();
                (carrying, carried)
            })
            .await;
            carried?;
            carrying.block.write(&mut carrying.stream).await?;
        }
        end(carrying.stream).await
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

    fn reading(&self, compress: bool) -> io::Result<Reading> {
        let compressor = compress.then(Compressor::new).transpose()?;
        Ok(Reading::new(&self.tree, compressor))
    }
}

/// A stream and what reads what it carries. They go together to a thread that may block and back, so that a block
/// is read, hashed and written on one processor while it is in its cache.
struct Carrying {
    stream: Paced<Stream>,
    reading: Reading,
    block: WriteBlock,
    queue: Arc<Queue>,
    moved: Arc<Moved>,
    next: Next,
}

/// What follows a portion on its stream.
#[derive(Debug, Clone, Copy)]
enum Next {
    Portion,
    End,
}

impl Carrying {
    /// Waits until there is something to read; not once the stream has carried all that it is for.
    async fn begin_next(&mut self) -> bool {
        if !self.reading.is_idle() {
            return true;
        }
        let portion = match self.next {
            Next::Portion => self.queue.next(usize::MAX).await,
            Next::End => None,
        };
        portion.map(|portion| self.reading.begin(portion)).is_some()
    }

    /// Begins what is next if it is there.
    fn begin_next_now(&mut self) -> bool {
        if !self.reading.is_idle() {
            return true;
        }
        let portion = match self.next {
            Next::Portion => self.queue.next_now(usize::MAX),
            Next::End => None,
        };
        portion.map(|portion| self.reading.begin(portion)).is_some()
    }

    /// Reads blocks and writes them until the stream takes no more, which leaves a part of one to be written.
    fn carry_blocks(&mut self) -> Result<(), Broken> {
        for _ in 0..BLOCKS_AT_A_TIME {
            let read = self.reading.fill(self.block.renew())?;
            self.moved.content.fetch_add(read.content, Ordering::Relaxed);
            self.moved.digest.fetch_add(read.digest, Ordering::Relaxed);
            if !self.block.write_now(&mut self.stream)? || !self.begin_next_now() {
                break;
            }
        }
        Ok(())
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
