//! The median and an exact interval for it, from order statistics: the interval from the k-th smallest to the k-th
//! largest of n values misses the median only when fewer than k of them lie on one side of it, and how many do is
//! binomial whatever their distribution (David and Nagaraja, Order Statistics, 7.1).
//!
//! Of values of which one side is known, the k-th smallest lower bound can only be below the k-th smallest value, so
//! the interval only gets wider and its coverage is kept.

use super::{Bounds, binomial_at_least};

/// An interval for the median, and how often such intervals hold it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MedianInterval {
    /// Its ends, which are infinite where censored values leave them open.
    pub(crate) ends: Bounds,
    /// The chance that an interval made like this holds the median; more where values tie or are censored.
    pub(crate) coverage: f64,
}

/// The middle value, or the mean of the two in the middle; `None` of no values.
pub(crate) fn median(values: &[Bounds]) -> Option<Bounds> {
    let (lows, highs) = sorted_ends(values);
    Some(Bounds::between(middle(&lows)?, middle(&highs)?))
}

/// The narrowest interval from order statistics with at least `confidence`, or the widest there is where the values
/// are too few for that; `None` of no values.
pub(crate) fn interval(values: &[Bounds], confidence: f64) -> Option<MedianInterval> {
    let count = values.len();
    let rank = (1..=count / 2).rev().find(|&rank| coverage(count, rank) >= confidence).unwrap_or(1);
    let (lows, highs) = sorted_ends(values);
    let (low, high) = (*lows.get(rank - 1)?, *highs.get(count.checked_sub(rank)?)?);
    Some(MedianInterval { ends: Bounds::between(low, high), coverage: coverage(count, rank) })
}

/// How often the `rank`-th smallest and the `rank`-th largest of `count` values enclose the median.
pub(crate) fn coverage(count: usize, rank: usize) -> f64 {
    // It is missed when at least all but `rank` - 1 values lie on one side. Of one value, which is both, always.
    (1.0 - 2.0 * binomial_at_least(count, 0.5, count + 1 - rank)).max(0.0)
}

fn sorted_ends(values: &[Bounds]) -> (Vec<f64>, Vec<f64>) {
    let sorted = |end: fn(Bounds) -> f64| {
        let mut ends: Vec<f64> = values.iter().map(|&value| end(value)).collect();
        ends.sort_by(f64::total_cmp);
        ends
    };
    (sorted(Bounds::low), sorted(Bounds::high))
}

fn middle(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    let lower = if sorted.len().is_multiple_of(2) { sorted[sorted.len() / 2 - 1] } else { upper };
    Some(if lower == upper { upper } else { (lower + upper) / 2.0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{
        CONFIDENCE,
        simulation::{Noise, exactly, share_of_runs},
    };

    /// Three standard errors of a share near 0.95 in 4,000 runs, and a little.
    const MONTE_CARLO_ERROR: f64 = 0.011;

    #[test]
    fn five_rounds_reach_from_the_least_to_the_greatest_and_cover_no_more() {
        let interval = interval(&exactly(&[5.0, 1.0, 4.0, 2.0, 3.0]), CONFIDENCE).unwrap();
        assert_eq!(interval, MedianInterval { ends: Bounds::between(1.0, 5.0), coverage: 0.9375 });
    }

    #[test]
    fn sixteen_rounds_leave_three_out_on_each_side() {
        let values: Vec<f64> = (1..=16).map(f64::from).collect();
        let interval = interval(&exactly(&values), CONFIDENCE).unwrap();
        assert_eq!(interval.ends, Bounds::between(4.0, 13.0));
        assert!((interval.coverage - (1.0 - 2.0 * 697.0 / 65_536.0)).abs() < 1e-12);
    }

    #[test]
    fn one_value_covers_nothing_and_no_value_has_no_interval() {
        let one = interval(&exactly(&[2.0]), CONFIDENCE).unwrap();
        assert_eq!(one, MedianInterval { ends: Bounds::exactly(2.0), coverage: 0.0 });
        assert_eq!(interval(&[], CONFIDENCE), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn the_median_of_an_even_number_is_the_mean_of_the_middle() {
        assert_eq!(median(&exactly(&[4.0, 1.0, 3.0, 2.0])), Some(Bounds::exactly(2.5)));
    }

    #[test]
    fn censored_values_open_the_interval_on_their_side_alone() {
        let values = [2.0, 3.0, 4.0].map(Bounds::exactly).into_iter().chain([Bounds::at_most(1.0); 2]);
        let values: Vec<Bounds> = values.collect();
        assert_eq!(median(&values), Some(Bounds::exactly(2.0)), "it is known although two values are not");
        let interval = interval(&values, CONFIDENCE).unwrap();
        assert_eq!(interval.ends, Bounds::at_most(4.0));
    }

    #[test]
    fn the_median_of_mostly_censored_values_is_bounded() {
        let values = [Bounds::at_most(1.0), Bounds::at_most(1.0), Bounds::exactly(3.0)];
        assert_eq!(median(&values), Some(Bounds::at_most(1.0)));
    }

    #[test]
    fn intervals_cover_as_often_as_they_say_whatever_the_noise() {
        for noise in Noise::ALL {
            for rounds in [2, 5, 6, 9, 16, 25] {
                let expected = interval(&exactly(&vec![0.0; rounds]), CONFIDENCE).unwrap().coverage;
                let share = share_of_runs(4_000, |random| {
                    let found = interval(&exactly(&noise.values(random, rounds)), CONFIDENCE).unwrap();
                    found.ends.low() <= noise.median() && noise.median() <= found.ends.high()
                });
                assert!(
                    (share - expected).abs() < MONTE_CARLO_ERROR,
                    "{noise:?} {rounds}: {share} {expected}"
                );
            }
        }
    }

    #[test]
    fn censoring_never_lowers_the_coverage() {
        let limit = 0.4;
        for noise in Noise::ALL {
            let share = share_of_runs(4_000, |random| {
                let censor = |value: f64| {
                    if value < noise.median() - limit {
                        Bounds::at_most(noise.median() - limit)
                    } else {
                        Bounds::exactly(value)
                    }
                };
                let values: Vec<Bounds> = noise.values(random, 16).into_iter().map(censor).collect();
                let found = interval(&values, CONFIDENCE).unwrap();
                found.ends.low() <= noise.median() && noise.median() <= found.ends.high()
            });
            assert!(share > 0.9787 - MONTE_CARLO_ERROR, "{noise:?}: {share}");
        }
    }
}
