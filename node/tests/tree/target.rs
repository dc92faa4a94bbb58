use std::{
    fs::{self, File},
    os::unix::{
        ffi::OsStrExt as _,
        fs::{MetadataExt as _, PermissionsExt as _, symlink},
    },
    path::Path,
    process::Command,
    time::{Duration, SystemTime},
};

use ketch::tree::{Durability, Options, Plan, Target, TargetError, Trouble};
use ketch_protocol::{
    manifest::{Entry, Timestamp},
    message::Fate,
    problem::{Cause, Reason},
};
use rustix::{
    fs::{CWD, Mode, mkfifoat},
    process::{Resource, getrlimit, setrlimit},
};

use crate::setting::{
    CAREFUL, CREATED, DESCRIBED, KEPT, MTIME, NEW, OVERWRITING, UPDATED, alone, as_plain_user, directory,
    file, link, mode, mount_tmpfs, mtime, names, open, problem, store, with_own_mounts,
};

fn reason<T: std::fmt::Debug>(result: Result<T, Trouble>) -> Reason {
    match result {
        Err(Trouble::Guard { reason, .. }) => reason,
        other => panic!("a guard was expected, not {other:?}"),
    }
}

#[test]
fn a_tree_is_made_with_its_modes_and_times() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("made/with/parents");
    let target = open(&root, CAREFUL);
    assert!(target.is_empty().unwrap());
    let mut closed = directory("d");
    closed.mode = 0o555;
    let (content, empty, pointer) = (file("d/f", 3), file("d/empty", 0), link("d/l", "../nowhere"));

    assert_eq!(target.plan(&closed).unwrap(), CREATED);
    assert_eq!(target.plan(&empty).unwrap(), CREATED);
    assert_eq!(target.plan(&content).unwrap(), NEW);
    assert_eq!(target.plan(&pointer).unwrap(), CREATED);
    store(&target, &content, b"abc").unwrap();
    assert_eq!(mode(&root.join("d")), 0o700);
    assert_eq!(target.finish(), []);
    target.sync().unwrap();

    assert_eq!(names(&root), ["d"]);
    assert_eq!(fs::read(root.join("d/f")).unwrap(), b"abc");
    assert_eq!(fs::read(root.join("d/empty")).unwrap(), b"");
    assert_eq!(fs::read_link(root.join("d/l")).unwrap(), Path::new("../nowhere"));
    assert_eq!((mode(&root.join("d")), mode(&root.join("d/f"))), (0o555, 0o640));
    for made in ["d", "d/f", "d/empty", "d/l"] {
        assert_eq!(mtime(&root.join(made)), MTIME, "{made}");
    }
    assert!(!target.is_empty().unwrap());
    assert!(target.free_bytes().unwrap() > 0);
}

#[test]
fn a_second_run_keeps_everything() {
    let folder = tempfile::tempdir().unwrap();
    let entries = [directory("d"), file("d/empty", 0), file("d/f", 3), link("d/l", "x")];
    let first = open(folder.path(), CAREFUL);
    for entry in &entries {
        first.plan(entry).unwrap();
    }
    store(&first, &entries[2], b"abc").unwrap();
    first.finish();
    let inode = fs::metadata(folder.path().join("d/f")).unwrap().ino();

    let second = open(folder.path(), CAREFUL);
    let plans = entries.each_ref().map(|entry| second.plan(entry).unwrap());

    assert_eq!(plans, [KEPT, KEPT, Plan::Compare, KEPT]);
    let mut buffer = [0; 4];
    assert_eq!(second.existing(&entries[2]).unwrap().read_at(&mut buffer, 1).unwrap(), 2);
    assert_eq!(&buffer[..2], b"bc");
    second.keep(&entries[2]).unwrap();
    assert_eq!(second.finish(), []);
    assert_eq!(fs::metadata(folder.path().join("d/f")).unwrap().ino(), inode);
}

#[test]
fn something_different_is_kept_and_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::write(at("file"), "old").unwrap();
    fs::write(at("same length"), "old").unwrap();
    symlink("elsewhere", at("link")).unwrap();
    fs::create_dir(at("directory")).unwrap();
    mkfifoat(CWD, at("fifo"), Mode::RWXU).unwrap();
    let target = open(folder.path(), CAREFUL);

    for entry in [
        file("file", 4),
        file("file", 0),
        link("file", "x"),
        directory("file"),
        link("link", "x"),
        file("link", 3),
        directory("link"),
        file("directory", 1),
        link("directory", "x"),
        file("fifo", 1),
    ] {
        assert_eq!(problem(target.plan(&entry)).cause, Cause::Exists, "{entry:?}");
    }
    let compared = file("same length", 3);
    assert_eq!(target.plan(&compared).unwrap(), Plan::Compare);
    assert_eq!(target.may_replace(&compared).unwrap_err().cause, Cause::Exists);
    assert_eq!(problem(store(&target, &compared, b"new")).cause, Cause::Exists);
    assert_eq!(fs::read(at("file")).unwrap(), b"old");
    assert_eq!(fs::read(at("same length")).unwrap(), b"old");
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("elsewhere"));
}

#[test]
fn something_different_is_replaced_when_asked_but_never_a_directory() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    for name in ["content", "empty", "link", "directory", "kept"] {
        fs::write(at(name), "old").unwrap();
    }
    fs::create_dir_all(at("stays/below")).unwrap();
    let target = open(folder.path(), OVERWRITING);

    assert_eq!(target.plan(&file("content", 4)).unwrap(), Plan::Content);
    assert_eq!(store(&target, &file("content", 4), b"new!").unwrap(), Fate::Updated);
    assert_eq!(target.plan(&directory("directory")).unwrap(), UPDATED);
    assert_eq!(target.plan(&file("empty", 0)).unwrap(), UPDATED);
    assert_eq!(target.plan(&file("kept", 3)).unwrap(), Plan::Compare);
    assert_eq!(target.keep(&file("kept", 3)).unwrap(), Fate::Described);
    assert_eq!(target.keep(&file("kept", 3)).unwrap(), Fate::Kept);
    assert_eq!(target.plan(&link("link", "x")).unwrap(), UPDATED);
    for entry in [file("stays", 0), file("stays", 3), link("stays", "x")] {
        assert_eq!(problem(target.plan(&entry)).cause, Cause::Exists);
    }
    assert_eq!(problem(store(&target, &file("stays", 3), b"new")).cause, Cause::Exists);
    assert_eq!(target.finish(), []);

    assert_eq!(fs::read(at("content")).unwrap(), b"new!");
    assert_eq!((mode(&at("kept")), mtime(&at("kept"))), (0o640, MTIME));
    assert_eq!(fs::read_link(at("link")).unwrap(), Path::new("x"));
    assert!(at("directory").is_dir() && at("stays/below").is_dir());
    assert_eq!(names(folder.path()), ["content", "directory", "empty", "kept", "link", "stays"]);
}

#[test]
fn a_file_has_its_mode_whether_it_was_made_with_it_or_not() {
    let folder = tempfile::tempdir().unwrap();
    let target = open(folder.path(), CAREFUL);
    for wanted in [0o000, 0o400, 0o444, 0o600, 0o644, 0o666, 0o755, 0o777] {
        let mut entry = file(&format!("{wanted:o}"), 3);
        entry.mode = wanted;
        store(&target, &entry, b"abc").unwrap();
        assert_eq!(mode(&folder.path().join(format!("{wanted:o}"))), wanted);
    }
}

#[test]
fn a_file_that_is_not_committed_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    for options in [CAREFUL, OVERWRITING] {
        let target = open(folder.path(), options);
        let mut new = target.create(&file("f", 3)).unwrap();
        new.write(b"ab").unwrap();
        drop(new);
        drop(target);
        assert_eq!(names(folder.path()), [""; 0]);
    }
}

#[test]
fn setuid_setgid_and_sticky_are_dropped_and_the_rest_is_exact() {
    let folder = tempfile::tempdir().unwrap();
    let target = open(folder.path(), CAREFUL);
    for (name, sent, stored) in
        [("a", 0o7777, 0o777), ("b", 0o400, 0o400), ("c", 0o4000, 0), ("d", 0o600, 0o600)]
    {
        let entry = Entry { mode: sent, ..file(name, 1) };
        store(&target, &entry, b"x").unwrap();
        assert_eq!(mode(&folder.path().join(name)), stored);
    }
}

#[test]
fn odd_times_are_carried() {
    let folder = tempfile::tempdir().unwrap();
    let target = open(folder.path(), CAREFUL);
    for seconds in [-315_619_200, -1, 0, 4_070_908_800, (1 << 31) + 5] {
        let time = Timestamp { seconds, nanoseconds: 999_999_999 };
        let (name, folder_name) = (format!("f{seconds}"), format!("d{seconds}"));
        store(&target, &Entry { mtime: time, ..file(&name, 1) }, b"x").unwrap();
        target.plan(&Entry { mtime: time, ..directory(&folder_name) }).unwrap();
        target.finish();
        assert_eq!(mtime(&folder.path().join(name)), time);
        assert_eq!(mtime(&folder.path().join(folder_name)), time);
    }
}

#[test]
fn the_longest_names_and_any_bytes_are_stored() {
    let folder = tempfile::tempdir().unwrap();
    let target = open(folder.path(), OVERWRITING);
    for name in [&[b'n'; 255][..], b"bad_\xff", b"new\nline", b"--delete", b"a\\b"] {
        let path = ketch_protocol::path::EntryPath::parse(name).unwrap();
        let entry = Entry { path, ..file("x", 1) };
        store(&target, &entry, b"1").unwrap();
        store(&target, &entry, b"2").unwrap();
        assert_eq!(fs::read(folder.path().join(std::ffi::OsStr::from_bytes(name))).unwrap(), b"2");
    }
}

#[test]
fn nothing_is_stored_below_what_could_not_be_made() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("d"), "in the way").unwrap();
    let target = open(folder.path(), CAREFUL);
    assert_eq!(problem(target.plan(&directory("d"))).cause, Cause::Exists);
    for below in [directory("d/e"), file("d/e/f", 0), file("d/f", 1)] {
        let problem = problem(target.plan(&below));
        assert_eq!((problem.cause, problem.path), (Cause::Unwritable, below.path));
    }
    assert_eq!(target.plan(&file("d-", 0)).unwrap(), CREATED);
    assert_eq!(target.finish(), []);
}

#[test]
fn read_only_directories_are_filled_and_filled_again() {
    as_plain_user("target::read_only_directories_are_filled_and_filled_again", |folder| {
        let root = folder.join("target");
        let mut closed = [directory("a"), directory("a/b")];
        closed.iter_mut().for_each(|entry| entry.mode = 0o500);
        for name in ["a/b/1", "a/b/2"] {
            let target = open(&root, CAREFUL);
            for entry in &closed {
                target.plan(entry).unwrap();
            }
            store(&target, &file(name, 1), b"x").unwrap();
            assert_eq!(target.finish(), []);
            assert_eq!((mode(&root.join("a")), mode(&root.join("a/b"))), (0o500, 0o500));
            assert_eq!((mtime(&root.join("a")), mtime(&root.join("a/b"))), (MTIME, MTIME));
        }
        for name in ["a", "a/b"] {
            fs::set_permissions(root.join(name), fs::Permissions::from_mode(0o700)).unwrap();
        }
    });
}

#[test]
fn a_target_that_cannot_be_written_is_refused_when_it_is_opened() {
    as_plain_user("target::a_target_that_cannot_be_written_is_refused_when_it_is_opened", |folder| {
        let at = |text: &str| folder.join(text);
        fs::create_dir(at("closed")).unwrap();
        fs::write(at("file"), "").unwrap();
        symlink("nowhere", at("broken")).unwrap();
        fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o555)).unwrap();
        let refusal = |text: &str| Target::open(&at(text), CAREFUL).unwrap_err();
        assert!(matches!(refusal("closed"), TargetError::ReadOnly { .. }));
        assert!(matches!(refusal("closed/below"), TargetError::ReadOnly { .. }));
        assert!(matches!(refusal("file"), TargetError::NotDirectory { .. }));
        assert!(matches!(refusal("file/below"), TargetError::NotDirectory { .. }));
        assert!(matches!(refusal("broken"), TargetError::NotDirectory { .. }));
        assert_eq!(refusal("broken").reason(), Reason::ReadOnly);
        fs::set_permissions(at("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn a_target_behind_and_as_a_directory_that_cannot_be_listed_works() {
    as_plain_user("target::a_target_behind_and_as_a_directory_that_cannot_be_listed_works", |folder| {
        let above = folder.join("above");
        fs::create_dir_all(above.join("t")).unwrap();
        for closed in [&above.join("t"), &above] {
            fs::set_permissions(closed, fs::Permissions::from_mode(0o311)).unwrap();
        }
        let target = open(&above.join("t"), CAREFUL);
        target.plan(&directory("d")).unwrap();
        store(&target, &file("d/f", 1), b"x").unwrap();
        assert_eq!(target.finish(), []);
        target.sync().unwrap();
        assert_eq!(fs::read(above.join("t/d/f")).unwrap(), b"x");
        for closed in [&above, &above.join("t")] {
            fs::set_permissions(closed, fs::Permissions::from_mode(0o700)).unwrap();
        }
    });
}

#[test]
fn an_unwritable_directory_of_someone_else_is_the_problem_of_its_files() {
    with_own_mounts(
        "target::an_unwritable_directory_of_someone_else_is_the_problem_of_its_files",
        |folder| {
            let root = folder.join("t");
            mount_tmpfs(&root.join("d"), "size=1m");
            let status = Command::new("mount").args(["-o", "remount,bind,ro"]).arg(root.join("d")).status();
            assert!(status.unwrap().success());
            let target = open(&root, CAREFUL);
            assert_eq!(target.plan(&directory("d")).unwrap(), KEPT);
            assert_eq!(reason(target.create(&file("d/f", 1))), Reason::ReadOnly);
            assert!(store(&target, &file("f", 1), b"x").is_ok());
        },
    );
}

#[test]
fn a_full_disk_stops_the_session_and_leaves_whole_files_only() {
    with_own_mounts("target::a_full_disk_stops_the_session_and_leaves_whole_files_only", |folder| {
        mount_tmpfs(folder, "size=1m");
        let target = open(folder, CAREFUL);
        let content = vec![7; 300 * 1024];
        let mut stored = 0;
        let trouble = loop {
            match store(&target, &file(&format!("f{stored}"), content.len() as u64), &content) {
                Ok(_) => stored += 1,
                failed => break failed,
            }
        };
        assert_eq!(reason(trouble), Reason::NoSpace);
        assert_eq!(target.finish(), []);
        assert_eq!((stored, names(folder).len()), (3, 3));
        for name in names(folder) {
            assert_eq!(fs::read(folder.join(name)).unwrap(), content);
        }
        fs::remove_file(folder.join("f0")).unwrap();
        store(&target, &file("f3", content.len() as u64), &content).unwrap();
    });
}

#[test]
fn a_disk_without_inodes_stops_the_session() {
    with_own_mounts("target::a_disk_without_inodes_stops_the_session", |folder| {
        mount_tmpfs(folder, "nr_inodes=20");
        let target = open(folder, CAREFUL);
        let trouble = (0..).map(|index| target.plan(&file(&format!("f{index:03}"), 0))).find(Result::is_err);
        assert_eq!(reason(trouble.unwrap()), Reason::NoSpace);
        drop(target);
        fs::write(folder.join("last"), "").unwrap();
        assert!(matches!(Target::open(folder, CAREFUL), Err(TargetError::NoSpace { .. })));
    });
}

#[test]
fn a_file_system_mounted_below_has_its_own_private_folder() {
    with_own_mounts("target::a_file_system_mounted_below_has_its_own_private_folder", |folder| {
        let root = folder.join("t");
        mount_tmpfs(&root.join("d/mounted"), "size=64m");
        fs::create_dir(root.join("d/mounted/e")).unwrap();
        fs::write(root.join("d/mounted/e/f"), "old").unwrap();
        let target = open(&root, OVERWRITING);
        for entry in [directory("d"), directory("d/mounted"), directory("d/mounted/e")] {
            assert_eq!(target.plan(&entry).unwrap(), DESCRIBED);
        }
        store(&target, &file("d/mounted/e/f", 3), b"new").unwrap();
        let large = file("d/mounted/e/large", 9 << 20);
        let partial = target.partial(&large).unwrap();
        assert_eq!(names(&root.join("d/mounted")), [".ketch-partial", "e"]);
        partial.discard();
        drop(partial);
        assert_eq!(target.finish(), []);
        target.sync().unwrap();
        assert_eq!(fs::read(root.join("d/mounted/e/f")).unwrap(), b"new");
        assert_eq!(names(&root.join("d/mounted")), ["e"]);
        assert_eq!(mtime(&root.join("d/mounted")), MTIME);
    });
}

#[test]
fn a_lack_of_descriptors_is_no_fault_of_a_file() {
    alone("target::a_lack_of_descriptors_is_no_fault_of_a_file", |folder| {
        let target = open(folder, CAREFUL);
        for index in 0..100 {
            target.plan(&directory(&format!("d{index:02}"))).unwrap();
            target.plan(&file(&format!("d{index:02}/f"), 1)).unwrap();
        }
        let mut limit = getrlimit(Resource::Nofile);
        limit.current = Some(40);
        setrlimit(Resource::Nofile, limit).unwrap();
        // Kept handles fill the limit; they are dropped instead of failing.
        for index in 0..100 {
            store(&target, &file(&format!("d{index:02}/f"), 1), b"x").unwrap();
        }
        let taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        store(&target, &file("g", 1), b"x").unwrap();
        drop(taken);
        assert_eq!(target.finish(), []);
    });
}

#[test]
fn threads_store_side_by_side() {
    let folder = tempfile::tempdir().unwrap();
    let target = open(folder.path(), Options { durability: Durability::None, ..CAREFUL });
    for index in 0..50 {
        target.plan(&directory(&format!("d{index:03}"))).unwrap();
    }
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let target = &target;
            scope.spawn(move || {
                for index in 0..50 {
                    store(target, &file(&format!("d{index:03}/{thread}"), 1), b"x").unwrap();
                }
            });
        }
    });
    assert_eq!(target.finish(), []);
    assert_eq!(names(&folder.path().join("d049")), ["0", "1", "2", "3"]);
}

#[test]
fn an_equal_file_is_not_touched_without_overwrite() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("f");
    fs::write(&at, "abc").unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
    File::options().write(true).open(&at).unwrap().set_modified(old).unwrap();
    open(folder.path(), CAREFUL).keep(&file("f", 3)).unwrap();
    assert_eq!(mtime(&at), Timestamp { seconds: 5, nanoseconds: 0 });
}
