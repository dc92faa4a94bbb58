//! What the rows of a run say, as values: nothing here is rounded, worded or drawn.
//!
//! Of a cell's attempts the first that did not fail counts: one that failed says nothing of its condition, and one that
//! was repeated although it had ended may not be replaced. Cells that were stopped at their limit are bounds. A cell
//! whose connection was aborted has no speed; its round is left out of ratios, and the number of rounds says so.

pub(crate) mod comparison;
pub(crate) mod condition;
mod exploratory;
pub(crate) mod noise;

use std::collections::{BTreeMap, BTreeSet};

use self::{
    comparison::{Comparison, correct},
    condition::Condition,
};
use super::{plan::Plan, rows::Rows};
use crate::observation::{Observation, Role};

/// A run, looked at from all sides.
#[derive(Debug)]
pub(crate) struct Analysis<'a> {
    /// The plan; `None` where nothing was declared.
    pub(crate) plan: Option<&'a Plan>,
    /// Every row, those that count in no figure too.
    pub(crate) rows: &'a Rows,
    /// Rounds that have a row which counts.
    pub(crate) rounds: u32,
    /// By workload, then by name. Pilots are none.
    pub(crate) conditions: Vec<Condition<'a>>,
    /// The declared contrasts, corrected for their number.
    pub(crate) contrasts: Vec<Comparison>,
    pub(crate) controls: Vec<Comparison>,
    pub(crate) fractions: Vec<Comparison>,
    /// Every pair of conditions that differs in one factor and was not declared.
    pub(crate) exploratory: Vec<Comparison>,
}

/// Looks at `rows` with the questions of `plan`.
pub(crate) fn analyse<'a>(rows: &'a Rows, plan: Option<&'a Plan>) -> Analysis<'a> {
    let conditions = conditions(&rows.rows);
    let by_name: BTreeMap<&str, &Condition<'_>> =
        conditions.iter().map(|condition| (condition.name, condition)).collect();
    let declared = plan.cloned().unwrap_or_default();
    let seed = declared.seed;
    let compared = |questions: &[_]| -> Vec<Comparison> {
        questions.iter().map(|question| Comparison::new(question, &by_name, seed)).collect()
    };
    let mut contrasts = compared(&declared.contrasts);
    correct(&mut contrasts);
    let (controls, fractions) = (compared(&declared.controls), compared(&declared.fractions));
    let asked: BTreeSet<(&str, &str)> = [&declared.contrasts, &declared.controls, &declared.fractions]
        .into_iter()
        .flatten()
        .flat_map(|question| {
            let (of, against) = (question.of.as_str(), question.against.as_str());
            [(of, against), (against, of)]
        })
        .collect();
    let exploratory = compared(&exploratory::questions(&conditions, &asked));
    let rounds = conditions.iter().flat_map(|condition| condition.cells.keys().copied()).max().unwrap_or(0);
    Analysis { plan, rows, rounds, conditions, contrasts, controls, fractions, exploratory }
}

/// What counts of the rows, by condition.
fn conditions(rows: &[Observation]) -> Vec<Condition<'_>> {
    let mut by_name: BTreeMap<(&str, &str), Vec<&Observation>> = BTreeMap::new();
    for row in rows.iter().filter(|row| row.role != Role::Pilot) {
        by_name.entry((&row.factors.workload, &row.condition)).or_default().push(row);
    }
    by_name.into_values().map(|rows| Condition::new(&rows)).collect()
}

#[cfg(test)]
mod tests {
    use super::{super::plan::Question, comparison::Verdict, *};
    use crate::observation::{Outcome, tests::observation};

    pub(super) fn question(name: &str, of: &str, against: &str) -> Question {
        Question { name: name.into(), of: of.into(), against: against.into(), margin_percent: None }
    }

    /// Two conditions of which `fast` takes half as long, in so many rounds.
    fn rows(rounds: u32) -> Rows {
        let row = |condition: &str, round: u32, ready_s: f64| {
            let position = if condition == "fast" { 1 } else { 2 };
            let mut row = Observation { round, position, ..observation(condition, ready_s) };
            row.factors.layout = if condition == "fast" { "bundle".into() } else { "files".into() };
            row
        };
        let pair = |round| [row("fast", round, f64::from(round)), row("slow", round, 2.0 * f64::from(round))];
        Rows { rows: (1..=rounds).flat_map(pair).collect(), cut: false }
    }

    #[test]
    fn a_declared_contrast_is_not_exploratory_too() {
        let (rows, asked) = (rows(6), question("packing", "slow", "fast"));
        let plan = Plan { contrasts: vec![asked], ..Plan::default() };
        let analysis = analyse(&rows, Some(&plan));
        assert_eq!(analysis.rounds, 6);
        assert!(analysis.exploratory.is_empty());
        assert_eq!(analysis.contrasts[0].verdict, Verdict::Differs { faster: false, within_margin: false });
        let analysis = analyse(&rows, None);
        assert_eq!(analysis.exploratory[0].question.name, "layout: bundle against files");
    }

    #[test]
    fn a_pilot_counts_in_no_figure() {
        let mut rows = rows(1);
        rows.rows.push(Observation { role: Role::Pilot, ..observation("pilot", 1.0) });
        let analysis = analyse(&rows, None);
        assert_eq!(analysis.conditions.iter().map(|one| one.name).collect::<Vec<_>>(), ["fast", "slow"]);
    }

    #[test]
    fn what_has_no_row_yet_has_no_rounds() {
        let rows = rows(2);
        let plan = Plan { contrasts: vec![question("later", "fast", "missing")], ..Plan::default() };
        let analysis = analyse(&rows, Some(&plan));
        assert!(analysis.contrasts[0].ratios.is_empty());
        assert_eq!(analysis.contrasts[0].verdict, Verdict::TooFewRounds);
    }

    #[test]
    fn a_run_of_failures_alone_has_conditions_without_figures() {
        let failed = Outcome::Failed { reason: "no route".into() };
        let rows = Rows { rows: vec![Observation { outcome: failed, ..observation("a", 1.0) }], cut: false };
        let analysis = analyse(&rows, None);
        assert_eq!((analysis.rounds, analysis.conditions[0].median), (1, None));
    }
}
