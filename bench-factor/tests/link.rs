//! `bench-factor link` as a user calls it. What needs network namespaces, /dev/net/tun or nft says so where
//! they cannot be had, and is skipped.
#![cfg(target_os = "linux")]

use std::{
    io::Write as _,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    process::{Command, Output},
};

/// Whether tests of this kind can run here; if not, they are to be counted as skipped.
fn lab_is_there() -> bool {
    let available = ketch_lab::Lab::routers_available();
    if let Err(error) = &available {
        let _ = writeln!(std::io::stderr(), "skipped: {error}");
    }
    available.is_ok()
}

fn link(arguments: &[&str]) -> Output {
    command(arguments).output().expect("it runs")
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench-factor"));
    command.arg("link").args(arguments);
    command
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_run_ends_as_its_command_on_a_does_and_leaves_a_report() {
    if !lab_is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file: PathBuf = folder.path().join("link.json");
    let report = file.to_string_lossy().into_owned();
    let path = ["--rate", "20mbit/100mbit", "--rtt", "10ms", "--queue", "64K", "--loss", "0.01:10/0"];
    let commands =
        ["--a", "echo $PEER_IP; exit 5", "--b", "sleep 60", "--tcp-mem", "64M", "--report", &report];
    let output = link(&[&["run"], &path[..], &commands].concat());
    assert_eq!((output.status.code(), stdout(&output)), (Some(5), "10.77.0.2\n".to_owned()));
    let json = std::fs::read(&file).expect("a report");
    let report: ketch_lab::report::Report = serde_json::from_slice(&json).expect("it is one");
    assert_eq!(report.a_to_b.asked.rate.to_string(), "20mbit");
    assert_eq!(report.b_to_a.asked.rate.to_string(), "100mbit");
    assert_eq!((report.a_to_b.asked.queue_bytes, report.a_to_b.asked.delay_ns), (65_536, 5_000_000));
    assert!((report.a_to_b.asked.loss.mean() - 0.01).abs() < 1e-9 && report.b_to_a.asked.loss.mean() == 0.0);
    assert_eq!(report.host_a.settings["ipv4.tcp_rmem"], "4096 131072 67108864");
}

#[test]
fn hosts_behind_routers_know_each_other_by_their_public_addresses() {
    if !lab_is_there() {
        return;
    }
    let kinds = ["--a", "cone", "--b", "symmetric", "--rtt", "20ms"];
    let commands = ["--run-a", "echo $A_IP $B_IP $RELAY_IP $OWN_IP; exit 3", "--run-b", "sleep 60"];
    let output = link(&[&["nat"], &kinds[..], &commands].concat());
    let addresses = "11.11.1.2 11.11.2.2 11.11.3.2 192.168.1.2\n".to_owned();
    assert_eq!((output.status.code(), stdout(&output)), (Some(3), addresses));
}

#[test]
fn routers_are_made_with_the_search_path_of_a_plain_user() {
    if !lab_is_there() {
        return;
    }
    let mut nat = command(&["nat", "--a", "cone", "--b", "public", "--rtt", "20ms", "--run-a", "exit 6"]);
    // nft is a program for administrators, in a folder that is not in here.
    let output = nat.env("PATH", "/usr/local/bin:/usr/bin:/bin").output().expect("it runs");
    assert_eq!(output.status.code(), Some(6), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_report_that_cannot_be_written_stops_a_run_before_it_begins() {
    if !lab_is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (mark, report) = (folder.path().join("mark"), folder.path().join("missing/link.json"));
    let (script, report) = (format!("touch {}", mark.display()), report.to_string_lossy().into_owned());
    let path = ["run", "--rtt", "1ms", "--b", "true", "--a", &script, "--report", &report];
    let output = link(&path);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.starts_with("error: cannot write the report to "), "{errors}");
    assert!(!mark.exists(), "nothing has run");
}

#[test]
fn without_a_command_host_a_has_the_shell_of_the_user() {
    if !lab_is_there() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let shell = folder.path().join("shell");
    std::fs::write(&shell, "#!/bin/sh\necho $B_IP\nexit 4\n").expect("written");
    std::fs::set_permissions(&shell, std::fs::Permissions::from_mode(0o755)).expect("executable");
    let mut nat = command(&["nat", "--a", "cone", "--b", "symmetric", "--rtt", "20ms"]);
    let output = nat.env("SHELL", &shell).output().expect("it runs");
    assert_eq!((output.status.code(), stdout(&output)), (Some(4), "11.11.2.2\n".to_owned()));
}

#[test]
fn a_path_must_be_described_once_and_well() {
    for wrong in [
        &["probe"][..],
        &["probe", "--profile", "lan", "--rtt", "1ms"],
        &["probe", "--rtt", "1"],
        &["probe", "--rtt", "1ms", "--loss", "2"],
        &["probe", "--rtt", "1ms", "--rate", "1mbit/fast"],
    ] {
        assert_eq!(link(wrong).status.code(), Some(2), "{wrong:?}");
    }
}
