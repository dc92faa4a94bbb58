//! What an earlier run stored by a ticket is neither sent nor read again by either end, unless it may have changed.

use std::{
    fs::{self, File},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use ketch::swarm::TransportKind::{Quic, Tcp};
use ketch_fixtures::tree::Shape;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    place::{Place, noise},
    process::{Ended, Ketch},
    serving::settle,
};

/// Files of the middle size in the tree: each is one segment, and all take long enough to be met in the middle.
const FILES: u64 = 40;
const FILE_BYTES: u64 = 6 << 20;

/// What a killed process may have stored or read without having written that down, in bytes: a file on each stream.
const UNSAID_BYTES: u64 = 6 * FILE_BYTES;

/// What a process reads beside content, in bytes: its program, the index, what came in on a socket.
const BESIDE_BYTES: u64 = 2 << 20;

/// A tree, and a file beside it that comes before it.
async fn place_with_much() -> (Place, [PathBuf; 2]) {
    let place = Place::new();
    Shape::Small { files: 300, bytes: 4_096 }.write(7, &place.offered("tree/small")).unwrap();
    for number in 0..FILES {
        place.write(&format!("tree/{number:02}"), noise(FILE_BYTES as usize, number as u8));
    }
    let operands = [place.write("alone", noise(FILE_BYTES as usize, 255)), place.offered("tree")];
    settle().await;
    (place, operands)
}

fn number(event: &Value, name: &str) -> u64 {
    event[name].as_u64().unwrap()
}

/// Bytes of all files below a folder.
fn bytes_in(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.map(|path| if path.is_dir() { bytes_in(&path) } else { path.metadata().unwrap().len() }).sum()
}

/// Waits until a good part has crossed.
async fn get_going(receiver: &mut Ketch) {
    let half = FILES * FILE_BYTES / 2;
    receiver.event_where("progress", |progress| number(progress, "moved_bytes") > half).await;
}

/// Fails the test unless a second run moved what was `missing` and read no more than that.
fn assert_only_missing(place: &Place, missing: u64, receiver: &(Ended, u64), sender_read: u64) {
    let (receiver, receiver_read) = receiver;
    let done = receiver.event("done");
    assert_eq!(number(&done, "moved_bytes"), missing, "{done}");
    assert!(number(&done, "found_bytes") <= UNSAID_BYTES, "{done}");
    let most = missing + UNSAID_BYTES + BESIDE_BYTES;
    assert!(*receiver_read <= most, "the receiver read {receiver_read} bytes, {missing} were missing");
    assert!(sender_read <= most, "the sender read {sender_read} bytes, {missing} were missing");
    place.assert_equal();
}

#[tokio::test]
async fn what_a_killed_receiver_stored_is_not_read_again() {
    let (place, [_, tree]) = place_with_much().await;
    fs::remove_file(place.offered("alone")).unwrap();
    let (sender, ticket) = place.send(Tcp, &[&tree], &[]).await;
    let mut receiver = Ketch::start(place.receive(&ticket, &[]));
    get_going(&mut receiver).await;
    receiver.kill().await;
    let missing = bytes_in(&place.source()) - bytes_in(&place.target().join("tree"));

    let read_before = sender.read_bytes();
    let again = Ketch::start(place.receive(&ticket, &[])).end_counting().await;
    let (sender, read) = sender.end_counting().await;
    sender.expect(0);
    assert_only_missing(&place, missing, &again, read - read_before);
}

#[tokio::test]
async fn what_a_killed_sender_of_two_operands_sent_is_not_read_again() {
    let (place, operands) = place_with_much().await;
    let operands = operands.each_ref().map(PathBuf::as_path);
    let (mut sender, ticket) = place.send(Quic, &operands, &[]).await;
    let mut receiver = Ketch::start(place.receive(&ticket, &[]));
    get_going(&mut receiver).await;
    sender.kill().await;
    receiver.signal(Signal::INT);
    receiver.end().await;
    let [alone, tree] = ["alone", "tree"].map(|name| place.target().join(name));
    assert!(alone.is_file(), "the first operand was not stored");
    let stored = alone.metadata().unwrap().len() + bytes_in(&tree);
    let missing = bytes_in(&place.source()) - stored;

    let (sender, _) = place.send_again(&operands).await;
    let again = Ketch::start(place.receive(&ticket, &[])).end_counting().await;
    let (sender, read) = sender.end_counting().await;
    sender.expect(0);
    assert_only_missing(&place, missing, &again, read);
}

/// What a second receiver's run moves and finds by reading, in bytes, and what both ends read.
async fn receive_again(place: &Place, operands: &[&Path], options: &[&str]) -> (Ended, [u64; 2]) {
    let (sender, ticket) = place.send(Tcp, operands, &[]).await;
    let (again, received) = Ketch::start(place.receive(&ticket, options)).end_counting().await;
    let (sender, sent) = sender.end_counting().await;
    assert_eq!(sender.code, again.code, "{sender:#?} {again:#?}");
    (again, [sent, received])
}

#[tokio::test]
async fn a_whole_copy_is_not_read_again_under_any_ticket_unless_it_is_asked_for() {
    let (place, operands) = place_with_much().await;
    let operands = operands.each_ref().map(PathBuf::as_path);
    place.cross(Tcp, &operands, &[], &[]).await;
    for _ in 0..2 {
        let (again, read) = receive_again(&place, &operands, &[]).await;
        let done = again.expect(0).event("done");
        assert_eq!((number(&done, "moved_bytes"), number(&done, "found_bytes")), (0, 0), "{done}");
        assert_eq!(done["kept"], done["listed"]);
        assert!(read.into_iter().all(|read| read <= BESIDE_BYTES), "{read:?} bytes were read");
    }
    place.assert_equal();

    let (asked, read) = receive_again(&place, &operands, &["--checksum"]).await;
    let (found, all) = (number(&asked.expect(0).event("done"), "found_bytes"), bytes_in(&place.source()));
    assert_eq!(found, all);
    assert!(read.into_iter().all(|read| read >= all), "{read:?} bytes were read");
}

/// Replaces the content of a file by as many other bytes, and puts its mtime back.
fn change_unseen(file: &Path) {
    let before = fs::metadata(file).unwrap();
    let mut content = fs::read(file).unwrap();
    content[0] ^= 1;
    fs::write(file, content).unwrap();
    File::options().write(true).open(file).unwrap().set_modified(before.modified().unwrap()).unwrap();
    let after = fs::metadata(file).unwrap();
    let seen = |metadata: &fs::Metadata| (metadata.len(), metadata.mtime(), metadata.mtime_nsec());
    assert_eq!(seen(&before), seen(&after));
}

#[tokio::test]
async fn a_file_that_changed_is_noticed_though_its_size_and_time_are_the_same() {
    let place = Place::new();
    let (tree, alone) = (place.offered("tree"), place.write("alone", "content"));
    for name in ["tree/a", "tree/b", "tree/c"] {
        place.write(name, "content");
    }
    settle().await;
    let operands = [&*alone, &*tree];
    place.cross(Tcp, &operands, &[], &[]).await;
    change_unseen(&alone);
    change_unseen(&place.offered("tree/b"));
    change_unseen(&place.target().join("tree/c"));

    let (kept, _) = receive_again(&place, &operands, &[]).await;
    let kept = kept.expect(4);
    let exists = |path: &str| (path.to_owned(), "exists".to_owned());
    assert_eq!(kept.problems(), ["alone", "tree/b", "tree/c"].map(exists));
    let (replaced, _) = receive_again(&place, &operands, &["--overwrite"]).await;
    assert_eq!(number(&replaced.expect(0).event("done"), "sent"), 3);
    place.assert_equal();
}

/// The files of all indexes of a node.
fn index_files(state: &Path, ending: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(state.join("index")).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|found| found == ending)).collect()
}

#[tokio::test]
async fn a_damaged_index_is_built_anew_on_either_side() {
    let place = Place::new();
    Shape::Small { files: 50, bytes: 4_096 }.write(7, &place.offered("tree")).unwrap();
    settle().await;
    let tree = place.offered("tree");
    let found = async || {
        let (again, _) = receive_again(&place, &[&tree], &[]).await;
        let done = again.expect(0).event("done");
        assert_eq!(done["kept"], done["listed"]);
        number(&done, "found_bytes")
    };
    place.cross(Tcp, &[&tree], &[], &[]).await;
    for node in ["sender", "receiver"] {
        assert_eq!(found().await, 0);
        for store in index_files(&place.path(node), "redb") {
            let mut content = fs::read(&store).unwrap();
            let middle = content.len() / 2;
            content[middle] ^= 0x10;
            fs::write(&store, content).unwrap();
        }
        assert_eq!(found().await, 50 * 4_096, "the {node} believed a damaged index");
    }
    assert_eq!(found().await, 0);
}

#[tokio::test]
async fn an_index_of_a_ticket_does_not_outgrow_what_is_there() {
    let place = Place::new();
    let tree = place.offered("tree");
    let sizes = || {
        ["sender", "receiver"].map(|node| {
            let journals = index_files(&place.path(node), "journal");
            journals.iter().map(|journal| journal.metadata().unwrap().len()).sum::<u64>()
        })
    };
    let mut first = [0; 2];
    for round in 0..3 {
        for number in 0..100 {
            place.write(&format!("tree/{round} {number:03}"), "content");
        }
        settle().await;
        place.cross(Tcp, &[&tree], &[], &[]).await;
        let sizes = sizes();
        if round == 0 {
            first = sizes;
        }
        // How many batches it was written in is chance, and each costs some bytes; what a round adds would double it.
        let is_bounded = sizes.iter().zip(first).all(|(&now, first)| now > 0 && now < first + first / 2);
        assert!(is_bounded, "round {round}: {first:?} bytes have become {sizes:?}");
        fs::remove_dir_all(&tree).unwrap();
        fs::remove_dir_all(place.target()).unwrap();
    }
}
