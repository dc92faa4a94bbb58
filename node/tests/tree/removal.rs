//! What only the target has is removed.

use std::{
    fs::{self, Permissions},
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
};

use ketch::tree::{Approved, Extras, Plan, Target};
use ketch_protocol::{
    message::{Fate, RemovalLimit},
    path::EntryPath,
    problem::{Cause, Problem},
};

use crate::{
    hostile::while_swapped,
    setting::{OVERWRITING, as_plain_user, directory, file, listed, mode, mtime, names, open, path, problem},
};

const ALL: RemovalLimit = RemovalLimit::Percent(100);

/// Lists these of the target as what only it has.
fn extras(root: &Path, texts: &[&str]) -> Extras {
    let mut extras = Extras::default();
    texts.iter().for_each(|text| extras.push(&listed(root, text)));
    extras
}

fn approved(root: &Path, texts: &[&str]) -> Approved {
    extras(root, texts).approve(texts.len() as u64, ALL).unwrap()
}

fn remove(target: &Target, approved: &Approved) -> (Vec<String>, Vec<Problem>) {
    remove_unless(target, approved, |_| false)
}

fn remove_unless(
    target: &Target,
    approved: &Approved,
    is_protected: fn(&EntryPath) -> bool,
) -> (Vec<String>, Vec<Problem>) {
    let mut removed = Vec::new();
    let problems = target.remove(approved, &is_protected, &mut |path| removed.push(path.to_string()));
    (removed, problems)
}

#[test]
fn what_lies_below_is_removed_before_its_directory_and_others_keep_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::create_dir_all(at("kept/d/e")).unwrap();
    fs::write(at("kept/d/e/f"), "x").unwrap();
    fs::write(at("kept/other"), "x").unwrap();
    symlink("/etc", at("kept/d/link")).unwrap();
    let target = open(folder.path(), OVERWRITING);
    let approved = approved(folder.path(), &["kept/d", "kept/d/e", "kept/d/e/f", "kept/d/link"]);
    let before = mtime(&at("kept"));

    let (removed, problems) = remove(&target, &approved);

    assert_eq!(problems, []);
    assert_eq!(removed, ["kept/d/link", "kept/d/e/f", "kept/d/e", "kept/d"]);
    assert_eq!(target.finish(), []);
    assert_eq!(names(&at("kept")), ["other"]);
    assert_eq!(mtime(&at("kept")), before);
    assert!(Path::new("/etc").exists());
}

#[test]
fn too_much_is_refused_before_anything_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["a", "b"] {
        fs::write(folder.path().join(name), "").unwrap();
    }
    let refused = extras(folder.path(), &["a", "b"]).approve(100, RemovalLimit::Entries(1)).unwrap_err();
    assert_eq!((refused.count, refused.own_entries), (2, 100));
    assert_eq!(names(folder.path()), ["a", "b"]);
}

#[test]
fn what_is_protected_stays_without_a_word_and_with_it_what_is_above() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::create_dir_all(at("d/e")).unwrap();
    for name in ["d/e/keep.log", "d/e/x", "d/y"] {
        fs::write(at(name), "").unwrap();
    }
    let target = open(folder.path(), OVERWRITING);
    // Excluded files are not listed.
    let approved = approved(folder.path(), &["d", "d/e", "d/e/x", "d/y"]);
    let is_protected = |path: &EntryPath| path.leaf().ends_with(b".log");
    let (removed, problems) = remove_unless(&target, &approved, is_protected);
    assert_eq!((removed, problems), (vec!["d/y".to_owned(), "d/e/x".to_owned()], vec![]));
    assert_eq!(names(&at("d/e")), ["keep.log"]);
}

#[test]
fn what_nobody_listed_stays_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::create_dir_all(at("d/e")).unwrap();
    let approved = approved(folder.path(), &["d", "d/e"]);
    fs::write(at("d/e/new"), "").unwrap();
    let (removed, problems) = remove(&open(folder.path(), OVERWRITING), &approved);
    assert_eq!(removed, [""; 0]);
    assert_eq!(problems.len(), 1, "what is above it needs no words: {problems:?}");
    assert_eq!((&problems[0].path, problems[0].cause), (&path("d/e"), Cause::Exists));
    assert!(problems[0].detail.contains("d/e/new"), "{}", problems[0]);
}

#[test]
fn what_changed_after_it_was_listed_stays_and_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    for name in ["a", "b", "c", "d"] {
        fs::write(at(name), "old").unwrap();
    }
    let approved = approved(folder.path(), &["a", "b", "c", "d"]);
    fs::write(at("a"), "longer").unwrap();
    fs::File::options().write(true).open(at("b")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    fs::remove_file(at("c")).unwrap();
    fs::create_dir(at("c")).unwrap();
    fs::remove_file(at("d")).unwrap();

    let (removed, problems) = remove(&open(folder.path(), OVERWRITING), &approved);

    assert_eq!(removed, [""; 0]);
    let named: Vec<_> = problems.iter().map(|problem| (problem.path.to_string(), problem.cause)).collect();
    assert_eq!(named, ["c", "b", "a"].map(|name| (name.to_owned(), Cause::Changed)));
    assert_eq!(names(folder.path()), ["a", "b", "c"]);
}

#[test]
fn a_directory_swapped_for_a_symlink_leads_no_removal_out() {
    let (folder, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let root = folder.path();
    fs::create_dir_all(root.join("d/sub")).unwrap();
    fs::create_dir(victim.path().join("sub")).unwrap();
    let write = |at: &Path| {
        fs::write(at, "x").unwrap();
        fs::File::options().write(true).open(at).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    };
    // Alike in all that is checked, so that only the way to it can tell them apart.
    write(&root.join("d/sub/f"));
    write(&victim.path().join("sub/f"));
    let texts = ["d/sub", "d/sub/f"];
    let approved = approved(root, &texts);
    while_swapped(root, victim.path(), || {
        for _ in 0..200 {
            let target = open(root, OVERWRITING);
            let _ = remove(&target, &approved);
            target.finish();
        }
    });
    assert!(victim.path().join("sub/f").exists());
}

#[test]
fn a_directory_in_the_way_is_removed_and_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::create_dir_all(at("x/y")).unwrap();
    fs::write(at("x/y/z"), "").unwrap();
    fs::write(at("z"), "").unwrap();
    let mut options = OVERWRITING;
    options.handling.remove = true;
    let target = open(folder.path(), options);
    let entry = file("x", 0);
    assert_eq!(target.plan(&entry).unwrap(), Plan::Blocked);
    let mut approved = approved(folder.path(), &["x", "x/y", "x/y/z", "z"]);
    let mut removed = Vec::new();
    target.clear(&mut approved, &entry, &mut |path| removed.push(path.to_string())).unwrap();
    assert_eq!(removed, ["x/y/z", "x/y", "x"]);
    assert_eq!(target.plan(&entry).unwrap(), Plan::Settled(Fate::Created));
    assert_eq!(approved.count(), 1);
    assert_eq!(remove(&target, &approved), (vec!["z".to_owned()], vec![]));
    assert!(at("x").is_file());
}

#[test]
fn a_directory_in_the_way_with_something_that_stays_is_the_entrys_problem() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("x/y")).unwrap();
    let mut approved = approved(folder.path(), &["x", "x/y"]);
    fs::write(folder.path().join("x/new"), "").unwrap();
    let target = open(folder.path(), OVERWRITING);
    let found = problem(target.clear(&mut approved, &file("x", 0), &mut |_| {}));
    assert_eq!((found.path, found.cause), (path("x"), Cause::Exists));
    assert!(folder.path().join("x/new").exists());
}

#[test]
fn what_lies_in_a_read_only_directory_is_removed() {
    as_plain_user("removal::what_lies_in_a_read_only_directory_is_removed", |folder| {
        let root = folder.join("t");
        fs::create_dir_all(root.join("kept/d")).unwrap();
        fs::write(root.join("kept/d/f"), "").unwrap();
        let approved = approved(&root, &["kept/d", "kept/d/f"]);
        for name in ["kept/d", "kept"] {
            fs::set_permissions(root.join(name), Permissions::from_mode(0o555)).unwrap();
        }
        let target = open(&root, OVERWRITING);
        assert_eq!(remove(&target, &approved).1, []);
        assert_eq!(target.finish(), []);
        assert_eq!((names(&root.join("kept")), mode(&root.join("kept"))), (vec![], 0o555));
        fs::set_permissions(root.join("kept"), Permissions::from_mode(0o755)).unwrap();
    });
}

#[test]
fn an_unlisted_entry_below_a_listed_directory_leaves_its_time_as_listed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("d")).unwrap();
    fs::write(folder.path().join("d/extra"), "").unwrap();
    let target = open(folder.path(), OVERWRITING);
    let approved = approved(folder.path(), &["d/extra"]);
    target.plan(&directory("d")).unwrap();
    target.plan(&file("z", 0)).unwrap();
    assert_eq!(remove(&target, &approved).1, []);
    assert_eq!(target.finish(), []);
    assert_eq!(mtime(&folder.path().join("d")), crate::setting::MTIME);
}
