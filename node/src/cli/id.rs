//! `ketch id`.

use std::io::IsTerminal as _;

use anyhow::Context as _;
use ketch::{
    state::StateFolder,
    swarm::{Node, NodeOptions, address::with_any_port},
    trust::qr,
};
use serde_json::json;

use super::{
    args,
    exit::Exit,
    load_identity,
    output::{print_json, print_result},
    send,
};

pub(super) async fn run(command: &args::Id, state: &StateFolder) -> anyhow::Result<Exit> {
    let identity = load_identity(state)?;
    let listen_where_possible = send::default_addresses(None);
    let options = NodeOptions { listen_where_possible, ..NodeOptions::default() };
    let (node, _inbound) = Node::start(identity, options).await?;
    let peer = node.peer().to_string();
    let addresses: Vec<String> =
        node.listen_addresses().iter().map(with_any_port).map(|address| address.to_string()).collect();
    node.shutdown().await;
    if command.json {
        print_json(&json!({ "peer_id": peer, "addresses": addresses }));
        return Ok(Exit::Stored);
    }
    print_result(&peer);
    for address in addresses {
        print_result(&format!("listens on {address} (a free port is taken when it runs)"));
    }
    if command.qr {
        let drawing = qr::draw(&peer).context("drawing the PeerId")?;
        let plain = if std::io::stdout().is_terminal() { drawing.text } else { drawing.plain() };
        print_result(plain.trim_end());
    }
    Ok(Exit::Stored)
}
