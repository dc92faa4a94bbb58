//! CUBIC (RFC 9438), as plain as it can be: what other flows on the Internet do.

use std::time::Duration;

use super::path::PACKET_BYTES;

const PACKET: f64 = PACKET_BYTES as f64;
const C: f64 = 0.4;
const BETA: f64 = 0.7;

#[derive(Debug)]
pub(super) struct Cubic {
    window: f64,
    threshold: f64,
    /// The window before the last loss.
    before_loss: f64,
    /// When the last loss was noticed; losses of packets from before it belong to it.
    last_loss: Option<Duration>,
}

impl Cubic {
    pub(super) fn new() -> Self {
        Self { window: 10.0 * PACKET, threshold: f64::INFINITY, before_loss: 0.0, last_loss: None }
    }

    pub(super) fn window(&self) -> u64 {
        self.window as u64
    }

    pub(super) fn on_acked(&mut self, now: Duration, rtt: Duration) {
        if self.window < self.threshold {
            self.window += PACKET;
            return;
        }
        let since = (now - self.last_loss.unwrap_or(now)).as_secs_f64();
        let grown = (self.cubic(since + rtt.as_secs_f64())).clamp(self.window, 1.5 * self.window);
        let reno =
            BETA * self.before_loss + 3.0 * (1.0 - BETA) / (1.0 + BETA) * PACKET * since / rtt.as_secs_f64();
        self.window += ((grown - self.window) * PACKET / self.window).max(0.0);
        self.window = self.window.max(reno);
    }

    pub(super) fn on_lost(&mut self, now: Duration, sent: Duration) {
        if self.last_loss.is_some_and(|last| sent <= last) {
            return;
        }
        // Fast convergence: who had less than the last time leaves more to others.
        let shrinks = self.window < self.before_loss;
        self.before_loss = if shrinks { self.window * (1.0 + BETA) / 2.0 } else { self.window };
        self.window = (self.window * BETA).max(2.0 * PACKET);
        self.threshold = self.window;
        self.last_loss = Some(now);
    }

    fn cubic(&self, seconds: f64) -> f64 {
        let before_loss = self.before_loss / PACKET;
        let k = (before_loss * (1.0 - BETA) / C).cbrt();
        (C * (seconds - k).powi(3) + before_loss) * PACKET
    }
}
