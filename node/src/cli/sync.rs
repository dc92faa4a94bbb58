//! `ketch sync`.

use std::{path::PathBuf, sync::Arc};

use ketch::{
    index::Indexes,
    state::StateFolder,
    swarm::Node,
    transfer::{self, Direction, SyncRequest},
    trust::{Book, book::addresses_of},
};
use ketch_protocol::message::{Compression, Equality, Hashes, Policy, Removal, Selection};
use tokio::sync::mpsc;

use super::{
    args::{self, CompressionName},
    endpoint::{Endpoint, SharedTree},
    exit::{Exit, Usage},
    load_identity, open_indexes,
    output::{Output, Side},
    peers::told,
    reach::{self, Memory, dialing_options},
    rules,
    send::{EVENTS, show_while},
    stop_on_signal,
};

pub(super) async fn run(command: args::Sync, state: &StateFolder) -> anyhow::Result<Exit> {
    let request = request(&command, state, open_indexes(state))?;
    let stop = stop_on_signal()?;
    let (channel, reach, known) = (&command.channel, &command.reach, &request.reach.addresses);
    let options = dialing_options(state, channel, reach, known, command.transport)?;
    let (node, mut inbound) = Node::start(load_identity(state)?, options).await?;
    let (events, mut shown) = mpsc::channel(EVENTS);
    let output = Output::new(Side::Sync, command.json).itemizing(request.itemize);
    let mut output = if command.dry_run { output.previewing() } else { output };
    let mut memory = Memory::new(state);
    let syncing = transfer::sync(&node, &mut inbound, request, &events, &stop);
    let ended = show_while(syncing, &mut shown, |event| {
        memory.see(&event);
        output.show(&event);
    })
    .await;
    memory.keep(ended.as_ref().ok());
    let exit = output.finish(ended.map_err(anyhow::Error::from));
    node.shutdown().await;
    exit
}

fn request(command: &args::Sync, state: &StateFolder, indexes: Arc<Indexes>) -> anyhow::Result<SyncRequest> {
    let (shared, direction, local) = sides(command)?;
    let peer = Book::load(state)?.resolve(&shared.peer).map_err(told)?;
    let said = addresses_of(peer, command.address.iter().cloned()).map_err(told)?;
    let reach = reach::request(state, peer, said, command.transport, &command.reach)?;
    if reach.addresses.is_empty() && !reach.seek {
        let message = format!("no address of {} is known that can be dialed", shared.peer);
        let hint = Some("--address ADDR names one, `ketch peers add NAME PEERID ADDR` remembers it");
        return Err(Usage { message, hint }.into());
    }
    Ok(SyncRequest {
        peer,
        reach,
        over_relay: command.relay,
        place: shared.place,
        direction,
        local,
        trash: command.trash.clone(),
        selection: selection(command)?,
        policy: policy(command),
        itemize: command.itemize || command.dry_run,
        connections: command.connections,
        bytes_per_s: command.bwlimit,
        retry_for: command.retry_for,
        indexes,
    })
}

/// Without an address there is nobody to ask.
/// Which side is where.
fn sides(command: &args::Sync) -> anyhow::Result<(SharedTree, Direction, PathBuf)> {
    let parse =
        |side| Endpoint::parse(side).map_err(|error| Usage { message: error.to_string(), hint: None });
    match (parse(&command.source)?, parse(&command.target)?) {
        (Endpoint::Shared(source), Endpoint::Local(target)) => Ok((source, Direction::Pull, target)),
        (Endpoint::Local(source), Endpoint::Shared(target)) => Ok((target, Direction::Push, source)),
        (Endpoint::Local(_), Endpoint::Local(_)) | (Endpoint::Shared(_), Endpoint::Shared(_)) => {
            let message = "one side must be a directory of this machine, the other PEER:SHARE[/PATH]".into();
            let hint = Some("`ketch serve` on the other machine offers a share");
            Err(Usage { message, hint }.into())
        }
    }
}

fn selection(command: &args::Sync) -> anyhow::Result<Selection> {
    // A dry run compares by hashes alone: nothing is read for it while it runs.
    let hashes = match (command.checksum, command.find_moves || command.dry_run) {
        (true, _) => Hashes::Read,
        (false, true) => Hashes::All,
        (false, false) => Hashes::Known,
    };
    Ok(Selection {
        rules: rules::read(&command.rules)?,
        hashes,
        owner: command.owner,
        attributes: command.xattrs,
        compression: match command.compress {
            CompressionName::Auto => Compression::Auto,
            CompressionName::Zstd => Compression::Zstd,
            CompressionName::None => Compression::None,
        },
    })
}

fn policy(command: &args::Sync) -> Policy {
    let limit = command.max_delete.unwrap_or_default();
    Policy {
        removal: match command.delete {
            true => Removal::Extra { limit, force_empty: command.force_empty },
            false => Removal::Nothing,
        },
        existing: command.existing,
        ignore_existing: command.ignore_existing,
        update: command.update,
        equality: match (command.checksum, command.size_only) {
            (true, _) => Equality::Checksum,
            (false, true) => Equality::Size,
            (false, false) => Equality::Content,
        },
        find_moves: command.find_moves,
        delta: !command.no_delta,
        preview: command.dry_run,
        durability: command.durability.into(),
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use ketch::swarm::PeerId;
    use ketch_protocol::message::RemovalLimit;

    use super::*;

    fn parse(line: &[&str]) -> args::Sync {
        let line = ["ketch", "sync"].iter().chain(line);
        let parsed = args::Arguments::try_parse_from(line).unwrap().command;
        let args::Command::Sync(sync) = parsed else { panic!("{parsed:?}") };
        *sync
    }

    /// The request of somebody who calls this peer "laptop".
    fn request(command: &args::Sync, laptop: Option<PeerId>) -> anyhow::Result<SyncRequest> {
        let state = tempfile::tempdir().unwrap();
        let state = StateFolder::locate(Some(state.path().join("state")), |_| None).unwrap();
        if let Some(peer) = laptop {
            let address = "/ip4/192.0.2.7/tcp/4001".parse().unwrap();
            Book::change(&state, |book| book.add("laptop".parse().unwrap(), peer, [address])).unwrap();
        }
        super::request(command, &state, Arc::new(Indexes::new(&state)))
    }

    #[test]
    fn one_side_is_here_and_the_other_is_not() {
        let laptop = Some(PeerId::random());
        let pull = request(&parse(&["laptop:docs/a", "here"]), laptop).unwrap();
        assert_eq!((pull.direction, pull.local), (Direction::Pull, "here".into()));
        assert_eq!(pull.place.to_string(), "docs/a");
        let push = request(&parse(&["here", "laptop:docs"]), laptop).unwrap();
        assert_eq!(push.direction, Direction::Push);
        for sides in [["a", "b"], ["laptop:a", "laptop:b"], ["nobody:a", "b"], ["la ptop:a", "b"]] {
            assert!(request(&parse(&sides), laptop).unwrap_err().is::<Usage>(), "{sides:?}");
        }
    }

    #[test]
    fn addresses_come_from_the_line_and_from_the_book() {
        let peer = PeerId::random();
        let extra = format!("/ip4/192.0.2.8/tcp/1/p2p/{peer}");
        let line = ["laptop:docs", ".", "--address", &extra];
        let both = request(&parse(&line), Some(peer)).unwrap();
        assert_eq!((both.reach.addresses.len(), both.reach.seek), (2, true));
        let named = [&format!("{peer}:docs"), ".", "--address", &extra].map(String::from);
        let named = parse(&named.each_ref().map(String::as_str));
        assert_eq!(request(&named, None).unwrap().reach.addresses.len(), 1);
        let foreign = format!("/ip4/192.0.2.8/tcp/1/p2p/{}", PeerId::random());
        for line in [
            &["laptop:docs", ".", "--address", &foreign][..],
            &["laptop:docs", ".", "--transport", "quic", "--no-lan"],
        ] {
            assert!(request(&parse(line), Some(peer)).unwrap_err().is::<Usage>(), "{line:?}");
        }
    }

    #[test]
    fn options_say_what_becomes_of_the_target() {
        let plain = parse(&["laptop:docs", "."]);
        assert_eq!(policy(&plain), Policy::default());
        assert_eq!(selection(&plain).unwrap(), Selection::default());
        let line = ["laptop:docs", ".", "-nu", "--delete", "--max-delete", "7", "--checksum", "--no-delta"];
        let expected = Policy {
            removal: Removal::Extra { limit: RemovalLimit::Entries(7), force_empty: false },
            update: true,
            equality: Equality::Checksum,
            delta: false,
            preview: true,
            ..Policy::default()
        };
        assert_eq!(policy(&parse(&line)), expected);
        assert_eq!(selection(&parse(&line)).unwrap().hashes, Hashes::Read);
    }
}
