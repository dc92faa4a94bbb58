//! A target that cannot take what comes: both ends stop soon, say where and why, and leave nothing half
//! visible.

use std::{fs, path::Path, time::Duration};

use ketch::swarm::TransportKind::{self, Quic, Tcp};

use crate::{
    mounts::Mounts,
    place::{Place, assert_same, noise},
    process::{Ended, Ketch, with_arguments},
};

/// From the failure to the end of both.
const SOON: Duration = Duration::from_secs(2);

/// A receiver among the mounts.
fn receive(place: &Place, mounts: &Mounts, ticket: &str) -> Ketch {
    let command = mounts.within(env!("CARGO_BIN_EXE_ketch"));
    let arguments = place.receive_arguments(ticket, &[]);
    Ketch::start(with_arguments(command, &place.path("receiver"), &arguments.each()))
}

/// Both ends stopped at a guard for want of space, and the receiver's cause is the one that both print.
fn assert_no_space(ended: Ended) -> String {
    let ended = ended.expect(5);
    let error = ended.event("error")["error"].as_str().unwrap().to_owned();
    assert!(error.contains("no space left"), "{error}");
    assert!(ended.stderr.contains(&error), "{ended:#?}");
    error
}

/// Every visible file has its whole content.
fn assert_visible_are_whole(source: &Path, target: &Path) {
    let Ok(entries) = fs::read_dir(target) else { return };
    for entry in entries.map(Result::unwrap).filter(|entry| entry.file_name() != ".ketch-partial") {
        let (original, copy) = (source.join(entry.file_name()), entry.path());
        if copy.is_dir() {
            assert_visible_are_whole(&original, &copy);
        } else {
            assert!(fs::read(&original).unwrap() == fs::read(&copy).unwrap(), "{}", copy.display());
        }
    }
}

/// The source does not fit a file system with these options. With `enlarged` ones, the same commands
/// finish.
async fn fills(place: &Place, transport: TransportKind, options: &str, enlarged: &str, words: &str) {
    let Some(mounts) = Mounts::tmpfs(&place.target(), options).await else { return };
    let tree: &[&Path] = &[&place.offered("tree")];
    let (sender, ticket) = place.send(transport, tree, &[]).await;
    let receiver = receive(place, &mounts, &ticket).end().await;
    let sender = sender.end_within(SOON).await;
    let (told, cause) = (assert_no_space(sender), assert_no_space(receiver));
    assert!(cause.contains(words), "{cause}");
    assert!(told.contains(&cause), "the sender says {told}, the receiver {cause}");
    let target = mounts.see(&place.target());
    assert_visible_are_whole(&place.source(), &target);

    let remount =
        mounts.within("mount").args(["-o", &format!("remount,{enlarged}")]).arg(place.target()).status();
    assert!(remount.await.unwrap().success());
    let (sender, same) = place.send_again(tree).await;
    assert_eq!(same, ticket);
    receive(place, &mounts, &ticket).end().await.expect(0);
    sender.end().await.expect(0);
    assert_same(&place.source(), &target);
}

/// Small files take a page each, so more of them fit by their lengths than by what they take.
fn write_small_files(place: &Place, count: usize) {
    (0..count).for_each(|index| drop(place.write(&format!("tree/small/{index:05}"), [1])));
}

#[tokio::test]
async fn a_disk_that_many_files_fill_is_named() {
    for transport in [Tcp, Quic] {
        let place = Place::new();
        write_small_files(&place, 1_500);
        fills(&place, transport, "size=4m", "size=64m", "at \"tree/small/").await;
    }
}

#[tokio::test]
async fn a_disk_that_a_large_file_fills_is_named() {
    for transport in [Tcp, Quic] {
        let place = Place::new();
        write_small_files(&place, 600);
        place.write("tree/large", noise(15 << 20, 1));
        fills(&place, transport, "size=16m", "size=64m", "at \"tree/").await;
    }
}

#[tokio::test]
async fn a_disk_without_room_for_names_is_named() {
    let place = Place::new();
    write_small_files(&place, 300);
    fills(&place, Tcp, "size=64m,nr_inodes=100", "nr_inodes=1000", "at \"tree/small/").await;
}

#[tokio::test]
async fn what_is_known_not_to_fit_is_not_begun() {
    for transport in [Tcp, Quic] {
        let place = Place::new();
        place.write("tree/large", noise(20 << 20, 1));
        fills(&place, transport, "size=16m", "size=64m", "are free").await;
    }
}

#[tokio::test]
async fn a_read_only_target_is_named_on_both_ends_and_the_ticket_stays_good() {
    let place = Place::new();
    let file = place.write("file", "content");
    let folder = place.path("read only");
    fs::create_dir(&folder).unwrap();
    let script = "mount --bind \"$1\" \"$1\" && mount -o remount,ro,bind \"$1\"";
    let Some(mounts) = Mounts::new(script, &folder).await else { return };
    let (mut sender, mut ticket) = place.send(Tcp, &[&file], &[]).await;

    for target in [folder.clone(), folder.join("new")] {
        let arguments: [&dyn AsRef<std::ffi::OsStr>; 4] = [&"receive", &ticket, &target, &"--json"];
        let command = mounts.within(env!("CARGO_BIN_EXE_ketch"));
        let command = with_arguments(command, &place.path("receiver"), &arguments);
        let ended = Ketch::start(command).end().await.expect(5);
        let told = sender.end_within(SOON).await.expect(5);
        let named = format!("cannot write to \"{}\"", target.display());
        for stderr in [&ended.stderr, &told.stderr] {
            assert!(stderr.contains(&named) && stderr.contains("Read-only file system"), "{stderr}");
        }
        let same;
        (sender, same) = place.send_again(&[&file]).await;
        assert_eq!(same, ticket);
        ticket = same;
    }

    Ketch::start(place.receive(&ticket, &[])).end().await.expect(0);
    sender.end().await.expect(0);
}

#[tokio::test]
async fn a_target_that_is_a_file_is_named() {
    let place = Place::new();
    let (sender, ticket) = place.send(Quic, &[&place.write("file", "content")], &[]).await;
    for below in ["", "/below"] {
        fs::write(place.target(), "mine").unwrap();
        let target = format!("{}{below}", place.target().display());
        let command = crate::process::ketch(&place.path("receiver"), &[&"receive", &ticket, &target]);
        let ended = Ketch::start(command).end().await.expect(5);
        assert!(ended.stderr.contains(&format!("\"{target}\" is not a directory")), "{ended:#?}");
    }
    fs::remove_file(place.target()).unwrap();
    Ketch::start(place.receive(&ticket, &[])).end().await.expect(0);
    sender.end().await.expect(0);
}
