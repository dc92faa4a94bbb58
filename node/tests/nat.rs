//! Two peers behind routers, with a public relay, over the round trip from Germany to the US. Needs network namespaces,
//! /dev/net/tun and nft; where they cannot be had the tests say so and are skipped.
#![cfg(target_os = "linux")]

use std::{
    fs::{self, File},
    io::Write as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    thread,
    time::{Duration, Instant},
};

use ketch_fixtures::{
    digest::{Options as DigestOptions, digest},
    tree::Shape,
};
use ketch_lab::{Internet, Lab, Member, Options, Running, Uplink, profile::Profile};

/// How long a program may take to be ready.
const PATIENCE: Duration = Duration::from_secs(30);

/// Time in which somebody who waits is told that there is no direct way: the 12 s that it is waited for, and what a busy
/// machine takes for the rest.
const TOLD_IN: Duration = Duration::from_secs(20);

fn lab_is_there() -> bool {
    let available = Lab::routers_available();
    if let Err(error) = &available {
        // The harness shows this with --nocapture, and CI counts these lines.
        let _ = writeln!(std::io::stderr(), "skipped: {error}");
    }
    available.is_ok()
}

fn wait_until(otherwise: &str, mut is_so: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < PATIENCE, "{otherwise}");
        thread::sleep(Duration::from_millis(10));
    }
}

/// A relay in public, a sender and a receiver.
struct World {
    place: tempfile::TempDir,
    internet: Internet,
    relay_addresses: Vec<String>,
    relay: Option<Running>,
}

impl World {
    fn new(sender: Uplink, receiver: Uplink) -> Self {
        Self::with_policy(sender, receiver, "")
    }

    /// The relay has this configuration.
    fn with_policy(sender: Uplink, receiver: Uplink, policy: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        let members = [("relay", Uplink::Public), ("sender", sender), ("receiver", receiver)];
        let internet =
            Internet::new(&members, &Profile::named("de-us-200").unwrap(), Options::default()).unwrap();
        let said = place.path().join("relay-said");
        let config = place.path().join("relay.toml");
        fs::write(&config, policy).unwrap();
        let arguments = ["relay", "--json", "--config", config.to_str().unwrap()];
        let mut command = ketch(&place.path().join("relay"), &arguments);
        command.stdout(File::create(&said).unwrap());
        let relay = internet.member("relay").unwrap().spawn(command).unwrap();
        let said = || fs::read_to_string(&said).unwrap_or_default();
        wait_until("the relay is not ready", || said().contains("\"relaying\""));
        let event: serde_json::Value = serde_json::from_str(said().lines().next().unwrap()).unwrap();
        let addresses = event["addresses"].as_array().unwrap();
        let relay_addresses = addresses.iter().map(|address| address.as_str().unwrap().into()).collect();
        Self { place, internet, relay_addresses, relay: Some(relay) }
    }

    fn member(&self, name: &str) -> &Member {
        self.internet.member(name).unwrap()
    }

    fn at(&self, name: &str) -> PathBuf {
        self.place.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.at(name)).unwrap_or_default()
    }

    /// Offers a tree, with a place at the relay, until its ticket is there.
    fn offer(&self, shape: Shape, more: &[&str]) -> Running {
        let at_relay = self.relay_addresses.iter().flat_map(|address| ["--relay-at", address]);
        self.offer_alone(shape, &at_relay.chain(more.iter().copied()).collect::<Vec<_>>())
    }

    /// Offers a tree until its ticket is there.
    fn offer_alone(&self, shape: Shape, more: &[&str]) -> Running {
        shape.write(42, &self.at("tree")).unwrap();
        let (tree, ticket) = (self.at("tree"), self.at("ticket"));
        let mut arguments = vec!["send", tree.to_str().unwrap(), "--json"];
        arguments.extend(["--ticket-file", ticket.to_str().unwrap()]);
        arguments.extend(more);
        let mut command = ketch(&self.at("sender"), &arguments);
        command.stdout(File::create(self.at("sender-said")).unwrap());
        command.stderr(File::create(self.at("sender-erred")).unwrap());
        let sender = self.member("sender").spawn(command).unwrap();
        wait_until("there is no ticket", || ticket.exists());
        sender
    }

    fn receiving(&self, more: &[&str]) -> Command {
        let (ticket, target) = (format!("@{}", self.at("ticket").display()), self.at("target"));
        let mut arguments = vec!["receive", &ticket, target.to_str().unwrap(), "--yes", "--json"];
        arguments.extend(more);
        ketch(&self.at("receiver"), &arguments)
    }

    fn receive(&self, more: &[&str]) -> Received {
        let began = Instant::now();
        let output = self.member("receiver").run(self.receiving(more)).unwrap();
        Received { output, took: began.elapsed() }
    }

    /// Receives, and lets something happen as soon as content crosses.
    fn receive_while(&self, happens: impl FnOnce()) -> Received {
        let began = Instant::now();
        let mut command = self.receiving(&[]);
        let (said, erred) = (self.at("receiver-said"), self.at("receiver-erred"));
        command.stdout(File::create(&said).unwrap()).stderr(File::create(&erred).unwrap());
        let mut receiver = self.member("receiver").spawn(command).unwrap();
        wait_until("nothing came", || {
            self.text("receiver-said").lines().any(|line| {
                let event: serde_json::Value = serde_json::from_str(line).unwrap_or_default();
                event["moved_bytes"].as_u64().is_some_and(|bytes| bytes > 0)
            })
        });
        happens();
        let status = receiver.wait().unwrap();
        let (stdout, stderr) = (fs::read(&said).unwrap(), fs::read(&erred).unwrap());
        Received { output: Output { status, stdout, stderr }, took: began.elapsed() }
    }

    fn is_received(&self) -> bool {
        let full = |root: &Path| {
            digest(root, &DigestOptions { full: true, ..DigestOptions::default() }).unwrap().hex
        };
        full(&self.at("tree")) == full(&self.at("target").join("tree"))
    }
}

/// What became of it.
struct Received {
    output: Output,
    took: Duration,
}

impl Received {
    /// Everything it said.
    fn told(&self) -> String {
        let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        format!("{:?}\n{}\n{}", self.took, said(&self.output.stdout), said(&self.output.stderr))
    }

    /// The address of the peer in the session.
    fn address(&self) -> String {
        let said = String::from_utf8_lossy(&self.output.stdout).into_owned();
        let mut events = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
        let connected = events.find(|event| event["event"] == "connected");
        connected.and_then(|event| Some(event["address"].as_str()?.to_owned())).unwrap_or_default()
    }
}

fn ketch(state: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ketch"));
    command.arg("--state").arg(state).args(arguments).stdin(Stdio::null()).stdout(Stdio::null());
    command
}

/// A tree of some packets.
const SMALL: Shape = Shape::Small { files: 20, bytes: 4096 };

/// A tree that takes some seconds.
const LONG: Shape = Shape::Small { files: 8, bytes: 8 << 20 };

/// Both are told to use one transport, or neither is.
fn crosses_directly(sender: Uplink, receiver: Uplink, told: &[&str]) -> String {
    let world = World::new(sender, receiver);
    let _sender = world.offer(SMALL, told);
    let received = world.receive(told);
    assert!(received.output.status.success(), "{}\n{}", received.told(), world.text("sender-erred"));
    assert!(world.is_received());
    let address = received.address();
    assert!(!address.contains("p2p-circuit"), "{}", received.told());
    address
}

fn goes_directly(sender: Uplink, receiver: Uplink, transport: &str) {
    if lab_is_there() {
        let address = crosses_directly(sender, receiver, &["--transport", transport]);
        assert!(address.contains(transport), "{address}");
    }
}

/// No hole is punched, which is said in time, and the same command with `--relay` goes over the relay.
fn is_told_and_may_go_over_the_relay(sender: Uplink, receiver: Uplink, transport: &str) {
    if !lab_is_there() {
        return;
    }
    let told = ["--transport", transport];
    let world = World::new(sender, receiver);
    let _sender = world.offer(SMALL, &told);
    let received = world.receive(&told);
    assert_eq!(received.output.status.code(), Some(3), "{}", received.told());
    assert!(received.took < TOLD_IN, "{}", received.told());
    let said = received.told();
    assert!(said.contains("symmetric NAT") && said.contains("--relay"), "{said}");
    assert!(!world.at("target").join("tree").exists());
    let received = world.receive(&[&told[..], &["--relay"]].concat());
    assert!(received.output.status.success(), "{}\n{}", received.told(), world.text("sender-erred"));
    assert!(received.address().contains("p2p-circuit"), "{}", received.told());
    assert!(world.is_received());
}

#[test]
fn a_circuit_that_is_cut_at_its_limit_is_no_success_and_says_whose_limit_it_was() {
    if !lab_is_there() {
        return;
    }
    let policy = "[circuits]\nbytes = \"1M\"\n";
    let world = World::with_policy(Uplink::Symmetric, Uplink::Symmetric, policy);
    let _sender = world.offer(LONG, &[]);
    let received = world.receive(&["--relay", "--retry-for", "0s"]);
    assert_eq!(received.output.status.code(), Some(1), "{}", received.told());
    let relay = world.relay_addresses[0].rsplit_once('/').unwrap().1;
    assert!(received.told().contains(relay), "{}", received.told());
    assert!(received.told().contains("up to 1048576 bytes"), "{}", received.told());
    assert!(!world.is_received());
}

#[test]
fn cone_to_cone_over_quic() {
    goes_directly(Uplink::Cone, Uplink::Cone, "quic");
}

#[test]
fn cone_to_cone_over_tcp() {
    goes_directly(Uplink::Cone, Uplink::Cone, "tcp");
}

#[test]
fn cone_to_full_cone_over_quic() {
    goes_directly(Uplink::Cone, Uplink::FullCone, "quic");
}

#[test]
fn full_cone_to_cone_over_tcp() {
    goes_directly(Uplink::FullCone, Uplink::Cone, "tcp");
}

#[test]
fn full_cone_to_full_cone_over_quic() {
    goes_directly(Uplink::FullCone, Uplink::FullCone, "quic");
}

#[test]
fn full_cone_to_full_cone_over_tcp() {
    goes_directly(Uplink::FullCone, Uplink::FullCone, "tcp");
}

#[test]
fn symmetric_to_symmetric_over_quic() {
    is_told_and_may_go_over_the_relay(Uplink::Symmetric, Uplink::Symmetric, "quic");
}

#[test]
fn symmetric_to_symmetric_over_tcp() {
    is_told_and_may_go_over_the_relay(Uplink::Symmetric, Uplink::Symmetric, "tcp");
}

#[test]
fn udp_blocked_to_cone() {
    if lab_is_there() {
        let address = crosses_directly(Uplink::UdpBlocked, Uplink::Cone, &[]);
        assert!(address.contains("tcp"), "{address}");
    }
}

#[test]
fn cone_to_udp_blocked() {
    if lab_is_there() {
        let address = crosses_directly(Uplink::Cone, Uplink::UdpBlocked, &[]);
        assert!(address.contains("tcp"), "{address}");
    }
}

#[test]
fn ipv6_only_to_ipv6_only() {
    if lab_is_there() {
        let address = crosses_directly(Uplink::Ipv6Only, Uplink::Ipv6Only, &[]);
        assert!(address.starts_with("/ip6/"), "{address}");
    }
}

#[test]
fn firewall_to_firewall() {
    if lab_is_there() {
        crosses_directly(Uplink::Firewall, Uplink::Firewall, &[]);
    }
}

#[test]
fn cone_to_public() {
    if lab_is_there() {
        crosses_directly(Uplink::Cone, Uplink::Public, &[]);
    }
}

fn port_opener_is_there() -> bool {
    // The folder of programs for administrators, which the search path of plain users lacks.
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let ran = Command::new("miniupnpd").env("PATH", path).arg("--version").output();
    if let Err(error) = &ran {
        let _ = writeln!(std::io::stderr(), "skipped: cannot run miniupnpd ({error})");
    }
    ran.is_ok()
}

/// Where the router opens ports, nobody needs a relay.
fn is_reached_through_an_open_port(transport: &str) {
    if !lab_is_there() || !port_opener_is_there() {
        return;
    }
    let world = World::new(Uplink::Upnp, Uplink::Symmetric);
    let told = ["--transport", transport];
    let _sender = world.offer_alone(SMALL, &told);
    let public = world.member("sender").public_ip().unwrap();
    let received = world.receive(&told);
    assert!(received.output.status.success(), "{}\n{}", received.told(), world.text("sender-said"));
    assert!(received.address().contains(&public.to_string()), "{}", received.told());
    assert!(world.is_received());
}

#[test]
fn upnp_to_symmetric_over_quic() {
    is_reached_through_an_open_port("quic");
}

#[test]
fn upnp_to_symmetric_over_tcp() {
    is_reached_through_an_open_port("tcp");
}

#[test]
fn a_router_that_is_not_to_be_asked_opens_nothing() {
    if !lab_is_there() || !port_opener_is_there() {
        return;
    }
    let world = World::new(Uplink::Upnp, Uplink::Cone);
    let _sender = world.offer_alone(SMALL, &["--no-upnp"]);
    let public = world.member("sender").public_ip().unwrap();
    assert!(!world.text("sender-said").contains(&public.to_string()), "{}", world.text("sender-said"));
}

#[test]
fn a_session_that_has_moved_does_not_need_the_relay() {
    if !lab_is_there() {
        return;
    }
    let mut world = World::new(Uplink::Cone, Uplink::Cone);
    let _sender = world.offer(LONG, &[]);
    let relay = world.relay.take().unwrap();
    let received = world.receive_while(|| drop(relay));
    assert!(received.output.status.success(), "{}\n{}", received.told(), world.text("sender-erred"));
    assert!(world.is_received());
    assert!(!received.told().contains("warning"), "{}", received.told());
}
