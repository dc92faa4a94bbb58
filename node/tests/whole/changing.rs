//! Files that change between the list and the read: each is named, and the others arrive.

use std::{
    fs::{self, File},
    os::unix::fs::symlink,
    path::Path,
    sync::Arc,
};

use ketch::{
    index::Indexes,
    state::StateFolder,
    swarm::{
        Inbound, Keypair, Node, NodeOptions,
        TransportKind::{self, Quic, Tcp},
    },
    transfer::{self, ConnectionWish, Event, ReceiveRequest, Report},
    tree::{Durability, Handling, Options, PRIVATE_FOLDER},
};
use ketch_protocol::{
    message::{Consent, Hashes},
    session::receiver::Answer,
};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::{
    place::{Place, account, noise, parse},
    process::{Ended, Ketch},
};

/// Receives as a user who is asked, and lets `change` happen while everything is listed and nothing read.
async fn receive_after(place: &Place, ticket: &str, change: impl FnOnce()) -> Report {
    let (node, mut inbound): (Node, Inbound) =
        Node::start(Keypair::generate_ed25519(), NodeOptions::default()).await.unwrap();
    let state = StateFolder::locate(Some(place.path("receiver")), |_| None).unwrap();
    let ticket = parse(ticket);
    let addresses = ticket.addresses().to_vec();
    let request = ReceiveRequest {
        retry_for: std::time::Duration::ZERO,
        ticket,
        destination: place.target(),
        options: Options { handling: Handling::receiving(false), durability: Durability::None },
        hashes: Hashes::Known,
        reach: addresses.into(),
        over_relay: false,
        connections: ConnectionWish::Auto,
        consent: Consent::Pending,
        indexes: Arc::new(Indexes::new(&state)),
    };
    let (events, mut told) = mpsc::channel(16);
    let answer = async {
        let mut change = Some(change);
        while let Some(event) = told.recv().await {
            if let Event::Consult(consultation) = event {
                assert!(consultation.complete);
                change.take().unwrap()();
                consultation.reply.send(Answer::Yes).unwrap();
            }
        }
    };
    let stop = CancellationToken::new();
    let receive = async {
        let report = transfer::receive(&node, &mut inbound, request, &events, &stop).await;
        drop(events);
        report
    };
    let (report, ()) = tokio::join!(receive, answer);
    report.unwrap()
}

/// What the sender says of a tree in which `change` happens to `file`, whose content has `length` bytes.
async fn sent_with(transport: TransportKind, length: usize, change: fn(&Path)) -> Ended {
    let place = Place::new();
    let file = place.write("tree/file", noise(length, 1));
    for other in ["tree/before", "tree/later"] {
        place.write(other, noise(length, 2));
    }
    let (sender, ticket): (Ketch, String) = place.send(transport, &[&place.offered("tree")], &[]).await;
    let report = receive_after(&place, &ticket, || change(&file)).await;
    let ended = sender.end().await.expect(4);
    let counts = report.counts;
    assert_eq!((counts.listed, counts.sent, counts.failed), (4, 3, 1));
    assert_eq!(account(&ended.event("done")), [4, 3, 0, 0, 1]);
    // Of that version nothing more will come.
    assert!(!place.target().join(PRIVATE_FOLDER).exists());
    assert!(!place.target().join("tree/file").exists());
    for other in ["tree/before", "tree/later"] {
        assert!(fs::read(place.target().join(other)).unwrap() == noise(length, 2));
    }
    ended
}

fn set_length(path: &Path, change: i64) {
    let file = File::options().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length.checked_add_signed(change).unwrap()).unwrap();
}

async fn is_named(cause: &str, change: fn(&Path)) {
    // One span, and ranges on several streams.
    for length in [100_000, (9 << 20) + 1] {
        for transport in [Tcp, Quic] {
            let ended = sent_with(transport, length, change).await;
            assert_eq!(ended.problems(), [("tree/file".to_owned(), cause.to_owned())], "{length} bytes");
        }
    }
}

#[tokio::test]
async fn a_truncated_file_is_named() {
    is_named("changed", |file| set_length(file, -50_000)).await;
}

#[tokio::test]
async fn a_file_that_grew_is_named() {
    is_named("changed", |file| set_length(file, 1)).await;
}

#[tokio::test]
async fn a_file_that_was_emptied_is_named() {
    is_named("changed", |file| drop(File::create(file).unwrap())).await;
}

#[tokio::test]
async fn a_file_that_was_written_in_place_is_named() {
    is_named("changed", |file| {
        let mut content = fs::read(file).unwrap();
        content[7] ^= 1;
        fs::write(file, content).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_file_that_is_gone_is_named() {
    is_named("vanished", |file| fs::remove_file(file).unwrap()).await;
}

#[tokio::test]
async fn a_file_that_became_a_symlink_is_named_and_not_followed() {
    is_named("changed", |file| {
        fs::rename(file, file.with_file_name("../moved")).unwrap();
        symlink("../moved", file).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_file_that_became_a_directory_is_named() {
    is_named("changed", |file| {
        fs::remove_file(file).unwrap();
        fs::create_dir(file).unwrap();
    })
    .await;
}
