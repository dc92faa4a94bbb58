//! `ketch send`.

use std::{
    fs::{self, OpenOptions},
    io::{self, IsTerminal as _, Write as _},
    num::NonZeroU32,
    os::unix::fs::OpenOptionsExt as _,
    path::Path,
};

use anyhow::Context as _;
use ketch::{
    state::StateFolder,
    swarm::{
        Inbound, Keypair, Multiaddr, Node, NodeError, NodeOptions, TransportKind,
        address::{dialable_by_others, is_loopback, on_every_interface, with_any_port, with_port_of},
    },
    transfer,
    tree::{Source, SourceError},
    trust::{HeldOffer, Lifetime, OfferRequest, Offers, Ticket, offers::Opened, qr},
};
use ketch_protocol::{introduction::Purpose, message::Counts};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::{
    args,
    exit::{Exit, Usage},
    invite::{Invite, Waiting, now_s},
    json, load_identity, open_indexes,
    output::{Output, Side, print_json, print_line, print_result},
    reserving::Reserving,
    stop_on_signal,
};

/// Events that wait to be shown.
pub(super) const EVENTS: usize = 256;

pub(super) async fn run(command: args::Send, state: &StateFolder) -> anyhow::Result<Exit> {
    let source = open_source(&command)?;
    let stop = stop_on_signal()?;
    let mut opened = open_offer(&command, state)?;
    let options = NodeOptions {
        settings: command.channel.settings(),
        relays: command.reach.relays(state)?,
        introductions: command.code,
        opens_ports: command.router.opens_ports(&command.listen),
        lan: command.reach.lan(),
        ..NodeOptions::default()
    };
    let (node, mut inbound) = listen(&command, load_identity(state)?, &opened.offer, options).await?;
    let mut reserving = Reserving::start(&node, command.json).await;
    // What was said comes first: a ticket has room for so many.
    let own = addresses_to_share(node.listen_addresses());
    let addresses: Vec<_> =
        command.announce.iter().cloned().chain(own).chain(reserving.addresses()).collect();
    opened.offer.remember_addresses(node.listen_addresses())?;
    let ticket = opened.offer.ticket(node.peer(), addresses);
    let mut waiting = None;
    if command.code {
        let guest = wait_for_guest(&command, &node, &mut inbound, &mut opened.offer, &ticket, &stop).await;
        if guest.is_err() {
            // Whoever was refused hears of it first.
            node.shutdown().await;
        }
        waiting = Some(guest?);
    } else {
        announce(&command, &ticket, opened.reopened)?;
    }

    let (events, mut shown) = mpsc::channel(EVENTS);
    let mut output = Output::new(Side::Sender, command.json);
    let request = transfer::OfferRequest {
        offer: opened.offer,
        source,
        layout: command.layout.into(),
        connections: command.connections,
        indexes: open_indexes(state),
    };
    let offering = transfer::offer(&mut inbound, request, &events, &stop);
    let offering = async {
        tokio::select! {
            ended = offering => ended,
            never = reserving.tell() => match never {},
        }
    };
    let offering = show_while(offering, &mut shown, |event| output.show(&event));
    let ended = match &mut waiting {
        None => offering.await,
        // A guest whose connection broke may use its code again.
        Some(waiting) => tokio::select! {
            ended = offering => ended,
            never = waiting.again(ticket.to_string().into_bytes()) => match never {},
        },
    };
    output.clear();
    if let Some(waiting) = waiting {
        waiting.end().await;
    }
    node.shutdown().await;
    Ok(exit_of(&ended?))
}

/// Prints a code and waits for the one who was told it. A use of the offer is reserved for that peer before it gets
/// the ticket, so that both sides know for sure with whom they deal.
async fn wait_for_guest(
    command: &args::Send,
    node: &Node,
    inbound: &mut Inbound,
    offer: &mut HeldOffer,
    ticket: &Ticket,
    stop: &CancellationToken,
) -> anyhow::Result<Waiting> {
    let invite = Invite {
        node,
        introductions: inbound.take_introductions().context("the node has no introductions to take")?,
        purpose: Purpose::Fetch,
        addresses: ticket.addresses(),
        expires_s: command.expires.unwrap_or(Lifetime::OF_INVITATION).expires_s(now_s()),
        command: "ketch receive",
        json: command.json,
        stop,
    };
    let mut waiting = invite.by_code().await?;
    let give = |peer| {
        offer.admit(peer, ticket.secret(), now_s()).map_err(|error| error.to_string())?;
        Ok(ticket.to_string().into_bytes())
    };
    match waiting.guest(give).await {
        Ok(_) => Ok(waiting),
        Err(error) => {
            waiting.end().await;
            Err(error)
        }
    }
}

/// The worst of all sessions: whoever looks at one code wants to know whether all have everything.
fn exit_of(accounts: &[Counts]) -> Exit {
    let incomplete = accounts.iter().find(|counts| !counts.is_complete());
    incomplete.map_or(Exit::Stored, Exit::of_counts)
}

/// Runs `work` and shows its events, those that are left at its end too.
pub(super) async fn show_while<T, E>(
    work: impl Future<Output = T>,
    events: &mut mpsc::Receiver<E>,
    mut show: impl FnMut(E),
) -> T {
    let mut work = std::pin::pin!(work);
    loop {
        tokio::select! {
            biased;
            Some(event) = events.recv() => show(event),
            done = &mut work => {
                while let Ok(event) = events.try_recv() {
                    show(event);
                }
                return done;
            }
        }
    }
}

fn open_source(command: &args::Send) -> anyhow::Result<Source> {
    Source::open(&command.paths).map_err(|error| {
        if matches!(error, SourceError::Duplicate { .. }) {
            let hint = Some("send them one after the other, or rename one");
            return Usage { message: error.to_string(), hint }.into();
        }
        error.into()
    })
}

fn open_offer(command: &args::Send, state: &StateFolder) -> anyhow::Result<Opened> {
    let request = OfferRequest {
        paths: command.paths.clone(),
        only_for: command.to,
        uses: command.uses.and_then(NonZeroU32::new),
        lifetime: command.expires,
        replace: command.new,
    };
    let opened = Offers::open(state.path())?.reopen_or_create(&request, now_s())?;
    for warning in &opened.warnings {
        print_line(&format!("warning: {warning}"));
    }
    Ok(opened)
}

/// Listens where it was asked, else where the offer listened before, else everywhere.
async fn listen(
    command: &args::Send,
    identity: Keypair,
    offer: &HeldOffer,
    options: NodeOptions,
) -> anyhow::Result<(Node, Inbound)> {
    let fits = |address: &Multiaddr| {
        command.transport.is_none_or(|wanted| TransportKind::of(address) == Some(wanted))
    };
    if let Some(other) = command.listen.iter().find(|address| !fits(address)) {
        let message = format!("--listen {other} is no address of the transport that --transport asks for");
        return Err(Usage { message, hint: None }.into());
    }
    let explicit = !command.listen.is_empty();
    let wanted = if explicit { command.listen.clone() } else { default_addresses(command.transport) };
    let known = offer.offer().addresses();
    let before: Vec<_> = match explicit {
        true => with_ports_of(&wanted, known),
        // As it was: whoever has the ticket looks for it there.
        false => everywhere(known).into_iter().filter(fits).collect(),
    };
    if !before.is_empty() && before != wanted {
        let started = start(identity.clone(), before, explicit, options.clone()).await;
        if let Ok((node, inbound)) = started
            && !node.listen_addresses().is_empty()
        {
            return Ok((node, inbound));
        }
        print_line("warning: the ports of this ticket are taken, so it is printed anew with others");
    }
    let (node, inbound) = start(identity, wanted, explicit, options).await?;
    anyhow::ensure!(!node.listen_addresses().is_empty(), "no address of this machine can be listened on");
    Ok((node, inbound))
}

/// Addresses that somebody named must all work; of the usual ones those that the machine has.
async fn start(
    identity: Keypair,
    listen: Vec<Multiaddr>,
    explicit: bool,
    options: NodeOptions,
) -> Result<(Node, Inbound), NodeError> {
    let options = match explicit {
        true => NodeOptions { listen, ..options },
        false => NodeOptions { listen_where_possible: listen, ..options },
    };
    Node::start(identity, options).await
}

/// Any port on every interface, IPv4 and IPv6.
pub(super) fn default_addresses(transport: Option<TransportKind>) -> Vec<Multiaddr> {
    let all = ["/ip4/0.0.0.0/udp/0/quic-v1", "/ip4/0.0.0.0/tcp/0", "/ip6/::/udp/0/quic-v1", "/ip6/::/tcp/0"];
    all.iter()
        .filter_map(|address| address.parse().ok())
        .filter(|address| transport.is_none_or(|wanted| TransportKind::of(address) == Some(wanted)))
        .collect()
}

/// The wanted addresses, those without a port with the one that the same address had before.
fn with_ports_of(wanted: &[Multiaddr], before: &[Multiaddr]) -> Vec<Multiaddr> {
    let known = |wanted: &Multiaddr| {
        let like = |before: &&Multiaddr| {
            let open = with_any_port(before);
            open == *wanted || on_every_interface(&open) == *wanted
        };
        before.iter().find(like).map(|before| with_port_of(wanted, before))
    };
    wanted.iter().map(|wanted| known(wanted).unwrap_or_else(|| wanted.clone())).collect()
}

/// The ports of addresses that an offer had, one for each transport and family. The interfaces may have
/// changed since; those of an offer that was bound to the loopback alone stay there.
fn everywhere(addresses: &[Multiaddr]) -> Vec<Multiaddr> {
    if addresses.iter().all(is_loopback) {
        return addresses.to_vec();
    }
    let mut all: Vec<_> = addresses.iter().map(on_every_interface).collect();
    all.sort();
    all.dedup();
    all
}

/// Addresses worth a place in a ticket. Sorted, since listeners report them in any order and the same offer should have
/// the same ticket.
pub(super) fn addresses_to_share(mut addresses: Vec<Multiaddr>) -> Vec<Multiaddr> {
    addresses.sort();
    dialable_by_others(addresses)
}

fn announce(command: &args::Send, ticket: &Ticket, reopened: bool) -> anyhow::Result<()> {
    let line = ticket.to_string();
    if let Some(file) = &command.ticket_file {
        write_ticket(file, &line).with_context(|| format!("writing the ticket to {}", file.display()))?;
    }
    if command.json {
        let addresses: Vec<_> = ticket.addresses().iter().map(ToString::to_string).collect();
        print_json(&json::offered(&line, reopened, &addresses, ticket.expires_s()));
        return Ok(());
    }
    if io::stderr().is_terminal() {
        draw_code(ticket);
    }
    let state = if reopened { "the same ticket as before" } else { "the ticket" };
    print_line(&format!("{state}; on the other machine: ketch receive TICKET"));
    print_result(&line);
    io::stdout().flush().context("printing the ticket")
}

fn draw_code(ticket: &Ticket) {
    let columns = rustix::termios::tcgetwinsize(io::stderr()).map_or(0, |size| usize::from(size.ws_col));
    if let Some(drawing) = qr::draw(&ticket.to_capitals()).filter(|drawing| drawing.columns <= columns) {
        print_line(drawing.text.trim_end());
    }
}

/// Writes beside and renames, so that a reader never finds half a ticket and no other user can read it. What is
/// no regular file stays: a rename would put the ticket in the place of a device such as `/dev/null`.
fn write_ticket(file: &Path, line: &str) -> io::Result<()> {
    if fs::symlink_metadata(file).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("it exists and is no regular file"));
    }
    let mut aside = file.as_os_str().to_owned();
    aside.push(format!(".{}", std::process::id()));
    let mut written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
    let renamed = writeln!(written, "{line}").and_then(|()| fs::rename(&aside, file));
    if renamed.is_err() {
        // The first error is the one to tell.
        let _ = fs::remove_file(&aside);
    }
    renamed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &[&str]) -> Vec<Multiaddr> {
        list.iter().map(|address| address.parse().unwrap()).collect()
    }

    #[test]
    fn a_ticket_has_the_loopback_only_when_there_is_nothing_else() {
        let both = addresses(&["/ip4/127.0.0.1/tcp/1", "/ip4/10.0.0.1/tcp/1", "/ip6/fe80::1/tcp/1"]);
        assert_eq!(addresses_to_share(both), addresses(&["/ip4/10.0.0.1/tcp/1"]));
        let alone = addresses(&["/ip4/127.0.0.1/tcp/1"]);
        assert_eq!(addresses_to_share(alone.clone()), alone);
    }

    #[test]
    fn the_order_in_which_listeners_report_does_not_change_a_ticket() {
        let mut reported =
            addresses(&["/ip4/10.0.0.1/udp/8/quic-v1", "/ip6/fd00::1/tcp/7", "/ip4/10.0.0.1/tcp/7"]);
        let once = addresses_to_share(reported.clone());
        reported.reverse();
        assert_eq!(addresses_to_share(reported), once);
    }

    #[test]
    fn a_ticket_takes_the_place_of_a_regular_file_only() {
        use std::os::unix::net::UnixListener;
        let folder = tempfile::tempdir().unwrap();
        let (file, socket) = (folder.path().join("file"), folder.path().join("socket"));
        fs::write(&file, "before").unwrap();
        write_ticket(&file, "ticket").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "ticket\n");
        let _listening = UnixListener::bind(&socket).unwrap();
        write_ticket(&socket, "ticket").unwrap_err();
        assert!(!fs::symlink_metadata(&socket).unwrap().is_file());
    }

    #[test]
    fn a_reopened_offer_asks_for_its_ports_on_every_interface() {
        let before =
            addresses(&["/ip4/127.0.0.1/tcp/7", "/ip4/10.0.0.1/tcp/7", "/ip4/10.0.0.1/udp/8/quic-v1"]);
        let after = addresses(&["/ip4/0.0.0.0/tcp/7", "/ip4/0.0.0.0/udp/8/quic-v1"]);
        assert_eq!(everywhere(&before), after);
        let loopback = addresses(&["/ip4/127.0.0.1/tcp/7"]);
        assert_eq!(everywhere(&loopback), loopback);
    }

    #[test]
    fn a_named_address_without_a_port_gets_the_one_it_had() {
        let before = addresses(&["/ip4/127.0.0.1/tcp/7", "/ip4/10.0.0.1/udp/8/quic-v1"]);
        let named = addresses(&["/ip4/127.0.0.1/tcp/0", "/ip4/0.0.0.0/udp/0/quic-v1", "/ip4/10.0.0.1/tcp/9"]);
        let kept = addresses(&["/ip4/127.0.0.1/tcp/7", "/ip4/0.0.0.0/udp/8/quic-v1", "/ip4/10.0.0.1/tcp/9"]);
        assert_eq!(with_ports_of(&named, &before), kept);
    }
}
