//! What the sender knows of the entries it lists: which are open, what is wanted of them, the account.

use std::sync::Arc;

use super::{
    Violation,
    outstanding::Outstanding,
    sender::{Action, Job, Wanted},
};
use crate::{
    limits::{WANTS_PER_SPAN, WHOLE_BYTES},
    manifest::{Entry, EntryId, EntryKind},
    message::{Ask, Batch, Counts, Fill, Parts, Policy, Removal, Run, Settled, TargetView, Totals, Want},
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

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scan {
    Running,
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

    /// Announces what was found, in batches that fit their messages; and the jobs that follow when the
    /// receiver has nothing. What is found after the end of the scan was never listed.
    pub(super) fn announce(&mut self, entries: Vec<Entry>, problems: Vec<Problem>) -> (Vec<Batch>, Vec<Job>) {
        if self.scan == Scan::Ended {
            return (Vec::new(), Vec::new());
        }
        let mut batches = Batches { first: self.outstanding.next_id(), ..Batches::default() };
        let counts = &mut self.account.counts;
        for problem in problems {
            self.totals.problems += 1;
            counts.listed += 1;
            counts.add_problem(&problem);
            batches.problem(problem);
        }
        let mut jobs = Vec::new();
        for entry in entries {
            self.totals.entries += 1;
            self.totals.bytes = self.totals.bytes.saturating_add(entry.size());
            counts.listed += 1;
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
        Ok(jobs)
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
        self.scan == Scan::Ended && self.outstanding.is_empty()
    }

    pub(super) fn check_account(&self, theirs: Counts) -> Result<(), Violation> {
        let ours = self.account.counts;
        if theirs == ours { Ok(()) } else { Err(Violation::Account { theirs, ours }) }
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
