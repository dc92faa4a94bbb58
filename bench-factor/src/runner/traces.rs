//! What both ends say of their data connections and of what has arrived, on the clock of the samplers.

use std::collections::BTreeMap;

use crate::{
    observation::{End, Progress, Sample, Sockets},
    study::sockets::{SocketSample, SocketsSample},
};

/// The data connections of one end; `began_s` is when its clock started.
pub(super) fn sockets(end: End, began_s: f64, looks: &[SocketsSample]) -> Vec<Sockets> {
    let mut before = BTreeMap::new();
    let living = looks.iter().filter(|look| !look.connections.is_empty());
    living.map(|look| together(end, began_s + look.s, &look.connections, &mut before)).collect()
}

fn together(
    end: End,
    at_s: f64,
    connections: &[SocketSample],
    before: &mut BTreeMap<u8, SocketSample>,
) -> Sockets {
    let (mut sent, mut lost) = (Vec::new(), Vec::new());
    for one in connections {
        let last = before.insert(one.number, *one).unwrap_or_default();
        sent.push(since(one.sent_packets, last.sent_packets));
        lost.push(since(one.lost_packets, last.lost_packets));
    }
    Sockets {
        end,
        at_s,
        connections: u32::try_from(connections.len()).unwrap_or(u32::MAX),
        round_trip_ms: connections.iter().filter_map(|one| one.rtt_ms).reduce(f64::max),
        window_bytes: connections.iter().map(|one| one.window_bytes).sum(),
        sent_packets: sent.into_iter().sum(),
        lost_packets: lost.into_iter().sum(),
    }
}

/// A library may take back what it had taken for lost.
fn since(now: Option<u64>, before: Option<u64>) -> Option<u64> {
    Some(now?.saturating_sub(before.unwrap_or_default()))
}

/// Notes in each sample what has arrived since the one before. `progress` began at `began_s` on the clock of the samples;
/// between two of its points bytes are taken to have come evenly.
pub(super) fn note_received(trace: &mut [Sample], began_s: f64, progress: &[Progress]) {
    let mut before = 0;
    for sample in trace {
        let arrived = arrived(progress, sample.at_s - began_s);
        sample.received_bytes = arrived.map(|bytes| bytes.saturating_sub(before));
        before = arrived.unwrap_or(before);
    }
}

/// Bytes that had arrived `at_s` after the start; `None` without any progress.
fn arrived(progress: &[Progress], at_s: f64) -> Option<u64> {
    let next = progress.iter().position(|point| point.at_s > at_s);
    let Some(next) = next else { return progress.last().map(|last| last.bytes) };
    let (from_s, from) = match next.checked_sub(1) {
        Some(last) => (progress[last].at_s, progress[last].bytes),
        None => (0.0, 0),
    };
    let to = progress[next];
    let share = ((at_s - from_s) / (to.at_s - from_s)).clamp(0.0, 1.0);
    Some(from + (to.bytes.saturating_sub(from) as f64 * share) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn look(s: f64, connections: &[(u8, u64, u64)]) -> SocketsSample {
        let connection = |&(number, sent, window)| SocketSample {
            number,
            rtt_ms: Some(100.0 + f64::from(number)),
            window_bytes: Some(window),
            sent_packets: Some(sent),
            lost_packets: None,
            rate_bytes_per_s: None,
        };
        SocketsSample { s, connections: connections.iter().map(connection).collect() }
    }

    #[test]
    fn connections_are_counted_together_and_packets_since_the_look_before() {
        let looks = [look(0.0, &[]), look(2.0, &[(0, 10, 5)]), look(4.0, &[(0, 25, 6), (1, 3, 7)])];
        let seen = sockets(End::Sender, 0.5, &looks);
        let short: Vec<_> = seen.iter().map(|one| (one.at_s, one.connections, one.sent_packets)).collect();
        assert_eq!(short, [(2.5, 1, Some(10)), (4.5, 2, Some(18))]);
        assert_eq!((seen[1].window_bytes, seen[1].round_trip_ms), (Some(13), Some(101.0)));
        assert_eq!(seen[1].lost_packets, None, "nobody tells");
    }

    #[test]
    fn what_has_arrived_is_spread_over_the_samples() {
        let point = |at_s, bytes| Progress { at_s, files: 0, bytes };
        let progress = [point(0.0, 0), point(1.0, 100), point(2.0, 300), point(2.5, 310)];
        let sample = |at_s| Sample { at_s, ..Sample::default() };
        // given a transfer that began half a second after the samples
        let mut trace = [sample(0.25), sample(2.0), sample(4.0)];
        note_received(&mut trace, 0.5, &progress);
        // then every sample has its part, and all parts are the whole
        assert_eq!(trace.map(|sample| sample.received_bytes), [Some(0), Some(200), Some(110)]);
        note_received(&mut trace, 0.5, &[]);
        assert_eq!(trace[2].received_bytes, None, "nobody tells");
    }
}
