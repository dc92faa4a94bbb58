//! What the two hosts of an observation do meanwhile: their counters, every two seconds and at both ends. They are those
//! of whole hosts, so what else runs there is in them too.
//!
//! The counters of the network are those of each host's own network. Two hosts on one machine share its processors and
//! disks.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read as _, Seek as _, Write as _},
    path::Path,
    sync::mpsc::{self, RecvTimeoutError, Sender},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use super::error::{RunError, run_io_error};
use crate::observation::{HostSummary, Sample};

/// Between two samples: stated by the method.
const INTERVAL: Duration = Duration::from_secs(2);

/// Bytes of a sector, whatever the device's (Documentation/block/stat.rst of Linux).
const SECTOR_BYTES: u64 = 512;

/// What one host has counted since it began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Counters {
    /// Processor time in ticks: all of it, that without work, and that which the hypervisor took.
    cpu_ticks: u64,
    idle_ticks: u64,
    steal_ticks: u64,
    disk_read_bytes: u64,
    disk_written_bytes: u64,
    udp_receive_errors: u64,
    udp_send_errors: u64,
    tcp_sent_segments: u64,
    tcp_retransmissions: u64,
}

/// Both hosts at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
struct Moment {
    at_s: f64,
    sender: Counters,
    receiver: Counters,
}

/// A running look at both hosts.
#[derive(Debug)]
pub(super) struct Sampler {
    stop: Sender<()>,
    thread: JoinHandle<io::Result<Vec<Moment>>>,
    are_one: bool,
}

/// All samples of an observation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Sampled {
    moments: Vec<Moment>,
    are_one: bool,
}

/// What was seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) sender: HostSummary,
    pub(super) receiver: HostSummary,
    pub(super) trace: Vec<Sample>,
}

/// Where the two hosts count: their open `/proc/net/snmp`.
#[derive(Debug)]
pub(super) struct Hosts {
    pub(super) sender: File,
    pub(super) receiver: File,
    /// Whether both are on one host, whose counters are not to be added to themselves.
    pub(super) are_one: bool,
}

impl Sampler {
    /// Starts to look; every sample goes to the file `raw` as a line of JSON.
    pub(super) fn start(hosts: Hosts, raw: &Path) -> Result<Self, RunError> {
        let file = File::create(raw).map_err(run_io_error("make the file", raw))?;
        let (stop, stopped) = mpsc::channel();
        let began = Instant::now();
        let are_one = hosts.are_one;
        let first =
            moment(&hosts, began).map_err(run_io_error("read the counters below", Path::new("/proc")))?;
        let thread = thread::spawn(move || {
            let mut moments = vec![first];
            while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(INTERVAL) {
                moments.push(moment(&hosts, began)?);
            }
            moments.push(moment(&hosts, began)?);
            write_lines(&file, &moments)?;
            Ok(moments)
        });
        Ok(Self { stop, thread, are_one })
    }

    /// Looks once more.
    pub(super) fn stop(self) -> Result<Sampled, RunError> {
        drop(self.stop);
        let moments = self.thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let moments = moments.map_err(run_io_error("read the counters below", Path::new("/proc")))?;
        Ok(Sampled { moments, are_one: self.are_one })
    }
}

impl Sampled {
    /// The same with the sender as it was seen on a host of its own, by a sampler that was started about as early: each moment
    /// gets the nearest one of that. They take the place of what is in the file `raw`.
    pub(super) fn with_sender(mut self, there: &Self, raw: &Path) -> Result<Self, RunError> {
        for moment in &mut self.moments {
            let apart = |other: &&Moment| (other.at_s - moment.at_s).abs();
            let nearest = there.moments.iter().min_by(|one, other| apart(one).total_cmp(&apart(other)));
            moment.sender = nearest.map_or(moment.sender, |nearest| nearest.sender);
        }
        self.are_one = false;
        let written = File::create(raw).and_then(|file| write_lines(&file, &self.moments));
        written.map_err(run_io_error("write", raw))?;
        Ok(self)
    }

    /// What was seen until the first sample at or behind `until_s`.
    pub(super) fn until(&self, until_s: f64) -> Seen {
        let before = self.moments.iter().take_while(|moment| moment.at_s < until_s).count();
        seen(&self.moments[..self.moments.len().min(before + 1)], self.are_one)
    }
}

fn write_lines(mut file: &File, moments: &[Moment]) -> io::Result<()> {
    let mut lines = Vec::new();
    for moment in moments {
        serde_json::to_writer(&mut lines, moment)?;
        lines.push(b'\n');
    }
    file.write_all(&lines)
}

fn moment(hosts: &Hosts, began: Instant) -> io::Result<Moment> {
    let machine = machine()?;
    let of = |table| network(table, machine);
    Ok(Moment {
        at_s: began.elapsed().as_secs_f64(),
        sender: of(&hosts.sender)?,
        receiver: of(&hosts.receiver)?,
    })
}

/// What is the machine's.
fn machine() -> io::Result<Counters> {
    let mut counters = Counters::default();
    let ticks = cpu_ticks(&fs::read_to_string("/proc/stat")?).unwrap_or_default();
    (counters.cpu_ticks, counters.idle_ticks, counters.steal_ticks) = ticks;
    let disks = disk_bytes(&fs::read_to_string("/proc/diskstats")?);
    (counters.disk_read_bytes, counters.disk_written_bytes) = disks;
    Ok(counters)
}

/// That, and what a host has counted of its network.
fn network(table: &File, machine: Counters) -> io::Result<Counters> {
    let table = protocol_counters(table)?;
    let counter = |name: &str| table.get(name).copied().unwrap_or_default();
    Ok(Counters {
        udp_receive_errors: counter("Udp.RcvbufErrors"),
        udp_send_errors: counter("Udp.SndbufErrors"),
        tcp_sent_segments: counter("Tcp.OutSegs"),
        tcp_retransmissions: counter("Tcp.RetransSegs"),
        ..machine
    })
}

/// All, idle and stolen ticks of the line `cpu` (proc(5)). Guests are in the user's time already; waiting for a disk is
/// idle.
fn cpu_ticks(stat: &str) -> Option<(u64, u64, u64)> {
    let line = stat.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let numbers: Vec<u64> = line.split_whitespace().take(8).filter_map(|word| word.parse().ok()).collect();
    let &[.., idle, waiting, _, _, steal] = numbers.as_slice() else { return None };
    Some((numbers.iter().sum(), idle + waiting, steal))
}

/// Bytes read from and written to all disks. Partitions and what lies on other disks would count twice.
fn disk_bytes(table: &str) -> (u64, u64) {
    let mut sum = (0, 0);
    for line in table.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (Some(name), Some(read), Some(written)) = (fields.get(2), fields.get(5), fields.get(9)) else {
            continue;
        };
        let is_disk = ["sd", "vd", "xvd"].iter().any(|kind| name.starts_with(kind))
            && !name.ends_with(|last: char| last.is_ascii_digit());
        let is_disk = is_disk || name.starts_with("nvme") && !name.contains('p');
        if is_disk {
            sum.0 += read.parse().unwrap_or(0) * SECTOR_BYTES;
            sum.1 += written.parse().unwrap_or(0) * SECTOR_BYTES;
        }
    }
    sum
}

/// The counters in a table, as `Protocol.Name`: an open `/proc/net/snmp` or `/proc/net/netstat`.
pub(super) fn protocol_counters(mut table: &File) -> io::Result<BTreeMap<String, u64>> {
    let mut text = String::new();
    table.rewind()?;
    table.read_to_string(&mut text)?;
    Ok(named(&text))
}

/// The same of what it says: a line of names and a line of numbers for every protocol.
fn named(table: &str) -> BTreeMap<String, u64> {
    let lines: Vec<&str> = table.lines().collect();
    let mut counters = BTreeMap::new();
    for pair in lines.chunks(2) {
        let [names, numbers] = pair else { continue };
        let Some((protocol, names)) = names.split_once(':') else { continue };
        let numbers = numbers.split_whitespace().skip(1);
        for (name, number) in names.split_whitespace().zip(numbers) {
            // Some are -1 for "none".
            counters.extend(number.parse().ok().map(|number| (format!("{protocol}.{name}"), number)));
        }
    }
    counters
}

fn seen(moments: &[Moment], are_one: bool) -> Seen {
    let (Some(first), Some(last)) = (moments.first(), moments.last()) else { return Seen::default() };
    let trace = moments.windows(2).map(|pair| sample(&pair[0], &pair[1], are_one)).collect();
    Seen {
        sender: summary(first.sender, last.sender),
        receiver: summary(first.receiver, last.receiver),
        trace,
    }
}

fn summary(first: Counters, last: Counters) -> HostSummary {
    HostSummary {
        cpu_percent: busy_percent(first, last),
        steal_percent: steal_percent(first, last),
        udp_receive_errors: Some(last.udp_receive_errors.saturating_sub(first.udp_receive_errors)),
        udp_send_errors: Some(last.udp_send_errors.saturating_sub(first.udp_send_errors)),
        tcp_retransmissions: Some(last.tcp_retransmissions.saturating_sub(first.tcp_retransmissions)),
    }
}

fn sample(before: &Moment, now: &Moment, are_one: bool) -> Sample {
    let (sender, receiver) = (summary(before.sender, now.sender), summary(before.receiver, now.receiver));
    let errors = |host: &HostSummary| Some(host.udp_receive_errors? + host.udp_send_errors?);
    let together = |sender: Option<u64>, receiver: Option<u64>| {
        if are_one { sender } else { Some(sender? + receiver?) }
    };
    Sample {
        at_s: now.at_s,
        sender_cpu_percent: sender.cpu_percent,
        receiver_cpu_percent: receiver.cpu_percent,
        steal_percent: sender.steal_percent.into_iter().chain(receiver.steal_percent).reduce(f64::max),
        udp_errors: together(errors(&sender), errors(&receiver)),
        tcp_retransmissions: together(sender.tcp_retransmissions, receiver.tcp_retransmissions),
        round_trip_ms: None,
        received_bytes: None,
    }
}

fn busy_percent(first: Counters, last: Counters) -> Option<f64> {
    let idle = last.idle_ticks.saturating_sub(first.idle_ticks);
    percent(first, last, last.cpu_ticks.saturating_sub(first.cpu_ticks).saturating_sub(idle))
}

fn steal_percent(first: Counters, last: Counters) -> Option<f64> {
    percent(first, last, last.steal_ticks.saturating_sub(first.steal_ticks))
}

/// Nothing is known of a time shorter than a tick.
fn percent(first: Counters, last: Counters, ticks: u64) -> Option<f64> {
    let all = last.cpu_ticks.saturating_sub(first.cpu_ticks);
    (all > 0).then(|| ticks as f64 / all as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_idle_and_guests_count_once() {
        let stat = "cpu  10 20 30 400 50 6 7 8 9 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        assert_eq!(cpu_ticks(stat), Some((531, 450, 8)));
        assert_eq!(cpu_ticks("intr 1"), None);
    }

    #[test]
    fn disks_count_and_their_partitions_do_not() {
        let table = " 254 0 vda 1 0 10 0 1 0 20 0 0 0 0\n 254 1 vda1 1 0 10 0 1 0 20 0 0 0 0\n 7 0 loop0 1 0 10 0 1 0 20 0 0 0 0\n 259 0 nvme0n1 1 0 1 0 1 0 2 0 0 0 0\n";
        assert_eq!(disk_bytes(table), (11 * 512, 22 * 512));
    }

    #[test]
    fn counters_have_the_names_of_the_line_above() {
        let table = "Tcp: RtoMin MaxConn OutSegs RetransSegs\nTcp: 200 -1 7 3\nUdp: RcvbufErrors\nUdp: 5\n";
        let counters = named(table);
        assert_eq!(counters.get("Tcp.RetransSegs"), Some(&3));
        assert_eq!(counters.get("Udp.RcvbufErrors"), Some(&5));
        assert_eq!(counters.get("Tcp.MaxConn"), None);
    }

    #[test]
    fn a_trace_has_what_came_between_two_moments() {
        let counters = |ticks: u64| Counters {
            cpu_ticks: ticks * 10,
            idle_ticks: ticks * 4,
            steal_ticks: ticks,
            udp_receive_errors: ticks,
            tcp_retransmissions: ticks * 2,
            ..Counters::default()
        };
        let moment = |at: u64| Moment { at_s: at as f64, sender: counters(at), receiver: counters(at) };
        let seen_by = |are_one| seen(&[moment(0), moment(2), moment(3)], are_one);
        let seen = seen_by(false);
        assert_eq!(seen.sender.cpu_percent, Some(60.0));
        assert_eq!(seen.receiver.steal_percent, Some(10.0));
        assert_eq!(seen.sender.tcp_retransmissions, Some(6));
        let errors: Vec<_> = seen.trace.iter().map(|sample| sample.udp_errors).collect();
        assert_eq!(errors, [Some(4), Some(2)]);
        assert_eq!(seen_by(true).trace[0].udp_errors, Some(2), "one host counts once");
        let sampled = Sampled { moments: vec![moment(0), moment(2), moment(3)], are_one: true };
        let samples = [0.5, 2.0, 2.5, 9.0].map(|until_s| sampled.until(until_s).trace.len());
        assert_eq!(samples, [1, 1, 2, 2], "what comes after the transfer is left out");
    }

    #[test]
    fn a_sender_is_told_of_by_its_own_host() {
        let counters = |udp_receive_errors| Counters { udp_receive_errors, ..Counters::default() };
        let moment = |at_s, count| Moment { at_s, sender: counters(count), receiver: counters(count) };
        // given both hosts, of which one was looked at a little earlier and once more
        let here = Sampled { moments: vec![moment(0.0, 1), moment(2.0, 1), moment(2.6, 1)], are_one: true };
        let there = [(0.1, 10), (2.1, 20), (2.5, 30), (2.7, 31)].map(|(at_s, count)| moment(at_s, count));
        let there = Sampled { moments: there.to_vec(), are_one: true };
        // then senders are those of the one host, at the nearest moment, and receivers those of the other
        let place = tempfile::tempdir().unwrap();
        let raw = place.path().join("raw.jsonl");
        let joined = here.with_sender(&there, &raw).unwrap();
        let senders: Vec<_> = joined.moments.iter().map(|moment| moment.sender.udp_receive_errors).collect();
        assert_eq!(senders, [10, 20, 30]);
        assert!(joined.moments.iter().all(|moment| moment.receiver == counters(1)) && !joined.are_one);
        // and so they are in the file
        let lines = fs::read_to_string(raw).unwrap();
        let kept: Vec<Moment> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(kept, joined.moments);
    }

    #[test]
    fn this_machine_has_counters() {
        let table = || File::open("/proc/net/snmp").unwrap();
        let place = tempfile::tempdir().unwrap();
        let raw = place.path().join("raw.jsonl");
        let hosts = Hosts { sender: table(), receiver: table(), are_one: true };
        let seen = Sampler::start(hosts, &raw).unwrap().stop().unwrap().until(f64::INFINITY);
        assert!(seen.sender.udp_receive_errors.is_some());
        assert_eq!(fs::read_to_string(&raw).unwrap().lines().count(), 2);
    }
}
