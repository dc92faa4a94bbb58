//! Where the two ends of a session are: on one machine's loopback, or on two hosts joined by an emulated
//! path. Adapters write commands; this decides where they run and what crossed between them.

use std::{
    fmt,
    fs::{self, File},
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket},
    os::unix::process::CommandExt,
    path::Path,
    process::{Child, Command},
    time::Duration,
};

use ketch_lab::{
    Options, Running, Side,
    model::{Jitter, Loss},
    profile::Profile,
    report::Report,
    udp_receive_buffer_errors,
    units::{Queue, Rate, TcpMemory, UnitError, parse_ns},
};

use serde::Deserialize;

use super::error::{ToolsError, io_error};
use crate::cold_path::ColdPath;

/// Where a tool's server runs; the commands that are timed run on the other side.
pub(crate) const SERVER: Side = Side::A;

/// Where a plan runs.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Where {
    /// Both ends on this host, joined by `lo`.
    Loopback(Keeping),
    /// Each end on a host of its own, joined by a path with this profile.
    Link(Box<Link>),
}

/// An emulated path, and what it is called in rows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Link {
    name: String,
    profile: Profile,
    tcp_memory: TcpMemory,
}

/// A path that a plan describes; it is alike both ways. Quantities are written as `bench-factor link` takes them.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PathText {
    rate: String,
    rtt: String,
    /// What the bottleneck's queue holds.
    #[serde(default = "one_bdp")]
    queue: String,
    #[serde(default = "zero")]
    loss: String,
    /// Of each direction.
    #[serde(default)]
    jitter: Option<String>,
    /// The limit of the TCP buffers of both hosts; as a new host has it where none is said.
    #[serde(default)]
    tcp_mem: Option<String>,
}

/// What becomes of processes and mounts on this host when this program is killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Keeping {
    /// They are gone, as this program is root and holds them.
    Held,
    /// They stay.
    Loose,
}

/// What joins the ends of one session.
#[derive(Debug)]
pub(crate) enum Route {
    /// `lo`, and what this host had counted before.
    Loopback(Keeping, Traffic),
    /// A path that was made for this session.
    Link(Box<ketch_lab::Path>),
}

/// What was counted between the ends, of both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Traffic {
    /// What crossed, with its IP headers.
    pub(crate) wire_bytes: u64,
    /// Datagrams that found the receive buffer of their socket full, at either end.
    pub(crate) udp_receive_errors: u64,
}

/// A process of either end.
#[derive(Debug)]
pub(crate) enum Held {
    /// It leads a process group.
    Loose(Child),
    /// This process guards it and leads its group.
    Guarded(Running),
}

impl Where {
    /// Where a plan that names `link`, or does not, runs: a profile, or `RATE@RTT` for a path with nothing out of the
    /// ordinary. `tcp_memory` is the limit of the TCP buffers of both its hosts.
    pub(crate) fn new(link: Option<&str>, tcp_memory: Option<&str>) -> Result<Self, ToolsError> {
        let Some(name) = link else { return Ok(Self::Loopback(Keeping::Loose)) };
        let profile = match name.split_once('@') {
            Some((rate, round_trip)) => even(rate, round_trip).map_err(unreadable)?,
            None => Profile::named(name)?,
        };
        let (name, tcp_memory) = match tcp_memory {
            Some(size) => (format!("{name} tcp-mem {size}"), size.parse().map_err(unreadable)?),
            None => (name.to_owned(), TcpMemory::default()),
        };
        Ok(Self::Link(Box::new(Link { name, profile, tcp_memory })))
    }

    /// A path called `name` that `text` describes.
    pub(crate) fn described(name: &str, text: &PathText) -> Result<Self, ToolsError> {
        let profile = text.profile().map_err(unreadable)?;
        let tcp_memory = text.tcp_mem.as_deref().map(str::parse).transpose().map_err(unreadable)?;
        let tcp_memory = tcp_memory.unwrap_or_default();
        Ok(Self::Link(Box::new(Link { name: name.to_owned(), profile, tcp_memory })))
    }

    /// How the model sees the path to the timed commands.
    pub(crate) fn cold_path(&self) -> Option<ColdPath> {
        match self {
            Self::Loopback(_) => None,
            Self::Link(link) => Some(ColdPath {
                bits_per_second: link.profile.a_to_b.rate.bits_per_second(),
                round_trip: Duration::from_nanos(link.profile.rtt_ns()),
            }),
        }
    }

    /// Makes this process, while it has one thread, what it has to be to join ends here, and the owner of what it
    /// mounts and starts where it may.
    pub(crate) fn gain_access(&mut self) -> Result<(), ToolsError> {
        if let Self::Link(_) = self {
            ketch_lab::gain_access()?;
        }
        let owned = ketch_lab::own_mounts().is_ok();
        if let (Self::Loopback(keeping), true) = (self, owned) {
            *keeping = Keeping::Held;
        }
        Ok(())
    }

    /// Whether commands run as whoever started this program, and not as the root of a user namespace.
    pub(crate) fn keeps_user(&self) -> bool {
        match self {
            Self::Loopback(_) => true,
            Self::Link(_) => false,
        }
    }

    /// Whether what a command mounts can be seen from here.
    pub(crate) fn shares_mounts(&self) -> bool {
        match self {
            Self::Loopback(_) => true,
            Self::Link(_) => false,
        }
    }

    /// Joins the ends for one session.
    pub(crate) fn join(&self) -> Result<Route, ToolsError> {
        self.join_seeded(Options::default().seed)
    }

    /// Joins them by a path of which `seed` decides what is lost and delayed.
    pub(crate) fn join_seeded(&self, seed: u64) -> Result<Route, ToolsError> {
        match self {
            Self::Loopback(keeping) => Route::here(*keeping),
            Self::Link(link) => {
                let options = Options { seed, tcp_memory: link.tcp_memory, ..Options::default() };
                Ok(Route::Link(Box::new(ketch_lab::Path::new(link.profile.clone(), options)?)))
            }
        }
    }
}

impl Route {
    /// Both ends on this host.
    pub(crate) fn here(keeping: Keeping) -> Result<Self, ToolsError> {
        Ok(Self::Loopback(keeping, Traffic::of_this_host()?))
    }

    /// The address of a side, as the other one dials it.
    pub(crate) fn address(&self, side: Side) -> IpAddr {
        match self {
            Self::Loopback(..) => Ipv4Addr::LOCALHOST.into(),
            Self::Link(path) => path.address(side),
        }
    }

    /// A socket on a side, with some port of its address.
    pub(crate) fn bind_udp(&self, side: Side) -> Result<UdpSocket, ToolsError> {
        let own = self.address(side);
        let bind = || UdpSocket::bind((own, 0));
        let bound = match self {
            Self::Loopback(..) => bind(),
            Self::Link(path) => path.enter(side, bind)?,
        };
        bound.map_err(io_error("open a socket at", Path::new(&own.to_string())))
    }

    /// A listener on a side, at some port of its address.
    pub(crate) fn listen_tcp(&self, side: Side) -> Result<TcpListener, ToolsError> {
        let own = self.address(side);
        let listen = || TcpListener::bind((own, 0));
        let listening = match self {
            Self::Loopback(..) => listen(),
            Self::Link(path) => path.enter(side, listen)?,
        };
        listening.map_err(io_error("listen at", Path::new(&own.to_string())))
    }

    /// A connection from a side to `address`.
    pub(crate) fn dial_tcp(
        &self,
        side: Side,
        address: SocketAddr,
        patience: Duration,
    ) -> Result<TcpStream, ToolsError> {
        let dial = || TcpStream::connect_timeout(&address, patience);
        let dialed = match self {
            Self::Loopback(..) => dial(),
            Self::Link(path) => path.enter(side, dial)?,
        };
        dialed.map_err(io_error("connect to", Path::new(&address.to_string())))
    }

    /// The counters of a side's network, open: what is read is always that of its host.
    pub(crate) fn counters(&self, side: Side) -> Result<File, ToolsError> {
        self.table(side, Path::new("/proc/thread-self/net/snmp"))
    }

    /// Those that Linux keeps beside the standard ones, such as of the bytes of all IP packets.
    pub(crate) fn packet_counters(&self, side: Side) -> Result<File, ToolsError> {
        self.table(side, Path::new("/proc/thread-self/net/netstat"))
    }

    fn table(&self, side: Side, table: &Path) -> Result<File, ToolsError> {
        let open = || File::open(table);
        let opened = match self {
            Self::Loopback(..) => open(),
            Self::Link(path) => path.enter(side, open)?,
        };
        opened.map_err(io_error("read the counters in", table))
    }

    /// Whether both sides are one host.
    pub(crate) fn is_one_host(&self) -> bool {
        match self {
            Self::Loopback(..) => true,
            Self::Link(_) => false,
        }
    }

    /// Starts `command` on a side.
    pub(crate) fn start(&self, side: Side, mut command: Command) -> Result<Held, ToolsError> {
        match self {
            Self::Loopback(Keeping::Held, _) => Ok(Held::Guarded(Running::here(command)?)),
            Self::Loopback(Keeping::Loose, _) => {
                let program = command.get_program().to_string_lossy().into_owned();
                let child = command.process_group(0).spawn();
                Ok(Held::Loose(child.map_err(|source| ToolsError::Start { program, source })?))
            }
            Self::Link(path) => Ok(Held::Guarded(path.spawn(side, command)?)),
        }
    }

    /// Parts the ends; returns what was counted meanwhile. A path that was not what it was asked to be is an error.
    pub(crate) fn part(self) -> Result<Traffic, ToolsError> {
        match self {
            Self::Loopback(_, before) => Ok(Traffic::of_this_host()?.since(before)),
            Self::Link(path) => Traffic::of_link(&path.finish()?),
        }
    }
}

impl Traffic {
    /// All that this host has counted, whoever caused it.
    fn of_this_host() -> Result<Self, ToolsError> {
        let udp_receive_errors = udp_receive_buffer_errors()
            .map_err(io_error("read the counters in", Path::new("/proc/net/snmp")))?;
        Ok(Self { wire_bytes: sent_bytes("lo")?, udp_receive_errors })
    }

    fn since(self, before: Self) -> Self {
        Self {
            wire_bytes: self.wire_bytes - before.wire_bytes,
            udp_receive_errors: self.udp_receive_errors - before.udp_receive_errors,
        }
    }

    fn of_link(report: &Report) -> Result<Self, ToolsError> {
        if !report.valid {
            return Err(ToolsError::InvalidLink { why: report.invalid_because.join(", ") });
        }
        let errors = [&report.host_a, &report.host_b].map(|host| host.udp_receive_buffer_errors);
        Ok(Self {
            wire_bytes: report.a_to_b.bytes_in + report.b_to_a.bytes_in,
            udp_receive_errors: errors.iter().sum(),
        })
    }
}

impl Held {
    /// The process that stands for it.
    pub(crate) fn id(&self) -> u32 {
        match self {
            Self::Loose(child) => child.id(),
            Self::Guarded(running) => running.id(),
        }
    }

    /// Waits for its end.
    pub(crate) fn wait(&mut self) -> io::Result<std::process::ExitStatus> {
        match self {
            Self::Loose(child) => child.wait(),
            Self::Guarded(running) => running.child().wait(),
        }
    }
}

impl fmt::Display for Where {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Loopback(_) => "loopback",
            Self::Link(link) => &link.name,
        })
    }
}

impl PathText {
    fn profile(&self) -> Result<Profile, UnitError> {
        let rate: Rate = self.rate.parse()?;
        let mut profile = Profile::even(rate, parse_ns(&self.rtt)?, self.queue.parse()?);
        let loss: Loss = self.loss.parse()?;
        let jitter = self.jitter.as_deref().map(parse_ns).transpose()?.map(Jitter::even).unwrap_or_default();
        for direction in [&mut profile.a_to_b, &mut profile.b_to_a] {
            (direction.loss, direction.jitter) = (loss, jitter);
        }
        Ok(profile)
    }
}

fn one_bdp() -> String {
    "1bdp".into()
}

fn zero() -> String {
    "0".into()
}

fn even(rate: &str, round_trip: &str) -> Result<Profile, UnitError> {
    let (rate, round_trip_ns): (Rate, _) = (rate.parse()?, parse_ns(round_trip)?);
    Ok(Profile::even(rate, round_trip_ns, Queue::Bdp(1.0)))
}

fn unreadable(error: UnitError) -> ToolsError {
    ToolsError::Asked { asked: "a link that cannot be".into(), reason: error.to_string() }
}

/// What an interface of this host has sent. On `lo` that is what both ends have.
fn sent_bytes(interface: &'static str) -> Result<u64, ToolsError> {
    let path = Path::new("/proc/net/dev");
    let table = fs::read_to_string(path).map_err(io_error("read the counters in", path))?;
    sent_in(&table, interface).ok_or_else(|| ToolsError::Counters { path: path.to_owned(), interface })
}

/// The ninth number after the name of an interface, as proc(5) lays the table out.
fn sent_in(table: &str, interface: &str) -> Option<u64> {
    let line = table.lines().find_map(|line| line.trim_start().strip_prefix(interface)?.strip_prefix(':'))?;
    line.split_whitespace().nth(8)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sent_bytes_of_an_interface_are_found() {
        let table = "Inter-|   Receive  |  Transmit\n face |bytes packets\n   lo0:  1 2 3 4 5 6 7 8 9 10\n    lo: 11 2 3 4 5 6 7 8 99 10\n";
        assert_eq!(sent_in(table, "lo"), Some(99));
        assert_eq!(sent_in(table, "eth0"), None);
    }

    #[test]
    fn a_link_that_no_profile_names_is_refused() {
        assert_eq!(Where::new(None, None).unwrap(), Where::Loopback(Keeping::Loose));
        assert_eq!(Where::new(Some("lan"), None).unwrap().to_string(), "lan");
        for (link, memory, named) in [
            ("moon", None, "moon"),
            ("fast@1s", None, "fast"),
            ("1mbit@soon", None, "soon"),
            ("lan", Some("64X"), "64X"),
        ] {
            let error = Where::new(Some(link), memory).unwrap_err().to_string();
            assert!(error.contains(named), "{error}");
        }
    }

    #[test]
    fn a_link_may_be_described() {
        let text = "rate = '200mbit'\nrtt = '141ms'\nloss = '0.001'\njitter = '5ms'\ntcp_mem = '64M'";
        let text: PathText = toml::from_str(text).unwrap();
        let Where::Link(link) = Where::described("lossy", &text).unwrap() else { panic!("it is a link") };
        assert_eq!(link.profile.rtt_ns(), 141_000_000);
        assert_eq!(link.profile.b_to_a.loss, Loss::independent(0.001));
        assert_eq!(link.profile.a_to_b.jitter, Jitter::even(5_000_000));
        let wrong = PathText { loss: "much".into(), ..text };
        assert!(Where::described("lossy", &wrong).unwrap_err().to_string().contains("much"));
    }

    #[test]
    fn a_link_may_be_made_of_a_rate_and_a_round_trip() {
        let place = Where::new(Some("100mbit@262ms"), Some("64M")).unwrap();
        assert_eq!(place.to_string(), "100mbit@262ms tcp-mem 64M");
        let expected = ColdPath { bits_per_second: 100_000_000, round_trip: Duration::from_millis(262) };
        assert_eq!(place.cold_path(), Some(expected));
    }
}
