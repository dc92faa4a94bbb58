//! The counts of a relay as text, in the format of Prometheus
//! (<https://prometheus.io/docs/instrumenting/exposition_formats/>, version 0.0.4).

use std::{fmt::Write as _, time::Instant};

use super::{
    board::Board,
    ledger::{Counts, Cut, Ledger, Refusal},
};

/// What is counted beside the ledger and the board.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Gauges {
    /// Connections at the moment.
    pub connections: usize,
    /// Addresses of peers that were tried for them.
    pub address_checks: u64,
}

/// All of it, at one moment.
pub fn render(ledger: &Ledger, board: &Board, gauges: Gauges, now: Instant) -> String {
    let Counts { reservations, circuits, bytes, .. } = ledger.counts();
    let mut text = String::new();
    let singles = [
        ("connections", "gauge", "Connections at the moment.", gauges.connections as u64),
        ("reservations", "gauge", "Reservations at the moment.", ledger.held(now) as u64),
        ("circuits", "gauge", "Circuits at the moment.", ledger.open_circuits() as u64),
        ("registrations", "gauge", "Addresses that peers have left for others.", board.len() as u64),
        ("reservations_granted_total", "counter", "Reservations granted, renewals left out.", *reservations),
        ("circuits_opened_total", "counter", "Circuits that both ends took.", *circuits),
        ("carried_bytes_total", "counter", "Bytes that circuits carried.", *bytes),
        (
            "address_checks_total",
            "counter",
            "Addresses of peers that were tried for them.",
            gauges.address_checks,
        ),
    ];
    for (name, kind, help, value) in singles {
        head(&mut text, name, kind, help);
        line(&mut text, format_args!("ketch_relay_{name} {value}"));
    }
    head(&mut text, "refused_total", "counter", "Reservations and circuits refused, by reason.");
    for (refusal, reason) in REFUSALS {
        let count = ledger.counts().refused.get(&refusal).copied().unwrap_or_default();
        line(&mut text, format_args!("ketch_relay_refused_total{{reason=\"{reason}\"}} {count}"));
    }
    head(&mut text, "cut_total", "counter", "Circuits cut, by reason.");
    for (cut, reason) in CUTS {
        let count = ledger.counts().cut.get(&cut).copied().unwrap_or_default();
        line(&mut text, format_args!("ketch_relay_cut_total{{reason=\"{reason}\"}} {count}"));
    }
    text
}

const REFUSALS: [(Refusal, &str); 8] = [
    (Refusal::Reservations, "reservations"),
    (Refusal::ReservationsOfAddress, "reservations_per_address"),
    (Refusal::Circuits, "circuits"),
    (Refusal::CircuitsOfPeer, "circuits_per_peer"),
    (Refusal::NoReservation, "no_reservation"),
    (Refusal::TrafficOfPeer, "hourly_bytes_per_peer"),
    (Refusal::Traffic, "hourly_bytes"),
    (Refusal::NotTaken, "not_taken"),
];

const CUTS: [(Cut, &str); 4] = [
    (Cut::Bytes, "circuit_bytes"),
    (Cut::Time, "circuit_minutes"),
    (Cut::TrafficOfPeer, "hourly_bytes_per_peer"),
    (Cut::Traffic, "hourly_bytes"),
];

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    line(text, format_args!("# HELP ketch_relay_{name} {help}"));
    line(text, format_args!("# TYPE ketch_relay_{name} {kind}"));
}

fn line(text: &mut String, content: std::fmt::Arguments<'_>) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{content}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{relay::Policy, swarm::PeerId};

    #[test]
    fn every_line_is_a_comment_or_a_name_with_a_number() {
        let (mut ledger, now) = (Ledger::new(Policy::default()), Instant::now());
        let [a, b] = std::array::from_fn(|_| PeerId::random());
        ledger.reserve(a, None, now).unwrap();
        ledger.open(a, b, now).unwrap_err();
        let gauges = Gauges { connections: 3, address_checks: 0 };
        let text = render(&ledger, &Board::default(), gauges, now);
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert!(name.starts_with("ketch_relay_"), "{line}");
            value.parse::<u64>().unwrap();
        }
        for told in
            ["ketch_relay_connections 3\n", "ketch_relay_reservations 1\n", "{reason=\"no_reservation\"} 1\n"]
        {
            assert!(text.contains(told), "{text}");
        }
    }
}
