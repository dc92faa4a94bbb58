//! Small plots over time, one for each condition in which cells were stopped.

use maud::{Markup, html};

use super::{
    lanes::at,
    line::{joined, thinned},
    scale::Scale,
};
use crate::{
    observation::{Observation, Outcome},
    report::{
        analysis::{Analysis, condition::Condition},
        rows::progress as progress_of,
    },
    statistics::survival::{Step, median_s},
};

/// A panel's size and where its axes are, in units of SVG.
const WIDTH: f64 = 320.0;
const HEIGHT: f64 = 190.0;
const LEFT: f64 = 38.0;
const RIGHT: f64 = 308.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 150.0;

/// What of the bytes was there by when, in cells that did not finish.
pub(super) fn progress(analysis: &Analysis<'_>) -> Markup {
    let panels = analysis.conditions.iter().filter_map(progress_of_condition);
    html! {
        h3 { "Progress until they ended" }
        div.panels { @for panel in panels { (panel.draw()) } }
    }
}

/// A line for each cell that has progress; `None` where none has.
fn progress_of_condition<'a>(condition: &'a Condition<'a>) -> Option<Panel<'a>> {
    let rows: Vec<&Observation> =
        condition.cells.values().copied().filter(|row| !progress_of(&row.outcome).is_empty()).collect();
    let points = || rows.iter().flat_map(|row| progress_of(&row.outcome));
    let last_s = points().map(|point| point.at_s).reduce(f64::max)?;
    let (x, y) = scales(last_s);
    Some(Panel {
        id: format!("progress-{}", condition.name),
        name: condition.name,
        description: format!(
            "Share of the bytes that had arrived by when; cells that did not finish: {}.",
            rows.len()
        ),
        x,
        y,
        y_name: "% of bytes",
        drawn: html! { @for row in rows { (progress_line(row, x, y)) } },
    })
}

fn progress_line(row: &Observation, x: Scale, y: Scale) -> Markup {
    let share = |bytes: u64| 100.0 * bytes as f64 / row.useful_bytes as f64;
    let points: Vec<(f64, f64)> =
        progress_of(&row.outcome).iter().map(|point| (point.at_s, share(point.bytes))).collect();
    let points = [(0.0, 0.0)].into_iter().chain(thinned(&points));
    html! {
        polyline.line points=(joined(points.map(|(at_s, share)| (x.place(at_s), y.place(share))))) {
            title { "round " (row.round) }
        }
    }
}

/// Which share of the rounds had finished by when.
pub(super) fn finished(analysis: &Analysis<'_>) -> Markup {
    let panel = |condition: &Condition<'_>| {
        let last_s = condition.cells.values().filter_map(|row| watched_s(row)).fold(0.0, f64::max);
        let (x, y) = scales(last_s);
        let (drawn, description) = share_finished(condition, last_s, x, y);
        Panel {
            id: format!("finished-{}", condition.name),
            name: condition.name,
            description,
            x,
            y,
            y_name: "% finished",
            drawn,
        }
        .draw()
    };
    html! {
        h3 { "Share of the cells that had finished" }
        p { "By the product-limit estimate (Kaplan and Meier), with limits of 95 % for each moment by itself. Where the line \
             stays below half, the median time is beyond the limit and not known." }
        div.panels {
            @for condition in analysis.conditions.iter().filter(|condition| condition.is_censored()) { (panel(condition)) }
        }
    }
}

fn watched_s(row: &Observation) -> Option<f64> {
    match &row.outcome {
        Outcome::Complete(times) => Some(times.ready_s),
        Outcome::Censored { limit_s, .. } => Some(*limit_s),
        Outcome::Aborted { .. } | Outcome::Failed { .. } => None,
    }
}

/// The steps and the area between their limits.
fn share_finished(condition: &Condition<'_>, last_s: f64, x: Scale, y: Scale) -> (Markup, String) {
    let steps = &condition.unfinished;
    let stairs = |share: fn(&Step) -> f64| {
        let mut points = vec![(x.place(0.0), y.place(0.0))];
        let mut finished = 0.0;
        for step in steps {
            points.push((x.place(step.at_s), y.place(finished)));
            finished = 100.0 * (1.0 - share(step));
            points.push((x.place(step.at_s), y.place(finished)));
        }
        points.push((x.place(last_s), y.place(finished)));
        points
    };
    let mut area = stairs(|step| step.high);
    area.extend(stairs(|step| step.low).into_iter().rev());
    let line = stairs(|step| step.unfinished);
    let by_limit = steps.last().map_or(0.0, |step| 100.0 * (1.0 - step.unfinished));
    let median = median_s(steps);
    let median = median.map_or("not known".to_owned(), |median_s| format!("{median_s:.1} s"));
    let description =
        format!("{by_limit:.0} % had finished when the last was stopped; the median time is {median}.");
    let drawn = html! {
        polygon.area points=(joined(area.into_iter())) {}
        polyline.line points=(joined(line.into_iter())) {}
    };
    (drawn, description)
}

struct Panel<'a> {
    id: String,
    name: &'a str,
    description: String,
    x: Scale,
    y: Scale,
    y_name: &'static str,
    drawn: Markup,
}

impl Panel<'_> {
    fn draw(self) -> Markup {
        let (title_id, description_id) = (format!("{}-title", self.id), format!("{}-desc", self.id));
        html! {
            figure.panel {
                figcaption { (self.name) }
                svg.hue0 viewBox={ "0 0 " (at(WIDTH)) " " (at(HEIGHT)) } role="img"
                    aria-labelledby={ (title_id) " " (description_id) } {
                    title id=(title_id) { (self.name) }
                    desc id=(description_id) { (self.description) }
                    g.axis {
                        @for (value, text) in self.y.ticks() {
                            @let y = self.y.place(value);
                            line.grid x1=(at(LEFT)) x2=(at(RIGHT)) y1=(at(y)) y2=(at(y)) {}
                            text x=(at(LEFT - 6.0)) y=(at(y + 4.0)) text-anchor="end" { (text) }
                        }
                        @for (value, text) in self.x.ticks() {
                            text x=(at(self.x.place(value))) y=(at(BOTTOM + 16.0)) text-anchor="middle" { (text) }
                        }
                        text x=(at((LEFT + RIGHT) / 2.0)) y=(at(HEIGHT - 6.0)) text-anchor="middle" {
                            "seconds; up: " (self.y_name)
                        }
                    }
                    (self.drawn)
                }
                p.small { (self.description) }
            }
        }
    }
}

fn scales(last_s: f64) -> (Scale, Scale) {
    (Scale::linear(0.0, last_s, LEFT, RIGHT), Scale::linear(0.0, 100.0, BOTTOM, TOP))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        observation::{Progress, tests::observation},
        report::{analysis::analyse, rows::Rows},
    };

    /// Three rounds that took 100 s, and two that were stopped at 900 s with a fourth of the bytes.
    fn rows() -> Rows {
        let row = |round: u32| {
            let progress = vec![Progress { at_s: 900.0, files: 1, bytes: 25_000_000 }];
            let mut row = Observation { round, ..observation("far", 100.0) };
            if round > 3 {
                row.outcome = Outcome::Censored { limit_s: 900.0, progress };
            }
            row
        };
        Rows { rows: (1..=5).map(row).collect(), cut: false }
    }

    #[test]
    fn what_was_there_by_when_is_a_line_for_each_cell_that_was_stopped() {
        let rows = rows();
        let drawn = progress(&analyse(&rows, None)).into_string();
        let (from, to) = (
            format!("{},{}", at(LEFT), at(BOTTOM)),
            format!("{},{}", at(RIGHT), at(BOTTOM - (BOTTOM - TOP) / 4.0)),
        );
        let line = format!("<polyline class=\"line\" points=\"{from} {to}\">");
        assert_eq!(drawn.matches(&line).count(), 2, "{drawn}");
        assert!(drawn.contains("cells that did not finish: 2."));
    }

    #[test]
    fn which_share_had_finished_is_said_in_words_too() {
        let rows = rows();
        let drawn = finished(&analyse(&rows, None)).into_string();
        assert!(
            drawn.contains("60 % had finished when the last was stopped; the median time is 100.0 s."),
            "{drawn}"
        );
    }
}
