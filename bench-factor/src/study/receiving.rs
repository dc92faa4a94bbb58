//! The target's side of one data connection: records from streams to the threads that write.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use futures::AsyncWriteExt as _;
use ketch_protocol::{
    io::ReadBlock,
    path::EntryPath,
    record::bare::{Decoder, Item},
};
use libp2p_core::muxing::SubstreamBox;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    connection::Arrivals,
    error::Trouble,
    limits::{QUEUE_MESSAGES, READ_BLOCK_BYTES, STREAM_BUFFER_BYTES},
    writing::{Piece, Tally, Target, write},
};

/// The threads that write for one connection.
#[derive(Debug)]
pub(super) struct Writers {
    queues: Vec<mpsc::Sender<Piece>>,
    threads: JoinSet<Result<(), Trouble>>,
}

impl Writers {
    /// Starts as many threads as the connection has lanes.
    pub(super) fn start(lanes: usize, target: &Arc<Target>, tally: &Arc<Tally>) -> Self {
        let mut threads = JoinSet::new();
        let queues = (0..lanes).map(|_| {
            let (queue, pieces) = mpsc::channel(QUEUE_MESSAGES);
            let (target, tally) = (target.clone(), tally.clone());
            threads.spawn_blocking(move || write(&target, &tally, pieces));
            queue
        });
        Self { queues: queues.collect(), threads }
    }
}

/// Takes every stream that comes, to the end of the connection. Ends only with trouble: when enough has come is for
/// others to say.
pub(super) async fn receive(arrivals: &mut Arrivals, mut writers: Writers) -> Trouble {
    let mut streams = JoinSet::new();
    let records = Arc::new(AtomicU64::new(0));
    let mut queues = writers.queues.iter().cycle();
    loop {
        tokio::select! {
            // A thread that has failed says more than the streams that it no longer takes from.
            biased;
            Some(ended) = writers.threads.join_next() => return trouble(ended),
            Some(read) = streams.join_next() => match read {
                Ok(Ok(())) => {}
                Ok(Err(Stopped::Trouble(trouble))) => return trouble,
                // The thread that it was for has failed, and is heard next.
                Ok(Err(Stopped::Writer)) => {}
                Err(error) => return Trouble::failed("receiving", &error),
            },
            arrived = arrivals.next() => match (arrived, queues.next()) {
                (Ok(stream), Some(queue)) => {
                    streams.spawn(read_stream(stream, queue.clone(), records.clone()));
                }
                (Ok(_), None) => return Trouble::Failed("there is no thread to write".into()),
                (Err(error), _) => return Trouble::lost("receiving", &error),
            },
        }
    }
}

fn trouble(ended: Result<Result<(), Trouble>, tokio::task::JoinError>) -> Trouble {
    match ended {
        Ok(Err(trouble)) => trouble,
        Ok(Ok(())) => Trouble::Failed("a thread that writes has ended".into()),
        Err(error) => Trouble::failed("writing", &error),
    }
}

/// Why a stream is not read to its end.
enum Stopped {
    Trouble(Trouble),
    /// The thread that writes takes nothing more.
    Writer,
}

impl<E: Into<Trouble>> From<E> for Stopped {
    fn from(error: E) -> Self {
        Self::Trouble(error.into())
    }
}

/// Reads a stream to its end and closes the other half, whatever became of the files.
async fn read_stream(
    mut stream: SubstreamBox,
    queue: mpsc::Sender<Piece>,
    records: Arc<AtomicU64>,
) -> Result<(), Stopped> {
    let mut block = ReadBlock::new(STREAM_BUFFER_BYTES);
    let mut decoder = Decoder::default();
    let mut record = Pending::default();
    while block.read(&mut stream).await.map_err(Trouble::stream("receiving"))? {
        let mut input = block.bytes();
        while let Some(item) = decoder.next_item(&mut input).map_err(Trouble::from)? {
            match item {
                Item::Begin { path, length: _ } => {
                    record = Pending {
                        number: records.fetch_add(1, Ordering::Relaxed),
                        begins: Some(path),
                        bytes: Vec::new(),
                    };
                }
                Item::Data(bytes) => record.add(bytes, &queue).await?,
                Item::End => queue.send(record.piece(true)).await.map_err(|_| Stopped::Writer)?,
            }
        }
    }
    decoder.finish().map_err(Trouble::from)?;
    stream.close().await.map_err(Trouble::stream("ending a stream"))?;
    Ok(())
}

/// What came of a record and was not handed on.
#[derive(Debug, Default)]
struct Pending {
    number: u64,
    begins: Option<EntryPath>,
    bytes: Vec<u8>,
}

impl Pending {
    /// Keeps `bytes`, and hands on whatever is more than one block.
    async fn add(&mut self, mut bytes: &[u8], queue: &mpsc::Sender<Piece>) -> Result<(), Stopped> {
        while !bytes.is_empty() {
            if self.bytes.len() == READ_BLOCK_BYTES {
                queue.send(self.piece(false)).await.map_err(|_| Stopped::Writer)?;
            }
            let (now, later) = bytes.split_at(bytes.len().min(READ_BLOCK_BYTES - self.bytes.len()));
            self.bytes.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    fn piece(&mut self, ends: bool) -> Piece {
        let bytes = std::mem::take(&mut self.bytes);
        Piece { record: self.number, begins: self.begins.take(), bytes, ends }
    }
}
