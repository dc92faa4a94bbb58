//! Flows from memory to memory over one emulated path: `path LINK LOSS SEED SECONDS FLOW...`.
//!
//! LINK is the name of one of the lab's profiles, or RATE/RTT/QUEUE like `200mbit/141ms/0.25bdp`. LOSS is a probability,
//! on the way to the receivers; 0 leaves the profile's own. A FLOW is `bbr3` (QUIC with our BBR), `bbr` (with the QUIC
//! library's), `cubic` (QUIC), `tcp-bbr` or `tcp-cubic` (the kernel's), with `@SECONDS` behind it where it starts later
//! than at once. Writes a row of `docs/benchmarks/bbr/*.csv` for each flow. Needs Linux, root and /dev/net/tun.

#[cfg(target_os = "linux")]
mod asked;
#[cfg(target_os = "linux")]
mod looks;
#[cfg(target_os = "linux")]
mod quic;
#[cfg(target_os = "linux")]
mod tcp;

#[cfg(target_os = "linux")]
#[expect(clippy::disallowed_methods, reason = "the threads that wait here carry nothing else")]
fn sleep(time: std::time::Duration) {
    std::thread::sleep(time);
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn main() -> Result<(), linux::Failure> {
    linux::main()
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        env,
        io::{self, Write as _},
        sync::atomic::AtomicU64,
        thread,
        time::{Duration, Instant},
    };

    use ketch_channel::PathStatistics;
    use ketch_lab::{
        Options, Path,
        report::{DirectionReport, Report},
        units::TcpMemory,
    };
    use rustix::time::{ClockId, clock_gettime};

    use crate::{
        asked::{Asked, Flow, Kind},
        looks::Looks,
        quic, tcp,
    };

    pub(crate) type Failure = Box<dyn std::error::Error + Send + Sync>;

    /// Room for a round trip of 1 Gbit/s and 141 ms, twice and more: not the buffers are to be measured.
    const TCP_MEMORY_BYTES: u64 = 64 << 20;

    pub(crate) fn main() -> Result<(), Failure> {
        let asked = Asked::read(&env::args().skip(1).collect::<Vec<_>>())?;
        let options = Options {
            seed: asked.seed,
            tcp_memory: TcpMemory::Bytes(TCP_MEMORY_BYTES),
            ..Options::default()
        };
        let path = Path::new(asked.profile.clone(), options)?;
        let arrived: Vec<AtomicU64> = asked.flows.iter().map(|_| AtomicU64::new(0)).collect();
        let started = Instant::now();

        let (looks, ends) = thread::scope(|scope| {
            let (path, arrived) = (&path, &arrived);
            let looking = scope.spawn(move || Looks::take(started, asked.time, arrived));
            let flows = asked.flows.iter().zip(arrived);
            let running: Vec<_> = flows
                .map(|(flow, arrived)| scope.spawn(move || run(path, flow, started, asked.time, arrived)))
                .collect();
            let ends = running.into_iter().map(|flow| flow.join().unwrap_or_else(|_| Err("a panic".into())));
            let ends: Vec<_> = ends.collect();
            (looking.join().expect("counting calls nothing that panics"), ends)
        });

        let report = path.finish()?;
        for (index, end) in ends.iter().enumerate() {
            writeln!(io::stdout(), "{}", row(&asked, index, &looks, end, &report)?)?;
        }
        Ok(())
    }

    /// One flow, from its start to the end of the run.
    fn run(
        path: &Path,
        flow: &Flow,
        started: Instant,
        time: Duration,
        arrived: &AtomicU64,
    ) -> Result<PathStatistics, Failure> {
        crate::sleep(flow.starts);
        let until = started + time;
        match &flow.kind {
            Kind::Quic(settings) => quic::run(path, settings.clone(), until, arrived),
            Kind::Tcp(controller) => tcp::run(path, *controller, until, arrived),
        }
    }

    fn row(
        asked: &Asked,
        index: usize,
        looks: &Looks,
        end: &Result<PathStatistics, Failure>,
        report: &Report,
    ) -> Result<String, Failure> {
        let flow = &asked.flows[index];
        let link = &report.a_to_b;
        let reached = looks.reached(index, flow.starts, asked.rate_to_reach_mbit());
        let fields = [
            asked.link.clone(),
            asked.loss.to_string(),
            asked.seed.to_string(),
            asked.time.as_secs().to_string(),
            asked.flow_names.join(" "),
            asked.flow_names[index].clone(),
            format!("{:.1}", looks.mbit(index, flow.starts, asked.time)),
            packets(end),
            format!("{:.5}", share(link.queue_dropped_packets, link)),
            format!("{:.5}", share(link.lost_packets, link)),
            format!("{:.1}", link.queue_delay.p50_us / 1e3),
            reached.map_or_else(String::new, |time| format!("{:.2}", time.as_secs_f64())),
            format!("{:.1}", cpu_s() - report.emulator_cpu_s),
            format!("{:.1}", report.emulator_cpu_s),
            report.host_b.udp_receive_buffer_errors.to_string(),
            end.as_ref().map_or_else(|error| plain(&error.to_string()), |_| "whole".into()),
            if report.valid { "yes".into() } else { plain(&report.invalid_because.join("; ")) },
            looks.each(index),
        ];
        Ok(fields.join(","))
    }

    /// Sent and lost packets by the sender's own account, as far as it keeps one.
    fn packets(end: &Result<PathStatistics, Failure>) -> String {
        let text = |count: Option<u64>| count.map_or_else(String::new, |count| count.to_string());
        let statistics = end.as_ref().ok().copied().unwrap_or_default();
        format!("{},{}", text(statistics.sent_packets), text(statistics.lost_packets))
    }

    fn share(packets: u64, link: &DirectionReport) -> f64 {
        packets as f64 / link.packets_in.max(1) as f64
    }

    /// As one field of a row.
    fn plain(text: &str) -> String {
        text.replace(',', "").replace('\n', " ")
    }

    /// What this process took so far, the emulator included.
    fn cpu_s() -> f64 {
        let time = clock_gettime(ClockId::ProcessCPUTime);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    }
}
