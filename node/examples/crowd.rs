//! Many peers at one relay, to see what it takes: its memory with no peer, with each in turn connected with a reservation,
//! and with circuits open between pairs of them.
//!
//! `cargo run --release --example crowd -- PEERS CIRCUITS`, on Linux. The relay is a process of its own.

use std::{
    error::Error,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::Path,
    process::{Child, Command, Stdio},
    time::Duration,
};

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch::{
    config::relay_address,
    swarm::{Connection, Inbound, Keypair, Node, NodeOptions, Relay, Reservation, Stream, TransportKind},
};
use tokio::time::sleep;

type Outcome<T> = Result<T, Box<dyn Error>>;

#[tokio::main]
async fn main() -> Outcome<()> {
    let mut numbers = std::env::args().skip(1).map(|text| text.parse::<usize>());
    let (Some(peers), Some(circuits)) = (numbers.next(), numbers.next()) else {
        return Err("how many peers, and how many circuits?".into());
    };
    let (peers, circuits) = (peers?, circuits?);
    let mut out = std::io::stdout();
    writeln!(out, "transport\tpeers\tcircuits\tidle_kib\treserved_kib\tcircuits_kib")?;
    for kind in [TransportKind::Tcp, TransportKind::Quic] {
        let folder = tempfile::tempdir()?;
        let (process, relay) = start(folder.path(), kind, peers, circuits)?;
        let idle = settled_kib(&process).await?;
        let mut crowd = Vec::new();
        for _ in 0..peers {
            crowd.push(Member::new(&relay).await?);
        }
        let reserved = settled_kib(&process).await?;
        let mut open = Vec::new();
        for pair in crowd.chunks_exact_mut(2).take(circuits) {
            let [one, other] = pair else { continue };
            open.push(talk(one, other).await?);
        }
        let talking = settled_kib(&process).await?;
        writeln!(out, "{kind}\t{peers}\t{circuits}\t{idle}\t{reserved}\t{talking}")?;
    }
    Ok(())
}

/// A relay, killed when it is dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // One that has ended needs no end.
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

fn start(folder: &Path, kind: TransportKind, peers: usize, circuits: usize) -> Outcome<(Running, Relay)> {
    let listen = match kind {
        TransportKind::Tcp => "/ip4/127.0.0.1/tcp/0",
        TransportKind::Quic => "/ip4/127.0.0.1/udp/0/quic-v1",
    };
    let config = folder.join("relay.toml");
    let text = format!(
        "listen = [\"{listen}\"]\n[reservations]\nmost = {peers}\nper_address = {peers}\n[circuits]\nmost = {}\n",
        circuits + 1
    );
    fs::write(&config, text)?;
    let beside = std::env::current_exe()?;
    let ketch = beside.parent().and_then(Path::parent).ok_or("an example has a folder")?.join("ketch");
    let mut command = Command::new(ketch);
    command.arg("relay").arg("--state").arg(folder.join("state")).arg("--config").arg(&config);
    let mut process = Running(command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?);
    let mut line = String::new();
    BufReader::new(process.0.stdout.take().ok_or("its output is a pipe")?).read_line(&mut line)?;
    let (peer, address) = relay_address(line.trim())?;
    Ok((process, Relay { peer, addresses: vec![address] }))
}

/// Resident memory once nothing happens any more, in KiB.
async fn settled_kib(process: &Running) -> Outcome<u64> {
    sleep(Duration::from_secs(3)).await;
    let status = fs::read_to_string(format!("/proc/{}/status", process.0.id()))?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS")?;
    Ok(resident.trim().trim_end_matches(" kB").parse()?)
}

struct Member {
    node: Node,
    inbound: Inbound,
    reservation: Reservation,
}

impl Member {
    async fn new(relay: &Relay) -> Outcome<Self> {
        let (node, inbound) = Node::start(Keypair::generate_ed25519(), NodeOptions::default()).await?;
        let reservation = node.reserve(relay).await?;
        Ok(Self { node, inbound, reservation })
    }
}

/// A circuit from one to the other, over which a mebibyte has gone.
async fn talk(one: &Member, other: &mut Member) -> Outcome<(Connection, Stream, Stream)> {
    let connection = one.node.dial(other.node.peer(), other.reservation.addresses()).await?;
    let mut stream = connection.open_stream().await?;
    let content = vec![7; 1 << 20];
    let send = async {
        stream.write_all(&content).await?;
        stream.flush().await
    };
    let take = async {
        let (_, mut taken) = other.inbound.next().await.ok_or(std::io::ErrorKind::UnexpectedEof)?;
        let mut read = vec![0; 1 << 20];
        taken.read_exact(&mut read).await?;
        Ok(taken)
    };
    let ((), taken) = futures::future::try_join(send, take).await?;
    Ok((connection, stream, taken))
}
