//! The agent: `bench-factor host` on the remote host, at the far end of the control channel. It writes the sources, guards the
//! data port, starts a source for each observation and looks at its host meanwhile.
//!
//! Whatever ends it, nothing of it stays. At the end of its input, after [`Options::silence`] without a line, or when it is
//! asked to end by a signal, it ends what it has started, opens no port and unmounts. Killed, the kernel does that where the
//! agent is root: its mounts are in a namespace of its own, and what it has started is held by it. Rules of the packet
//! filter and files are then left to the next agent, which removes them before it says hello.

use std::{
    collections::BTreeMap,
    env,
    fs::{File, TryLockError},
    io::{self, BufRead as _, Read as _, Seek as _, SeekFrom},
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket},
    path::{Path, PathBuf},
    process::Command,
    sync::mpsc::{self, Receiver, RecvTimeoutError, Sender},
    thread,
    time::{Duration, Instant},
};

use rustix::event::{PollFd, PollFlags, poll};

use super::{
    super::{
        error::{RunError, run_io_error},
        load::Load,
        probe::Echo,
        programs,
        sampler::{Hosts, Sampler},
        stage::{self, Scratch, Source},
    },
    ECHO_PORT,
    gate::Gate,
    message::{Beginning, Reply, Request},
};
use crate::{
    study::PORT,
    tools::{
        error::ToolsError,
        interrupt,
        place::{Keeping, Route, SERVER, Where},
        process::End,
        text::chain,
    },
};

/// An agent whose channel was cut ends within its silence; the next one waits for that.
const LOCK_LIMIT: Duration = Duration::from_secs(100);
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Longest request: a plan's data sets have some dozen bytes each.
const LINE_BYTES: u64 = 1024 * 1024;

/// How much of the end of a source's log is told.
const LOG_BYTES: u64 = 64 * 1024;

/// What `bench-factor host` was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    /// Without a line for so long the runner is taken for gone.
    pub(crate) silence: Duration,
}

/// Why an agent ended that was not left.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AgentError {
    /// Two runs want the same host.
    #[error("another run is at this host")]
    Busy,
    /// The runner is gone.
    #[error("nothing was heard for {0} s")]
    Silence(u64),
    /// A line is no request.
    #[error("what is asked makes no sense")]
    Senseless(#[source] serde_json::Error),
    /// The rules of the packet filter could not be removed.
    #[error("cannot remove the rules for the data port: {0}")]
    Gate(String),
    /// A step failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A step failed.
    #[error(transparent)]
    Step(#[from] ToolsError),
}

/// Serves a runner at the other end of standard input and `out`. To be called while this process has one thread.
pub(crate) fn run(options: &Options, out: &mut impl io::Write) -> Result<(), AgentError> {
    let mut here = Where::Loopback(Keeping::Loose);
    here.gain_access()?;
    interrupt::hold()?;
    let own = env::current_exe().map_err(run_io_error("find", Path::new("this program")))?;
    let _lock = lock(&own.with_file_name("lock"), LOCK_LIMIT)?;
    let mut agent = Agent { here, own, gate: Gate::close(), begun: None };
    let heard = listen(&mut agent, options.silence, out);
    // Processes end before the port is as it was.
    agent.begun = None;
    let removed = agent.gate.remove().map_err(AgentError::Gate);
    heard.and(removed)
}

/// Answers until the runner leaves.
fn listen(agent: &mut Agent, silence: Duration, out: &mut impl io::Write) -> Result<(), AgentError> {
    let kernel = rustix::system::uname().release().to_string_lossy().into_owned();
    say(out, &Reply::Hello { kernel, client: client() })?;
    let events = events();
    loop {
        match events.recv_timeout(silence) {
            Ok(Event::Line(line)) if line.is_empty() => {}
            Ok(Event::Line(line)) => {
                let request = serde_json::from_str(&line).map_err(AgentError::Senseless)?;
                say(out, &agent.answer(request)?)?;
            }
            Ok(Event::Left) => return Ok(()),
            Ok(Event::Interrupted) => return Err(ToolsError::Interrupted.into()),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                return Err(AgentError::Silence(silence.as_secs()));
            }
        }
    }
}

fn say(out: &mut impl io::Write, reply: &Reply) -> Result<(), AgentError> {
    let mut line = serde_json::to_vec(reply).expect("replies have only text as keys");
    line.push(b'\n');
    let said = out.write_all(&line).and_then(|()| out.flush());
    Ok(said.map_err(run_io_error("write to", Path::new("standard output")))?)
}

/// What ssh says of the other end: its address and port, and ours.
fn client() -> Option<IpAddr> {
    env::var("SSH_CONNECTION").ok()?.split(' ').next()?.parse().ok()
}

/// Waits so long for the end of another agent.
fn lock(path: &Path, limit: Duration) -> Result<File, AgentError> {
    let file = File::create(path).map_err(run_io_error("make the file", path))?;
    let began = Instant::now();
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(file),
            Err(TryLockError::WouldBlock) if began.elapsed() < limit => thread::sleep(LOCK_PAUSE),
            Err(TryLockError::WouldBlock) => return Err(AgentError::Busy),
            Err(TryLockError::Error(source)) => return Err(run_io_error("lock", path)(source).into()),
        }
    }
}

/// What an agent waits for.
enum Event {
    Line(String),
    Left,
    Interrupted,
}

/// All that happens, in its order. Both threads last as long as the process.
fn events() -> Receiver<Event> {
    let (happens, events) = mpsc::channel();
    let signals = happens.clone();
    thread::spawn(move || read_lines(&happens));
    thread::spawn(move || {
        if let Ok(pending) = interrupt::pending() {
            while poll(&mut [PollFd::new(&pending, PollFlags::IN)], None).is_err() {}
            // An agent that has ended needs no word.
            let _ = signals.send(Event::Interrupted);
        }
    });
    events
}

fn read_lines(happens: &Sender<Event>) {
    let mut input = io::stdin().lock();
    loop {
        let mut line = String::new();
        let is_whole = input.by_ref().take(LINE_BYTES).read_line(&mut line).is_ok() && line.ends_with('\n');
        let event = if is_whole { Event::Line(line.trim_end().to_owned()) } else { Event::Left };
        if happens.send(event).is_err() || !is_whole {
            return;
        }
    }
}

/// Everything that is on this host because of the run.
struct Agent {
    here: Where,
    /// This executable; others are beside it.
    own: PathBuf,
    gate: Gate,
    begun: Option<Begun>,
}

/// The sources of the run. Fields are dropped in their order: a source that is mounted goes before the folder.
struct Begun {
    serving: Option<Serving>,
    sources: BTreeMap<String, Source>,
    peer: IpAddr,
    scratch: Scratch,
}

/// The source of one observation and what goes on beside it.
struct Serving {
    end: End,
    log: PathBuf,
    sampler: Sampler,
    _echo: Echo,
    _load: Load,
}

impl Agent {
    /// Does what is asked. Only an interruption is an error.
    fn answer(&mut self, request: Request) -> Result<Reply, AgentError> {
        let done = match request {
            Request::Begin(beginning) => self.begin(beginning),
            Request::Serve { program, data, load_threads } => {
                let served = self.serve(&program, &data, load_threads);
                if served.is_err() {
                    // That there is no source is what gets reported.
                    let _ = self.gate.admit(None);
                }
                served
            }
            Request::End { by_itself } => self.end(by_itself),
        };
        match done {
            Ok(reply) => Ok(reply),
            Err(Trouble::Run(RunError::Step(ToolsError::Interrupted))) => Err(ToolsError::Interrupted.into()),
            Err(trouble) => Ok(Reply::Failed { reason: chain(&trouble) }),
        }
    }

    fn begin(&mut self, beginning: Beginning) -> Result<Reply, Trouble> {
        let Beginning { scratch, source, seed, data, peer } = beginning;
        stage::check_mount(source)?;
        self.begun = None;
        let scratch = Scratch::make(&scratch)?;
        let mut sources = BTreeMap::new();
        for (name, work) in data {
            let written = stage::write_source(work, source, seed, scratch.path(), &name)?;
            sources.insert(name, written);
        }
        let content = sources.iter().map(|(name, source)| (name.clone(), source.content())).collect();
        let unguarded = self.gate.unguarded().map(str::to_owned);
        self.begun = Some(Begun { serving: None, sources, peer, scratch });
        Ok(Reply::Ready { content, unguarded })
    }

    fn serve(&mut self, program: &str, data: &str, load_threads: u32) -> Result<Reply, Trouble> {
        let program = self.own.with_file_name(program);
        let begun = self.begun.as_mut().ok_or(Trouble::TooEarly)?;
        begun.serving = None;
        let Begun { sources, peer, scratch, .. } = &*begun;
        let tree = &sources.get(data).ok_or_else(|| Trouble::NoData(data.to_owned()))?.tree;
        self.gate.admit(Some(*peer)).map_err(Trouble::Gate)?;
        let any: IpAddr =
            if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let route = self.here.join()?;
        let log = scratch.path().join("source.log");
        let command = programs::serve(Command::new(program), tree, SocketAddr::new(any, PORT));
        let mut end = End::start_alone(&route, SERVER, vec![command], &log)?;
        stage::await_ready(&mut end)?;
        let echo = UdpSocket::bind((any, ECHO_PORT)).and_then(Echo::start);
        let echo = echo.map_err(run_io_error("answer probes at port", Path::new(&ECHO_PORT.to_string())))?;
        let sampler = Sampler::start(hosts(&route)?, &scratch.path().join("samples.jsonl"))?;
        let load = Load::start(load_threads);
        begun.serving = Some(Serving { end, log, sampler, _echo: echo, _load: load });
        Ok(Reply::Serving)
    }

    fn end(&mut self, by_itself: bool) -> Result<Reply, Trouble> {
        let begun = self.begun.as_mut().ok_or(Trouble::TooEarly)?;
        let Serving { mut end, log, sampler, .. } = begun.serving.take().ok_or(Trouble::TooEarly)?;
        let sampled = sampler.stop()?;
        let ended = stage::end(&mut end, by_itself);
        drop(end);
        self.gate.admit(None).map_err(Trouble::Gate)?;
        ended?;
        let log = last_of(&log).map_err(run_io_error("read the log", &log))?;
        Ok(Reply::Ended { log, sampled })
    }
}

/// Why a request was not done.
#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error("nothing has begun that this could follow")]
    TooEarly,
    #[error("there is no data set {0}")]
    NoData(String),
    #[error("cannot open and close the data port: {0}")]
    Gate(String),
    #[error(transparent)]
    Run(#[from] RunError),
}

impl From<ToolsError> for Trouble {
    fn from(error: ToolsError) -> Self {
        Self::Run(error.into())
    }
}

/// This host as both ends: the runner takes the sender.
fn hosts(route: &Route) -> Result<Hosts, ToolsError> {
    Ok(Hosts { sender: route.counters(SERVER)?, receiver: route.counters(SERVER)?, are_one: true })
}

fn last_of(log: &Path) -> io::Result<String> {
    let mut file = File::open(log)?;
    let start = file.metadata()?.len().saturating_sub(LOG_BYTES);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
