//! `ketch demo`: two nodes on this machine, one real tree, both transports.

use std::{
    path::{Path, PathBuf},
    process::Stdio,
    time::{Duration, Instant},
};

use anyhow::{Context as _, bail, ensure};
use ketch_fixtures::{digest, tree::Shape};
use ketch_protocol::path::escape;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt as _, BufReader, Lines},
    process::{Child, ChildStdout, Command},
    time::timeout,
};

use super::{args, exit::Exit, format, output::print_result};

/// Files of the generated tree: enough to see a rate, few enough to be done in a moment.
const FILES: u64 = 2_000;

/// Seed of the generated tree, so that everybody sees the same.
const SEED: u64 = 42;

/// A node that says nothing for this long is broken.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn run(command: args::Demo) -> anyhow::Result<Exit> {
    let folder = tempfile::tempdir().context("making a folder for the demo")?;
    let source = match command.tree {
        Some(tree) => tree,
        None => generate(&folder.path().join("tree"))?,
    };
    let expected = digest_of(&source)?;
    let shown = escape(source.as_os_str().as_encoded_bytes()).to_string();
    print_result(&format!(
        "tree      {shown}: {} files, {}",
        format::count(expected.files),
        format::bytes(expected.bytes)
    ));
    for transport in ["quic", "tcp"] {
        cross(folder.path(), &source, transport, &expected).await?;
    }
    print_result("both copies have the digest of the tree, and both nodes exited with 0");
    folder.close().context("removing the folder of the demo")?;
    Ok(Exit::Stored)
}

fn generate(out: &Path) -> anyhow::Result<PathBuf> {
    Shape::Source { files: FILES }.write(SEED, out).context("making a tree")?;
    Ok(out.to_owned())
}

fn digest_of(root: &Path) -> anyhow::Result<digest::Digest> {
    digest::digest(root, &digest::Options::default()).context("computing the digest")
}

/// Sends the tree from one node to another and checks the copy.
async fn cross(
    folder: &Path,
    source: &Path,
    transport: &str,
    expected: &digest::Digest,
) -> anyhow::Result<()> {
    let (sender_state, receiver_state) = (folder.join("sender"), folder.join("receiver"));
    let listen = match transport {
        "quic" => "/ip4/127.0.0.1/udp/0/quic-v1",
        _ => "/ip4/127.0.0.1/tcp/0",
    };
    let began = Instant::now();
    let mut sender =
        Process::start(&sender_state, &[&"send", &source, &"--listen", &listen, &"--json", &"--no-lan"])?;
    let offered = sender.event("offered").await?;
    let ticket = offered["ticket"].as_str().context("the sender printed no ticket")?.to_owned();
    let target = folder.join(transport);
    let mut receiver = Process::start(
        &receiver_state,
        &[&"receive", &ticket, &target, &"--yes", &"--json", &"--no-lan", &"--transport", &transport],
    )?;
    let done = receiver.event("done").await?;
    receiver.finish().await?;
    sender.event("done").await?;
    sender.finish().await?;

    let leaf = source.canonicalize().context("finding the name of the tree")?;
    let leaf = leaf.file_name().context("the tree has no name")?;
    let copy = digest_of(&target.join(leaf))?;
    ensure!(
        copy.hex == expected.hex,
        "over {transport}, the copy has digest {}, the tree {}",
        copy.hex,
        expected.hex
    );
    let ready = Duration::from_secs_f64(done["ready_s"].as_f64().unwrap_or_default());
    let moved = done["moved_bytes"].as_u64().unwrap_or_default();
    print_result(&format!(
        "{transport:<9} {} stored and verified in {} ({}), {} with both processes",
        format::bytes(moved),
        format::duration(ready),
        format::rate(moved, ready),
        format::duration(began.elapsed()),
    ));
    Ok(())
}

/// A `ketch` of its own, ended with the demo.
struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    fn start(state: &Path, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> anyhow::Result<Self> {
        let program = std::env::current_exe().context("finding this program")?;
        let mut command = Command::new(program);
        command.arg("--state").arg(state).args(arguments.iter().map(|argument| argument.as_ref()));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("starting a node")?;
        let stdout = child.stdout.take().context("reading from a node")?;
        Ok(Self { child, lines: BufReader::new(stdout).lines() })
    }

    /// Waits for an event and gives it back.
    async fn event(&mut self, name: &str) -> anyhow::Result<Value> {
        loop {
            let line = timeout(PATIENCE, self.lines.next_line()).await;
            let line =
                line.with_context(|| format!("waiting for \"{name}\""))?.context("reading from a node")?;
            let Some(line) = line else { bail!("a node ended before \"{name}\"") };
            let event: Value = serde_json::from_str(&line).context("reading from a node")?;
            if event["event"] == name {
                return Ok(event);
            }
        }
    }

    async fn finish(mut self) -> anyhow::Result<()> {
        let status = timeout(PATIENCE, self.child.wait()).await.context("waiting for a node to end")?;
        let status = status.context("waiting for a node to end")?;
        ensure!(status.success(), "a node ended with {status}");
        Ok(())
    }
}
