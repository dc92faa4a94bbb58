//! An interval for the mean by the studentised bootstrap (Efron and Tibshirani, An Introduction to the Bootstrap,
//! 12.5): resampled means, each measured in its own standard error, tell how the real one scatters. It covers what it
//! says only from some number of values on, so it is not made below it.

/// Fewer values are not resampled: with five, such intervals miss more often than one in twenty times (a test here
/// shows it), with sixteen they do not.
pub(crate) const LEAST_ROUNDS: usize = 16;

/// Resamples: the ends of the interval are then the 50th from either side, and change little with the seed.
const RESAMPLES: usize = 1_999;

/// A mean and an interval for it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct MeanInterval {
    pub(crate) mean: f64,
    pub(crate) low: f64,
    pub(crate) high: f64,
}

/// The mean of `values` and an interval with `confidence`; `None` of fewer than [`LEAST_ROUNDS`]. The same seed gives
/// the same interval.
pub(crate) fn mean_interval(values: &[f64], confidence: f64, seed: u64) -> Option<MeanInterval> {
    (values.len() >= LEAST_ROUNDS).then(|| resampled(values, confidence, RESAMPLES, seed))
}

/// The mean of `values`.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// How far `values` scatter around their mean: the sample's standard deviation.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (values.len() as f64 - 1.0)).sqrt()
}

fn resampled(values: &[f64], confidence: f64, resamples: usize, seed: u64) -> MeanInterval {
    let mut random = fastrand::Rng::with_seed(seed);
    let (mean_of_all, deviation_of_all) = (mean(values), deviation(values));
    let mut resample = vec![0.0; values.len()];
    let mut pivots: Vec<f64> = (0..resamples)
        .map(|_| {
            resample.fill_with(|| values[random.usize(..values.len())]);
            pivot(mean(&resample) - mean_of_all, deviation(&resample))
        })
        .collect();
    pivots.sort_by(f64::total_cmp);
    let left_out = ((resamples + 1) as f64 * (1.0 - confidence) / 2.0) as usize;
    let (low, high) = (pivots[left_out - 1], pivots[resamples - left_out]);
    let end = |pivot: f64| mean_of_all - if deviation_of_all > 0.0 { pivot * deviation_of_all } else { 0.0 };
    MeanInterval { mean: mean_of_all, low: end(high), high: end(low) }
}

/// How far a resample's mean is off, in its own deviation; infinitely far where that is zero and the mean is off.
fn pivot(distance: f64, deviation: f64) -> f64 {
    if distance == 0.0 { 0.0 } else { distance / deviation }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{
        CONFIDENCE,
        simulation::{Noise, share_of_runs},
    };

    /// Fewer than real ones, so that many runs can be simulated.
    const SIMULATED_RESAMPLES: usize = 399;

    fn coverage(noise: Noise, rounds: usize) -> f64 {
        share_of_runs(2_000, |random| {
            let values = noise.values(random, rounds);
            let found = resampled(&values, CONFIDENCE, SIMULATED_RESAMPLES, random.u64(..));
            found.low <= noise.mean() && noise.mean() <= found.high
        })
    }

    #[test]
    fn from_sixteen_rounds_on_it_covers_95_percent_within_one_and_a_half() {
        for noise in [Noise::Normal, Noise::Exponential] {
            for rounds in [16, 24] {
                let share = coverage(noise, rounds);
                assert!((share - CONFIDENCE).abs() < 0.015, "{noise:?} {rounds}: {share}");
            }
        }
    }

    #[test]
    fn of_noise_without_tails_it_covers_more_than_it_says() {
        let share = coverage(Noise::Uniform, 16);
        assert!((CONFIDENCE..0.985).contains(&share), "{share}");
    }

    #[test]
    fn with_five_rounds_it_falls_short_which_is_why_it_is_not_made() {
        let share = coverage(Noise::Exponential, 5);
        assert!(share < CONFIDENCE - 0.01, "{share}");
        assert_eq!(mean_interval(&[1.0; LEAST_ROUNDS - 1], CONFIDENCE, 7), None);
    }

    #[test]
    fn the_seed_decides() {
        let values = Noise::Normal.values(&mut fastrand::Rng::with_seed(1), 20);
        let of = |seed| mean_interval(&values, CONFIDENCE, seed).unwrap();
        assert_eq!(of(7), of(7));
        assert_ne!(of(7), of(8));
        assert!((of(7).low - of(8).low).abs() < 0.1, "but little");
    }

    #[test]
    fn values_without_scatter_have_an_interval_of_no_width() {
        let found = mean_interval(&[2.0; LEAST_ROUNDS], CONFIDENCE, 7).unwrap();
        assert_eq!(found, MeanInterval { mean: 2.0, low: 2.0, high: 2.0 });
    }
}
