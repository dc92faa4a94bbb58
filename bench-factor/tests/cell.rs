//! Observations of the study by two processes on loopback.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::TcpStream,
    path::Path,
    process::{Child, ChildStdout, Command, Output, Stdio},
};

use ketch_fixtures::{digest, tree::Shape};
use serde_json::Value;

const BENCH_FACTOR: &str = env!("CARGO_BIN_EXE_bench-factor");

/// A source that serves `data` on some port of loopback; it is killed when this is dropped.
struct Source {
    process: Child,
    said: BufReader<ChildStdout>,
    address: String,
}

impl Source {
    fn start(data: &Path, arguments: &[&str]) -> Self {
        let mut process = Command::new(BENCH_FACTOR)
            .args(["serve", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .args(arguments)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let address = line.trim().rsplit(' ').next().unwrap_or_default().to_owned();
        assert!(line.starts_with("serving "), "{line}");
        Self { process, said, address }
    }

    /// Waits for its end; what it said, and on its standard error.
    fn end(mut self) -> (bool, String, String) {
        let (mut said, mut errors) = (String::new(), String::new());
        self.said.read_to_string(&mut said).unwrap();
        self.process.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
        (self.process.wait().unwrap().success(), said, errors)
    }
}

impl Drop for Source {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A folder in memory where there is one, as what is synced is all that its file system has to write.
fn place() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn cell(source: &str, target: &Path, condition: &[&str]) -> Command {
    let mut command = Command::new(BENCH_FACTOR);
    command.args(["cell", "--json", "--peer", source, "--target"]).arg(target).args(condition);
    command
}

fn report(output: &Output) -> Value {
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {errors}"))
}

/// Small files, empty ones, folders, and one that takes several blocks.
fn tree(place: &Path, files: u64) {
    Shape::Small { files, bytes: 1_000 }.write(42, place).unwrap();
    fs::create_dir_all(place.join("deep/er")).unwrap();
    fs::write(place.join("deep/er/empty"), "").unwrap();
    fs::write(place.join("deep/large"), vec![7; 700_001]).unwrap();
}

/// Whether this process may give sockets any controller; says so where it may not.
fn can_choose() -> bool {
    for controller in [ketch_channel::Controller::Cubic, ketch_channel::Controller::Bbr] {
        if let Err(error) = ketch_channel::check_controller(controller) {
            let _ = writeln!(std::io::stderr(), "skipped: {error}");
            return false;
        }
    }
    true
}

const BUNDLE: [&str; 8] =
    ["--layout", "bundle", "--transport", "quic", "--controller", "cubic", "--connections", "1"];

#[test]
fn every_condition_brings_a_verified_copy() {
    if !can_choose() {
        return;
    }
    let place = place();
    let data = place.path().join("source");
    tree(&data, 150);
    let expected = digest::digest(&data, &digest::Options::default()).unwrap();
    // given one source for all of them
    let source = Source::start(&data, &[]);
    let mut number = 0;
    for layout in ["files", "bundle"] {
        for transport in ["tcp", "quic"] {
            let controllers: &[_] =
                if transport == "quic" { &["cubic", "bbr", "bbr3"] } else { &["cubic", "bbr"] };
            for &controller in controllers {
                for connections in ["1", "3"] {
                    number += 1;
                    let profile = ["seed", "tuned"][number / 2 % 2];
                    let target = place.path().join(number.to_string());
                    // when an observation is made
                    let condition = [
                        ["--layout", layout, "--transport", transport, "--controller", controller],
                        ["--connections", connections, "--profile", profile, "--limit", "120"],
                    ]
                    .concat();
                    let output = cell(&source.address, &target, &condition).output().unwrap();
                    // then the copy is there, and the report says what it was
                    let report = report(&output);
                    assert_eq!(report["outcome"], "verified", "{report}");
                    assert_eq!(output.status.code(), Some(0));
                    let copy = digest::digest(&target, &digest::Options::default()).unwrap();
                    assert_eq!(copy.hex, expected.hex);
                    check(&report, controller, connections, expected.bytes);
                }
            }
        }
    }
}

/// Every field of a report is in its description.
fn is_described(value: &Value, text: &str) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| {
            assert!(text.contains(&format!("`{name}`")), "docs/benchmarks/cell.md lacks {name}");
            // Below that are the names of libraries.
            if name != "libraries" {
                is_described(value, text);
            }
        }),
        Value::Array(values) => values.iter().for_each(|value| is_described(value, text)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// A report of a verified copy is complete.
fn check(report: &Value, controller: &str, connections: &str, bytes: u64) {
    assert_eq!(report["program"], "bench-factor");
    for end in ["target", "source"] {
        let all = report[end]["connections"].as_array().unwrap();
        assert_eq!(all.len().to_string(), connections);
        assert!(all.iter().all(|connection| connection["controller"] == controller), "{report}");
        let sum: u64 = all.iter().map(|connection| connection["bytes"].as_u64().unwrap()).sum();
        assert_eq!(sum, bytes);
        assert!(!report[end]["sockets"].as_array().unwrap().is_empty(), "{report}");
    }
    for time in ["ready_s", "acknowledged_s", "drain_s", "process_s", "sync_s", "verify_s"] {
        assert!(report[time].as_f64().is_some(), "{time}: {report}");
    }
    let rate = report["mb_per_s"].as_f64().unwrap();
    let ready_s = report["ready_s"].as_f64().unwrap();
    assert!((rate * ready_s * 1e6 / bytes as f64 - 1.0).abs() < 1e-9);
    is_described(report, include_str!("../../docs/benchmarks/cell.md"));
    assert_eq!(report["progress"].as_array().unwrap().last().unwrap()["bytes"], bytes);
}

#[test]
fn more_files_than_streams_are_allowed_go_one_stream_each() {
    // given the pilot: more files than a connection allows streams
    let place = place();
    let data = place.path().join("source");
    Shape::Small { files: 10_000, bytes: 64 }.write(42, &data).unwrap();
    let source = Source::start(&data, &[]);
    for transport in ["tcp", "quic"] {
        let target = place.path().join(transport);
        let condition = ["--layout", "files", "--transport", transport, "--controller", "bbr"];
        // when each has a stream of its own on one connection
        let condition = [&condition[..], &["--connections", "1"]].concat();
        let report = report(&cell(&source.address, &target, &condition).output().unwrap());
        // then streams were used again, and all is there
        assert_eq!(report["outcome"], "verified", "{report}");
        assert_eq!(report["data"]["files"], 10_000);
    }
}

#[test]
fn a_killed_source_is_an_aborted_observation() {
    for transport in ["tcp", "quic"] {
        // given a source that has sent one file and waits for the content of another
        let place = place();
        let (data, target) = (place.path().join("source"), place.path().join("copy"));
        fs::create_dir(&data).unwrap();
        fs::write(data.join("a"), "one").unwrap();
        fs::write(data.join("b"), "two").unwrap();
        let source = Source::start(&data, &[]);
        fs::remove_file(data.join("b")).unwrap();
        assert!(Command::new("mkfifo").arg(data.join("b")).status().unwrap().success());
        let condition = ["--layout", "files", "--transport", transport, "--controller", "cubic"];
        let condition = [&condition[..], &["--connections", "1", "--limit", "60"]].concat();
        let cell = cell(&source.address, &target, &condition).stdout(Stdio::piped()).spawn().unwrap();
        while fs::read_to_string(target.join("a")).ok().as_deref() != Some("one") {
            std::thread::yield_now();
        }
        // when it is killed
        drop(source);
        // then that is what the report says, and how far it came
        let output = cell.wait_with_output().unwrap();
        let report = report(&output);
        assert_eq!((&report["outcome"], output.status.code()), (&"aborted".into(), Some(3)), "{report}");
        assert!(report["reason"].as_str().unwrap().contains("connection"), "{report}");
        assert_eq!(report["progress"].as_array().unwrap().last().unwrap()["files"], 1);
    }
}

#[test]
fn a_source_ends_after_one_observation_when_it_is_asked_to() {
    let place = place();
    let data = place.path().join("source");
    tree(&data, 3);
    let source = Source::start(&data, &["--once"]);
    let output = cell(&source.address.clone(), &place.path().join("copy"), &BUNDLE).output().unwrap();
    assert_eq!(report(&output)["outcome"], "verified");
    let (success, said, errors) = source.end();
    assert!(success && errors.is_empty(), "{errors}");
    assert_eq!(said, "sent: bundle, quic, cubic, 1, seed\n");
}

#[test]
fn strangers_do_not_count_as_an_observation() {
    let place = place();
    let data = place.path().join("source");
    tree(&data, 3);
    let source = Source::start(&data, &["--once"]);
    // given one who says nothing, and one who says what makes no sense
    drop(TcpStream::connect(&source.address).unwrap());
    let mut stranger = TcpStream::connect(&source.address).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    drop(stranger);
    // when a target comes after them
    let output = cell(&source.address, &place.path().join("copy"), &BUNDLE).output().unwrap();
    // then it is served
    assert_eq!(report(&output)["outcome"], "verified");
    let (success, said, _) = source.end();
    assert!(success && said.matches("turned away: ").count() == 2, "{said}");
}

#[test]
fn an_empty_source_is_a_verified_copy_without_a_rate() {
    let place = place();
    let data = place.path().join("source");
    fs::create_dir(&data).unwrap();
    let source = Source::start(&data, &[]);
    let report = report(&cell(&source.address, &place.path().join("copy"), &BUNDLE).output().unwrap());
    assert_eq!((&report["outcome"], &report["mb_per_s"]), (&"verified".into(), &Value::Null));
}

#[test]
fn bad_input_is_told_before_anything_begins() {
    let place = place();
    let data = place.path().join("source");
    tree(&data, 3);
    let source = Source::start(&data, &[]);
    let error = |mut command: Command| {
        let output = command.output().unwrap();
        assert!(output.stdout.is_empty());
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    let serve = |data: &Path| {
        let mut command = Command::new(BENCH_FACTOR);
        command.args(["serve", "--listen", &source.address, "--data"]).arg(data);
        error(command)
    };
    assert_eq!(
        serve(&place.path().join("none")),
        (Some(1), format!("error: {}/none is no folder\n", place.path().display()))
    );
    let (code, text) = serve(&data);
    assert!(code == Some(1) && text.contains("cannot listen on"), "{text}");
    let (code, text) = error(cell(&source.address, &data, &BUNDLE));
    assert!(code == Some(1) && text.contains("is not empty"), "{text}");
    let (code, text) = error(cell("127.0.0.1:1", &place.path().join("copy"), &BUNDLE));
    assert!(code == Some(1) && text.contains("cannot reach 127.0.0.1:1: "), "{text}");
    let (code, _) = error(cell("somewhere", &place.path().join("copy"), &BUNDLE));
    assert_eq!(code, Some(2));
}
