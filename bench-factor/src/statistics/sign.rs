//! Tests of the median by signs: how many values lie on one side is binomial when the median is the threshold,
//! whatever their distribution. They agree with the intervals of [`super::median`]: what such an interval
//! excludes, the test of the same level rejects.
//!
//! A value that is not known to lie on the side in question counts as if it lay on the other, ties too, so that
//! censored values make a finding rarer and never falser.

use super::{Bounds, binomial_at_least, normal_cdf};

/// The chance of as many values above `threshold` if the median were `threshold` or less.
pub(crate) fn above(values: &[Bounds], threshold: f64) -> f64 {
    let count = values.iter().filter(|value| value.low() > threshold).count();
    binomial_at_least(values.len(), 0.5, count)
}

/// The chance of as many values below `threshold` if the median were `threshold` or more.
pub(crate) fn below(values: &[Bounds], threshold: f64) -> f64 {
    let count = values.iter().filter(|value| value.high() < threshold).count();
    binomial_at_least(values.len(), 0.5, count)
}

/// The chance of as lopsided values, either way, if the median were zero.
pub(crate) fn difference(values: &[Bounds]) -> f64 {
    (2.0 * above(values, 0.0).min(below(values, 0.0))).min(1.0)
}

/// The chance of values as close to zero if the median were at `margin` from it or further: two one-sided tests, of
/// which both must hold (Schuirmann 1987).
pub(crate) fn equivalence(values: &[Bounds], margin: f64) -> f64 {
    above(values, -margin).max(below(values, margin))
}

/// The least chance that [`difference`] can give, where all `rounds` agree.
pub(crate) fn least_difference(rounds: usize) -> f64 {
    (2.0 * binomial_at_least(rounds, 0.5, rounds)).min(1.0)
}

/// How often [`difference`] finds a median at `effect` in `rounds` values that scatter normally around it with
/// `deviation`, where a chance of `significance` counts as a finding.
pub(crate) fn power(rounds: usize, effect: f64, deviation: f64, significance: f64) -> f64 {
    let Some(needed) = needed_signs(rounds, significance) else { return 0.0 };
    let right_side = if deviation > 0.0 { normal_cdf(effect.abs() / deviation) } else { 1.0 };
    let wrong_side = 1.0 - right_side;
    binomial_at_least(rounds, right_side, needed) + binomial_at_least(rounds, wrong_side, needed)
}

/// How many of `rounds` values have to lie on one side for a finding; `None` where all do not suffice.
pub(crate) fn needed_signs(rounds: usize, significance: f64) -> Option<usize> {
    (rounds / 2 + 1..=rounds).find(|&count| 2.0 * binomial_at_least(rounds, 0.5, count) <= significance)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{
        SIGNIFICANCE,
        simulation::{Noise, exactly, share_of_runs},
    };

    /// Three standard errors of any share in 4,000 runs.
    const MONTE_CARLO_ERROR: f64 = 0.024;

    /// What a speed lower by a tenth is as a logarithm.
    fn minus_ten_percent() -> f64 {
        0.9_f64.ln()
    }

    #[test]
    fn five_rounds_that_agree_show_nothing_at_five_percent() {
        assert_eq!(difference(&exactly(&[0.1, 0.2, 0.3, 0.4, 0.5])), 0.0625);
        assert_eq!(least_difference(5), 0.0625);
        assert_eq!(needed_signs(5, SIGNIFICANCE), None);
        assert_eq!(needed_signs(6, SIGNIFICANCE), Some(6));
        assert_eq!(power(5, 1.0, 0.01, SIGNIFICANCE), 0.0);
    }

    #[test]
    fn no_values_show_nothing() {
        assert_eq!(difference(&[]), 1.0);
        assert_eq!(equivalence(&[], 0.1), 1.0);
        assert_eq!(needed_signs(0, SIGNIFICANCE), None);
    }

    #[test]
    fn a_censored_value_counts_only_where_its_side_is_known() {
        let known = [Bounds::at_most(-0.1); 6];
        assert_eq!(difference(&known), 2.0 / 64.0);
        let not_known = [Bounds::at_most(0.1); 6];
        assert_eq!(difference(&not_known), 1.0);
        assert_eq!(equivalence(&known, 0.5), 1.0, "it may lie below the margin");
    }

    #[test]
    fn a_tie_with_the_threshold_speaks_for_neither_side() {
        assert_eq!(difference(&exactly(&[0.0; 8])), 1.0);
    }

    #[test]
    fn values_within_the_margin_are_equivalent() {
        assert_eq!(equivalence(&exactly(&[0.01, -0.01, 0.02, 0.0, -0.02]), 0.05), 1.0 / 32.0);
        assert_eq!(equivalence(&exactly(&[0.01, -0.01, 0.06, 0.0, -0.02]), 0.05), 6.0 / 32.0);
    }

    #[test]
    fn without_a_difference_findings_are_as_rare_as_the_binomial_says() {
        for noise in Noise::ALL {
            for (rounds, expected) in [(6, 2.0 / 64.0), (16, 2.0 * 697.0 / 65_536.0)] {
                let share = share_of_runs(4_000, |random| {
                    let centred =
                        noise.values(random, rounds).into_iter().map(|value| value - noise.median());
                    difference(&exactly(&centred.collect::<Vec<_>>())) <= SIGNIFICANCE
                });
                assert!((share - expected).abs() < 0.009, "{noise:?} {rounds}: {share} {expected}");
            }
        }
    }

    #[test]
    fn a_planted_tenth_is_found_in_sixteen_rounds_with_the_stated_power() {
        for (deviation, stated) in [(0.05, 0.999), (0.10, 0.80), (0.15, 0.44)] {
            let calculated = power(16, minus_ten_percent(), deviation, SIGNIFICANCE);
            assert!((calculated - stated).abs() < 0.02, "{deviation}: {calculated}");
            let share = share_of_runs(4_000, |random| {
                let noisy = |value: f64| minus_ten_percent() + deviation * value;
                let values = Noise::Normal.values(random, 16).into_iter().map(noisy);
                difference(&exactly(&values.collect::<Vec<_>>())) <= SIGNIFICANCE
            });
            assert!((share - calculated).abs() < MONTE_CARLO_ERROR, "{deviation}: {share} {calculated}");
        }
    }

    #[test]
    fn a_planted_tenth_is_found_although_some_rounds_are_censored() {
        // The slower side of a ratio is stopped at its limit in the slowest rounds: those are known to be below.
        let stopped =
            |value: f64| if value < -0.15 { Bounds::at_most(-0.15) } else { Bounds::exactly(value) };
        let share = share_of_runs(4_000, |random| {
            let noisy = |value: f64| stopped(minus_ten_percent() + 0.1 * value);
            let values: Vec<Bounds> = Noise::Normal.values(random, 16).into_iter().map(noisy).collect();
            difference(&values) <= SIGNIFICANCE
        });
        let calculated = power(16, minus_ten_percent(), 0.1, SIGNIFICANCE);
        assert!((share - calculated).abs() < MONTE_CARLO_ERROR, "{share} {calculated}");
    }

    #[test]
    fn the_same_under_two_names_comes_out_as_no_difference() {
        let margin = 1.05_f64.ln();
        let share = share_of_runs(4_000, |random| {
            let values = Noise::Normal.values(random, 16).into_iter().map(|value| 0.02 * value);
            let values = exactly(&values.collect::<Vec<_>>());
            difference(&values) > SIGNIFICANCE && equivalence(&values, margin) <= SIGNIFICANCE
        });
        assert!(share > 0.95, "{share}");
    }

    #[test]
    fn what_lies_at_the_margin_is_rarely_called_equivalent() {
        let margin = 1.05_f64.ln();
        let share = share_of_runs(4_000, |random| {
            let values = Noise::Normal.values(random, 16).into_iter().map(|value| margin + 0.02 * value);
            equivalence(&exactly(&values.collect::<Vec<_>>()), margin) <= SIGNIFICANCE
        });
        assert!(share <= SIGNIFICANCE, "{share}");
    }
}
