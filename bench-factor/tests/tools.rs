//! The command `tools`, as a person runs it.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::{self, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

/// A run of `tools` with one of the shipped plans, or another, and where its results are.
struct Run {
    output: Output,
    results: PathBuf,
    _place: tempfile::TempDir,
}

fn shipped(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("plans").join(name)
}

fn tools(plan: &Path, more: &[&str]) -> Run {
    let place = tempfile::tempdir().unwrap();
    let output = command(plan, place.path()).args(more).output().expect("the binary under test runs");
    Run { output, results: place.path().join("results"), _place: place }
}

/// A run with everything below `place`.
fn command(plan: &Path, place: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-factor"));
    command.args(["tools", "--plan"]).arg(plan).arg("--out").arg(place.join("results"));
    command.arg("--scratch").arg(place);
    command
}

fn plan(text: &str) -> (tempfile::TempDir, PathBuf) {
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("tools.toml");
    fs::write(&path, text).unwrap();
    (place, path)
}

impl Run {
    fn said(&self) -> String {
        String::from_utf8_lossy(&self.output.stdout).into_owned()
    }

    fn errors(&self) -> String {
        String::from_utf8_lossy(&self.output.stderr).into_owned()
    }

    fn rows(&self) -> Vec<String> {
        let rows = fs::read_to_string(self.results.join("rows.csv")).unwrap();
        rows.lines().skip(1).map(str::to_owned).collect()
    }
}

#[test]
fn the_quick_plan_runs_what_is_installed_and_names_what_is_not() {
    let run = tools(&shipped("tools-quick.toml"), &[]);
    assert!(run.output.status.success(), "{}{}", run.said(), run.errors());
    // Each tool, work and scenario once a round, unless its tool is missing.
    let present = ["ketch-tcp", "ketch-quic", "rsync-local", "rsync-daemon", "tar-tcp"]
        .into_iter()
        .filter(|tool| !run.said().contains(&format!("missing: {tool}: ")));
    let rows = run.rows();
    for tool in present {
        let of_tool: Vec<_> = rows.iter().filter(|row| row.split(',').nth(6) == Some(tool)).collect();
        assert_eq!(of_tool.len(), 2 * 2, "{tool}");
        assert!(of_tool.iter().all(|row| row.split(',').nth(10) == Some("verified")), "{of_tool:?}");
    }
    let summary = fs::read_to_string(run.results.join("summary.txt")).unwrap();
    assert!(run.said().ends_with(&format!("{summary}\n")));
}

#[test]
fn a_tool_that_fails_has_its_row_and_fails_the_run() {
    let text = "rounds = 1\nseed = 7\ntargets = ['folder']\ntools = ['ketch-tcp']\n[[work]]\nshape = 'small'\nfiles = 1\n";
    let (_place, plan) = plan(text);
    let run = tools(&plan, &["--ketch", "/bin/false"]);
    assert_eq!(run.output.status.code(), Some(1));
    assert!(run.errors().contains("1 of 1 observations failed"), "{}", run.errors());
    assert!(
        run.rows()[0].contains(",failed,") && run.rows()[0].contains("ended before it was ready"),
        "{:?}",
        run.rows()
    );
}

#[test]
fn several_plans_have_a_folder_each_and_one_verdict() {
    let text = "rounds = 1\nseed = 7\ntargets = ['folder']\ntools = ['ketch-tcp']\n[[work]]\nshape = 'small'\nfiles = 1\n";
    let (place, plan) = plan(text);
    let other = place.path().join("other.toml");
    fs::write(&other, text.replace("files = 1", "files = 2")).unwrap();
    let run = tools(&plan, &["--plan", other.to_str().unwrap(), "--ketch", "/bin/false"]);
    assert!(run.errors().contains("2 of 2 observations failed"), "{}", run.errors());
    for (plan, work) in [("tools", "small-1x4096"), ("other", "small-2x4096")] {
        let rows = fs::read_to_string(run.results.join(plan).join("rows.csv")).unwrap();
        assert!(rows.lines().nth(1).is_some_and(|row| row.contains(work)), "{rows}");
    }
}

#[test]
fn what_is_missing_is_listed_and_does_not_fail_the_run() {
    let text = "rounds = 1\nseed = 7\ntargets = ['folder']\ntools = ['ketch-tcp', 'btrfs-send']\n[[work]]\nshape = 'small'\n";
    let (_place, plan) = plan(text);
    let run = tools(&plan, &["--ketch", "/nowhere/ketch"]);
    assert!(run.output.status.success(), "{}", run.errors());
    assert!(run.said().contains("missing: ketch-tcp: ketch is not installed"), "{}", run.said());
    assert!(
        run.said().contains("left out: btrfs-send, fresh, to folder: copies to btrfs only"),
        "{}",
        run.said()
    );
    assert!(run.rows().is_empty());
}

#[test]
fn both_ends_of_a_tool_run_over_an_emulated_path() {
    if let Err(missing) = ketch_lab::Lab::available() {
        writeln!(io::stderr(), "skipped: {missing}").unwrap();
        return;
    }
    let text = "rounds = 1\nseed = 7\ntargets = ['folder']\ntools = ['tar-tcp']\n[[work]]\nshape = 'small'\nfiles = 9\n";
    let (_place, plan) = plan(text);
    let run = tools(&plan, &["--link", "lan"]);
    let rows = run.rows();
    assert!(rows[0].starts_with("1,1,lan,small-9x4096,fresh,folder,tar-tcp,"), "{rows:?}");
    // A machine that is busy elsewhere delays packets, and the path says so itself.
    assert!(
        rows[0].contains(",verified,") || rows[0].contains("the emulated path was not as asked"),
        "{rows:?}"
    );
}

#[test]
fn nothing_runs_or_is_mounted_any_more_when_a_run_is_killed() {
    if !rustix::process::geteuid().is_root() {
        writeln!(io::stderr(), "skipped: mounting a target takes root").unwrap();
        return;
    }
    let text = "rounds = 1\nseed = 7\ntargets = ['tmpfs']\ntools = ['ketch-tcp']\n[[work]]\nshape = 'small'\nfiles = 1\n";
    let (place, plan) = plan(text);
    // A server that never gets ready, and that has started another one in a session of its own.
    let ketch = place.path().join("ketch");
    let wait = "while :; do sleep 0.1; done";
    fs::write(&ketch, format!("#!/bin/sh\nsetsid sh -c '{wait}' $0 &\ntouch $0.up\n{wait}\n")).unwrap();
    fs::set_permissions(&ketch, fs::Permissions::from_mode(0o755)).unwrap();
    let mut run = command(&plan, place.path()).arg("--ketch").arg(&ketch).spawn().unwrap();
    eventually("the server is up", || place.path().join("ketch.up").exists());
    assert!(processes_that_name(place.path()).len() >= 3, "the run itself and two servers");

    run.kill().unwrap();
    run.wait().unwrap();

    eventually("no process is left", || processes_that_name(place.path()).is_empty());
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(!mounts.contains(place.path().to_str().unwrap()), "{mounts}");
}

/// Waits for what other processes bring about.
fn eventually(what: &str, holds: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !holds() {
        assert!(Instant::now() < deadline, "not so in 20 s: {what}");
        thread::sleep(Duration::from_millis(20));
    }
}

/// The processes with `place` in their command line.
fn processes_that_name(place: &Path) -> Vec<PathBuf> {
    let processes = fs::read_dir("/proc").unwrap().map(|entry| entry.unwrap().path());
    let names_it = |process: &PathBuf| {
        let line = fs::read(process.join("cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(place.to_str().unwrap())
    };
    processes.filter(names_it).collect()
}

#[test]
fn a_plan_that_makes_no_sense_is_refused_before_anything_is_made() {
    let (_place, plan) = plan("rounds = 1\nseed = 7\ntools = ['rsink']\n[[work]]\nshape = 'small'\n");
    let run = tools(&plan, &[]);
    assert_eq!(run.output.status.code(), Some(1));
    assert!(run.errors().contains("no tool is called rsink"), "{}", run.errors());
    assert!(!run.results.exists());
}

#[test]
fn a_pipe_joins_the_output_of_one_command_to_the_input_of_another() {
    let place = tempfile::tempdir().unwrap();
    let pipe = |role: &str, address: &str, script: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_bench-factor"));
        command.args(["pipe", role, address, "--", "sh", "-c", script]).current_dir(place.path());
        command
    };
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap().to_string()
    };
    let mut listening = pipe("--listen", &address, "echo through the pipe").spawn().unwrap();
    // The peer may come first; it is refused until there is a listener.
    while !pipe("--connect", &address, "cat > received").output().unwrap().status.success() {
        assert!(listening.try_wait().unwrap().is_none_or(|status| status.success()));
    }
    assert!(listening.wait().unwrap().success());
    assert_eq!(fs::read_to_string(place.path().join("received")).unwrap(), "through the pipe\n");
}
