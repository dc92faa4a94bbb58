//! What a sender still has to read: jobs in the order in which they were wanted, handed out in portions that
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
    limits::{BATCH_ENTRIES, BLOCK_BYTES, WHOLE_BYTES},
    manifest::EntryId,
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
#[derive(Debug, Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Notify,
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
    /// The recipe of a file.
    Recipe(Job),
    /// Lists or pieces left of a file.
    Bytes { file: Arc<LargeFile>, runs: VecDeque<Run>, part: BytesOf },
}

/// What is needed of a span.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Need {
    /// Its bytes.
    Content,
    /// Its hash.
    Digest,
}

/// What is needed of some bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BytesOf {
    /// The chunks in them.
    List,
    /// Themselves.
    Piece,
}

/// A file while its parts are read by several streams.
#[derive(Debug)]
pub(super) struct LargeFile {
    pub(super) job: Job,
    /// Opened by whoever reads the first part.
    pub(super) opened: OnceLock<Result<SourceFile, Problem>>,
    /// Parts that have not been read to their end.
    unread: AtomicU64,
    /// Of the spans that were.
    hashes: Mutex<BTreeMap<u64, ContentHash>>,
}

impl LargeFile {
    /// The hash of the file, once all of it was read.
    pub(super) fn hash(&self) -> Option<ContentHash> {
        whole_hash(&super::lock(&self.hashes), self.job.entry.size())
    }

    fn new(job: Job, unread: u64) -> Arc<Self> {
        Arc::new(Self {
            job,
            opened: OnceLock::new(),
            unread: AtomicU64::new(unread),
            hashes: Mutex::default(),
        })
    }

    /// Notes the hash of a span that was read.
    pub(super) fn note_hash(&self, index: u64, hash: ContentHash) {
        super::lock(&self.hashes).insert(index, hash);
    }

    /// Notes that a part was read; says whether it was the last one, so that whoever read it checks that
    /// the file did not change meanwhile.
    pub(super) fn is_last_read(&self) -> bool {
        self.unread.fetch_sub(1, Ordering::AcqRel) == 1
    }
}

/// What one stream reads next.
#[derive(Debug, Clone)]
pub(super) enum Portion {
    /// Files that cross as one segment each: many small ones, or one.
    Files(Vec<Job>),
    /// One span of a large file.
    Span(Arc<LargeFile>, Span, Need),
    /// The recipe of a file.
    Recipe(Job),
    /// Some bytes of a file: many short ones, or one run of a block or more.
    Bytes(Arc<LargeFile>, Vec<Run>, BytesOf),
}

impl Portion {
    /// How many segments it becomes.
    pub(super) fn segments(&self) -> usize {
        match self {
            Self::Files(files) => files.len(),
            Self::Span(..) | Self::Recipe(_) => 1,
            Self::Bytes(_, runs, _) => runs.len(),
        }
    }

    /// What is left of it behind the first `segments`, if anything.
    pub(super) fn behind(self, segments: usize) -> Option<Self> {
        if segments >= self.segments() {
            return None;
        }
        Some(match self {
            Self::Files(mut files) => Self::Files(files.split_off(segments)),
            Self::Bytes(file, mut runs, part) => Self::Bytes(file, runs.split_off(segments), part),
            whole @ (Self::Span(..) | Self::Recipe(_)) => whole,
        })
    }

    /// Notes that all of it but the last `unread` segments was read, and has to be read again.
    pub(super) fn forget_read(&self, unread: usize) {
        if let Self::Span(file, ..) | Self::Bytes(file, ..) = self {
            let read = self.segments().saturating_sub(unread) as u64;
            file.unread.fetch_add(read, Ordering::AcqRel);
        }
    }

    /// What of it concerns entries that are still open.
    pub(super) fn of_open(self, is_open: impl Fn(EntryId) -> bool) -> Option<Self> {
        match self {
            Self::Files(mut files) => {
                files.retain(|job| is_open(job.id));
                (!files.is_empty()).then_some(Self::Files(files))
            }
            Self::Recipe(job) => is_open(job.id).then_some(Self::Recipe(job)),
            Self::Span(file, span, need) => is_open(file.job.id).then_some(Self::Span(file, span, need)),
            Self::Bytes(file, runs, part) => is_open(file.job.id).then_some(Self::Bytes(file, runs, part)),
        }
    }

    fn into_pending(self) -> Vec<Pending> {
        match self {
            Self::Files(files) => files.into_iter().map(Pending::Whole).collect(),
            Self::Span(file, span, need) => {
                let spans = [(Run { first: span.index(), count: 1 }, need)].into();
                vec![Pending::Large { file, spans }]
            }
            Self::Recipe(job) => vec![Pending::Recipe(job)],
            Self::Bytes(file, runs, part) => vec![Pending::Bytes { file, runs: runs.into(), part }],
        }
    }

    /// Whether it fills a block or more.
    fn is_large(&self) -> bool {
        match self {
            Self::Files(files) => files.iter().any(|job| job.entry.size() >= BLOCK_BYTES as u64),
            Self::Span(..) | Self::Recipe(_) => true,
            Self::Bytes(_, runs, _) => runs.iter().map(|run| run.count).sum::<u64>() >= BLOCK_BYTES as u64,
        }
    }
}

impl Queue {
    /// Appends jobs.
    pub(super) fn push(&self, jobs: Vec<Job>) {
        self.lock().jobs.extend(jobs.into_iter().map(pending));
        self.changed.notify_waiters();
    }

    /// Puts portions that were handed out before all others.
    pub(super) fn put_back(&self, portions: Vec<Portion>) {
        let mut state = self.lock();
        if state.closed {
            return;
        }
        for pending in
            portions.into_iter().flat_map(Portion::into_pending).collect::<Vec<_>>().into_iter().rev()
        {
            state.jobs.push_front(pending);
        }
        drop(state);
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

    /// The next portion, of at most `files` files, if there is one.
    pub(super) fn next_now(&self, files: usize) -> Option<Portion> {
        take_portion(&mut self.lock().jobs, files)
    }

    /// The next portion, of at most `files` files; waits for one. `None` once closed.
    pub(super) async fn next(&self, files: usize) -> Option<Portion> {
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
                if let Some(portion) = take_portion(&mut state.jobs, files) {
                    return Some(portion);
                }
            }
            changed.await;
        }
    }

    /// The next portion, of at most one file; waits for one. `None` once closed.
    ///
    /// A portion of a block or more costs its stream two blocks of memory on either side, so it takes one of the
    /// places in `large`. It is left to others while all are taken.
    pub(super) async fn next_file<'a>(
        &self,
        large: &'a Semaphore,
    ) -> Option<(Portion, Option<SemaphorePermit<'a>>)> {
        let mut place = None;
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            let is_large = {
                let mut state = self.lock();
                if state.closed {
                    return None;
                }
                let is_large = state.jobs.front().is_some_and(Pending::is_large);
                place = place.filter(|_| is_large).or_else(|| large.try_acquire().ok().filter(|_| is_large));
                if (place.is_some() || !is_large)
                    && let Some(portion) = take_portion(&mut state.jobs, 1)
                {
                    let place = place.filter(|_| portion.is_large());
                    return Some((portion, place));
                }
                is_large
            };
            tokio::select! {
                () = changed => {}
                // The places are never closed.
                freed = large.acquire(), if is_large => place = freed.ok(),
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        super::lock(&self.state)
    }
}

impl Pending {
    /// Whether its next portion may fill a block or more.
    fn is_large(&self) -> bool {
        match self {
            Self::Whole(job) => job.entry.size() >= BLOCK_BYTES as u64,
            Self::Large { .. } | Self::Recipe(_) => true,
            Self::Bytes { runs, .. } => runs.front().is_some_and(|run| run.count >= BLOCK_BYTES as u64),
        }
    }
}

fn pending(job: Job) -> Pending {
    let size = job.entry.size();
    let all = Run { first: 0, count: Span::count(size) };
    let spans: VecDeque<_> = match &job.wanted {
        Wanted::Recipe => return Pending::Recipe(job),
        Wanted::Lists(runs) => return pending_bytes(runs.clone(), BytesOf::List, job),
        Wanted::Pieces(runs) => return pending_bytes(runs.clone(), BytesOf::Piece, job),
        Wanted::Content | Wanted::Digest | Wanted::Parts { .. } if size <= WHOLE_BYTES => {
            return Pending::Whole(job);
        }
        Wanted::Content => [(all, Need::Content)].into(),
        Wanted::Digest => [(all, Need::Digest)].into(),
        Wanted::Parts { content, digest } => {
            let digest = digest.iter().map(|run| (*run, Need::Digest));
            digest.chain(content.iter().map(|run| (*run, Need::Content))).collect()
        }
    };
    let unread = spans.iter().map(|(run, _)| run.count).sum();
    Pending::Large { file: LargeFile::new(job, unread), spans }
}

fn pending_bytes(runs: Vec<Run>, part: BytesOf, job: Job) -> Pending {
    Pending::Bytes { file: LargeFile::new(job, runs.len() as u64), runs: runs.into(), part }
}

fn take_portion(jobs: &mut VecDeque<Pending>, files: usize) -> Option<Portion> {
    match jobs.front_mut()? {
        Pending::Recipe(job) => {
            let portion = Portion::Recipe(job.clone());
            jobs.pop_front();
            Some(portion)
        }
        Pending::Bytes { file, runs, part } => {
            let taken = take_runs(runs);
            let portion = (!taken.is_empty()).then(|| Portion::Bytes(Arc::clone(file), taken, *part));
            if runs.is_empty() {
                jobs.pop_front();
            }
            portion.or_else(|| take_portion(jobs, files))
        }
        Pending::Whole(_) => Some(Portion::Files(take_files(jobs, files.min(BATCH_ENTRIES)))),
        Pending::Large { file, spans } => {
            let taken = take_span(spans).map(|(index, need)| {
                Portion::Span(Arc::clone(file), Span::range(file.job.entry.size(), index), need)
            });
            if spans.is_empty() {
                jobs.pop_front();
            }
            taken.or_else(|| take_portion(jobs, files))
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

/// Takes runs until they fill a block, at least one if there is one.
fn take_runs(runs: &mut VecDeque<Run>) -> Vec<Run> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    while let Some(run) = runs.front()
        && (taken.is_empty() || bytes + run.count <= BLOCK_BYTES as u64)
    {
        bytes += run.count;
        taken.extend(runs.pop_front());
    }
    taken
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
        manifest::{Entry, EntryKind, Timestamp},
        path::EntryPath,
    };

    use super::*;

    fn job(id: u64, size: u64, wanted: Wanted) -> Job {
        let path = EntryPath::parse(format!("f{id}").as_bytes()).unwrap();
        let entry = Entry::new(path, EntryKind::File { size }, 0, Timestamp::default());
        Job { id: EntryId(id), entry: Arc::new(entry), wanted }
    }

    fn portions(jobs: Vec<Job>) -> Vec<String> {
        let mut jobs: VecDeque<_> = jobs.into_iter().map(pending).collect();
        let mut seen = Vec::new();
        while let Some(portion) = take_portion(&mut jobs, usize::MAX) {
            seen.push(match portion {
                Portion::Files(files) => format!("{} files", files.len()),
                Portion::Span(_, span, need) => format!("{need:?} {}", span.index()),
                Portion::Recipe(job) => format!("Recipe of {}", job.id),
                Portion::Bytes(_, runs, part) => format!("{} times {part:?}", runs.len()),
            });
        }
        seen
    }

    #[test]
    fn small_files_are_gathered_until_they_fill_a_block() {
        let jobs = (0..130).map(|id| job(id, 4096, Wanted::Content)).collect();
        assert_eq!(portions(jobs), ["64 files", "64 files", "2 files"]);
        assert_eq!(portions(vec![job(0, WHOLE_BYTES, Wanted::Content), job(1, 1, Wanted::Content)]).len(), 2);
    }

    #[test]
    fn a_large_file_is_handed_out_span_by_span() {
        let size = WHOLE_BYTES + RANGE_BYTES;
        let wanted = Wanted::Parts {
            content: vec![Run { first: 7, count: 2 }],
            digest: vec![Run { first: 0, count: 1 }, Run { first: 3, count: 1 }],
        };
        let expected = ["Digest 0", "Digest 3", "Content 7", "Content 8", "1 files"];
        assert_eq!(portions(vec![job(0, size, wanted), job(1, 5, Wanted::Content)]), expected);
    }

    #[test]
    fn a_large_file_of_which_nothing_is_needed_is_passed_over() {
        let nothing = Wanted::Parts { content: Vec::new(), digest: Vec::new() };
        assert_eq!(portions(vec![job(0, WHOLE_BYTES + 1, nothing), job(1, 5, Wanted::Content)]), ["1 files"]);
    }

    #[test]
    fn bytes_are_handed_out_until_they_fill_a_block() {
        let run = |first, count| Run { first, count };
        let short: Vec<_> = (0..100).map(|index| run(index * 8_192, 4_096)).collect();
        let jobs = vec![
            job(3, WHOLE_BYTES + 1, Wanted::Recipe),
            job(4, 1 << 20, Wanted::Pieces(short)),
            job(5, 5 << 20, Wanted::Lists(vec![run(0, 1 << 20), run(2 << 20, 1 << 20)])),
            job(6, 5 << 20, Wanted::Lists(Vec::new())),
            job(7, 5, Wanted::Content),
        ];
        let expected =
            ["Recipe of 3", "64 times Piece", "36 times Piece", "1 times List", "1 times List", "1 files"];
        assert_eq!(portions(jobs), expected);
    }

    #[tokio::test]
    async fn large_portions_are_left_to_others_while_all_places_are_taken() {
        let queue = Queue::default();
        queue.push(vec![job(0, WHOLE_BYTES + 1, Wanted::Content), job(1, 5, Wanted::Content)]);
        let (busy, free) = (Semaphore::new(1), Semaphore::new(100));
        let (_first, place) = queue.next_file(&busy).await.unwrap();
        assert!(place.is_some());
        tokio::select! {
            biased;
            taken = queue.next_file(&busy) => panic!("{taken:?}"),
            () = std::future::ready(()) => {}
        }
        for _ in 1..Span::count(WHOLE_BYTES + 1) {
            assert!(queue.next_file(&free).await.unwrap().1.is_some());
        }
        let (small, none) = queue.next_file(&busy).await.unwrap();
        assert!(matches!(small, Portion::Files(_)) && none.is_none());
        drop(place);
        assert_eq!(busy.available_permits(), 1);
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
