//! What the receiver says in batches: outcomes, and wants.

use crate::{
    limits::PARTS_RUNS,
    manifest::EntryId,
    message::{Fate, Fill, Parts, Pieces, Run, Settled, Want},
    path::EntryPath,
    problem::Problem,
};

/// Collects outcomes until a batch is worth sending.
#[derive(Debug, Default)]
pub(super) struct Outcomes {
    settled: Settled,
    fill: Fill,
}

impl Outcomes {
    pub(super) fn fate(&mut self, id: EntryId, fate: Fate) {
        self.fill.append(self.settled.runs_mut(fate), id.0);
    }

    pub(super) fn problem(&mut self, id: EntryId, problem: Problem) {
        self.fill.add_problem(&problem);
        self.settled.problems.push((id, problem));
    }

    /// A problem of an entry that was settled before.
    pub(super) fn late(&mut self, problem: Problem) {
        self.fill.add_problem(&problem);
        self.settled.late.push(problem);
    }

    /// Something that was not listed is gone.
    pub(super) fn removed(&mut self, path: EntryPath) {
        self.fill.add_name(&path);
        self.settled.removed.push(path);
    }

    /// Content that would have been needed.
    pub(super) fn planned(&mut self, bytes: u64) {
        self.settled.planned_bytes = self.settled.planned_bytes.saturating_add(bytes);
    }

    /// The batch, once it is full.
    pub(super) fn take_full(&mut self) -> Option<Settled> {
        if self.fill.is_full() { self.take() } else { None }
    }

    /// What was collected.
    pub(super) fn take(&mut self) -> Option<Settled> {
        let batch = std::mem::take(self).settled;
        (!batch.is_empty()).then_some(batch)
    }
}

/// Collects wants, in as many messages as they need.
#[derive(Debug, Default)]
pub(super) struct Wants {
    cut: Vec<Want>,
    want: Want,
    fill: Fill,
}

impl Wants {
    pub(super) fn content(&mut self, id: EntryId) {
        self.fill.append(&mut self.want.content, id.0);
        self.cut_if_full();
    }

    pub(super) fn digest(&mut self, id: EntryId) {
        self.fill.append(&mut self.want.digest, id.0);
        self.cut_if_full();
    }

    /// Names the file as often as its runs need.
    pub(super) fn parts(&mut self, id: EntryId, content: &[Run], digest: &[Run]) {
        let items = content.len().max(digest.len()).div_ceil(PARTS_RUNS);
        for index in 0..items {
            let part = |runs: &[Run]| runs.chunks(PARTS_RUNS).nth(index).unwrap_or_default().to_vec();
            self.push(Parts { id, content: part(content), digest: part(digest) });
        }
    }

    pub(super) fn delta(&mut self, id: EntryId) {
        self.fill.append(&mut self.want.delta, id.0);
        self.cut_if_full();
    }

    pub(super) fn lists(&mut self, id: EntryId, bytes: &[Run]) {
        self.push_pieces(id, bytes, |want| &mut want.lists);
    }

    pub(super) fn pieces(&mut self, id: EntryId, bytes: &[Run]) {
        self.push_pieces(id, bytes, |want| &mut want.pieces);
    }

    /// Names the file as often as its runs need.
    fn push_pieces(&mut self, id: EntryId, bytes: &[Run], list: fn(&mut Want) -> &mut Vec<Pieces>) {
        for bytes in bytes.chunks(PARTS_RUNS) {
            self.fill.add_runs(1 + bytes.len());
            list(&mut self.want).push(Pieces { id, bytes: bytes.to_vec() });
            self.cut_if_full();
        }
    }

    fn push(&mut self, parts: Parts) {
        // Its id, tag and length take less than a run does.
        self.fill.add_runs(1 + parts.content.len() + parts.digest.len());
        self.want.parts.push(parts);
        self.cut_if_full();
    }

    fn cut_if_full(&mut self) {
        if self.fill.is_full() {
            self.cut.push(std::mem::take(&mut self.want));
            self.fill = Fill::default();
        }
    }

    /// The messages.
    pub(super) fn finish(mut self) -> Vec<Want> {
        if !self.want.is_empty() {
            self.cut.push(self.want);
        }
        self.cut
    }
}
