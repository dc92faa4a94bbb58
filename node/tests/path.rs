//! A tree over an emulated path from Germany to the US: 141 ms, 200 Mbit/s. Needs network namespaces and
//! /dev/net/tun; where they cannot be had the tests say so and are skipped.
#![cfg(target_os = "linux")]

use std::{
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
use ketch_lab::{Lab, Side, profile::Profile};

/// Files of the tree: some round trips' worth at this rate, and quick in a debug build.
const FILES: u64 = 2_000;

fn lab_is_there() -> bool {
    let available = Lab::available();
    if let Err(error) = &available {
        // The harness shows this with --nocapture, and CI counts these lines.
        let _ = writeln!(std::io::stderr(), "skipped: {error}");
    }
    available.is_ok()
}

fn ketch(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ketch"));
    command.arg("--state").arg(state).args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn full_digest(root: &Path) -> String {
    digest(root, &Options { full: true, ..Options::default() }).unwrap().hex
}

/// Waits for the sender to write its ticket.
fn wait_for(file: &Path) {
    let began = Instant::now();
    while !file.exists() {
        assert!(began.elapsed() < Duration::from_secs(20), "the sender wrote no ticket");
        thread::sleep(Duration::from_millis(10));
    }
}

fn crosses(listen: &str) {
    if !lab_is_there() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (source, target, ticket) =
        (place.path().join("tree"), place.path().join("target"), place.path().join("ticket"));
    Shape::Small { files: FILES, bytes: 4096 }.write(42, &source).unwrap();
    let path = Lab::path(Profile::named("de-us-200").unwrap()).unwrap();

    let (ticket_file, tree) = (ticket.to_str().unwrap(), source.to_str().unwrap());
    let send = ketch(
        &place.path().join("sender"),
        &["send", "--listen", listen, "--ticket-file", ticket_file, "--json", tree],
    );
    let sender = path.spawn(Side::B, send).unwrap();
    wait_for(&ticket);
    let from_file = format!("@{ticket_file}");
    let receive =
        ketch(&place.path().join("receiver"), &["receive", &from_file, target.to_str().unwrap(), "--yes"]);
    let received = path.run(Side::A, receive).unwrap();
    drop(sender);

    assert!(received.status.success(), "{}", String::from_utf8_lossy(&received.stderr));
    assert_eq!(full_digest(&source), full_digest(&target.join("tree")));
    // How well the path kept its times depends on what else the machine does; that it carried all does not.
    let report = path.finish().unwrap();
    let carried = report.b_to_a.bytes_out;
    assert!(carried > FILES * 4096, "{carried} bytes crossed");
}

#[test]
fn a_tree_crosses_from_germany_to_the_us_over_tcp() {
    crosses("/ip4/0.0.0.0/tcp/0");
}

#[test]
fn a_tree_crosses_from_germany_to_the_us_over_quic() {
    crosses("/ip4/0.0.0.0/udp/0/quic-v1");
}
