//! The greatest value of the recent past.

use std::collections::VecDeque;

/// A maximum over a sliding window of a clock that only counts: cycles, or rounds.
#[derive(Debug, Clone)]
pub(super) struct Maximum<T> {
    /// Falling values of rising times, so at most one for each time in the window.
    samples: VecDeque<(u64, T)>,
}

impl<T: PartialOrd + Copy> Maximum<T> {
    pub(super) fn new() -> Self {
        Self { samples: VecDeque::new() }
    }

    /// Takes a value of the time `now` and forgets those that are `window` or more behind it.
    pub(super) fn update(&mut self, now: u64, value: T, window: u64) {
        while self.samples.back().is_some_and(|(_, last)| *last <= value) {
            self.samples.pop_back();
        }
        if self.samples.back().is_none_or(|(time, _)| *time < now) {
            self.samples.push_back((now, value));
        }
        while self.samples.front().is_some_and(|(time, _)| time + window <= now) {
            self.samples.pop_front();
        }
    }

    /// `None` before the first value.
    pub(super) fn value(&self) -> Option<T> {
        self.samples.front().map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_greatest_value_is_kept_for_as_long_as_the_window() {
        let mut maximum = Maximum::new();
        let mut values = Vec::new();
        for (time, value) in [(0, 5), (0, 7), (0, 6), (1, 3), (2, 4), (3, 1), (5, 2)] {
            maximum.update(time, value, 2);
            values.push(maximum.value().unwrap());
        }
        assert_eq!(values, [5, 7, 7, 7, 4, 4, 2]);
    }

    #[test]
    fn a_window_keeps_one_value_for_each_time() {
        let mut maximum = Maximum::new();
        for value in (0..1_000).rev() {
            maximum.update(value % 3, value, 3);
        }
        assert!(maximum.samples.len() <= 3, "{:?}", maximum.samples);
    }
}
