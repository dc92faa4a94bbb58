//! The commands `fixture`, `diverge` and `digest`, as a person runs them.

use std::{
    os::unix::net::UnixListener,
    path::Path,
    process::{Command, Output},
};

fn bench_factor(arguments: &[&str], directory: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_bench-factor"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the binary under test runs")
}

fn printed(arguments: &[&str], directory: &Path) -> String {
    let output = bench_factor(arguments, directory);
    let errors = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && errors.is_empty(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Exit code and standard error of a command that fails without printing a result.
fn failure(arguments: &[&str], directory: &Path) -> (Option<i32>, String) {
    let output = bench_factor(arguments, directory);
    assert!(output.stdout.is_empty(), "{arguments:?}");
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

#[test]
fn a_fixture_is_written_as_asked_and_said_so() {
    let place = tempfile::tempdir().unwrap();
    let cases = [
        ("small --out a --files 3 --bytes 100", "files: 3, directories: 1, symlinks: 0, bytes: 300\n"),
        ("large --bytes 7 --out c", "files: 1, directories: 0, symlinks: 0, bytes: 7\n"),
        ("large8 --bytes 7 --out d", "files: 8, directories: 0, symlinks: 0, bytes: 56\n"),
        ("tree --unit-bytes 0 --out e", "files: 100, directories: 9, symlinks: 0, bytes: 0\n"),
        ("million --files 1 --out f", "files: 1, directories: 1, symlinks: 0, bytes: 0\n"),
        ("source --files 0 --out b", "files: 0, directories: 0, symlinks: 0, bytes: 0\n"),
    ];
    for (arguments, expected) in cases {
        let arguments: Vec<_> = ["fixture"].into_iter().chain(arguments.split(' ')).collect();
        assert_eq!(printed(&arguments, place.path()), expected);
    }
    assert!(place.path().join("a/0000/0000002").is_file());
}

#[test]
fn digests_agree_for_one_seed_and_differ_for_two() {
    let place = tempfile::tempdir().unwrap();
    let digest = |name: &str, seed: &str| {
        printed(&["fixture", "source", "--files", "9", "--seed", seed, "--out", name], place.path());
        (printed(&["digest", name], place.path()), printed(&["digest", "--full", name], place.path()))
    };
    let (first, second, other) = (digest("a", "1"), digest("b", "1"), digest("c", "2"));
    assert_eq!(first, second);
    assert!(first.0 != other.0 && first.1 != other.1 && first.0 != first.1);
}

#[test]
fn two_copies_come_apart_as_asked_and_said_so() {
    let cases = [
        ("edit", "changed: files: 24, bytes: 915\n", "only times: 1,"),
        ("move", "moved: files: 50, bytes: 25334\n", "least to transfer: 0 bytes\n"),
        ("insert", "changed: files: 1, bytes: 1\n", "least to transfer: 1 bytes\n"),
        ("touch", "only times: 100,", "least to transfer: 0 bytes\n"),
        ("chmod", "only modes: 28\n", "least to transfer: 0 bytes\n"),
    ];
    for (kind, does, costs) in cases {
        let place = tempfile::tempdir().unwrap();
        for out in ["a", "b"] {
            printed(&["fixture", "tree", "--unit-bytes", "100", "--out", out], place.path());
        }
        let said = printed(&["diverge", kind, "--source", "a", "--target", "b"], place.path());
        assert!(said.contains(does) && said.contains(costs), "{kind}: {said}");
        let digest = |name| printed(&["digest", "--full", name], place.path());
        assert_ne!(digest("a"), digest("b"), "{kind}");
    }
}

#[test]
fn the_umask_does_not_change_a_fixture() {
    let place = tempfile::tempdir().unwrap();
    printed(&["fixture", "source", "--files", "9", "--out", "a"], place.path());
    let script =
        format!("umask 077; {} fixture source --files 9 --out b", env!("CARGO_BIN_EXE_bench-factor"));
    let masked = Command::new("sh").args(["-c", &script]).current_dir(place.path()).status().unwrap();
    assert!(masked.success());
    let digest = |name| printed(&["digest", "--full", name], place.path());
    assert_eq!(digest("a"), digest("b"));
}

#[test]
fn ignored_entries_leave_the_digest_and_its_lines() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), "").unwrap();
    std::fs::write(place.path().join("file.tmp"), "").unwrap();
    let of_nothing = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    let lines = printed(&["digest", ".", "--lines", "--ignore", "*.tmp"], place.path());
    assert_eq!(lines, format!("file:0:{of_nothing}\n"));
    let digest = printed(&["digest", ".", "--ignore", "*.tmp", "--ignore", "file"], place.path());
    assert_eq!(digest, format!("{of_nothing}  files: 0, bytes: 0\n"));
}

#[test]
fn a_digest_names_what_it_left_out() {
    let place = tempfile::tempdir().unwrap();
    let _listener = UnixListener::bind(place.path().join("socket\n")).unwrap();
    let digest = printed(&["digest", "."], place.path());
    assert!(
        digest.ends_with("left out, as it is neither file, directory nor symlink: socket\\x0a\n"),
        "{digest}"
    );
}

#[test]
fn a_failure_names_step_place_and_cause_and_exits_with_1() {
    let place = tempfile::tempdir().unwrap();
    std::fs::write(place.path().join("file"), "").unwrap();
    let cases: [(&[&str], &str); 3] = [
        (&["digest", "missing"], "error: cannot read the directory missing: No such file"),
        (&["fixture", "names", "--out", "."], "error: . is not empty"),
        (&["diverge", "move", "--source", ".", "--target", "."], "error: source and target are both "),
    ];
    for (arguments, expected) in cases {
        let (code, errors) = failure(arguments, place.path());
        assert_eq!(code, Some(1), "{arguments:?}");
        assert!(errors.starts_with(expected) && errors.lines().count() == 1, "{errors}");
    }
}

#[test]
fn wrong_usage_exits_with_2() {
    let place = tempfile::tempdir().unwrap();
    let cases: [&[&str]; 6] = [
        &[],
        &["diverge", "move", "--source", "a"],
        &["diverge", "shuffle", "--source", "a", "--target", "b"],
        &["fixture", "small"],
        &["fixture", "names", "--out", "a", "--files", "3"],
        &["fixture", "huge", "--out", "a"],
    ];
    for arguments in cases {
        assert_eq!(failure(arguments, place.path()).0, Some(2), "{arguments:?}");
    }
}
