//! How much faster one condition is than another, by the ratios inside each round: what a round has in common, such as
//! the hour and the path, cancels.

use std::collections::BTreeMap;

use super::condition::{Condition, speed};
use crate::{
    report::plan::Question,
    statistics::{
        Bounds, CONFIDENCE, SIGNIFICANCE,
        bootstrap::{MeanInterval, deviation, mean_interval},
        family::holm,
        median::{MedianInterval, interval, median},
        sign,
    },
};

/// Fewer rounds do not tell how far they scatter.
const LEAST_SCATTERED: usize = 3;

/// A question and what the rounds answer. Ratios are natural logarithms.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Comparison {
    pub(crate) question: Question,
    /// By round. A round in which one of the two has no speed has none.
    pub(crate) ratios: BTreeMap<u32, Bounds>,
    /// Rounds of either that have none.
    pub(crate) rounds_without: usize,
    pub(crate) median: Option<Bounds>,
    pub(crate) interval: Option<MedianInterval>,
    /// Of the geometric mean, where there are enough rounds and none was stopped.
    pub(crate) mean: Option<MeanInterval>,
    /// How far the rounds scatter: the sample's standard deviation, where there are enough and none was stopped.
    pub(crate) deviation: Option<f64>,
    /// The chance of as lopsided rounds without any difference, and the same after correction.
    pub(crate) chance: f64,
    pub(crate) corrected: f64,
    /// The chance of rounds as close to each other with a difference of the margin, and the same after correction.
    pub(crate) equivalence: Option<f64>,
    pub(crate) equivalence_corrected: Option<f64>,
    pub(crate) verdict: Verdict,
}

/// What may be said.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The two differ.
    Differs {
        /// The first is the faster one.
        faster: bool,
        /// But by less than the margin.
        within_margin: bool,
    },
    /// They differ by less than the margin, if at all.
    Equivalent,
    /// Neither is shown.
    Open,
    /// However the rounds had come out, they were too few to show a difference.
    TooFewRounds,
}

impl Comparison {
    /// Answers `question` for itself alone.
    pub(super) fn new(question: &Question, conditions: &BTreeMap<&str, &Condition<'_>>, seed: u64) -> Self {
        let (of, against) = (conditions.get(question.of.as_str()), conditions.get(question.against.as_str()));
        let (ratios, rounds_without) = match (of, against) {
            (Some(of), Some(against)) => matched(of, against),
            (None, _) | (_, None) => (BTreeMap::new(), 0),
        };
        let values: Vec<Bounds> = ratios.values().copied().collect();
        let exact: Option<Vec<f64>> = values.iter().map(|value| value.exact()).collect();
        let chance = sign::difference(&values);
        let equivalence = question.margin().map(|margin| sign::equivalence(&values, margin));
        let mut comparison = Self {
            question: question.clone(),
            rounds_without,
            median: median(&values),
            interval: interval(&values, CONFIDENCE),
            mean: exact.as_ref().and_then(|values| mean_interval(values, CONFIDENCE, seed)),
            deviation: exact
                .filter(|values| values.len() >= LEAST_SCATTERED)
                .map(|values| deviation(&values)),
            chance,
            corrected: chance,
            equivalence,
            equivalence_corrected: equivalence,
            verdict: Verdict::Open,
            ratios,
        };
        comparison.verdict = comparison.verdict(1);
        comparison
    }

    /// How often a speed lower by `share` would have been found in as many rounds that scatter as these do, if a
    /// chance of `significance` were a finding; `None` where it is not known how they scatter.
    pub(crate) fn power(&self, share: f64, significance: f64) -> Option<f64> {
        let deviation = self.deviation?;
        Some(sign::power(self.ratios.len(), (1.0 - share).ln(), deviation, significance))
    }

    /// What may be said where `questions` were asked at once.
    fn verdict(&self, questions: usize) -> Verdict {
        let equivalent = self.equivalence_corrected.is_some_and(|chance| chance <= SIGNIFICANCE);
        if self.corrected <= SIGNIFICANCE {
            let values: Vec<Bounds> = self.ratios.values().copied().collect();
            let faster = sign::above(&values, 0.0) < sign::below(&values, 0.0);
            return Verdict::Differs { faster, within_margin: equivalent };
        }
        let least = sign::least_difference(self.ratios.len()) * questions as f64;
        match (equivalent, least > SIGNIFICANCE) {
            (true, _) => Verdict::Equivalent,
            (false, true) => Verdict::TooFewRounds,
            (false, false) => Verdict::Open,
        }
    }
}

/// Corrects the answers of `family` for how many were asked, the differences by themselves and the equivalences too.
pub(super) fn correct(family: &mut [Comparison]) {
    let chances: Vec<f64> = family.iter().map(|comparison| comparison.chance).collect();
    let equivalences: Vec<f64> = family.iter().filter_map(|comparison| comparison.equivalence).collect();
    let mut equivalences = holm(&equivalences).into_iter();
    let questions = family.len();
    for (comparison, corrected) in family.iter_mut().zip(holm(&chances)) {
        comparison.corrected = corrected;
        comparison.equivalence_corrected = comparison.equivalence.and_then(|_| equivalences.next());
        comparison.verdict = comparison.verdict(questions);
    }
}

/// The logarithms of the ratios of speeds, by round, and how many rounds of either have none.
fn matched(of: &Condition<'_>, against: &Condition<'_>) -> (BTreeMap<u32, Bounds>, usize) {
    let logarithm = |condition: &Condition<'_>, round: &u32| -> Option<Bounds> {
        Some(speed(condition.cells.get(round)?)?.map(f64::ln))
    };
    let mut rounds: Vec<u32> = of.cells.keys().chain(against.cells.keys()).copied().collect();
    rounds.sort_unstable();
    rounds.dedup();
    let ratio = |round: &u32| Some((*round, logarithm(of, round)?.minus(logarithm(against, round)?)));
    let ratios: BTreeMap<u32, Bounds> = rounds.iter().filter_map(ratio).collect();
    let without = rounds.len() - ratios.len();
    (ratios, without)
}

#[cfg(test)]
mod tests {
    use super::{super::tests::question, *};
    use crate::observation::{Observation, Outcome, tests::observation};

    /// The answer for two conditions with these times by round; nothing for a time is a cell that was stopped.
    fn compared(of: &[Option<f64>], against: &[Option<f64>], margin_percent: Option<f64>) -> Comparison {
        let rows = |name: &str, times: &[Option<f64>]| -> Vec<Observation> {
            let row = |(round, time): (u32, &Option<f64>)| {
                let mut row = Observation { round, ..observation(name, time.unwrap_or(1.0)) };
                if time.is_none() {
                    row.outcome = Outcome::Censored { limit_s: 900.0, progress: vec![] };
                }
                row
            };
            (1..).zip(times).map(row).collect()
        };
        let (of, against) = (rows("of", of), rows("against", against));
        let of = Condition::new(&of.iter().collect::<Vec<_>>());
        let against = Condition::new(&against.iter().collect::<Vec<_>>());
        let conditions = BTreeMap::from([("of", &of), ("against", &against)]);
        let question = Question { margin_percent, ..question("a question", "of", "against") };
        Comparison::new(&question, &conditions, 7)
    }

    #[test]
    fn ratios_are_made_inside_each_round() {
        // The path is slower by half in each further round; the ratio stays.
        let comparison =
            compared(&[Some(1.0), Some(2.0), Some(4.0)], &[Some(2.0), Some(4.0), Some(8.0)], None);
        let two = 2.0_f64.ln();
        assert!(comparison.ratios.values().all(|ratio| (ratio.exact().unwrap() - two).abs() < 1e-12));
        assert!(comparison.deviation.unwrap() < 1e-12);
        assert_eq!((comparison.chance, comparison.verdict), (0.25, Verdict::TooFewRounds));
    }

    #[test]
    fn a_stopped_cell_bounds_its_ratio_and_a_missing_one_has_none() {
        let comparison = compared(&[Some(10.0), None, None], &[None, Some(10.0)], None);
        let bound = (10.0_f64 / 0.112).ln();
        let ratios: Vec<Bounds> = comparison.ratios.values().copied().collect();
        assert!((ratios[0].low() - bound).abs() < 1e-9 && ratios[0].high().is_infinite(), "{ratios:?}");
        assert!((ratios[1].high() + bound).abs() < 1e-9 && ratios[1].low().is_infinite(), "{ratios:?}");
        assert_eq!((ratios.len(), comparison.rounds_without), (2, 1));
    }

    #[test]
    fn a_difference_is_found_although_the_slower_side_never_finished() {
        let comparison = compared(&[None; 6], &[Some(10.0); 6], None);
        assert_eq!(comparison.verdict, Verdict::Differs { faster: false, within_margin: false });
        assert_eq!(comparison.mean, None, "what was stopped is not averaged");
    }

    #[test]
    fn the_same_within_a_margin_is_said_to_be() {
        let times = |factor: f64| {
            (0..16).map(|round| Some(10.0 * factor.powi(1 - 2 * (round % 2)))).collect::<Vec<_>>()
        };
        let comparison = compared(&times(1.01), &[Some(10.0); 16], Some(5.0));
        assert_eq!(comparison.verdict, Verdict::Equivalent);
        assert!(comparison.mean.is_some());
        let power = comparison.power(0.1, SIGNIFICANCE).unwrap();
        assert!(power > 0.99, "{power}");
    }

    #[test]
    fn a_small_difference_can_be_one_and_within_the_margin() {
        let comparison = compared(&[Some(9.8); 16], &[Some(10.0); 16], Some(5.0));
        assert_eq!(comparison.verdict, Verdict::Differs { faster: true, within_margin: true });
    }

    #[test]
    fn many_questions_ask_for_more_rounds() {
        let six = compared(&[Some(1.0); 6], &[Some(2.0); 6], None);
        assert_eq!(six.verdict, Verdict::Differs { faster: true, within_margin: false });
        let mut family = vec![six; 12];
        correct(&mut family);
        assert_eq!(family[0].corrected, 12.0 * 2.0 / 64.0);
        assert!(family.iter().all(|comparison| comparison.verdict == Verdict::TooFewRounds));
    }

    #[test]
    fn rounds_that_disagree_leave_the_question_open() {
        let mixed = [1.0, 1.0, 1.0, 3.0, 3.0, 3.0, 1.0].map(Some);
        assert_eq!(compared(&mixed, &[Some(2.0); 7], None).verdict, Verdict::Open);
    }
}
