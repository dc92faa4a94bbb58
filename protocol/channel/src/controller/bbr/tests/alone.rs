//! One flow on a path that stays as it is.

use std::time::Duration;

use crate::controller::{
    bbr::State,
    simulation::{Outcome, Path, Simulation, Source},
};

/// 200 Mbit/s over 141 ms, the long path that matters most.
fn long() -> Path {
    Path::new(200.0, 141)
}

fn bulk(path: Path, seconds: u64) -> Outcome {
    Simulation::new(path, 1).bbr(0.0, Source::Bulk).run(seconds)
}

#[test]
fn start_up_finds_the_rate_within_two_seconds() {
    let outcome = bulk(long(), 3);
    let reached = outcome.reaches(0, 180.0).unwrap();
    assert!(reached < Duration::from_secs(2), "{reached:?}");
}

#[test]
fn start_up_overshoots_by_no_more_than_the_path_holds() {
    let path = long().queue(0.25);
    let outcome = bulk(path, 4);
    let dropped = outcome.dropped_bytes(0, 0..4);
    assert!(dropped < 1.6 * path.bdp_bytes(), "{dropped} bytes");
}

#[test]
fn a_path_that_loses_packets_by_itself_does_not_end_start_up() {
    for seed in 0..4 {
        let path = Path::new(100.0, 100).loss(0.01);
        let outcome = Simulation::new(path, seed).bbr(0.0, Source::Bulk).run(3);
        let reached = outcome.reaches(0, 85.0);
        assert!(reached.is_some_and(|time| time < Duration::from_secs(2)), "{reached:?} with seed {seed}");
    }
}

#[test]
fn drain_empties_what_start_up_queued() {
    let outcome = bulk(long(), 4);
    let drained = outcome.first(0, State::Cruise).unwrap();
    assert!(outcome.queue_ms(drained - Duration::from_millis(400)) > 100.0);
    let left = outcome.queue_ms(drained + Duration::from_millis(20));
    assert!(left < 10.0, "{left} ms");
}

#[test]
fn the_states_follow_each_other() {
    use State::{Cruise, Down, Drain, Refill, Startup, Up};
    let outcome = bulk(Path::new(50.0, 100), 12);
    let start = [Startup, Drain, Cruise];
    let cycle = [Refill, Up, Down, Cruise];
    assert_eq!(outcome.states(0), [&start[..], &cycle, &cycle, &cycle].concat());
}

/// By the draft nine tenths: each measurement of the round trip takes a third of a second of half the rate here.
#[test]
fn a_queue_that_is_found_empty_is_not_emptied_to_measure_the_round_trip() {
    let outcome = bulk(Path::new(20.0, 300), 25);
    let mbit = outcome.mbit(0, 5..25);
    assert!(mbit > 19.4, "{mbit} Mbit/s");
    assert!(!outcome.states(0).contains(&State::ProbeRtt));
}

#[test]
fn a_long_path_is_filled_and_its_queue_stays_short() {
    let outcome = bulk(long(), 20);
    let (mbit, queue_ms) = (outcome.mbit(0, 5..20), outcome.median_queue_ms(5..20));
    assert!(mbit > 188.0, "{mbit} Mbit/s");
    assert!(queue_ms < 10.0, "{queue_ms} ms");
    assert!(outcome.dropped_share(0, 5..20) < 0.001);
}

#[test]
fn a_short_queue_costs_few_packets() {
    let outcome = bulk(long().queue(0.25), 20);
    let (mbit, dropped) = (outcome.mbit(0, 5..20), outcome.dropped_share(0, 5..20));
    assert!(mbit > 185.0, "{mbit} Mbit/s");
    assert!(dropped < 0.01, "{dropped}");
}

#[test]
fn paths_of_other_kinds_are_filled() {
    for (mbit, rtt_ms) in [(100.0, 20), (20.0, 300), (1.0, 50), (500.0, 10)] {
        let outcome = bulk(Path::new(mbit, rtt_ms), 15);
        let got = outcome.mbit(0, 5..15);
        assert!(got > 0.92 * mbit, "{got} of {mbit} Mbit/s at {rtt_ms} ms");
    }
}

#[test]
fn one_packet_lost_in_a_thousand_costs_little() {
    for queue in [0.25, 1.0] {
        let outcome = bulk(long().queue(queue).loss(1e-3), 15);
        let mbit = outcome.mbit(0, 5..15);
        assert!(mbit > 180.0, "{mbit} Mbit/s with a queue of {queue}");
    }
}

#[test]
fn one_packet_lost_in_a_hundred_costs_little() {
    for queue in [0.25, 1.0] {
        let outcome = bulk(long().queue(queue).loss(1e-2), 15);
        let (mbit, dropped) = (outcome.mbit(0, 5..15), outcome.dropped_share(0, 5..15));
        assert!(mbit > 165.0, "{mbit} Mbit/s with a queue of {queue}");
        assert!(dropped < 0.02, "{dropped} with a queue of {queue}");
    }
}

#[test]
fn a_path_that_acknowledges_in_bursts_is_filled() {
    let slot = Duration::from_millis(20);
    let outcome = bulk(Path::new(50.0, 40).ack_slot(slot), 15);
    let mbit = outcome.mbit(0, 5..15);
    assert!(mbit > 46.0, "{mbit} Mbit/s");
}

#[test]
fn a_policer_is_obeyed() {
    let outcome = bulk(Path::new(200.0, 50).policed_to(50.0, 200_000.0), 20);
    let (mbit, dropped) = (outcome.mbit(0, 5..20), outcome.dropped_share(0, 5..20));
    assert!(mbit > 42.0, "{mbit} Mbit/s");
    assert!(dropped < 0.05, "{dropped}");
}

#[test]
fn marks_are_answered_before_the_queue_is_full() {
    let outcome = bulk(Path::new(50.0, 100).marking(), 15);
    let mbit = outcome.mbit(0, 5..15);
    assert!(mbit > 42.0, "{mbit} Mbit/s");
    assert_eq!(outcome.dropped_bytes(0, 5..15), 0.0);
}

#[test]
fn an_application_that_pauses_does_not_hide_the_path() {
    let bursts = Source::Bursts { bytes: 2_000_000, every: Duration::from_secs(1) };
    let outcome = Simulation::new(Path::new(50.0, 40), 1).bbr(0.0, bursts).run(12);
    let estimate = outcome.estimate_mbit(0).unwrap();
    assert!((45.0..55.0).contains(&estimate), "{estimate} Mbit/s");
    let mbit = outcome.mbit(0, 2..12);
    assert!(mbit > 15.9, "{mbit} Mbit/s of 16");
    assert_eq!(outcome.dropped_bytes(0, 2..12), 0.0);
}

#[test]
fn equal_seeds_give_equal_runs() {
    let trace =
        |seed| Simulation::new(Path::new(20.0, 50), seed).bbr(0.0, Source::Bulk).run(8).trace(0).to_vec();
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}
