//! Hard links.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, symlink},
    path::Path,
};

use ketch::tree::{Link, Plan, Target};
use ketch_protocol::{
    manifest::{Entry, EntryKind},
    message::Fate,
    problem::Cause,
};

use crate::setting::{
    CAREFUL, MTIME, OVERWRITING, directory, file, mount_tmpfs, open, path, problem, store, with_own_mounts,
};

fn hard_link(text: &str, target: &str) -> Entry {
    Entry::new(path(text), EntryKind::HardLink { target: path(target) }, 0o640, MTIME)
}

fn inode(path: &Path) -> u64 {
    fs::symlink_metadata(path).unwrap().ino()
}

fn settled(target: &Target, entry: &Entry) -> Fate {
    assert_eq!(target.plan(entry).unwrap(), Plan::Link);
    match target.link(entry).unwrap() {
        Link::Settled(fate) => fate,
        Link::NotYet => panic!("{entry:?} was expected to be linked"),
    }
}

#[test]
fn a_file_gets_its_other_names_once_it_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    let target = open(folder.path(), CAREFUL);
    let entry = hard_link("d/other", "first");
    target.plan(&directory("d")).unwrap();
    assert_eq!(target.plan(&entry).unwrap(), Plan::Link);
    assert_eq!(target.link(&entry).unwrap(), Link::NotYet);
    store(&target, &file("first", 1), b"x").unwrap();
    assert_eq!(settled(&target, &entry), Fate::Created);
    assert_eq!(settled(&target, &entry), Fate::Kept);
    assert_eq!(target.finish(), []);
    assert_eq!(inode(&at("first")), inode(&at("d/other")));
}

#[test]
fn another_name_follows_its_file_when_that_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::write(at("first"), "old").unwrap();
    fs::hard_link(at("first"), at("other")).unwrap();
    let target = open(folder.path(), OVERWRITING);
    store(&target, &file("first", 3), b"new").unwrap();
    assert_eq!(fs::read(at("other")).unwrap(), b"old");
    assert_eq!(settled(&target, &hard_link("other", "first")), Fate::Updated);
    assert_eq!(fs::read(at("other")).unwrap(), b"new");
    assert_eq!((inode(&at("first")), fs::metadata(at("first")).unwrap().nlink()), (inode(&at("other")), 2));
    assert_eq!(target.finish(), []);
    assert_eq!(crate::setting::names(folder.path()), ["first", "other"]);
}

#[test]
fn what_is_in_the_way_of_a_hard_link_is_replaced_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::write(at("first"), "x").unwrap();
    fs::write(at("file"), "old").unwrap();
    symlink("nowhere", at("link")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    let careful = open(folder.path(), CAREFUL);
    for name in ["file", "link", "directory"] {
        let entry = hard_link(name, "first");
        assert_eq!(careful.plan(&entry).unwrap(), Plan::Link);
        assert_eq!(problem(careful.link(&entry)).cause, Cause::Exists);
    }
    let target = open(folder.path(), OVERWRITING);
    for name in ["file", "link"] {
        assert_eq!(settled(&target, &hard_link(name, "first")), Fate::Updated);
        assert_eq!(inode(&at(name)), inode(&at("first")));
    }
    assert_eq!(problem(target.link(&hard_link("directory", "first"))).cause, Cause::Exists);
}

#[test]
fn only_a_file_of_the_target_can_get_another_name() {
    let (folder, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(victim.path().join("file"), "theirs").unwrap();
    symlink(victim.path(), folder.path().join("out")).unwrap();
    symlink(victim.path().join("file"), folder.path().join("link")).unwrap();
    fs::create_dir(folder.path().join("directory")).unwrap();
    let target = open(folder.path(), OVERWRITING);
    for first in ["out/file", "link", "directory", ".ketch-partial/x"] {
        let found = problem(target.link(&hard_link("new", first)));
        assert_eq!(found.cause, Cause::Unwritable, "{first}");
    }
    assert!(!folder.path().join("new").exists());
    assert_eq!(fs::metadata(victim.path().join("file")).unwrap().nlink(), 1);
}

#[test]
fn a_hard_link_to_another_file_system_is_named() {
    with_own_mounts("links::a_hard_link_to_another_file_system_is_named", |folder| {
        let root = folder.join("t");
        mount_tmpfs(&root.join("d"), "size=1m");
        fs::write(root.join("first"), "x").unwrap();
        for options in [CAREFUL, OVERWRITING] {
            let target = open(&root, options);
            let found = problem(target.link(&hard_link("d/other", "first")));
            assert_eq!(found.cause, Cause::Unwritable);
            assert!(found.detail.contains("\"first\""), "{found}");
        }
    });
}
