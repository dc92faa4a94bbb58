//! The address of a receiver changes in mid-session. Needs network namespaces, /dev/net/tun and nft; where they cannot be
//! had the tests say so and are skipped.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    io::Write as _,
    path::Path,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use ketch_fixtures::{
    digest::{Options, digest},
    tree::Shape,
};
use ketch_lab::{
    Internet, Lab, Uplink,
    profile::Profile,
    units::{Queue, Rate},
};

/// Longer than anything here takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

fn ketch(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ketch"));
    command.arg("--state").arg(state).args(arguments).stdin(Stdio::null());
    command
}

fn full_digest(root: &Path) -> String {
    digest(root, &Options { full: true, ..Options::default() }).unwrap().hex
}

fn wait_until(otherwise: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{otherwise}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// Changes the receiver's address while it receives; how often it said that it was connected.
fn connected_with_a_new_address(listen: &str) -> Option<usize> {
    if let Err(error) = Lab::routers_available() {
        // The harness shows this with --nocapture, and CI counts these lines.
        let _ = writeln!(std::io::stderr(), "skipped: {error}");
        return None;
    }
    // given a tree that takes some seconds to cross
    let place = tempfile::tempdir().unwrap();
    let at = |name: &str| place.path().join(name);
    Shape::Small { files: 300, bytes: 64 * 1024 }.write(42, &at("tree")).unwrap();
    let profile = Profile::even(Rate::mbit(20), 40_000_000, Queue::Bdp(1.0));
    let members = [("a", Uplink::Public), ("b", Uplink::Public)];
    let internet = Internet::new(&members, &profile, ketch_lab::Options::default()).unwrap();
    let [a, b] = ["a", "b"].map(|name| internet.member(name).unwrap());
    let ticket = at("ticket");
    let (ticket_file, tree) = (ticket.to_str().unwrap(), at("tree"));
    let tree_path = tree.to_str().unwrap();
    let mut send =
        ketch(&at("sender"), &["send", "--listen", listen, "--ticket-file", ticket_file, tree_path]);
    send.stdout(Stdio::null());
    let mut sender = b.spawn(send).unwrap();
    wait_until("the sender wrote no ticket", || ticket.exists());
    let (from_file, target) = (format!("@{ticket_file}"), at("target"));
    let arguments =
        ["receive", &from_file, target.to_str().unwrap(), "--yes", "--json", "--connections", "1"];
    let mut receive = ketch(&at("receiver"), &arguments);
    receive.stdout(File::create(at("said")).unwrap());
    let mut receiver = a.spawn(receive).unwrap();
    wait_until("nothing came", || target.join("tree").is_dir());

    // when the receiver has another address than before
    a.readdress().unwrap();

    // then all comes nevertheless
    let ended = receiver.wait_for(PATIENCE).unwrap().expect("the receiver ends");
    let said = fs::read_to_string(at("said")).unwrap();
    assert!(ended.success(), "{said}");
    assert!(sender.wait_for(PATIENCE).unwrap().expect("the sender ends").success());
    assert_eq!(full_digest(&at("tree")), full_digest(&target.join("tree")));
    let connected = |line: &&str| line.contains("\"event\":\"connected\"");
    Some(said.lines().filter(connected).count())
}

#[test]
fn a_receiver_with_a_new_address_goes_on_over_tcp_on_a_new_connection() {
    if let Some(connected) = connected_with_a_new_address("/ip4/0.0.0.0/tcp/0") {
        assert_eq!(connected, 2);
    }
}

#[test]
fn a_receiver_with_a_new_address_goes_on_over_quic() {
    if let Some(connected) = connected_with_a_new_address("/ip4/0.0.0.0/udp/0/quic-v1") {
        assert!((1..=2).contains(&connected), "{connected}");
    }
}
