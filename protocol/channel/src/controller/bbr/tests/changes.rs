//! One flow on a path that changes.

use crate::controller::{
    bbr::State,
    simulation::{Outcome, Path, Simulation, Source},
};

/// The path changes after ten seconds.
fn changed(from: Path, to: Path, seconds: u64) -> Outcome {
    Simulation::new(from, 1).bbr(0.0, Source::Bulk).change(10.0, to).run(seconds)
}

#[test]
fn a_rate_that_halves_is_followed() {
    let half = Path::new(50.0, 50).queue(2.0);
    let outcome = changed(Path::new(100.0, 50), half, 30);
    let (mbit, queue_ms) = (outcome.mbit(0, 18..30), outcome.median_queue_ms(18..30));
    assert!(mbit > 46.0, "{mbit} Mbit/s");
    assert!(queue_ms < 30.0, "{queue_ms} ms");
    let dropped = outcome.dropped_share(0, 10..30);
    assert!(dropped < 0.03, "{dropped}");
}

#[test]
fn a_rate_that_doubles_is_found_within_ten_seconds() {
    let outcome = changed(Path::new(50.0, 50), Path::new(100.0, 50), 25);
    let mbit = outcome.mbit(0, 20..25);
    assert!(mbit > 90.0, "{mbit} Mbit/s");
}

/// By the draft each probe, every few seconds, less than doubles the rate.
#[test]
fn a_rate_that_grows_tenfold_is_found_by_one_probe() {
    let outcome = changed(Path::new(10.0, 50), Path::new(100.0, 50), 20);
    let mbit = outcome.mbit(0, 14..20);
    assert!(mbit > 90.0, "{mbit} Mbit/s");
}

/// With little in flight chance alone loses more than two percent of many rounds.
#[test]
fn a_rate_that_grows_is_found_where_one_packet_in_a_hundred_is_lost() {
    let path = |mbit| Path::new(mbit, 141).loss(0.01);
    let outcome = changed(path(8.0), path(100.0), 30);
    let mbit = outcome.mbit(0, 20..30);
    assert!(mbit > 80.0, "{mbit} Mbit/s");
}

#[test]
fn a_round_trip_that_rises_is_believed_once_it_is_measured() {
    let outcome = changed(Path::new(50.0, 50), Path::new(50.0, 150), 40);
    let mbit = outcome.mbit(0, 28..40);
    assert!(mbit > 45.0, "{mbit} Mbit/s");
    assert!(outcome.states(0).contains(&State::ProbeRtt));
}

#[test]
fn a_path_that_begins_to_lose_packets_is_not_given_up() {
    let path = Path::new(50.0, 100);
    let outcome = changed(path, path.loss(0.01), 25);
    let mbit = outcome.mbit(0, 12..25);
    assert!(mbit > 43.0, "{mbit} Mbit/s");
}

#[test]
fn a_path_that_was_dead_for_seconds_is_filled_again() {
    let path = Path::new(50.0, 50);
    let outcome =
        Simulation::new(path, 1).bbr(0.0, Source::Bulk).change(5.0, path.loss(1.0)).change(8.0, path).run(20);
    let mbit = outcome.mbit(0, 13..20);
    assert!(mbit > 46.0, "{mbit} Mbit/s");
}
