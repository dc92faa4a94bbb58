use std::{
    fs::{self, File},
    io::Write as _,
    os::unix::{
        ffi::{OsStrExt as _, OsStringExt as _},
        fs::{PermissionsExt as _, symlink},
        net::UnixListener,
    },
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ketch::tree::{Found, Source, SourceError};
use ketch_protocol::{
    limits::PATH_BYTES,
    manifest::{Entry, EntryKind, Order},
    problem::{Cause, Problem},
};
use rustix::{
    fs::{CWD, Mode, mkfifoat},
    process::{Resource, getrlimit, setrlimit},
};

use crate::setting::{alone, as_plain_user, path};

fn scan(operands: &[&Path]) -> (Vec<Entry>, Vec<Problem>) {
    let operands: Vec<PathBuf> = operands.iter().map(|&operand| operand.into()).collect();
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for found in Source::open(&operands).unwrap().scan() {
        match found {
            Found::Entry(entry) => entries.push(entry),
            Found::Problem(problem) => problems.push(problem),
        }
    }
    (entries, problems)
}

fn listed(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.path.to_string()).collect()
}

fn open(operands: &[&Path]) -> Result<Source, SourceError> {
    Source::open(&operands.iter().map(|&operand| operand.into()).collect::<Vec<_>>())
}

#[test]
fn what_is_appended_ends_where_it_was_asked_to_or_the_file_does() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("f");
    fs::write(&at, b"0123456789").unwrap();
    let entry = scan(&[&at]).0.remove(0);
    let opened = open(&[&at]).unwrap().open_file(&entry).unwrap();
    for room in [0, 4, 1_000] {
        let mut buffer = Vec::with_capacity(2 + room);
        buffer.extend_from_slice(b"ab");
        assert_eq!(opened.append_at(&mut buffer, 4, 3).unwrap(), 4);
        assert_eq!(buffer, b"ab3456", "room for {room}");
        assert_eq!(opened.append_at(&mut buffer, 4, 8).unwrap(), 2);
        assert_eq!(buffer, b"ab345689", "room for {room}");
        assert_eq!(opened.append_at(&mut buffer, 0, 0).unwrap(), 0);
        assert_eq!(buffer.len(), 8);
    }
}

#[test]
fn a_tree_is_listed_in_manifest_order_over_all_operands() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    for directory in ["b/a/deep", "b/a-b", "b/empty", "c"] {
        fs::create_dir_all(at(directory)).unwrap();
    }
    for file in ["b/a/z", "b/a/deep/x", "b/a-b/y", "b/a.b", "c/1", "a file"] {
        fs::write(at(file), file).unwrap();
    }

    let (entries, problems) = scan(&[&at("c"), &at("b"), &at("a file")]);

    assert_eq!(
        listed(&entries),
        [
            "a file",
            "b",
            "b/a",
            "b/a/deep",
            "b/a/deep/x",
            "b/a/z",
            "b/a-b",
            "b/a-b/y",
            "b/a.b",
            "b/empty",
            "c",
            "c/1"
        ]
    );
    let mut order = Order::default();
    assert!(entries.iter().all(|entry| order.admit(entry).is_ok()));
    assert_eq!(problems, []);
}

#[test]
fn entries_carry_kind_size_mode_and_times_before_1970() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join("t").join(text);
    fs::create_dir(folder.path().join("t")).unwrap();
    fs::write(at("file"), "12345").unwrap();
    fs::set_permissions(at("file"), fs::Permissions::from_mode(0o4751)).unwrap();
    let before = SystemTime::UNIX_EPOCH - Duration::from_nanos(1);
    File::options().write(true).open(at("file")).unwrap().set_modified(before).unwrap();
    for (name, target) in [("broken", "nowhere"), ("self", "."), ("up", "../..")] {
        symlink(target, at(name)).unwrap();
    }

    let (entries, problems) = scan(&[&folder.path().join("t")]);

    let file = &entries[2];
    assert_eq!((file.path.to_string(), file.size(), file.mode), ("t/file".into(), 5, 0o4751));
    assert_eq!((file.mtime.seconds, file.mtime.nanoseconds), (-1, 999_999_999));
    assert_eq!(entries[1].kind, EntryKind::Symlink { target: b"nowhere"[..].into() });
    assert_eq!(listed(&entries), ["t", "t/broken", "t/file", "t/self", "t/up"]);
    assert_eq!(problems, []);
}

#[test]
fn every_way_to_name_an_operand_gives_it_a_leaf_name() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("tree");
    fs::create_dir_all(tree.join("below")).unwrap();
    symlink("tree", folder.path().join("link")).unwrap();
    symlink("link", folder.path().join("link to link")).unwrap();
    for (operand, name) in [
        (tree.join("."), "tree"),
        (tree.join("below/.."), "tree"),
        (folder.path().join("tree///"), "tree"),
        (folder.path().join("link"), "link"),
        (folder.path().join("link/"), "link"),
        (folder.path().join("link to link"), "link to link"),
        (folder.path().join("link/below"), "below"),
    ] {
        let (entries, problems) = scan(&[&operand]);
        assert_eq!((entries[0].path.to_string().as_str(), &*problems), (name, &[][..]), "{operand:?}");
        assert_eq!(entries[0].kind, EntryKind::Directory);
    }
    let here = std::env::current_dir().unwrap();
    assert_eq!(scan(&[Path::new(".")]).0[0].path.leaf(), here.file_name().unwrap().as_bytes());
}

#[test]
fn operands_that_cannot_be_offered_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let at = |text: &str| folder.path().join(text);
    fs::create_dir_all(at("a/x")).unwrap();
    fs::create_dir_all(at(".ketch-partial")).unwrap();
    fs::write(at("x"), "").unwrap();
    symlink("nowhere", at("broken")).unwrap();
    mkfifoat(CWD, at("fifo"), Mode::RWXU).unwrap();

    assert!(matches!(open(&[&at("missing")]), Err(SourceError::Unreachable { .. })));
    assert!(matches!(open(&[&at("broken")]), Err(SourceError::Unreachable { .. })));
    assert!(matches!(open(&[Path::new("/")]), Err(SourceError::Root { .. })));
    assert!(matches!(open(&[&at("fifo")]), Err(SourceError::Special { .. })));
    assert!(matches!(open(&[&at(".ketch-partial")]), Err(SourceError::Reserved { .. })));
    let twice = open(&[&at("x"), &at("a/x")]).unwrap_err();
    assert!(matches!(twice, SourceError::Duplicate { .. }));
    let odd = open(&[Path::new("no\nsuch\x1b[1m")]).unwrap_err();
    assert_eq!(odd.to_string(), "cannot open \"no\\nsuch\\u{1b}[1m\"");
}

#[test]
fn special_files_are_named_and_never_opened() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("t");
    fs::create_dir(&tree).unwrap();
    mkfifoat(CWD, tree.join("fifo"), Mode::RWXU).unwrap();
    let _socket = UnixListener::bind(tree.join("socket")).unwrap();

    let (entries, problems) = scan(&[&tree]);

    assert_eq!(listed(&entries), ["t"]);
    let named: Vec<_> = problems.iter().map(|problem| (problem.path.to_string(), problem.cause)).collect();
    assert_eq!(named, [("t/fifo".into(), Cause::Special), ("t/socket".into(), Cause::Special)]);
}

#[test]
fn a_fifo_in_the_place_of_a_listed_file_does_not_hang() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("file");
    fs::write(&at, "").unwrap();
    let source = open(&[&at]).unwrap();
    let entry = scan(&[&at]).0.remove(0);
    fs::remove_file(&at).unwrap();
    mkfifoat(CWD, &at, Mode::RWXU).unwrap();
    assert_eq!(source.open_file(&entry).unwrap_err().cause, Cause::Changed);
}

#[test]
fn names_are_any_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("t");
    fs::create_dir(&tree).unwrap();
    let mut odd: Vec<Vec<u8>> = [
        &b"bad_\xff"[..],
        b"foo\nbar",
        b"-n",
        b"--delete",
        b" lead",
        b"trail ",
        b"a\\b",
        b"con",
        b"x.",
        b"a:b",
        b"\x1b[1A\rharmless",
        "a\u{302}".as_bytes(),
        "\u{e2}".as_bytes(),
        b"A",
        b"a",
    ]
    .map(Vec::from)
    .into();
    odd.push(vec![b'l'; 255]);
    odd.sort();
    for name in &odd {
        fs::write(tree.join(std::ffi::OsStr::from_bytes(name)), name).unwrap();
    }

    let (entries, problems) = scan(&[&tree]);

    let leaves: Vec<_> = entries[1..].iter().map(|entry| entry.path.leaf().to_vec()).collect();
    assert_eq!((leaves, problems), (odd, vec![]));
    let source = open(&[&tree]).unwrap();
    for entry in &entries[1..] {
        let mut buffer = [0; 256];
        let count = source.open_file(entry).unwrap().read_at(&mut buffer, 0).unwrap();
        assert_eq!(&buffer[..count], entry.path.leaf());
    }
}

#[test]
fn own_unfinished_files_are_not_listed() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("t");
    fs::create_dir_all(tree.join("mounted/.ketch-partial")).unwrap();
    fs::create_dir_all(tree.join(".ketch-partial")).unwrap();
    fs::write(tree.join(".ketch-partial/x.part"), "").unwrap();
    let (entries, problems) = scan(&[&tree]);
    assert_eq!((listed(&entries), problems), (vec!["t".to_owned(), "t/mounted".to_owned()], vec![]));
}

#[test]
fn a_path_beyond_the_limit_is_a_problem_and_the_rest_is_listed() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("t");
    fs::create_dir(&tree).unwrap();
    fs::write(tree.join("z"), "").unwrap();
    let mut held = rustix::fs::open(&tree, rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
    let name = "d".repeat(200);
    for _ in 0..60 {
        rustix::fs::mkdirat(&held, name.as_str(), Mode::RWXU).unwrap();
        held = rustix::fs::openat(&held, name.as_str(), rustix::fs::OFlags::PATH, Mode::empty()).unwrap();
    }

    let (entries, problems) = scan(&[&tree]);

    assert_eq!(entries.last().unwrap().path, path("t/z"));
    assert_eq!(entries.len(), 1 + (PATH_BYTES - 1) / 201 + 1);
    assert_eq!((problems.len(), problems[0].cause), (1, Cause::Unrepresentable));
}

#[test]
fn a_deep_tree_takes_neither_stack_nor_descriptors() {
    alone("source::a_deep_tree_takes_neither_stack_nor_descriptors", |folder| {
        let tree = folder.join("t");
        let deepest = "a/".repeat(1_000);
        fs::create_dir_all(tree.join(&deepest)).unwrap();
        fs::write(tree.join(&deepest).join("f"), "x").unwrap();
        fs::write(tree.join("z"), "x").unwrap();
        limit_descriptors(32);
        let (entries, problems) = scan(&[&tree]);
        assert_eq!((entries.len(), problems), (1_003, vec![]));
        assert!(open(&[&tree]).unwrap().open_file(&entries[1_001]).is_ok());
    });
}

fn limit_descriptors(count: u64) {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(count);
    setrlimit(Resource::Nofile, limit).unwrap();
}

#[test]
fn a_lack_of_descriptors_is_waited_for() {
    alone("source::a_lack_of_descriptors_is_waited_for", |folder| {
        let tree = folder.join("t");
        fs::create_dir(&tree).unwrap();
        fs::write(tree.join("f"), "x").unwrap();
        let source = open(&[&tree]).unwrap();
        let entry = scan(&[&tree]).0.remove(1);
        limit_descriptors(24);
        let mut taken: Vec<File> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
        std::thread::scope(|scope| {
            let opened = scope.spawn(|| source.open_file(&entry).map(drop));
            // Given back while the other thread waits; if it never waited for them, it would have failed.
            taken.clear();
            assert_eq!(opened.join().unwrap(), Ok(()));
        });
    });
}

#[test]
fn a_file_that_changed_or_went_after_it_was_listed_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("t");
    fs::create_dir_all(tree.join("d")).unwrap();
    for name in ["grown", "touched", "gone", "linked", "same", "d/x"] {
        fs::write(tree.join(name), "12345").unwrap();
    }
    let source = open(&[&tree]).unwrap();
    let (entries, _) = scan(&[&tree]);
    File::options().append(true).open(tree.join("grown")).unwrap().write_all(b"6").unwrap();
    File::options()
        .write(true)
        .open(tree.join("touched"))
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH)
        .unwrap();
    fs::remove_file(tree.join("gone")).unwrap();
    fs::remove_file(tree.join("linked")).unwrap();
    symlink("same", tree.join("linked")).unwrap();
    fs::rename(tree.join("d"), tree.join("d.real")).unwrap();
    symlink("d.real", tree.join("d")).unwrap();

    let outcome = |name: &str| {
        let entry = entries.iter().find(|entry| entry.path == path(name)).unwrap();
        source.open_file(entry).map(drop).map_err(|problem| problem.cause)
    };

    assert_eq!(outcome("t/grown"), Err(Cause::Changed));
    assert_eq!(outcome("t/touched"), Err(Cause::Changed));
    assert_eq!(outcome("t/gone"), Err(Cause::Vanished));
    assert_eq!(outcome("t/linked"), Err(Cause::Changed));
    assert_eq!(outcome("t/d/x"), Err(Cause::Changed));
    assert_eq!(outcome("t/same"), Ok(()));
}

#[test]
fn a_write_while_reading_is_seen_even_if_the_mtime_is_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path().join("f");
    fs::write(&at, "12345").unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000);
    File::options().write(true).open(&at).unwrap().set_modified(old).unwrap();
    let entry = scan(&[&at]).0.remove(0);
    let opened = open(&[&at]).unwrap().open_file(&entry).unwrap();
    assert!(opened.is_unchanged());

    let mut writer = File::options().write(true).open(&at).unwrap();
    while opened.is_unchanged() {
        // The clock of the file system is coarse: the first writes may fall into the same tick.
        writer.write_all(b"X").unwrap();
        writer.set_modified(old).unwrap();
    }
    let mut buffer = [0; 5];
    assert!(opened.read_at(&mut buffer, 0).is_ok());
}

#[test]
fn unreadable_things_are_named_and_the_rest_is_listed() {
    as_plain_user("source::unreadable_things_are_named_and_the_rest_is_listed", |folder| {
        let tree = folder.join("t");
        fs::create_dir_all(tree.join("closed/x")).unwrap();
        fs::write(tree.join("open"), "1").unwrap();
        fs::write(tree.join("secret"), "1").unwrap();
        fs::set_permissions(tree.join("secret"), fs::Permissions::from_mode(0o0)).unwrap();
        fs::set_permissions(tree.join("closed"), fs::Permissions::from_mode(0o0)).unwrap();

        let (entries, problems) = scan(&[&tree]);

        assert_eq!(listed(&entries), ["t", "t/closed", "t/open", "t/secret"]);
        assert_eq!((problems[0].path.clone(), problems[0].cause), (path("t/closed"), Cause::Unreadable));
        let source = open(&[&tree]).unwrap();
        assert!(source.open_file(&entries[2]).is_ok());
        assert_eq!(source.open_file(&entries[3]).unwrap_err().cause, Cause::Unreadable);
        fs::set_permissions(tree.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn a_parent_that_may_only_be_passed_is_enough() {
    as_plain_user("source::a_parent_that_may_only_be_passed_is_enough", |folder| {
        let above = folder.join("above");
        fs::create_dir_all(above.join("t")).unwrap();
        fs::write(above.join("t/f"), "1").unwrap();
        fs::set_permissions(&above, fs::Permissions::from_mode(0o111)).unwrap();
        let (entries, problems) = scan(&[&above.join("t")]);
        assert_eq!((entries.len(), problems), (2, vec![]));
        assert!(open(&[&above.join("t")]).unwrap().open_file(&entries[1]).is_ok());
        fs::set_permissions(&above, fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn many_names_in_one_directory_are_listed_in_order() {
    let folder = tempfile::tempdir().unwrap();
    let tree = folder.path().join("t");
    fs::create_dir(&tree).unwrap();
    for index in 0..5_000 {
        fs::write(tree.join(std::ffi::OsString::from_vec(format!("{index:x}").into())), "").unwrap();
    }
    let (entries, problems) = scan(&[&tree]);
    assert_eq!((entries.len(), problems), (5_001, vec![]));
    assert!(entries.is_sorted_by(|left, right| left.path < right.path));
}
