//! One condition over all rounds.

use std::collections::BTreeMap;

use crate::{
    observation::{Factors, Observation, Outcome, Role},
    statistics::{
        Bounds, CONFIDENCE,
        median::{MedianInterval, interval, median},
        survival::{Step, Watched, curve},
    },
};

/// The speed of a bound is rounded up to this many in a MB/s, so that it stays a bound where it is printed.
const BOUND_STEPS_PER_MB_PER_S: f64 = 1_000.0;

/// A condition, what counts of it, and what follows from that alone.
#[derive(Debug)]
pub(crate) struct Condition<'a> {
    pub(crate) name: &'a str,
    pub(crate) role: Role,
    pub(crate) factors: &'a Factors,
    /// What counts, by round.
    pub(crate) cells: BTreeMap<u32, &'a Observation>,
    /// Median speed, in decimal MB/s.
    pub(crate) median: Option<Bounds>,
    pub(crate) interval: Option<MedianInterval>,
    /// Median of what a perfect program takes over the same cold path, divided by what was taken.
    pub(crate) efficiency: Option<Bounds>,
    /// Which share was not finished by when.
    pub(crate) unfinished: Vec<Step>,
    pub(crate) counts: Counts,
}

/// How the cells that count ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) complete: usize,
    pub(crate) censored: usize,
    pub(crate) aborted: usize,
    pub(crate) failed: usize,
}

impl<'a> Condition<'a> {
    /// Of the rows of one condition; there is at least one.
    pub(crate) fn new(rows: &[&'a Observation]) -> Self {
        let first = rows[0];
        let cells = counted(rows);
        let speeds: Vec<Bounds> = cells.values().filter_map(|row| speed(row)).collect();
        let efficiencies: Vec<Bounds> = cells.values().filter_map(|row| efficiency(row)).collect();
        let watched: Vec<Watched> = cells.values().filter_map(|row| watched(row)).collect();
        Self {
            name: &first.condition,
            role: first.role,
            factors: &first.factors,
            median: median(&speeds),
            interval: interval(&speeds, CONFIDENCE),
            efficiency: median(&efficiencies),
            unfinished: curve(&watched),
            counts: Counts::of(cells.values().copied()),
            cells,
        }
    }

    /// Whether any cell that counts was stopped at its limit.
    pub(crate) fn is_censored(&self) -> bool {
        self.counts.censored > 0
    }
}

impl Counts {
    pub(crate) fn of<'a>(rows: impl Iterator<Item = &'a Observation>) -> Self {
        let mut counts = Self::default();
        for row in rows {
            match row.outcome {
                Outcome::Complete(_) => counts.complete += 1,
                Outcome::Censored { .. } => counts.censored += 1,
                Outcome::Aborted { .. } => counts.aborted += 1,
                Outcome::Failed { .. } => counts.failed += 1,
            }
        }
        counts
    }
}

/// What is known of a cell's speed, in decimal MB/s of useful bytes; `None` where there is none.
pub(crate) fn speed(row: &Observation) -> Option<Bounds> {
    let over = |seconds: f64| row.useful_bytes as f64 / seconds / 1e6;
    match &row.outcome {
        Outcome::Complete(times) => Some(Bounds::exactly(over(times.ready_s))),
        Outcome::Censored { limit_s, .. } => {
            let steps = (over(*limit_s) * BOUND_STEPS_PER_MB_PER_S).ceil();
            Some(Bounds::between(0.0, steps / BOUND_STEPS_PER_MB_PER_S))
        }
        Outcome::Aborted { .. } | Outcome::Failed { .. } => None,
    }
}

/// What is known of how a cell's time compares to that of a perfect program.
pub(crate) fn efficiency(row: &Observation) -> Option<Bounds> {
    let ideal_s = row.ideal_s?;
    match &row.outcome {
        Outcome::Complete(times) => Some(Bounds::exactly(ideal_s / times.ready_s)),
        Outcome::Censored { limit_s, .. } => Some(Bounds::between(0.0, ideal_s / limit_s)),
        Outcome::Aborted { .. } | Outcome::Failed { .. } => None,
    }
}

fn watched(row: &Observation) -> Option<Watched> {
    match &row.outcome {
        Outcome::Complete(times) => Some(Watched::Finished(times.ready_s)),
        Outcome::Censored { limit_s, .. } => Some(Watched::Stopped(*limit_s)),
        // When a connection breaks has to do with how the transfer goes, so it is not being stopped by a clock.
        Outcome::Aborted { .. } | Outcome::Failed { .. } => None,
    }
}

/// Of each round the first attempt that did not fail, or the last where all did.
fn counted<'a>(rows: &[&'a Observation]) -> BTreeMap<u32, &'a Observation> {
    let mut sorted = rows.to_vec();
    sorted.sort_by_key(|row| row.attempt);
    let mut cells: BTreeMap<u32, &Observation> = BTreeMap::new();
    for row in sorted {
        let cell = cells.entry(row.round).or_insert(row);
        if matches!(cell.outcome, Outcome::Failed { .. }) {
            *cell = row;
        }
    }
    cells
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::tests::observation;

    fn censored() -> Outcome {
        Outcome::Censored { limit_s: 900.0, progress: vec![] }
    }

    fn failed() -> Outcome {
        Outcome::Failed { reason: "no".into() }
    }

    #[test]
    fn a_speed_is_useful_bytes_in_decimal_megabytes_a_second() {
        assert_eq!(speed(&observation("a", 4.0)), Some(Bounds::exactly(25.0)));
    }

    #[test]
    fn the_bound_of_a_stopped_cell_is_rounded_up() {
        let row = Observation { useful_bytes: 268_435_456, outcome: censored(), ..observation("a", 1.0) };
        assert_eq!(speed(&row), Some(Bounds::between(0.0, 0.299)));
    }

    #[test]
    fn what_was_aborted_or_failed_has_no_speed() {
        let aborted = Outcome::Aborted { after_s: 3.0, reason: "reset".into(), progress: vec![] };
        for outcome in [aborted, failed()] {
            let row = Observation { outcome, ideal_s: Some(1.0), ..observation("a", 1.0) };
            assert_eq!((speed(&row), efficiency(&row)), (None, None));
        }
    }

    #[test]
    fn the_first_attempt_that_did_not_fail_counts() {
        let attempt = |attempt, outcome| Observation { attempt, outcome, ..observation("a", 1.0) };
        let complete = |ready_s| observation("a", ready_s).outcome;
        let rows = [attempt(1, failed()), attempt(2, complete(2.0)), attempt(3, complete(1.0))];
        let counts = |rows: &[Observation]| {
            let rows: Vec<&Observation> = rows.iter().rev().collect();
            counted(&rows)[&1].attempt
        };
        assert_eq!(counts(&rows), 2, "a third, faster one changes nothing");
        assert_eq!(counts(&[attempt(1, censored()), attempt(2, complete(1.0))]), 1);
        assert_eq!(counts(&[attempt(1, failed()), attempt(2, failed())]), 2);
    }

    #[test]
    fn a_condition_knows_its_median_its_interval_and_its_end() {
        let rows: Vec<Observation> = [1.0, 2.0, 4.0]
            .iter()
            .zip(1..)
            .map(|(&ready_s, round)| Observation { round, ideal_s: Some(1.0), ..observation("a", ready_s) })
            .chain([Observation { round: 4, outcome: censored(), ..observation("a", 1.0) }])
            .collect();
        let condition = Condition::new(&rows.iter().collect::<Vec<_>>());
        assert_eq!(condition.median, Some(Bounds::exactly(37.5)));
        let interval = condition.interval.unwrap();
        assert_eq!((interval.ends.low(), interval.ends.high(), interval.coverage), (0.0, 100.0, 0.875));
        assert_eq!(condition.efficiency, Some(Bounds::exactly(0.5)));
        assert_eq!(condition.counts, Counts { complete: 3, censored: 1, aborted: 0, failed: 0 });
        assert_eq!(condition.unfinished.len(), 3);
    }
}
