//! What hosts and path did over time: a small plot for each condition and counter, all rounds in it, the same height
//! for the same value down a column.

use maud::{Markup, html};

use super::{
    lanes::at,
    line::{joined, thinned},
    scale::Scale,
};
use crate::{
    observation::Sample,
    report::analysis::{Analysis, condition::Condition},
};

const WIDTH: f64 = 106.0;
const HEIGHT: f64 = 46.0;

/// A counter: its name, its unit, and its value in a sample, given the seconds since the one before.
type Counter = (&'static str, &'static str, fn(&Sample, f64) -> Option<f64>);

const COUNTERS: [Counter; 7] = [
    ("arrived", "MB/s", |sample, seconds| Some(sample.received_bytes? as f64 / 1e6 / seconds)),
    ("sender CPU", "%", |sample, _| sample.sender_cpu_percent),
    ("receiver CPU", "%", |sample, _| sample.receiver_cpu_percent),
    ("steal", "%", |sample, _| sample.steal_percent),
    ("UDP errors", "/s", |sample, seconds| Some(sample.udp_errors? as f64 / seconds)),
    ("TCP sent again", "/s", |sample, seconds| Some(sample.tcp_retransmissions? as f64 / seconds)),
    ("round trip", "ms", |sample, _| sample.round_trip_ms),
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
    let line = |trace: &[Sample]| {
        let mut before_s = 0.0;
        let mut points = Vec::new();
        for sample in trace {
            let seconds = sample.at_s - before_s;
            before_s = sample.at_s;
            // Two samples at one moment have no rate.
            points.extend(
                value(sample, seconds).filter(|value| value.is_finite()).map(|value| (sample.at_s, value)),
            );
        }
        points
    };
    let of_row = condition.cells.iter().map(|(&round, row)| (round, line(&row.samplers.trace)));
    of_row.filter(|(_, line)| !line.is_empty()).collect()
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
        Sample {
            at_s,
            sender_cpu_percent: None,
            receiver_cpu_percent: None,
            steal_percent: None,
            udp_errors: None,
            tcp_retransmissions: None,
            round_trip_ms: None,
            received_bytes,
        }
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
        assert!(lines(&condition, COUNTERS[1]).is_empty(), "nobody sampled it");
    }
}
