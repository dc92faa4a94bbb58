//! `ketch ping`.

use std::time::Duration;

use ketch::{
    state::StateFolder,
    swarm::{Multiaddr, Node, NodeOptions, PeerId, PingReport, address::split_peer},
    trust::{Book, PeerReference, name::PeerNameError},
};
use ketch_protocol::path::escape;
use serde_json::json;

use super::{
    args,
    exit::{Exit, Usage},
    load_identity,
    output::{print_json, print_result},
    peers::told,
    reach,
};

/// Time between round trips.
const INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn run(command: args::Ping, state: &StateFolder) -> anyhow::Result<Exit> {
    let (peer, said) = target(&command.peer, state)?;
    let request = reach::request(state, peer, said, None, &command.reach)?;
    // The swarm pings each connection by itself; a person waits for these.
    let options = NodeOptions { ping_interval: INTERVAL, lan: command.reach.lan(), ..NodeOptions::default() };
    let (node, _inbound) = Node::start(load_identity(state)?, options).await?;
    let connection = node.dial(peer, request).await?;
    let report = node.ping(&connection, command.count).await?;
    node.shutdown().await;
    print(&peer, &report, command.json);
    Ok(Exit::Stored)
}

/// Who is meant, and where if that is said.
fn target(text: &str, state: &StateFolder) -> anyhow::Result<(PeerId, Option<Multiaddr>)> {
    let senseless = |message: String, hint| anyhow::Error::from(Usage { message, hint: Some(hint) });
    if !text.starts_with('/') {
        let unknown = |error: PeerNameError| {
            senseless(error.to_string(), "write a name of the address book, a PeerId, or ADDR/p2p/PEERID")
        };
        let reference: PeerReference = text.parse().map_err(unknown)?;
        return Ok((Book::load(state)?.resolve(&reference).map_err(told)?, None));
    }
    let address: Multiaddr = text.parse().map_err(|error| {
        let shown = escape(text.as_bytes());
        senseless(format!("\"{shown}\" is no address: {error}"), "such as /ip4/192.0.2.7/tcp/5382/p2p/PEERID")
    })?;
    let split = split_peer(address).ok_or_else(|| {
        let message = "the address does not say whom to expect: it must end in /p2p/PEERID".into();
        senseless(message, "`ketch id` prints the PeerId of a node")
    });
    split.map(|(peer, address)| (peer, Some(address)))
}

fn print(peer: &PeerId, report: &PingReport, as_json: bool) {
    let agent = report.agent.as_deref().map(|agent| escape(agent.as_bytes()).to_string());
    if as_json {
        print_json(&json!({
            "peer_id": peer.to_string(),
            "address": report.address.to_string(),
            "transport": report.transport.to_string(),
            "agent": agent,
            "rtt_ms": report.rtts.iter().map(|rtt| rtt.as_secs_f64() * 1e3).collect::<Vec<_>>(),
        }));
        return;
    }
    let agent = agent.as_deref().unwrap_or("(it did not say what it is)");
    print_result(&format!("{peer} over {} at {}: {agent}", report.transport, report.address));
    for rtt in &report.rtts {
        print_result(&format!("round trip {:.3} ms", rtt.as_secs_f64() * 1e3));
    }
}
