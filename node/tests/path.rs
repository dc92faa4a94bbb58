//! A tree over an emulated path from Germany to the US: 141 ms, 200 Mbit/s. Needs network namespaces and
//! /dev/net/tun; where they cannot be had the tests say so and are skipped.
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
    Lab, Running, Side,
    profile::Profile,
    units::{Queue, Rate},
};

/// Files of the tree: some round trips' worth at this rate, and quick in a debug build.
const FILES: u64 = 2_000;

/// A round trip so long that what a machine takes for everything else is no other one, and too short for anything to be sent
/// again (RFC 6298 and RFC 9002 begin with a second).
const ROUND_TRIP: Duration = Duration::from_millis(600);

/// A round trip that has to be waited for is there in every try; what a busy machine adds is not.
const TRIES: u32 = 3;

/// Of these the manifest alone takes five round trips over a path that nothing is known of.
const MANY_FILES: u64 = 10_000;

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
    wait_until("the sender wrote no ticket", || file.exists());
}

fn wait_until(otherwise: &str, is_so: impl Fn() -> bool) {
    let began = Instant::now();
    while !is_so() {
        assert!(began.elapsed() < Duration::from_secs(20), "{otherwise}");
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

/// Where the files of a test are, and the path between its ends.
struct Far {
    place: tempfile::TempDir,
    path: ketch_lab::Path,
}

impl Far {
    /// A tree on one end of a path with a long round trip.
    fn new(files: u64) -> Self {
        let place = tempfile::tempdir().unwrap();
        Shape::Small { files, bytes: 1_024 }.write(42, &place.path().join("tree")).unwrap();
        let round_trip_ns = ROUND_TRIP.as_nanos() as u64;
        let path = Lab::path(Profile::even(Rate::mbit(100), round_trip_ns, Queue::Bdp(1.0))).unwrap();
        Self { place, path }
    }

    fn at(&self, name: &str) -> String {
        self.place.path().join(name).to_str().unwrap().into()
    }

    fn ketch(&self, state: &str, arguments: &[&str]) -> Command {
        ketch(&self.place.path().join(state), arguments)
    }

    fn peer(&self, state: &str) -> String {
        let said = self.ketch(state, &["id"]).stdout(Stdio::piped()).output().unwrap();
        String::from_utf8(said.stdout).unwrap().lines().next().unwrap().into()
    }

    /// Round trips from the start of a command on the side that dials until a file can be read in the target.
    fn round_trips_to_a_file(&self, dials: Command) -> f64 {
        let began = Instant::now();
        let _dialing = self.path.spawn(Side::A, dials).unwrap();
        let target = self.place.path().join("target");
        wait_until("no file came", || has_file(&target));
        began.elapsed().as_secs_f64() / ROUND_TRIP.as_secs_f64()
    }

    /// Starts a side that waits to be dialed, until it has said so much.
    fn listening(&self, mut command: Command, event: &str) -> Running {
        let said = self.at("said");
        command.stdout(File::create(&said).unwrap());
        let side = self.path.spawn(Side::B, command).unwrap();
        wait_until("the other side is not ready", || {
            fs::read_to_string(&said).is_ok_and(|said| said.contains(event))
        });
        side
    }

    /// The side that has the tree waits to be dialed.
    fn offer(&self, port: &str) -> (Running, Command) {
        let (ticket, tree) = (self.at("ticket"), self.at("tree"));
        let listen = format!("/ip4/0.0.0.0/{port}");
        let send =
            self.ketch("sender", &["send", "--listen", &listen, "--ticket-file", &ticket, "--json", &tree]);
        let sender = self.listening(send, "\"counted\"");
        let receive = ["receive", &format!("@{ticket}"), &self.at("target"), "--yes"];
        (sender, self.ketch("receiver", &receive))
    }

    /// The side that has the target waits to be dialed.
    fn share(&self, port: &str) -> (Running, Command) {
        let target = self.at("target");
        fs::create_dir(&target).unwrap();
        let (writer, server) = (self.peer("sender"), self.peer("receiver"));
        let (listen, share) = (format!("/ip4/0.0.0.0/{port}"), format!("tree={target}"));
        let allow = format!("{writer}=tree:write");
        let serve = ["serve", "--json", "--listen", &listen, "--share", &share, "--allow", &allow];
        let receiver = self.listening(self.ketch("receiver", &serve), "\"serving\"");
        let address = format!("/ip4/{}/{port}/p2p/{server}", self.path.address(Side::B));
        let tree = format!("{}/", self.at("tree"));
        let sync = ["sync", "--address", &address, &tree, &format!("{server}:tree")];
        (receiver, self.ketch("sender", &sync))
    }
}

/// Whether there is a file that is not the program's own.
fn has_file(directory: &Path) -> bool {
    let Ok(entries) = fs::read_dir(directory) else { return false };
    let mut own =
        entries.flatten().filter(|entry| !entry.file_name().to_string_lossy().starts_with(".ketch"));
    own.any(|entry| entry.file_type().is_ok_and(|kind| kind.is_file() || has_file(&entry.path())))
}

/// Whether a try took no round trip more than `expected`.
fn is_no_more(round_trips: f64, expected: f64) -> bool {
    assert!(round_trips >= expected, "{round_trips:.2} is fewer than {expected}, which cannot be");
    round_trips < expected + 0.9
}

/// The first file of a tree of so many, when the receiver dials.
fn is_received_in(port: &str, files: u64, expected: f64) -> bool {
    let far = Far::new(files);
    let (_sender, receive) = far.offer(port);
    is_no_more(far.round_trips_to_a_file(receive), expected)
}

/// The same when the sender dials.
fn is_pushed_in(port: &str, files: u64, expected: f64) -> bool {
    let far = Far::new(files);
    let (_receiver, sync) = far.share(port);
    is_no_more(far.round_trips_to_a_file(sync), expected)
}

fn the_first_file_takes(port: &str, expected: f64) {
    if !lab_is_there() {
        return;
    }
    for files in [1, MANY_FILES] {
        let received = (0..TRIES).any(|_| is_received_in(port, files, expected));
        assert!(received, "the first of {files} files took more than {expected} round trips");
    }
    let pushed = (0..TRIES).any(|_| is_pushed_in(port, MANY_FILES, expected + 0.5));
    assert!(pushed, "the first file that was pushed took more than {expected} round trips and a half");
}

#[test]
fn the_first_file_of_any_tree_takes_three_round_trips_over_tcp_and_half_a_one_more_from_who_dials() {
    // connect; handshake; ask and content.
    the_first_file_takes("tcp/4001", 3.0);
}

#[test]
fn the_first_file_of_any_tree_takes_two_round_trips_over_quic_and_half_a_one_more_from_who_dials() {
    // handshake; ask and content.
    the_first_file_takes("udp/4001/quic-v1", 2.0);
}
