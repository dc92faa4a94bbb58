//! Runs of the study over loopback, by the program itself.
#![cfg(target_os = "linux")]

use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
};

use serde_json::Value;

const BENCH_FACTOR: &str = env!("CARGO_BIN_EXE_bench-factor");

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

fn study(program: &Path, place: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(["study", "--out"]).arg(place.join("run")).arg("--scratch").arg(place.join("scratch"));
    command.args(arguments);
    command
}

fn rows(place: &Path) -> Vec<Value> {
    let text = fs::read_to_string(place.join("run/observations.jsonl")).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn said(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// One round of one condition of a program called `mendable`, and of two of this one.
const MENDABLE: &str = "
rounds = 1
seed = 7
warm_up = false
[data]
small = { shape = 'small', files = 3, bytes = 10 }
[[conditions]]
data = ['small']
layout = ['files', 'bundle']
transport = ['quic']
controller = ['bbr']
[[conditions]]
data = ['small']
layout = ['bundle']
transport = ['quic']
controller = ['bbr']
label = 'mendable'
program = 'mendable'
";

#[test]
fn a_study_that_is_killed_goes_on_and_loses_no_row() {
    if !can_choose() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/plans/study/seed-quick.toml");
    // given a run that is killed behind its fifth row
    let mut command = study(Path::new(BENCH_FACTOR), place.path(), &["--plan", plan]);
    let mut process = command.stdout(Stdio::piped()).spawn().unwrap();
    let said_so_far = BufReader::new(process.stdout.take().unwrap()).lines();
    let fifth = said_so_far.map(Result::unwrap).find(|line| line.starts_with("5/"));
    process.kill().unwrap();
    process.wait().unwrap();
    assert!(fifth.is_some());
    let before = rows(place.path());
    assert!((5..=6).contains(&before.len()), "{}", before.len());
    // and in the middle of a row
    let path = place.path().join("run/observations.jsonl");
    let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
    file.write_all(b"{\"schema\":1,\"ru").unwrap();
    drop(file);
    // when it goes on
    let output = study(Path::new(BENCH_FACTOR), place.path(), &["--resume"]).output().unwrap();
    assert!(output.status.success(), "{:?}", said(&output));
    // then every observation is there once, and those before as they were
    let rows = rows(place.path());
    assert_eq!(rows.len(), 2 + 2 * 22);
    assert_eq!(rows[..before.len()], before[..]);
    let once: BTreeSet<_> =
        rows.iter().map(|row| (row["round"].to_string(), row["condition"].to_string())).collect();
    assert_eq!(once.len(), rows.len());
    assert!(rows.iter().all(|row| row["outcome"]["kind"] == "complete"), "{rows:?}");
    check_row(&rows[0]);
    // and nothing else is left
    assert_eq!(fs::read_dir(place.path().join("scratch")).unwrap().count(), 0);
    let export = fs::read_to_string(place.path().join("run/export.json")).unwrap();
    assert!(export.contains("observations.jsonl") && export.contains("source.zip"));
    let report = Command::new(BENCH_FACTOR).arg("report").arg(place.path().join("run")).output().unwrap();
    assert!(report.status.success(), "{:?}", said(&report));
}

fn check_row(row: &Value) {
    for hash in ["build", "lock", "method"] {
        assert_eq!(row["made_of"][hash].as_str().map(str::len), Some(64), "{row}");
    }
    assert_eq!(row["role"], "pilot", "pilots come first: {row}");
    assert_eq!(row["settings"][0]["got"], "bbr", "{row}");
    assert!(row["samplers"]["sender"]["udp_receive_errors"].is_u64(), "{row}");
    assert!(!row["samplers"]["trace"].as_array().unwrap().is_empty(), "{row}");
}

/// This program, where others can stand beside it.
fn movable(place: &Path) -> PathBuf {
    let program = place.join("bench-factor");
    if fs::hard_link(BENCH_FACTOR, &program).is_err() {
        fs::copy(BENCH_FACTOR, &program).unwrap();
    }
    program
}

fn write_program(path: &Path, script: &str) {
    fs::write(path, format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_failed_stops_the_run_keeps_its_row_and_can_be_made_again() {
    if !can_choose() {
        return;
    }
    let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let program = movable(place.path());
    let other = place.path().join("bench-factor-mendable");
    let plan = place.path().join("plan.toml");
    fs::write(&plan, MENDABLE).unwrap();
    let plan = plan.to_str().unwrap();
    let run = |arguments: &[&str]| study(&program, place.path(), arguments).output().unwrap();
    // given no such program, nothing begins
    let (_, error) = said(&run(&["--plan", plan]));
    assert!(error.contains("the plan is for the program mendable"), "{error}");
    assert!(!place.path().join("run").exists());
    // given one that fails, the run stops with its row
    write_program(
        &other,
        "[ $1 = serve ] && exec \"$(dirname \"$0\")/bench-factor\" \"$@\"; echo so broken >&2; exit 1",
    );
    let (_, error) = said(&run(&["--plan", plan]));
    assert!(error.contains("small-bundle-quic-bbr-mendable failed in round 1: so broken"), "{error}");
    let failed = rows(place.path()).pop().unwrap();
    assert_eq!(failed["outcome"]["reason"], "so broken");
    // when it goes on, that is not made again
    assert!(run(&["--resume"]).status.success());
    assert_eq!(rows(place.path()).len(), 3);
    // and a condition that has not failed is not either
    let (_, error) = said(&run(&["--retry", "small-files-quic-bbr", "--reason", "it was slow"]));
    assert!(error.contains("no observation of small-files-quic-bbr has failed"), "{error}");
    // when the program is mended, and its condition tried again
    write_program(&other, "exec \"$(dirname \"$0\")/bench-factor\" \"$@\"");
    let again = run(&["--retry", "small-bundle-quic-bbr-mendable", "--reason", "it was broken"]);
    assert!(again.status.success(), "{:?}", said(&again));
    // then both attempts are there
    let rows = rows(place.path());
    assert_eq!(rows.len(), 4);
    assert!(rows.contains(&failed));
    assert_eq!((&rows[3]["attempt"], &rows[3]["attempt_reason"]), (&2.into(), &"it was broken".into()));
    assert_eq!(rows[3]["outcome"]["kind"], "complete");
}

/// Two paths, one of which is too slow for the limit, onto mounted targets; and a sink.
const PATHS: &str = "
rounds = 1
seed = 7
limit_s = 3
source = 'tmpfs'
target = 'tmpfs'
link = 'lan'
[links]
slow = { rate = '100kbit', rtt = '20ms' }
[data]
small = { shape = 'small', files = 64, bytes = 4096 }
[[conditions]]
data = ['small']
layout = ['bundle']
transport = ['tcp']
controller = ['cubic']
[[conditions]]
data = ['small']
layout = ['bundle']
transport = ['quic']
controller = ['bbr']
discard = true
label = 'sink'
role = 'control'
[[conditions]]
data = ['small']
layout = ['bundle']
transport = ['tcp']
controller = ['cubic']
link = ['slow']
";

/// Whether hosts can be joined, and file systems mounted; says so where not.
fn can_join() -> bool {
    let missing = match ketch_lab::Lab::available() {
        Err(error) => error.to_string(),
        Ok(()) if !rustix::process::getuid().is_root() => "mounting takes root".into(),
        Ok(()) => return true,
    };
    let _ = writeln!(std::io::stderr(), "skipped: {missing}");
    false
}

#[test]
fn over_paths_what_is_too_slow_is_censored_and_a_sink_is_not_verified() {
    if !can_choose() || !can_join() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let plan = place.path().join("plan.toml");
    // A warm-up over the slow path would take as long as the observation.
    fs::write(&plan, format!("warm_up = false\n{PATHS}")).unwrap();
    // when a study runs over emulated paths
    let output = study(Path::new(BENCH_FACTOR), place.path(), &["--plan", plan.to_str().unwrap()]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{:?}", said(&output));
    // then each row says what became of it
    let rows = rows(place.path());
    let row = |name: &str| rows.iter().find(|row| row["condition"] == name).unwrap();
    let (copy, sink) = (row("small-bundle-tcp-cubic"), row("small-bundle-quic-bbr-sink"));
    let slow = row("small-bundle-tcp-cubic-slow");
    assert!(copy["outcome"]["verify_s"].is_f64() && copy["ideal_s"].is_f64(), "{copy}");
    assert_eq!((&copy["factors"]["path"], &copy["factors"]["target"]), (&"lan".into(), &"tmpfs".into()));
    assert!(sink["outcome"]["ready_s"].is_f64() && sink["outcome"]["verify_s"].is_null(), "{sink}");
    assert_eq!(sink["factors"]["others"]["discarded"], "yes");
    assert_eq!(slow["outcome"]["kind"], "censored", "{slow}");
    let progress = slow["outcome"]["progress"].as_array().unwrap();
    assert!(progress.len() >= 3, "a curve of one point a second: {slow}");
    assert!(slow["samplers"]["round_trip"]["median_ms"].as_f64().unwrap() >= 20.0, "{slow}");
    assert_eq!(fs::read_dir(place.path().join("scratch")).unwrap().count(), 0);
}

/// One observation over a path of 20 Mbit/s that holds long queues and loses packets, so that readers often get much at once.
const LOSSY: &str = "
rounds = 1
seed = 7
link = 'lossy'
[data]
small = { shape = 'small', files = 3, bytes = 10 }
[links]
lossy = { rate = '20mbit', rtt = '40ms', loss = '0.01' }
[[conditions]]
data = ['small']
layout = ['bundle']
transport = ['tcp']
controller = ['bbr']
";

#[test]
fn a_path_carries_no_more_than_it_can_and_most_of_that() {
    if !can_choose() || !can_join() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let plan = place.path().join("plan.toml");
    fs::write(&plan, LOSSY).unwrap();
    // when what the path carries is measured around an observation
    let output = study(Path::new(BENCH_FACTOR), place.path(), &["--plan", plan.to_str().unwrap()]).output();
    let output = output.unwrap();
    assert!(output.status.success(), "{:?}", said(&output));
    let row = &rows(place.path())[0];
    if !row["flags"].as_array().unwrap().is_empty() {
        let _ = writeln!(std::io::stderr(), "skipped: the path was not as asked: {}", row["flags"]);
        return;
    }
    // then it is the path's rate, within what the emulator's lateness moves into or out of the second that is counted
    for when in ["before_mbit_s", "after_mbit_s"] {
        let carried = row["samplers"]["capacity"][when].as_f64().unwrap();
        assert!((10.0..21.0).contains(&carried), "{when}: {carried} Mbit/s");
    }
}

#[test]
fn a_run_begins_once_and_goes_on_with_what_it_began_with() {
    let place = tempfile::tempdir().unwrap();
    let folder = place.path().join("run");
    let plan = place.path().join("plan.toml");
    fs::write(&plan, MENDABLE.replace("'mendable'\n", "'current'\n")).unwrap();
    let plan = plan.to_str().unwrap();
    let error = |arguments: &[&str]| {
        let output = study(Path::new(BENCH_FACTOR), place.path(), arguments).output().unwrap();
        assert!(!output.status.success());
        said(&output).1
    };
    assert!(error(&["--resume"]).contains("has no run in it"));
    // given a run
    fs::create_dir(&folder).unwrap();
    let description = |plan_sha256: &str| {
        format!(
            r#"{{"run":"run-1","link":null,"plan_sha256":"{plan_sha256}","method_sha256":"","build":""}}"#
        )
    };
    fs::write(folder.join("run.json"), description("")).unwrap();
    fs::copy(plan, folder.join("plan.toml")).unwrap();
    // then another does not begin in it, and it does not go on with another plan
    assert!(error(&["--plan", plan]).contains("has a run in it already"));
    assert!(error(&["--resume"]).contains("began with another plan"));
}

#[test]
fn a_dry_run_prints_every_command_and_makes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let plan = concat!(env!("CARGO_MANIFEST_DIR"), "/plans/study/seed.toml");
    let output =
        study(Path::new(BENCH_FACTOR), place.path(), &["--plan", plan, "--dry-run"]).output().unwrap();
    let (text, error) = said(&output);
    assert!(output.status.success(), "{error}");
    assert_eq!(text.lines().filter(|line| line.starts_with("round ")).count(), 2 + 80);
    assert_eq!(text.matches("bench-factor-replica cell --json").count(), 2 + 80);
    assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
}
