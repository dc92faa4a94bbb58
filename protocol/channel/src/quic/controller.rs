//! A congestion controller that can be exchanged while its connection lives.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicU8, Ordering},
    },
    time::{Duration, Instant},
};

use noq::congestion::{self, Bbr3Config, ControllerFactory, ControllerMetrics, Cubic, CubicConfig};
use noq_proto::RttEstimator;

use super::bbr::OwnBbr;
use crate::{
    controller::bbr::Found,
    limits::{QUIC_FIRST_WINDOW_BYTES, QUIC_FIRST_WINDOW_TIME},
    settings::{Controller, QuicBbr},
};

/// Bytes a second.
const FIRST_WINDOW_RATE: u64 = QUIC_FIRST_WINDOW_BYTES * 1_000 / QUIC_FIRST_WINDOW_TIME.as_millis() as u64;

type Inner = Box<dyn congestion::Controller>;

/// Makes a [`Switchable`] for each connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct Switch {
    controller: Controller,
    bbr: QuicBbr,
}

impl Switch {
    pub(super) fn starting_with(controller: Controller, bbr: QuicBbr) -> Self {
        Self { controller, bbr }
    }
}

impl ControllerFactory for Switch {
    fn build(self: Arc<Self>, now: Instant, mtu: u16) -> Inner {
        let Self { controller, bbr } = *self;
        let inner = fresh((controller, bbr), None, now, mtu);
        Box::new(Switchable {
            inner,
            active: controller,
            choice: Arc::new(Choice::new(controller, bbr)),
            mtu,
        })
    }
}

/// The controller that somebody wants for one connection. It is in force from the next acknowledgement on; nothing can
/// refuse it.
#[derive(Debug)]
pub(super) struct Choice {
    code: AtomicU8,
    /// What BBR is here.
    bbr: QuicBbr,
}

impl Choice {
    fn new(controller: Controller, bbr: QuicBbr) -> Self {
        Self { code: AtomicU8::new(code(controller)), bbr }
    }

    pub(super) fn want(&self, controller: Controller) {
        self.code.store(code(controller), Ordering::Relaxed);
    }

    pub(super) fn wanted(&self) -> Controller {
        decode(self.code.load(Ordering::Relaxed))
    }

    /// The name of what is wanted; that of the library's BBR is its own.
    pub(super) fn name(&self) -> &'static str {
        match (self.wanted(), self.bbr) {
            (Controller::Bbr, bbr) => bbr.name(),
            (Controller::Cubic, QuicBbr::Own | QuicBbr::Library) => Controller::Cubic.name(),
        }
    }

    /// The choice of a living connection.
    pub(super) fn of(connection: &noq::Connection) -> Option<Arc<Self>> {
        let controller = connection.congestion_state(noq::PathId::ZERO)?;
        let switchable = controller.into_any().downcast::<Switchable>().ok()?;
        Some(switchable.choice)
    }
}

fn code(controller: Controller) -> u8 {
    match controller {
        Controller::Cubic => 0,
        Controller::Bbr => 1,
    }
}

fn decode(code: u8) -> Controller {
    if code == 0 { Controller::Cubic } else { Controller::Bbr }
}

/// Passes everything on to the controller that is active, and exchanges it when another one is wanted.
#[derive(Debug)]
struct Switchable {
    inner: Inner,
    active: Controller,
    choice: Arc<Choice>,
    mtu: u16,
}

impl Switchable {
    fn exchange_if_wanted(&mut self, now: Instant, rtt: Duration) {
        let wanted = self.choice.wanted();
        if wanted == self.active {
            return;
        }
        let window = self.inner.window();
        let is_full = self.inner.metrics().ssthresh.is_some_and(|threshold| threshold < u64::MAX);
        let found = (window > self.inner.initial_window()).then_some(Found { window, rtt, is_full });
        self.inner = fresh((wanted, self.choice.bbr), found, now, self.mtu);
        self.active = wanted;
    }
}

/// A controller that starts from its first window, or goes on from what another one has `found`.
fn fresh(wanted: (Controller, QuicBbr), found: Option<Found>, now: Instant, mtu: u16) -> Inner {
    match (wanted, found) {
        ((Controller::Cubic, _), None) => {
            let mut config = CubicConfig::default();
            config.initial_window(QUIC_FIRST_WINDOW_BYTES);
            Arc::new(config).build(now, mtu)
        }
        ((Controller::Cubic, _), Some(found)) => Box::new(cubic_from(found.window, now, mtu)),
        ((Controller::Bbr, QuicBbr::Own), None) => Box::new(OwnBbr::new(now, mtu)),
        ((Controller::Bbr, QuicBbr::Own), Some(found)) => Box::new(OwnBbr::taking_over(now, mtu, found)),
        ((Controller::Bbr, QuicBbr::Library), found) => {
            let mut config = Bbr3Config::default();
            config.initial_window(found.map_or(QUIC_FIRST_WINDOW_BYTES, |found| found.window));
            Arc::new(config).build(now, mtu)
        }
    }
}

/// Slow start would double a window that already fits the path. One loss, taken at the window that CUBIC cuts to
/// `window`, puts it into congestion avoidance there.
fn cubic_from(window: u64, now: Instant, mtu: u16) -> Cubic {
    let mut config = CubicConfig::default();
    config.initial_window(window / 7 * 10);
    let mut cubic = Cubic::new(Arc::new(config), now, mtu);
    congestion::Controller::on_congestion_event(&mut cubic, now, now, false, true, 0, 0);
    cubic
}

impl congestion::Controller for Switchable {
    fn on_sent(&mut self, now: Instant, bytes: u64, largest: u64) {
        self.inner.on_sent(now, bytes, largest);
    }

    fn on_packet_sent(&mut self, now: Instant, bytes: u16, number: u64) {
        self.inner.on_packet_sent(now, bytes, number);
    }

    fn on_cwnd_limited(&mut self) {
        self.inner.on_cwnd_limited();
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        bytes: u64,
        number: u64,
        app_limited: bool,
        rtt: &RttEstimator,
    ) {
        self.exchange_if_wanted(now, rtt.min());
        self.inner.on_ack(now, sent, bytes, number, app_limited, rtt);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, app_limited: bool, largest: Option<u64>) {
        self.inner.on_end_acks(now, in_flight, app_limited, largest);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        persistent: bool,
        ecn: bool,
        lost_bytes: u64,
        largest_lost: u64,
    ) {
        self.inner.on_congestion_event(now, sent, persistent, ecn, lost_bytes, largest_lost);
    }

    fn on_packet_lost(&mut self, bytes: u16, number: u64, now: Instant) {
        self.inner.on_packet_lost(bytes, number, now);
    }

    fn on_spurious_congestion_event(&mut self) {
        self.inner.on_spurious_congestion_event();
    }

    fn on_mtu_update(&mut self, mtu: u16) {
        self.mtu = mtu;
        self.inner.on_mtu_update(mtu);
    }

    fn on_ack_frequency_update(&mut self, threshold: u64, max_delay: Duration) {
        self.inner.on_ack_frequency_update(threshold, max_delay);
    }

    fn window(&self) -> u64 {
        self.inner.window()
    }

    /// A window that has not grown is sent almost at once, which RFC 9002 (7.7) allows for a first window.
    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = self.inner.metrics();
        // Our BBR has a first rate of its own, and a window that shrank is one that the path has answered.
        let is_first = self.active == Controller::Cubic
            && metrics.congestion_window <= QUIC_FIRST_WINDOW_BYTES
            && metrics.ssthresh.is_none_or(|threshold| threshold == u64::MAX);
        if is_first {
            let rate = FIRST_WINDOW_RATE.max(metrics.pacing_rate.unwrap_or(0));
            metrics.pacing_rate = Some(rate);
        }
        metrics
    }

    fn clone_box(&self) -> Inner {
        let (inner, choice) = (self.inner.clone_box(), self.choice.clone());
        Box::new(Self { inner, active: self.active, choice, mtu: self.mtu })
    }

    fn initial_window(&self) -> u64 {
        self.inner.initial_window()
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}

#[cfg(test)]
mod tests {
    use congestion::Controller as _;

    use super::*;

    const MTU: u16 = 1_452;

    const RTT: Duration = Duration::from_millis(100);

    fn switchable(controller: Controller, bbr: QuicBbr) -> Switchable {
        let inner = fresh((controller, bbr), None, Instant::now(), MTU);
        Switchable { inner, active: controller, choice: Arc::new(Choice::new(controller, bbr)), mtu: MTU }
    }

    #[test]
    fn the_bbr_of_the_library_has_another_name_than_ours() {
        let name = |controller, bbr| Choice::new(controller, bbr).name();
        assert_eq!(name(Controller::Bbr, QuicBbr::Own), "bbr");
        assert_eq!(name(Controller::Bbr, QuicBbr::Library), "library-bbr");
        assert_eq!(name(Controller::Cubic, QuicBbr::Library), "cubic");
    }

    fn exchange(switchable: &mut Switchable, controller: Controller) {
        switchable.choice.want(controller);
        switchable.exchange_if_wanted(Instant::now(), RTT);
        assert_eq!(switchable.active, controller);
    }

    #[test]
    fn a_window_that_has_grown_is_carried_over_without_a_second_slow_start() {
        for bbr in [QuicBbr::Own, QuicBbr::Library] {
            let mut switchable = switchable(Controller::Cubic, bbr);
            let grown = 10_000_000;
            switchable.inner = Box::new(Grown(grown));
            exchange(&mut switchable, Controller::Bbr);
            assert_eq!(switchable.window(), grown);
            switchable.inner = Box::new(Grown(grown));
            exchange(&mut switchable, Controller::Cubic);
            assert!(grown - switchable.window() < u64::from(MTU), "{}", switchable.window());
            assert_eq!(switchable.metrics().ssthresh, Some(switchable.window()));
        }
    }

    #[test]
    fn our_bbr_goes_on_at_the_rate_that_was_found() {
        let mut switchable = switchable(Controller::Cubic, QuicBbr::Own);
        switchable.inner = Box::new(Grown(1_000_000));
        exchange(&mut switchable, Controller::Bbr);
        let rate = switchable.metrics().pacing_rate.unwrap();
        assert!((8_000_000..=10_000_000).contains(&rate), "{rate} bytes a second");
    }

    #[test]
    fn a_window_that_has_not_grown_starts_slowly_again() {
        let mut switchable = switchable(Controller::Bbr, QuicBbr::Own);
        exchange(&mut switchable, Controller::Cubic);
        assert_eq!(switchable.window(), switchable.initial_window());
        assert_eq!(switchable.metrics().ssthresh, Some(u64::MAX));
    }

    #[test]
    fn a_first_window_is_sent_within_some_milliseconds_and_one_that_has_grown_is_spread() {
        let mut switchable = switchable(Controller::Cubic, QuicBbr::Own);
        assert_eq!(switchable.window(), QUIC_FIRST_WINDOW_BYTES);
        assert_eq!(switchable.metrics().pacing_rate, Some(FIRST_WINDOW_RATE));
        switchable.inner = Box::new(Grown(10_000_000));
        assert_eq!(switchable.metrics().pacing_rate, None);
    }

    #[test]
    fn all_copies_of_a_controller_obey_the_same_choice() {
        let switchable = switchable(Controller::Cubic, QuicBbr::Own);
        let copy = switchable.clone_box().into_any().downcast::<Switchable>().unwrap();
        switchable.choice.want(Controller::Bbr);
        assert_eq!(copy.choice.wanted(), Controller::Bbr);
    }

    /// A controller whose window has grown until something was lost.
    #[derive(Debug)]
    struct Grown(u64);

    impl congestion::Controller for Grown {
        fn on_congestion_event(&mut self, _: Instant, _: Instant, _: bool, _: bool, _: u64, _: u64) {}

        fn on_mtu_update(&mut self, _: u16) {}

        fn window(&self) -> u64 {
            self.0
        }

        fn metrics(&self) -> ControllerMetrics {
            let mut metrics = ControllerMetrics::default();
            metrics.congestion_window = self.0;
            metrics.ssthresh = Some(self.0);
            metrics
        }

        fn clone_box(&self) -> Inner {
            Box::new(Self(self.0))
        }

        fn initial_window(&self) -> u64 {
            12_000
        }

        fn into_any(self: Box<Self>) -> Box<dyn Any> {
            self
        }
    }
}
