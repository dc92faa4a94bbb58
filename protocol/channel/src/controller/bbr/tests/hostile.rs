//! A peer that acknowledges as it likes, and a clock that jumps.

use std::time::{Duration, Instant};

use proptest::{collection::vec, prelude::*};

use super::super::{Bbr, Found, rate::Rate};

const PACKET: u16 = 1_200;
const HOUR: Duration = Duration::from_secs(3_600);

/// What can come to a controller, in any order.
#[derive(Debug, Clone)]
enum Call {
    Sent {
        packets: u64,
        bytes: u16,
    },
    Acked {
        packets: u64,
        app_limited: bool,
    },
    /// The newest is acknowledged, and nothing before it.
    NewestAcked,
    Lost {
        packets: u64,
    },
    Marked,
    WindowLimited,
    PersistentCongestion,
    SpuriousLoss,
    PacketBytes(u16),
    Passes(Duration),
    GoesBack(Duration),
}

fn calls() -> impl Strategy<Value = Vec<Call>> {
    let bytes = prop_oneof![Just(0), Just(PACKET), 0..=u16::MAX];
    let call = prop_oneof![
        4 => (1..200_u64, bytes).prop_map(|(packets, bytes)| Call::Sent { packets, bytes }),
        6 => (0..200_u64, any::<bool>()).prop_map(|(packets, app_limited)| Call::Acked { packets, app_limited }),
        1 => Just(Call::NewestAcked),
        2 => (1..200_u64).prop_map(|packets| Call::Lost { packets }),
        1 => Just(Call::Marked),
        1 => Just(Call::WindowLimited),
        1 => Just(Call::PersistentCongestion),
        1 => Just(Call::SpuriousLoss),
        1 => (PACKET..=u16::MAX).prop_map(Call::PacketBytes),
        6 => time().prop_map(Call::Passes),
        1 => time().prop_map(Call::GoesBack),
    ];
    vec(call, 1..300)
}

fn time() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        Just(Duration::from_nanos(1)),
        (1..500_u64).prop_map(Duration::from_millis),
        (1..20_u64).prop_map(Duration::from_secs),
        (1..1_000_u32).prop_map(|hours| HOUR * hours),
    ]
}

/// A controller, and what its sender knows of it.
struct Sender {
    bbr: Bbr,
    now: Instant,
    /// Lengths of all packets; a number is a place.
    sent: Vec<u16>,
    next_settled: usize,
    in_flight: u64,
    packet_bytes: u64,
    /// What the window may be at most.
    allowed: u64,
}

impl Sender {
    fn new() -> Self {
        // Long after now, so that the clock can go back.
        let now = Instant::now() + 100_000 * HOUR;
        let bbr = Bbr::new(now, PACKET, 7);
        let allowed = bbr.window();
        let packet_bytes = PACKET.into();
        Self { bbr, now, sent: Vec::new(), next_settled: 0, in_flight: 0, packet_bytes, allowed }
    }

    fn tell(&mut self, call: &Call) {
        match *call {
            Call::Sent { packets, bytes } => self.send(packets, bytes),
            Call::Acked { packets, app_limited } => self.acknowledge(packets, app_limited),
            Call::NewestAcked => self.acknowledge_newest(),
            Call::Lost { packets } => self.lose(packets),
            Call::Marked => self.bbr.on_mark(self.now),
            Call::WindowLimited => self.bbr.on_window_limited(),
            Call::PersistentCongestion => self.bbr.on_persistent_congestion(),
            Call::SpuriousLoss => self.bbr.on_spurious_loss(),
            Call::PacketBytes(bytes) => {
                self.packet_bytes = bytes.into();
                self.bbr.set_packet_bytes(bytes);
            }
            Call::Passes(time) => self.now += time,
            Call::GoesBack(time) => self.now -= time,
        }
        self.allowed = self.allowed.max(4 * self.packet_bytes);
    }

    fn send(&mut self, packets: u64, bytes: u16) {
        for _ in 0..packets {
            self.bbr.on_sent(self.now, self.sent.len() as u64, bytes.into());
            self.sent.push(bytes);
            self.in_flight += u64::from(bytes);
        }
    }

    fn acknowledge(&mut self, packets: u64, app_limited: bool) {
        for _ in 0..packets {
            if let Some((number, bytes)) = self.settle() {
                self.bbr.on_acked(self.now, number, bytes);
                self.allowed += bytes;
            }
        }
        self.bbr.on_acks_end(self.now, self.in_flight, app_limited);
    }

    fn acknowledge_newest(&mut self) {
        if self.next_settled < self.sent.len() {
            let bytes = u64::from(std::mem::take(&mut self.sent[self.next_settled]));
            let number = self.sent.len() as u64 - 1;
            self.next_settled += 1;
            self.in_flight -= bytes;
            self.bbr.on_acked(self.now, number, bytes);
            self.allowed += bytes;
        }
        self.bbr.on_acks_end(self.now, self.in_flight, false);
    }

    fn lose(&mut self, packets: u64) {
        for _ in 0..packets {
            if let Some((number, bytes)) = self.settle() {
                self.bbr.on_lost(self.now, number, bytes);
            }
        }
    }

    fn settle(&mut self) -> Option<(u64, u64)> {
        let bytes = u64::from(*self.sent.get(self.next_settled)?);
        let number = self.next_settled as u64;
        self.next_settled += 1;
        self.in_flight -= bytes;
        Some((number, bytes))
    }
}

proptest! {
    /// A window grows by no more than what was acknowledged, whatever the peer says of rates and round trips.
    #[test]
    fn whatever_comes_window_rate_and_quantum_stay_within_bounds(calls in calls()) {
        let mut sender = Sender::new();
        for call in &calls {
            sender.tell(call);
            let (bbr, packet) = (&sender.bbr, sender.packet_bytes);
            let window = bbr.window();
            prop_assert!((4 * packet..=sender.allowed).contains(&window), "{window} after {call:?}");
            prop_assert!((2 * packet..=(2 * packet).max(65_536)).contains(&bbr.send_quantum()));
            prop_assert!(bbr.pacing_rate > Rate::ZERO, "{:?} after {call:?}", bbr.pacing_rate);
            prop_assert!(bbr.remembered() <= sender.sent.len());
        }
    }
}

#[test]
fn a_rate_beyond_all_bounds_over_a_round_trip_of_hours_is_borne() {
    // given a burst that seems to be delivered within a nanosecond
    let mut sender = Sender::new();
    let instant = Duration::from_nanos(1);
    for _ in 0..8 {
        sender.send(2_000, u16::MAX);
        sender.now += instant;
        sender.acknowledge(2_000, false);
    }
    // when round trips are of a year
    for _ in 0..3 {
        sender.send(1, PACKET);
        sender.now += 24 * 365 * HOUR;
        sender.acknowledge(1, false);
    }
    // then what is allowed in flight is still what was acknowledged
    assert!(sender.bbr.window() <= sender.allowed);
}

#[test]
fn a_clock_that_stands_still_leaves_a_rate() {
    let mut sender = Sender::new();
    for _ in 0..8 {
        sender.send(32, PACKET);
        sender.acknowledge(32, false);
    }
    assert!(
        sender.bbr.pacing_rate() > 32 * sender.packet_bytes,
        "{} bytes a second",
        sender.bbr.pacing_rate()
    );
}

#[test]
fn a_path_without_a_round_trip_is_taken_over_with_a_rate() {
    let now = Instant::now();
    let mut bbr = Bbr::new(now, PACKET, 7);
    bbr.take_over(now, Found { window: 1_000_000, rtt: Duration::ZERO, is_full: true });
    assert!(bbr.pacing_rate() > 1_000_000, "{} bytes a second", bbr.pacing_rate());
}

#[test]
fn a_peer_that_marks_everything_keeps_the_least_window() {
    let mut sender = Sender::new();
    for _ in 0..1_000 {
        sender.send(10, PACKET);
        sender.now += Duration::from_millis(50);
        sender.bbr.on_mark(sender.now);
        sender.acknowledge(10, false);
    }
    assert!(sender.bbr.window() >= 4 * sender.packet_bytes);
    // ten packets in fifty milliseconds are 240 kB/s
    assert!(sender.bbr.pacing_rate() > 120_000, "{}", sender.bbr.pacing_rate());
}
