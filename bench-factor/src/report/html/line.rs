//! Lines through many points.

use super::lanes::at;

/// Points of one line: more are finer than what is drawn.
const MAX_POINTS: usize = 200;

/// Points as SVG has them.
pub(super) fn joined(points: impl Iterator<Item = (f64, f64)>) -> String {
    points.map(|(x, y)| format!("{},{}", at(x), at(y))).collect::<Vec<_>>().join(" ")
}

/// At most so many of `points` as can be drawn: of each stretch the one with the greatest value, so that no peak is lost.
pub(super) fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let stretch = points.len().div_ceil(MAX_POINTS).max(1);
    let greatest =
        |points: &[(f64, f64)]| points.iter().copied().max_by(|one, other| one.1.total_cmp(&other.1));
    points.chunks(stretch).filter_map(greatest).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_points_stay_and_of_many_the_peaks() {
        let few: Vec<(f64, f64)> = (0..MAX_POINTS).map(|index| (index as f64, 1.0)).collect();
        assert_eq!(thinned(&few), few);
        assert!(thinned(&[]).is_empty());
        let mut many: Vec<(f64, f64)> = (0..2_000).map(|index| (f64::from(index), 1.0)).collect();
        many[777].1 = 9.0;
        let thin = thinned(&many);
        assert!(thin.len() == MAX_POINTS && thin.contains(&(777.0, 9.0)));
    }

    #[test]
    fn points_are_written_to_two_digits() {
        assert_eq!(joined([(1.0, 2.5), (7.891, 0.0)].into_iter()), "1,2.5 7.89,0");
    }
}
