//! How far each flow was, at equal distances of time.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::{Duration, Instant},
};

/// Time between two looks.
const INTERVAL: Duration = Duration::from_millis(50);

/// Looks over which a rate counts as reached: half a second, so that no single burst does.
const REACHED_LOOKS: usize = 10;

/// Looks over which each rate of the series is taken: five seconds.
const SERIES_LOOKS: usize = 100;

/// Bytes of each flow by then.
pub(crate) struct Looks(Vec<Vec<u64>>);

impl Looks {
    pub(crate) fn take(started: Instant, time: Duration, arrived: &[AtomicU64]) -> Self {
        let look = || arrived.iter().map(|bytes| bytes.load(Ordering::Relaxed)).collect();
        let mut looks = vec![look()];
        while INTERVAL * looks.len() as u32 <= time {
            let due = started + INTERVAL * looks.len() as u32;
            crate::sleep(due.saturating_duration_since(Instant::now()));
            looks.push(look());
        }
        Self(looks)
    }

    /// What arrived of a flow from one time to another, in Mbit/s.
    pub(crate) fn mbit(&self, flow: usize, from: Duration, to: Duration) -> f64 {
        let (from, to) = (index(from), index(to));
        self.mbit_between(flow, from, to)
    }

    /// The time from its start until half a second began that brought the rate.
    pub(crate) fn reached(&self, flow: usize, starts: Duration, mbit: f64) -> Option<Duration> {
        let first = index(starts);
        let last = self.0.len().checked_sub(1 + REACHED_LOOKS)?;
        let reaches = |from: &usize| self.mbit_between(flow, *from, from + REACHED_LOOKS) >= mbit;
        (first..=last).find(reaches).map(|from| INTERVAL * (from - first) as u32)
    }

    /// The rate in each five seconds, in Mbit/s, joined by spaces.
    pub(crate) fn each(&self, flow: usize) -> String {
        let starts = (0..self.0.len().saturating_sub(SERIES_LOOKS)).step_by(SERIES_LOOKS);
        let rates = starts.map(|from| self.mbit_between(flow, from, from + SERIES_LOOKS));
        rates.map(|rate| format!("{rate:.1}")).collect::<Vec<_>>().join(" ")
    }

    fn mbit_between(&self, flow: usize, from: usize, to: usize) -> f64 {
        let bytes = self.0[to][flow] - self.0[from][flow];
        bytes as f64 * 8e-6 / (INTERVAL * (to - from) as u32).as_secs_f64()
    }
}

fn index(time: Duration) -> usize {
    (time.as_nanos() / INTERVAL.as_nanos()) as usize
}
