//! Someone changes the tree while it is read or written, or names what is not theirs to name.

use std::{
    fs,
    os::unix::fs::symlink,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use ketch::tree::{Found, PRIVATE_FOLDER, Source, Target, TargetError, Trouble};
use ketch_protocol::problem::Cause;

use crate::setting::{CAREFUL, OVERWRITING, directory, file, link, names, open, skip};

/// Rounds of a race: enough that both states are met hundreds of times, within a second.
const ROUNDS: usize = 375;

/// Swaps `folder/d` with a symlink to `victim` again and again while `act` runs.
pub(crate) fn while_swapped(folder: &Path, victim: &Path, act: impl FnOnce()) {
    let (real, aside) = (folder.join("d"), folder.join("d.real"));
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                fs::rename(&real, &aside).unwrap();
                symlink(victim, &real).unwrap();
                // On a single core the other side would hardly ever meet the symlink.
                std::thread::yield_now();
                fs::remove_file(&real).unwrap();
                fs::rename(&aside, &real).unwrap();
            }
        });
        let finish = Finish(&done);
        act();
        drop(finish);
    });
}

/// Ends the swapping also when an assertion fails.
struct Finish<'a>(&'a AtomicBool);

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn problem<T: std::fmt::Debug>(result: Result<T, Trouble>) -> Cause {
    match result {
        Err(Trouble::Problem(problem)) => problem.cause,
        other => panic!("a problem was expected, not {other:?}"),
    }
}

#[test]
fn a_directory_swapped_for_a_symlink_leads_no_write_out() {
    let (folder, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::create_dir(folder.path().join("d")).unwrap();
    while_swapped(folder.path(), victim.path(), || {
        for _ in 0..ROUNDS {
            // A target of its own each round, so that no handle is kept from a good moment.
            let target = open(folder.path(), OVERWRITING);
            for entry in [directory("d/below"), file("d/empty", 0), link("d/link", "x")] {
                let _ = target.plan(&entry);
            }
            if let Ok(mut new) = target.create(&file("d/file", 1)) {
                let _ = new.write(b"x").and_then(|()| new.commit());
            }
            let _ = target.partial(&file("d/large", 9 << 20)).map(|partial| partial.discard());
            let _ = target.keep(&file("d/file", 1));
            target.finish();
        }
    });
    assert_eq!(names(victim.path()), [""; 0]);
}

#[test]
fn a_directory_swapped_for_a_symlink_leads_no_read_out() {
    let (folder, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let tree = folder.path().join("t");
    fs::create_dir_all(tree.join("d")).unwrap();
    // Alike in all that is checked, so that only the way to it can tell them apart.
    for (path, content) in [(tree.join("d/file"), "ours"), (victim.path().join("file"), "hers")] {
        fs::write(&path, content).unwrap();
        fs::File::options().write(true).open(&path).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
    }
    fs::write(victim.path().join("theirs"), "").unwrap();
    let open = || Source::open(std::slice::from_ref(&tree)).unwrap();
    let listed: Vec<_> = open().scan().collect();
    let Some(Found::Entry(file)) = listed.last() else { panic!("{listed:?}") };
    while_swapped(&tree, victim.path(), || {
        for _ in 0..ROUNDS {
            // Opened anew each round, so that no handle is kept from a good moment.
            if let Ok(opened) = open().open_file(file) {
                let mut buffer = [0; 4];
                opened.read_at(&mut buffer, 0).unwrap();
                assert_eq!(&buffer, b"ours");
            }
            let leads_out = |found| matches!(found, Found::Entry(entry) if entry.path.leaf() == b"theirs");
            assert!(!open().scan().any(leads_out));
        }
    });
}

#[test]
fn a_symlink_in_the_target_is_never_followed() {
    let (folder, victim) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    fs::write(victim.path().join("file"), "theirs").unwrap();
    for (name, to) in [("out", victim.path()), ("in", Path::new("real"))] {
        symlink(to, folder.path().join(name)).unwrap();
    }
    fs::create_dir(folder.path().join("real")).unwrap();
    symlink(victim.path().join("file"), folder.path().join("file")).unwrap();
    let target = open(folder.path(), CAREFUL);

    for entry in
        [file("out/x", 1), file("in/x", 0), directory("out/d"), link("out/l", "x"), file("out/file", 6)]
    {
        assert_eq!(problem(target.plan(&entry)), Cause::Unwritable, "{entry:?}");
        assert_eq!(problem(target.create(&entry)), Cause::Unwritable);
        assert_eq!(problem(target.partial(&entry)), Cause::Unwritable);
        assert!(target.existing(&entry).is_err());
    }
    assert!(target.existing(&file("file", 6)).is_err());
    let replacing = open(folder.path(), OVERWRITING);
    assert!(replacing.keep(&file("file", 6)).is_err());
    replacing.plan(&file("file", 3)).unwrap();
    let mut new = replacing.create(&file("file", 3)).unwrap();
    new.write(b"new").unwrap();
    new.commit().unwrap();

    assert_eq!(fs::read(folder.path().join("file")).unwrap(), b"new");
    assert_eq!(fs::read(victim.path().join("file")).unwrap(), b"theirs");
    assert_eq!(names(victim.path()), ["file"]);
    assert_eq!(names(&folder.path().join("real")), [""; 0]);
}

#[test]
fn the_private_folder_cannot_be_named_by_a_peer() {
    let folder = tempfile::tempdir().unwrap();
    let target = open(folder.path(), OVERWRITING);
    for name in [PRIVATE_FOLDER.to_owned(), format!("{PRIVATE_FOLDER}/x.part"), format!("d/{PRIVATE_FOLDER}")]
    {
        for entry in [file(&name, 0), file(&name, 1), directory(&name), link(&name, "/etc")] {
            assert_eq!(problem(target.plan(&entry)), Cause::Unwritable);
            assert_eq!(problem(target.create(&entry)), Cause::Unwritable);
            assert_eq!(problem(target.partial(&entry)), Cause::Unwritable);
        }
    }
    target.finish();
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn a_planted_private_folder_is_refused() {
    let victim = tempfile::tempdir().unwrap();
    let plant: [fn(&Path, &Path); 3] = [
        |victim, at| symlink(victim, at).unwrap(),
        |_, at| symlink("nowhere", at).unwrap(),
        |_, at| fs::write(at, "").unwrap(),
    ];
    for plant in plant {
        let folder = tempfile::tempdir().unwrap();
        plant(victim.path(), &folder.path().join(PRIVATE_FOLDER));
        let refused = Target::open(folder.path(), CAREFUL);
        assert!(matches!(refused, Err(TargetError::Planted { .. })), "{refused:?}");
    }
    assert_eq!(names(victim.path()), [""; 0]);
    if rustix::process::geteuid().is_root() {
        let folder = tempfile::tempdir().unwrap();
        let foreign = folder.path().join(PRIVATE_FOLDER);
        fs::create_dir(&foreign).unwrap();
        std::os::unix::fs::chown(&foreign, Some(65_534), None).unwrap();
        assert!(matches!(Target::open(folder.path(), CAREFUL), Err(TargetError::Planted { .. })));
    } else {
        skip("only root can give a folder away");
    }
}
