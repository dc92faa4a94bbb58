//! A value of which perhaps only one side is known, because the observation behind it was stopped at its limit.

/// Where a value lies: both ends are the value itself where it was observed, and infinite where nothing is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Bounds {
    low: f64,
    high: f64,
}

impl Bounds {
    /// Nothing is known.
    #[cfg(test)]
    pub(crate) const UNKNOWN: Self = Self { low: f64::NEG_INFINITY, high: f64::INFINITY };

    /// `value` was observed.
    pub(crate) fn exactly(value: f64) -> Self {
        Self { low: value, high: value }
    }

    /// It is `low` or more.
    #[cfg(test)]
    pub(crate) fn at_least(low: f64) -> Self {
        Self { low, high: f64::INFINITY }
    }

    /// It is `high` or less.
    #[cfg(test)]
    pub(crate) fn at_most(high: f64) -> Self {
        Self { low: f64::NEG_INFINITY, high }
    }

    /// It lies between the two, which may be infinite.
    pub(crate) fn between(low: f64, high: f64) -> Self {
        Self { low, high }
    }

    /// The least that it can be.
    pub(crate) fn low(self) -> f64 {
        self.low
    }

    /// The most that it can be.
    pub(crate) fn high(self) -> f64 {
        self.high
    }

    /// The value, where it was observed.
    pub(crate) fn exact(self) -> Option<f64> {
        (self.low == self.high).then_some(self.low)
    }

    /// What is known of this less `other`.
    pub(crate) fn minus(self, other: Self) -> Self {
        Self { low: self.low - other.high, high: self.high - other.low }
    }

    /// What is known of an increasing function of it.
    pub(crate) fn map(self, increasing: impl Fn(f64) -> f64) -> Self {
        Self { low: increasing(self.low), high: increasing(self.high) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_known_on_the_side_that_both_values_leave_open_no_further() {
        let seven = Bounds::exactly(7.0);
        let at_most_two = Bounds::at_most(2.0);
        assert_eq!(seven.minus(Bounds::exactly(4.0)), Bounds::exactly(3.0));
        assert_eq!(at_most_two.minus(seven), Bounds::at_most(-5.0));
        assert_eq!(seven.minus(at_most_two), Bounds::at_least(5.0));
        assert_eq!(at_most_two.minus(at_most_two), Bounds::UNKNOWN);
        assert_eq!(Bounds::UNKNOWN.minus(seven), Bounds::UNKNOWN);
    }

    #[test]
    fn only_an_observed_value_is_exact() {
        assert_eq!(Bounds::exactly(1.5).exact(), Some(1.5));
        assert_eq!(Bounds::at_least(1.5).exact(), None);
        assert_eq!(Bounds::UNKNOWN.exact(), None);
    }

    #[test]
    fn a_logarithm_keeps_what_is_not_known_unknown() {
        assert_eq!(Bounds::at_most(0.0).map(f64::exp), Bounds::between(0.0, 1.0));
        assert_eq!(Bounds::at_least(0.0).map(f64::exp), Bounds::at_least(1.0));
    }
}
