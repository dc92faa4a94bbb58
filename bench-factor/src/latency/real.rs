//! Two `ketch` over an emulated path: `send` on one host, `receive` into nothing on the other.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{Duration, Instant},
};

use ketch_channel::TransportKind;
use ketch_fixtures::digest::{Options, digest};
use serde_json::Value;

use super::{
    Condition,
    error::{LatencyError, io_error},
};
use crate::tools::{
    interrupt,
    place::{Route, SERVER, Where},
    process::End,
};

/// A sender listens within this time, though it counts first what it offers.
const READY_LIMIT: Duration = Duration::from_secs(60);

/// A copy takes no longer: one connection with the buffers of a new host carries 28 MB/s at 150 ms.
const COPY_LIMIT: Duration = Duration::from_secs(600);

/// A sender ends within this time after its peer.
const END_LIMIT: Duration = Duration::from_secs(20);

/// What all copies share.
#[derive(Debug)]
pub(crate) struct Setup {
    ketch: PathBuf,
    transport: TransportKind,
    /// Of the path, as `bench-factor link` takes it.
    rate: String,
    tcp_memory: Option<String>,
    /// Below it everything is made.
    scratch: PathBuf,
}

/// A copy that both ends and the digest say is one.
#[derive(Debug)]
pub(super) struct Copy {
    pub(super) files: u64,
    pub(super) content_bytes: u64,
    /// From the start of `receive` to its end.
    pub(super) wall: Duration,
    /// From the start of its dial until the connection stood.
    pub(super) dial: Duration,
    /// From its first word until every file could be used.
    pub(super) ready: Duration,
}

impl Setup {
    /// Makes this process what it has to be to emulate a path.
    pub(crate) fn new(
        ketch: Option<PathBuf>,
        transport: TransportKind,
        rate: String,
        tcp_memory: Option<String>,
        scratch: PathBuf,
    ) -> Result<Self, LatencyError> {
        let own = std::env::current_exe().map_err(io_error("find", Path::new("this program")))?;
        let ketch = ketch.unwrap_or_else(|| own.with_file_name("ketch"));
        let setup = Self { ketch, transport, rate, tcp_memory, scratch };
        // Whether the path can be said is known before anything is begun.
        setup.path(Duration::from_millis(1))?.gain_access()?;
        interrupt::hold()?;
        Ok(setup)
    }

    /// Copies what `condition` says; the ends must end well and the copy be one.
    pub(super) fn copy(&self, condition: &Condition) -> Result<Copy, LatencyError> {
        let place =
            tempfile::tempdir_in(&self.scratch).map_err(io_error("make a folder in", &self.scratch))?;
        let (source, target) = (place.path().join("source"), place.path().join("target"));
        let written = condition.work.shape().write(condition.seed, &source)?;
        let route = self.path(condition.round_trip)?.join()?;
        let (wall, said) = self.cross(&route, place.path(), condition.parallel)?;
        route.part()?;
        let [expected, found] =
            [&source, &target.join("source")].map(|tree| digest(tree, &Options::default()));
        if expected?.hex != found?.hex {
            return Err(LatencyError::Differs {
                work: condition.work.to_string(),
                parallel: condition.parallel,
            });
        }
        let (dial, ready) = (self.seconds(&said, "dial_s")?, self.seconds(&said, "ready_s")?);
        Ok(Copy { files: written.files, content_bytes: written.bytes, wall, dial, ready })
    }

    fn path(&self, round_trip: Duration) -> Result<Where, LatencyError> {
        let link = format!("{}@{}ms", self.rate, round_trip.as_millis());
        Ok(Where::new(Some(&link), self.tcp_memory.as_deref())?)
    }

    /// Runs both ends; returns how long the receiver ran, and what it said.
    fn cross(&self, route: &Route, place: &Path, parallel: u8) -> Result<(Duration, String), LatencyError> {
        let mut send = self.command(place, "sender");
        send.args(["send", "--new", "--json", "--listen", &self.listen_address(route)])
            .arg(place.join("source"));
        let mut sender = End::start_alone(route, SERVER, vec![send], &place.join("sender.log"))?;
        let ticket = sender.until(|_, said| text(said, "ticket"), READY_LIMIT)?;
        let mut receive = self.command(place, "receiver");
        receive.args([
            "receive",
            "--yes",
            "--json",
            "--durability",
            "none",
            "--connections",
            &parallel.to_string(),
        ]);
        receive.arg(ticket).arg(place.join("target"));
        let log = place.join("receiver.log");
        let began = Instant::now();
        let mut receiver = End::start_alone(route, SERVER.other(), vec![receive], &log)?;
        receiver.wait(COPY_LIMIT)?;
        let wall = began.elapsed();
        sender.wait(END_LIMIT)?;
        let said = fs::read_to_string(&log).map_err(io_error("read the events in", &log))?;
        Ok((wall, said))
    }

    fn command(&self, place: &Path, end: &str) -> Command {
        let mut command = Command::new(&self.ketch);
        command.arg("--state").arg(place.join(end));
        command
    }

    fn listen_address(&self, route: &Route) -> String {
        let ip = route.address(SERVER);
        match self.transport {
            TransportKind::Tcp => format!("/ip4/{ip}/tcp/0"),
            TransportKind::Quic => format!("/ip4/{ip}/udp/0/quic-v1"),
        }
    }

    fn seconds(&self, said: &str, field: &'static str) -> Result<Duration, LatencyError> {
        let seconds = first(said, |event| Duration::try_from_secs_f64(event.get(field)?.as_f64()?).ok());
        seconds.ok_or_else(|| LatencyError::Unsaid { program: self.ketch.clone(), missing: field })
    }
}

fn text(said: &str, field: &str) -> Option<String> {
    first(said, |event| Some(event.get(field)?.as_str()?.to_owned()))
}

/// What is found in the first event that has it, of those in whole lines; there is one JSON object a line.
fn first<T>(said: &str, found: impl Fn(&Value) -> Option<T>) -> Option<T> {
    let whole_lines = said.rsplit_once('\n')?.0.lines();
    whole_lines.filter_map(|line| serde_json::from_str(line).ok()).find_map(|event| found(&event))
}
