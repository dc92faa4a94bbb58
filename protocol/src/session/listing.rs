//! What the sender knows of the entries it lists: which are open, what is wanted of them, the account.

use std::sync::Arc;

use super::{
    Violation,
    outstanding::Outstanding,
    sender::{Job, Wanted},
};
use crate::{
    chunk::ChunkSizes,
    limits::{PIECES_PER_BYTE, RANGE_BYTES, WANTS_PER_SPAN, WHOLE_BYTES},
    manifest::{Entry, EntryId, EntryKind},
    message::{Batch, Counts, Fill, Parts, Pieces, Run, Settled, TargetView, Totals, Want},
    problem::Problem,
    record::segment::Span,
};

#[derive(Debug)]
pub(super) struct Listing {
    pub(super) target: TargetView,
    pub(super) outstanding: Outstanding,
    pub(super) counts: Counts,
    totals: Totals,
    scan: Scan,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    Running,
    Ended,
}

impl Listing {
    pub(super) fn new(target: TargetView) -> Self {
        Self {
            target,
            outstanding: Outstanding::default(),
            counts: Counts::default(),
            totals: Totals::default(),
            scan: Scan::Running,
        }
    }

    /// Announces what was found, in batches that fit their messages; and the jobs that follow when the
    /// receiver has nothing. What is found after the end of the scan was never listed.
    pub(super) fn announce(&mut self, entries: Vec<Entry>, problems: Vec<Problem>) -> (Vec<Batch>, Vec<Job>) {
        if self.scan == Scan::Ended {
            return (Vec::new(), Vec::new());
        }
        let mut batches = Batches { first: self.outstanding.next_id(), ..Batches::default() };
        for problem in problems {
            self.totals.problems += 1;
            self.counts.listed += 1;
            self.counts.add_problem(&problem);
            batches.problem(problem);
        }
        let mut jobs = Vec::new();
        for entry in entries {
            self.totals.entries += 1;
            self.totals.bytes = self.totals.bytes.saturating_add(entry.size());
            self.counts.listed += 1;
            let shared = Arc::new(entry.clone());
            let id = self.outstanding.announce(Arc::clone(&shared));
            jobs.extend(push_job(id, &shared));
            batches.entry(entry);
        }
        (batches.finish(), jobs)
    }

    /// Ends the list: the totals to be said, once.
    pub(super) fn end_scan(&mut self) -> Option<Totals> {
        (std::mem::replace(&mut self.scan, Scan::Ended) == Scan::Running).then_some(self.totals)
    }

    /// The jobs of all open entries when the receiver has nothing.
    pub(super) fn pushed(&self) -> Vec<Job> {
        match self.target {
            TargetView::Empty => {
                self.outstanding.iter().filter_map(|(id, entry)| push_job(id, entry)).collect()
            }
            TargetView::Occupied => Vec::new(),
        }
    }

    /// The jobs of a want. A run may be as long as the peer likes: it ends at its first entry that is not open.
    pub(super) fn want(&mut self, want: Want) -> Result<Vec<Job>, Violation> {
        let mut jobs = Vec::new();
        for (runs, wanted) in [(want.content, Wanted::Content), (want.digest, Wanted::Digest)] {
            for id in numbers(&runs) {
                let entry = self.file(id)?;
                self.count_wanted(id, &entry, Span::count(entry.size()))?;
                jobs.push(Job { id, entry, wanted: wanted.clone() });
            }
        }
        for Parts { id, content, digest } in want.parts {
            let entry = self.file(id)?;
            let spans = count_ranges(id, &entry, content.iter().chain(&digest))?;
            // An item that names nothing is a job all the same.
            self.count_wanted(id, &entry, spans.max(1))?;
            jobs.push(Job { id, entry, wanted: Wanted::Parts { content, digest } });
        }
        for id in numbers(&want.delta) {
            let (entry, _) = self.file_with_chunks(id)?;
            self.count_wanted(id, &entry, Span::count(entry.size()))?;
            jobs.push(Job { id, entry, wanted: Wanted::Recipe });
        }
        for Pieces { id, bytes } in want.lists {
            let (entry, sizes) = self.file_with_chunks(id)?;
            self.count_pieces(id, &entry, sizes, &bytes, sizes.most_of_group())?;
            jobs.push(Job { id, entry, wanted: Wanted::Lists(bytes) });
        }
        for Pieces { id, bytes } in want.pieces {
            let (entry, sizes) = self.file_with_chunks(id)?;
            self.count_pieces(id, &entry, sizes, &bytes, RANGE_BYTES)?;
            jobs.push(Job { id, entry, wanted: Wanted::Pieces(bytes) });
        }
        Ok(jobs)
    }

    fn file_with_chunks(&self, id: EntryId) -> Result<(Arc<Entry>, ChunkSizes), Violation> {
        let entry = self.file(id)?;
        let sizes = ChunkSizes::of_file(entry.size()).ok_or(Violation::NoSuchPart(id))?;
        Ok((entry, sizes))
    }

    /// Counts bytes that are wanted in runs of at most `longest`.
    fn count_pieces(
        &mut self,
        id: EntryId,
        entry: &Entry,
        sizes: ChunkSizes,
        bytes: &[Run],
        longest: u64,
    ) -> Result<(), Violation> {
        let size = entry.size();
        if bytes.iter().any(|run| run.numbers().end > size || run.count > longest) {
            return Err(Violation::NoSuchPart(id));
        }
        let named = bytes.iter().map(|run| run.count).sum();
        // An item that names nothing is a job all the same.
        let (bytes, runs) = self.outstanding.count_pieces(id, named, bytes.len().max(1) as u64);
        let bytes_allowed = PIECES_PER_BYTE.saturating_mul(size);
        let runs_allowed = PIECES_PER_BYTE * sizes.most_chunks(size);
        if bytes > bytes_allowed || runs > runs_allowed { Err(Violation::Greedy(id)) } else { Ok(()) }
    }

    fn count_wanted(&mut self, id: EntryId, entry: &Entry, spans: u64) -> Result<(), Violation> {
        let allowed = WANTS_PER_SPAN * Span::count(entry.size());
        let wanted = self.outstanding.count_wanted(id, spans);
        if wanted > allowed { Err(Violation::Greedy(id)) } else { Ok(()) }
    }

    /// An open entry that is a file.
    fn file(&self, id: EntryId) -> Result<Arc<Entry>, Violation> {
        let entry = self.outstanding.entry(id).ok_or(Violation::NotOpen(id))?;
        match entry.kind {
            EntryKind::File { .. } => Ok(Arc::clone(entry)),
            EntryKind::Directory | EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => {
                Err(Violation::NoSuchPart(id))
            }
        }
    }

    /// Notes what became of entries: the problems among it.
    pub(super) fn settle(&mut self, settled: Settled) -> Result<Vec<Problem>, Violation> {
        for id in numbers(&settled.stored) {
            self.close(id)?;
            self.counts.sent += 1;
        }
        for id in numbers(&settled.kept) {
            self.close(id)?;
            self.counts.kept += 1;
        }
        let mut problems = Vec::with_capacity(settled.problems.len() + settled.late.len());
        for (id, problem) in settled.problems {
            // The id says which entry it is; a path that differs would only mislead.
            let path = self.close(id)?.path.clone();
            self.counts.add_problem(&problem);
            problems.push(Problem { path, ..problem });
        }
        for problem in settled.late {
            self.counts.listed += 1;
            self.counts.add_problem(&problem);
            problems.push(problem);
        }
        Ok(problems)
    }

    fn close(&mut self, id: EntryId) -> Result<Arc<Entry>, Violation> {
        self.outstanding.settle(id).ok_or(Violation::NotOpen(id))
    }

    /// Whether all is listed and nothing is open.
    pub(super) fn is_settled(&self) -> bool {
        self.scan == Scan::Ended && self.outstanding.is_empty()
    }

    pub(super) fn check_account(&self, theirs: Counts) -> Result<(), Violation> {
        if theirs == self.counts { Ok(()) } else { Err(Violation::Account { theirs, ours: self.counts }) }
    }
}

/// The job of sending a file that the receiver lacks; an empty one is complete with its entry.
fn push_job(id: EntryId, entry: &Arc<Entry>) -> Option<Job> {
    (entry.size() > 0).then(|| Job { id, entry: Arc::clone(entry), wanted: Wanted::Content })
}

fn numbers(runs: &[Run]) -> impl Iterator<Item = EntryId> {
    runs.iter().flat_map(|run| run.numbers()).map(EntryId)
}

/// How many ranges are named, all of which the file must have.
fn count_ranges<'a>(
    id: EntryId,
    entry: &Entry,
    runs: impl Iterator<Item = &'a Run>,
) -> Result<u64, Violation> {
    let ranges = if entry.size() > WHOLE_BYTES { Span::count(entry.size()) } else { 0 };
    let mut named = 0u64;
    for run in runs {
        if run.numbers().end > ranges {
            return Err(Violation::NoSuchPart(id));
        }
        named = named.saturating_add(run.count);
    }
    Ok(named)
}

/// Cuts a list into batches.
#[derive(Default)]
struct Batches {
    cut: Vec<Batch>,
    batch: Batch,
    fill: Fill,
    /// Id of the first entry of the batch.
    first: EntryId,
}

impl Batches {
    fn problem(&mut self, problem: Problem) {
        self.fill.add_problem(&problem);
        self.batch.problems.push(problem);
        self.cut_if_full();
    }

    fn entry(&mut self, entry: Entry) {
        self.fill.add_entry(&entry);
        self.batch.entries.push(entry);
        self.cut_if_full();
    }

    fn cut_if_full(&mut self) {
        if self.fill.is_full() {
            self.cut();
        }
    }

    fn cut(&mut self) {
        let batch = Batch { first: self.first, ..std::mem::take(&mut self.batch) };
        self.first = EntryId(self.first.0 + batch.entries.len() as u64);
        self.fill = Fill::default();
        self.cut.push(batch);
    }

    fn finish(mut self) -> Vec<Batch> {
        if self.fill != Fill::default() {
            self.cut();
        }
        self.cut
    }
}
