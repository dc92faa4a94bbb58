//! js-libp2p, from npm, meets whole nodes; one of its peers receives by what the documents say alone.
//!
//! The scripts are in `node/tests/js`. They run from a copy below the target folder, where `npm ci` puts what they
//! need by their lock file.

use std::{
    ffi::OsStr,
    fs,
    io::Write as _,
    os::unix::fs::FileExt as _,
    path::{Path, PathBuf},
    process::{Output, Stdio},
    sync::OnceLock,
};

use ketch::{
    swarm::TransportKind::Tcp,
    trust::{Secret, Ticket},
};
use ketch_fixtures::tree::Shape;
use rustix::fs::{AtFlags, CWD, Timespec, Timestamps, UTIME_OMIT, lstat, utimensat};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
    time::timeout,
};

use crate::{
    place::{Place, assert_same, noise, parse},
    process::{Ketch, PATIENCE, ketch},
};

const SECURITY: [(&str, &str); 2] = [("tls", "/tls/1.0.0"), ("noise", "/noise")];

/// The oldest Node on which js-libp2p runs.
const NODE_MAJOR: u32 = 20;

/// A file longer than this crosses in ranges (docs/wire-format.md).
const WHOLE_BYTES: usize = 8 << 20;

#[tokio::test]
async fn a_tree_is_received_by_what_the_documents_say() {
    for (form, other) in [("plain", "compressed"), ("compressed", "plain")] {
        let Some(script) = script("receive.mjs") else { return };
        let place = Place::new();
        let entries = write_tree(&place.source());
        let (sender, ticket) = place.send(Tcp, &[&place.source()], &[]).await;
        let received = place.target();

        let output = run(script, &[&ticket, received.to_str().unwrap(), form]).await;

        let account = printed(&output);
        let sent =
            ["listed", "sent", "skipped", "failed", "problems"].map(|name| account[name].as_u64().unwrap());
        assert_eq!(sent, [entries, entries, 0, 0, 0], "{account}");
        assert!(account["streams"][form].as_u64() > Some(0) && account["streams"][other] == 0, "{account}");
        sender.end().await.expect(0);
        assert_same(&place.source(), &received.join("source"));
    }
}

#[tokio::test]
async fn a_js_peer_with_another_secret_reads_why_it_is_refused() {
    let Some(script) = script("receive.mjs") else { return };
    let place = Place::new();
    let path = place.write("a", "content");
    let (_sender, ticket) = place.send(Tcp, &[&path], &[]).await;
    let ticket = parse(&ticket);
    let other = Ticket::new(ticket.peer(), ticket.addresses().to_vec(), Secret::from_bytes([9; 16]), None);

    let output = run(script, &[&other.to_string(), place.target().to_str().unwrap()]).await;

    assert_eq!(output.status.code(), Some(1), "{output:?}");
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("refused: NotAdmitted: "), "{stderr}");
    assert_eq!(fs::read_dir(place.target()).unwrap().count(), 0);
}

#[tokio::test]
async fn js_peers_reach_us() {
    for (security, protocol) in SECURITY {
        let Some(script) = script("ping.mjs") else { return };
        let place = Place::new();
        let path = place.write("a", "content");
        let (_sender, ticket) = place.send(Tcp, &[&path], &[]).await;
        let ticket = parse(&ticket);
        let address = ticket.addresses()[0].clone().with_p2p(ticket.peer()).unwrap();

        let met = printed(&run(script, &[&address.to_string(), security]).await);

        assert!(met["agentVersion"].as_str().unwrap().starts_with("ketch/"), "{met}");
        let protocols = met["protocols"].as_array().unwrap();
        assert!(protocols.contains(&json!("/ketch/transfer/1")), "{met}");
        assert_eq!(met["encryption"], protocol, "{met}");
        assert!(met["ping_ms"].is_number(), "{met}");
    }
}

#[tokio::test]
async fn we_reach_js_peers() {
    for (security, _) in SECURITY {
        let Some(script) = script("listen.mjs") else { return };
        let place = Place::new();
        let (_listener, address) = listen(script, &[security]).await;
        we_ping(&place, &address).await;
    }
}

#[tokio::test]
async fn js_peers_reserve_at_our_relay_and_meet_each_other_and_us_through_it() {
    let (Some(listener), Some(dialer)) = (script("listen.mjs"), script("ping.mjs")) else { return };
    let place = Place::new();
    let (_relay, relay_address) = place.relay().await;

    let (_listener, address) = listen(listener, &["tls", &relay_address]).await;

    assert!(address.starts_with(&format!("{relay_address}/p2p-circuit/p2p/")), "{address}");
    let met = printed(&run(dialer, &[&address, "tls"]).await);
    assert!(met["agentVersion"].as_str().unwrap().starts_with("js-libp2p/"), "{met}");
    we_ping(&place, &address).await;
}

#[tokio::test]
async fn a_js_peer_receives_through_our_relay() {
    let Some(script) = script("receive.mjs") else { return };
    let place = Place::new();
    let path = place.write("a", "content");
    cut_times(&place.source());
    let (_relay, relay_address) = place.relay().await;
    let (sender, ticket) = place.send(Tcp, &[&path], &["--relay-at", &relay_address]).await;
    let ticket = parse(&ticket);
    let circuits = ticket.addresses().iter().filter(|address| address.to_string().contains("/p2p-circuit"));
    let circuits = Ticket::new(ticket.peer(), circuits.cloned(), *ticket.secret(), None);

    let output = run(script, &[&circuits.to_string(), place.target().to_str().unwrap()]).await;

    assert_eq!(printed(&output)["sent"], 1);
    sender.end().await.expect(0);
    assert_same(&place.source(), &place.target());
}

/// A js peer that waits to be dialed, and its address.
async fn listen(mut script: Command, arguments: &[&str]) -> (Child, String) {
    let mut listener = script.args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(listener.stdout.take().unwrap()).lines();
    let address = timeout(PATIENCE, lines.next_line()).await.unwrap().unwrap();
    (listener, address.unwrap())
}

async fn we_ping(place: &Place, address: &str) {
    let arguments: [&dyn AsRef<OsStr>; 5] = [&"ping", &address, &"--count", &"1", &"--json"];
    let ended = Ketch::start(ketch(&place.path("pinging"), &arguments)).end().await.expect(0);
    let report: Value = serde_json::from_str(&ended.stdout.concat()).unwrap();
    assert!(report["agent"].as_str().unwrap().starts_with("js-libp2p/"), "{report}");
}

/// Runs a script to its end.
async fn run(mut script: Command, arguments: &[&str]) -> Output {
    timeout(PATIENCE, script.args(arguments).output()).await.unwrap().unwrap()
}

/// What a script that did well printed.
fn printed(output: &Output) -> Value {
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A tree with all that a ticket may offer, whose times another program can set: they are whole seconds. Says how
/// many entries it has, itself included.
fn write_tree(root: &Path) -> u64 {
    let shapes = [("names", Shape::Names), ("source", Shape::Source { files: 200 })];
    let mut entries = 2;
    for (name, shape) in shapes {
        let written = shape.write(42, &root.join(name)).unwrap();
        entries += 1 + written.files + written.directories + written.symlinks;
    }
    let ranges = fs::File::create(root.join("ranges")).unwrap();
    ranges.write_all_at(&noise(WHOLE_BYTES / 4, 1), 0).unwrap();
    ranges.write_all_at(b"the end, behind a hole", WHOLE_BYTES as u64).unwrap();
    cut_times(root);
    entries
}

/// Cuts the times of a tree to whole seconds.
fn cut_times(path: &Path) {
    let metadata = lstat(path).unwrap();
    if path.is_dir() && !path.is_symlink() {
        fs::read_dir(path).unwrap().for_each(|child| cut_times(&child.unwrap().path()));
    }
    let times = Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: metadata.st_mtime as i64, tv_nsec: 0 },
    };
    utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// A command that runs one of the scripts, killed when it is dropped; says why where there is none.
fn script(name: &str) -> Option<Command> {
    static INSTALLED: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    match INSTALLED.get_or_init(install) {
        Ok(folder) => {
            let mut command = Command::new("node");
            command.arg(folder.join(name)).kill_on_drop(true);
            Some(command)
        }
        Err(reason) => {
            let _ = writeln!(std::io::stderr(), "skipped: {reason}");
            None
        }
    }
}

/// Copies the scripts and has npm install what they need, once for each lock file, whatever else runs beside.
fn install() -> Result<PathBuf, String> {
    find_node()?;
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/js");
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("js");
    fs::create_dir_all(&folder).unwrap();
    let lock = fs::File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    for file in fs::read_dir(source).unwrap().map(Result::unwrap).filter(|file| file.path().is_file()) {
        fs::copy(file.path(), folder.join(file.file_name())).unwrap();
    }
    let wanted = fs::read(folder.join("package-lock.json")).unwrap();
    let installed = folder.join("installed-package-lock.json");
    if fs::read(&installed).is_ok_and(|installed| installed == wanted) {
        return Ok(folder);
    }
    npm_install(&folder)?;
    fs::write(installed, wanted).unwrap();
    Ok(folder)
}

fn find_node() -> Result<(), String> {
    let output = std::process::Command::new("node").arg("--version").output();
    let said = output.map_err(|error| format!("node cannot be run: {error}"))?.stdout;
    let version = String::from_utf8_lossy(&said);
    let major = version.trim_start_matches('v').split('.').next().and_then(|major| major.parse::<u32>().ok());
    match major {
        Some(NODE_MAJOR..) => Ok(()),
        Some(_) | None => Err(format!("node is {}, and js-libp2p takes {NODE_MAJOR}", version.trim())),
    }
}

fn npm_install(folder: &Path) -> Result<(), String> {
    let mut npm = std::process::Command::new("npm");
    npm.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"]).current_dir(folder);
    let output = npm.output().map_err(|error| format!("npm cannot be run: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    match output.status.success() {
        true => Ok(()),
        false => Err(format!("npm ci failed: {}", said.lines().next().unwrap_or_default())),
    }
}
