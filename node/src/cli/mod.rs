//! The command line: arguments in, one checked request for the library, events out, an exit code.

mod args;
mod consent;
mod demo;
mod endpoint;
mod exit;
mod format;
mod id;
mod invite;
mod join;
mod json;
mod output;
mod pair;
mod peers;
mod ping;
mod reach;
mod receive;
mod relay;
mod reserving;
mod rules;
mod send;
mod serve;
mod sync;
mod undo;

use std::{
    hint::black_box, io::Write as _, path::PathBuf, process::ExitCode, sync::Arc,
    thread::available_parallelism, time::SystemTime,
};

use anyhow::Context as _;
use clap::Parser as _;
use ketch::{identity, index::Indexes, state::StateFolder, swarm::Keypair};
use tokio::{
    runtime::Runtime,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;

use args::{Arguments, Command};
use exit::Exit;

/// Threads that may block on files at once. A node that serves may have 64 sessions, each with a planner that keeps its
/// thread to the end and a crew of up to four; the others serve scans and what is done once in a session. They are only
/// made when they are needed.
const BLOCKING_THREADS: usize = 64 * (1 + 4) + 64;

/// glibc gives memory back to the system as soon as 128 KiB in a row are free, and gets it back a page fault at a
/// time; a session frees and takes that much thousands of times a second. Once a block of this length was freed, it
/// keeps twice as much (decision record 0020).
const KEPT_BYTES: usize = 8 * 1024 * 1024;

/// Runs the command line of this process.
pub(crate) fn main() -> ExitCode {
    // Prints usage errors itself and exits with 2.
    let arguments = Arguments::parse();
    let json = arguments.command.wants_json();
    let done = start(arguments);
    let exit = done.unwrap_or_else(|error| {
        output::print_error(&error, json);
        Exit::of(&error)
    });
    // What is printed last must not be lost in a pipe; a reader that has gone is no reason to fail.
    let _ = std::io::stdout().flush();
    exit.into()
}

fn start(arguments: Arguments) -> anyhow::Result<Exit> {
    log_to_stderr();
    let _ = black_box(Vec::<u8>::with_capacity(KEPT_BYTES));
    let runtime = runtime()?;
    let exit = runtime.block_on(run(arguments));
    // Blocking work of a session that was given up may still be in a system call; nothing waits for it.
    runtime.shutdown_background();
    exit
}

async fn run(arguments: Arguments) -> anyhow::Result<Exit> {
    let state = || locate_state(arguments.state.clone());
    match arguments.command {
        Command::Send(command) => send::run(command, &state()?).await,
        Command::Receive(command) => receive::run(command, &state()?).await,
        Command::Serve(command) => serve::run(command, &state()?).await,
        Command::Sync(command) => sync::run(*command, &state()?).await,
        Command::Pair(command) => pair::run(*command, &state()?).await,
        Command::Peers(command) => peers::run(command, &state()?),
        Command::Undo(command) => undo::run(&command),
        Command::Id(command) => id::run(&command, &state()?).await,
        Command::Ping(command) => ping::run(command, &state()?).await,
        Command::Relay(command) => relay::run(command, &state()?).await,
        Command::Demo(command) => demo::run(command).await,
    }
}

impl Command {
    fn wants_json(&self) -> bool {
        match self {
            Self::Send(command) => command.json,
            Self::Receive(command) => command.json,
            Self::Serve(command) => command.json,
            Self::Sync(command) => command.json,
            Self::Pair(command) => command.json,
            Self::Peers(command) => command.wants_json(),
            Self::Undo(command) => command.json,
            Self::Id(command) => command.json,
            Self::Ping(command) => command.json,
            Self::Relay(command) => command.json,
            Self::Demo(_) => false,
        }
    }
}

fn runtime() -> anyhow::Result<Runtime> {
    // Half of the processors seal and unseal; the others are for the threads that hash and move files. More would
    // only wake each other.
    let processors = available_parallelism().map_or(1, usize::from);
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads((processors / 2).max(1))
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .context("starting the runtime")
}

fn locate_state(explicit: Option<PathBuf>) -> anyhow::Result<StateFolder> {
    Ok(StateFolder::locate(explicit, |name| std::env::var_os(name))?)
}

fn load_identity(state: &StateFolder) -> anyhow::Result<Keypair> {
    Ok(identity::load_or_create(state)?)
}

/// What is remembered of trees, without those that were not used for long.
fn open_indexes(state: &StateFolder) -> Arc<Indexes> {
    let indexes = Indexes::new(state);
    indexes.forget_unused(SystemTime::now());
    Arc::new(indexes)
}

/// Cancelled by the first Ctrl-C or SIGTERM; the second one ends the process at once.
fn stop_on_signal() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let mut interrupt = signal(SignalKind::interrupt()).context("listening for signals")?;
    let mut terminate = signal(SignalKind::terminate()).context("listening for signals")?;
    let cancel = stop.clone();
    tokio::spawn(async move {
        for _ in 0..2 {
            tokio::select! {
                _ = interrupt.recv() => {}
                _ = terminate.recv() => {}
            }
            if cancel.is_cancelled() {
                std::process::exit(i32::from(Exit::Interrupted.code()));
            }
            cancel.cancel();
        }
    });
    Ok(stop)
}

/// `KETCH_LOG=debug` shows what libraries have to say.
fn log_to_stderr() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("KETCH_LOG");
    if let Ok(filter) = filter {
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    }
}
