//! `ketch pair`: two nodes get into each other's address books.

use std::io::{self, BufRead as _, IsTerminal as _, Write as _};

use anyhow::Context as _;
use ketch::{
    introduction::{Introduced, PairCard},
    state::StateFolder,
    swarm::{Inbound, Multiaddr, Node, NodeOptions, PeerId, address::with_port},
    trust::{Book, PeerName, book::BookError, lifetime::Lifetime},
};
use ketch_protocol::introduction::Purpose;
use tokio_util::sync::CancellationToken;

use super::{
    args,
    exit::{Exit, Usage},
    invite::{Invite, now_s},
    join::{Told, join},
    json, load_identity,
    output::{print_json, print_line, print_result},
    peers,
    reserving::Reserving,
    send::{addresses_to_share, default_addresses},
    serve, stop_on_signal,
};

/// What a node calls itself whose machine has no usable name.
const NAMELESS: &str = "peer";

/// Names that are tried where the one that a peer gives itself is taken: the name and a number.
const NAMES_TRIED: u32 = 100;

pub(super) async fn run(command: args::Pair, state: &StateFolder) -> anyhow::Result<Exit> {
    let told = command.told.as_deref().map(|told| Told::read(told, &command.at)).transpose()?;
    let stop = stop_on_signal()?;
    // A book that cannot be used is better known before anybody comes.
    Book::load(state)?;
    let (node, inbound) = listen(&command, state, told.is_none()).await?;
    let own = own_card(&command, &node)?.encode();
    let introduced = match &told {
        Some(told) => join(&node, told, &command.at, Purpose::Pair, own, &stop).await,
        None => wait(&command, &node, inbound, own, &stop).await,
    };
    let paired = introduced.and_then(|introduced| remember(&command, state, &introduced));
    node.shutdown().await;
    paired
}

async fn listen(
    command: &args::Pair,
    state: &StateFolder,
    introductions: bool,
) -> anyhow::Result<(Node, Inbound)> {
    let options = NodeOptions {
        introductions,
        relays: command.reach.relays(state)?,
        lan: command.reach.lan(),
        ..NodeOptions::default()
    };
    let options = match command.listen.is_empty() {
        true => NodeOptions { listen_where_possible: default_addresses(None), ..options },
        false => NodeOptions { listen: command.listen.clone(), ..options },
    };
    Ok(Node::start(load_identity(state)?, options).await?)
}

/// Prints a ticket or a code, and waits for the other side.
async fn wait(
    command: &args::Pair,
    node: &Node,
    mut inbound: Inbound,
    own: Vec<u8>,
    stop: &CancellationToken,
) -> anyhow::Result<Introduced> {
    let reserving = Reserving::start(node, command.json).await;
    let listening = addresses_to_share(node.listen_addresses()).into_iter();
    let addresses: Vec<_> = listening.chain(reserving.addresses()).collect();
    anyhow::ensure!(!addresses.is_empty(), "no address of this machine can be listened on");
    let introductions = inbound.take_introductions().context("the node has no introductions to take")?;
    let invite = Invite {
        node,
        introductions,
        purpose: Purpose::Pair,
        addresses: &addresses,
        expires_s: command.expires.unwrap_or(Lifetime::OF_INVITATION).expires_s(now_s()),
        command: "ketch pair",
        json: command.json,
        stop,
    };
    let mut waiting = if command.code { invite.by_code().await? } else { invite.by_ticket()? };
    let introduced = waiting.guest(|_| Ok(own.clone())).await;
    waiting.end().await;
    introduced
}

/// What this side says of itself: where `ketch serve` will listen, which this command does not.
fn own_card(command: &args::Pair, node: &Node) -> anyhow::Result<PairCard> {
    let name = match &command.own_name {
        Some(name) => name.clone(),
        None => machine_name(),
    };
    if !command.address.is_empty() {
        return Ok(PairCard { name, addresses: command.address.clone() });
    }
    let mut addresses = Vec::new();
    for address in addresses_to_share(node.listen_addresses()) {
        let address = with_port(&address, serve::PORT);
        if !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    Ok(PairCard { name, addresses })
}

/// The first part of this machine's name, with what no name of a peer has left out.
fn machine_name() -> PeerName {
    let system = rustix::system::uname();
    let name = system.nodename().to_string_lossy();
    let first = name.split('.').next().unwrap_or_default();
    let plain: String =
        first.chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_')).collect();
    let plain = plain.trim_start_matches(['-', '_']).parse();
    plain.unwrap_or_else(|_| NAMELESS.parse().expect("it is a name of a peer"))
}

/// Puts the peer into the address book and says so.
fn remember(command: &args::Pair, state: &StateFolder, introduced: &Introduced) -> anyhow::Result<Exit> {
    let peer = introduced.peer();
    let card = PairCard::decode(&introduced.said, peer)?;
    let proposed = proposed_name(&Book::load(state)?, peer, &card.name);
    let asks = !command.yes && !command.json && io::stdin().is_terminal() && io::stderr().is_terminal();
    let name = match &command.name {
        Some(name) => name.clone(),
        None if asks => ask_name(state, peer, proposed)?,
        None => proposed,
    };
    let addresses = card.addresses.clone();
    Book::change(state, |book| book.add(name.clone(), peer, addresses))
        .map_err(|error| unnamed(peer, error))?;
    tell(&name, peer, &card.addresses, command.json);
    Ok(Exit::Stored)
}

/// The name that a peer has already, or what it calls itself, or that with a number where somebody else has it.
fn proposed_name(book: &Book, peer: PeerId, own: &PeerName) -> PeerName {
    if let Some((known, _)) = book.iter().find(|(_, known)| known.peer == peer) {
        return known.clone();
    }
    let numbered = (2..NAMES_TRIED).filter_map(|number| format!("{own}-{number}").parse().ok());
    let mut names = std::iter::once(own.clone()).chain(numbered);
    names.find(|name| book.find(name).is_err()).unwrap_or_else(|| own.clone())
}

/// Asks until a name is one, and is free. An empty line and the end of the input take the one that is proposed.
fn ask_name(state: &StateFolder, peer: PeerId, proposed: PeerName) -> anyhow::Result<PeerName> {
    let mut lines = io::stdin().lock().lines();
    loop {
        let mut terminal = io::stderr().lock();
        write!(terminal, "what to call {peer} here [{proposed}]: ").and_then(|()| terminal.flush())?;
        drop(terminal);
        let line = lines.next().transpose().context("reading a name")?.unwrap_or_default();
        if line.trim().is_empty() {
            return Ok(proposed);
        }
        match line.trim().parse::<PeerName>() {
            Err(error) => print_line(&error.to_string()),
            Ok(name) => match Book::load(state)?.find(&name) {
                Ok(known) if known.peer != peer => print_line(&format!("{name} is {} already", known.peer)),
                Ok(_) | Err(_) => return Ok(name),
            },
        }
    }
}

/// The other side has this one in its book; here only the name is missing.
fn unnamed(peer: PeerId, error: BookError) -> anyhow::Error {
    if let BookError::Taken { .. } = &error {
        let message = format!("{error}, so that {peer} has no name here");
        return Usage { message, hint: Some("`ketch peers add NAME PEERID` gives it another one") }.into();
    }
    peers::told(error)
}

fn tell(name: &PeerName, peer: PeerId, addresses: &[Multiaddr], as_json: bool) {
    if as_json {
        let addresses: Vec<_> = addresses.iter().map(ToString::to_string).collect();
        return print_json(&json::paired(name, peer, &addresses));
    }
    print_result(&format!("{name} is {peer}"));
    print_line(&format!(
        "that alone shares nothing: `ketch serve --share NAME=PATH --allow {name}=NAME:read` lets {name} read, and \
         `ketch sync {name}:NAME DIR` fetches what it shares with this node"
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_keeps_its_name_and_gets_no_one_elses() {
        let (known, stranger) = (PeerId::random(), PeerId::random());
        let (laptop, second) =
            ("laptop".parse::<PeerName>().unwrap(), "laptop-2".parse::<PeerName>().unwrap());
        let mut book = Book::default();
        assert_eq!(proposed_name(&book, stranger, &laptop), laptop);
        book.add(laptop.clone(), known, []).unwrap();
        assert_eq!(proposed_name(&book, stranger, &laptop), second);
        assert_eq!(proposed_name(&book, known, &second), laptop);
        book.add(second, known, []).unwrap();
        assert_eq!(proposed_name(&book, stranger, &laptop).as_str(), "laptop-3");
    }

    #[test]
    fn this_machine_has_a_name() {
        assert!(!machine_name().as_str().is_empty());
    }
}
