//! The command `latency`, as a person runs it.
#![cfg(target_os = "linux")]

use std::{
    fs,
    io::Write as _,
    path::Path,
    process::{Command, Output},
};

fn latency(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-factor")).arg("latency").args(arguments).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn errors(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The column `name` of rows of CSV.
fn column(csv: &str, name: &str) -> Vec<String> {
    let index = csv.lines().next().unwrap().split(',').position(|column| column == name).expect("a column");
    csv.lines().skip(1).map(|row| row.split(',').nth(index).unwrap().to_owned()).collect()
}

#[test]
fn the_model_says_the_same_on_the_terminal_and_in_files_each_time() {
    let place = tempfile::tempdir().unwrap();
    let results = place.path().join("results");
    let arguments =
        ["--quick", "--unit-bytes", "16384", "--parallel", "1,8", "--rtt-ms", "30", "--seed", "42"];
    let first = latency(&[&arguments[..], &["--out-dir", results.to_str().unwrap()]].concat());
    assert!(first.status.success(), "{}", errors(&first));
    assert_eq!(said(&latency(&arguments)), said(&first));
    let csv = fs::read_to_string(results.join("model.csv")).unwrap();
    assert_eq!(
        (column(&csv, "files"), column(&csv, "streams")),
        (vec!["100".into(); 2], vec!["1".into(), "8".into()])
    );
    let words = |text: &str| {
        text.split([' ', ',', '|', '\n'])
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(words(&csv), words(&said(&first)));
    let markdown = fs::read_to_string(results.join("model.md")).unwrap();
    let rule = |word: &String| word != "---:";
    assert_eq!(words(&markdown).into_iter().filter(rule).collect::<Vec<_>>(), words(&csv));
}

#[test]
fn what_cannot_be_asked_is_refused() {
    for wrong in [
        &["--parallel", "0"][..],
        &["--parallel", "17"],
        &["--rtt-ms", "0"],
        &["--rtt-ms", "5000"],
        &["--unit-bytes", "0"],
        &["--rate", "1gbit"],
    ] {
        assert_eq!(latency(wrong).status.code(), Some(2), "{wrong:?}");
    }
}

/// Whether two ketch can be run over an emulated path; if not, the test is to be counted as skipped.
fn two_ketch_can_run() -> bool {
    let ketch = Path::new(env!("CARGO_BIN_EXE_bench-factor")).with_file_name("ketch");
    let missing = match ketch_lab::Lab::available() {
        Err(error) => error.to_string(),
        Ok(()) if !ketch.is_file() => "ketch was not built beside bench-factor".into(),
        Ok(()) => return true,
    };
    let _ = writeln!(std::io::stderr(), "skipped: {missing}");
    false
}

#[test]
fn on_one_connection_a_thousand_files_take_as_long_as_one_of_as_many_bytes() {
    if !two_ketch_can_run() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let results = place.path().to_str().unwrap();
    // 4 MiB, for which a connection has to open its window over some ten round trips.
    let output = latency(&[
        "--real",
        "--parallel",
        "1",
        "--rtt-ms",
        "150",
        "--unit-bytes",
        "16384",
        "--out-dir",
        results,
    ]);
    assert!(output.status.success(), "{}{}", said(&output), errors(&output));
    let csv = fs::read_to_string(place.path().join("real.csv")).unwrap();
    assert_eq!(column(&csv, "files"), ["100", "1024", "1"]);
    assert_eq!(
        (column(&csv, "exits"), column(&csv, "copy")),
        (vec!["0/0".into(); 3], vec!["equal".into(); 3])
    );
    let ready_s: Vec<f64> = column(&csv, "ready_s").iter().map(|text| text.parse().unwrap()).collect();
    // A round trip for each file would be 150 s.
    assert!(ready_s[1] < 2.0 * ready_s[2], "{csv}");
}

#[test]
fn a_ketch_that_fails_fails_the_run() {
    if !two_ketch_can_run() {
        return;
    }
    let output = latency(&[
        "--real",
        "--quick",
        "--parallel",
        "1",
        "--rtt-ms",
        "1",
        "--unit-bytes",
        "16",
        "--ketch",
        "/bin/false",
    ]);
    assert_eq!(output.status.code(), Some(1));
    assert!(errors(&output).contains("ended before it was ready"), "{}", errors(&output));
}
