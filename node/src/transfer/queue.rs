//! What a sender still has to read: jobs in the order in which they were wanted, handed out in pieces that
//! are worth a thread's while.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
};

use ketch_protocol::{
    hash::ContentHash,
    limits::{BATCH_ENTRIES, BLOCK_BYTES, DATA_STREAMS, WHOLE_BYTES},
    message::Run,
    problem::Problem,
    record::segment::Span,
    session::sender::{Job, Wanted},
};
use tokio::sync::{Notify, Semaphore, SemaphorePermit};

use super::registry::whole_hash;
use crate::tree::SourceFile;

/// Jobs of one session, shared by its data streams. The protocol bounds them: a job is of an open entry, and
/// each is wanted [`ketch_protocol::limits::WANTS_PER_SPAN`] times a span at the most.
#[derive(Debug)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
    large: Semaphore,
}

#[derive(Debug, Default)]
struct State {
    jobs: VecDeque<Pending>,
    closed: bool,
}

#[derive(Debug)]
enum Pending {
    /// A file that crosses as one segment.
    Whole(Job),
    /// The spans left of a large file.
    Large { file: Arc<LargeFile>, spans: VecDeque<(Run, Need)> },
}

/// What is needed of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Its bytes.
    Content,
    /// Its hash.
    Digest,
}

/// A large file while its spans are read by several streams.
#[derive(Debug)]
pub(super) struct LargeFile {
    pub(super) job: Job,
    /// Opened by whoever reads the first span.
    pub(super) opened: OnceLock<Result<SourceFile, Problem>>,
    /// Spans that have not been read to their end.
    unread: AtomicU64,
    /// Of the spans that were.
    hashes: Mutex<BTreeMap<u64, ContentHash>>,
}

impl LargeFile {
    /// The hash of the file, once all of it was read.
    pub(super) fn hash(&self) -> Option<ContentHash> {
        whole_hash(&super::lock(&self.hashes), self.job.entry.size())
    }

    /// Notes that a span was read; says whether it was the last one, so that whoever read it checks that
    /// the file did not change meanwhile.
    pub(super) fn is_last_read(&self, index: u64, hash: ContentHash) -> bool {
        super::lock(&self.hashes).insert(index, hash);
        self.unread.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// What one stream reads next.
#[derive(Debug)]
pub(super) enum Piece {
    /// Files that cross as one segment each: many small ones, or one.
    Files(Vec<Job>),
    /// One span of a large file.
    Span(Arc<LargeFile>, Span, Need),
}

impl Piece {
    /// Whether it fills a block or more.
    pub(super) fn is_large(&self) -> bool {
        match self {
            Self::Files(files) => files.iter().any(|job| job.entry.size() >= BLOCK_BYTES as u64),
            Self::Span(..) => true,
        }
    }
}

impl Default for Queue {
    fn default() -> Self {
        let large = Semaphore::new(DATA_STREAMS as usize);
        Self { state: Mutex::default(), changed: Notify::new(), large }
    }
}

impl Queue {
    /// A place among the few large pieces that are sent at once; `None` only once the session is over.
    pub(super) async fn large_place(&self) -> Option<SemaphorePermit<'_>> {
        self.large.acquire().await.ok()
    }

    /// Appends jobs.
    pub(super) fn push(&self, jobs: Vec<Job>) {
        self.lock().jobs.extend(jobs.into_iter().map(pending));
        self.changed.notify_waiters();
    }

    /// Ends the session's reading: nothing more is handed out.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.closed = true;
        state.jobs.clear();
        drop(state);
        self.changed.notify_waiters();
    }

    /// The next piece, of at most `files` files; waits for one. `None` once closed.
    pub(super) async fn next(&self, files: usize) -> Option<Piece> {
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            // Registers before the look, so that a push in between is not missed.
            changed.as_mut().enable();
            {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                if let Some(piece) = take_piece(&mut state.jobs, files) {
                    return Some(piece);
                }
            }
            changed.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        super::lock(&self.state)
    }
}

fn pending(job: Job) -> Pending {
    let size = job.entry.size();
    if size <= WHOLE_BYTES {
        return Pending::Whole(job);
    }
    let all = Run { first: 0, count: Span::count(size) };
    let spans: VecDeque<_> = match &job.wanted {
        Wanted::Content => [(all, Need::Content)].into(),
        Wanted::Digest => [(all, Need::Digest)].into(),
        Wanted::Parts { content, digest } => {
            let digest = digest.iter().map(|run| (*run, Need::Digest));
            digest.chain(content.iter().map(|run| (*run, Need::Content))).collect()
        }
    };
    let unread = spans.iter().map(|(run, _)| run.count).sum();
    let (opened, unread, hashes) = (OnceLock::new(), AtomicU64::new(unread), Mutex::default());
    let file = LargeFile { job, opened, unread, hashes };
    Pending::Large { file: Arc::new(file), spans }
}

fn take_piece(jobs: &mut VecDeque<Pending>, files: usize) -> Option<Piece> {
    match jobs.front_mut()? {
        Pending::Whole(_) => Some(Piece::Files(take_files(jobs, files.min(BATCH_ENTRIES)))),
        Pending::Large { file, spans } => {
            let taken = take_span(spans).map(|(index, need)| {
                Piece::Span(Arc::clone(file), Span::range(file.job.entry.size(), index), need)
            });
            if spans.is_empty() {
                jobs.pop_front();
            }
            taken.or_else(|| take_piece(jobs, files))
        }
    }
}

fn take_span(spans: &mut VecDeque<(Run, Need)>) -> Option<(u64, Need)> {
    let (run, need) = spans.front_mut()?;
    let taken = (run.first, *need);
    run.first += 1;
    run.count -= 1;
    if run.count == 0 {
        spans.pop_front();
    }
    Some(taken)
}

/// Takes files until they fill a block, at least one.
fn take_files(jobs: &mut VecDeque<Pending>, most: usize) -> Vec<Job> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    while taken.len() < most
        && let Some(Pending::Whole(job)) = jobs.front()
        && (taken.is_empty() || bytes + job.entry.size() <= BLOCK_BYTES as u64)
    {
        bytes += job.entry.size();
        if let Some(Pending::Whole(job)) = jobs.pop_front() {
            taken.push(job);
        }
    }
    taken
}

#[cfg(test)]
mod tests {
    use ketch_protocol::{
        limits::RANGE_BYTES,
        manifest::{Entry, EntryId, EntryKind, Timestamp},
        path::EntryPath,
    };

    use super::*;

    fn job(id: u64, size: u64, wanted: Wanted) -> Job {
        let path = EntryPath::parse(format!("f{id}").as_bytes()).unwrap();
        let entry = Entry::new(path, EntryKind::File { size }, 0, Timestamp::default());
        Job { id: EntryId(id), entry: Arc::new(entry), wanted }
    }

    fn pieces(jobs: Vec<Job>) -> Vec<String> {
        let mut jobs: VecDeque<_> = jobs.into_iter().map(pending).collect();
        let mut seen = Vec::new();
        while let Some(piece) = take_piece(&mut jobs, usize::MAX) {
            seen.push(match piece {
                Piece::Files(files) => format!("{} files", files.len()),
                Piece::Span(_, span, need) => format!("{need:?} {}", span.index()),
            });
        }
        seen
    }

    #[test]
    fn small_files_are_gathered_until_they_fill_a_block() {
        let jobs = (0..130).map(|id| job(id, 4096, Wanted::Content)).collect();
        assert_eq!(pieces(jobs), ["64 files", "64 files", "2 files"]);
        assert_eq!(pieces(vec![job(0, WHOLE_BYTES, Wanted::Content), job(1, 1, Wanted::Content)]).len(), 2);
    }

    #[test]
    fn a_large_file_is_handed_out_span_by_span() {
        let size = WHOLE_BYTES + RANGE_BYTES;
        let wanted = Wanted::Parts {
            content: vec![Run { first: 7, count: 2 }],
            digest: vec![Run { first: 0, count: 1 }, Run { first: 3, count: 1 }],
        };
        let expected = ["Digest 0", "Digest 3", "Content 7", "Content 8", "1 files"];
        assert_eq!(pieces(vec![job(0, size, wanted), job(1, 5, Wanted::Content)]), expected);
    }

    #[test]
    fn a_large_file_of_which_nothing_is_needed_is_passed_over() {
        let nothing = Wanted::Parts { content: Vec::new(), digest: Vec::new() };
        assert_eq!(pieces(vec![job(0, WHOLE_BYTES + 1, nothing), job(1, 5, Wanted::Content)]), ["1 files"]);
    }

    #[tokio::test]
    async fn a_closed_queue_ends_those_who_wait() {
        let queue = Arc::new(Queue::default());
        let waiting = tokio::spawn({
            let queue = Arc::clone(&queue);
            async move { queue.next(1).await.is_none() }
        });
        queue.close();
        assert!(waiting.await.unwrap());
    }
}
