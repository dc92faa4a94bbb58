//! The report as CSV (RFC 4180), for other programs: plain numbers, nothing rounded, an empty field where there is
//! nothing.

use super::analysis::{
    Analysis,
    comparison::Comparison,
    condition::{Condition, speed},
};
use crate::{
    observation::{Observation, Outcome, Role},
    statistics::{Bounds, median::MedianInterval},
};

/// Every row that was read.
pub(crate) fn observations(analysis: &Analysis<'_>) -> String {
    let columns = "run,condition,role,workload,layout,transport,controller,connections,profile,path,library,target,round,\
                   position,attempt,started,outcome,files,useful_bytes,ready_s,stopped_s,mb_per_s_low,mb_per_s_high,\
                   ideal_s,flags,reason";
    file(columns, analysis.rows.rows.iter().map(observation))
}

/// Every condition.
pub(crate) fn conditions(analysis: &Analysis<'_>) -> String {
    let columns = "condition,role,workload,rounds,complete,censored,aborted,failed,median_mb_per_s_low,\
                   median_mb_per_s_high,interval_low,interval_high,coverage,efficiency_low,efficiency_high";
    file(columns, analysis.conditions.iter().map(condition))
}

/// Every comparison; ratios are ratios here, not logarithms.
pub(crate) fn comparisons(analysis: &Analysis<'_>) -> String {
    let columns = "kind,name,of,against,margin_percent,rounds,rounds_without,median_low,median_high,interval_low,\
                   interval_high,coverage,geometric_mean,mean_low,mean_high,chance,corrected,equivalence,\
                   equivalence_corrected";
    let kinds = [
        ("contrast", &analysis.contrasts),
        ("control", &analysis.controls),
        ("fraction", &analysis.fractions),
        ("exploratory", &analysis.exploratory),
    ];
    let all = kinds.into_iter().flat_map(|(kind, list)| list.iter().map(move |one| comparison(kind, one)));
    file(columns, all)
}

/// Every ratio of every comparison.
pub(crate) fn ratios(analysis: &Analysis<'_>) -> String {
    let lists = [&analysis.contrasts, &analysis.controls, &analysis.fractions, &analysis.exploratory];
    let of_one = |comparison: &Comparison| {
        let row = |(round, ratio): (&u32, &Bounds)| {
            let mut row = vec![
                text(&comparison.question.name),
                text(&comparison.question.of),
                text(&comparison.question.against),
                round.to_string(),
            ];
            row.extend(ends(Some(ratio.map(f64::exp))));
            row
        };
        comparison.ratios.iter().map(row).collect::<Vec<_>>()
    };
    file("name,of,against,round,ratio_low,ratio_high", lists.into_iter().flatten().flat_map(of_one))
}

fn observation(row: &Observation) -> Vec<String> {
    let factors = &row.factors;
    let (outcome, ready_s, stopped_s, reason) = match &row.outcome {
        Outcome::Complete(times) => ("complete", Some(times.ready_s), None, ""),
        Outcome::Censored { limit_s, .. } => ("censored", None, Some(*limit_s), ""),
        Outcome::Aborted { after_s, reason, .. } => ("aborted", None, Some(*after_s), reason.as_str()),
        Outcome::Failed { reason } => ("failed", None, None, reason.as_str()),
    };
    let flags: Vec<&str> = row.flags.iter().map(|flag| flag.rule.as_str()).collect();
    let mut cells = vec![text(&row.run), text(&row.condition), role(row.role).into()];
    cells.extend(
        [&factors.workload, &factors.layout, &factors.transport, &factors.controller]
            .map(|level| text(level)),
    );
    cells.push(factors.connections.to_string());
    cells.extend(
        [&factors.profile, &factors.path, &factors.library, &factors.target].map(|level| text(level)),
    );
    cells.extend([row.round, row.position, row.attempt].map(|count| count.to_string()));
    cells.extend([text(&row.started), outcome.into(), row.files.to_string(), row.useful_bytes.to_string()]);
    cells.extend([number(ready_s), number(stopped_s)]);
    cells.extend(ends(speed(row)));
    cells.extend([number(row.ideal_s), text(&flags.join(" ")), text(reason)]);
    cells
}

fn condition(condition: &Condition<'_>) -> Vec<String> {
    let counts = condition.counts;
    let mut cells =
        vec![text(condition.name), role(condition.role).into(), text(&condition.factors.workload)];
    let numbers = [condition.cells.len(), counts.complete, counts.censored, counts.aborted, counts.failed];
    cells.extend(numbers.map(|count| count.to_string()));
    cells.extend(ends(condition.median));
    cells.extend(interval(condition.interval, |speed| speed));
    cells.extend(ends(condition.efficiency));
    cells
}

fn comparison(kind: &str, comparison: &Comparison) -> Vec<String> {
    let mut cells = vec![kind.to_owned()];
    cells.extend(
        [&comparison.question.name, &comparison.question.of, &comparison.question.against]
            .map(|name| text(name)),
    );
    cells.push(number(comparison.question.margin_percent));
    cells.extend([comparison.ratios.len(), comparison.rounds_without].map(|count| count.to_string()));
    cells.extend(ends(comparison.median.map(|median| median.map(f64::exp))));
    cells.extend(interval(comparison.interval, f64::exp));
    let mean = comparison.mean.map(|found| [found.mean, found.low, found.high].map(f64::exp));
    cells.extend((0..3).map(|index| number(mean.map(|mean| mean[index]))));
    cells.extend([Some(comparison.chance), Some(comparison.corrected)].map(number));
    cells.extend([comparison.equivalence, comparison.equivalence_corrected].map(number));
    cells
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Study => "study",
        Role::Control => "control",
        Role::Pilot => "pilot",
    }
}

/// Both ends, empty where they are open.
fn ends(bounds: Option<Bounds>) -> [String; 2] {
    [bounds.map(Bounds::low), bounds.map(Bounds::high)].map(number)
}

fn interval(interval: Option<MedianInterval>, map: impl Fn(f64) -> f64) -> [String; 3] {
    let [low, high] = ends(interval.map(|found| found.ends.map(map)));
    [low, high, number(interval.map(|found| found.coverage))]
}

/// To nine digits: the last bits of a logarithm differ between systems.
fn number(value: Option<f64>) -> String {
    let Some(value) = value.filter(|value| value.is_finite()) else { return String::new() };
    let digits = (8 - value.abs().max(1e-9).log10().floor() as i32).clamp(0, 12) as usize;
    let fixed = format!("{value:.digits$}");
    match fixed.contains('.') {
        true => fixed.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => fixed,
    }
}

/// A field of any text on one line.
fn text(text: &str) -> String {
    let line = text.replace(['\n', '\r'], " ");
    if line.contains([',', '"']) { format!("\"{}\"", line.replace('"', "\"\"")) } else { line }
}

fn file(columns: &str, rows: impl Iterator<Item = Vec<String>>) -> String {
    let mut text = format!("{columns}\n");
    for row in rows {
        text.push_str(&row.join(","));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{
        super::{analysis::analyse, rows::Rows},
        *,
    };
    use crate::observation::tests::observation;

    #[test]
    fn every_row_has_every_column() {
        let mut failed = observation("b", 1.0);
        failed.outcome = Outcome::Failed { reason: "it said: no".into() };
        failed.factors.layout = "files".into();
        let rows = Rows { rows: vec![observation("a", 1.0), failed], cut: false };
        let analysis = analyse(&rows, None);
        for text in
            [observations(&analysis), conditions(&analysis), comparisons(&analysis), ratios(&analysis)]
        {
            let columns: Vec<usize> = text.lines().map(|line| line.matches(',').count()).collect();
            assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{text}");
        }
    }

    #[test]
    fn fields_are_quoted_where_they_must_be() {
        assert_eq!(text("plain"), "plain");
        assert_eq!(text("it said \"no\", and\nno more"), "\"it said \"\"no\"\", and no more\"");
    }

    #[test]
    fn numbers_have_nine_digits_and_no_more_than_they_need() {
        let shown = [0.0625, 100.0, 1.0 / 3.0, 0.0, 123_456.789].map(|value| number(Some(value)));
        assert_eq!(shown, ["0.0625", "100", "0.333333333", "0", "123456.789"]);
        assert_eq!(number(Some(f64::INFINITY)) + &number(None), "");
    }
}
