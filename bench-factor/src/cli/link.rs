//! `link`: runs commands on two hosts that an emulated path joins, and measures that path itself.

use std::{
    fs::{self, File},
    io::{self, Write as _},
    path::PathBuf,
    process::{Command, ExitCode, ExitStatus},
    str::FromStr,
    time::Duration,
};

use anyhow::Context as _;
use clap::{Args, Subcommand};
use ketch_lab::{
    Crossing, Internet, Options, Path, Running, Uplink,
    model::{Jitter, Loss},
    probe::{DirectionProbe, ProbeReport},
    profile::Profile,
    report::{DirectionReport, Report},
    units::{Queue, Rate, TcpMemory, UnitError, parse_ns},
    validation::{self, Row},
};
use serde::Serialize;

#[derive(Debug, Subcommand)]
pub(super) enum Link {
    /// Run one command on each host; ends as the one on A does
    Run {
        #[command(flatten)]
        emulation: Emulation,
        /// What host A runs, by `sh -c`; PEER_IP and PEER_IP6 name host B
        #[arg(long, value_name = "CMD")]
        a: String,
        /// What host B runs; it is started first, and ended when A's ends
        #[arg(long, value_name = "CMD")]
        b: String,
    },
    /// Be on host A, with PEER_IP and PEER_IP6 naming host B
    Shell {
        #[command(flatten)]
        emulation: Emulation,
        /// What host B runs meanwhile
        #[arg(long, value_name = "CMD")]
        b: Option<String>,
    },
    /// Be, or run a command, on one of two hosts behind routers; ends as that does
    Nat {
        #[command(flatten)]
        emulation: Emulation,
        #[command(flatten)]
        homes: Homes,
    },
    /// Measure the emulated path itself; ends with 1 when it is not as asked
    Probe {
        #[command(flatten)]
        emulation: Emulation,
    },
    /// Compare the emulator with theory, in rows of CSV; ends with 1 when they disagree
    ///
    /// Takes about four minutes, and a machine that has nothing else to do.
    Validate,
}

/// What is behind which router, and does what. All commands see A_IP, B_IP and RELAY_IP, the public addresses
/// of the hosts, and OWN_IP; with 6 at the end those of IPv6.
#[derive(Debug, Args)]
pub(super) struct Homes {
    /// How host A is attached: public, ipv6-only, cone, full-cone, symmetric, udp-blocked, upnp or firewall
    #[arg(long, value_name = "UPLINK")]
    a: Uplink,
    /// How host B is attached
    #[arg(long, value_name = "UPLINK")]
    b: Uplink,
    /// What host A runs, by `sh -c`, instead of a shell for you
    #[arg(long, value_name = "CMD")]
    run_a: Option<String>,
    /// What host B runs; it is started before A's, and ended when that ends
    #[arg(long, value_name = "CMD")]
    run_b: Option<String>,
    /// What a third, public host runs; it is started first, and ended last
    #[arg(long, value_name = "CMD")]
    run_relay: Option<String>,
}

/// The path and how it is emulated. What may differ by direction is written `A-TO-B/B-TO-A`.
#[derive(Debug, Args)]
pub(super) struct Emulation {
    /// A path from the table: lan, wifi, de-us-100, de-us-200, de-us-1g, satellite or mobile, each also with
    /// -shallow or -lossy behind it
    #[arg(long, value_name = "NAME", required_unless_present = "rtt")]
    profile: Option<String>,
    /// How fast the bottleneck is, like 200mbit or 20mbit/100mbit
    #[arg(long, value_name = "RATE", conflicts_with = "profile", default_value = "200mbit")]
    rate: BothWays<Rate>,
    /// The round-trip time, half of it in each direction
    #[arg(long, value_name = "TIME", conflicts_with = "profile", value_parser = parse_ns)]
    rtt: Option<u64>,
    /// How much the bottleneck's queue holds, like 0.25bdp or 64K [default: 1bdp, or the profile's]
    #[arg(long, value_name = "SIZE")]
    queue: Option<BothWays<Queue>>,
    /// The share of packets lost behind the bottleneck, like 0.001, or 0.001:10 in bursts of ten [default: 0,
    /// or the profile's]
    #[arg(long, value_name = "SHARE")]
    loss: Option<BothWays<Loss>>,
    /// By how much the delay of each direction varies [default: 0, or the profile's]
    #[arg(long, value_name = "TIME", value_parser = parse_ns)]
    jitter: Option<u64>,
    /// Another seed loses other packets
    #[arg(long, value_name = "N", default_value_t = 7)]
    seed: u64,
    /// The limit of the TCP buffers of both hosts: stock, or a size like 64M
    #[arg(long, value_name = "SIZE", default_value = "stock")]
    tcp_mem: TcpMemory,
    /// Let no super-packets cross between the kernel and the emulator
    #[arg(long)]
    plain: bool,
    /// Write what happened on the path to this file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
}

/// A quantity of each direction.
#[derive(Debug, Clone, Copy)]
struct BothWays<T> {
    a_to_b: T,
    b_to_a: T,
}

impl<T: FromStr<Err = UnitError> + Copy> FromStr for BothWays<T> {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<Self, UnitError> {
        let (a_to_b, b_to_a) = text.split_once('/').unwrap_or((text, text));
        Ok(Self { a_to_b: a_to_b.parse()?, b_to_a: b_to_a.parse()? })
    }
}

pub(super) fn run(link: Link, out: &mut impl io::Write) -> anyhow::Result<ExitCode> {
    ketch_lab::gain_access()?;
    if let Some(emulation) = link.emulation() {
        emulation.try_report()?;
    }
    match link {
        Link::Run { emulation, a, b } => {
            let path = emulation.path()?;
            let status = path.run_both(by_shell(&a), by_shell(&b))?;
            conclude(path, &emulation, status)
        }
        Link::Shell { emulation, b } => {
            let path = emulation.path()?;
            let status = path.run_shell(own_shell(), b.as_deref().map(by_shell))?;
            conclude(path, &emulation, status)
        }
        Link::Nat { emulation, homes } => run_nat(&emulation, &homes),
        Link::Validate => validate(out),
        Link::Probe { emulation } => {
            let probe = ketch_lab::probe::probe(emulation.path()?)?;
            emulation.write_report(&probe)?;
            print_probe(&probe, out)?;
            Ok(if probe.as_asked { ExitCode::SUCCESS } else { ExitCode::FAILURE })
        }
    }
}

impl Link {
    fn emulation(&self) -> Option<&Emulation> {
        match self {
            Self::Run { emulation, .. }
            | Self::Shell { emulation, .. }
            | Self::Nat { emulation, .. }
            | Self::Probe { emulation } => Some(emulation),
            Self::Validate => None,
        }
    }
}

impl Emulation {
    fn path(&self) -> anyhow::Result<Path> {
        Ok(Path::new(self.profile()?, self.options())?)
    }

    fn options(&self) -> Options {
        let crossing = if self.plain { Crossing::Plain } else { Crossing::Super };
        Options { seed: self.seed, tcp_memory: self.tcp_mem, crossing }
    }

    fn profile(&self) -> anyhow::Result<Profile> {
        let mut profile = match (&self.profile, self.rtt) {
            (None, Some(rtt_ns)) => self.unnamed(rtt_ns),
            (name, _) => Profile::named(name.as_deref().unwrap_or_default())?,
        };
        let rtt_ns = profile.rtt_ns();
        if let Some(queue) = self.queue {
            profile.a_to_b.queue_bytes = queue.a_to_b.bytes(profile.a_to_b.rate, rtt_ns);
            profile.b_to_a.queue_bytes = queue.b_to_a.bytes(profile.b_to_a.rate, rtt_ns);
        }
        if let Some(loss) = self.loss {
            (profile.a_to_b.loss, profile.b_to_a.loss) = (loss.a_to_b, loss.b_to_a);
        }
        if let Some(jitter_ns) = self.jitter {
            let jitter = Jitter::even(jitter_ns);
            (profile.a_to_b.jitter, profile.b_to_a.jitter) = (jitter, jitter);
        }
        Ok(profile)
    }

    fn unnamed(&self, rtt_ns: u64) -> Profile {
        let [a_to_b, b_to_a] =
            [self.rate.a_to_b, self.rate.b_to_a].map(|rate| Profile::even(rate, rtt_ns, Queue::Bdp(1.0)));
        Profile { b_to_a: b_to_a.b_to_a, ..a_to_b }
    }

    /// Fails if the report could not be written, before a run that would be in vain.
    fn try_report(&self) -> anyhow::Result<()> {
        let Some(file) = &self.report else { return Ok(()) };
        let opened = File::options().create(true).append(true).open(file);
        opened.map(drop).with_context(|| format!("cannot write the report to {}", file.display()))
    }

    fn write_report(&self, report: &impl Serialize) -> anyhow::Result<()> {
        let Some(file) = &self.report else { return Ok(()) };
        let json = serde_json::to_vec_pretty(report).context("cannot put the report into JSON")?;
        fs::write(file, json).with_context(|| format!("cannot write the report to {}", file.display()))
    }
}

fn by_shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// The shell that the user has.
fn own_shell() -> Command {
    Command::new(std::env::var_os("SHELL").unwrap_or_else(|| "sh".into()))
}

fn run_nat(emulation: &Emulation, homes: &Homes) -> anyhow::Result<ExitCode> {
    let members = [("a", homes.a), ("b", homes.b), ("relay", Uplink::Public)];
    let profile = emulation.profile()?;
    let internet = Internet::new(&members, &profile, emulation.options())?;
    let member = |name: &str| internet.member(name).with_context(|| format!("no host is named {name}"));
    let start =
        |name: &str, script: &str| -> anyhow::Result<Running> { Ok(member(name)?.spawn(by_shell(script))?) };
    let relay = homes.run_relay.as_deref().map(|script| start("relay", script)).transpose()?;
    let b = homes.run_b.as_deref().map(|script| start("b", script)).transpose()?;
    let status = match &homes.run_a {
        Some(script) => start("a", script)?.wait()?,
        None => member("a")?.run_shell(own_shell())?,
    };
    let drain = 2 * Duration::from_nanos(profile.rtt_ns());
    for running in [b, relay].into_iter().flatten() {
        running.wind_up(drain)?;
    }
    let report = internet.finish()?;
    emulation.write_report(&report)?;
    warn_of(&report.invalid_because);
    Ok(exit_as(status))
}

/// Writes each row once it is known, as all of them take a while.
fn validate(out: &mut impl io::Write) -> anyhow::Result<ExitCode> {
    writeln!(out, "quantity,path,expected,measured,allowed,agrees,faults")?;
    let mut all_agree = true;
    for comparison in validation::COMPARISONS {
        for row in comparison()? {
            all_agree &= row.agrees();
            write_row(&row, out)?;
        }
    }
    Ok(if all_agree { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn write_row(row: &Row, out: &mut impl io::Write) -> io::Result<()> {
    let Row { quantity, path, expected, measured, allowed, faults } = row;
    let (agrees, faults) = (if row.agrees() { "yes" } else { "no" }, faults.join("; "));
    writeln!(out, "\"{quantity}\",{path},{expected:.3},{measured:.3},{allowed:.3},{agrees},\"{faults}\"")?;
    out.flush()
}

/// Reports on the path and ends as the command on host A did.
fn conclude(path: Path, emulation: &Emulation, status: ExitStatus) -> anyhow::Result<ExitCode> {
    let report = path.finish()?;
    emulation.write_report(&report)?;
    // Standard output is that of the commands.
    let _ = summarise(&report, &mut io::stderr());
    warn_of(&report.invalid_because);
    Ok(exit_as(status))
}

fn exit_as(status: ExitStatus) -> ExitCode {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.map_or(ExitCode::FAILURE, ExitCode::from)
}

fn warn_of(faults: &[String]) {
    for fault in faults {
        // Standard output is that of the commands.
        let _ = writeln!(io::stderr(), "link: this run is invalid: {fault}");
    }
}

fn summarise(report: &Report, out: &mut impl io::Write) -> io::Result<()> {
    for (name, direction) in [("a to b", &report.a_to_b), ("b to a", &report.b_to_a)] {
        let DirectionReport { packets_in, bytes_in, packets_out, bytes_out, .. } = direction;
        let (dropped, lost) = (direction.queue_dropped_packets, direction.lost_packets);
        write!(out, "link: {name}: {packets_in} packets ({bytes_in} bytes) in, ")?;
        writeln!(out, "{packets_out} ({bytes_out}) out, {dropped} dropped by the queue, {lost} lost")?;
    }
    Ok(())
}

fn print_probe(probe: &ProbeReport, out: &mut impl io::Write) -> io::Result<()> {
    for (name, direction) in [("a to b", &probe.a_to_b), ("b to a", &probe.b_to_a)] {
        print_direction(name, direction, out)?;
    }
    probe.path.invalid_because.iter().try_for_each(|fault| writeln!(out, "off: {fault}"))
}

fn print_direction(name: &str, probe: &DirectionProbe, out: &mut impl io::Write) -> io::Result<()> {
    if let (Some(p50_ms), Some(p99_ms)) = (probe.delay_error_p50_ms, probe.delay_error_p99_ms) {
        let percentile = format!("{p99_ms:.3} ms at the 99th percentile");
        writeln!(out, "{name}: delay error: {p50_ms:.3} ms at the median, {percentile}")?;
    }
    writeln!(out, "{name}: rate: {:.2} Mbit/s, {:.2} asked", probe.rate_mbit, probe.asked_rate_mbit)?;
    let (lost, asked) = (probe.lost_packets, probe.asked_lost_packets);
    writeln!(out, "{name}: lost: {lost} of {} packets, {asked:.1} expected", probe.packets)?;
    probe.off.iter().try_for_each(|what| writeln!(out, "off: {name}: {what}"))
}
