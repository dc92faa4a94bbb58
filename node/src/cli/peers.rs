//! `ketch peers`: the address book, and where peers were reached.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::Context as _;
use ketch::{
    state::StateFolder,
    swarm::{Multiaddr, PeerId, TransportKind},
    trust::{Book, Paths, PeerName, PeerReference, book::BookError, paths::Reached},
};
use serde_json::{Value, json};

use super::{
    args,
    exit::{Exit, Usage},
    format,
    output::{print_json, print_line, print_result},
};

pub(super) fn run(command: args::Peers, state: &StateFolder) -> anyhow::Result<Exit> {
    match command.action {
        args::PeersAction::Add { name, peer, addresses } => {
            Book::change(state, |book| book.add(name.clone(), peer, addresses)).map_err(told)?;
            print_line(&format!("{name} is {peer}"));
        }
        args::PeersAction::List { json } => {
            let (book, paths) = (Book::load(state)?, Paths::load(state));
            let named = book.iter().map(|(name, known)| (Some(name), known.peer));
            let is_named = |peer: &PeerId| book.iter().any(|(_, known)| known.peer == *peer);
            let nameless = paths.peers().filter(|peer| !is_named(peer)).map(|peer| (None, peer));
            named.chain(nameless).for_each(|(name, peer)| print_peer(name, peer, (&book, &paths), json));
        }
        args::PeersAction::Show { peer, json } => {
            let (book, paths) = (Book::load(state)?, Paths::load(state));
            let known = book.resolve(&peer).map_err(told)?;
            let name = book.iter().find(|(name, entry)| match &peer {
                PeerReference::Name(meant) => *name == meant,
                PeerReference::Id(id) => entry.peer == *id,
            });
            print_peer(name.map(|(name, _)| name), known, (&book, &paths), json);
        }
        args::PeersAction::Remove { peer, addresses } if addresses.is_empty() => forget(state, &peer)?,
        args::PeersAction::Remove { peer, addresses } => forget_addresses(state, &peer, &addresses)?,
    }
    Ok(Exit::Stored)
}

/// What the person asked for makes no sense with this book; a book that cannot be used is another matter.
pub(super) fn told(error: BookError) -> anyhow::Error {
    let hint = match &error {
        BookError::Io { .. } | BookError::Damaged { .. } => return error.into(),
        BookError::Taken { .. } => Some("`ketch peers remove NAME` makes the name free"),
        BookError::Unknown(_) => Some("`ketch peers list` shows whom it knows, `ketch peers add` adds one"),
        BookError::ManyAddresses { .. } => Some("`ketch peers remove NAME ADDR` forgets an old one"),
        BookError::UnknownAddress { .. } => Some("`ketch peers show NAME` shows those it has"),
        BookError::OtherPeer { .. } | BookError::Full => None,
    };
    Usage { message: error.to_string(), hint }.into()
}

/// Forgets a name, and where its peer was reached; a peer without one by its PeerId.
fn forget(state: &StateFolder, peer: &PeerReference) -> anyhow::Result<()> {
    let peer = match peer {
        PeerReference::Name(name) => {
            let known = Book::change(state, |book| book.remove(name)).map_err(told)?;
            print_line(&format!("{name} was {}", known.peer));
            known.peer
        }
        PeerReference::Id(peer) => *peer,
    };
    let still_named = Book::load(state)?.iter().any(|(_, known)| known.peer == peer);
    if !still_named {
        Paths::forget(state, peer, None).context("forgetting where it was reached")?;
    }
    Ok(())
}

/// Forgets addresses, those that were said and those that worked; each must be one of them.
fn forget_addresses(
    state: &StateFolder,
    peer: &PeerReference,
    addresses: &[Multiaddr],
) -> anyhow::Result<()> {
    let id = Book::load(state)?.resolve(peer).map_err(told)?;
    for address in addresses {
        let worked = Paths::forget(state, id, Some(address)).context("forgetting where it was reached")?;
        let said = match peer {
            PeerReference::Name(name) => {
                Book::change(state, |book| book.remove_addresses(name, std::slice::from_ref(address)))
            }
            PeerReference::Id(_) if worked > 0 => Ok(()),
            PeerReference::Id(_) => {
                let message = format!("{id} was not reached at {address}");
                return Err(Usage { message, hint: Some("`ketch peers list` shows where") }.into());
            }
        };
        match said {
            Err(BookError::UnknownAddress { .. }) if worked > 0 => {}
            said => said.map_err(told)?,
        }
        print_line(&format!("{address} is forgotten"));
    }
    Ok(())
}

fn print_peer(name: Option<&PeerName>, peer: PeerId, (book, paths): (&Book, &Paths), as_json: bool) {
    let said: Vec<_> = match name.and_then(|name| book.find(name).ok()) {
        Some(known) => known.addresses.iter().map(Multiaddr::to_string).collect(),
        None => Vec::new(),
    };
    let reached = paths.of(peer);
    if as_json {
        let reached: Vec<_> = reached.iter().map(describe).collect();
        let name = name.map(PeerName::as_str);
        return print_json(&json!({
            "name": name, "peer_id": peer.to_string(), "addresses": said, "reached": reached,
        }));
    }
    match name {
        Some(name) => print_result(&format!("{name}  {peer}")),
        None => print_result(&peer.to_string()),
    }
    said.iter().for_each(|address| print_result(&format!("  {address}")));
    let now = SystemTime::now();
    reached.iter().for_each(|reached| print_result(&format!("  {}", reached_line(reached, now))));
}

fn describe(reached: &Reached) -> Value {
    json!({
        "address": reached.address.to_string(),
        "transport": TransportKind::of(&reached.address).map(|kind| kind.to_string()),
        "network": reached.network,
        "last_s": reached.last_s,
        "rtt_ms": reached.round_trip.map(|rtt| rtt.as_secs_f64() * 1e3),
        "bytes_per_s": reached.bytes_per_s,
    })
}

/// Where a peer was reached, when, and what was measured.
fn reached_line(reached: &Reached, now: SystemTime) -> String {
    let since = now.duration_since(UNIX_EPOCH + Duration::from_secs(reached.last_s)).unwrap_or_default();
    let rtt = reached.round_trip.map(|rtt| format!(", round trip {:.1} ms", rtt.as_secs_f64() * 1e3));
    let rate = reached.bytes_per_s.map(|bytes| format!(", {}/s", format::bytes(bytes)));
    let (rtt, rate) = (rtt.unwrap_or_default(), rate.unwrap_or_default());
    format!("reached at {} {} ago{rtt}{rate}", reached.address, age(since))
}

/// In the largest unit that fits.
fn age(since: Duration) -> String {
    let units = [(86_400, "d"), (3_600, "h"), (60, "min")];
    let seconds = since.as_secs();
    let fitting = units.into_iter().find(|(length, _)| seconds >= *length);
    let (length, unit) = fitting.unwrap_or((1, "s"));
    format!("{} {unit}", seconds / length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_told_with_its_age_and_what_was_measured() {
        let plain = Reached {
            address: "/ip4/192.0.2.1/tcp/1".parse().unwrap(),
            network: None,
            last_s: 1_000,
            round_trip: None,
            bytes_per_s: None,
        };
        let at = |seconds: u64| UNIX_EPOCH + Duration::from_secs(1_000 + seconds);
        assert_eq!(reached_line(&plain, at(7)), "reached at /ip4/192.0.2.1/tcp/1 7 s ago");
        let measured = Reached {
            round_trip: Some(Duration::from_micros(14_250)),
            bytes_per_s: Some(22_000_000),
            ..plain
        };
        let line = reached_line(&measured, at(7_300));
        assert!(line.contains("2 h ago, round trip 14.2 ms, "), "{line}");
        assert!(line.ends_with("/s"), "{line}");
    }

    #[test]
    fn an_age_has_the_largest_unit_that_fits() {
        let shown = [0, 59, 60, 3_599, 3_600, 90_000].map(|seconds| age(Duration::from_secs(seconds)));
        assert_eq!(shown, ["0 s", "59 s", "1 min", "59 min", "1 h", "1 d"]);
    }
}
