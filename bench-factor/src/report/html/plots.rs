//! What is drawn in lanes: speeds, ratios, shares.

use std::collections::BTreeMap;

use maud::{Markup, html};

use super::{
    colours::{Colour, Colours, legend_of_findings},
    lanes::{Group, Lane, Lanes, Mark, PLOT_FROM, PLOT_TO},
    scale::Scale,
};
use crate::{
    observation::{Observation, Outcome},
    report::{
        analysis::{
            Analysis,
            comparison::Comparison,
            condition::{Condition, efficiency as efficiency_of, speed},
        },
        wording,
    },
    statistics::Bounds,
};

/// From this ratio of the greatest to the least speed on, slow ones could not be told apart on an even axis.
const MAX_EVEN_RATIO: f64 = 25.0;

/// Room beside the outermost marks, as a share of the axis.
const MARGIN: f64 = 0.05;

/// Every observation of every condition.
pub(super) fn speeds(analysis: &Analysis<'_>) -> Markup {
    let colours = Colours::of(analysis);
    let lane = |condition: &Condition<'_>| Lane {
        name: condition.name.to_owned(),
        below_name: levels(condition),
        colour: colours.colour(condition),
        marks: condition.cells.values().filter_map(|row| mark(row, speed(row)?)).collect(),
        median: condition.median,
        interval: condition.interval.map(|found| found.ends),
        band: None,
        numbers: speed_and_missing(condition),
        below_numbers: condition
            .interval
            .map(|found| wording::interval(found, |speed| speed))
            .unwrap_or_default(),
    };
    let groups = by_workload(analysis, lane);
    let description = "One lane for each condition, fastest median first within a workload. Marks are single observations, \
                       triangles upper bounds of cells that were stopped; bars are exact intervals of the median.";
    let plot = Lanes {
        id: "speeds",
        title: "Speed of every observation".into(),
        description: description.into(),
        axis: "useful MB/s",
        scale: speed_scale(&groups),
        reference: None,
        groups,
    };
    html! { (colours.legend()) (plot.draw()) }
}

/// Comparisons of which findings are made, coloured by them.
pub(super) fn findings(id: &'static str, title: &str, comparisons: &[Comparison]) -> Markup {
    html! { (legend_of_findings()) (ratios(id, title, comparisons, |comparison| Colour::of(comparison.verdict))) }
}

/// Comparisons of which no findings are made.
pub(super) fn exploratory(analysis: &Analysis<'_>) -> Markup {
    ratios("exploratory-plot", "Exploratory ratios", &analysis.exploratory, |_| Colour::NO_FINDING)
}

fn ratios(
    id: &'static str,
    title: &str,
    comparisons: &[Comparison],
    colour: impl Fn(&Comparison) -> Colour,
) -> Markup {
    let lane = |comparison: &Comparison| ratio_lane(comparison, colour(comparison), wording::ratio);
    let groups = vec![Group { heading: None, lanes: comparisons.iter().map(lane).collect() }];
    let description = "One lane for each comparison: the ratio inside each round as marks, triangles where one side was \
                       stopped at its limit, their median as a line and its exact interval as a bar. Right of 1 the first \
                       condition is the faster one.";
    Lanes {
        id,
        title: title.into(),
        description: description.into(),
        axis: "ratio of speeds inside a round (the same distance for the same ratio)",
        scale: ratio_scale(&groups),
        reference: Some(1.0),
        groups,
    }
    .draw()
}

/// Small files as a share of large ones.
pub(super) fn fractions(analysis: &Analysis<'_>) -> Markup {
    let lanes: Vec<Lane> = analysis
        .fractions
        .iter()
        .map(|comparison| percent(ratio_lane(comparison, Colour::EQUIVALENT, wording::fraction)))
        .collect();
    share_plot(
        "fractions",
        "Packed small files as a share of large files",
        "% of the large-file speed in the same round",
        vec![Group { heading: None, lanes }],
    )
}

/// Every observation beside the cold ideal.
pub(super) fn efficiency(analysis: &Analysis<'_>) -> Markup {
    let colours = Colours::of(analysis);
    let lane = |condition: &Condition<'_>| {
        percent(Lane {
            name: condition.name.to_owned(),
            below_name: levels(condition),
            colour: colours.colour(condition),
            marks: condition.cells.values().filter_map(|row| mark(row, efficiency_of(row)?)).collect(),
            median: condition.efficiency,
            interval: None,
            band: None,
            numbers: condition.efficiency.map(wording::share).unwrap_or_default(),
            below_numbers: String::new(),
        })
    };
    let groups = by_workload(analysis, lane);
    share_plot(
        "efficiency",
        "Time of a perfect program as a share of the measured time",
        "% of what the cold path allows",
        groups,
    )
}

fn share_plot(id: &'static str, title: &str, axis: &'static str, groups: Vec<Group>) -> Markup {
    let most = ends(&groups).fold(100.0, f64::max);
    Lanes {
        id,
        title: title.into(),
        description: "One lane for each line of the table: every observation as a mark, their median as a line.".into(),
        axis,
        scale: Scale::linear(0.0, most * (1.0 + MARGIN), PLOT_FROM, PLOT_TO),
        reference: Some(100.0),
        groups,
    }
    .draw()
}

/// The lane of a comparison, with ratios instead of their logarithms.
fn ratio_lane(comparison: &Comparison, colour: Colour, shown: fn(Bounds) -> String) -> Lane {
    let mark = |(round, ratio): (&u32, &Bounds)| Mark {
        value: ratio.map(f64::exp),
        says: format!("round {round}: {}", shown(*ratio)),
    };
    // A round that says nothing at all, both sides stopped, has no place.
    let known =
        comparison.ratios.iter().filter(|(_, ratio)| ratio.low().is_finite() || ratio.high().is_finite());
    let coverage = comparison.interval.map(|found| wording::covered(found.coverage));
    Lane {
        name: comparison.question.name.clone(),
        below_name: format!("{} ÷ {}", comparison.question.of, comparison.question.against),
        colour,
        marks: known.map(mark).collect(),
        median: comparison.median.map(|median| median.map(f64::exp)),
        interval: comparison.interval.map(|found| found.ends.map(f64::exp)),
        band: comparison.question.margin().map(|margin| Bounds::between(-margin, margin).map(f64::exp)),
        numbers: comparison.median.map_or("no rounds".into(), shown),
        below_numbers: coverage.map_or(String::new(), |coverage| {
            format!("{} rounds, bar covers {coverage}", comparison.ratios.len())
        }),
    }
}

/// The lane in percent.
fn percent(lane: Lane) -> Lane {
    let hundredfold = |value: Bounds| value.map(|share| 100.0 * share);
    let marks = lane.marks.into_iter().map(|mark| Mark { value: hundredfold(mark.value), ..mark }).collect();
    Lane { marks, median: lane.median.map(hundredfold), interval: lane.interval.map(hundredfold), ..lane }
}

fn mark(row: &Observation, value: Bounds) -> Option<Mark> {
    let took = match &row.outcome {
        Outcome::Complete(times) => format!("ready after {} s", wording::seconds(times.ready_s)),
        Outcome::Censored { limit_s, .. } => format!("stopped after {limit_s} s"),
        Outcome::Aborted { .. } | Outcome::Failed { .. } => return None,
    };
    let Observation { condition, round, position, flags, .. } = row;
    let flags: String = flags.iter().map(|flag| format!("; flagged: {}, {}", flag.rule, flag.seen)).collect();
    let speed = speed(row).map(wording::speed).unwrap_or_default();
    Some(Mark {
        value,
        says: format!("{condition}, round {round}, position {position}: {speed} MB/s, {took}{flags}"),
    })
}

fn levels(condition: &Condition<'_>) -> String {
    let factors = condition.factors;
    let connections =
        if factors.connections == 1 { String::new() } else { format!(" × {}", factors.connections) };
    format!("{}, {}, {}{connections}", factors.layout, factors.transport, factors.controller)
}

/// The median, and how many have no mark in the lane.
fn speed_and_missing(condition: &Condition<'_>) -> String {
    let median =
        condition.median.map_or("no speed".into(), |median| format!("{} MB/s", wording::speed(median)));
    let without = [(condition.counts.aborted, "aborted"), (condition.counts.failed, "failed")];
    let without =
        without.iter().filter(|(count, _)| *count > 0).map(|(count, kind)| format!("{count} {kind}"));
    [median].into_iter().chain(without).collect::<Vec<_>>().join(", ")
}

/// A group for each workload, the highest median first.
fn by_workload(analysis: &Analysis<'_>, lane: impl Fn(&Condition<'_>) -> Lane) -> Vec<Group> {
    let mut workloads: BTreeMap<&str, Vec<Lane>> = BTreeMap::new();
    for condition in &analysis.conditions {
        workloads.entry(&condition.factors.workload).or_default().push(lane(condition));
    }
    let height = |lane: &Lane| lane.median.map_or(f64::NEG_INFINITY, Bounds::high);
    let group = |(workload, mut lanes): (&str, Vec<Lane>)| {
        lanes.sort_by(|one, other| height(other).total_cmp(&height(one)));
        Group { heading: Some(workload.to_owned()), lanes }
    };
    workloads.into_iter().map(group).collect()
}

/// Every end in the plot that has a place.
fn ends(groups: &[Group]) -> impl Iterator<Item = f64> {
    let of_lane = |lane: &Lane| {
        let marks = lane.marks.iter().map(|mark| mark.value);
        marks.chain(lane.median).chain(lane.interval).collect::<Vec<Bounds>>()
    };
    let all = groups.iter().flat_map(|group| &group.lanes).flat_map(of_lane);
    all.flat_map(|bounds| [bounds.low(), bounds.high()]).filter(|end| end.is_finite() && *end > 0.0)
}

fn speed_scale(groups: &[Group]) -> Scale {
    let least = ends(groups).fold(f64::INFINITY, f64::min);
    let most = ends(groups).fold(0.0, f64::max);
    if most / least > MAX_EVEN_RATIO {
        return Scale::logarithmic(least / 1.5, most * 1.2, PLOT_FROM, PLOT_TO);
    }
    Scale::linear(0.0, most * (1.0 + MARGIN), PLOT_FROM, PLOT_TO)
}

fn ratio_scale(groups: &[Group]) -> Scale {
    let bands = groups.iter().flat_map(|group| &group.lanes).filter_map(|lane| lane.band);
    let bands: Vec<f64> = bands.flat_map(|band| [band.low(), band.high()]).collect();
    let all = || ends(groups).chain(bands.iter().copied());
    let (least, most) = (all().fold(0.95, f64::min), all().fold(1.05, f64::max));
    let room = (most / least).powf(2.0 * MARGIN);
    Scale::logarithmic(least / room, most * room, PLOT_FROM, PLOT_TO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::tests::observation;
    use crate::report::{analysis::analyse, rows::Rows};

    fn rows() -> Rows {
        let mut lost = observation("lost", 1.0);
        lost.outcome = Outcome::Aborted { after_s: 2.0, reason: "reset".into(), progress: vec![] };
        Rows { rows: vec![observation("slow", 50.0), lost, observation("fast", 1.0)], cut: false }
    }

    #[test]
    fn the_fastest_stands_first_and_who_has_no_speed_stands_last() {
        let rows = rows();
        let drawn = speeds(&analyse(&rows, None)).into_string();
        let place = |name: &str| drawn.find(&format!("<title>{name}</title>")).unwrap();
        assert!(place("fast") < place("slow") && place("slow") < place("lost"));
        assert!(drawn.contains("no speed, 1 aborted"), "{drawn}");
    }

    #[test]
    fn speeds_far_apart_are_drawn_by_their_logarithms() {
        let group = |speeds: [f64; 2]| {
            let mark = |speed| Mark { value: Bounds::exactly(speed), says: String::new() };
            let lane = Lane {
                name: String::new(),
                below_name: String::new(),
                colour: Colour::NO_FINDING,
                marks: speeds.map(mark).into(),
                median: None,
                interval: None,
                band: None,
                numbers: String::new(),
                below_numbers: String::new(),
            };
            vec![Group { heading: None, lanes: vec![lane] }]
        };
        let middle = (PLOT_FROM + PLOT_TO) / 2.0;
        assert!(speed_scale(&group([1.0, 100.0])).place(10.0) > middle);
        assert!(speed_scale(&group([10.0, 100.0])).place(10.0) < middle);
    }
}
