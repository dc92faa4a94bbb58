//! A data stream of the sender: its async half, which moves blocks from where they are read.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use futures::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, future::try_join, io::WriteHalf};
use ketch_protocol::{
    io::{DataForm, StreamKind, WriteBlock, read_acknowledged},
    message::{Compression, SessionId},
    record::compressed::Compressor,
};
use tokio::{
    sync::{Semaphore, SetOnce},
    time::timeout,
};

use super::{
    BLOCKS_AT_A_TIME, Layout, blocking,
    crew::{Crew, file_threads},
    known_tree::KnownTree,
    ledger::{Excess, Ledger},
    lock,
    pace::{Pace, Paced},
    pulse::{Broken, LOSS_GRACE},
    queue::{Portion, Queue},
    reading::Reading,
};
use crate::swarm::{Connection, Multiaddr, Stream, TransportKind, address::is_loopback};

/// From this round trip on, what a connection carries is compressed where the peer leaves that to us. Below lie
/// networks of one place, which carry more than one core compresses; above, the rate of a connection falls with
/// its round trip and a core keeps up.
const SLOW_ROUND_TRIP: Duration = Duration::from_millis(5);

/// What the data streams of a session have done.
#[derive(Debug, Default)]
pub(super) struct Moved {
    /// Bytes that were read and sent.
    pub(super) content: AtomicU64,
    /// Bytes that were read for their hash.
    pub(super) digest: AtomicU64,
    /// Set once the first block was given to its connection.
    begun: SetOnce<()>,
}

impl Moved {
    /// Resolves once the first block was given to its connection.
    pub(super) async fn begun(&self) {
        self.begun.wait().await;
    }

    fn begin(&self) {
        // The first block of any stream counts.
        let _ = self.begun.set(());
    }

    /// Fills a block with what is read next, and counts it.
    fn fill(&self, block: &mut WriteBlock, reading: &Mutex<Reading>) -> io::Result<()> {
        let read = lock(reading).fill(block.renew())?;
        self.content.fetch_add(read.content, Ordering::Relaxed);
        self.digest.fetch_add(read.digest, Ordering::Relaxed);
        Ok(())
    }
}

/// Streams that share a bundle on the first connection of a session. Over QUIC a stream has a window of 1 MiB (a
/// larger one can exceed the library's limit of out-of-order spans and kill the connection), so several are needed
/// to fill a long path; over TCP all share one window and each only adds a thread that reads and writes files, which waits
/// for a processor where there are fewer.
pub(super) fn bundle_streams(transport: TransportKind) -> usize {
    match transport {
        TransportKind::Tcp => file_threads(),
        TransportKind::Quic => 8,
    }
}

/// The same on each connection that joined. Over TCP two, so that one is written while the other is read for: the
/// threads of the first connection are enough for the files.
pub(super) fn bundle_streams_of_joined(transport: TransportKind) -> usize {
    match transport {
        TransportKind::Tcp => 2,
        TransportKind::Quic => 8,
    }
}

/// What a data stream of a session needs.
pub(super) struct DataOut {
    pub(super) connection: Connection,
    /// Whether the session goes on when the connection is lost; the receiver then acknowledges what it took.
    pub(super) spare: bool,
    pub(super) session: SessionId,
    pub(super) layout: Layout,
    pub(super) queue: Arc<Queue>,
    /// Who reads.
    pub(super) crew: Crew,
    pub(super) tree: KnownTree,
    pub(super) moved: Arc<Moved>,
    /// How what is read crosses.
    pub(super) compression: Compression,
    /// How fast it crosses.
    pub(super) pace: Pace,
    /// Of the files layout: the large portions that this connection carries at once.
    pub(super) large: Arc<Semaphore>,
    /// What was given to this stream and not acknowledged.
    pub(super) ledger: Arc<Mutex<Ledger>>,
}

/// How a data stream ended.
#[derive(Debug)]
pub(super) enum DataEnd {
    /// The session has, or it had nothing to do when its connection was lost.
    Closed,
    /// It broke, and the session is lost unless the reason is another.
    Broken(Broken),
    /// Its connection was lost, and the session goes on without: this has to be sent on another one.
    Lost(Vec<Portion>),
}

impl DataOut {
    /// Sends portions until the session ends or the stream breaks.
    pub(super) async fn run(self) -> DataEnd {
        let sent = match self.layout {
            Layout::Bundle => self.bundle().await,
            Layout::Files => self.files().await,
        };
        let Err(Interrupted { broken, unread }) = sent else { return DataEnd::Closed };
        if self.spare && timeout(LOSS_GRACE, self.connection.closed()).await.is_ok() {
            return DataEnd::Lost(lock(&self.ledger).take_rest(unread));
        }
        DataEnd::Broken(broken)
    }

    /// Sends portions back to back on one stream.
    async fn bundle(&self) -> Result<(), Interrupted> {
        match self.unless_lost(self.queue.next(usize::MAX)).await {
            Some(portion) => self.carry(portion, Next::Portion).await,
            None => Ok(()),
        }
    }

    /// Sends each file, or span of a large one, on a stream of its own.
    async fn files(&self) -> Result<(), Interrupted> {
        while let Some((portion, _place)) = self.unless_lost(self.queue.next_file(&self.large)).await {
            self.carry(portion, Next::End).await?;
        }
        Ok(())
    }

    /// What is next, or nothing once the connection is lost: nobody waits for work on one that the session goes on
    /// without.
    async fn unless_lost<T>(&self, next: impl Future<Output = Option<T>>) -> Option<T> {
        tokio::select! {
            next = next => next,
            _reason = self.connection.closed(), if self.spare => None,
        }
    }

    /// Sends a portion, and what follows it, on a new stream.
    async fn carry(&self, portion: Portion, next: Next) -> Result<(), Interrupted> {
        let unread = portion.segments();
        if self.spare {
            lock(&self.ledger).give(portion.clone());
        }
        let unopened = |broken| Interrupted { broken, unread };
        let compress = self.compresses().await;
        let mut reading = self.reading(compress).map_err(|error| unopened(error.into()))?;
        reading.begin(portion);
        let reading = Arc::new(Mutex::new(reading));
        let Err(broken) = self.converse(compress, Arc::clone(&reading), next).await else { return Ok(()) };
        // A thread may still be reading.
        let unread = blocking(move || lock(&reading).unread()).await;
        Err(Interrupted { broken, unread })
    }

    /// Sends what is read and hears what of it was taken, until the receiver ends its side, which says that it took
    /// everything. A stream dropped before that is reset, and one that is short may be gone before its negotiation
    /// was answered.
    async fn converse(
        &self,
        compressed: bool,
        reading: Arc<Mutex<Reading>>,
        next: Next,
    ) -> Result<(), Broken> {
        let block = self.first_block(Arc::clone(&reading)).await?;
        let (mut answers, content) = self.open(compressed).await?.split();
        let mut carrying = Carrying {
            content: self.pace.of(content),
            reading,
            block,
            queue: Arc::clone(&self.queue),
            moved: Arc::clone(&self.moved),
            ledger: self.spare.then(|| Arc::clone(&self.ledger)),
            next,
        };
        let sent = AtomicBool::new(false);
        let send = async {
            carrying.write().await?;
            while carrying.begin_next().await {
                let carried;
                (carrying, carried) = self
                    .crew
                    .run(move || {
                        let carried = carrying.carry_blocks();
                        (carrying, carried)
                    })
                    .await;
                carried?;
                carrying.write().await?;
            }
            sent.store(true, Ordering::Relaxed);
            Ok(carrying.content.close().await?)
        };
        let hear = async {
            self.hear(&mut answers).await?;
            // Where a connection is cut, its streams may seem to end.
            let took_everything = sent.load(Ordering::Relaxed) && lock(&self.ledger).is_empty();
            if took_everything { Ok(()) } else { Err(Broken("a data stream ended early".into())) }
        };
        try_join(send, hear).await.map(|((), ())| ())
    }

    /// Reads the first block, so that a stream begins with content in hand: the beginning, the content and the end of a
    /// small file then travel together, and wake the other side once.
    async fn first_block(&self, reading: Arc<Mutex<Reading>>) -> io::Result<WriteBlock> {
        let moved = Arc::clone(&self.moved);
        self.crew
            .run(move || {
                let mut block = WriteBlock::default();
                moved.fill(&mut block, &reading)?;
                Ok(block)
            })
            .await
    }

    /// Hears what the receiver took until it ends its side.
    async fn hear(&self, answers: &mut (impl AsyncRead + Unpin)) -> Result<(), Broken> {
        while let Some(segments) = read_acknowledged(answers).await? {
            if !self.spare {
                return Err(Broken("the receiver spoke on a data stream".into()));
            }
            lock(&self.ledger)
                .acknowledge(segments)
                .map_err(|Excess| Broken("the receiver acknowledged more than was sent".into()))?;
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

    async fn open(&self, compressed: bool) -> Result<Stream, Broken> {
        let mut stream = self.connection.open_stream().await.map_err(|error| Broken(error.to_string()))?;
        let form = DataForm { compressed, acknowledged: self.spare };
        StreamKind::Data(self.session, form).write(&mut stream).await?;
        Ok(stream)
    }

    fn reading(&self, compress: bool) -> io::Result<Reading> {
        let compressor = compress.then(Compressor::new).transpose()?;
        Ok(Reading::new(&self.tree, compressor))
    }
}

/// A stream and what reads what it carries. They go together to a thread that may block and back, so that a block
/// is read, hashed and written on one processor while it is in its cache.
struct Carrying {
    content: Paced<WriteHalf<Stream>>,
    reading: Arc<Mutex<Reading>>,
    block: WriteBlock,
    queue: Arc<Queue>,
    moved: Arc<Moved>,
    /// What was given to the stream, where what is not acknowledged may go on another.
    ledger: Option<Arc<Mutex<Ledger>>>,
    next: Next,
}

/// What follows a portion on its stream.
#[derive(Debug, Clone, Copy)]
enum Next {
    Portion,
    End,
}

impl Carrying {
    /// Writes what is left of the block, as fast as the stream takes it.
    async fn write(&mut self) -> io::Result<()> {
        self.block.write(&mut self.content).await?;
        self.moved.begin();
        Ok(())
    }

    /// Waits until there is something to read; not once the stream has carried all that it is for.
    async fn begin_next(&mut self) -> bool {
        if !lock(&self.reading).is_idle() {
            return true;
        }
        let portion = match self.next {
            Next::Portion => self.queue.next(usize::MAX).await,
            Next::End => None,
        };
        self.begin(portion)
    }

    /// Begins what is next if it is there.
    fn begin_next_now(&mut self) -> bool {
        if !lock(&self.reading).is_idle() {
            return true;
        }
        let portion = match self.next {
            Next::Portion => self.queue.next_now(usize::MAX),
            Next::End => None,
        };
        self.begin(portion)
    }

    fn is_last_block(&self) -> bool {
        match self.next {
            Next::Portion => false,
            Next::End => lock(&self.reading).is_idle(),
        }
    }

    fn begin(&mut self, portion: Option<Portion>) -> bool {
        let Some(portion) = portion else { return false };
        if let Some(ledger) = &self.ledger {
            lock(ledger).give(portion.clone());
        }
        lock(&self.reading).begin(portion);
        true
    }

    /// Reads blocks and writes them until the stream takes no more, which leaves a part of one to be written.
    fn carry_blocks(&mut self) -> Result<(), Broken> {
        for _ in 0..BLOCKS_AT_A_TIME {
            self.moved.fill(&mut self.block, &self.reading)?;
            if self.is_last_block() {
                // It is written where the stream is ended, so that both travel together.
                break;
            }
            let is_written = self.block.write_now(&mut self.content)?;
            self.moved.begin();
            if !is_written || !self.begin_next_now() {
                break;
            }
        }
        Ok(())
    }
}

/// A data stream that broke, and how many segments of its last portion were not read by then.
struct Interrupted {
    broken: Broken,
    unread: usize,
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
