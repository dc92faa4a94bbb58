//! From values to places on an axis, and which values are written at it.

/// About how many values are written at an axis.
const TICKS: f64 = 6.0;

/// From this ratio of the greatest to the least value on, an axis of logarithms has ticks at 1, 2 and 5 times powers of
/// ten; below it there would be too few of them.
const DECADES: f64 = 6.0;

/// One axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Scale {
    kind: Kind,
    /// The values at both ends.
    low: f64,
    high: f64,
    /// Where those are.
    from: f64,
    to: f64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Linear,
    Logarithmic,
}

impl Scale {
    /// From `low` to `high`, evenly.
    pub(super) fn linear(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { kind: Kind::Linear, low, high, from, to }
    }

    /// From `low` to `high`, both above 0, the same distance for the same ratio.
    pub(super) fn logarithmic(low: f64, high: f64, from: f64, to: f64) -> Self {
        let high = if high > low { high } else { low * 1.1 };
        Self { kind: Kind::Logarithmic, low, high, from, to }
    }

    /// Where `value` is; at the end where it lies beyond.
    pub(super) fn place(self, value: f64) -> f64 {
        let share = match self.kind {
            Kind::Linear => (value - self.low) / (self.high - self.low),
            Kind::Logarithmic => (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln(),
        };
        self.from + share.clamp(0.0, 1.0) * (self.to - self.from)
    }

    /// The values that are written, with their text.
    pub(super) fn ticks(self) -> Vec<(f64, String)> {
        let (low, high) = (self.low, self.high);
        match self.kind {
            Kind::Logarithmic if high / low >= DECADES => {
                let from = low.log10().floor() as i32;
                let to = high.log10().ceil() as i32;
                let steps: &[f64] = if high / low >= 2_000.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
                let all = (from..=to)
                    .flat_map(|power| steps.iter().map(move |step| (step * 10_f64.powi(power), -power)));
                let within = all.filter(|(value, _)| (low..=high).contains(value));
                within.map(|(value, digits)| (value, shown(value, digits))).collect()
            }
            Kind::Linear | Kind::Logarithmic => even_ticks(low, high),
        }
    }
}

fn even_ticks(low: f64, high: f64) -> Vec<(f64, String)> {
    let rough = (high - low) / TICKS;
    let power = rough.log10().floor() as i32;
    let unit = 10_f64.powi(power);
    let step = [1.0, 2.0, 5.0]
        .map(|step| step * unit)
        .into_iter()
        .find(|&step| step >= rough)
        .unwrap_or(10.0 * unit);
    let digits = -(step.log10() + 1e-9).floor() as i32;
    let (from, to) = ((low / step - 1e-9).ceil() as i64, (high / step + 1e-9).floor() as i64);
    (from..=to).map(|count| (count as f64 * step, shown(count as f64 * step, digits))).collect()
}

fn shown(value: f64, digits: i32) -> String {
    format!("{value:.*}", digits.max(0) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(scale: Scale) -> Vec<String> {
        scale.ticks().into_iter().map(|(_, text)| text).collect()
    }

    #[test]
    fn ticks_are_round_numbers_within_the_axis() {
        assert_eq!(texts(Scale::linear(0.0, 23.0, 0.0, 1.0)), ["0", "5", "10", "15", "20"]);
        assert_eq!(texts(Scale::linear(0.0, 1.0, 0.0, 1.0)), ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]);
        assert_eq!(texts(Scale::logarithmic(0.3, 25.0, 0.0, 1.0)), ["0.5", "1", "2", "5", "10", "20"]);
        assert_eq!(
            texts(Scale::logarithmic(0.9, 1.2, 0.0, 1.0)),
            ["0.90", "0.95", "1.00", "1.05", "1.10", "1.15", "1.20"]
        );
        assert_eq!(
            texts(Scale::logarithmic(0.01, 1_000.0, 0.0, 1.0)),
            ["0.01", "0.1", "1", "10", "100", "1000"]
        );
    }

    #[test]
    fn what_lies_beyond_an_axis_is_at_its_end() {
        let scale = Scale::logarithmic(0.5, 2.0, 100.0, 200.0);
        assert_eq!(
            [0.0, 0.5, 1.0, 2.0, f64::INFINITY].map(|value| scale.place(value).round()),
            [100.0, 100.0, 150.0, 200.0, 200.0]
        );
        assert_eq!(Scale::linear(0.0, 4.0, 10.0, 0.0).place(1.0), 7.5);
    }

    #[test]
    fn an_axis_without_extent_gets_some() {
        assert_eq!(Scale::linear(0.0, 0.0, 0.0, 1.0).place(0.0), 0.0);
        assert!(Scale::logarithmic(2.0, 2.0, 0.0, 1.0).place(2.0).is_finite());
    }
}
