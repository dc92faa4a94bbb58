//! What hosts and path did over time: a small plot for each condition and counter, all rounds in it, the same height
//! for the same value down a column.

use maud::{Markup, html};

use super::{
    lanes::at,
    line::{joined, thinned},
    scale::Scale,
};
use crate::{
    observation::{End, Observation, Sample, Sockets},
    report::analysis::{Analysis, condition::Condition},
};

const WIDTH: f64 = 106.0;
const HEIGHT: f64 = 46.0;

/// A counter: its name, its unit, and where its values come from.
type Counter = (&'static str, &'static str, Value);

/// The value of one sample, given the seconds since the one before.
#[derive(Clone, Copy)]
enum Value {
    /// Of both hosts and the path.
    Hosts(fn(&Sample, f64) -> Option<f64>),
    /// Of the sender's data connections.
    Sockets(fn(&Sockets, f64) -> Option<f64>),
}

const COUNTERS: [Counter; 10] = [
    ("arrived", "MB/s", Value::Hosts(|sample, seconds| Some(sample.received_bytes? as f64 / 1e6 / seconds))),
    ("sender's windows", "MB", Value::Sockets(|sockets, _| Some(sockets.window_bytes? as f64 / 1e6))),
    ("its round trip", "ms", Value::Sockets(|sockets, _| sockets.round_trip_ms)),
    (
        "its packets lost",
        "/s",
        Value::Sockets(|sockets, seconds| Some(sockets.lost_packets? as f64 / seconds)),
    ),
    ("sender CPU", "%", Value::Hosts(|sample, _| sample.sender_cpu_percent)),
    ("receiver CPU", "%", Value::Hosts(|sample, _| sample.receiver_cpu_percent)),
    ("steal", "%", Value::Hosts(|sample, _| sample.steal_percent)),
    ("UDP errors", "/s", Value::Hosts(|sample, seconds| Some(sample.udp_errors? as f64 / seconds))),
    (
        "TCP sent again",
        "/s",
        Value::Hosts(|sample, seconds| Some(sample.tcp_retransmissions? as f64 / seconds)),
    ),
    ("round trip", "ms", Value::Hosts(|sample, _| sample.round_trip_ms)),
];

/// A line for each round: seconds and values.
type Lines = Vec<(u32, Vec<(f64, f64)>)>;

/// All traces, a row for each condition that has any.
pub(super) fn traces(analysis: &Analysis<'_>) -> Markup {
    let sampled: Vec<&Condition<'_>> = analysis
        .conditions
        .iter()
        .filter(|condition| condition.cells.values().any(|row| !row.samplers.trace.is_empty()))
        .collect();
    let columns: Vec<(Counter, f64)> = COUNTERS
        .into_iter()
        .filter_map(|counter| {
            let values =
                sampled.iter().flat_map(|condition| lines(condition, counter)).flat_map(|(_, line)| line);
            Some((counter, values.map(|(_, value)| value).reduce(f64::max)?))
        })
        .collect();
    html! {
        div.scroll tabindex="0" role="region" aria-label="Traces" {
            table.traces {
                thead {
                    tr {
                        th scope="col" { "condition" }
                        @for ((name, unit, _), most) in &columns {
                            th scope="col" { (name) span.small { " 0 to " (shown(*most)) " " (unit) } }
                        }
                    }
                }
                tbody {
                    @for condition in sampled {
                        @let last_s = last_s(condition);
                        tr {
                            th scope="row" { (condition.name) span.small { " 0 to " (shown(last_s)) " s" } }
                            @for (counter, most) in &columns { td { (trace(condition, *counter, *most, last_s)) } }
                        }
                    }
                }
            }
        }
    }
}

fn trace(condition: &Condition<'_>, counter: Counter, most: f64, last_s: f64) -> Markup {
    let (x, y) = (Scale::linear(0.0, last_s, 1.0, WIDTH - 1.0), Scale::linear(0.0, most, HEIGHT - 2.0, 2.0));
    let lines = lines(condition, counter);
    let greatest = lines.iter().flat_map(|(_, line)| line).map(|(_, value)| *value).reduce(f64::max);
    let (name, unit, _) = counter;
    let says = match greatest {
        Some(greatest) => format!("{}, {name}: at most {} {unit}", condition.name, shown(greatest)),
        None => format!("{}, {name}: not sampled", condition.name),
    };
    html! {
        svg.trace.hue0 viewBox={ "0 0 " (at(WIDTH)) " " (at(HEIGHT)) } width=(at(WIDTH)) height=(at(HEIGHT)) role="img" aria-label=(says) {
            title { (says) }
            line.grid x1="0" x2=(at(WIDTH)) y1=(at(HEIGHT - 1.0)) y2=(at(HEIGHT - 1.0)) {}
            @for (round, line) in lines {
                polyline.line points=(joined(thinned(&line).into_iter().map(|(at_s, value)| (x.place(at_s), y.place(value))))) {
                    title { "round " (round) }
                }
            }
        }
    }
}

fn lines(condition: &Condition<'_>, (_, _, value): Counter) -> Lines {
    let of_row = condition.cells.iter().map(|(&round, row)| (round, line(row, value)));
    of_row.filter(|(_, line)| !line.is_empty()).collect()
}

fn line(row: &Observation, value: Value) -> Vec<(f64, f64)> {
    match value {
        Value::Hosts(value) => points(row.samplers.trace.iter().map(|sample| (sample.at_s, sample)), value),
        Value::Sockets(value) => {
            let sender = row.samplers.sockets.iter().filter(|sockets| sockets.end == End::Sender);
            points(sender.map(|sockets| (sockets.at_s, sockets)), value)
        }
    }
}

fn points<'a, T: 'a>(
    samples: impl Iterator<Item = (f64, &'a T)>,
    value: fn(&T, f64) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let mut before_s = 0.0;
    let mut points = Vec::new();
    for (at_s, sample) in samples {
        // Two samples at one moment have no rate.
        points.extend(
            value(sample, at_s - before_s).filter(|value| value.is_finite()).map(|value| (at_s, value)),
        );
        before_s = at_s;
    }
    points
}

fn last_s(condition: &Condition<'_>) -> f64 {
    let samples = condition.cells.values().flat_map(|row| &row.samplers.trace);
    samples.map(|sample| sample.at_s).fold(0.0, f64::max)
}

fn shown(value: f64) -> String {
    if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.1}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Observation, tests::observation};

    fn sample(at_s: f64, received_bytes: Option<u64>) -> Sample {
        Sample { at_s, received_bytes, ..Sample::default() }
    }

    fn observed(trace: Vec<Sample>) -> Observation {
        let mut row = observation("a", 1.0);
        row.samplers.trace = trace;
        row
    }

    #[test]
    fn what_is_counted_between_two_samples_is_a_rate() {
        let trace = [(2.0, Some(4_000_000)), (6.0, Some(4_000_000)), (6.0, Some(1)), (7.0, None)];
        let row = observed(trace.map(|(at_s, bytes)| sample(at_s, bytes)).to_vec());
        let condition = Condition::new(&[&row]);
        assert_eq!(lines(&condition, COUNTERS[0]), [(1, vec![(2.0, 2.0), (6.0, 1.0)])]);
        assert!(lines(&condition, COUNTERS[4]).is_empty(), "nobody sampled it");
    }

    #[test]
    fn of_the_data_connections_those_of_the_sender_are_shown() {
        let mut row = observation("a", 1.0);
        let sockets = |end, at_s, lost| Sockets {
            end,
            at_s,
            connections: 1,
            round_trip_ms: None,
            window_bytes: None,
            sent_packets: None,
            lost_packets: Some(lost),
        };
        row.samplers.sockets =
            vec![sockets(End::Sender, 2.0, 8), sockets(End::Sender, 4.0, 2), sockets(End::Receiver, 2.0, 99)];
        assert_eq!(lines(&Condition::new(&[&row]), COUNTERS[3]), [(1, vec![(2.0, 4.0), (4.0, 1.0)])]);
    }
}
