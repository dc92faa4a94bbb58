//! `ketch serve`.

use ketch::{
    config::ServeConfig,
    state::StateFolder,
    swarm::{Inbound, Keypair, Multiaddr, Node, NodeOptions, PeerId, address::with_port},
    transfer::{self, Direction, Event, ServeEvent},
    trust::{Book, Shares, shares::SharesError},
};
use tokio::sync::mpsc;

use super::{
    args,
    exit::{Exit, Usage},
    json, load_identity, open_indexes,
    output::{Side, print_json, print_line, print_result, summary_line},
    reserving::Reserving,
    send::{EVENTS, addresses_to_share, default_addresses, show_while},
    stop_on_signal,
};

/// Port of the usual addresses: KETC on the keys of a telephone. It stays from one start to the next, so that
/// address books stay right.
pub(super) const PORT: u16 = 5382;

pub(super) async fn run(command: args::Serve, state: &StateFolder) -> anyhow::Result<Exit> {
    let config = config(&command)?;
    let book = Book::load(state)?;
    let shares = Shares::open(&config.shares, &book).map_err(told)?;
    let stop = stop_on_signal()?;
    let options = NodeOptions {
        settings: command.channel.settings(),
        relays: command.reach.relays(state)?,
        opens_ports: command.router.opens_ports(&config.listen),
        lan: command.reach.lan(),
        ..NodeOptions::default()
    };
    let (node, mut inbound) = listen(load_identity(state)?, config.listen, options).await?;
    let mut reserving = Reserving::start(&node, command.json).await;
    let log = Log { book, json: command.json };
    log.announce(&node, &shares, &reserving.addresses());

    let (events, mut shown) = mpsc::channel(EVENTS);
    let indexes = open_indexes(state);
    let serving = transfer::serve(&mut inbound, shares, indexes, command.connections, &events, &stop);
    let serving = async {
        tokio::select! {
            ended = serving => ended,
            never = reserving.tell() => match never {},
        }
    };
    let ended = show_while(serving, &mut shown, |event| log.show(&event)).await;
    node.shutdown().await;
    ended?;
    // To be stopped is how it ends.
    Ok(Exit::Stored)
}

/// The file and the command line together.
fn config(command: &args::Serve) -> anyhow::Result<ServeConfig> {
    let senseless = |error: ketch::config::ConfigError| Usage { message: error.to_string(), hint: None };
    let mut config = match &command.config {
        Some(file) => ServeConfig::read(file)?,
        None => ServeConfig::default(),
    };
    config.listen.extend(command.listen.iter().cloned());
    for (name, path) in &command.share {
        config.share(name.clone(), path.clone()).map_err(senseless)?;
    }
    for (peer, share, rights) in &command.allow {
        config.allow(peer.clone(), share, *rights).map_err(senseless)?;
    }
    if config.shares.is_empty() {
        let hint = Some("--share NAME=PATH shares a directory, --allow PEER=NAME:RIGHT says with whom");
        return Err(Usage { message: "there is nothing to share".into(), hint }.into());
    }
    Ok(config)
}

/// The person's mistake, or a share that cannot be had.
fn told(error: SharesError) -> anyhow::Error {
    match &error {
        SharesError::Unreachable { .. } => error.into(),
        SharesError::NotDirectory { .. } | SharesError::SharedTrash { .. } => {
            Usage { message: error.to_string(), hint: None }.into()
        }
        SharesError::Peer { source, .. } => {
            let message = format!("{error}: {source}");
            Usage { message, hint: Some("`ketch peers add NAME PEERID` gives a peer a name") }.into()
        }
    }
}

/// Listens where it was asked, else on the usual port, else on any.
async fn listen(
    identity: Keypair,
    wanted: Vec<Multiaddr>,
    all: NodeOptions,
) -> anyhow::Result<(Node, Inbound)> {
    if !wanted.is_empty() {
        let options = NodeOptions { listen: wanted, ..all };
        return Ok(Node::start(identity, options).await?);
    }
    for port in [PORT, 0] {
        let listen_where_possible =
            default_addresses(None).iter().map(|address| with_port(address, port)).collect();
        let options = NodeOptions { listen_where_possible, ..all.clone() };
        let (node, inbound) = Node::start(identity.clone(), options).await?;
        if !node.listen_addresses().is_empty() {
            return Ok((node, inbound));
        }
        print_line(&format!("warning: the port {PORT} is taken, so another one is used this time"));
    }
    anyhow::bail!("no address of this machine can be listened on")
}

/// Tells what happens, for a person or for a program.
struct Log {
    book: Book,
    json: bool,
}

impl Log {
    fn announce(&self, node: &Node, shares: &Shares, reserved: &[Multiaddr]) {
        shares.warnings().iter().for_each(|warning| print_line(&format!("warning: {warning}")));
        let names: Vec<_> = shares.iter().map(|share| share.name.to_string()).collect();
        let addresses: Vec<_> = addresses_to_share(node.listen_addresses())
            .iter()
            .chain(reserved)
            .map(ToString::to_string)
            .collect();
        if self.json {
            return print_json(&json::serving(&node.peer().to_string(), &names, &addresses));
        }
        print_result(&format!("{} serves {}", node.peer(), names.join(", ")));
        addresses.iter().for_each(|address| print_result(&format!("listens on {address}")));
    }

    fn show(&self, told: &ServeEvent) {
        let ServeEvent { session, peer, event } = told;
        if self.json {
            if let Some(mut object) = json::event(event) {
                object["session"] = (*session).into();
                object["peer_id"] = peer.to_string().into();
                print_json(&object);
            }
            return;
        }
        if let Some(line) = line(event) {
            print_line(&format!("{}, session {session}: {line}", self.name(*peer)));
        }
    }

    /// What the peer is called here.
    fn name(&self, peer: PeerId) -> String {
        let named = self.book.iter().find(|(_, known)| known.peer == peer);
        named.map_or_else(|| peer.to_string(), |(name, _)| name.to_string())
    }
}

/// What a person reads of an event; nothing of those that only a watcher wants.
fn line(event: &Event) -> Option<String> {
    match event {
        Event::Began { place, direction, preview } => {
            let verb = match direction {
                Direction::Pull => "pulls",
                Direction::Push => "pushes to",
            };
            Some(format!("{verb} {place}{}", if *preview { ", as a dry run" } else { "" }))
        }
        Event::TurnedAway { why, .. } => Some(format!("turned away: {why}")),
        Event::Problem(problem) => Some(problem.to_string()),
        Event::SessionEnded { outcome, .. } => Some(match outcome {
            Ok(report) => summary_line(Side::Sync, report),
            Err(error) => format!("ended: {error}"),
        }),
        Event::Counted(_)
        | Event::Again(_)
        | Event::Connected(_)
        | Event::Admitted { .. }
        | Event::Consult(_)
        | Event::Agreed
        | Event::Retrying { .. }
        | Event::Changed { .. }
        | Event::Progress(_) => None,
    }
}
