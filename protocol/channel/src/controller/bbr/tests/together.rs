//! Flows that share a path.

use crate::controller::{
    bbr::State,
    simulation::{Path, Simulation, Source},
};

fn together(path: Path, starts: &[f64]) -> Simulation {
    starts.iter().fold(Simulation::new(path, 1), |flows, start| flows.bbr(*start, Source::Bulk))
}

#[test]
fn two_flows_share_evenly() {
    for queue in [0.25, 1.0] {
        let outcome = together(Path::new(50.0, 40).queue(queue), &[0.0, 0.0]).run(30);
        let (jain, dropped) = (outcome.jain(10..30), outcome.dropped_share(0, 10..30));
        assert!(jain > 0.95, "{jain} with a queue of {queue}");
        assert!(dropped < 0.02, "{dropped} with a queue of {queue}");
    }
}

#[test]
fn one_that_comes_later_gets_its_share() {
    let outcome = together(Path::new(50.0, 40), &[0.0, 5.0]).run(40);
    let jain = outcome.jain(20..40);
    assert!(jain > 0.9, "{jain}");
}

/// With windows of twice what fills the pipe, the draft's, the least of these is 0.80.
#[test]
fn one_that_comes_later_to_a_long_path_gets_its_share() {
    for seed in 0..3 {
        let later = Simulation::new(Path::new(50.0, 141), seed).bbr(0.0, Source::Bulk).bbr(5.0, Source::Bulk);
        let outcome = later.run(60);
        let (jain, queue_ms) = (outcome.jain(10..60), outcome.median_queue_ms(10..60));
        assert!(jain > 0.9, "{jain} with seed {seed}");
        assert!(queue_ms < 90.0, "{queue_ms} ms with seed {seed}");
        assert!(outcome.states(0).contains(&State::ProbeRtt));
    }
}

/// Where a tenth lost ends Startup, one of these is at 3 Mbit/s and one at 9.
#[test]
fn a_probe_of_another_flow_does_not_end_a_start() {
    for (seed, starts) in [(3, 7.1), (6, 9.2), (7, 9.9)] {
        let path = Path::new(50.0, 141).queue(0.25);
        let later = Simulation::new(path, seed).bbr(0.0, Source::Bulk).bbr(starts, Source::Bulk);
        let mbit = later.run(22).mbit(1, 12..22);
        assert!(mbit > 11.0, "{mbit} Mbit/s of a flow that starts after {starts} s");
    }
}

#[test]
fn four_flows_share_evenly_and_fill_the_path() {
    let outcome = together(Path::new(50.0, 40), &[0.0, 1.0, 2.0, 3.0]).run(60);
    let jain = outcome.jain(30..60);
    assert!(jain > 0.9, "{jain}");
    let mbit: f64 = (0..4).map(|flow| outcome.mbit(flow, 30..60)).sum();
    assert!(mbit > 47.0, "{mbit} Mbit/s");
}

#[test]
fn cubic_keeps_a_quarter_of_a_path_that_it_had_first() {
    for rtt_ms in [40, 141] {
        let outcome = Simulation::new(Path::new(50.0, rtt_ms), 1).cubic(0.0).bbr(5.0, Source::Bulk).run(60);
        let (cubic, ours) = (outcome.mbit(0, 10..60), outcome.mbit(1, 10..60));
        assert!(cubic > 12.5, "{cubic} Mbit/s at {rtt_ms} ms");
        assert!(ours > 15.0, "{ours} Mbit/s at {rtt_ms} ms");
    }
}
