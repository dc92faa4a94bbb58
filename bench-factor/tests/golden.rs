//! Every tree at its full size has the counts and digests that `docs/testing.md` states. Those that take long
//! or much space are only made when `KETCH_BIG_TREES=1` is set: up to 1 GB or a million files, one tree at a
//! time, in the folder for temporary files.

use std::{
    io::{self, Write as _},
    path::Path,
    process::Command,
};

use ketch_fixtures::tree;

const GUIDE: &str = include_str!("../../docs/testing.md");

fn printed(arguments: &[&str], directory: &Path) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_bench-factor"))
        .args(arguments)
        .current_dir(directory)
        .output()
        .expect("the binary under test runs");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// The two digests of the tree at `name`, as the guide has them.
fn digests(name: &str, directory: &Path) -> String {
    let hex = |arguments: &[&str]| printed(arguments, directory)[..64].to_owned();
    format!("  plain {}\n  full  {}\n", hex(&["digest", name]), hex(&["digest", "--full", name]))
}

fn agrees_with_the_guide(shape: &str) {
    let place = tempfile::tempdir().unwrap();
    let summary = printed(&["fixture", shape, "--out", "tree"], place.path());
    let expected = format!("{shape}: {summary}{}", digests("tree", place.path()));
    tree::remove(&place.path().join("tree")).unwrap();
    assert!(GUIDE.contains(&expected), "the guide does not say:\n{expected}");
}

/// Whether big trees are wanted; says so where they are not.
fn has_room(test: &str) -> bool {
    let wanted = std::env::var_os("KETCH_BIG_TREES").is_some_and(|value| value == "1");
    if !wanted {
        let mut log = io::stderr();
        writeln!(log, "skipped: {test} makes big trees, and KETCH_BIG_TREES=1 is not set").unwrap();
    }
    wanted
}

#[test]
fn trees_of_moderate_size_are_as_the_guide_says() {
    for shape in ["pilot", "names"] {
        agrees_with_the_guide(shape);
    }
}

#[test]
fn big_trees_are_as_the_guide_says() {
    if !has_room("big_trees_are_as_the_guide_says") {
        return;
    }
    for shape in ["small", "large", "large8", "tree", "source", "million"] {
        agrees_with_the_guide(shape);
    }
}

#[test]
fn the_edited_tree_is_as_the_guide_says() {
    if !has_room("the_edited_tree_is_as_the_guide_says") {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    for out in ["source", "target"] {
        printed(&["fixture", "tree", "--out", out], place.path());
    }
    let edit = ["diverge", "edit", "--source", "source", "--target", "target"];
    let summary = printed(&edit, place.path());
    let expected = format!("{summary}{}", digests("source", place.path()));
    assert!(GUIDE.contains(&expected), "the guide does not say:\n{expected}");
}
