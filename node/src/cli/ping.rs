//! `ketch ping`.

use std::time::Duration;

use ketch::{
    state::StateFolder,
    swarm::{Node, NodeOptions, PeerId, PingReport, address::split_peer},
};
use ketch_protocol::path::escape;
use serde_json::json;

use super::{
    args,
    exit::{Exit, Usage},
    load_identity,
    output::{print_json, print_result},
};

/// Time between round trips.
const INTERVAL: Duration = Duration::from_millis(200);

pub(super) async fn run(command: args::Ping, state: &StateFolder) -> anyhow::Result<Exit> {
    let (peer, address) = split_peer(command.address).ok_or_else(|| Usage {
        message: "the address does not say whom to expect: it must end in /p2p/PEERID".into(),
        hint: Some("`ketch id` prints the PeerId of a node"),
    })?;
    // The swarm pings each connection by itself; a person waits for these.
    let options = NodeOptions { ping_interval: INTERVAL, ..NodeOptions::default() };
    let (node, _inbound) = Node::start(load_identity(state)?, options).await?;
    let connection = node.dial(peer, vec![address]).await?;
    let report = node.ping(&connection, command.count).await?;
    node.shutdown().await;
    print(&peer, &report, command.json);
    Ok(Exit::Stored)
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
