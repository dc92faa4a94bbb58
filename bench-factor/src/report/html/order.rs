//! Every speed beside its condition's median, in the order of the run.

use maud::{Markup, html};

use super::{
    colours::Colours,
    lanes::{WIDTH, at},
    scale::Scale,
};
use crate::{
    observation::Observation,
    report::{
        analysis::{
            Analysis,
            condition::{Condition, speed},
        },
        wording,
    },
    statistics::Bounds,
};

const HEIGHT: f64 = 270.0;
const LEFT: f64 = 60.0;
const RIGHT: f64 = 990.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 226.0;

/// One mark: when it ran, how it compares, and what it is.
struct Point<'a> {
    round: u32,
    position: u32,
    ratio: f64,
    condition: &'a Condition<'a>,
}

pub(super) fn order(analysis: &Analysis<'_>) -> Markup {
    let colours = Colours::of(analysis);
    let mut points: Vec<Point<'_>> = analysis.conditions.iter().flat_map(points).collect();
    points.sort_by_key(|point| (point.round, point.position));
    let ratios = || points.iter().map(|point| point.ratio);
    let (least, most) = (ratios().fold(0.9, f64::min), ratios().fold(1.1, f64::max));
    let y = Scale::logarithmic(least / 1.02, most * 1.02, BOTTOM, TOP);
    let x = Scale::linear(0.0, points.len() as f64, LEFT, RIGHT);
    html! {
        (colours.legend())
        figure.scroll {
            svg viewBox={ "0 0 " (at(WIDTH)) " " (at(HEIGHT)) } role="img" aria-labelledby="order-title order-desc" {
                title id="order-title" { "Speeds beside their condition's median, in the order of the run" }
                desc id="order-desc" { (points.len()) " observations; a vertical line begins each round." }
                g.axis {
                    @for (value, text) in y.ticks() {
                        line.grid x1=(at(LEFT)) x2=(at(RIGHT)) y1=(at(y.place(value))) y2=(at(y.place(value))) {}
                        text x=(at(LEFT - 8.0)) y=(at(y.place(value) + 4.0)) text-anchor="end" { (text) }
                    }
                    @for (index, point) in first_of_rounds(&points) {
                        @let place = at(x.place(index as f64));
                        line.round x1=(place) x2=(place) y1=(at(TOP)) y2=(at(BOTTOM)) {}
                        text x=(at(x.place(index as f64) + 4.0)) y=(at(BOTTOM + 16.0)) { "round " (point.round) }
                    }
                    text x=(at((LEFT + RIGHT) / 2.0)) y=(at(HEIGHT - 8.0)) text-anchor="middle" {
                        "in the order of the run; up: speed ÷ the condition's median"
                    }
                }
                line.reference x1=(at(LEFT)) x2=(at(RIGHT)) y1=(at(y.place(1.0))) y2=(at(y.place(1.0))) {}
                @for (index, point) in points.iter().enumerate() {
                    g.(colours.colour(point.condition).class()) {
                        circle.mark cx=(at(x.place(index as f64 + 0.5))) cy=(at(y.place(point.ratio))) r="4" { title { (says(point)) } }
                    }
                }
            }
        }
    }
}

/// What of a condition can be placed: its complete cells, where its median is known.
fn points<'a>(condition: &'a Condition<'a>) -> Vec<Point<'a>> {
    let Some(median) = condition.median.and_then(|median| median.exact()) else { return vec![] };
    let point = |(&round, row): (&u32, &&Observation)| {
        let ratio = speed(row)?.exact()? / median;
        Some(Point { round, position: row.position, ratio, condition })
    };
    condition.cells.iter().filter_map(point).collect()
}

fn first_of_rounds<'a>(points: &'a [Point<'a>]) -> impl Iterator<Item = (usize, &'a Point<'a>)> {
    let begins = |(index, point): &(usize, &Point<'_>)| *index == 0 || points[index - 1].round != point.round;
    points.iter().enumerate().filter(begins)
}

fn says(point: &Point<'_>) -> String {
    let ratio = wording::speed(Bounds::exactly(point.ratio));
    let name = point.condition.name;
    format!("{name}, round {}, position {}: {ratio} of its median", point.round, point.position)
}
