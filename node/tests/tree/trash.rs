//! What a session deletes or replaces is in the trash, and undoing brings it back.

use std::{
    collections::BTreeMap,
    fs::{self, File, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ketch::tree::{
    Extras, Handling, Link, NewTrash, Options, Plan, Target, TargetError, TrashError, UndoError, Undone, undo,
};
use ketch_protocol::{
    manifest::{Attribute, Entry, EntryKind, Owner},
    message::{Fate, RemovalLimit},
    problem::Cause,
};
use rustix::fs::{XattrFlags, fgetxattr, fsetxattr};

use crate::setting::{
    MTIME, OVERWRITING, directory, file, held, link, listed, mount_tmpfs, names, path, skip, store,
    with_own_mounts,
};

/// A file system tree with a trash beside it.
struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        fs::create_dir(place.root()).unwrap();
        place
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn trash(&self) -> PathBuf {
        self.folder.path().join("trash")
    }

    fn at(&self, text: &str) -> PathBuf {
        self.root().join(text)
    }

    fn open(&self, session: &str) -> Target {
        let (trash, now) = (self.trash(), SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000_000));
        let new = NewTrash { folder: &trash, session, now };
        let handling = Handling { remove: true, ..OVERWRITING.handling };
        Target::open_alone(held(&self.root()), Options { handling, ..OVERWRITING }, Some(&new)).unwrap()
    }

    fn undo(&self) -> Undone {
        undo(&self.trash()).unwrap()
    }
}

/// Everything below a folder: kind and content, mode and time of each path, in text.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for found in fs::read_dir(&folder).unwrap() {
            let at = found.unwrap().path();
            let metadata = fs::symlink_metadata(&at).unwrap();
            let content = if metadata.is_dir() {
                folders.push(at.clone());
                "directory".to_owned()
            } else if metadata.is_symlink() {
                fs::read_link(&at).unwrap().display().to_string()
            } else {
                format!("{:?}", fs::read(&at).unwrap())
            };
            let time = (metadata.mtime(), metadata.mtime_nsec());
            all.insert(at, format!("{content} {:o} {time:?}", metadata.mode()));
        }
    }
    all
}

/// A tree in which everything can happen.
fn make_tree(place: &Place) {
    for folder in ["changed", "gone/deeper", "blocking/inner", "described"] {
        fs::create_dir_all(place.at(folder)).unwrap();
    }
    for name in
        ["changed/f", "changed/same", "gone/deeper/f", "gone/f", "blocking/inner/f", "described/f", "becomes"]
    {
        fs::write(place.at(name), name).unwrap();
    }
    symlink("old target", place.at("changed/link")).unwrap();
    symlink("gone", place.at("gone/link")).unwrap();
    let old = SystemTime::UNIX_EPOCH + Duration::new(500, 5);
    for (name, mode) in [
        ("described/f", 0o4711),
        ("gone/deeper", 0o2711),
        ("gone", 0o700),
        ("changed", 0o751),
        ("blocking/inner", 0o777),
        ("blocking", 0o700),
        ("described", 0o1777),
    ] {
        fs::set_permissions(place.at(name), Permissions::from_mode(mode)).unwrap();
        File::open(place.at(name)).unwrap().set_modified(old).unwrap();
    }
}

/// Plans and stores three bytes.
fn store_new(target: &Target, text: &str) -> Fate {
    let entry = file(text, 3);
    let plan = target.plan(&entry).unwrap();
    assert!(matches!(plan, Plan::Content | Plan::Compare), "{plan:?}");
    store(target, &entry, b"new").unwrap()
}

/// A session that makes, replaces, describes and removes.
fn run_session(place: &Place, target: &Target) {
    let root = place.root();
    let mut extras = Extras::default();
    for text in ["blocking", "blocking/inner", "blocking/inner/f"] {
        extras.push(&listed(&root, text));
    }
    for text in ["gone", "gone/deeper", "gone/deeper/f", "gone/f", "gone/link"] {
        extras.push(&listed(&root, text));
    }
    let mut approved = extras.approve(16, RemovalLimit::Percent(50)).unwrap();

    target.plan(&directory("becomes")).unwrap();
    target.plan(&file("becomes/below", 0)).unwrap();
    assert_eq!(target.plan(&file("blocking", 3)).unwrap(), Plan::Blocked);
    assert_eq!(store_new(target, "changed/f"), Fate::Updated);
    target.plan(&link("changed/link", "new target")).unwrap();
    target.plan(&directory("described")).unwrap();
    assert_eq!(target.plan(&file("described/f", 11)).unwrap(), Plan::Compare);
    assert_eq!(target.keep(&file("described/f", 11)).unwrap(), Fate::Described);
    target.plan(&directory("new")).unwrap();
    assert_eq!(store_new(target, "new/f"), Fate::Created);
    target.plan(&link("new/link", "x")).unwrap();
    let other = Entry::new(path("new/other"), EntryKind::HardLink { target: path("new/f") }, 0o640, MTIME);
    assert_eq!(target.link(&other).unwrap(), Link::Settled(Fate::Created));
    target.clear(&mut approved, &file("blocking", 3), &mut |_| {}).unwrap();
    assert_eq!(store_new(target, "blocking"), Fate::Created);
    assert_eq!(target.remove(&approved, &|_| false, &mut |_| {}), []);
    assert_eq!(target.finish(), []);
}

#[test]
fn a_session_is_undone_to_the_last_mode_and_time() {
    let place = Place::new();
    make_tree(&place);
    let before = snapshot(&place.root());
    run_session(&place, &place.open("01"));
    assert_eq!(names(&place.trash()), ["20010909T014640Z-01"]);
    let trash = place.trash().join("20010909T014640Z-01/tree");
    for name in ["changed/f", "gone/deeper/f", "blocking/inner/f", "becomes"] {
        assert_eq!(fs::read(trash.join(name)).unwrap(), name.as_bytes());
    }
    assert_eq!(fs::read(place.at("changed/f")).unwrap(), b"new");

    let undone = place.undo();

    assert_eq!(undone.problems, []);
    assert_eq!((undone.session.as_str(), undone.target), ("20010909T014640Z-01", place.root()));
    assert_eq!((undone.restored, undone.removed, undone.described), (11, 6, 2));
    assert_eq!(snapshot(&place.root()), before);
    assert_eq!(names(&place.trash()), [""; 0]);
    assert!(matches!(undo(&place.trash()), Err(UndoError::Nothing { .. })));
}

#[test]
fn a_session_that_was_cut_is_undone_too() {
    let place = Place::new();
    make_tree(&place);
    let before = snapshot(&place.root());
    let target = place.open("01");
    store_new(&target, "changed/f");
    store_new(&target, "top");
    drop(target);
    let undone = place.undo();
    assert_eq!((undone.restored, undone.removed, undone.problems), (1, 1, vec![]));
    // Only a session that ends gives its directories their times back.
    File::open(place.at("changed"))
        .unwrap()
        .set_modified(SystemTime::UNIX_EPOCH + Duration::new(500, 5))
        .unwrap();
    assert_eq!(snapshot(&place.root()), before);
}

#[test]
fn a_session_that_changes_nothing_leaves_nothing_in_the_trash() {
    let place = Place::new();
    fs::write(place.at("f"), "").unwrap();
    let target = place.open("01");
    target.plan(&listed(&place.root(), "f")).unwrap();
    assert_eq!(target.finish(), []);
    assert_eq!(names(&place.trash()), [""; 0]);
}

#[test]
fn what_somebody_changed_after_the_session_stays_and_its_old_version_too() {
    let place = Place::new();
    for name in ["replaced", "replaced again", "described"] {
        fs::write(place.at(name), "old").unwrap();
    }
    let target = place.open("01");
    for name in ["replaced", "replaced again", "made", "made too"] {
        store(&target, &file(name, 3), b"new").unwrap();
    }
    target.plan(&directory("d")).unwrap();
    target.keep(&file("described", 3)).unwrap();
    assert_eq!(target.finish(), []);
    drop(target);
    for name in ["replaced", "made"] {
        fs::write(place.at(name), "edited").unwrap();
    }
    fs::write(place.at("d/theirs"), "").unwrap();
    fs::set_permissions(place.at("described"), Permissions::from_mode(0o611)).unwrap();

    let undone = place.undo();

    let mut named: Vec<_> =
        undone.problems.iter().map(|problem| (problem.path.to_string(), problem.cause)).collect();
    named.sort();
    let expected = [
        ("d", Cause::Exists),
        ("described", Cause::Changed),
        ("made", Cause::Changed),
        ("replaced", Cause::Changed),
    ];
    assert_eq!(named, expected.map(|(name, cause)| (name.to_owned(), cause)));
    assert_eq!(fs::read(place.at("replaced")).unwrap(), b"edited");
    assert_eq!(fs::read(place.at("replaced again")).unwrap(), b"old");
    assert!(!place.at("made too").exists() && place.at("d/theirs").exists());
    assert_eq!(names(&place.trash()), ["20010909T014640Z-01-undone"]);
    let kept = place.trash().join("20010909T014640Z-01-undone/tree/replaced");
    assert_eq!(fs::read(kept).unwrap(), b"old");
    assert!(matches!(undo(&place.trash()), Err(UndoError::Nothing { .. })));
}

#[test]
fn an_edit_that_puts_length_and_time_back_is_noticed() {
    let place = Place::new();
    let target = place.open("01");
    store(&target, &file("f", 3), b"new").unwrap();
    target.finish();
    let time = fs::metadata(place.at("f")).unwrap().modified().unwrap();
    let ended = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let touched = || {
        let metadata = fs::metadata(place.at("f")).unwrap();
        Duration::new(metadata.ctime().unsigned_abs(), metadata.ctime_nsec().try_into().unwrap())
    };
    // The clock of a file system may be some milliseconds behind.
    while touched() <= ended {
        fs::write(place.at("f"), "hey").unwrap();
        File::options().write(true).open(place.at("f")).unwrap().set_modified(time).unwrap();
    }
    drop(target);
    let undone = place.undo();
    assert_eq!(undone.problems.len(), 1);
    assert_eq!(fs::read(place.at("f")).unwrap(), b"hey");
}

#[test]
fn a_session_that_goes_on_under_its_name_is_undone_as_one() {
    let place = Place::new();
    for name in ["a", "b"] {
        fs::write(place.at(name), "old").unwrap();
        let target = place.open("01");
        store_new(&target, name);
        target.finish();
    }
    let undone = place.undo();
    assert_eq!((undone.restored, undone.problems), (2, vec![]));
    assert_eq!(["a", "b"].map(|name| fs::read(place.at(name)).unwrap()), [b"old", b"old"]);
    assert_eq!(names(&place.trash()), [""; 0]);
}

#[test]
fn owners_and_attributes_are_undone() {
    let place = Place::new();
    if !rustix::process::geteuid().is_root() {
        return skip("only root can give files away");
    }
    fs::create_dir(place.at("gone")).unwrap();
    fs::write(place.at("f"), "").unwrap();
    for name in ["gone", "f"] {
        let set = fsetxattr(File::open(place.at(name)).unwrap(), "user.a", b"old", XattrFlags::empty());
        if let Err(error) = set {
            return skip(format_args!("no extended attributes here: {error}"));
        }
        chown(place.at(name), Some(7), Some(8)).unwrap();
    }
    let handling = Handling { owner: true, attributes: true, ..OVERWRITING.handling };
    let (trash, now) = (place.trash(), SystemTime::now());
    let new = NewTrash { folder: &trash, session: "01", now };
    let target =
        Target::open_alone(held(&place.root()), Options { handling, ..OVERWRITING }, Some(&new)).unwrap();
    let mut extras = Extras::default();
    extras.push(&listed(&place.root(), "gone"));
    let approved = extras.approve(2, RemovalLimit::Default).unwrap();
    let attributes = vec![Attribute { name: b"user.b"[..].into(), value: b"new"[..].into() }];
    let owner = Some(Owner { user: 1, group: 2 });
    let entry = Entry { owner, attributes, ..file("f", 0) };
    assert_eq!(target.plan(&entry).unwrap(), Plan::Settled(Fate::Described));
    assert_eq!(target.remove(&approved, &|_| false, &mut |_| {}), []);
    assert_eq!(target.finish(), []);
    drop(target);

    assert_eq!(place.undo().problems, []);

    for name in ["gone", "f"] {
        let metadata = fs::metadata(place.at(name)).unwrap();
        assert_eq!((metadata.uid(), metadata.gid()), (7, 8), "{name}");
        let mut value = [0; 8];
        let length = fgetxattr(File::open(place.at(name)).unwrap(), "user.a", &mut value[..]).unwrap();
        assert_eq!(&value[..length], b"old", "{name}");
    }
}

#[test]
fn sessions_are_undone_one_after_the_other_the_latest_first() {
    let place = Place::new();
    fs::write(place.at("f"), "0").unwrap();
    for session in ["1", "2", "3"] {
        let target = place.open(session);
        store(&target, &file("f", 1), session.as_bytes()).unwrap();
        target.finish();
    }
    for (session, left) in [("3", "2"), ("2", "1"), ("1", "0")] {
        assert!(place.undo().session.ends_with(session));
        assert_eq!(fs::read(place.at("f")).unwrap(), left.as_bytes());
    }
}

#[test]
fn what_a_session_replaces_twice_is_undone_to_what_was_there_before_it() {
    let place = Place::new();
    fs::write(place.at("f"), "old").unwrap();
    let target = place.open("01");
    for content in ["one", "two"] {
        store(&target, &file("f", 3), content.as_bytes()).unwrap();
        store(&target, &file("new", 3), content.as_bytes()).unwrap();
    }
    drop(target);
    assert_eq!(place.undo().problems, []);
    assert_eq!(names(&place.root()), ["f"]);
    assert_eq!(fs::read(place.at("f")).unwrap(), b"old");
}

#[test]
fn a_trash_within_the_target_or_on_another_file_system_is_refused() {
    with_own_mounts("trash::a_trash_within_the_target_or_on_another_file_system_is_refused", |folder| {
        let (root, elsewhere) = (folder.join("root"), folder.join("elsewhere"));
        fs::create_dir(&root).unwrap();
        mount_tmpfs(&elsewhere, "size=1m");
        let open = |trash: &Path| {
            let new = NewTrash { folder: trash, session: "01", now: SystemTime::UNIX_EPOCH };
            Target::open_alone(held(&root), OVERWRITING, Some(&new)).unwrap_err()
        };
        for inside in ["", "trash"] {
            let refused = open(&root.join(inside));
            assert!(matches!(refused, TargetError::Trash(TrashError::Inside { .. })), "{refused:?}");
        }
        let refused = open(&elsewhere.join("trash"));
        assert!(matches!(refused, TargetError::Trash(TrashError::Elsewhere { .. })), "{refused:?}");
    });
}

#[test]
fn nothing_is_undone_while_a_session_writes_or_where_the_target_is_gone() {
    let place = Place::new();
    let target = place.open("01");
    store(&target, &file("f", 1), b"x").unwrap();
    assert!(matches!(undo(&place.trash()), Err(UndoError::Target(TargetError::Busy { .. }))));
    drop(target);
    fs::remove_dir_all(place.root()).unwrap();
    assert!(matches!(undo(&place.trash()), Err(UndoError::Gone { .. })));
}

#[test]
fn a_log_that_says_nothing_is_named() {
    let place = Place::new();
    let session = place.trash().join("20010909T014640Z-01");
    fs::create_dir_all(session.join("tree")).unwrap();
    fs::write(session.join("log"), "torn").unwrap();
    assert!(matches!(undo(&place.trash()), Err(UndoError::Damaged { .. })));
}
