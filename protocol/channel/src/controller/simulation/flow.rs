//! One sender: numbers packets, finds those that are lost (RFC 9002), and keeps to its controller.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use super::{cubic::Cubic, path::PACKET_BYTES, source::Source};
use crate::controller::bbr::{Bbr, State};

/// Packets that may arrive before one without it being lost.
const REORDERING_PACKETS: u64 = 3;

/// A receiver acknowledges at the latest after this.
pub(super) const ACK_DELAY: Duration = Duration::from_millis(25);

/// Who decides.
#[derive(Debug)]
pub(super) enum Controlled {
    Bbr(Box<Bbr>),
    Cubic(Cubic),
}

#[derive(Debug)]
pub(super) struct Flow {
    controlled: Controlled,
    source: Source,
    pub(super) starts: Duration,
    /// The controller's time when the flow's clock said zero.
    epoch: Instant,
    next_number: u64,
    outstanding: VecDeque<Outstanding>,
    in_flight: u64,
    largest_acked: Option<u64>,
    smoothed_rtt: Duration,
    next_departure: Duration,
    app_limited: bool,
    /// Bytes that were lost and are to be sent again.
    lost_bytes: u64,
    pub(super) states: Vec<(Duration, State)>,
    pub(super) counts: Counts,
}

/// So far, in packets.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) delivered: u64,
    /// Dropped at the queue.
    pub(crate) dropped: u64,
}

#[derive(Debug, Clone, Copy)]
struct Outstanding {
    number: u64,
    sent: Duration,
    settled: bool,
}

/// What a flow does now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It sends so many packets from this number on.
    Sends { first: u64, count: u64 },
    /// It waits until then.
    Waits(Duration),
    /// It waits for acknowledgements.
    Blocked,
}

impl Flow {
    pub(super) fn new(controlled: Controlled, source: Source, starts: Duration, epoch: Instant) -> Self {
        Self {
            controlled,
            source,
            starts,
            epoch,
            next_number: 0,
            outstanding: VecDeque::new(),
            in_flight: 0,
            largest_acked: None,
            smoothed_rtt: Duration::from_millis(333),
            next_departure: Duration::ZERO,
            app_limited: false,
            lost_bytes: 0,
            states: Vec::new(),
            counts: Counts::default(),
        }
    }

    pub(super) fn turn(&mut self, now: Duration) -> Turn {
        let available = self.available(now);
        self.app_limited = available == 0;
        if self.app_limited {
            return self
                .source
                .next_write(now - self.starts)
                .map_or(Turn::Blocked, |at| Turn::Waits(self.starts + at));
        }
        let room = self.window().saturating_sub(self.in_flight) / PACKET_BYTES;
        if room == 0 {
            if let Controlled::Bbr(bbr) = &mut self.controlled {
                bbr.on_window_limited();
            }
            return Turn::Blocked;
        }
        if self.next_departure > now {
            return Turn::Waits(self.next_departure);
        }
        self.send(now, available.min(room).min(self.quantum()))
    }

    /// A packet beyond the window, because nothing was heard for long.
    pub(super) fn send_probe(&mut self, now: Duration) -> Turn {
        self.send(now, 1)
    }

    pub(super) fn on_acks(&mut self, now: Duration, numbers: &[u64], marked: bool) {
        for number in numbers {
            self.on_acked(now, *number);
        }
        let (at, in_flight, app_limited) = (self.epoch + now, self.in_flight, self.app_limited);
        if let Controlled::Bbr(bbr) = &mut self.controlled {
            bbr.on_acks_end(at, in_flight, app_limited);
        }
        self.find_lost(now);
        if let Controlled::Bbr(bbr) = &mut self.controlled
            && marked
        {
            bbr.on_mark(at);
        }
        self.note_state(now);
    }

    /// Takes for lost what was overtaken, or is too old.
    pub(super) fn find_lost(&mut self, now: Duration) {
        let Some(largest) = self.largest_acked else { return };
        let patience = self.smoothed_rtt * 9 / 8;
        for index in 0..self.outstanding.len() {
            let packet = self.outstanding[index];
            if packet.number + 1 > largest {
                break;
            }
            let overtaken = packet.number + REORDERING_PACKETS <= largest;
            if !packet.settled && (overtaken || packet.sent + patience <= now) {
                self.outstanding[index].settled = true;
                self.on_lost(now, packet);
            }
        }
        while self.outstanding.front().is_some_and(|first| first.settled) {
            self.outstanding.pop_front();
        }
    }

    /// When to look again, if nothing comes until then.
    pub(super) fn alarm(&self, now: Duration) -> Option<Duration> {
        (!self.outstanding.is_empty()).then(|| now + self.smoothed_rtt * 3 / 2 + ACK_DELAY)
    }

    pub(super) fn rate(&self) -> Option<u64> {
        match &self.controlled {
            Controlled::Bbr(bbr) => bbr.rate(),
            Controlled::Cubic(_) => None,
        }
    }

    fn available(&self, now: Duration) -> u64 {
        let written = self.source.written(now - self.starts);
        let sent = self.next_number * PACKET_BYTES - self.lost_bytes;
        written.saturating_sub(sent) / PACKET_BYTES
    }

    fn window(&self) -> u64 {
        match &self.controlled {
            Controlled::Bbr(bbr) => bbr.window(),
            Controlled::Cubic(cubic) => cubic.window(),
        }
    }

    /// Packets that leave at once.
    fn quantum(&self) -> u64 {
        match &self.controlled {
            Controlled::Bbr(bbr) => bbr.send_quantum() / PACKET_BYTES,
            Controlled::Cubic(_) => u64::MAX,
        }
    }

    fn send(&mut self, now: Duration, count: u64) -> Turn {
        let first = self.next_number;
        for number in first..first + count {
            self.outstanding.push_back(Outstanding { number, sent: now, settled: false });
            self.in_flight += PACKET_BYTES;
            if let Controlled::Bbr(bbr) = &mut self.controlled {
                bbr.on_sent(self.epoch + now, number, PACKET_BYTES);
            }
        }
        self.next_number += count;
        self.counts.sent += count;
        if let Controlled::Bbr(bbr) = &self.controlled {
            let takes = (count * PACKET_BYTES) as f64 / bbr.pacing_rate() as f64;
            self.next_departure = self.next_departure.max(now) + Duration::from_secs_f64(takes);
        }
        Turn::Sends { first, count }
    }

    fn on_acked(&mut self, now: Duration, number: u64) {
        let Ok(index) = self.outstanding.binary_search_by_key(&number, |packet| packet.number) else {
            return;
        };
        let packet = &mut self.outstanding[index];
        if std::mem::replace(&mut packet.settled, true) {
            return;
        }
        let rtt = now - packet.sent;
        self.in_flight -= PACKET_BYTES;
        self.smoothed_rtt = match self.largest_acked {
            None => rtt,
            Some(_) => (self.smoothed_rtt * 7 + rtt) / 8,
        };
        self.largest_acked = self.largest_acked.max(Some(number));
        match &mut self.controlled {
            Controlled::Bbr(bbr) => bbr.on_acked(self.epoch + now, number, PACKET_BYTES),
            Controlled::Cubic(cubic) => cubic.on_acked(now, self.smoothed_rtt),
        }
    }

    fn on_lost(&mut self, now: Duration, packet: Outstanding) {
        self.in_flight -= PACKET_BYTES;
        self.lost_bytes += PACKET_BYTES;
        match &mut self.controlled {
            Controlled::Bbr(bbr) => bbr.on_lost(self.epoch + now, packet.number, PACKET_BYTES),
            Controlled::Cubic(cubic) => cubic.on_lost(now, packet.sent),
        }
    }

    fn note_state(&mut self, now: Duration) {
        let Controlled::Bbr(bbr) = &self.controlled else { return };
        let state = bbr.state();
        if self.states.last().is_none_or(|(_, last)| *last != state) {
            self.states.push((now, state));
        }
    }
}
