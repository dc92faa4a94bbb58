//! `ketch peers`: the address book.

use ketch::{
    state::StateFolder,
    trust::{
        Book, PeerName,
        book::{BookError, Known},
    },
};
use serde_json::{Value, json};

use super::{
    args,
    exit::{Exit, Usage},
    output::{print_json, print_line, print_result},
};

pub(super) fn run(command: args::Peers, state: &StateFolder) -> anyhow::Result<Exit> {
    match command.action {
        args::PeersAction::Add { name, peer, addresses } => {
            Book::change(state, |book| book.add(name.clone(), peer, addresses)).map_err(told)?;
            print_line(&format!("{name} is {peer}"));
        }
        args::PeersAction::List { json } => {
            Book::load(state)?.iter().for_each(|(name, known)| print_peer(name, known, json));
        }
        args::PeersAction::Show { name, json } => {
            let book = Book::load(state)?;
            print_peer(&name, book.find(&name).map_err(told)?, json);
        }
        args::PeersAction::Remove { name } => {
            let known = Book::change(state, |book| book.remove(&name)).map_err(told)?;
            print_line(&format!("{name} was {}", known.peer));
        }
    }
    Ok(Exit::Stored)
}

/// What the person asked for makes no sense with this book; a book that cannot be used is another matter.
pub(super) fn told(error: BookError) -> anyhow::Error {
    let hint = match &error {
        BookError::Io { .. } | BookError::Damaged { .. } => return error.into(),
        BookError::Taken { .. } => Some("`ketch peers remove NAME` makes the name free"),
        BookError::Unknown(_) => Some("`ketch peers list` shows whom it knows, `ketch peers add` adds one"),
        BookError::ManyAddresses { .. } => Some("`ketch peers remove NAME` forgets the old ones"),
        BookError::OtherPeer { .. } | BookError::Full => None,
    };
    Usage { message: error.to_string(), hint }.into()
}

fn print_peer(name: &PeerName, known: &Known, as_json: bool) {
    if as_json {
        return print_json(&describe(name, known));
    }
    print_result(&format!("{name}  {}", known.peer));
    known.addresses.iter().for_each(|address| print_result(&format!("  {address}")));
}

fn describe(name: &PeerName, known: &Known) -> Value {
    let addresses: Vec<_> = known.addresses.iter().map(ToString::to_string).collect();
    json!({ "name": name.as_str(), "peer_id": known.peer.to_string(), "addresses": addresses })
}
