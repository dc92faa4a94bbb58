//! What a few rounds of matched observations can show, and what they cannot. Pure: values in, values out; where
//! chance is used, it comes from a seed.
//!
//! Everything rests on two things. A censored observation is known to lie on one side of a bound, so every value
//! here is a pair of [`Bounds`]; it is neither filled in nor left out. And the number of rounds on one side of the
//! median is binomial whatever the noise looks like, so the intervals and tests of [`median`] and [`sign`] are exact
//! for five rounds as for fifty. [`bootstrap`] is for means and for sixteen rounds or more; [`survival`] tells which
//! share had finished by when; [`family`] corrects for having asked several questions.

pub(crate) mod bootstrap;
pub(crate) mod bounds;
pub(crate) mod family;
pub(crate) mod median;
pub(crate) mod sign;
#[cfg(test)]
mod simulation;
pub(crate) mod survival;

use std::f64::consts::SQRT_2;

pub(crate) use self::bounds::Bounds;

/// Coverage that intervals are asked for; each says what it really has.
pub(crate) const CONFIDENCE: f64 = 0.95;

/// The chance of a false finding that a test, or a family of tests, may take.
pub(crate) const SIGNIFICANCE: f64 = 0.05;

/// The chance of at least `successes` in `trials` that each succeed with `probability`. Exact where that is a half and
/// `trials` are at most 50: then every term is a number of 53 bits over a power of two.
fn binomial_at_least(trials: usize, probability: f64, successes: usize) -> f64 {
    let (mut ways, mut chance) = (1.0, 0.0);
    // From all successes down; `ways` is how many orders have that many failures.
    for failures in 0..=trials {
        if trials - failures < successes {
            break;
        }
        let one_order =
            probability.powi((trials - failures) as i32) * (1.0 - probability).powi(failures as i32);
        chance += ways * one_order;
        ways = ways * (trials - failures) as f64 / (failures + 1) as f64;
    }
    chance.min(1.0)
}

/// The chance that a standard normal value is at most `value`.
fn normal_cdf(value: f64) -> f64 {
    libm::erfc(-value / SQRT_2) / 2.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binomial_chances_are_those_of_counting() {
        assert_eq!(binomial_at_least(5, 0.5, 5), 1.0 / 32.0);
        assert_eq!(binomial_at_least(16, 0.5, 14), 137.0 / 65_536.0);
        assert!((binomial_at_least(2, 0.9, 1) - 0.99).abs() < 1e-12);
        assert_eq!(binomial_at_least(4, 0.5, 0), 1.0);
        assert_eq!(binomial_at_least(4, 0.5, 5), 0.0);
        assert_eq!(binomial_at_least(0, 0.5, 0), 1.0);
    }

    #[test]
    fn the_most_rounds_that_are_read_still_have_chances() {
        let half = binomial_at_least(1_000, 0.5, 500);
        let middle_term = 0.025_225;
        assert!((half - (0.5 + middle_term / 2.0)).abs() < 1e-6, "{half}");
    }

    #[test]
    fn the_normal_distribution_is_that_of_the_tables() {
        for (value, chance) in [(0.0, 0.5), (1.959_963_985, 0.975), (-1.644_853_627, 0.05)] {
            assert!((normal_cdf(value) - chance).abs() < 1e-9, "{value}");
        }
    }
}
