//! Two trees become the same, whichever side dials.

use std::{
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
};

use ketch::{
    swarm::TransportKind::{Quic, Tcp},
    transfer::Direction::{Pull, Push},
};
use ketch_fixtures::tree::Shape;
use rustix::process::Signal;

use crate::{
    mounts::Mounts,
    place::{BOTH, Place, account, assert_same, noise},
    process::{Ketch, ketch},
    serving::{Serving, Trees, changes, number, settle, write},
};

/// What lies in a folder, beside what a session that was refused still cleans up.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    entries.filter_map(|name| name.into_string().ok()).filter(|name| name != ".ketch-partial").collect()
}

fn owned(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(path, change)| ((*path).to_owned(), (*change).to_owned())).collect()
}

#[tokio::test]
async fn a_share_is_pulled_and_pulled_again_at_no_cost() {
    for transport in BOTH {
        let serving = Serving::with(transport, "read").await;
        Shape::Source { files: 200 }.write(7, &serving.shared().join("tree")).unwrap();
        fs::write(serving.shared().join("large"), noise(9 << 20, 1)).unwrap();
        let first = serving.pull(&[]).await.expect(0);
        assert_same(&serving.shared(), &serving.place.target());
        let again = serving.pull(&["-i"]).await.expect(0);
        assert_eq!(number(&again, "moved_bytes"), 0);
        assert_eq!(number(&again, "kept"), number(&first, "sent"));
        assert_eq!(changes(&again), []);
    }
}

#[tokio::test]
async fn what_crossed_as_a_delta_is_known_to_both_sides_afterwards() {
    let serving = Serving::with(Tcp, "read").await;
    let (old, added) = (noise(1 << 20, 1), noise(1_000, 2));
    fs::write(serving.shared().join("large"), &old).unwrap();
    serving.pull(&[]).await.expect(0);
    fs::write(serving.shared().join("large"), [old, added].concat()).unwrap();
    settle().await;
    let changed = serving.pull(&[]).await.expect(0);
    assert!(number(&changed, "moved_bytes") < 500_000, "{changed:#?}");

    let again = serving.pull(&[]).await.expect(0);
    assert_eq!((number(&again, "moved_bytes"), number(&again, "found_bytes")), (0, 0));
    assert_same(&serving.shared(), &serving.place.target());
}

#[tokio::test]
async fn a_tree_is_pushed_below_a_share_and_both_ends_say_the_same() {
    for transport in BOTH {
        let mut serving = Serving::with(transport, "write").await;
        Shape::Source { files: 200 }.write(7, &serving.place.offered("tree")).unwrap();
        let pushed = serving.sync(serving.place.source(), serving.docs("/a/b"), &[]).end().await.expect(0);
        assert_same(&serving.place.source(), &serving.shared().join("a/b"));
        let began = serving.serve.event("began").await;
        assert_eq!((&began["share"], &began["path"]), (&"docs".into(), &"a/b".into()));
        let served = serving.serve.event("done").await;
        assert_eq!(account(&served), account(&pushed.event("done")));
    }
}

#[tokio::test]
async fn only_what_changed_is_changed() {
    let serving = Serving::with(Tcp, "read").await;
    for name in ["same", "longer", "mode", "folder/inner", "gone"] {
        write(&serving.shared(), name, "content");
    }
    symlink("same", serving.shared().join("link")).unwrap();
    serving.pull(&[]).await.expect(0);

    write(&serving.shared(), "longer", "longer content");
    write(&serving.shared(), "new/file", "x");
    fs::set_permissions(serving.shared().join("mode"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::remove_file(serving.shared().join("link")).unwrap();
    symlink("elsewhere", serving.shared().join("link")).unwrap();
    fs::remove_file(serving.shared().join("gone")).unwrap();
    let pulled = serving.pull(&["-i"]).await.expect(0);
    let expected = [
        ("link", "updated"),
        ("longer", "updated"),
        ("mode", "described"),
        ("new", "created"),
        ("new/file", "created"),
    ];
    assert_eq!(changes(&pulled), owned(&expected));
    assert!(serving.place.target().join("gone").exists());
}

#[tokio::test]
async fn with_delete_the_target_becomes_the_source_exactly() {
    for rights in ["mirror", "read"] {
        let serving = Serving::with(Quic, rights).await;
        let (source, target) = match rights {
            "read" => (serving.shared(), serving.place.target()),
            _ => (serving.place.source(), serving.shared()),
        };
        write(&source, "a/b/kept", "x");
        write(&source, "was a folder", "now a file");
        write(&target, "a/extra/deep", "x");
        write(&target, "was a folder/with", "content");
        write(&target, "a-extra", "x");
        fs::set_permissions(target.join("a"), fs::Permissions::from_mode(0o755)).unwrap();
        let ended = match rights {
            "read" => serving.pull(&["--delete"]).await,
            _ => serving.push(&["--delete"]).await,
        };
        let ended = ended.expect(0);
        assert_same(&source, &target);
        assert_eq!(number(&ended, "removed"), 5);
    }
}

#[tokio::test]
async fn too_much_is_not_removed_and_an_empty_source_removes_nothing() {
    let serving = Serving::with(Tcp, "mirror").await;
    write(&serving.place.source(), "kept", "x");
    for name in 0..30 {
        write(&serving.shared(), &format!("extra {name}"), "x");
    }
    let refused = serving.push(&["--delete"]).await.expect(5);
    assert!(refused.stderr.contains("30 of 30 entries would be removed"), "{refused:#?}");
    let limited = serving.push(&["--delete", "--max-delete", "29"]).await.expect(5);
    assert!(limited.stderr.contains("more than 29"), "{limited:#?}");
    let said = serving.push(&["--delete", "-n"]).await.expect(5);
    assert_eq!(changes(&said).iter().filter(|(_, change)| change == "removed").count(), 30);
    let empty = serving.place.path("empty");
    fs::create_dir(&empty).unwrap();
    let refused = serving.sync(&empty, serving.docs(""), &["--delete"]).end().await.expect(5);
    assert!(refused.stderr.contains("--force-empty"), "{refused:#?}");
    assert_eq!(names(&serving.shared()).len(), 31);

    let forced = ["--delete", "--force-empty", "--max-delete", "100%"];
    serving.sync(&empty, serving.docs(""), &forced).end().await.expect(0);
    assert_eq!(names(&serving.shared()), Vec::<String>::new());
}

#[tokio::test]
async fn a_dry_run_says_what_a_real_run_does_and_writes_nothing() {
    let mut serving = Serving::with(Tcp, "read,mirror").await;
    for (name, content) in [("a/new", "12345"), ("longer", "1234567"), ("b", "x")] {
        write(&serving.place.source(), name, content);
    }
    write(&serving.shared(), "longer", "123");
    write(&serving.shared(), "extra/file", "x");
    let before = fs::metadata(serving.shared()).unwrap();
    let said = serving.push(&["--dry-run", "--delete"]).await.expect(0);
    let after = fs::metadata(serving.shared()).unwrap();
    assert_eq!((before.mtime_nsec(), before.ctime_nsec()), (after.mtime_nsec(), after.ctime_nsec()));
    assert_eq!(number(&said, "planned_bytes"), 13);
    let told = (serving.serve.event("began").await, serving.serve.event("done").await);
    assert_eq!((&told.0["preview"], &told.1["preview"]), (&true.into(), &true.into()));
    let done = serving.push(&["-i", "--delete"]).await.expect(0);
    let told = (serving.serve.event("began").await, serving.serve.event("done").await);
    assert_eq!((&told.0["preview"], &told.1["preview"]), (&false.into(), &false.into()));
    assert_eq!(changes(&said), changes(&done));
    assert_eq!(account(&said.event("done")), account(&done.event("done")));

    // Into a target that is not there, which is not made either.
    let pulled = serving.pull(&["--dry-run"]).await.expect(0);
    assert_eq!(number(&pulled, "sent"), 4);
    assert!(!serving.place.target().exists());
    let below = serving.sync(serving.place.source(), serving.docs("/c/d"), &["-n"]).end().await.expect(0);
    assert_eq!(number(&below, "sent"), 4);
    assert!(!serving.shared().join("c").exists());
}

#[tokio::test]
async fn what_is_known_is_not_read_again() {
    let serving = Serving::with(Tcp, "read").await;
    Shape::Small { files: 50, bytes: 4_096 }.write(7, &serving.shared().join("small")).unwrap();
    fs::write(serving.shared().join("large"), noise(9 << 20, 1)).unwrap();
    settle().await;
    serving.pull(&[]).await.expect(0);
    write(&serving.place.target(), "extra", "of the target alone");
    for _ in 0..2 {
        let again = serving.pull(&[]).await.expect(0);
        assert_eq!((number(&again, "found_bytes"), number(&again, "moved_bytes")), (0, 0));
        assert_eq!(number(&again, "kept"), number(&again, "listed"));
    }
}

#[tokio::test]
async fn what_was_moved_does_not_cross_again_where_moves_are_looked_for() {
    let serving = Serving::with(Tcp, "mirror").await;
    Shape::Small { files: 50, bytes: 4_096 }.write(7, &serving.place.offered("before")).unwrap();
    fs::write(serving.place.offered("before/large"), noise(9 << 20, 1)).unwrap();
    serving.push(&[]).await.expect(0);
    fs::rename(serving.place.offered("before"), serving.place.offered("after")).unwrap();
    let options = ["--find-moves", "--delete", "--max-delete", "100%"];
    let said = serving.push(&[&options[..], &["-n"]].concat()).await.expect(0);
    assert_eq!(number(&said, "planned_bytes"), 0);
    let moved = serving.push(&options).await.expect(0);
    assert_eq!(number(&moved, "moved_bytes"), 0);
    assert_same(&serving.place.source(), &serving.shared());
}

#[tokio::test]
async fn what_was_moved_onto_another_name_crosses_only_where_its_content_is_nowhere() {
    let serving = Serving::with(Tcp, "mirror").await;
    for (name, content) in [("a", "one"), ("b", "two"), ("same", "same")] {
        write(&serving.place.source(), name, content);
    }
    serving.push(&[]).await.expect(0);
    // Two files change places: the first takes the other's content, which that one then has no more.
    let named = |name| serving.place.source().join(name);
    fs::rename(named("a"), named("c")).unwrap();
    fs::rename(named("b"), named("a")).unwrap();
    fs::rename(named("c"), named("b")).unwrap();
    let swapped = serving.push(&["--find-moves", "--delete"]).await.expect(0);
    assert_eq!(number(&swapped, "moved_bytes"), 3);
    assert_same(&serving.place.source(), &serving.shared());
}

/// What lies on a disk that is mounted among `mounts`, and what lies below it.
async fn disk(folder: &Path) -> Option<Mounts> {
    let mounts = Mounts::tmpfs(folder, "size=1m").await?;
    for name in ["a", "b"] {
        write(&mounts.see(folder), name, name);
    }
    write(folder, "c", "c");
    Some(mounts)
}

#[tokio::test]
async fn nothing_is_removed_for_a_source_whose_disk_is_not_mounted() {
    let serving = Serving::with(Tcp, "mirror").await;
    let source = serving.place.path("disk");
    let Some(mounts) = disk(&source).await else { return };
    serving.sync_within(&mounts, &source, serving.docs(""), &[]).await.expect(0);

    for _ in 0..2 {
        let refused = serving.sync(&source, serving.docs(""), &["--delete"]).end().await.expect(5);
        assert!(refused.stderr.contains("lies on another file system"), "{refused:#?}");
        assert!(refused.stderr.contains("--force-empty"), "{refused:#?}");
        // What removes nothing is not refused, and does not make it the known one.
        serving.sync(&source, serving.docs(""), &[]).end().await.expect(0);
    }
    assert_eq!(fs::read(serving.shared().join("b")).unwrap(), b"b");

    serving.sync(&source, serving.docs(""), &["--delete", "--force-empty"]).end().await.expect(0);
    assert_same(&source, &serving.shared());
    fs::remove_file(source.join("c")).unwrap();
    write(&source, "d", "d");
    serving.sync(&source, serving.docs(""), &["--delete"]).end().await.expect(0);
    assert_same(&source, &serving.shared());
}

#[tokio::test]
async fn nothing_is_removed_for_a_share_whose_disk_is_not_mounted() {
    let place = Place::new();
    let Some(mounts) = disk(&place.path("shared")).await else { return };
    let mut serving = Serving::within(place, &mounts, "read").await;
    let target = serving.place.target();
    serving.pull(&["--delete"]).await.expect(0);
    assert_eq!(names(&target).len(), 2);

    let mut unmount = mounts.within("umount");
    // Lazily: the session that was may still hold it.
    assert!(unmount.arg("-l").arg(serving.shared()).status().await.unwrap().success());
    for options in [&["--delete"][..], &["--delete", "-n"]] {
        let refused = serving.pull(options).await.expect(5);
        assert!(refused.stderr.contains("the source lies on another file system"), "{refused:#?}");
        assert!(refused.stderr.contains("--force-empty"), "{refused:#?}");
        let told = serving.serve.event("session_ended").await;
        assert!(told["error"].as_str().unwrap().contains("another file system"), "{told}");
    }
    // What removes nothing is not refused, and does not make it the known one.
    serving.pull(&[]).await.expect(0);
    serving.pull(&["--delete"]).await.expect(5);
    assert_eq!(names(&target).len(), 3);

    serving.pull(&["--delete", "--force-empty", "--max-delete", "100%"]).await.expect(0);
    assert_same(&serving.shared(), &target);
    fs::rename(serving.shared().join("c"), serving.shared().join("d")).unwrap();
    serving.pull(&["--delete"]).await.expect(0);
    assert_same(&serving.shared(), &target);
}

#[tokio::test]
async fn a_directory_that_is_made_anew_for_each_sync_needs_no_force() {
    for direction in [Push, Pull] {
        let trees = Trees { serving: Serving::with(Tcp, "read,mirror").await, direction };
        for build in ["one", "two", "three"] {
            let _ = fs::remove_dir_all(trees.source());
            write(&trees.source(), build, build);
            trees.sync(&["--delete"]).end().await.expect(0);
            assert_same(&trees.source(), &trees.target());
        }
    }
}

#[tokio::test]
async fn content_crosses_no_faster_than_it_may() {
    for transport in BOTH {
        let serving = Serving::with(transport, "read,write").await;
        fs::write(serving.place.offered("noise"), noise(400 << 10, 1)).unwrap();
        fs::write(serving.shared().join("other"), noise(400 << 10, 2)).unwrap();
        let limit = ["--bwlimit", "400K"];
        for (ended, bytes) in
            [(serving.push(&limit).await, 400 << 10), (serving.pull(&limit).await, 800 << 10)]
        {
            let done = ended.expect(0).event("done").clone();
            assert_eq!(done["moved_bytes"], bytes);
            // The first tenth of a second's bytes wait for nothing.
            let least_s = (bytes - (40 << 10)) as f64 / f64::from(400 << 10);
            assert!(done["ready_s"].as_f64().unwrap() >= least_s, "{done}");
        }
    }
}

#[tokio::test]
async fn what_is_excluded_is_neither_sent_nor_removed() {
    let serving = Serving::with(Tcp, "read").await;
    for name in ["kept", "sent.tmp", "folder/inner.tmp", "folder/kept.tmp"] {
        write(&serving.shared(), name, "x");
    }
    write(&serving.place.target(), "own.tmp", "x");
    write(&serving.place.target(), "extra", "x");
    let rules = ["--delete", "--exclude", "*.tmp", "--include", "kept.tmp"];
    serving.pull(&rules).await.expect(0);
    let mut left = names(&serving.place.target());
    left.sort();
    assert_eq!(left, ["folder", "kept", "own.tmp"]);
    assert_eq!(names(&serving.place.target().join("folder")), ["kept.tmp"]);
}

#[tokio::test]
async fn hard_links_stay_hard_links() {
    let serving = Serving::with(Tcp, "read").await;
    fs::write(serving.shared().join("large"), noise(9 << 20, 1)).unwrap();
    fs::hard_link(serving.shared().join("large"), serving.shared().join("other name")).unwrap();
    serving.pull(&[]).await.expect(0);
    let inode = |name: &str| fs::metadata(serving.place.target().join(name)).unwrap().ino();
    assert_eq!(inode("large"), inode("other name"));
}

#[tokio::test]
async fn what_a_push_removed_or_replaced_is_brought_back_from_the_trash() {
    let mut serving = Serving::with_trash().await;
    write(&serving.shared(), "replaced", "before");
    write(&serving.shared(), "removed/inner", "before");
    write(&serving.place.source(), "replaced", "after!");
    write(&serving.place.source(), "created", "x");
    serving.push(&["--delete"]).await.expect(0);
    assert_same(&serving.place.source(), &serving.shared());
    serving.serve.event("done").await;

    let undo = ketch(&serving.place.path("server"), &[&"undo", &serving.place.path("trash"), &"--json"]);
    let undone = Ketch::start(undo).end().await.expect(0);
    assert_eq!(undone.event("undone")["problems"], 0);
    assert_eq!(fs::read(serving.shared().join("replaced")).unwrap(), b"before");
    assert_eq!(fs::read(serving.shared().join("removed/inner")).unwrap(), b"before");
    assert!(!serving.shared().join("created").exists());
}

#[tokio::test]
async fn what_the_owner_of_a_share_excludes_stays_as_it_is() {
    let serving = Serving::with_trash().await;
    write(&serving.shared(), "kept.own", "of the owner");
    write(&serving.place.source(), "kept.own", "of the comer");
    write(&serving.place.source(), "new.own", "x");
    write(&serving.place.source(), "file", "x");
    let said = serving.push(&["--delete", "-n"]).await.expect(0);
    let pushed = serving.push(&["--delete"]).await.expect(0);
    assert_eq!(account(&said.event("done")), account(&pushed.event("done")));
    assert_eq!((number(&pushed, "sent"), number(&pushed, "skipped")), (1, 2));
    assert_eq!(fs::read(serving.shared().join("kept.own")).unwrap(), b"of the owner");
    assert!(!serving.shared().join("new.own").exists());
}

#[tokio::test]
async fn a_name_of_the_book_is_enough() {
    let serving = Serving::with(Tcp, "read").await;
    write(&serving.shared(), "file", "x");
    let add =
        ketch(&serving.place.path("comer"), &[&"peers", &"add", &"desk", &serving.peer, &serving.address]);
    Ketch::start(add).end().await.expect(0);
    let sync = ketch(&serving.place.path("comer"), &[&"sync", &"desk:docs", &serving.place.target()]);
    let ended = Ketch::start(sync).end().await.expect(0);
    assert!(ended.stdout[0].starts_with("changed 1 of 1 entry: 1 B in"), "{ended:#?}");
    assert_same(&serving.shared(), &serving.place.target());
}

#[tokio::test]
async fn a_stranger_can_not_tell_a_share_from_none() {
    let mut serving = Serving::with(Tcp, "write").await;
    write(&serving.shared(), "file", "x");
    let target = serving.place.target();
    let (docs, none) = (serving.docs(""), format!("{}:none", serving.peer));
    let (target, source) = (target.display().to_string(), serving.place.source().display().to_string());
    let asked: [(&str, &str, &str, &[&str]); 5] = [
        ("stranger", &docs, &target, &[]),
        ("stranger", &none, &target, &[]),
        ("stranger", &source, &docs, &[]),
        // One that may write may not read, nor remove.
        ("comer", &docs, &target, &[]),
        ("comer", &source, &docs, &["--delete"]),
    ];
    for (node, source, target, options) in asked {
        let refused = serving.sync_as(node, source, target, options).end().await.expect(3);
        let error = refused.event("error")["error"].as_str().unwrap().to_owned();
        assert_eq!(error, "the peer ended the session: not admitted");
        serving.serve.event("turned_away").await;
    }
    assert_eq!(fs::read_dir(serving.shared()).unwrap().count(), 1);
}

#[tokio::test]
async fn a_link_in_a_share_leads_nowhere() {
    let serving = Serving::with(Tcp, "read,mirror").await;
    write(&serving.place.path("outside"), "secret", "x");
    symlink(serving.place.path("outside"), serving.shared().join("out")).unwrap();
    write(&serving.place.source(), "planted", "x");
    let pulled = serving.sync(serving.docs("/out"), serving.place.target(), &[]).end().await;
    assert!(pulled.code != Some(0), "{pulled:#?}");
    let pushed = serving.sync(serving.place.source(), serving.docs("/out"), &[]).end().await;
    assert!(pushed.code != Some(0), "{pushed:#?}");
    let below = serving.sync(serving.place.source(), serving.docs("/out/deep"), &[]).end().await;
    assert!(below.code != Some(0), "{below:#?}");
    assert!(!serving.place.target().join("secret").exists());
    assert_eq!(fs::read_dir(serving.place.path("outside")).unwrap().count(), 1);
}

/// Starts a push of much and waits until it is under way.
async fn busy_push(serving: &Serving) -> Ketch {
    let large = serving.place.offered("large");
    if !large.exists() {
        fs::write(&large, noise(200 << 20, 1)).unwrap();
    }
    let mut push = serving.sync(serving.place.source(), serving.docs("/busy"), &["--bwlimit", "100M"]);
    // More than the path holds: some of it is stored by then.
    push.event_where("progress", |progress| progress["moved_bytes"].as_u64().unwrap() > 64 << 20).await;
    push
}

#[tokio::test]
async fn a_second_push_into_a_target_is_refused_and_other_sessions_run() {
    let serving = Serving::with(Tcp, "read,write").await;
    let first = busy_push(&serving).await;
    first.signal(Signal::STOP);
    let elsewhere = serving.place.path("elsewhere");
    write(&elsewhere, "file", "x");
    for target in ["/busy", "", "/busy/below"] {
        let second = serving.sync_as("other", &elsewhere, serving.docs(target), &[]).end().await.expect(3);
        assert!(second.stderr.contains("another session writes there"), "{target}: {second:#?}");
    }
    serving.sync_as("other", &elsewhere, serving.docs("/beside"), &[]).end().await.expect(0);
    first.signal(Signal::CONT);
    first.end().await.expect(0);
    assert_same(&serving.place.source(), &serving.shared().join("busy"));
}

#[tokio::test]
async fn a_second_pull_into_a_target_is_refused_until_the_first_is_gone() {
    let serving = Serving::with(Tcp, "read").await;
    fs::write(serving.shared().join("large"), noise(200 << 20, 1)).unwrap();
    let mut first = serving.sync(serving.docs(""), serving.place.target(), &[]);
    first.event_where("progress", |progress| progress["moved_bytes"].as_u64().unwrap() > 1 << 20).await;
    first.signal(Signal::STOP);
    let second =
        serving.sync_as("other", serving.docs(""), serving.place.target(), &[]).end().await.expect(3);
    let error = second.event("error")["error"].as_str().unwrap().to_owned();
    assert!(error.contains("another session is writing to"), "{error}");
    assert!(error.contains(&serving.place.target().display().to_string()), "{error}");
    first.kill().await;
    serving.sync_as("other", serving.docs(""), serving.place.target(), &[]).end().await.expect(0);
    assert_same(&serving.shared(), &serving.place.target());
}

#[tokio::test]
async fn a_peer_that_comes_again_replaces_the_session_that_it_left_silent() {
    let mut serving = Serving::with(Tcp, "write").await;
    let first = busy_push(&serving).await;
    first.signal(Signal::STOP);
    let again = serving.sync(serving.place.source(), serving.docs("/busy"), &[]).end().await.expect(0);
    assert!(number(&again, "found_bytes") > 0, "{again:#?}");
    serving.serve.event("session_ended").await;
    assert_same(&serving.place.source(), &serving.shared().join("busy"));
}

#[tokio::test]
async fn a_node_that_is_stopped_tells_its_peers_and_ends_well() {
    let serving = Serving::with(Tcp, "write").await;
    let push = busy_push(&serving).await;
    serving.serve.signal(Signal::TERM);
    let told = push.end().await.expect(1);
    assert!(told.stderr.contains("the peer ended the session: interrupted"), "{told:#?}");
    serving.serve.end().await.expect(0);
}

#[tokio::test]
async fn a_lost_connection_is_tried_again() {
    let serving = Serving::with(Tcp, "write").await;
    let mut push = busy_push(&serving).await;
    let listen = serving.address.clone();
    serving.serve.signal(Signal::KILL);
    serving.serve.end().await;
    push.event("retrying").await;
    let comer = crate::serving::identity(&serving.place, "comer").await;
    let share = format!("docs={}", serving.place.path("shared").display());
    let allow = format!("{comer}=docs:write");
    let arguments: [&dyn AsRef<std::ffi::OsStr>; 7] =
        [&"serve", &"--listen", &listen, &"--share", &share, &"--allow", &allow];
    let again = Ketch::start(ketch(&serving.place.path("server"), &arguments));
    let ended = push.end().await.expect(0);
    assert!(number(&ended, "found_bytes") > 0, "{ended:#?}");
    assert_same(&serving.place.source(), &serving.place.path("shared").join("busy"));
    drop(again);
}

#[tokio::test]
async fn a_place_that_is_not_there_is_named_to_who_may_know_and_ends_alike_on_either_side() {
    let mut serving = Serving::with(Tcp, "read,write").await;
    fs::write(serving.shared().join("file"), "x").unwrap();
    let (nowhere, file) = (serving.place.path("no source"), serving.shared().join("file"));
    for (source, words) in [(&nowhere, "no source"), (&file, "file")] {
        let local = serving.sync(source, serving.docs(""), &[]).end().await.expect(5);
        assert!(local.stderr.contains(words), "{local:#?}");
    }
    for options in [&[][..], &["-n"]] {
        for (path, words) in
            [("/missing", "cannot open \"missing\" in it"), ("/file", "cannot open \"file\" in it")]
        {
            let shared =
                serving.sync(serving.docs(path), serving.place.target(), options).end().await.expect(5);
            assert!(shared.stderr.contains(words), "{shared:#?}");
        }
        let source = serving.place.source();
        let pushed = serving.sync(&source, serving.docs("/file"), options).end().await.expect(5);
        assert!(pushed.stderr.contains("docs"), "{pushed:#?}");
        let pulled = serving.sync(serving.docs(""), &file, options).end().await.expect(5);
        assert!(pulled.stderr.contains("is not a directory"), "{pulled:#?}");
    }
    // The share itself is gone.
    fs::rename(serving.shared(), serving.place.path("elsewhere")).unwrap();
    for ended in [serving.pull(&[]).await, serving.push(&[]).await, serving.push(&["-n"]).await] {
        assert!(ended.expect(5).stderr.contains("cannot open its root"));
    }
    serving.serve.event("turned_away").await;
}

#[tokio::test]
async fn a_command_line_that_makes_no_sense_is_refused_before_anything_happens() {
    let serving = Serving::with(Tcp, "read").await;
    let lines: [[&str; 4]; 5] = [
        ["sync", "a", "b", "--json"],
        ["sync", "nobody:docs", "b", "--json"],
        ["serve", "--share", "docs=/missing", "--json"],
        ["serve", "--allow", "a=docs:read", "--json"],
        ["peers", "show", "nobody", "--json"],
    ];
    for line in lines {
        let arguments = line.each_ref().map(|word| word as &dyn AsRef<std::ffi::OsStr>);
        let ended = Ketch::start(ketch(&serving.place.path("comer"), &arguments)).end().await;
        assert!(ended.code == Some(2) || line[2] == "docs=/missing" && ended.code == Some(1), "{ended:#?}");
    }
    assert!(!Path::new("b").exists());
}
