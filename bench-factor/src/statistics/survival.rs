//! Which share was not yet finished by when, where some were stopped before they were: the product-limit estimator
//! (Kaplan and Meier 1958) with Greenwood's variance on the scale of log(-log), whose limits stay between 0 and 1.

/// The standard normal quantile of 0.975.
const NORMAL_QUANTILE: f64 = 1.959_964;

/// One cell, as far as it was watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Watched {
    /// It finished after this many seconds.
    Finished(f64),
    /// It had not when it was stopped after this many.
    Stopped(f64),
}

/// The curve from one moment on at which some finished.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Step {
    pub(crate) at_s: f64,
    /// The share that takes longer than this.
    pub(crate) unfinished: f64,
    /// Limits of it, each by itself, for 95 %; 0 and 1 where Greenwood's variance says nothing.
    pub(crate) low: f64,
    pub(crate) high: f64,
}

impl Watched {
    fn seconds(self) -> f64 {
        match self {
            Self::Finished(seconds) | Self::Stopped(seconds) => seconds,
        }
    }

    fn has_finished(self) -> bool {
        match self {
            Self::Finished(_) => true,
            Self::Stopped(_) => false,
        }
    }
}

/// The curve's steps in order of time. Who was stopped at the very moment at which another finished was still watched.
pub(crate) fn curve(cells: &[Watched]) -> Vec<Step> {
    let mut sorted = cells.to_vec();
    sorted.sort_by(|one, other| one.seconds().total_cmp(&other.seconds()));
    let (mut unfinished, mut variance) = (1.0, 0.0);
    let mut steps = Vec::new();
    let mut index = 0;
    while let Some(cell) = sorted.get(index) {
        let at_s = cell.seconds();
        let same = sorted[index..].iter().take_while(|other| other.seconds() == at_s);
        let (count, finished) = same.fold((0, 0), |(count, finished), other| {
            (count + 1, finished + usize::from(other.has_finished()))
        });
        let watched = (sorted.len() - index) as f64;
        if finished > 0 {
            unfinished *= 1.0 - finished as f64 / watched;
            variance += finished as f64 / (watched * (watched - finished as f64));
            let (low, high) = limits(unfinished, variance);
            steps.push(Step { at_s, unfinished, low, high });
        }
        index += count;
    }
    steps
}

/// When half had finished; `None` where fewer than half did while they were watched.
pub(crate) fn median_s(steps: &[Step]) -> Option<f64> {
    steps.iter().find(|step| step.unfinished <= 0.5).map(|step| step.at_s)
}

fn limits(unfinished: f64, variance: f64) -> (f64, f64) {
    if unfinished <= 0.0 || !variance.is_finite() {
        return (0.0, 1.0);
    }
    let half_width = NORMAL_QUANTILE * variance.sqrt() / unfinished.ln().abs();
    (unfinished.powf(half_width.exp()), unfinished.powf((-half_width).exp()))
}

#[cfg(test)]
mod tests {
    use super::{
        Watched::{Finished, Stopped},
        *,
    };
    use crate::statistics::simulation::{Noise, share_of_runs};

    fn unfinished_at(steps: &[Step], at_s: f64) -> Step {
        let whole = Step { at_s: 0.0, unfinished: 1.0, low: 0.0, high: 1.0 };
        steps.iter().take_while(|step| step.at_s <= at_s).last().copied().unwrap_or(whole)
    }

    #[test]
    fn who_was_stopped_counts_until_then_and_no_longer() {
        let cells = [Stopped(3.0), Finished(1.0), Finished(4.0), Finished(2.0), Stopped(900.0)];
        let shares: Vec<(f64, f64)> =
            curve(&cells).iter().map(|step| (step.at_s, (step.unfinished * 1e6).round() / 1e6)).collect();
        assert_eq!(shares, [(1.0, 0.8), (2.0, 0.6), (4.0, 0.3)]);
    }

    #[test]
    fn a_median_is_known_only_when_half_have_finished() {
        let median = |cells: &[Watched]| median_s(&curve(cells));
        assert_eq!(median(&[Finished(1.0), Stopped(900.0), Finished(7.0)]), Some(7.0));
        assert_eq!(median(&[Finished(1.0), Stopped(900.0), Stopped(900.0)]), None);
        assert_eq!(median(&[]), None);
    }

    #[test]
    fn cells_that_finish_at_once_make_one_step() {
        let steps = curve(&[Finished(2.0), Finished(2.0), Stopped(2.0), Finished(5.0)]);
        assert_eq!(steps.iter().map(|step| step.unfinished).collect::<Vec<_>>(), [0.5, 0.0]);
        assert_eq!((steps[1].low, steps[1].high), (0.0, 1.0));
    }

    #[test]
    fn limits_hold_the_true_share_about_as_often_as_they_say() {
        // Exponential times of mean one, stopped at times that differ: the share unfinished after 0.7 is exp(-0.7).
        let truth = (-0.7_f64).exp();
        let share = share_of_runs(2_000, |random| {
            let times = Noise::Exponential.values(random, 40);
            let watch = |time: f64| {
                let stop = 0.5 + random.f64();
                if time <= stop { Finished(time) } else { Stopped(stop) }
            };
            let cells: Vec<Watched> = times.into_iter().map(watch).collect();
            let step = unfinished_at(&curve(&cells), 0.7);
            step.low <= truth && truth <= step.high
        });
        assert!((share - 0.95).abs() < 0.02, "{share}");
    }

    #[test]
    fn the_estimate_does_not_lean_where_cells_are_stopped() {
        let mut random = fastrand::Rng::with_seed(42);
        let mut sum = 0.0;
        for _ in 0..2_000 {
            let times = Noise::Exponential.values(&mut random, 16);
            let watch = |time: f64| if time <= 1.0 { Finished(time) } else { Stopped(1.0) };
            let cells: Vec<Watched> = times.into_iter().map(watch).collect();
            sum += unfinished_at(&curve(&cells), 0.7).unfinished;
        }
        assert!((sum / 2_000.0 - (-0.7_f64).exp()).abs() < 0.01, "{}", sum / 2_000.0);
    }
}
