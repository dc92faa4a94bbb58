//! What the sender knows of the entries it lists: which are open, what is wanted of them, the account.

use std::sync::Arc;

use super::{
    Violation,
    answering::Answering,
    outstanding::Outstanding,
    sender::{Action, Job, Wanted},
};
use crate::{
    chunk::ChunkSizes,
    limits::{PIECES_PER_BYTE, RANGE_BYTES, WANTS_PER_SPAN, WHOLE_BYTES},
    manifest::{Entry, EntryId, EntryKind},
    message::{
        Ask, Batch, Counts, Expand, Fill, List, Nodes, Parts, Pieces, Policy, Removal, Root, Run, Settled,
        TargetView, Totals, Want,
    },
    path::EntryPath,
    problem::Problem,
    record::segment::Span,
};

#[derive(Debug)]
pub(super) struct Listing {
    pub(super) target: TargetView,
    pub(super) outstanding: Outstanding,
    pub(super) account: Account,
    preview: bool,
    may_remove: bool,
    totals: Totals,
    scan: Scan,
}

/// What is counted of a session, and outlives it.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Account {
    pub(super) counts: Counts,
    pub(super) planned_bytes: u64,
}

#[derive(Debug)]
enum Scan {
    /// What is found is announced.
    Running,
    /// It has ended, and what the receiver asks for is announced.
    Answering(Box<Answering>),
    /// Everything was announced.
    Ended,
}

impl Listing {
    /// For a receiver that was admitted; by a policy that was proposed to it, or by its own.
    pub(super) fn new(ask: &Ask, policy: Option<&Policy>) -> Self {
        Self {
            target: ask.target,
            outstanding: Outstanding::default(),
            account: Account::default(),
            preview: ask.preview,
            may_remove: policy.is_none_or(|policy| policy.removal != Removal::Nothing),
            totals: Totals::default(),
            scan: Scan::Running,
        }
    }

    /// Whether what is found is announced. What is found later was never listed.
    pub(super) fn is_scanning(&self) -> bool {
        matches!(self.scan, Scan::Running)
    }

    /// Announces entries and problems, in batches that fit their messages; and the jobs that follow when the
    /// receiver has nothing.
    pub(super) fn announce(&mut self, entries: Vec<Entry>, problems: Vec<Problem>) -> (Vec<Batch>, Vec<Job>) {
        let mut batches = Batches { first: self.outstanding.next_id(), ..Batches::default() };
        let is_scanning = self.is_scanning();
        let counts = &mut self.account.counts;
        for problem in problems {
            self.totals.problems += 1;
            counts.listed += 1;
            counts.add_problem(&problem);
            batches.problem(problem);
        }
        let mut jobs = Vec::new();
        for entry in entries {
            // Those of a catalogue were counted with it.
            if is_scanning {
                self.totals.entries += 1;
                self.totals.bytes = self.totals.bytes.saturating_add(entry.size());
                counts.listed += 1;
            }
            let shared = Arc::new(entry.clone());
            let id = self.outstanding.announce(Arc::clone(&shared));
            jobs.extend(push_job(id, &shared));
            batches.entry(entry);
        }
        (batches.finish(), jobs)
    }

    /// Ends the list: the totals to be said, once. What was not announced until now is kept.
    pub(super) fn end_scan(&mut self) -> Option<Totals> {
        if matches!(self.scan, Scan::Ended) {
            return None;
        }
        self.scan = Scan::Ended;
        self.account.counts.kept += self.totals.entries - self.outstanding.next_id().0;
        Some(self.totals)
    }

    /// Ends the scan, whose problems were announced: the root of what it found.
    pub(super) fn compare(&mut self, answering: Answering) -> Root {
        let root = answering.root(self.totals.problems);
        self.totals = root.totals;
        self.account.counts.listed += root.totals.entries;
        self.scan = Scan::Answering(Box::new(answering));
        root
    }

    fn answering(&mut self) -> Option<&mut Answering> {
        match &mut self.scan {
            Scan::Answering(answering) => Some(answering),
            Scan::Running | Scan::Ended => None,
        }
    }

    /// The children of nodes that the receiver asks for.
    pub(super) fn expand(&mut self, expand: &Expand) -> Result<Vec<Nodes>, Violation> {
        self.answering().map_or(Ok(Vec::new()), |answering| answering.expand(expand))
    }

    /// Whether the receiver may ask for leaves.
    pub(super) fn may_be_asked(&self) -> bool {
        matches!(&self.scan, Scan::Answering(answering) if answering.may_list())
    }

    /// Notes leaves that the receiver asks for; the totals, when there is nothing to announce.
    pub(super) fn ask(&mut self, list: List) -> Result<Option<Totals>, Violation> {
        if let Some(answering) = self.answering() {
            answering.list(list)?;
        }
        Ok(self.end_if_exhausted())
    }

    /// How many entries may be announced as they are found.
    pub(super) fn room(&self) -> u64 {
        match self.scan {
            Scan::Running => self.outstanding.room(),
            Scan::Answering(_) | Scan::Ended => 0,
        }
    }

    /// Whether entries that were asked for may be announced.
    pub(super) fn may_announce(&self) -> bool {
        let is_asked = matches!(&self.scan, Scan::Answering(answering) if answering.is_asked());
        is_asked && self.outstanding.room() > 0
    }

    /// Announces entries that were asked for, as many as a batch takes; the totals, behind the last.
    pub(super) fn announce_asked(&mut self) -> (Vec<Batch>, Option<Totals>) {
        let room = self.outstanding.room();
        let Some(answering) = self.answering() else { return (Vec::new(), None) };
        let entries = answering.next_entries(room);
        let (batches, _) = self.announce(entries, Vec::new());
        (batches, self.end_if_exhausted())
    }

    fn end_if_exhausted(&mut self) -> Option<Totals> {
        let exhausted = matches!(&self.scan, Scan::Answering(answering) if answering.is_exhausted());
        exhausted.then(|| self.end_scan()).flatten()
    }

    /// The jobs of all open entries when the receiver has nothing.
    pub(super) fn pushed(&self) -> Vec<Job> {
        match self.target {
            TargetView::Empty => {
                self.outstanding.iter().filter_map(|(id, entry)| push_job(id, entry)).collect()
            }
            TargetView::Occupied | TargetView::Comparable => Vec::new(),
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

    /// Notes what became of entries: what is to be told.
    pub(super) fn settle(&mut self, settled: Settled) -> Result<Vec<Action>, Violation> {
        let mut told = Vec::new();
        for (fate, runs) in settled.fates() {
            let entries: Vec<_> = numbers(runs).map(|id| self.close(id)).collect::<Result<_, _>>()?;
            entries.iter().for_each(|_| self.account.counts.add_fate(fate));
            told.extend((!entries.is_empty()).then_some(Action::Settled { fate, entries }));
        }
        for (id, problem) in settled.problems {
            // The id says which entry it is; a path that differs would only mislead.
            let path = self.close(id)?.path.clone();
            self.account.counts.add_problem(&problem);
            told.push(Action::Report(Problem { path, ..problem }));
        }
        for problem in settled.late {
            self.account.counts.listed += 1;
            self.account.counts.add_problem(&problem);
            told.push(Action::Report(problem));
        }
        self.plan(settled.planned_bytes)?;
        told.extend(self.remove(settled.removed)?);
        Ok(told)
    }

    fn plan(&mut self, bytes: u64) -> Result<(), Violation> {
        let planned = self.account.planned_bytes.saturating_add(bytes);
        let allowed = if self.preview { self.totals.bytes } else { 0 };
        if planned > allowed {
            return Err(Violation::Plan(planned));
        }
        self.account.planned_bytes = planned;
        Ok(())
    }

    fn remove(&mut self, paths: Vec<EntryPath>) -> Result<Option<Action>, Violation> {
        if paths.is_empty() {
            return Ok(None);
        }
        if !self.may_remove {
            return Err(Violation::Removal);
        }
        self.account.counts.removed += paths.len() as u64;
        Ok(Some(Action::Removed(paths)))
    }

    fn close(&mut self, id: EntryId) -> Result<Arc<Entry>, Violation> {
        self.outstanding.settle(id).ok_or(Violation::NotOpen(id))
    }

    /// Whether all is listed and nothing is open.
    pub(super) fn is_settled(&self) -> bool {
        matches!(self.scan, Scan::Ended) && self.outstanding.is_empty()
    }

    pub(super) fn check_account(&self, theirs: Counts) -> Result<(), Violation> {
        let ours = self.account.counts;
        if theirs == ours {
            return Ok(());
        }
        Err(Violation::Account { theirs: theirs.into(), ours: ours.into() })
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
