//! Sessions and undoings that are cut at any place.

use std::{
    collections::BTreeMap,
    fs::{self, Permissions},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ketch_protocol::{
    manifest::{Entry, EntryKind, Owner, Timestamp},
    message::{Durability, RemovalLimit},
    path::EntryPath,
};

use super::{Action, Described, Left, NewTrash, log::Time, undo, undo::Undoing};
use crate::tree::{
    HeldDirectory,
    target::{Extras, Handling, Options, Target},
};

const OPTIONS: Options = Options { handling: Handling::receiving(true), durability: Durability::None };

fn path(text: &str) -> EntryPath {
    EntryPath::parse(text.as_bytes()).unwrap()
}

fn entry(text: &str, kind: EntryKind, mode: u32) -> Entry {
    Entry::new(path(text), kind, mode, Timestamp { seconds: 9, nanoseconds: 9 })
}

fn listed(root: &Path, text: &str) -> Entry {
    let metadata = fs::metadata(root.join(text)).unwrap();
    let kind =
        if metadata.is_dir() { EntryKind::Directory } else { EntryKind::File { size: metadata.len() } };
    let nanoseconds = metadata.mtime_nsec().try_into().unwrap();
    let mtime = Timestamp { seconds: metadata.mtime(), nanoseconds };
    Entry::new(path(text), kind, metadata.mode() & 0o7777, mtime)
}

struct Place {
    folder: tempfile::TempDir,
    before: BTreeMap<PathBuf, String>,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("d/gone")).unwrap();
        for name in ["d/f", "d/gone/f", "d/mode"] {
            fs::write(root.join(name), name).unwrap();
        }
        fs::set_permissions(root.join("d/gone"), Permissions::from_mode(0o2711)).unwrap();
        for name in ["d/gone", "d"] {
            let old = SystemTime::UNIX_EPOCH + Duration::from_secs(5);
            fs::File::open(root.join(name)).unwrap().set_modified(old).unwrap();
        }
        let before = snapshot(&root);
        Self { folder, before }
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("root")
    }

    fn trash(&self) -> PathBuf {
        self.folder.path().join("trash")
    }

    fn open(&self) -> Target {
        let trash = self.trash();
        let new = NewTrash { folder: &trash, session: "s", now: SystemTime::now() };
        Target::open_alone(HeldDirectory::open(&self.root()).unwrap(), OPTIONS, Some(&new)).unwrap()
    }

    /// A whole session.
    fn run_session(&self) {
        let root = self.root();
        let mut extras = Extras::default();
        for text in ["d/gone", "d/gone/f"] {
            extras.push(&listed(&root, text));
        }
        let approved = extras.approve(4, RemovalLimit::Default).unwrap();
        let target = self.open();
        for text in ["d/f", "d/new"] {
            let entry = entry(text, EntryKind::File { size: 4 }, 0o600);
            target.plan(&entry).unwrap();
            let mut new = target.create(&entry).unwrap();
            new.write(b"new!").unwrap();
            new.commit().unwrap();
        }
        target.keep(&entry("d/mode", EntryKind::File { size: 6 }, 0o600)).unwrap();
        assert_eq!(target.remove(&approved, &|_| false, &mut |_| {}), []);
        assert_eq!(target.finish(), []);
    }

    fn assert_is_as_before(&self, when: &str) {
        assert_eq!(snapshot(&self.root()), self.before, "{when}");
        assert_eq!(fs::read_dir(self.trash()).unwrap().count(), 0, "{when}");
    }
}

/// Content, mode and time of all below a folder; of the folder itself its time does not count.
fn snapshot(root: &Path) -> BTreeMap<PathBuf, String> {
    let mut all = BTreeMap::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for found in fs::read_dir(&folder).unwrap() {
            let at = found.unwrap().path();
            let metadata = fs::metadata(&at).unwrap();
            let content = if metadata.is_dir() { None } else { Some(fs::read(&at).unwrap()) };
            if metadata.is_dir() {
                folders.push(at.clone());
            }
            let time = (metadata.mtime(), metadata.mtime_nsec());
            all.insert(at, format!("{content:?} {:o} {time:?}", metadata.mode()));
        }
    }
    all
}

#[test]
fn undoing_that_is_cut_after_any_step_is_done_by_the_next() {
    for steps in 0.. {
        let place = Place::new();
        place.run_session();
        let mut undoing = Undoing::begin(&place.trash()).unwrap();
        let taken = (0..steps).take_while(|_| undoing.step()).count();
        // As when a process dies: no directory gets its time back.
        drop(undoing);
        let undone = undo(&place.trash()).unwrap();
        assert_eq!(undone.problems, [], "after {steps} steps");
        // Which time "d" had is known to the session that was cut only.
        let d = fs::File::open(place.root().join("d")).unwrap();
        d.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(5)).unwrap();
        place.assert_is_as_before(&format!("after {steps} steps"));
        if taken < steps {
            assert!(steps > 6, "the session was expected to take more than {steps} steps");
            return;
        }
    }
}

#[test]
fn a_session_that_was_cut_between_its_word_and_its_deed_is_undone() {
    type Cut = fn(&Place, &Target);
    let cuts: [(&str, Cut); 3] = [
        ("nothing done", |_, _| {}),
        ("kept, and not replaced", |_, target| {
            let above = target.0.directory_above(&path("d/f")).unwrap();
            target.0.trash.as_ref().unwrap().keep(&path("d/f"), &above).unwrap();
        }),
        ("made in the trash, and not removed", |place, target| {
            let (trash, path) = (target.0.trash.as_ref().unwrap(), path("d/gone"));
            trash.note(&Action::removed(&path, Some(described(&place.root().join("d/gone"))))).unwrap();
            trash.make_directory(&path).unwrap();
        }),
    ];
    for (name, cut) in cuts {
        let place = Place::new();
        let target = place.open();
        announce_everything(&place, &target);
        cut(&place, &target);
        drop(target);
        let undone = undo(&place.trash()).unwrap();
        assert_eq!((undone.problems, undone.restored, undone.removed), (vec![], 0, 0), "{name}");
        place.assert_is_as_before(name);
        assert_eq!(fs::metadata(place.root().join("d/f")).unwrap().nlink(), 1);
    }
}

/// Writes down actions of every kind and takes none.
fn announce_everything(place: &Place, target: &Target) {
    let other = Left::Other { inode: 1, size: 1, mtime: Time(0, 0) };
    let held = || described(&place.root().join("d/mode"));
    let anew = Described { mode: 0o600, ..held() };
    for action in [
        Action::created(&path("d/new"), other),
        Action::created(&path("nowhere/new"), Left::directory()),
        Action::replaced(&path("d/f"), other),
        Action::removed(&path("d/gone/f"), None),
        Action::described(&path("nothing"), held(), anew.clone()),
        Action::described(&path("d/mode"), held(), anew),
    ] {
        target.0.trash.as_ref().unwrap().note(&action).unwrap();
    }
}

fn described(at: &Path) -> Described {
    let metadata = fs::metadata(at).unwrap();
    let mtime =
        Timestamp { seconds: metadata.mtime(), nanoseconds: metadata.mtime_nsec().try_into().unwrap() };
    let owner = Owner { user: metadata.uid(), group: metadata.gid() };
    Described::directory(metadata.mode() & 0o7777, mtime, owner, &[])
}
