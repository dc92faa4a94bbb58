//! The surroundings of one test: two nodes on this machine, a source and a target.

use std::{
    ffi::OsStr,
    fs,
    path::{Path, PathBuf},
};

use ketch::{swarm::TransportKind, trust::Ticket};
use ketch_fixtures::{digest, tree};
use serde_json::Value;
use tokio::process::Command;

use crate::process::{Ended, Ketch, ketch};

pub(crate) const BOTH: [TransportKind; 2] = [TransportKind::Tcp, TransportKind::Quic];

/// Two state folders, a `source` and a `target`, gone with the test.
pub(crate) struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        // A failed test may have left anything.
        let _ = tree::remove(&self.0);
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        let place = Self(tempfile::tempdir().unwrap().keep());
        fs::create_dir(place.source()).unwrap();
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// The folder that holds what is sent.
    pub(crate) fn source(&self) -> PathBuf {
        self.path("source")
    }

    /// Where it goes; not made yet.
    pub(crate) fn target(&self) -> PathBuf {
        self.path("target")
    }

    /// Something in the source.
    pub(crate) fn offered(&self, name: &str) -> PathBuf {
        self.source().join(name)
    }

    /// Writes a file in the source.
    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.offered(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        path
    }

    /// A sender of `paths` on loopback, and its ticket.
    pub(crate) async fn send(
        &self,
        transport: TransportKind,
        paths: &[&Path],
        options: &[&str],
    ) -> (Ketch, String) {
        let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"send", &"--json", &"--listen"];
        let listen = listen_address(transport);
        arguments.push(&listen);
        arguments.extend(paths.iter().map(|path| path as &dyn AsRef<OsStr>));
        arguments.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
        offering(ketch(&self.path("sender"), &arguments)).await
    }

    /// The same sender once more, without saying where to listen.
    pub(crate) async fn send_again(&self, paths: &[&Path]) -> (Ketch, String) {
        let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"send", &"--json"];
        arguments.extend(paths.iter().map(|path| path as &dyn AsRef<OsStr>));
        offering(ketch(&self.path("sender"), &arguments)).await
    }

    /// A relay on loopback, and its address.
    pub(crate) async fn relay(&self) -> (Ketch, String) {
        let arguments: [&dyn AsRef<OsStr>; 4] = [&"relay", &"--json", &"--listen", &"/ip4/127.0.0.1/tcp/0"];
        let mut relay = Ketch::start(ketch(&self.path("relay"), &arguments));
        let started = relay.event("relaying").await;
        (relay, started["addresses"][0].as_str().unwrap().to_owned())
    }

    /// The command of a receiver into the target.
    pub(crate) fn receive(&self, ticket: &str, options: &[&str]) -> Command {
        self.receive_as("receiver", ticket, options)
    }

    /// The command of a receiver that has this state folder.
    pub(crate) fn receive_as(&self, state: &str, ticket: &str, options: &[&str]) -> Command {
        ketch(&self.path(state), &self.receive_arguments(ticket, options).each())
    }

    /// What a receiver is told.
    pub(crate) fn receive_arguments(&self, ticket: &str, options: &[&str]) -> Arguments {
        let mut arguments = Arguments::default();
        arguments.0.extend(["receive", ticket].map(Into::into));
        arguments.0.push(self.target().into());
        arguments.0.extend(["--json", "--yes"].map(Into::into));
        if !options.contains(&"--durability") {
            // A sync of a busy disk proves nothing here and takes seconds.
            arguments.0.extend(["--durability", "none"].map(Into::into));
        }
        arguments.0.extend(options.iter().map(Into::into));
        arguments
    }

    /// Sends `paths` to the target and waits for both ends.
    pub(crate) async fn cross(
        &self,
        transport: TransportKind,
        paths: &[&Path],
        send_options: &[&str],
        receive_options: &[&str],
    ) -> (Ended, Ended) {
        let (sender, ticket) = self.send(transport, paths, send_options).await;
        let receiver = Ketch::start(self.receive(&ticket, receive_options)).end().await;
        if receiver.code.is_none_or(|code| code != 0 && code != 4) {
            panic!("the receiver: {receiver:#?}");
        }
        (sender.end().await, receiver)
    }

    /// Fails the test unless the target is what the source is, to the last nanosecond.
    pub(crate) fn assert_equal(&self) {
        assert_same(&self.source(), &self.target());
    }
}

/// Arguments that own what they say.
#[derive(Default)]
pub(crate) struct Arguments(Vec<std::ffi::OsString>);

impl Arguments {
    pub(crate) fn each(&self) -> Vec<&dyn AsRef<OsStr>> {
        self.0.iter().map(|argument| argument as &dyn AsRef<OsStr>).collect()
    }
}

/// Fails the test unless two trees are equal, to the last nanosecond.
pub(crate) fn assert_same(one: &Path, other: &Path) {
    let options = digest::Options { full: true, ..digest::Options::default() };
    let lines = |root| digest::lines(root, &options).unwrap();
    let (one, other) = (lines(one), lines(other));
    let differs = one.iter().zip(&other).find(|(left, right)| left != right);
    assert_eq!(one.len(), other.len(), "first difference: {differs:?}");
    assert_eq!(differs, None);
}

/// Starts a sender and waits for its ticket.
pub(crate) async fn offering(command: Command) -> (Ketch, String) {
    let mut sender = Ketch::start(command);
    let offered = sender.event("offered").await;
    let ticket = offered["ticket"].as_str().unwrap().to_owned();
    (sender, ticket)
}

pub(crate) fn listen_address(transport: TransportKind) -> &'static str {
    match transport {
        TransportKind::Tcp => "/ip4/127.0.0.1/tcp/0",
        TransportKind::Quic => "/ip4/127.0.0.1/udp/0/quic-v1",
    }
}

pub(crate) fn parse(ticket: &str) -> Ticket {
    ticket.parse().unwrap()
}

/// Bytes that do not compress and differ from place to place.
pub(crate) fn noise(length: usize, seed: u8) -> Vec<u8> {
    let mut bytes = vec![0; length];
    blake3::Hasher::new().update(&[seed]).finalize_xof().fill(&mut bytes);
    bytes
}

/// The account of a `done` event, without what the two ends measure for themselves.
pub(crate) fn account(done: &Value) -> Vec<u64> {
    ["listed", "sent", "kept", "skipped", "failed"].map(|name| done[name].as_u64().unwrap()).to_vec()
}
