//! A target that is there already is brought up to date.

use std::{
    fs::{self, File, Permissions},
    io::Write as _,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::Path,
    time::{Duration, SystemTime},
};

use ketch::tree::{Handling, Options, Plan, Target, TargetError};
use ketch_protocol::{
    hash::ContentHash,
    manifest::{Attribute, Entry, EntryKind, Owner, Timestamp},
    message::Fate,
    problem::{Cause, Reason},
};
use rustix::fs::{XattrFlags, fsetxattr};

use crate::setting::{
    CREATED, DESCRIBED, KEPT, MTIME, OVERWRITING, UPDATED, as_plain_user, directory, file, held, link,
    listed, mode, mtime, names, on_image, open, problem, skip, store,
};

const SKIPPED: Plan = Plan::Settled(Fate::Skipped);

fn options(change: fn(&mut Handling)) -> Options {
    let mut options = OVERWRITING;
    change(&mut options.handling);
    options
}

/// Gives a file or a directory a time of long ago.
fn date(path: &Path) -> Timestamp {
    let old = SystemTime::UNIX_EPOCH + Duration::new(5, 7);
    File::open(path).unwrap().set_modified(old).unwrap();
    Timestamp { seconds: 5, nanoseconds: 7 }
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_changed_mode_or_time_is_set_without_touching_the_content() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/empty"), "").unwrap();
    fs::write(at("d/f"), "abc").unwrap();
    symlink("x", at("d/l")).unwrap();
    let inode = |text: &str| fs::symlink_metadata(at(text)).unwrap().ino();
    let before = ["d", "d/empty", "d/f", "d/l"].map(inode);
    let entries = [directory("d"), file("d/empty", 0), file("d/f", 3), link("d/l", "x")];
    let hash = Some(ContentHash([1; 32]));
    let listed_file = Entry { hash, ..entries[2].clone() };
    let own = Entry { hash, ..listed(folder.path(), "d/f") };

    let target = open(folder.path(), OVERWRITING);
    for entry in [&entries[0], &entries[1], &entries[3]] {
        assert_eq!(target.plan(entry).unwrap(), DESCRIBED, "{entry:?}");
    }
    assert_eq!(target.plan_beside(&listed_file, Some(&own)).unwrap(), DESCRIBED);
    assert_eq!(target.finish(), []);

    for entry in &entries {
        let text = entry.path.to_string();
        assert_eq!(mtime(&at(&text)), MTIME, "{text}");
    }
    assert_eq!((mode(&at("d")), mode(&at("d/f")), mode(&at("d/empty"))), (0o750, 0o640, 0o640));
    assert_eq!(["d", "d/empty", "d/f", "d/l"].map(inode), before);
    let again = open(folder.path(), OVERWRITING);
    let own = Entry { hash, ..listed(folder.path(), "d/f") };
    assert_eq!(again.plan_beside(&listed_file, Some(&own)).unwrap(), KEPT);
    assert!([&entries[0], &entries[1], &entries[3]].iter().all(|entry| again.plan(entry).unwrap() == KEPT));
}

#[test]
fn a_known_hash_spares_the_comparison_as_long_as_the_file_is_what_was_listed() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("f"), "abc").unwrap();
    let hash = |byte| Some(ContentHash([byte; 32]));
    let own = Entry { hash: hash(1), ..listed(folder.path(), "f") };
    let entry = Entry { hash: hash(2), ..file("f", 3) };
    let target = open(folder.path(), OVERWRITING);

    assert_eq!(target.plan_beside(&entry, Some(&own)).unwrap(), Plan::Content);
    assert_eq!(target.plan(&entry).unwrap(), Plan::Compare);
    date(&folder.path().join("f"));
    assert_eq!(target.plan_beside(&entry, Some(&own)).unwrap(), Plan::Compare);
}

#[test]
fn a_directory_that_is_not_listed_has_its_mode_and_time_again_after_changes_in_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::create_dir_all(at("a/b/c")).unwrap();
    fs::write(at("a/b/c/f"), "old").unwrap();
    for (text, mode) in [("a/b/c", 0o2755), ("a/b", 0o1700), ("a", 0o750)] {
        set_mode(&at(text), mode);
        date(&at(text));
    }
    let target = open(folder.path(), OVERWRITING);
    let entry = file("a/b/c/f", 4);
    assert_eq!(target.plan(&entry).unwrap(), Plan::Content);
    store(&target, &entry, b"new!").unwrap();
    assert_eq!(target.plan(&file("a/new", 0)).unwrap(), CREATED);
    assert_ne!(mtime(&at("a/b/c")).seconds, 5);
    assert_eq!(target.finish(), []);

    for (text, expected) in [("a/b/c", 0o2755), ("a/b", 0o1700), ("a", 0o750)] {
        assert_eq!((mode(&at(text)), mtime(&at(text)).seconds), (expected, 5), "{text}");
    }
}

#[test]
fn what_is_kept_changes_nothing_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("d");
    fs::create_dir(&at).unwrap();
    fs::write(at.join("f"), "").unwrap();
    date(&at.join("f"));
    date(&at);
    let ctime = || ["", "f"].map(|name| fs::metadata(at.join(name)).unwrap().ctime_nsec());
    let before = ctime();
    let target = open(folder.path(), OVERWRITING);
    assert_eq!(target.plan(&listed(folder.path(), "d/f")).unwrap(), KEPT);
    assert_eq!(target.finish(), []);
    assert_eq!(ctime(), before);
}

#[test]
fn a_file_and_a_directory_that_cannot_be_read_are_described() {
    as_plain_user("sync::a_file_and_a_directory_that_cannot_be_read_are_described", |folder| {
        let root = folder.join("t");
        fs::create_dir_all(root.join("d/e")).unwrap();
        fs::write(root.join("d/f"), "abc").unwrap();
        for name in ["d/f", "d/e", "d"] {
            set_mode(&root.join(name), 0);
        }
        let target = open(&root, OVERWRITING);
        assert_eq!(target.plan(&directory("d")).unwrap(), DESCRIBED);
        assert_eq!(target.plan(&directory("d/e")).unwrap(), DESCRIBED);
        assert_eq!(target.plan(&file("d/f", 3)).unwrap(), Plan::Compare);
        assert_eq!(target.keep(&file("d/f", 3)).unwrap(), Fate::Described);
        assert_eq!(target.finish(), []);
        assert_eq!(["d", "d/e", "d/f"].map(|name| mode(&root.join(name))), [0o750, 0o750, 0o640]);
        assert_eq!(mtime(&root.join("d/f")), MTIME);
    });
}

#[test]
fn nothing_is_added_where_only_what_exists_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("there"), "").unwrap();
    let target = open(folder.path(), options(|handling| handling.existing = true));
    for entry in [directory("d"), directory("d/e"), file("d/e/f", 1), file("new", 0), link("link", "x")] {
        assert_eq!(target.plan(&entry).unwrap(), SKIPPED, "{entry:?}");
    }
    assert_eq!(target.plan(&file("there", 0)).unwrap(), DESCRIBED);
    assert_eq!(target.finish(), []);
    assert_eq!(names(folder.path()), ["there"]);
}

#[test]
fn nothing_is_changed_where_what_exists_is_to_stay() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::create_dir(at("d")).unwrap();
    fs::write(at("d/f"), "old").unwrap();
    fs::write(at("file"), "old").unwrap();
    let target = open(folder.path(), options(|handling| handling.ignore_existing = true));
    assert_eq!(target.plan(&directory("d")).unwrap(), DESCRIBED);
    for entry in [file("d/f", 9), file("d/f", 3), directory("file"), file("file/below", 0)] {
        assert_eq!(target.plan(&entry).unwrap(), SKIPPED, "{entry:?}");
    }
    assert_eq!(target.plan(&file("new", 0)).unwrap(), CREATED);
    assert_eq!(target.finish(), []);
    assert_eq!(fs::read(at("file")).unwrap(), b"old");
}

#[test]
fn what_is_newer_stays_where_only_older_files_are_updated() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["newer", "older"] {
        fs::write(folder.path().join(name), "old").unwrap();
    }
    date(&folder.path().join("older"));
    let target = open(folder.path(), options(|handling| handling.update = true));
    assert_eq!(target.plan(&file("newer", 9)).unwrap(), SKIPPED);
    assert_eq!(target.plan(&file("older", 9)).unwrap(), Plan::Content);
}

#[test]
fn a_directory_in_the_way_waits_for_its_removal_where_that_is_allowed() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("x")).unwrap();
    let entries = [file("x", 0), file("x", 3), link("x", "y")];
    let target = open(folder.path(), options(|handling| handling.remove = true));
    for entry in &entries {
        assert_eq!(target.plan(entry).unwrap(), Plan::Blocked);
    }
    let careful = open(folder.path(), OVERWRITING);
    for entry in &entries {
        assert_eq!(problem(careful.plan(entry)).cause, Cause::Exists);
    }
}

#[test]
fn a_directory_takes_the_place_of_anything_else() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::write(at("file"), "old").unwrap();
    symlink("nowhere", at("link")).unwrap();
    let target = open(folder.path(), OVERWRITING);
    for name in ["file", "link"] {
        assert_eq!(target.plan(&directory(name)).unwrap(), UPDATED);
        assert_eq!(target.plan(&file(&format!("{name}/below"), 0)).unwrap(), CREATED);
    }
    assert_eq!(target.finish(), []);
    assert_eq!((mode(&at("file")), mode(&at("link/below"))), (0o750, 0o640));
}

#[test]
fn owners_are_set_by_root() {
    if !rustix::process::geteuid().is_root() {
        return skip("only root can give files away");
    }
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::write(at("there"), "").unwrap();
    chown(at("there"), Some(7), Some(7)).unwrap();
    let owner = Some(Owner { user: 12, group: 34 });
    let owned = |entry: Entry| Entry { owner, ..entry };
    let target = open(folder.path(), options(|handling| handling.owner = true));
    for entry in [directory("d"), file("d/empty", 0), link("d/l", "x")] {
        assert_eq!(target.plan(&owned(entry)).unwrap(), CREATED);
    }
    store(&target, &owned(file("d/f", 1)), b"x").unwrap();
    assert_eq!(target.plan(&owned(file("there", 0))).unwrap(), DESCRIBED);
    assert_eq!(target.finish(), []);

    for name in ["d", "d/empty", "d/l", "d/f", "there"] {
        let metadata = fs::symlink_metadata(at(name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (12, 34), "{name}");
    }
    assert_eq!((mode(&at("d")), mode(&at("d/f"))), (0o750, 0o640));
    let again = open(folder.path(), options(|handling| handling.owner = true));
    assert_eq!(again.plan(&owned(file("there", 0))).unwrap(), KEPT);
}

#[test]
fn an_owner_that_cannot_be_set_is_named_and_all_else_is_set() {
    as_plain_user("sync::an_owner_that_cannot_be_set_is_named_and_all_else_is_set", |folder| {
        let root = folder.join("t");
        let target = open(&root, options(|handling| handling.owner = true));
        let owned = |entry: Entry| Entry { owner: Some(Owner { user: 1, group: 1 }), ..entry };
        let found = problem(store(&target, &owned(file("f", 1)), b"x"));
        assert_eq!((found.cause, found.detail.contains("owner")), (Cause::Metadata, true), "{found}");
        assert_eq!(problem(target.plan(&owned(directory("d")))).cause, Cause::Metadata);
        assert_eq!(problem(target.plan(&owned(link("l", "x")))).cause, Cause::Metadata);
        assert_eq!(target.finish(), []);
        assert_eq!((mode(&root.join("f")), mtime(&root.join("f"))), (0o640, MTIME));
        assert_eq!((mode(&root.join("d")), mtime(&root.join("d"))), (0o750, MTIME));
        assert_eq!(mtime(&root.join("l")), MTIME);
    });
}

#[test]
fn attributes_are_set_and_others_removed() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("f");
    fs::write(&at, "abc").unwrap();
    if let Err(error) = fsetxattr(File::open(&at).unwrap(), "user.old", b"1", XattrFlags::empty()) {
        return skip(format_args!("no extended attributes here: {error}"));
    }
    let attribute = Attribute { name: b"user.new"[..].into(), value: b"\0\xff"[..].into() };
    let with = |entry: Entry| Entry { attributes: vec![attribute.clone()], mode: 0o440, ..entry };
    let open = || open(folder.path(), options(|handling| handling.attributes = true));
    let target = open();
    assert_eq!(target.keep(&with(file("f", 3))).unwrap(), Fate::Described);
    assert_eq!(target.plan(&with(directory("d"))).unwrap(), CREATED);
    assert_eq!(target.plan(&with(file("d/empty", 0))).unwrap(), CREATED);
    assert_eq!(target.finish(), []);
    let again = open();
    for entry in [directory("d"), file("d/empty", 0)] {
        assert_eq!(again.plan(&with(entry)).unwrap(), KEPT);
    }
    assert_eq!(again.keep(&with(file("f", 3))).unwrap(), Fate::Kept);
}

#[test]
fn a_target_is_for_one_session_alone_but_shared_with_receivers() {
    let folder = tempfile::tempdir().unwrap();
    let alone = || Target::open_alone(held(folder.path()), OVERWRITING, None);
    let receiver = open(folder.path(), OVERWRITING);
    let first = alone().unwrap();
    let refused = alone().unwrap_err();
    assert!(matches!(refused, TargetError::Busy { .. }));
    assert_eq!(refused.reason(), Reason::Busy);
    let again = first.clone();
    drop(first);
    assert!(alone().is_err());
    drop(again);
    assert!(alone().is_ok());
    assert_eq!(receiver.plan(&file("f", 0)).unwrap(), CREATED);
}

#[test]
fn a_file_system_that_does_not_see_case_is_recognised() {
    let make = "truncate -s 16M \"$1\"; mke2fs -q -t ext4 -O casefold \"$1\"; \
                mount -o loop \"$1\" \"$2\"; mkdir \"$2/t\"; chattr +F \"$2/t\"";
    on_image("sync::a_file_system_that_does_not_see_case_is_recognised", make, |folder| {
        let target = open(&folder.join("t"), OVERWRITING);
        assert_eq!(target.plan(&file("A\u{e9}", 0)).unwrap(), CREATED);
        for other in ["a\u{e9}", "Ae\u{301}"] {
            assert_eq!(problem(target.plan(&file(other, 0))).cause, Cause::Collision);
        }
    });
}

#[test]
fn files_share_their_content_where_the_file_system_can() {
    let make = "truncate -s 512M \"$1\"; mkfs.xfs -q -m reflink=1 \"$1\"; mount -o loop \"$1\" \"$2\"";
    on_image("sync::files_share_their_content_where_the_file_system_can", make, |folder| {
        let content = vec![7; 100_000];
        fs::write(folder.join("old"), &content).unwrap();
        let target = open(folder, OVERWRITING);
        let old = target.existing(&file("old", 100_000)).unwrap();
        let mut new = target.create(&file("new", 100_000)).unwrap();
        assert!(new.share(&old));
        let mut read = vec![0; 100_000];
        assert_eq!(new.read_at(&mut read, 0).unwrap(), 100_000);
        assert_eq!(read, content);
        // One that has grown meanwhile is cut to what was listed.
        let mut growing = File::options().append(true).open(folder.join("old")).unwrap();
        growing.write_all(b"more").unwrap();
        let mut late = target.create(&file("late", 100_000)).unwrap();
        assert!(late.share(&old));
        for (new, name) in [(new, "new"), (late, "late")] {
            assert_eq!(new.commit().unwrap(), Fate::Created);
            assert_eq!(fs::read(folder.join(name)).unwrap(), content);
        }
    });
}

#[test]
fn files_are_not_shared_where_the_file_system_cannot() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("old"), "abc").unwrap();
    let target = open(folder.path(), OVERWRITING);
    let old = target.existing(&file("old", 3)).unwrap();
    let mut new = target.create(&file("new", 3)).unwrap();
    if !new.share(&old) {
        new.write(b"abc").unwrap();
    }
    new.commit().unwrap();
    assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"abc");
}

#[test]
fn an_old_version_is_read_whatever_its_length() {
    let folder = tempfile::tempdir().unwrap();
    let mut held = File::create(folder.path().join("f")).unwrap();
    held.write_all(b"longer than listed").unwrap();
    let old = open(folder.path(), OVERWRITING).old_version(&file("f", 3)).unwrap();
    let mut buffer = [0; 6];
    old.read_at(&mut buffer, 0).unwrap();
    assert_eq!((old.length().unwrap(), &buffer), (18, b"longer"));
}

#[test]
fn a_file_that_was_a_hard_link_becomes_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::write(at("a"), "abc").unwrap();
    fs::hard_link(at("a"), at("b")).unwrap();
    let hash = Some(ContentHash([1; 32]));
    let own = Entry {
        kind: EntryKind::HardLink { target: crate::setting::path("a") },
        hash,
        ..listed(folder.path(), "b")
    };
    let target = open(folder.path(), OVERWRITING);
    let entry = Entry { hash, ..file("b", 3) };
    assert_eq!(target.plan_beside(&entry, Some(&own)).unwrap(), Plan::Content);
    assert_eq!(store(&target, &entry, b"abc").unwrap(), Fate::Updated);
    assert_eq!(fs::metadata(at("a")).unwrap().nlink(), 1);
}
