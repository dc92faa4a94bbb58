//! A plot of lanes below each other, one for each condition or comparison: all its values as marks, its median as a
//! line and its interval as a bar, on one axis.

use maud::{Markup, html};

use super::{colours::Colour, scale::Scale};
use crate::statistics::Bounds;

/// The plot's size and where its three columns (names, marks, numbers) begin, in units of SVG.
pub(super) const WIDTH: f64 = 1_000.0;
pub(super) const PLOT_FROM: f64 = 315.0;
pub(super) const PLOT_TO: f64 = 785.0;
const NUMBERS_FROM: f64 = 803.0;
const LANE_HEIGHT: f64 = 38.0;
const HEADING_HEIGHT: f64 = 30.0;
const AXIS_HEIGHT: f64 = 44.0;

/// How far marks are spread up and down within a lane, by round, so that equal ones do not hide each other.
const SPREAD: f64 = 18.0;

/// How far marks are above and the bar of the interval is below the middle of a lane.
const MARKS_ABOVE: f64 = 4.0;
const BAR_BELOW: f64 = 13.0;

/// Characters that fit beside a lane, and below its name, where they are smaller.
const NAME_CHARS: usize = 40;
const SMALL_CHARS: usize = 48;

/// A plot.
pub(super) struct Lanes {
    /// The plot's name in the page.
    pub(super) id: &'static str,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) axis: &'static str,
    pub(super) scale: Scale,
    /// A value that all are compared with.
    pub(super) reference: Option<f64>,
    pub(super) groups: Vec<Group>,
}

/// Lanes under a heading.
pub(super) struct Group {
    pub(super) heading: Option<String>,
    pub(super) lanes: Vec<Lane>,
}

/// One condition or comparison.
pub(super) struct Lane {
    pub(super) name: String,
    pub(super) below_name: String,
    pub(super) colour: Colour,
    pub(super) marks: Vec<Mark>,
    pub(super) median: Option<Bounds>,
    pub(super) interval: Option<Bounds>,
    /// What counts as no difference.
    pub(super) band: Option<Bounds>,
    pub(super) numbers: String,
    pub(super) below_numbers: String,
}

/// One observation or ratio.
pub(super) struct Mark {
    pub(super) value: Bounds,
    /// What it stands for.
    pub(super) says: String,
}

/// A place in a drawing: two digits are finer than any screen.
pub(super) fn at(place: f64) -> String {
    format!("{place:.2}").trim_end_matches('0').trim_end_matches('.').to_owned()
}

impl Lanes {
    pub(super) fn draw(&self) -> Markup {
        let height: f64 = self.groups.iter().map(Group::height).sum::<f64>() + AXIS_HEIGHT;
        let (title_id, description_id) = (format!("{}-title", self.id), format!("{}-desc", self.id));
        let bottom = height - AXIS_HEIGHT;
        html! {
            figure.scroll {
                svg viewBox={ "0 0 " (at(WIDTH)) " " (at(height)) } role="img"
                    aria-labelledby={ (title_id) " " (description_id) } {
                    title id=(title_id) { (self.title) }
                    desc id=(description_id) { (self.description) }
                    (axis(self.scale, self.axis, bottom))
                    @if let Some(reference) = self.reference {
                        @let x = at(self.scale.place(reference));
                        line.reference x1=(x) x2=(x) y1="0" y2=(at(bottom)) {}
                    }
                    (self.groups())
                }
            }
        }
    }

    fn groups(&self) -> Markup {
        let mut top = 0.0;
        let mut drawn = Vec::new();
        for group in &self.groups {
            if let Some(heading) = &group.heading {
                drawn.push(html! { text.heading x="0" y=(at(top + 21.0)) { (heading) } });
                top += HEADING_HEIGHT;
            }
            for lane in &group.lanes {
                drawn.push(lane.draw(self.scale, top));
                top += LANE_HEIGHT;
            }
        }
        html! { @for one in drawn { (one) } }
    }
}

impl Group {
    fn height(&self) -> f64 {
        let heading = if self.heading.is_some() { HEADING_HEIGHT } else { 0.0 };
        heading + LANE_HEIGHT * self.lanes.len() as f64
    }
}

impl Lane {
    fn draw(&self, scale: Scale, top: f64) -> Markup {
        let middle = top + LANE_HEIGHT / 2.0;
        html! {
            g.(self.colour.class()) {
                line.lane x1="0" x2=(at(WIDTH)) y1=(at(top + LANE_HEIGHT)) y2=(at(top + LANE_HEIGHT)) {}
                (label(&self.name, &self.below_name, middle))
                @if let Some(band) = self.band { (bar("band", scale, band, middle, LANE_HEIGHT)) }
                @for (index, mark) in self.marks.iter().enumerate() {
                    (mark.draw(scale, middle - MARKS_ABOVE + spread(index, self.marks.len())))
                }
                @if let Some(interval) = self.interval { (bar("interval", scale, interval, middle + BAR_BELOW, 5.0)) }
                @if let Some(median) = self.median { (bar("median", scale, median, middle + BAR_BELOW, 13.0)) }
                text.numbers x=(at(NUMBERS_FROM)) y=(at(middle - 2.0)) { (self.numbers) }
                text.small x=(at(NUMBERS_FROM)) y=(at(middle + 13.0)) { (self.below_numbers) }
            }
        }
    }
}

impl Mark {
    fn draw(&self, scale: Scale, y: f64) -> Markup {
        let says = html! { title { (self.says) } };
        match self.value.exact() {
            Some(value) => html! { circle.mark cx=(at(scale.place(value))) cy=(at(y)) r="3.6" { (says) } },
            // A triangle points to where the value lies, from the bound that it does not pass.
            None => {
                let is_upper = self.value.high().is_finite();
                let bound = if is_upper { self.value.high() } else { self.value.low() };
                let (x, way) = (scale.place(bound), if is_upper { -9.0 } else { 9.0 });
                let points =
                    format!("{},{} {},{} {},{}", at(x), at(y - 5.0), at(x), at(y + 5.0), at(x + way), at(y));
                html! { polygon.mark points=(points) { (says) } }
            }
        }
    }
}

fn label(name: &str, below: &str, middle: f64) -> Markup {
    let y = if below.is_empty() { middle + 4.0 } else { middle - 2.0 };
    html! {
        text.name x="0" y=(at(y)) { title { (name) } (shortened(name, NAME_CHARS)) }
        text.small x="0" y=(at(middle + 13.0)) { title { (below) } (shortened(below, SMALL_CHARS)) }
    }
}

/// A bar from the lower to the upper end, at least as wide as a line.
fn bar(class: &str, scale: Scale, ends: Bounds, middle: f64, height: f64) -> Markup {
    let (from, to) = (scale.place(ends.low()), scale.place(ends.high()));
    let width = (to - from).max(3.0);
    let from = (from + to - width) / 2.0;
    html! { rect.(class) x=(at(from)) y=(at(middle - height / 2.0)) width=(at(width)) height=(at(height)) {} }
}

fn axis(scale: Scale, name: &str, bottom: f64) -> Markup {
    html! {
        g.axis {
            @for (value, text) in scale.ticks() {
                @let x = at(scale.place(value));
                line.grid x1=(x) x2=(x) y1="0" y2=(at(bottom)) {}
                text x=(x) y=(at(bottom + 16.0)) text-anchor="middle" { (text) }
            }
            text x=(at((PLOT_FROM + PLOT_TO) / 2.0)) y=(at(bottom + 36.0)) text-anchor="middle" { (name) }
        }
    }
}

fn spread(index: usize, count: usize) -> f64 {
    if count < 2 { 0.0 } else { SPREAD * (index as f64 / (count - 1) as f64 - 0.5) }
}

fn shortened(text: &str, chars: usize) -> String {
    if text.chars().count() <= chars {
        return text.to_owned();
    }
    text.chars().take(chars - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(value: Bounds) -> String {
        let scale = Scale::linear(0.0, 10.0, 0.0, 100.0);
        Mark { value, says: "round 1: <5>".into() }.draw(scale, 20.0).into_string()
    }

    #[test]
    fn an_observed_value_is_a_disc_that_says_what_it_is() {
        let mark = drawn(Bounds::exactly(5.0));
        assert!(mark.starts_with("<circle class=\"mark\" cx=\"50\" cy=\"20\""), "{mark}");
        assert!(mark.contains("<title>round 1: &lt;5&gt;</title>"), "{mark}");
    }

    #[test]
    fn a_bound_points_to_where_the_value_lies() {
        assert!(drawn(Bounds::between(0.0, 5.0)).contains("points=\"50,15 50,25 41,20\""));
        assert!(drawn(Bounds::at_least(5.0)).contains("points=\"50,15 50,25 59,20\""));
    }

    #[test]
    fn marks_of_a_lane_are_spread_evenly_and_one_is_in_the_middle() {
        assert_eq!([spread(0, 3), spread(1, 3), spread(2, 3), spread(0, 1)], [-9.0, 0.0, 9.0, 0.0]);
    }

    #[test]
    fn long_names_are_cut_at_characters() {
        assert_eq!(shortened("größer", 4), "grö…");
        assert_eq!(shortened("groß", 4), "groß");
    }
}
