//! What the receiver knows of the entries it was listed: which are open, what became of them, the account.

use std::sync::Arc;

use super::{
    Violation,
    batches::{Outcomes, Wants},
    listing::Account,
    outstanding::Outstanding,
    receiver::{Action, Outcome},
};
use crate::{
    manifest::{EntryId, Order},
    message::{Batch, Fate, Root, TargetView, Totals},
    path::EntryPath,
    problem::Problem,
};

#[derive(Debug, Default)]
pub(super) struct Storing {
    pub(super) outstanding: Outstanding,
    pub(super) outcomes: Outcomes,
    pub(super) listed: Totals,
    pub(super) account: Account,
    order: Order,
    manifest: Manifest,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Manifest {
    /// All of the tree is listed, and counted as it comes.
    #[default]
    Whole,
    /// Only what was asked for is; the tree was counted by its root.
    Parts {
        /// Bytes of the files that were listed.
        bytes: u64,
    },
    Complete,
}

impl Storing {
    /// Whether the manifest is complete.
    pub(super) fn is_listed(&self) -> bool {
        self.manifest == Manifest::Complete
    }

    /// Whether it is, and nothing is open.
    pub(super) fn is_settled(&self) -> bool {
        self.is_listed() && self.outstanding.is_empty()
    }

    /// Checks and notes a batch: what to report, and what to plan.
    pub(super) fn hear_batch(&mut self, batch: Batch) -> Result<(Vec<Action>, Option<Action>), Violation> {
        let Batch { first, entries, problems } = batch;
        if first != self.outstanding.next_id() {
            return Err(Violation::Gap { expected: self.outstanding.next_id(), got: first });
        }
        if entries.len() as u64 > self.outstanding.room() {
            return Err(Violation::Window);
        }
        if matches!(self.manifest, Manifest::Parts { .. })
            && self.listed.entries - first.0 < entries.len() as u64
        {
            return Err(Violation::Totals);
        }
        let reports = self.hear_problems(problems);
        let mut planned = Vec::with_capacity(entries.len());
        for entry in entries {
            self.order.admit(&entry)?;
            self.count(entry.size());
            let entry = Arc::new(entry);
            self.outstanding.announce(Arc::clone(&entry));
            planned.push(entry);
        }
        let plan = (!planned.is_empty()).then_some(Action::Plan { first, entries: planned });
        Ok((reports, plan))
    }

    fn hear_problems(&mut self, problems: Vec<Problem>) -> Vec<Action> {
        self.account.counts.listed += problems.len() as u64;
        self.listed.problems += problems.len() as u64;
        problems.iter().for_each(|problem| self.account.counts.add_problem(problem));
        problems.into_iter().map(Action::Report).collect()
    }

    fn count(&mut self, size: u64) {
        match &mut self.manifest {
            Manifest::Whole => {
                self.account.counts.listed += 1;
                self.listed.entries += 1;
                self.listed.bytes = self.listed.bytes.saturating_add(size);
            }
            Manifest::Parts { bytes } => *bytes = bytes.saturating_add(size),
            Manifest::Complete => {}
        }
    }

    /// Checks and notes a batch before anything was asked for: what to report.
    pub(super) fn hear_unasked(&mut self, batch: Batch) -> Result<Vec<Action>, Violation> {
        if batch.entries.is_empty() {
            Ok(self.hear_problems(batch.problems))
        } else {
            Err(Violation::Unasked)
        }
    }

    /// Notes the size of a tree of which parts will be listed.
    pub(super) fn hear_root(&mut self, root: &Root) -> Result<(), Violation> {
        if root.totals.problems != self.listed.problems {
            return Err(Violation::Totals);
        }
        self.listed = root.totals;
        self.account.counts.listed += root.totals.entries;
        self.order = Order::of_parts();
        self.manifest = Manifest::Parts { bytes: 0 };
        Ok(())
    }

    /// Notes that the manifest is complete.
    pub(super) fn hear_end(&mut self, totals: Totals) -> Result<(), Violation> {
        let sound = match self.manifest {
            Manifest::Whole | Manifest::Complete => true,
            Manifest::Parts { bytes } => bytes <= totals.bytes,
        };
        if totals != self.listed || !sound {
            return Err(Violation::Totals);
        }
        self.complete();
        Ok(())
    }

    /// Counts what was not listed as kept: nothing will be listed any more.
    pub(super) fn complete(&mut self) {
        self.account.counts.kept += self.listed.entries - self.outstanding.next_id().0;
        self.manifest = Manifest::Complete;
    }

    /// A plan for everything listed, of which nothing was planned before.
    pub(super) fn plan_all(&self) -> Option<Action> {
        let entries: Vec<_> = self.outstanding.iter().map(|(_, entry)| Arc::clone(entry)).collect();
        (!entries.is_empty()).then_some(Action::Plan { first: EntryId(0), entries })
    }

    /// Notes what became of an entry, or that something is wanted of it: what to report. What is said of an
    /// entry that is not open comes too late and changes nothing.
    pub(super) fn note_outcome(
        &mut self,
        id: EntryId,
        outcome: Outcome,
        target: TargetView,
        wants: &mut Wants,
    ) -> Option<Action> {
        self.outstanding.entry(id)?;
        match outcome {
            Outcome::Content if target == TargetView::Empty => {}
            Outcome::Content | Outcome::ContentAgain => wants.content(id),
            Outcome::Digest => wants.digest(id),
            Outcome::Parts { content, digest } => wants.parts(id, &content, &digest),
            Outcome::Delta => wants.delta(id),
            Outcome::Needs(needs) => {
                wants.lists(id, &needs.lists);
                wants.pieces(id, &needs.pieces);
            }
            Outcome::Created => self.settle(id, Fate::Created),
            Outcome::Updated => self.settle(id, Fate::Updated),
            Outcome::Described => self.settle(id, Fate::Described),
            Outcome::Kept => self.settle(id, Fate::Kept),
            Outcome::Skipped => self.settle(id, Fate::Skipped),
            Outcome::Problem(problem) => {
                self.outstanding.settle(id);
                self.account.counts.add_problem(&problem);
                self.outcomes.problem(id, problem.clone());
                return Some(Action::Report(problem));
            }
        }
        None
    }

    fn settle(&mut self, id: EntryId, fate: Fate) {
        self.outstanding.settle(id);
        self.account.counts.add_fate(fate);
        self.outcomes.fate(id, fate);
    }

    /// Notes that something is gone that was not listed.
    pub(super) fn note_removed(&mut self, path: EntryPath) {
        self.account.counts.removed += 1;
        self.outcomes.removed(path);
    }

    /// Notes what a preview would have needed.
    pub(super) fn note_planned(&mut self, bytes: u64) {
        self.account.planned_bytes = self.account.planned_bytes.saturating_add(bytes);
        self.outcomes.planned(bytes);
    }

    /// Notes a problem of an entry that was settled before.
    pub(super) fn note_late(&mut self, problem: Problem) {
        self.account.counts.listed += 1;
        self.account.counts.add_problem(&problem);
        self.outcomes.late(problem);
    }
}
