//! One observation: everything is made anew, the session is timed, the copy is compared, and everything is
//! removed.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use ketch_fixtures::{
    digest::{self, Pattern, digest},
    diverge::Divergence,
};

use super::{
    adapter::{Adapter, Ends, Ready, Server, Setup},
    error::{ToolsError, io_error},
    observation::{Measured, Outcome},
    place::{Route, SERVER, Traffic, Where},
    plan::Scenario,
    process::{End, Usage},
    schedule::Condition,
    source::Source,
    text::chain,
};

/// A server that is not ready after this long will not be: sendme, which hashes everything first, takes
/// ten seconds for 65,536 files.
const READY_LIMIT: Duration = Duration::from_secs(120);

/// A server that ends by itself does so within this time after its peer.
const END_LIMIT: Duration = Duration::from_secs(20);

/// What [`Divergence::Edit`] adds to the target alone, as a digest pattern.
const TARGET_ONLY: &str = "target-only*";

/// What all observations of a run share.
#[derive(Debug)]
pub(crate) struct Bench {
    pub(crate) place: Where,
    /// Whether the user is root, and not only that of a user namespace.
    pub(crate) root: bool,
    /// Everything that is made goes below this folder.
    pub(crate) scratch: PathBuf,
    pub(crate) ketch: PathBuf,
    pub(crate) bench_factor: PathBuf,
    pub(crate) seed: u64,
    /// For the timed commands of one session.
    pub(crate) limit: Duration,
}

/// What a session took.
struct Timing {
    prepare_s: f64,
    wall_s: f64,
    traffic: Traffic,
    server: Option<Usage>,
    timed: Usage,
}

impl Bench {
    /// Does what `condition` says. Only an interruption is an error; other failures are the outcome.
    pub(crate) fn observe(&self, condition: &Condition) -> Result<Outcome, ToolsError> {
        match self.measure(condition) {
            Err(ToolsError::Interrupted) => Err(ToolsError::Interrupted),
            Err(error) => Ok(Outcome::Failed(chain(&error))),
            Ok(outcome) => Ok(outcome),
        }
    }

    fn measure(&self, condition: &Condition) -> Result<Outcome, ToolsError> {
        let Condition { work, scenario, target, tool } = *condition;
        let adapter = tool.adapter();
        let scratch =
            tempfile::tempdir_in(&self.scratch).map_err(io_error("make a folder in", &self.scratch))?;
        let source = Source::make(adapter.source, work, self.seed, scratch.path())?;
        let target = target.make(scratch.path(), "target")?;
        let mut setup = self.setup(adapter, &source, target.root(), scratch.path())?;
        let mut least_bytes = source.summary.bytes;
        if scenario.has_copy() {
            self.run(&mut setup)?;
            least_bytes = self.diverge(scenario, &setup)?;
            setup.again = true;
        }
        let timing = self.run(&mut setup)?;
        let is_copy = is_copy(&source.tree, &setup.copy(), adapter)?;
        let measured = measured(&source, least_bytes, timing);
        target.close()?;
        source.close()?;
        Ok(if is_copy { Outcome::Verified(measured) } else { Outcome::Differs(measured) })
    }

    /// Makes the source and its copy differ as `scenario` says, whatever the tool left in them; returns the bytes
    /// that have to travel then.
    fn diverge(&self, scenario: Scenario, setup: &Setup) -> Result<u64, ToolsError> {
        let sidecars = patterns(&[setup.adapter.sidecars]);
        let apply =
            |divergence: Divergence| divergence.apply(self.seed, &setup.source, &setup.copy(), &sidecars);
        let summary = scenario.divergence().map(apply).transpose()?;
        Ok(summary.map_or(0, |summary| summary.least_bytes()))
    }

    fn setup(
        &self,
        adapter: &'static Adapter,
        source: &Source,
        target: &Path,
        scratch: &Path,
    ) -> Result<Setup, ToolsError> {
        let own = scratch.join("own");
        fs::create_dir(&own).map_err(io_error("make the folder", &own))?;
        Ok(Setup {
            adapter,
            source: source.given.clone(),
            target: target.to_owned(),
            scratch: own,
            address: Ipv4Addr::UNSPECIFIED.into(),
            port: 0,
            again: false,
            ketch: self.ketch.clone(),
            bench_factor: self.bench_factor.clone(),
        })
    }

    /// Runs one session from the start of its server to the end of both, over a route of its own, of which
    /// `setup` learns.
    fn run(&self, setup: &mut Setup) -> Result<Timing, ToolsError> {
        let route = self.place.join()?;
        setup.address = route.address(SERVER);
        setup.port = free_port()?;
        let began = Instant::now();
        let server = setup.adapter.server.map(|server| start(server(setup)?, &route, setup)).transpose()?;
        let prepare_s = began.elapsed().as_secs_f64();
        let said = server.as_ref().map_or("", |(_, _, said)| said);
        let commands = (setup.adapter.commands)(setup, said)?;
        let began = Instant::now();
        let mut timed = End::start(&route, SERVER.other(), commands, &setup.scratch.join("timed.log"))?;
        timed.wait(self.limit)?;
        let wall_s = began.elapsed().as_secs_f64();
        let server = server.map(|(end, ends, _)| finish(end, ends)).transpose()?;
        let timed = timed.usage();
        Ok(Timing { prepare_s, wall_s, traffic: route.part()?, server, timed })
    }
}

/// Starts a server and waits until it is ready; returns what it said then.
fn start(server: Server, route: &Route, setup: &Setup) -> Result<(End, Ends, String), ToolsError> {
    let Server { command, ready, ends } = server;
    let mut end = End::start(route, SERVER, vec![command], &setup.scratch.join("server.log"))?;
    let port = setup.port;
    let said = end.until(
        |process, said| match ready {
            Ready::Listens => listens(process, port).then(String::new),
            Ready::Says(find) => find(said),
        },
        READY_LIMIT,
    )?;
    Ok((end, ends, said))
}

fn finish(mut end: End, ends: Ends) -> Result<Usage, ToolsError> {
    match ends {
        Ends::Itself => end.wait(END_LIMIT)?,
        Ends::Told => end.stop()?,
    }
    Ok(end.usage())
}

fn measured(source: &Source, least_bytes: u64, timing: Timing) -> Measured {
    let Timing { prepare_s, wall_s, traffic, server, timed } = timing;
    let (files, content_bytes) = (source.summary.files, source.summary.bytes);
    Measured { files, content_bytes, least_bytes, prepare_s, wall_s, traffic, server, timed }
}

/// Whether the files of two trees are equal, what the tool is known to leave aside.
fn is_copy(tree: &Path, copy: &Path, adapter: &Adapter) -> Result<bool, ToolsError> {
    let kept: &[&str] = if adapter.deletes { &[] } else { &[TARGET_ONLY] };
    let expected = digest(tree, &digest::Options { full: false, ignore: patterns(&[adapter.sidecars]) })?;
    let found = digest(copy, &digest::Options { full: false, ignore: patterns(&[adapter.sidecars, kept]) })?;
    Ok(expected.hex == found.hex)
}

fn patterns(globs: &[&[&str]]) -> Vec<Pattern> {
    globs.concat().into_iter().map(Pattern::new).collect()
}

/// A TCP port on which nobody listens. Somebody else may take it before it is used; the session then fails.
fn free_port() -> Result<u16, ToolsError> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    Ok(listener.map_err(io_error("find a free port on", Path::new("127.0.0.1")))?.port())
}

/// Whether somebody on the host of `process` listens on a TCP port. A trial connection would tell too, but
/// be the one that a server of one session waits for. Reading a table takes the kernel some milliseconds.
fn listens(process: u32, port: u16) -> bool {
    ["tcp", "tcp6"].into_iter().any(|table| {
        let table = fs::read_to_string(format!("/proc/{process}/net/{table}"));
        table.is_ok_and(|table| lists_listener(&table, port))
    })
}

/// Whether a table as of proc(5) has a socket in the state LISTEN (`0A`) with this local port.
fn lists_listener(table: &str, port: u16) -> bool {
    let local = format!(":{port:04X}");
    table.lines().skip(1).any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let is_local = fields.next().is_some_and(|address| address.ends_with(&local));
        is_local && fields.nth(1) == Some("0A")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_listening_socket_with_the_port_counts() {
        let table = "  sl  local_address rem_address   st tx_queue\n   0: 0100007F:1F90 00000000:0000 0A 0:0\n   1: 0100007F:0016 0100007F:1F91 01 0:0\n";
        assert!(lists_listener(table, 8_080));
        assert!(!lists_listener(table, 22));
        assert!(!lists_listener(table, 8_081));
    }

    #[test]
    fn a_listener_of_this_host_is_seen_while_it_is_there() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        assert!(listens(std::process::id(), port));
    }
}
