//! How much of the scatter between rounds comes with the path: the same condition over a path and between ends that no path
//! joins.

use super::condition::Condition;
use crate::{
    observation::{Factors, Outcome},
    statistics::bootstrap::deviation,
};

/// What paths between ends on one host are called.
const NO_PATH: &str = "loopback";

/// Fewer rounds do not tell how far they scatter.
const LEAST_ROUNDS: usize = 3;

/// Two conditions that differ in the path alone, one of which has none. Standard deviations of `ready_s` over the rounds, in
/// seconds.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Noise<'a> {
    pub(crate) over_path: &'a str,
    pub(crate) without: &'a str,
    pub(crate) over_path_s: f64,
    pub(crate) without_s: f64,
}

impl Noise<'_> {
    /// Which share of the variance comes with the path, if the ends scatter alike with and without it, in seconds: between 0
    /// and 1.
    pub(crate) fn share_of_path(&self) -> f64 {
        if self.over_path_s <= self.without_s {
            return 0.0;
        }
        1.0 - (self.without_s / self.over_path_s).powi(2)
    }
}

/// Every such pair of which both have been observed often enough.
pub(crate) fn noises<'a>(conditions: &[Condition<'a>]) -> Vec<Noise<'a>> {
    let without = conditions.iter().filter(|condition| condition.factors.path == NO_PATH);
    without.filter_map(|without| noise(without, conditions)).collect()
}

fn noise<'a>(without: &Condition<'a>, conditions: &[Condition<'a>]) -> Option<Noise<'a>> {
    let differs_in_path = |other: &&Condition<'_>| {
        other.factors.path != NO_PATH
            && *without.factors == Factors { path: NO_PATH.into(), ..other.factors.clone() }
    };
    // The first by name is the one without a label.
    let over_path = conditions.iter().find(differs_in_path)?;
    Some(Noise {
        over_path: over_path.name,
        without: without.name,
        over_path_s: scatter_s(over_path)?,
        without_s: scatter_s(without)?,
    })
}

/// `None` where too few rounds came to their end, or one was stopped.
fn scatter_s(condition: &Condition<'_>) -> Option<f64> {
    let ready_s = |outcome: &Outcome| match outcome {
        Outcome::Complete(times) => Some(times.ready_s),
        Outcome::Censored { .. } | Outcome::Aborted { .. } | Outcome::Failed { .. } => None,
    };
    let all = condition.cells.values().map(|row| ready_s(&row.outcome)).collect::<Option<Vec<_>>>()?;
    (all.len() >= LEAST_ROUNDS).then(|| deviation(&all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Observation, tests::observation};

    fn rows(name: &str, path: &str, ready_s: &[f64]) -> Vec<Observation> {
        let row = |(round, ready_s): (u32, &f64)| {
            let mut row = observation(name, *ready_s);
            row.factors.path = path.into();
            row.round = round;
            row
        };
        (1..).zip(ready_s).map(row).collect()
    }

    fn found(over_path: &[f64], without: &[f64]) -> Option<(f64, f64, f64)> {
        let (a, b) = (rows("a", "lan", over_path), rows("a-alone", NO_PATH, without));
        let conditions = [&a, &b].map(|rows| Condition::new(&rows.iter().collect::<Vec<_>>()));
        let noise = noises(&conditions).into_iter().next()?;
        Some((noise.over_path_s, noise.without_s, noise.share_of_path()))
    }

    #[test]
    fn what_scatters_more_over_a_path_scatters_by_the_path() {
        let (over_path_s, without_s, share) = found(&[10.0, 12.0, 14.0], &[1.0, 2.0, 3.0]).unwrap();
        assert_eq!((over_path_s, without_s, share), (2.0, 1.0, 0.75));
        assert_eq!(
            found(&[10.0, 10.1, 10.2], &[1.0, 2.0, 3.0]).unwrap().2,
            0.0,
            "it is no less than nothing"
        );
    }

    #[test]
    fn too_few_rounds_say_nothing() {
        assert_eq!(found(&[10.0, 12.0], &[1.0, 2.0]), None);
    }
}
