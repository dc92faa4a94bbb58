//! What a simulation has seen.

use std::{ops::Range, time::Duration};

use super::{flow::Counts, path::PACKET_BYTES};
use crate::controller::bbr::State;

/// Time between two looks at everything.
pub(super) const LOOK_INTERVAL: Duration = Duration::from_millis(10);

/// Looks at all flows and the queue, at equal distances.
#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(super) looks: Vec<Look>,
    /// Of each flow, each with the time it began.
    pub(super) states: Vec<Vec<(Duration, State)>>,
    /// Of each flow at the end, in bytes a second.
    pub(super) estimates: Vec<Option<u64>>,
}

#[derive(Debug)]
pub(super) struct Look {
    pub(super) queue_delay: Duration,
    pub(super) counts: Vec<Counts>,
}

impl Outcome {
    /// What arrived of a flow in these seconds, in Mbit/s.
    pub(crate) fn mbit(&self, flow: usize, seconds: Range<u64>) -> f64 {
        let length = seconds.end - seconds.start;
        let (before, after) = self.ends(flow, seconds);
        ((after.delivered - before.delivered) * PACKET_BYTES * 8) as f64 / length as f64 / 1e6
    }

    /// The share of a flow's packets that the queue dropped in these seconds.
    pub(crate) fn dropped_share(&self, flow: usize, seconds: Range<u64>) -> f64 {
        let (before, after) = self.ends(flow, seconds);
        (after.dropped - before.dropped) as f64 / (after.sent - before.sent) as f64
    }

    /// What the queue dropped of a flow in these seconds.
    pub(crate) fn dropped_bytes(&self, flow: usize, seconds: Range<u64>) -> f64 {
        let (before, after) = self.ends(flow, seconds);
        ((after.dropped - before.dropped) * PACKET_BYTES) as f64
    }

    /// The time that the queue took then.
    pub(crate) fn queue_ms(&self, at: Duration) -> f64 {
        let index = (at.as_nanos() / LOOK_INTERVAL.as_nanos()) as usize;
        self.looks[index].queue_delay.as_secs_f64() * 1e3
    }

    /// The rate that a flow of ours took the path for at the end, in Mbit/s.
    pub(crate) fn estimate_mbit(&self, flow: usize) -> Option<f64> {
        self.estimates[flow].map(|bytes_per_s| bytes_per_s as f64 * 8e-6)
    }

    /// The time that the queue took at the median in these seconds.
    pub(crate) fn median_queue_ms(&self, seconds: Range<u64>) -> f64 {
        let looks = &self.looks[index(seconds.start)..=index(seconds.end)];
        let mut delays: Vec<_> = looks.iter().map(|look| look.queue_delay).collect();
        delays.sort_unstable();
        delays[delays.len() / 2].as_secs_f64() * 1e3
    }

    /// How evenly these flows share, by Jain's index: 1 is even, 1/n is one alone.
    pub(crate) fn jain(&self, seconds: Range<u64>) -> f64 {
        let flows = self.states.len();
        let rates: Vec<_> = (0..flows).map(|flow| self.mbit(flow, seconds.clone())).collect();
        let sum: f64 = rates.iter().sum();
        let squares: f64 = rates.iter().map(|rate| rate * rate).sum();
        sum * sum / (flows as f64 * squares)
    }

    /// What a flow did, one after the other.
    pub(crate) fn states(&self, flow: usize) -> Vec<State> {
        self.states[flow].iter().map(|(_, state)| *state).collect()
    }

    /// The same with the time at which each began.
    pub(crate) fn trace(&self, flow: usize) -> &[(Duration, State)] {
        &self.states[flow]
    }

    /// When a flow began to do so for the first time.
    pub(crate) fn first(&self, flow: usize, state: State) -> Option<Duration> {
        self.states[flow].iter().find(|(_, other)| *other == state).map(|(at, _)| *at)
    }

    /// The first time at which a flow got so much in the 200 ms before.
    pub(crate) fn reaches(&self, flow: usize, mbit: f64) -> Option<Duration> {
        let step = 20;
        let bytes = (mbit * 125_000.0 * (LOOK_INTERVAL * step as u32).as_secs_f64()) as u64;
        let delivered = |look: &Look| look.counts[flow].delivered * PACKET_BYTES;
        let reached =
            |index: &usize| delivered(&self.looks[*index]) - delivered(&self.looks[index - step]) >= bytes;
        (step..self.looks.len()).find(reached).map(|index| LOOK_INTERVAL * index as u32)
    }

    fn ends(&self, flow: usize, seconds: Range<u64>) -> (Counts, Counts) {
        let at = |second| self.looks[index(second)].counts[flow];
        (at(seconds.start), at(seconds.end))
    }
}

fn index(second: u64) -> usize {
    (second * 100) as usize
}
