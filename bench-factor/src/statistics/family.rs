//! Several questions at once: with each more, a chance finding among them becomes likelier, and Holm's correction
//! keeps the chance of any at what one test may take (Holm 1979). It holds however the tests depend on each other.

/// Questions that a plan may declare. Every further one makes a finding harder for all.
pub(crate) const MAX_QUESTIONS: usize = 12;

/// The chances of one family after Holm's correction, in the order given: what is at most the significance level is a
/// finding.
pub(crate) fn holm(chances: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..chances.len()).collect();
    order.sort_by(|&one, &other| chances[one].total_cmp(&chances[other]));
    let mut adjusted = vec![1.0; chances.len()];
    let mut least: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        let questions_left = (chances.len() - rank) as f64;
        least = least.max((chances[index] * questions_left).min(1.0));
        adjusted[index] = least;
    }
    adjusted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::{
        SIGNIFICANCE, sign,
        simulation::{Noise, exactly, share_of_runs},
    };

    #[test]
    fn the_smallest_chance_pays_for_all_and_none_overtakes_it() {
        let adjusted = holm(&[0.04, 0.01, 0.03]);
        let expected = [0.06, 0.03, 0.06];
        let close = adjusted.iter().zip(expected).all(|(one, other)| (one - other).abs() < 1e-12);
        assert!(close, "{adjusted:?}");
    }

    #[test]
    fn one_question_pays_nothing_and_none_is_no_family() {
        assert_eq!(holm(&[0.04]), [0.04]);
        assert!(holm(&[]).is_empty());
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    }

    #[test]
    fn a_family_without_any_difference_has_a_finding_no_more_often_than_one_test() {
        let share = share_of_runs(2_000, |random| {
            let chance = |_| sign::difference(&exactly(&Noise::Normal.values(random, 16)));
            let chances: Vec<f64> = (0..MAX_QUESTIONS).map(chance).collect();
            holm(&chances).iter().any(|&chance| chance <= SIGNIFICANCE)
        });
        assert!(share <= SIGNIFICANCE + 0.015, "{share}");
    }
}
