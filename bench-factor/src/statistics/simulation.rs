//! Runs that never took place, of which the truth is known: what the tests of the estimators are held against.

use std::f64::consts::{LN_2, TAU};

use super::Bounds;

/// How values scatter.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Noise {
    /// Normal, of mean 0 and deviation 1.
    Normal,
    /// All on one side, with a long tail: exponential of mean 1.
    Exponential,
    /// Even, from 0 to 1.
    Uniform,
}

impl Noise {
    pub(super) const ALL: [Self; 3] = [Self::Normal, Self::Exponential, Self::Uniform];

    pub(super) fn values(self, random: &mut fastrand::Rng, count: usize) -> Vec<f64> {
        (0..count).map(|_| self.value(random)).collect()
    }

    pub(super) fn median(self) -> f64 {
        match self {
            Self::Normal => 0.0,
            Self::Exponential => LN_2,
            Self::Uniform => 0.5,
        }
    }

    pub(super) fn mean(self) -> f64 {
        match self {
            Self::Normal => 0.0,
            Self::Exponential => 1.0,
            Self::Uniform => 0.5,
        }
    }

    fn value(self, random: &mut fastrand::Rng) -> f64 {
        // Above zero, so that its logarithm is finite.
        let even = 1.0 - random.f64();
        match self {
            // Box and Muller 1958.
            Self::Normal => (-2.0 * even.ln()).sqrt() * (TAU * random.f64()).cos(),
            Self::Exponential => -even.ln(),
            Self::Uniform => even,
        }
    }
}

/// In which share of `runs` something held; always the same runs.
pub(super) fn share_of_runs(runs: usize, mut holds: impl FnMut(&mut fastrand::Rng) -> bool) -> f64 {
    let mut random = fastrand::Rng::with_seed(42);
    let held = (0..runs).filter(|_| holds(&mut random)).count();
    held as f64 / runs as f64
}

/// Observed values.
pub(super) fn exactly(values: &[f64]) -> Vec<Bounds> {
    values.iter().copied().map(Bounds::exactly).collect()
}
