//! Questions that nobody declared but everybody asks: all pairs of conditions that differ in one factor.

use std::collections::BTreeSet;

use super::condition::Condition;
use crate::{observation::Role, report::plan::Question};

/// All such pairs of the study's conditions that are not in `asked`. Workloads are not compared with each other.
pub(super) fn questions(conditions: &[Condition<'_>], asked: &BTreeSet<(&str, &str)>) -> Vec<Question> {
    let mut questions = Vec::new();
    for (index, one) in conditions.iter().enumerate() {
        for other in &conditions[index + 1..] {
            let is_asked = asked.contains(&(one.name, other.name));
            let is_study = one.role == Role::Study && other.role == Role::Study;
            questions.extend(question(one, other).filter(|_| is_study && !is_asked));
        }
    }
    questions.sort_by(|one, other| (&one.name, &one.of).cmp(&(&other.name, &other.of)));
    questions
}

/// The question of a pair that differs in one factor alone.
fn question(one: &Condition<'_>, other: &Condition<'_>) -> Option<Question> {
    let (levels, other_levels) = (one.factors.levels(), other.factors.levels());
    let mut differing = levels.iter().zip(&other_levels).filter(|(level, other)| level != other);
    let ((factor, level), (other_factor, other_level)) = differing.next()?;
    let is_only = differing.next().is_none() && levels.len() == other_levels.len() && factor == other_factor;
    if !is_only || *factor == "workload" {
        return None;
    }
    let is_in_order = in_order(level, other_level);
    let (of, against) = if is_in_order { (one, other) } else { (other, one) };
    let (first, second) = if is_in_order { (level, other_level) } else { (other_level, level) };
    let name = format!("{factor}: {first} against {second}");
    Some(Question { name, of: of.name.into(), against: against.name.into(), margin_percent: None })
}

/// Whether `level` is divided by `other`: of numbers the larger by the smaller, of words the first by the last, so
/// bundle by files, bbr by cubic, quic by tcp.
fn in_order(level: &str, other: &str) -> bool {
    match (level.parse::<u64>(), other.parse::<u64>()) {
        (Ok(number), Ok(other)) => number > other,
        (Err(_), _) | (_, Err(_)) => level < other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Observation, tests::observation};

    fn named(change: impl Fn(&mut Observation)) -> Vec<String> {
        let one = observation("one", 1.0);
        let mut two = observation("two", 1.0);
        change(&mut two);
        let conditions = [Condition::new(&[&one]), Condition::new(&[&two])];
        questions(&conditions, &BTreeSet::new()).into_iter().map(|question| question.name).collect()
    }

    #[test]
    fn a_pair_that_differs_in_one_factor_is_a_question() {
        let more = named(|row| row.factors.connections = 8);
        assert_eq!(more, ["connections: 8 against 1"]);
        let quic = named(|row| row.factors.transport = "quic".into());
        assert_eq!(quic, ["transport: quic against tcp"]);
    }

    #[test]
    fn pairs_that_differ_in_nothing_or_more_are_none() {
        assert!(named(|_| ()).is_empty());
        let two_factors = named(|row| {
            row.factors.connections = 8;
            row.factors.layout = "files".into();
        });
        assert!(two_factors.is_empty());
        assert!(named(|row| row.factors.workload = "large".into()).is_empty());
        assert!(named(|row| row.role = Role::Control).is_empty());
    }

    #[test]
    fn a_factor_that_only_one_of_them_has_makes_no_pair() {
        let extra = |row: &mut Observation| {
            row.factors.others.insert("buffers".into(), "4M".into());
        };
        assert!(named(extra).is_empty());
    }
}
