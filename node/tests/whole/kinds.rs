//! What a sync makes of every kind of entry, beside every kind that may stand in its place.

use std::{
    fs,
    os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
    time::{Duration, SystemTime},
};

use ketch::swarm::TransportKind::Tcp;

use crate::{
    place::{account, assert_same, noise},
    process::Ended,
    serving::{Serving, changes, write},
};

fn changed(ended: &Ended) -> Vec<String> {
    changes(ended).into_iter().map(|(path, _)| path).collect()
}

fn inode(path: &Path) -> u64 {
    fs::metadata(path).unwrap().ino()
}

/// What writing would change: path, inode, kind and mode, times, and content.
type State = (PathBuf, u64, u32, [i64; 4], Vec<u8>);

/// The state of a tree.
fn state(root: &Path) -> Vec<State> {
    let metadata = fs::symlink_metadata(root).unwrap();
    let times = [metadata.mtime(), metadata.mtime_nsec(), metadata.ctime(), metadata.ctime_nsec()];
    let content = if metadata.is_file() { fs::read(root).unwrap() } else { Vec::new() };
    let mut state = vec![(root.to_owned(), metadata.ino(), metadata.mode(), times, content)];
    if metadata.is_dir() {
        let mut inside: Vec<_> = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path()).collect();
        inside.sort();
        inside.iter().for_each(|path| state.extend(self::state(path)));
    }
    state
}

/// `a first name` and, many entries after it, `z/last`, which is another name of the same file.
fn link_far_away(root: &Path) {
    write(root, "a first name", "before");
    for name in 0..2_000 {
        write(root, &format!("many/{name}"), "");
    }
    fs::create_dir(root.join("z")).unwrap();
    fs::hard_link(root.join("a first name"), root.join("z/last")).unwrap();
}

#[tokio::test]
async fn every_name_of_a_file_gets_its_new_content() {
    let serving = Serving::with(Tcp, "read").await;
    link_far_away(&serving.shared());
    serving.pull(&[]).await.expect(0);
    write(&serving.shared(), "a first name", "after!!");
    let said = serving.pull(&["-n"]).await.expect(0);
    let pulled = serving.pull(&["-i"]).await.expect(0);
    assert_same(&serving.shared(), &serving.place.target());
    let target = serving.place.target();
    assert_eq!(inode(&target.join("a first name")), inode(&target.join("z/last")));
    assert_eq!(changed(&pulled), ["a first name", "z/last"]);
    assert_eq!(changes(&said), changes(&pulled));
    let again = serving.pull(&["-i"]).await.expect(0);
    assert_eq!(changed(&again), [""; 0]);
}

#[tokio::test]
async fn a_name_of_a_file_that_was_replaced_is_removed_like_any_other() {
    let serving = Serving::with(Tcp, "read").await;
    write(&serving.shared(), "a", "before");
    fs::hard_link(serving.shared().join("a"), serving.shared().join("b")).unwrap();
    serving.pull(&[]).await.expect(0);
    fs::remove_file(serving.shared().join("b")).unwrap();
    write(&serving.shared(), "a", "after!!");
    serving.pull(&["--delete"]).await.expect(0);
    assert_same(&serving.shared(), &serving.place.target());
}

/// Makes something of each of two kinds at each pair of them; nothing is one.
fn make_every_pair(left: &Path, right: &Path) {
    const KINDS: [&str; 5] = ["directory", "file", "hard link", "nothing", "symlink"];
    let make = |root: &Path, name: &str, kind: &str, content: &str| match kind {
        "directory" => write(root, &format!("{name}/inside"), content),
        "file" => write(root, name, content),
        "hard link" => fs::hard_link(root.join("~"), root.join(name)).unwrap(),
        "symlink" => symlink(content, root.join(name)).unwrap(),
        _ => {}
    };
    write(left, "~", "left");
    write(right, "~", "on the right");
    for here in KINDS {
        for there in KINDS {
            let name = format!("{here} {there}");
            make(left, &name, here, "left");
            make(right, &name, there, "on the right");
        }
    }
}

#[tokio::test]
async fn every_kind_takes_the_place_of_every_other() {
    for rights in ["read", "mirror"] {
        let serving = Serving::with(Tcp, rights).await;
        let (source, target) = match rights {
            "read" => (serving.shared(), serving.place.target()),
            _ => (serving.place.source(), serving.shared()),
        };
        make_every_pair(&source, &target);
        let options = ["--delete", "--max-delete", "100%", "-i", "-n"];
        let sync = async |options: &[&str]| match rights {
            "read" => serving.pull(options).await.expect(0),
            _ => serving.push(options).await.expect(0),
        };
        let before = (state(&source), state(&target));
        let said = sync(&options).await;
        assert!(before == (state(&source), state(&target)), "a dry run wrote something");
        let done = sync(&options[..4]).await;
        assert_same(&source, &target);
        let first = inode(&target.join("hard link directory"));
        assert_eq!(first, inode(&target.join("hard link symlink")));
        assert_eq!(changes(&said), changes(&done));
        assert_eq!(account(&said.event("done")), account(&done.event("done")));
        assert_eq!(changed(&sync(&options[..4]).await), [""; 0]);
    }
}

#[tokio::test]
async fn holes_stay_holes_when_a_file_changes() {
    let serving = Serving::with(Tcp, "read").await;
    let path = serving.shared().join("sparse");
    let file = fs::File::create(&path).unwrap();
    file.set_len(40 << 20).unwrap();
    file.write_all_at(&noise(100_000, 1), 9 << 20).unwrap();
    serving.pull(&[]).await.expect(0);
    file.write_all_at(&noise(30_000, 2), 20 << 20).unwrap();
    serving.pull(&[]).await.expect(0);
    assert_same(&serving.shared(), &serving.place.target());
    let blocks = |path: &Path| fs::metadata(path).unwrap().blocks();
    let (here, there) = (blocks(&path), blocks(&serving.place.target().join("sparse")));
    assert!(there * 20 <= here * 21, "{there} blocks, {here} in the source");
}

#[tokio::test]
async fn what_only_describes_an_entry_crosses_without_content() {
    let serving = Serving::with(Tcp, "read").await;
    for name in ["mode", "time", "closed/inside", "folder/inside"] {
        write(&serving.shared(), name, "x");
    }
    symlink("nowhere", serving.shared().join("dangling")).unwrap();
    let mode = |name: &str, mode: u32| {
        fs::set_permissions(serving.shared().join(name), fs::Permissions::from_mode(mode)).unwrap();
    };
    mode("closed", 0o555);
    serving.pull(&[]).await.expect(0);
    assert_same(&serving.shared(), &serving.place.target());

    mode("mode", 0o604);
    mode("folder", 0o700);
    let before_the_epoch = SystemTime::UNIX_EPOCH - Duration::from_nanos(1_234_567_891);
    let time = fs::File::options().write(true).open(serving.shared().join("time")).unwrap();
    time.set_modified(before_the_epoch).unwrap();
    let pulled = serving.pull(&["-i"]).await.expect(0);
    assert_eq!(pulled.event("done")["moved_bytes"], 0);
    assert_eq!(changed(&pulled), ["folder", "mode", "time"]);
    assert!(changes(&pulled).iter().all(|(_, change)| change == "described"), "{pulled:#?}");
    assert_same(&serving.shared(), &serving.place.target());

    mode("closed", 0o755);
    write(&serving.shared(), "closed/new", "x");
    fs::remove_file(serving.shared().join("closed/inside")).unwrap();
    mode("closed", 0o555);
    serving.pull(&["--delete"]).await.expect(0);
    assert_same(&serving.shared(), &serving.place.target());
}
