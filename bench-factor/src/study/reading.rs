//! The source's files on their way into bounded queues: read on threads of their own, when they are needed.

use std::{
    ffi::OsStr,
    fmt,
    fs::File,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use ketch_protocol::{
    path::EntryPath,
    record::bare::{HEADER_BYTES, put_header},
};
use rustix::fs::{CWD, Mode, OFlags, openat};
use tokio::{
    sync::mpsc,
    task::{JoinHandle, spawn_blocking},
};

use super::{
    error::Trouble,
    limits::{QUEUE_MESSAGES, READ_BLOCK_BYTES, STREAM_BUFFER_BYTES},
    manifest::SourceFile,
};

/// What is left to send in one observation, shared by all its connections: each lane takes the next file when it is done
/// with the last.
#[derive(Debug)]
pub(super) struct SharedQueue {
    root: PathBuf,
    files: Arc<Vec<SourceFile>>,
    next: AtomicUsize,
}

impl SharedQueue {
    pub(super) fn new(root: PathBuf, files: Arc<Vec<SourceFile>>) -> Self {
        Self { root, files, next: AtomicUsize::new(0) }
    }

    fn take(&self) -> Option<&SourceFile> {
        self.files.get(self.next.fetch_add(1, Ordering::Relaxed))
    }
}

/// One read of a file, with the header of its record before the first.
#[derive(Debug, Default)]
struct Block {
    bytes: Vec<u8>,
    content_bytes: usize,
    /// Whether the file ends with it.
    ends: bool,
}

/// Records as a thread reads them, gathered for a stream.
#[derive(Debug)]
pub(super) struct Records {
    blocks: mpsc::Receiver<Block>,
    reader: JoinHandle<Result<(), Trouble>>,
    block: Block,
    /// Bytes of the block that were gathered.
    taken: usize,
    pub(super) sent: Sent,
}

/// What was gathered so far.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) files: u64,
    pub(super) bytes: u64,
}

impl fmt::Display for Sent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} files with {} bytes", self.files, self.bytes)
    }
}

/// Why gathering stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Gathered {
    /// The buffer is full.
    Full,
    /// A file has ended, which was asked for.
    File,
    /// There is nothing more.
    All,
}

impl Records {
    /// Starts a thread that reads from `queue` until it is empty.
    pub(super) fn start(queue: Arc<SharedQueue>) -> Self {
        let (reading, blocks) = mpsc::channel(QUEUE_MESSAGES);
        let reader = spawn_blocking(move || read(&queue, &reading));
        Self { blocks, reader, block: Block::default(), taken: 0, sent: Sent::default() }
    }

    /// Fills `buffer` up to [`STREAM_BUFFER_BYTES`], across the ends of files unless `each_file`.
    pub(super) async fn gather(
        &mut self,
        buffer: &mut Vec<u8>,
        each_file: bool,
    ) -> Result<Gathered, Trouble> {
        while buffer.len() < STREAM_BUFFER_BYTES {
            let left = &self.block.bytes[self.taken..];
            let length = left.len().min(STREAM_BUFFER_BYTES - buffer.len());
            buffer.extend_from_slice(&left[..length]);
            self.taken += length;
            if self.taken < self.block.bytes.len() {
                break;
            }
            if std::mem::take(&mut self.block.ends) {
                self.sent.files += 1;
                if each_file {
                    return Ok(Gathered::File);
                }
            }
            let Some(block) = self.blocks.recv().await else { return self.end().await };
            self.sent.bytes += block.content_bytes as u64;
            (self.block, self.taken) = (block, 0);
        }
        Ok(Gathered::Full)
    }

    /// The thread is done; says whether it read everything.
    async fn end(&mut self) -> Result<Gathered, Trouble> {
        (self.block, self.taken) = (Block::default(), 0);
        match (&mut self.reader).await {
            Ok(read) => read.map(|()| Gathered::All),
            Err(error) => Err(Trouble::failed("reading the source", &error)),
        }
    }
}

fn read(queue: &SharedQueue, blocks: &mpsc::Sender<Block>) -> Result<(), Trouble> {
    while let Some(file) = queue.take() {
        let read = read_file(queue, file, blocks);
        match read {
            Ok(true) => {}
            // Nobody sends any more, and whoever stopped says why.
            Ok(false) => return Ok(()),
            Err(error) => return Err(Trouble::failed(&format!("reading {}", file.path), &error)),
        }
    }
    Ok(())
}

/// Reads one file; whether somebody still takes its blocks.
fn read_file(queue: &SharedQueue, file: &SourceFile, blocks: &mpsc::Sender<Block>) -> io::Result<bool> {
    let mut content = open(queue, &file.path)?;
    let mut left = file.bytes;
    let mut is_first = true;
    while left > 0 || is_first {
        let content_bytes = left.min(READ_BLOCK_BYTES as u64) as usize;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + file.path.as_bytes().len() + content_bytes);
        if std::mem::take(&mut is_first) {
            put_header(&mut bytes, &file.path, file.bytes);
        }
        let header_bytes = bytes.len();
        bytes.resize(header_bytes + content_bytes, 0);
        // A file that is shorter now ends the observation: what its manifest says can no longer be sent.
        content.read_exact(&mut bytes[header_bytes..])?;
        left -= content_bytes as u64;
        if blocks.blocking_send(Block { bytes, content_bytes, ends: left == 0 }).is_err() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Follows no symlink at the end.
fn open(queue: &SharedQueue, path: &EntryPath) -> io::Result<File> {
    let place = queue.root.join(OsStr::from_bytes(path.as_bytes()));
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    Ok(File::from(openat(CWD, place, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn queue(files: &[(&str, usize)]) -> (tempfile::TempDir, Arc<SharedQueue>) {
        let root = tempfile::tempdir().unwrap();
        let mut listed = Vec::new();
        for (name, bytes) in files {
            fs::write(root.path().join(name), vec![b'x'; *bytes]).unwrap();
            let path = EntryPath::parse(name.as_bytes()).unwrap();
            listed.push(SourceFile { path, bytes: *bytes as u64 });
        }
        let queue = SharedQueue::new(root.path().into(), Arc::new(listed));
        (root, Arc::new(queue))
    }

    async fn gather(records: &mut Records, each_file: bool) -> (Gathered, usize) {
        let mut buffer = Vec::new();
        let gathered = records.gather(&mut buffer, each_file).await.unwrap();
        (gathered, buffer.len())
    }

    #[tokio::test]
    async fn a_buffer_spans_the_ends_of_files() {
        let (_root, queue) = queue(&[("a", 200_000), ("b", 0), ("c", 100_000)]);
        let mut records = Records::start(queue);
        let whole = 3 * (HEADER_BYTES + 1) + 300_000;
        assert_eq!(gather(&mut records, false).await, (Gathered::Full, STREAM_BUFFER_BYTES));
        assert_eq!(gather(&mut records, false).await, (Gathered::All, whole - STREAM_BUFFER_BYTES));
        assert_eq!(records.sent, Sent { files: 3, bytes: 300_000 });
    }

    #[tokio::test]
    async fn where_each_file_has_a_stream_a_buffer_ends_with_it() {
        let (_root, queue) = queue(&[("a", 300_000), ("b", 0)]);
        let mut records = Records::start(queue);
        let header = HEADER_BYTES + 1;
        assert_eq!(gather(&mut records, true).await, (Gathered::Full, STREAM_BUFFER_BYTES));
        assert_eq!(
            gather(&mut records, true).await,
            (Gathered::File, header + 300_000 - STREAM_BUFFER_BYTES)
        );
        assert_eq!(gather(&mut records, true).await, (Gathered::File, header));
        assert_eq!(gather(&mut records, true).await, (Gathered::All, 0));
    }

    #[tokio::test]
    async fn two_readers_share_the_files() {
        let (_root, queue) = queue(&[("a", 1), ("b", 2), ("c", 4)]);
        let (mut one, mut two) = (Records::start(queue.clone()), Records::start(queue));
        for records in [&mut one, &mut two] {
            assert_eq!(gather(records, false).await.0, Gathered::All);
        }
        assert_eq!((one.sent.files + two.sent.files, one.sent.bytes + two.sent.bytes), (3, 7));
    }

    #[tokio::test]
    async fn a_file_that_became_shorter_is_named() {
        let (root, queue) = queue(&[("a", 10)]);
        fs::write(root.path().join("a"), "short").unwrap();
        let mut records = Records::start(queue);
        let trouble = records.gather(&mut Vec::new(), false).await.unwrap_err();
        assert!(
            matches!(&trouble, Trouble::Failed(reason) if reason.starts_with("reading a: ")),
            "{trouble}"
        );
    }
}
