//! Two machines on one LAN, without a route to anywhere else and without a name server. Needs network namespaces and
//! /dev/net/tun; where they cannot be had the tests say so and are skipped.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::Write as _,
    path::PathBuf,
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use ketch::trust::Ticket;
use ketch_lab::{
    Lab, Path, Running, Side,
    profile::Profile,
    units::{Queue, Rate},
};
use serde_json::Value;

/// What is sent.
const CONTENT: &[u8] = b"over the LAN";

/// Two machines and their files.
struct Lan {
    path: Path,
    place: tempfile::TempDir,
}

impl Lan {
    /// `None` where there can be none, which is said.
    fn new() -> Option<Self> {
        if let Err(error) = Lab::available() {
            // The harness shows this with --nocapture, and CI counts these lines.
            let _ = writeln!(std::io::stderr(), "skipped: {error}");
            return None;
        }
        let cable = Profile::even(Rate::mbit(1_000), 200_000, Queue::Bytes(1 << 20));
        let lan = Self { path: Lab::path(cable).unwrap(), place: tempfile::tempdir().unwrap() };
        fs::write(lan.file("content"), CONTENT).unwrap();
        Some(lan)
    }

    fn file(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn ketch(&self, state: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ketch"));
        command.arg("--state").arg(self.file(state)).args(arguments);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Offers a file on machine B; the ticket that it prints.
    fn send(&self, options: &[&str]) -> (Running, Ticket) {
        let (file, content) = (self.file("ticket"), self.file("content"));
        let paths = ["--ticket-file", file.to_str().unwrap(), content.to_str().unwrap()];
        let sender = self.ketch("sender", &[&["send"], options, &paths].concat());
        let running = self.path.spawn(Side::B, sender).unwrap();
        wait_until("the sender wrote no ticket", || file.exists());
        (running, fs::read_to_string(&file).unwrap().trim().parse().unwrap())
    }

    /// Serves on machine B; its PeerId.
    fn serve(&self) -> (Running, String) {
        let share = format!("docs={}", self.place.path().display());
        let log = self.file("serving");
        let mut server = self.ketch("server", &["serve", "--share", &share, "--json"]);
        server.stdout(fs::File::create(&log).unwrap());
        let running = self.path.spawn(Side::B, server).unwrap();
        let first_line = || fs::read_to_string(&log).unwrap().lines().next().map(str::to_owned);
        wait_until("the server did not begin", || first_line().is_some_and(|line| line.ends_with('}')));
        let serving: Value = serde_json::from_str(&first_line().unwrap()).unwrap();
        (running, serving["peer_id"].as_str().unwrap().to_owned())
    }

    fn on_a(&self, arguments: &[&str]) -> Output {
        self.path.run(Side::A, self.ketch("receiver", arguments)).unwrap()
    }

    fn receive(&self, ticket: &Ticket, options: &[&str]) -> Output {
        let (ticket, target) = (ticket.to_string(), self.file("target"));
        self.on_a(&[&["receive", &ticket, target.to_str().unwrap(), "--yes"], options].concat())
    }

    /// Runs a program of the system on both machines.
    fn on_both(&self, program: &str, arguments: &[&str]) {
        for side in [Side::A, Side::B] {
            let mut command = Command::new(program);
            command.args(arguments);
            let output = self.path.run(side, command).unwrap();
            assert!(output.status.success(), "{program}: {}", said(&output));
        }
    }
}

fn wait_until(otherwise: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{otherwise}");
        thread::sleep(Duration::from_millis(10));
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The same offer at addresses where nobody is: one that nobody answers, one that no route leads to, and junk.
fn stale(ticket: &Ticket) -> Ticket {
    let nowhere = [
        "/ip4/10.77.0.99/udp/5382/quic-v1",
        "/ip4/192.0.2.1/tcp/5382",
        "/ip4/127.0.0.1/tcp/9",
        "/ip6/fe80::1/tcp/5382",
        "/ip4/0.0.0.0/tcp/5382",
    ];
    Ticket::new(ticket.peer(), nowhere.map(|address| address.parse().unwrap()), *ticket.secret(), None)
}

#[test]
fn a_ticket_works_on_the_lan_though_its_addresses_are_stale() {
    let Some(lan) = Lan::new() else { return };
    let (_sender, ticket) = lan.send(&[]);
    let received = lan.receive(&stale(&ticket), &[]);
    assert!(received.status.success(), "{}", said(&received));
    assert_eq!(fs::read(lan.file("target/content")).unwrap(), CONTENT);
}

#[test]
fn a_code_alone_finds_its_maker_on_the_lan() {
    let Some(lan) = Lan::new() else { return };
    let log = lan.file("invited");
    let mut sender =
        lan.ketch("sender", &["send", "--code", "--json", lan.file("content").to_str().unwrap()]);
    sender.stdout(fs::File::create(&log).unwrap());
    let _sender = lan.path.spawn(Side::B, sender).unwrap();
    let invited = || {
        let said = fs::read_to_string(&log).unwrap();
        let mut events = said.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        events.find(|event| event["event"] == "invited")
    };
    wait_until("the sender printed no code", || invited().is_some());
    let code = invited().unwrap()["code"].as_str().unwrap().to_owned();
    let target = lan.file("target");
    let receive = ["receive", &code, target.to_str().unwrap(), "--yes"];
    let shut = lan.on_a(&[&receive[..], &["--no-lan"]].concat());
    assert_eq!(shut.status.code(), Some(2), "{}", said(&shut));
    let received = lan.on_a(&receive);
    assert!(received.status.success(), "{}", said(&received));
    assert_eq!(fs::read(lan.file("target/content")).unwrap(), CONTENT);
}

#[test]
fn an_address_that_is_announced_stands_first_in_the_ticket() {
    let Some(lan) = Lan::new() else { return };
    let (_sender, ticket) = lan.send(&["--announce", "/dns/example.org/tcp/4001"]);
    assert_eq!(ticket.addresses()[0].to_string(), "/dns/example.org/tcp/4001");
    // No name server tells of it here, and the others are tried all the same.
    let received = lan.receive(&ticket, &["--no-lan"]);
    assert!(received.status.success(), "{}", said(&received));
}

#[test]
fn dead_addresses_do_not_hold_up_one_that_lives() {
    let Some(lan) = Lan::new() else { return };
    let (_sender, ticket) = lan.send(&["--no-lan"]);
    let dead = (100..113).map(|host| format!("/ip4/10.77.0.{host}/udp/5382/quic-v1").parse().unwrap());
    let living = ticket.addresses().iter().filter(|address| address.to_string().starts_with("/ip4/"));
    let addresses: Vec<_> = dead.chain(living.cloned()).collect();
    let crowded = Ticket::new(ticket.peer(), addresses, *ticket.secret(), None);
    let began = Instant::now();
    let received = lan.receive(&crowded, &["--no-lan"]);
    assert!(received.status.success(), "{}", said(&received));
    // One dead address alone would take its 8 s.
    assert!(began.elapsed() < Duration::from_secs(6), "{:?}", began.elapsed());
}

#[test]
fn who_wants_no_part_in_the_lan_is_not_found_and_finds_nobody() {
    let Some(lan) = Lan::new() else { return };
    let (_sender, ticket) = lan.send(&["--no-lan"]);
    let hidden = lan.receive(&stale(&ticket), &[]);
    assert_eq!(hidden.status.code(), Some(3), "{}", said(&hidden));
    for words in ["192.0.2.1/tcp/5382: connect", "fe80::1/tcp/5382: not tried", "0.0.0.0/tcp/5382: not tried"]
    {
        assert!(said(&hidden).contains(words), "{}", said(&hidden));
    }
    // By its own addresses it is.
    let received = lan.receive(&ticket, &["--no-lan"]);
    assert!(received.status.success(), "{}", said(&received));
}

#[test]
fn a_peer_is_found_by_its_id_alone_and_then_by_where_it_was() {
    let Some(lan) = Lan::new() else { return };
    let (_server, peer) = lan.serve();
    let alone = lan.on_a(&["ping", &peer, "--no-lan", "-c", "1"]);
    assert_eq!(alone.status.code(), Some(3), "{}", said(&alone));
    assert!(said(&alone).contains("no address is known"), "{}", said(&alone));
    let found = lan.on_a(&["ping", &peer, "-c", "1"]);
    assert!(found.status.success(), "{}", said(&found));

    let shared = format!("{peer}:docs");
    let target = lan.file("target");
    // It may not read, which it hears from the peer itself.
    let refused = lan.on_a(&["sync", &shared, target.to_str().unwrap()]);
    assert!(said(&refused).contains("--allow"), "{}", said(&refused));
    let listed = lan.on_a(&["peers", "list", "--json"]);
    let listed: Value = serde_json::from_slice(&listed.stdout).unwrap();
    assert_eq!(listed["peer_id"], *peer);
    // Either family may win.
    let network = listed["reached"][0]["network"].as_str().unwrap();
    assert!(["10.77.0.0/24", "fd77::/64"].contains(&network), "{listed}");
    let remembered = lan.on_a(&["ping", &peer, "--no-lan", "-c", "1"]);
    assert!(remembered.status.success(), "{}", said(&remembered));

    assert!(lan.on_a(&["peers", "remove", &peer]).status.success());
    let forgotten = lan.on_a(&["ping", &peer, "--no-lan", "-c", "1"]);
    assert_eq!(forgotten.status.code(), Some(3), "{}", said(&forgotten));
}

#[test]
fn a_lan_without_ipv4_serves_as_well() {
    let Some(lan) = Lan::new() else { return };
    lan.on_both("ip", &["-4", "address", "flush", "dev", "path0"]);
    let (_server, peer) = lan.serve();
    let found = lan.on_a(&["ping", &peer, "-c", "1", "--json"]);
    assert!(found.status.success(), "{}", said(&found));
    let found: Value = serde_json::from_slice(&found.stdout).unwrap();
    assert!(found["address"].as_str().unwrap().starts_with("/ip6/fd77::2/"), "{found}");
}
