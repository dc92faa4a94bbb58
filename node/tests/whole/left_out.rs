//! What cannot be sent is named on both ends, and everything else arrives.

use std::{
    fs,
    os::unix::{
        fs::{PermissionsExt as _, chown},
        net::UnixListener,
    },
};

use ketch::swarm::TransportKind::Quic;
use rustix::{
    fs::{CWD, FileType, Mode, mknodat},
    process::geteuid,
};

use crate::{
    place::{BOTH, Place, account, listen_address, offering},
    process::{Ended, Ketch, ketch},
};

/// A user to whom permissions apply.
const NOBODY: u32 = 65_534;

fn assert_partial(sender: Ended, receiver: Ended, expected: &[(&str, &str)]) {
    let (sender, receiver) = (sender.expect(4), receiver.expect(4));
    let expected: Vec<_> =
        expected.iter().map(|(path, cause)| ((*path).to_owned(), (*cause).to_owned())).collect();
    assert_eq!((sender.problems(), receiver.problems()), (expected.clone(), expected));
    assert_eq!(account(&sender.event("done")), account(&receiver.event("done")));
}

#[tokio::test]
async fn a_fifo_and_a_socket_are_named_and_skipped() {
    for transport in BOTH {
        let place = Place::new();
        let tree = place.offered("tree");
        let file = place.write("tree/file", "content");
        let (fifo, socket) = (tree.join("fifo"), tree.join("socket"));
        mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _socket = UnixListener::bind(&socket).unwrap();
        let (sender, receiver) = place.cross(transport, &[&tree], &[], &[]).await;
        assert_partial(sender, receiver, &[("tree/fifo", "special"), ("tree/socket", "special")]);
        assert_eq!(fs::read(place.target().join("tree/file")).unwrap(), fs::read(file).unwrap());
        assert_eq!(fs::read_dir(place.target().join("tree")).unwrap().count(), 1);
    }
}

/// A tree with a file and a directory that its sender may not read, offered.
async fn offer_what_is_not_readable(place: &Place) -> (Ketch, String) {
    place.write("tree/file", "content");
    place.write("tree/locked/inner", "secret");
    place.write("tree/secret", "secret");
    for (name, mode) in [("tree/secret", 0), ("tree/locked", 0), ("", 0o755), ("tree", 0o755)] {
        fs::set_permissions(place.offered(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let (state, tree) = (place.path("sender"), place.offered("tree"));
    let arguments: [&dyn AsRef<std::ffi::OsStr>; 5] =
        [&"send", &tree, &"--json", &"--listen", &listen_address(Quic)];
    let mut command = ketch(&state, &arguments);
    if geteuid().is_root() {
        fs::create_dir(&state).unwrap();
        chown(&state, Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(place.path(""), fs::Permissions::from_mode(0o755)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    offering(command).await
}

#[tokio::test]
async fn what_the_sender_may_not_read_is_named_and_the_rest_arrives() {
    let place = Place::new();
    let (sender, ticket) = offer_what_is_not_readable(&place).await;
    let receiver = Ketch::start(place.receive(&ticket, &[])).end().await;
    let expected = [("tree/locked", "unreadable"), ("tree/secret", "unreadable")];
    assert_partial(sender.end().await, receiver, &expected);
    assert_eq!(fs::read(place.target().join("tree/file")).unwrap(), b"content");
}

#[tokio::test]
async fn what_the_sender_may_not_read_to_compare_it_is_named_too() {
    let place = Place::new();
    let (sender, ticket) = offer_what_is_not_readable(&place).await;
    fs::create_dir_all(place.target().join("tree")).unwrap();
    fs::write(place.target().join("tree/secret"), "stored").unwrap();
    let receiver = Ketch::start(place.receive(&ticket, &[])).end().await;
    let expected = [("tree/locked", "unreadable"), ("tree/secret", "unreadable")];
    assert_partial(sender.end().await, receiver, &expected);
    assert_eq!(fs::read(place.target().join("tree/secret")).unwrap(), b"stored");
}
