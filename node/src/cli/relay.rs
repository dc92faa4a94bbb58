//! `ketch relay`.

use std::net::SocketAddr;

use anyhow::Context as _;
use ketch::{
    relay::{config::RelayConfig, page},
    state::StateFolder,
    swarm::{Keypair, Multiaddr, RelayOptions, RelayServer, address::with_port},
};
use tokio::net::TcpListener;

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
    let config = config(&command)?;
    let stop = stop_on_signal()?;
    let metrics = match config.metrics {
        Some(address) => {
            let bound = TcpListener::bind(address).await;
            Some(bound.with_context(|| format!("listening on {address} for those that gather counts"))?)
        }
        None => None,
    };
    let mut relay = start(load_identity(state)?, config).await?;
    let shown_at = metrics.as_ref().map(TcpListener::local_addr).transpose()?;
    if let Some(listener) = metrics {
        tokio::spawn(page::serve(listener, relay.metrics()));
    }
    announce(&relay, shown_at, command.json);
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            () = relay.addresses_changed() => announce(&relay, shown_at, command.json),
        }
    }
    relay.shutdown().await;
    // To be stopped is how it ends.
    Ok(Exit::Stored)
}

/// The file and the command line together.
fn config(command: &args::Relay) -> anyhow::Result<RelayConfig> {
    let mut config = match &command.config {
        Some(file) => RelayConfig::read(file)?,
        None => RelayConfig::default(),
    };
    config.listen.extend(command.listen.iter().cloned());
    config.external.extend(command.external.iter().cloned());
    config.metrics = command.metrics.or(config.metrics);
    Ok(config)
}

/// Listens where it was asked, else on the usual port.
async fn start(identity: Keypair, config: RelayConfig) -> anyhow::Result<RelayServer> {
    let RelayConfig { listen, external, policy, metrics: _ } = config;
    let options = RelayOptions { listen, external, policy, ..RelayOptions::default() };
    if !options.listen.is_empty() {
        return Ok(RelayServer::start(identity, options).await?);
    }
    let listen_where_possible =
        default_addresses(None).iter().map(|address| with_port(address, PORT)).collect();
    let relay = RelayServer::start(identity, RelayOptions { listen_where_possible, ..options }).await?;
    anyhow::ensure!(
        relay.listens(),
        "the port {PORT} is taken on this machine, or it has no address; --listen ADDR names another"
    );
    Ok(relay)
}

fn announce(relay: &RelayServer, metrics: Option<SocketAddr>, as_json: bool) {
    let named = |address: Multiaddr| address.with_p2p(relay.peer()).unwrap_or_else(|other| other).to_string();
    let addresses: Vec<_> = relay.addresses().into_iter().map(named).collect();
    if as_json {
        return print_json(&json::relaying(&relay.peer().to_string(), &addresses, metrics));
    }
    print_line("relaying; peers name it by --relay-at and one of these:");
    addresses.iter().for_each(|address| print_result(address));
    if let Some(metrics) = metrics {
        print_line(&format!("counts are at http://{metrics}/metrics"));
    }
}
