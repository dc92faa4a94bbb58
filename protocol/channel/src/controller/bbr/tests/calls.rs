//! Single calls, packet by packet.

use std::time::{Duration, Instant};

use super::super::{Bbr, Found, State};

const PACKET: u16 = 1_200;
const BYTES: u64 = PACKET as u64;
const RTT: Duration = Duration::from_millis(100);

/// A sender that sends whole windows, each acknowledged after a round trip.
struct Rounds {
    bbr: Bbr,
    now: Instant,
    next: u64,
}

impl Rounds {
    fn new() -> Self {
        let now = Instant::now();
        Self { bbr: Bbr::new(now, PACKET, 7), now, next: 0 }
    }

    /// Sends so many packets at once; a round trip passes.
    fn send(&mut self, packets: u64) -> std::ops::Range<u64> {
        let first = self.next;
        for number in first..first + packets {
            self.bbr.on_sent(self.now, number, BYTES);
        }
        self.next += packets;
        self.now += RTT;
        first..self.next
    }

    fn acknowledge(&mut self, numbers: impl Iterator<Item = u64>, in_flight: u64) {
        for number in numbers {
            self.bbr.on_acked(self.now, number, BYTES);
        }
        self.bbr.on_acks_end(self.now, in_flight, false);
    }

    /// A round of so many packets of which all arrive.
    fn whole_round(&mut self, packets: u64) {
        let numbers = self.send(packets);
        self.acknowledge(numbers, 0);
    }

    /// A round of which every `nth` packet is lost.
    fn lossy_round(&mut self, packets: u64, nth: u64) {
        let numbers = self.send(packets);
        for lost in numbers.clone().step_by(nth as usize) {
            self.bbr.on_lost(self.now, lost, BYTES);
        }
        let first = numbers.start;
        self.acknowledge(numbers.filter(|number| !(number - first).is_multiple_of(nth)), 0);
    }

    /// A round of which ten packets in a row are lost.
    fn round_with_a_burst_lost(&mut self, packets: u64) {
        let numbers = self.send(packets);
        let burst = numbers.start..numbers.start + 10;
        for lost in burst.clone() {
            self.bbr.on_lost(self.now, lost, BYTES);
        }
        self.acknowledge(numbers.filter(|number| !burst.contains(number)), 0);
    }

    /// A whole round after which there is nothing more to send.
    fn app_limited_round(&mut self, packets: u64) {
        for number in self.send(packets) {
            self.bbr.on_acked(self.now, number, BYTES);
        }
        self.bbr.on_acks_end(self.now, 0, true);
    }

    /// Whole rounds until a probe asks the path for more.
    fn probing(packets: u64) -> Self {
        let mut rounds = Self::filled(packets);
        for _ in 0..100 {
            if rounds.bbr.state() == State::Up {
                return rounds;
            }
            rounds.whole_round(packets);
        }
        panic!("no probe in ten seconds");
    }

    /// Rounds without growth, until Startup and Drain are over.
    fn filled(packets: u64) -> Self {
        let mut rounds = Self::new();
        for _ in 0..8 {
            rounds.whole_round(packets);
        }
        assert!(matches!(rounds.bbr.state(), State::Down | State::Cruise), "{:?}", rounds.bbr.state());
        rounds
    }
}

#[test]
fn the_first_window_is_thirty_two_packets_at_any_rate() {
    let rounds = Rounds::new();
    assert_eq!(rounds.bbr.window(), 32 * BYTES);
    assert_eq!(rounds.bbr.rate(), None);
    assert!(rounds.bbr.pacing_rate() > 32 * BYTES);
}

#[test]
fn the_rate_is_what_arrives_in_a_round_trip() {
    let rounds = Rounds::filled(100);
    let rate = rounds.bbr.rate().unwrap() as f64;
    let arrives = (100 * BYTES) as f64 / RTT.as_secs_f64();
    assert!((0.9..1.2).contains(&(rate / arrives)), "{rate} of {arrives} bytes a second");
}

#[test]
fn nothing_falls_below_four_packets() {
    let rounds = Rounds::filled(1);
    assert!(rounds.bbr.window() >= 4 * BYTES);
    assert!(rounds.bbr.send_quantum() >= 2 * BYTES);
}

#[test]
fn rounds_that_lose_a_tenth_lower_the_rate_until_the_next_probe() {
    let mut rounds = Rounds::filled(100);
    let before = rounds.bbr.pacing_rate();
    rounds.lossy_round(100, 10);
    rounds.lossy_round(100, 10);
    let after = rounds.bbr.pacing_rate();
    assert!(after < before * 97 / 100, "{after} of {before}");
}

#[test]
fn rounds_that_lose_one_in_a_hundred_change_nothing() {
    let mut rounds = Rounds::filled(200);
    let before = rounds.bbr.pacing_rate();
    rounds.lossy_round(200, 100);
    rounds.lossy_round(200, 100);
    let after = rounds.bbr.pacing_rate();
    assert!(after >= before, "{after} of {before}");
}

#[test]
fn a_mark_of_the_path_ends_startup() {
    let mut rounds = Rounds::new();
    rounds.whole_round(10);
    assert_eq!(rounds.bbr.state(), State::Startup);
    rounds.bbr.on_mark(rounds.now);
    assert_eq!(rounds.bbr.state(), State::Drain);
}

#[test]
fn a_mark_of_the_path_ends_a_probe() {
    let mut rounds = Rounds::probing(100);
    rounds.bbr.on_mark(rounds.now);
    assert_eq!(rounds.bbr.state(), State::Down);
}

#[test]
fn rounds_that_are_marked_lower_the_rate_to_what_arrives() {
    let mut rounds = Rounds::filled(100);
    let before = rounds.bbr.pacing_rate();
    for _ in 0..3 {
        rounds.bbr.on_mark(rounds.now);
        rounds.whole_round(80);
    }
    let after = rounds.bbr.pacing_rate();
    assert!(after < before * 9 / 10, "{after} of {before}");
}

/// As many packets that are lost here and there do.
#[test]
fn a_burst_of_losses_does_not_end_startup() {
    for is_burst in [true, false] {
        let mut rounds = Rounds::new();
        rounds.whole_round(100);
        rounds.whole_round(100);
        if is_burst {
            rounds.round_with_a_burst_lost(100);
        } else {
            rounds.lossy_round(100, 10);
        }
        assert_eq!(rounds.bbr.state() == State::Startup, is_burst, "{:?}", rounds.bbr.state());
    }
}

#[test]
fn an_application_with_little_to_send_does_not_end_startup() {
    let mut rounds = Rounds::new();
    for _ in 0..20 {
        rounds.app_limited_round(4);
    }
    assert_eq!(rounds.bbr.state(), State::Startup);
}

#[test]
fn a_rate_stays_known_while_an_application_sends_little_for_hours() {
    let mut rounds = Rounds::filled(100);
    let before = rounds.bbr.rate().unwrap();
    for _ in 0..100_000 {
        rounds.app_limited_round(4);
    }
    let after = rounds.bbr.rate().unwrap();
    assert!(after >= before * 9 / 10, "{after} of {before} bytes a second");
}

#[test]
fn losses_that_were_none_are_undone() {
    let mut rounds = Rounds::filled(100);
    rounds.lossy_round(100, 2);
    let (rate, window) = (rounds.bbr.pacing_rate(), rounds.bbr.window());
    rounds.lossy_round(100, 2);
    assert!(rounds.bbr.pacing_rate() < rate);
    rounds.bbr.on_spurious_loss();
    rounds.whole_round(100);
    assert!(rounds.bbr.pacing_rate() >= rate, "{} of {rate}", rounds.bbr.pacing_rate());
    assert!(rounds.bbr.window() >= window, "{} of {window}", rounds.bbr.window());
}

#[test]
fn a_start_that_ended_by_losses_that_were_none_goes_on() {
    let mut rounds = Rounds::new();
    rounds.whole_round(100);
    rounds.whole_round(100);
    rounds.lossy_round(100, 10);
    assert_ne!(rounds.bbr.state(), State::Startup);
    rounds.bbr.on_spurious_loss();
    assert_eq!(rounds.bbr.state(), State::Startup);
}

#[test]
fn a_probe_that_ended_by_losses_that_were_none_is_tried_again() {
    let mut rounds = Rounds::probing(100);
    rounds.bbr.on_mark(rounds.now);
    assert!(rounds.bbr.long_term_in_flight.is_some());
    rounds.bbr.on_spurious_loss();
    assert_eq!(rounds.bbr.state(), State::Refill);
    assert_eq!(rounds.bbr.long_term_in_flight, None);
}

#[test]
fn the_round_trip_is_not_measured_at_once_after_hours_of_silence() {
    let mut rounds = Rounds::filled(100);
    rounds.app_limited_round(4);
    rounds.now += Duration::from_secs(10_000);
    rounds.app_limited_round(4);
    assert_ne!(rounds.bbr.state(), State::ProbeRtt);
}

#[test]
fn losses_that_were_none_twice_leave_bounds_alone() {
    let mut rounds = Rounds::filled(100);
    rounds.bbr.on_spurious_loss();
    rounds.bbr.on_spurious_loss();
    rounds.whole_round(100);
    assert!(matches!(rounds.bbr.state(), State::Down | State::Cruise), "{:?}", rounds.bbr.state());
}

#[test]
fn a_path_on_which_nothing_arrives_is_tried_with_four_packets_and_then_taken_up_again() {
    let mut rounds = Rounds::filled(100);
    let window = rounds.bbr.window();
    rounds.bbr.on_persistent_congestion();
    assert_eq!(rounds.bbr.window(), 4 * BYTES);
    rounds.whole_round(4);
    assert!(rounds.bbr.window() >= window * 9 / 10, "{} of {window}", rounds.bbr.window());
}

#[test]
fn a_full_pipe_that_was_found_by_another_is_kept_full() {
    let now = Instant::now();
    let mut bbr = Bbr::new(now, PACKET, 7);
    bbr.take_over(now, Found { window: 1_000_000, rtt: RTT, is_full: true });
    assert_eq!(bbr.window(), 1_000_000);
    assert_eq!(bbr.rate(), Some(10_000_000));
    assert!(bbr.pacing_rate() < 10_000_000);
    assert_eq!(bbr.state(), State::Down);
}

#[test]
fn a_window_that_still_grew_goes_on_growing() {
    let now = Instant::now();
    let mut bbr = Bbr::new(now, PACKET, 7);
    bbr.take_over(now, Found { window: 50_000, rtt: RTT, is_full: false });
    assert_eq!(bbr.window(), 50_000);
    assert!(bbr.pacing_rate() > 1_000_000);
    assert_eq!(bbr.state(), State::Startup);
}

#[test]
fn packets_of_other_lengths_move_the_least_window() {
    let mut rounds = Rounds::filled(1);
    rounds.bbr.set_packet_bytes(9_000);
    assert!(rounds.bbr.window() >= 36_000);
}

#[test]
fn acknowledgements_of_unknown_packets_change_nothing() {
    let mut rounds = Rounds::filled(100);
    let before = rounds.bbr.clone();
    rounds.bbr.on_acked(rounds.now, 1_000_000, BYTES);
    rounds.bbr.on_acks_end(rounds.now, 0, false);
    rounds.bbr.on_lost(rounds.now, 2_000_000, BYTES);
    assert_eq!(rounds.bbr.window(), before.window());
    assert_eq!(rounds.bbr.pacing_rate(), before.pacing_rate());
}

#[test]
fn packets_that_nobody_settles_are_forgotten() {
    let mut rounds = Rounds::new();
    for _ in 0..100 {
        let numbers = rounds.send(20);
        rounds.acknowledge(numbers.skip(1), 0);
    }
    assert!(rounds.bbr.remembered() < 12 * 20, "{} packets", rounds.bbr.remembered());
}

#[test]
fn numbers_that_begin_anew_are_another_space() {
    let mut rounds = Rounds::new();
    rounds.whole_round(3);
    rounds.next = 0;
    rounds.whole_round(10);
    assert!(rounds.bbr.rate().is_some());
    assert_eq!(rounds.bbr.remembered(), 0);
}
