//! What the data connections of one end do while they carry content, again and again: what the kernel knows of a TCP socket
//! (`TCP_INFO`), or the QUIC library of a path.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use ketch_channel::{Gauge, PathStatistics};
use serde::{Deserialize, Serialize};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::limits::SOCKETS_INTERVAL;

/// The data connections of one end at one moment.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct SocketsSample {
    /// Seconds since this end began to wait for data connections, or to dial them.
    pub(crate) s: f64,
    /// Those that live, in the order of their numbers. Counters are those since a connection began.
    pub(crate) connections: Vec<SocketSample>,
}

/// One data connection at one moment; what nobody tells is `None`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct SocketSample {
    pub(crate) number: u8,
    /// Smoothed.
    pub(crate) rtt_ms: Option<f64>,
    /// Of congestion.
    pub(crate) window_bytes: Option<u64>,
    pub(crate) sent_packets: Option<u64>,
    pub(crate) lost_packets: Option<u64>,
    pub(crate) rate_bytes_per_s: Option<u64>,
}

/// The data connections of one end, as they come. Cheap to clone; all clones share them.
#[derive(Debug, Clone)]
pub(super) struct Sockets {
    began: Instant,
    gauges: Arc<Mutex<BTreeMap<u8, Gauge>>>,
}

impl Sockets {
    /// Without any. Its clock runs from now on.
    pub(super) fn start() -> Self {
        Self { began: Instant::now(), gauges: Arc::default() }
    }

    /// Notes connection `number`.
    pub(super) fn add(&self, number: u8, gauge: &Gauge) {
        self.gauges().insert(number, gauge.clone());
    }

    /// When to look at them; the first time is now.
    pub(super) fn ticks() -> Interval {
        let mut ticks = interval(SOCKETS_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Skip);
        ticks
    }

    /// What those do that live.
    pub(super) fn look(&self) -> SocketsSample {
        let s = self.began.elapsed().as_secs_f64();
        let gauges = self.gauges();
        let living = gauges.iter().filter_map(|(number, gauge)| Some((*number, gauge.statistics().ok()?)));
        SocketsSample { s, connections: living.map(|(number, known)| sample(number, known)).collect() }
    }

    fn gauges(&self) -> MutexGuard<'_, BTreeMap<u8, Gauge>> {
        // Every change is whole before anything can panic.
        self.gauges.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn sample(number: u8, known: PathStatistics) -> SocketSample {
    let PathStatistics { rtt, window_bytes, lost_packets, sent_packets, rate_bytes_per_s } = known;
    let rtt_ms = rtt.map(|rtt| rtt.as_secs_f64() * 1e3);
    SocketSample { number, rtt_ms, window_bytes, sent_packets, lost_packets, rate_bytes_per_s }
}
