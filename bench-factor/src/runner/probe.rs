//! Round trips of small datagrams beside a transfer, all the time: what the path itself does meanwhile.

use std::{
    io,
    net::{SocketAddr, UdpSocket},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use crate::observation::{RoundTrip, Sample};

/// Between two probes: some thirty bytes each, so that they take nothing from what is measured.
const INTERVAL: Duration = Duration::from_millis(200);

/// A reply that takes longer counts as lost.
const LATEST: Duration = Duration::from_secs(2);

/// How often a thread looks whether it is to end.
const LOOK: Duration = Duration::from_millis(50);

/// Running probes.
#[derive(Debug)]
pub(super) struct Probe {
    stop: Arc<AtomicBool>,
    prober: JoinHandle<Probed>,
    /// Where it is of this process.
    echo: Option<Echo>,
}

/// What answers probes. Ends when dropped.
#[derive(Debug)]
pub(super) struct Echo {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What came back.
#[derive(Debug, Default, Clone, PartialEq)]
pub(super) struct Probed {
    /// When each probe was sent.
    sent: Vec<Duration>,
    /// When each reply came, and how long it had taken.
    replies: Vec<(Duration, Duration)>,
}

impl Probe {
    /// Sends probes from `near` to `far`, which is answered from.
    pub(super) fn start(near: UdpSocket, far: UdpSocket) -> io::Result<Self> {
        let address = far.local_addr()?;
        let echo = Echo::start(far)?;
        Ok(Self { echo: Some(echo), ..Self::towards(near, address)? })
    }

    /// Sends probes from `near` to an address where somebody else answers.
    pub(super) fn towards(near: UdpSocket, address: SocketAddr) -> io::Result<Self> {
        near.set_read_timeout(Some(LOOK))?;
        let stop = Arc::new(AtomicBool::new(false));
        let probing = Arc::clone(&stop);
        let prober = thread::spawn(move || probe(&near, address, &probing));
        Ok(Self { stop, prober, echo: None })
    }

    /// Stops, and says what came back.
    pub(super) fn stop(self) -> Probed {
        self.stop.store(true, Ordering::Relaxed);
        let probed = self.prober.join().unwrap_or_default();
        drop(self.echo);
        probed
    }
}

impl Echo {
    /// Answers what comes to `socket`.
    pub(super) fn start(socket: UdpSocket) -> io::Result<Self> {
        socket.set_read_timeout(Some(LOOK))?;
        let stop = Arc::new(AtomicBool::new(false));
        let echoing = Arc::clone(&stop);
        let thread = Some(thread::spawn(move || echo(&socket, &echoing)));
        Ok(Self { stop, thread })
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // It has nothing to say.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

impl Probed {
    /// The whole of it; `None` where nothing came back.
    pub(super) fn round_trip(&self) -> Option<RoundTrip> {
        let mut ms: Vec<f64> = self.replies.iter().map(|(_, took)| took.as_secs_f64() * 1e3).collect();
        ms.sort_by(f64::total_cmp);
        let at = |share: f64| ms.get(((ms.len() as f64 * share).ceil() as usize).saturating_sub(1)).copied();
        let (probes, replies) = (self.sent.len() as u64, ms.len() as u64);
        Some(RoundTrip {
            probes,
            lost: probes.saturating_sub(replies),
            median_ms: at(0.5)?,
            p95_ms: at(0.95)?,
            max_ms: at(1.0)?,
        })
    }

    /// Without those that were sent after `until_s`.
    pub(super) fn until(mut self, until_s: f64) -> Self {
        self.sent.retain(|sent| sent.as_secs_f64() <= until_s);
        self.replies.retain(|(at, took)| at.saturating_sub(*took).as_secs_f64() <= until_s);
        self
    }

    /// Notes in each sample the slowest round trip since the one before.
    pub(super) fn note(&self, trace: &mut [Sample]) {
        let mut from_s = 0.0;
        for sample in trace {
            let within = self.replies.iter().filter(|(at, _)| {
                let at_s = at.as_secs_f64();
                at_s > from_s && at_s <= sample.at_s
            });
            sample.round_trip_ms = within.map(|(_, took)| took.as_secs_f64() * 1e3).reduce(f64::max);
            from_s = sample.at_s;
        }
    }
}

fn echo(socket: &UdpSocket, stop: &AtomicBool) {
    let mut datagram = [0; 64];
    while !stop.load(Ordering::Relaxed) {
        if let Ok((length, from)) = socket.recv_from(&mut datagram) {
            // What is not sent is lost.
            let _ = socket.send_to(&datagram[..length], from);
        }
    }
}

fn probe(socket: &UdpSocket, to: SocketAddr, stop: &AtomicBool) -> Probed {
    let began = Instant::now();
    let mut probed = Probed::default();
    while !stop.load(Ordering::Relaxed) {
        let now = began.elapsed();
        if now >= INTERVAL * u32::try_from(probed.sent.len()).unwrap_or(u32::MAX) {
            let stamp = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
            // What is not sent is lost.
            let _ = socket.send_to(&stamp.to_be_bytes(), to);
            probed.sent.push(now);
        }
        probed.replies.extend(reply(socket, began));
    }
    // Those of the end are neither lost nor there: their replies may be under way.
    let end = began.elapsed().saturating_sub(LATEST);
    let answered: Vec<Duration> = probed.replies.iter().map(|(at, took)| at.saturating_sub(*took)).collect();
    probed.sent.retain(|sent| *sent < end || answered.contains(sent));
    probed
}

fn reply(socket: &UdpSocket, began: Instant) -> Option<(Duration, Duration)> {
    let mut datagram = [0; 8];
    let (8, _) = socket.recv_from(&mut datagram).ok()? else { return None };
    let now = began.elapsed();
    let took = now.checked_sub(Duration::from_nanos(u64::from_be_bytes(datagram)))?;
    (took <= LATEST).then_some((now, took))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probed(sent: u64, ms: &[u64]) -> Probed {
        let reply = |(second, &ms)| (Duration::from_secs(second), Duration::from_millis(ms));
        let sent = (0..sent).map(Duration::from_secs).collect();
        Probed { sent, replies: (1..).zip(ms).map(reply).collect() }
    }

    #[test]
    fn a_summary_is_of_what_came_back() {
        let ms: Vec<u64> = (1..=20).collect();
        let all = probed(22, &ms).round_trip().unwrap();
        assert_eq!((all.probes, all.lost), (22, 2));
        assert_eq!((all.median_ms, all.p95_ms, all.max_ms), (10.0, 19.0, 20.0));
        assert_eq!(probed(3, &[]).round_trip(), None);
    }

    #[test]
    fn what_is_sent_later_is_left_out_and_what_comes_back_later_is_not() {
        // given probes at 0, 1, 2 and 3 s, and replies at 1, 2 and 3 s
        let all = probed(4, &[900, 5, 1_500]);
        // then those of the first 1.6 s are the first two probes and what was sent by then
        let kept = all.until(1.6);
        assert_eq!(kept.sent.len(), 2);
        assert_eq!(kept.replies.len(), 2, "the reply at 3 s was sent at 1.5 s");
    }

    #[test]
    fn every_sample_has_the_slowest_since_the_one_before() {
        let sample = |at_s| Sample { at_s, ..Sample::default() };
        let mut trace = [sample(2.0), sample(2.5), sample(4.0)];
        probed(4, &[5, 3, 9, 7]).note(&mut trace);
        assert_eq!(trace.map(|sample| sample.round_trip_ms), [Some(5.0), None, Some(9.0)]);
    }

    #[test]
    fn probes_come_back_over_loopback() {
        let socket = || UdpSocket::bind("127.0.0.1:0").unwrap();
        let (near, far) = (socket(), socket());
        let began = Instant::now();
        near.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        far.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
        // given a probe and its echo, by hand
        near.send_to(&0_u64.to_be_bytes(), far.local_addr().unwrap()).unwrap();
        let mut datagram = [0; 64];
        let (length, from) = far.recv_from(&mut datagram).unwrap();
        far.send_to(&datagram[..length], from).unwrap();
        // then the reply has a time
        let (at, took) = reply(&near, began).unwrap();
        assert_eq!(at, took);
        // and the threads end
        Probe::start(socket(), socket()).unwrap().stop();
    }
}
