//! Whether sending faster still delivers faster (§5.3.1.2).

use super::{constants::FULL_PIPE_ROUNDS, rate::Rate};

/// Looks for a rate that no longer grows.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pipe {
    /// The rate that the next ones are compared with.
    baseline: Rate,
    /// Rounds in which it did not grow.
    pub(super) flat_rounds: u32,
    /// Full since the last [`Pipe::restart`].
    pub(super) full: bool,
    /// Was ever full.
    pub(super) was_full: bool,
}

impl Pipe {
    pub(super) fn new() -> Self {
        Self { baseline: Rate::ZERO, flat_rounds: 0, full: false, was_full: false }
    }

    /// Compares with `baseline` from now on.
    pub(super) fn restart(&mut self, baseline: Rate) {
        *self = Self { baseline, flat_rounds: 0, full: false, was_full: self.was_full };
    }

    /// Once a round, with a rate that the application did not limit; so many times the baseline is growth.
    pub(super) fn on_round(&mut self, rate: Rate, growth: f64) {
        if self.full {
            return;
        }
        if rate >= self.baseline.times(growth) {
            return self.restart(rate);
        }
        self.flat_rounds += 1;
        self.full = self.flat_rounds >= FULL_PIPE_ROUNDS;
        self.was_full |= self.full;
    }
}
