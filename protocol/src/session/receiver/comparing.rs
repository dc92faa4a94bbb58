//! From the sender's root to what is asked for: the receiver narrows down what differs.

use std::time::Duration;

use super::{Action, Actions, Agreed, Own, Receiver, State, Storing};
use crate::{
    difference::{Narrowing, Step},
    limits::BATCH_BYTES,
    message::{Expand, List, Message, Nodes, RUN_BYTES, Root, Run},
    session::Violation,
};

/// Most runs in a message that asks for nodes or leaves.
const RUNS: usize = BATCH_BYTES / RUN_BYTES;

impl Receiver {
    pub(super) fn hear_root(&mut self, root: Root, now: Duration) -> Result<Actions, Violation> {
        let State::AwaitRoot(storing) = &mut self.state else { return Ok(Vec::new()) };
        storing.hear_root(&root)?;
        let storing = std::mem::take(storing);
        self.root = Some(root);
        self.enter(State::AwaitCatalogue(storing), now);
        self.compare(now)
    }

    pub(super) fn catalogued(&mut self, own: Own, now: Duration) -> Result<Actions, Violation> {
        self.own = Some(own);
        self.compare(now)
    }

    pub(super) fn hear_nodes(&mut self, nodes: &Nodes, now: Duration) -> Result<Actions, Violation> {
        let Some(narrowing) = &mut self.narrowing else { return Ok(Vec::new()) };
        let step = narrowing.hear_nodes(nodes.level, nodes.first, &nodes.hashes)?;
        Ok(self.follow(step, now))
    }

    /// Compares the roots, once both are known.
    fn compare(&mut self, now: Duration) -> Result<Actions, Violation> {
        let (State::AwaitCatalogue(storing), Some(root)) = (&mut self.state, self.root) else {
            return Ok(Vec::new());
        };
        let Some(Own { catalogue, agreed }) = self.own.take() else { return Ok(Vec::new()) };
        if agreed == Some(Agreed { theirs: root.hash, own: catalogue.root() }) {
            return Ok(self.keep_rest(now));
        }
        let own = catalogue.totals();
        let mut narrowing = Narrowing::new(catalogue);
        let step = narrowing.hear_root(root.hash, root.levels)?;
        if step == Step::Equal && (root.totals.entries, root.totals.bytes) != (own.entries, own.bytes) {
            return Err(Violation::Totals);
        }
        let storing = std::mem::take(storing);
        self.enter(State::Narrowing(storing), now);
        self.narrowing = Some(narrowing);
        Ok(self.follow(step, now))
    }

    fn follow(&mut self, step: Step, now: Duration) -> Actions {
        match step {
            Step::Wait => Vec::new(),
            Step::Expand { level, runs } => {
                let expand = |nodes: &[Run]| Message::Expand(Expand { level, nodes: nodes.to_vec() });
                runs.chunks(RUNS).map(expand).map(Action::Send).collect()
            }
            Step::List { runs } if !runs.is_empty() => self.list(&runs, now),
            // All the sender has is here; there may be more.
            Step::List { .. } => self.keep_rest(now),
            Step::Equal => {
                self.narrowing = None;
                self.keep_rest(now)
            }
        }
    }

    /// Asks for the entries of leaves, at least one; the last message completes what is asked for.
    fn list(&mut self, leaves: &[Run], now: Duration) -> Actions {
        self.begin_storing(now);
        let last = leaves.chunks(RUNS).len() - 1;
        let lists = leaves.chunks(RUNS).enumerate().map(|(index, leaves)| {
            Action::Send(Message::List(List { leaves: leaves.to_vec(), complete: index == last }))
        });
        [Action::Compared].into_iter().chain(lists).collect()
    }

    /// Nothing will be listed: all of it is kept.
    fn keep_rest(&mut self, now: Duration) -> Actions {
        if let Some(storing) = self.begin_storing(now) {
            storing.complete();
        }
        vec![Action::Compared]
    }

    fn begin_storing(&mut self, now: Duration) -> Option<&mut Storing> {
        if let State::AwaitCatalogue(storing) | State::Narrowing(storing) = &mut self.state {
            let storing = std::mem::take(storing);
            self.enter(State::Storing(storing), now);
        }
        match &mut self.state {
            State::Storing(storing) => Some(storing),
            State::AwaitAdmission(_)
            | State::AwaitOffer
            | State::AwaitConsent { .. }
            | State::AwaitRoot(_)
            | State::AwaitCatalogue(_)
            | State::Narrowing(_)
            | State::Finishing(_)
            | State::AwaitFarewell(_)
            | State::Ended(_) => None,
        }
    }
}
