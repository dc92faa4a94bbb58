//! A study between this machine and another one, which is reached by ssh. This one is the target and holds the clock; the
//! other one is the source.
//!
//! [`Remote`] is the runner's view of it. [`upload`] brings the executables there and starts the [`agent`], which the
//! [`channel`] leads to as long as the run lasts; both sides speak [`message`]s. The agent opens and closes the data port
//! with its [`gate`]. The system's `ssh` is used (decision 0028), so that the user's keys, names and jump hosts count.

mod agent;
mod channel;
mod error;
mod gate;
mod message;
mod upload;

use std::{
    cell::RefCell,
    collections::BTreeMap,
    net::{IpAddr, SocketAddr, ToSocketAddrs as _},
    path::{Path, PathBuf},
    process::Command,
    time::Duration,
};

use ketch_protocol::path::escape;

pub(crate) use self::{
    agent::{Options as AgentOptions, run as run_agent},
    error::RemoteError,
};
use self::{
    channel::Channel,
    message::{Beginning, Reply, Request},
    upload::{Executable, Said},
};
use super::{
    error::{RunError, run_io_error},
    plan::{LOOPBACK, Plan, Planned, THIS_PROGRAM},
    programs::{self, Programs},
    sampler::Sampled,
    stage::{END_LIMIT, READY_LIMIT},
    words,
};
use crate::{
    study::PORT,
    tools::{plan::Work, process::run},
};

/// Where probes are answered: beside the data port.
const ECHO_PORT: u16 = PORT + 1;

/// A login, the copy of the executables, and the end of an agent that is still there.
const HELLO_LIMIT: Duration = Duration::from_secs(300);

/// Sources of a plan are at most some gigabytes, and a slow disk writes 100 MB/s.
const BEGIN_LIMIT: Duration = Duration::from_secs(600);

/// What an answer may take beside what the agent itself waits for.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// Lines that a login may print before our own.
const LOGIN_LINES: usize = 1_000;

/// For errors: what came is a reply, and not to this.
const ASTRAY: &str = "another question";

/// What ssh is told beside the user's own configuration: no question to anybody, no terminal, one connection that is ours,
/// and an end of it a minute after the last sign of life.
const SSH_OPTIONS: [&str; 6] = [
    "BatchMode=yes",
    "RequestTTY=no",
    "ControlMaster=no",
    "ControlPath=none",
    "ServerAliveInterval=15",
    "ServerAliveCountMax=4",
];

/// Which host, and how it is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Destination {
    /// As ssh takes it: `user@host`, or a name of its configuration.
    pub(crate) host: String,
    /// A configuration in place of the user's.
    pub(crate) ssh_config: Option<PathBuf>,
    /// Where the data port is dialed, if not where ssh connects to.
    pub(crate) address: Option<IpAddr>,
    /// Where this machine dials from, if not where ssh comes from.
    pub(crate) own_address: Option<IpAddr>,
}

/// A host at which a run has begun.
#[derive(Debug)]
pub(super) struct Remote {
    host: String,
    channel: RefCell<Channel>,
    programs: BTreeMap<String, Executable>,
    /// Where sources are dialed.
    address: IpAddr,
    kernel: String,
    content: BTreeMap<String, (u64, u64)>,
    /// Why anybody may reach the data port, where that is so.
    unguarded: Option<String>,
}

impl Destination {
    /// A host that the user's own configuration of ssh says how to reach.
    pub(super) fn plain(host: String) -> Self {
        Self { host, ssh_config: None, address: None, own_address: None }
    }

    /// What the path to it is called in rows. No name of a profile or of a plan's own path has a space.
    pub(super) fn path_name(&self) -> String {
        let host = self.host.strip_prefix("ssh://").unwrap_or(&self.host);
        let (_, host) = host.rsplit_once('@').unwrap_or(("", host));
        format!("to {host}")
    }

    /// Fails where `plan` has conditions on paths of their own.
    pub(super) fn check(&self, plan: &Plan) -> Result<(), RunError> {
        let own = self.path_name();
        let mut planned = plan.pilots.iter().chain(&plan.conditions);
        match planned.find(|planned| planned.link != own && planned.link != LOOPBACK) {
            None => Ok(()),
            Some(Planned { name, link, .. }) => {
                Err(RunError::OwnLink { condition: name.clone(), link: link.clone() })
            }
        }
    }

    /// `ssh`, without what to run there.
    fn ssh(&self) -> Command {
        let mut ssh = Command::new("ssh");
        if let Some(path) = &self.ssh_config {
            ssh.arg("-F").arg(path);
        }
        ssh.args(SSH_OPTIONS.iter().flat_map(|option| ["-o", option]));
        ssh
    }

    /// The one command of the control channel.
    fn open(&self, executables: &BTreeMap<String, Executable>) -> Command {
        let mut ssh = self.ssh();
        // The script has no single quotes, so that any shell takes it as one word.
        let script = format!("exec sh -c '{}'", upload::script(executables, &executables[THIS_PROGRAM]));
        ssh.arg("--").arg(&self.host).arg(script);
        ssh
    }

    /// Where sources are dialed: an address of the kind that ssh has used.
    fn dialed(&self, client: Option<IpAddr>) -> Result<IpAddr, RemoteError> {
        if let Some(address) = self.address {
            return Ok(address);
        }
        let error = |why| RemoteError::NoAddress { host: self.host.clone(), why };
        let configured = run(self.ssh().args(["-G", "--", &self.host])).map_err(|e| error(e.to_string()))?;
        let name = configured.lines().find_map(|line| line.strip_prefix("hostname "));
        let name = name.ok_or_else(|| error("ssh -G names no host".into()))?;
        let addresses: Vec<_> =
            (name, PORT).to_socket_addrs().map_err(|source| error(source.to_string()))?.collect();
        let is_like =
            |address: &&SocketAddr| client.is_none_or(|client| client.is_ipv4() == address.is_ipv4());
        let address = addresses.iter().find(is_like).or(addresses.first());
        address.map(SocketAddr::ip).ok_or_else(|| error("the name has no address".into()))
    }
}

impl Remote {
    /// Starts the agent there, and lets it write the sources of `plan`.
    pub(super) fn begin(
        destination: &Destination,
        plan: &Plan,
        data: BTreeMap<String, Work>,
        programs: &Programs,
        scratch: &Path,
    ) -> Result<Self, RunError> {
        let executables = executables(programs.all())?;
        let mut channel = Channel::start(&destination.host, destination.open(&executables))?;
        let (kernel, client) = start_agent(&mut channel, destination, &executables)?;
        channel.keep_alive();
        let address = destination.dialed(client)?;
        let peer = destination.own_address.or(client).ok_or_else(|| RemoteError::NoAgent {
            host: destination.host.clone(),
            said: "ssh does not say there where it comes from; --own-address says it".into(),
        })?;
        let beginning =
            Beginning { scratch: there(scratch), source: plan.source, seed: plan.seed, data, peer };
        let mut remote = Self {
            host: destination.host.clone(),
            channel: RefCell::new(channel),
            programs: executables,
            address,
            kernel,
            content: BTreeMap::new(),
            unguarded: None,
        };
        let doing = "writing the sources";
        let reply = remote.ask(doing, &Request::Begin(beginning), BEGIN_LIMIT)?;
        let Reply::Ready { content, unguarded } = reply else { return Err(remote.astray(doing)) };
        (remote.content, remote.unguarded) = (content, unguarded);
        Ok(remote)
    }

    /// Opens the port and starts a source; returns where it is dialed.
    pub(super) fn serve(&self, planned: &Planned, data: &str) -> Result<SocketAddr, RunError> {
        let program = self.programs.get(&planned.program).map(Executable::name);
        let program = program
            .ok_or_else(|| RunError::NoProgram { name: planned.program.clone(), path: PathBuf::new() })?;
        let (doing, load_threads) = ("starting the source", planned.load_threads);
        let request = Request::Serve { program, data: data.to_owned(), load_threads };
        let Reply::Serving = self.ask(doing, &request, READY_LIMIT + ANSWER_LIMIT)? else {
            return Err(self.astray(doing));
        };
        Ok(SocketAddr::new(self.address, PORT))
    }

    /// Ends the source and closes the port. What it printed goes to the file `log`.
    pub(super) fn end(&self, by_itself: bool, log: &Path) -> Result<Sampled, RunError> {
        let doing = "ending the source";
        let reply = self.ask(doing, &Request::End { by_itself }, END_LIMIT + ANSWER_LIMIT)?;
        let Reply::Ended { log: said, sampled } = reply else { return Err(self.astray(doing)) };
        std::fs::write(log, said).map_err(run_io_error("write", log))?;
        Ok(sampled)
    }

    /// Fails where the control channel has ended while nothing was asked.
    pub(super) fn check(&self) -> Result<(), RunError> {
        Ok(self.channel.borrow_mut().check("making an observation")?)
    }

    /// Where probes are answered while a source is there.
    pub(super) fn echo(&self) -> SocketAddr {
        SocketAddr::new(self.address, ECHO_PORT)
    }

    /// What the user should know of the data port.
    pub(super) fn note(&self) -> Option<String> {
        let why = self.unguarded.as_ref()?;
        let host = escape(self.host.as_bytes());
        Some(format!(
            "the data port of {host} is as it was, open to anybody or to nobody: {}",
            escape(why.as_bytes())
        ))
    }

    /// Its kernel's release.
    pub(super) fn kernel(&self) -> &str {
        &self.kernel
    }

    /// Files and bytes of a data set.
    pub(super) fn content(&self, data: &str) -> (u64, u64) {
        self.content.get(data).copied().unwrap_or_default()
    }

    /// The reply to a request that the agent could do.
    fn ask(&self, doing: &'static str, request: &Request, limit: Duration) -> Result<Reply, RemoteError> {
        let mut channel = self.channel.borrow_mut();
        channel.say(doing, request)?;
        let reply = channel.hear(doing, limit)?;
        if let Reply::Failed { reason } = reply {
            return Err(RemoteError::Refused { host: self.host.clone(), doing, reason });
        }
        Ok(reply)
    }

    /// The reply is one to another request.
    fn astray(&self, doing: &'static str) -> RunError {
        self.channel.borrow().senseless(doing, ASTRAY).into()
    }
}

/// What a dry run prints.
#[derive(Debug)]
pub(super) struct Preview<'a> {
    destination: &'a Destination,
    executables: BTreeMap<String, Executable>,
}

impl<'a> Preview<'a> {
    /// Programs that are not there yet are left out.
    pub(super) fn new(destination: &'a Destination, programs: &Programs) -> Result<Self, RunError> {
        let there = programs.all().iter().filter(|(_, path)| path.is_file());
        Ok(Self { destination, executables: executables(there)? })
    }

    /// What is common to all observations.
    pub(super) fn common(&self) -> Vec<String> {
        let Destination { host, own_address, .. } = self.destination;
        let peer = own_address.map_or("ip saddr OWN-ADDRESS".to_owned(), gate::from);
        let resolving = words(self.destination.ssh().args(["-G", "--", host]));
        vec![
            format!("control channel: {}", words(&self.destination.open(&self.executables))),
            format!("address that is dialed: {resolving}"),
            format!("data port closed on {host}: nft -f - with\n{}", gate::table(None)),
            format!(
                "data port open during an observation: nft -f - with\n{}and {}",
                gate::table(Some(&peer)),
                gate::insertion(&peer, "FAMILY", "TABLE", "CHAIN"),
            ),
        ]
    }

    /// Whether the source of a condition is on the remote host.
    pub(super) fn joins(&self, planned: &Planned) -> bool {
        planned.link == self.destination.path_name()
    }

    /// The source of one observation.
    pub(super) fn source(&self, planned: &Planned, scratch: &Path) -> String {
        let executable = self.executables.get(&planned.program);
        let name = executable.map_or("bench-factor-SHA256".to_owned(), Executable::name);
        let program = Command::new(format!("{}/{name}", upload::FOLDER));
        words(&programs::serve(program, &scratch.join(&planned.data), SocketAddr::from(([0, 0, 0, 0], PORT))))
    }
}

/// The programs of a plan by their names in it, and this one, which is the agent.
fn executables<'a>(
    programs: impl IntoIterator<Item = (&'a String, &'a PathBuf)>,
) -> Result<BTreeMap<String, Executable>, RunError> {
    let read = |(name, path): (&String, &PathBuf)| Ok((name.clone(), Executable::read(path)?));
    let mut executables: BTreeMap<_, _> = programs.into_iter().map(read).collect::<Result<_, RunError>>()?;
    if !executables.contains_key(THIS_PROGRAM) {
        let own = std::env::current_exe().map_err(run_io_error("find", Path::new("this program")))?;
        executables.insert(THIS_PROGRAM.to_owned(), Executable::read(&own)?);
    }
    Ok(executables)
}

/// The folder of a run on the remote host, which may be this one under another name.
fn there(scratch: &Path) -> PathBuf {
    let mut path = scratch.to_owned().into_os_string();
    path.push("-remote");
    path.into()
}

/// Sends what the remote host lacks, and hears the agent's first words: its kernel, and where we come from.
fn start_agent(
    channel: &mut Channel,
    destination: &Destination,
    executables: &BTreeMap<String, Executable>,
) -> Result<(String, Option<IpAddr>), RemoteError> {
    let host = || destination.host.clone();
    let doing = "starting the agent";
    let mut others = 0;
    loop {
        let line = channel.hear_line(doing, HELLO_LIMIT).map_err(not_started)?;
        match upload::hear(&line) {
            None if others < LOGIN_LINES => others += 1,
            None => return Err(channel.senseless(doing, &line)),
            Some(Said::Complete) => break,
            Some(Said::Lacks(program)) => {
                return Err(RemoteError::Lacks { host: host(), program: program.to_owned() });
            }
            Some(Said::Damaged(_)) => return Err(RemoteError::Damaged { host: host() }),
            Some(Said::Wants(sha256)) => {
                let wanted = executables.values().find(|executable| executable.is(sha256));
                let wanted = wanted.ok_or_else(|| channel.senseless(doing, &line))?;
                channel.write("sending a program", |stdin| wanted.send(stdin))?;
            }
        }
    }
    match channel.hear(doing, HELLO_LIMIT).map_err(not_started)? {
        Reply::Hello { kernel, client } => Ok((kernel, client)),
        Reply::Ready { .. } | Reply::Serving | Reply::Ended { .. } | Reply::Failed { .. } => {
            Err(channel.senseless(doing, ASTRAY))
        }
    }
}

/// A channel that ends before there is an agent was none.
fn not_started(error: RemoteError) -> RemoteError {
    if let RemoteError::Lost { host, said, .. } = error { RemoteError::NoAgent { host, said } } else { error }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    fn plan(link: &str) -> Plan {
        let text = format!(
            "rounds = 1\nseed = 7\n[data]\nsmall = {{ shape = 'small' }}\n[[conditions]]\ndata = ['small']\n\
             layout = ['bundle']\ntransport = ['quic']\ncontroller = ['bbr']\n{link}"
        );
        let path = Destination::plain("root@us.example".into()).path_name();
        Plan::parse(&text, Path::new("plan.toml"), Some(&path)).unwrap()
    }

    #[test]
    fn a_path_is_named_by_its_far_end_alone() {
        for (host, expected) in [
            ("us", "to us"),
            ("root@us.example", "to us.example"),
            ("root@2001:db8::7", "to 2001:db8::7"),
            ("ssh://root@192.0.2.7:2222", "to 192.0.2.7:2222"),
        ] {
            assert_eq!(Destination::plain(host.into()).path_name(), expected);
        }
    }

    #[test]
    fn a_plan_between_two_hosts_has_no_path_beside_theirs() {
        let destination = Destination::plain("root@us.example".into());
        assert!(destination.check(&plan("")).is_ok());
        assert!(destination.check(&plan("link = ['loopback']")).is_ok());
        let error = destination.check(&plan("link = ['lan']")).unwrap_err().to_string();
        assert!(error.starts_with("the plan joins small-bundle-quic-bbr-lan by lan"), "{error}");
    }

    #[test]
    fn what_is_asked_for_is_dialed_and_a_number_needs_no_name() {
        let asked = "2001:db8::9".parse().unwrap();
        let destination =
            Destination { address: Some(asked), ..Destination::plain("root@us.example".into()) };
        assert_eq!(destination.dialed(None).unwrap(), asked);
        if crate::tools::installed::find("ssh").is_none() {
            let _ = io::Write::write_all(&mut io::stderr(), b"skipped: ssh is not installed\n");
            return;
        }
        let destination = Destination::plain("root@192.0.2.7".into());
        assert_eq!(destination.dialed("198.51.100.1".parse().ok()).unwrap().to_string(), "192.0.2.7");
    }
}
