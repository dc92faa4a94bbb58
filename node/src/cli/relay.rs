//! `ketch relay`.

use ketch::{
    state::StateFolder,
    swarm::{Keypair, RelayOptions, RelayServer, address::with_port},
};

use super::{
    args,
    exit::Exit,
    json, load_identity,
    output::{print_json, print_line, print_result},
    send::default_addresses,
    stop_on_signal,
};

/// Port of the usual addresses: the one after that of `ketch serve`, so that one machine may do both. It stays from one
/// start to the next, so that what was handed out stays right.
const PORT: u16 = 5383;

pub(super) async fn run(command: args::Relay, state: &StateFolder) -> anyhow::Result<Exit> {
    let stop = stop_on_signal()?;
    let relay = start(load_identity(state)?, &command).await?;
    announce(&relay, command.json);
    stop.cancelled().await;
    relay.shutdown().await;
    // To be stopped is how it ends.
    Ok(Exit::Stored)
}

/// Listens where it was asked, else on the usual port.
async fn start(identity: Keypair, command: &args::Relay) -> anyhow::Result<RelayServer> {
    let external = command.external.clone();
    let options = RelayOptions { external, ..RelayOptions::default() };
    if !command.listen.is_empty() {
        let options = RelayOptions { listen: command.listen.clone(), ..options };
        return Ok(RelayServer::start(identity, options).await?);
    }
    let listen_where_possible =
        default_addresses(None).iter().map(|address| with_port(address, PORT)).collect();
    let relay = RelayServer::start(identity, RelayOptions { listen_where_possible, ..options }).await?;
    anyhow::ensure!(
        !relay.addresses().is_empty(),
        "the port {PORT} is taken on this machine; --listen ADDR names another"
    );
    Ok(relay)
}

fn announce(relay: &RelayServer, as_json: bool) {
    let named = |address: &ketch::swarm::Multiaddr| format!("{address}/p2p/{}", relay.peer());
    let addresses: Vec<_> = relay.addresses().iter().map(named).collect();
    if as_json {
        return print_json(&json::relaying(&relay.peer().to_string(), &addresses));
    }
    print_line("relaying; others name it with --relay-at and one of these:");
    addresses.iter().for_each(|address| print_result(address));
}
