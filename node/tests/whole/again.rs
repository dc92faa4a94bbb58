//! What is in the target already: equal things cost nothing, different ones are kept and named unless they
//! are to be replaced, and nothing leads out of the target.

use std::{
    fs,
    os::unix::fs::symlink,
    path::{Path, PathBuf},
};

use ketch::swarm::TransportKind::{Quic, Tcp};
use ketch_fixtures::tree::Shape;

use crate::{
    place::{BOTH, Place, account, noise},
    process::Ended,
};

/// Both ends say that this alone was not stored as listed, and why.
fn assert_left(ends: (Ended, Ended), path: &str, cause: &str) {
    let (sender, receiver) = (ends.0.expect(4), ends.1.expect(4));
    let expected = [(path.to_owned(), cause.to_owned())];
    assert_eq!((sender.problems(), receiver.problems()), (expected.to_vec(), expected.to_vec()));
    assert_eq!(account(&sender.event("done")), account(&receiver.event("done")));
}

fn assert_all(ends: (Ended, Ended)) {
    ends.0.expect(0);
    ends.1.expect(0);
}

#[tokio::test]
async fn an_unchanged_tree_costs_no_content() {
    for transport in BOTH {
        let place = Place::new();
        let tree = place.offered("tree");
        Shape::Source { files: 200 }.write(7, &tree).unwrap();
        place.write("tree/large", noise((8 << 20) + 5, 1));
        assert_all(place.cross(transport, &[&tree], &[], &[]).await);
        let (sender, receiver) = place.cross(transport, &[&tree], &[], &[]).await;
        let done = receiver.expect(0).event("done");
        assert_eq!((&done["moved_bytes"], &done["sent"]), (&0.into(), &0.into()), "{done}");
        assert_eq!(done["kept"], done["listed"]);
        assert_eq!(account(&sender.expect(0).event("done")), account(&done));
        place.assert_equal();
    }
}

/// A file that differs in the target is kept and named, and with `--overwrite` replaced.
async fn differs(name: &str, source: &[u8], target: &[u8]) {
    let place = Place::new();
    let tree = place.offered("tree");
    let there = place.target().join("tree").join(name);
    place.write("tree/other", "other");
    place.write(&format!("tree/{name}"), source);
    fs::create_dir_all(there.parent().unwrap()).unwrap();
    fs::write(&there, target).unwrap();

    let ends = place.cross(Tcp, &[&tree], &[], &[]).await;
    assert_left(ends, &format!("tree/{name}"), "exists");
    assert!(fs::read(&there).unwrap() == target);
    assert_eq!(fs::read(there.with_file_name("other")).unwrap(), b"other");

    assert_all(place.cross(Tcp, &[&tree], &[], &["--overwrite"]).await);
    place.assert_equal();
}

#[tokio::test]
async fn a_different_file_of_the_same_size_is_kept_unless_it_is_to_be_replaced() {
    differs("file", b"new", b"old").await;
}

#[tokio::test]
async fn a_file_of_another_size_is_kept_unless_it_is_to_be_replaced() {
    differs("file", b"new content", b"old").await;
    differs("file", b"", b"old").await;
}

#[tokio::test]
async fn a_large_file_that_differs_in_one_byte_is_kept_unless_it_is_to_be_replaced() {
    let new = noise((9 << 20) + 1, 1);
    let mut old = new.clone();
    old[5 << 20] ^= 1;
    differs("large", &new, &old).await;
}

#[tokio::test]
async fn a_directory_in_the_way_of_a_file_is_never_replaced() {
    let place = Place::new();
    let file = place.write("file", "content");
    fs::create_dir_all(place.target().join("file/inner")).unwrap();
    for options in [&[][..], &["--overwrite"]] {
        assert_left(place.cross(Quic, &[&file], &[], options).await, "file", "exists");
        assert!(place.target().join("file/inner").is_dir());
    }
}

#[tokio::test]
async fn a_file_in_the_way_of_a_directory_is_named_with_all_that_belongs_below() {
    let place = Place::new();
    place.write("tree/file", "content");
    fs::create_dir(place.target()).unwrap();
    fs::write(place.target().join("tree"), "mine").unwrap();
    let (sender, receiver) = place.cross(Quic, &[&place.offered("tree")], &[], &[]).await;
    let (sender, receiver) = (sender.expect(4), receiver.expect(4));
    assert_eq!(sender.problems(), receiver.problems());
    assert_eq!(
        receiver.problems().iter().map(|(path, _)| &path[..]).collect::<Vec<_>>(),
        ["tree", "tree/file"]
    );
    assert_eq!(fs::read(place.target().join("tree")).unwrap(), b"mine");
}

/// A folder beside the target, to which a link in the target leads.
fn neighbour(place: &Place) -> PathBuf {
    let folder = place.path("neighbour");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("file"), "untouched").unwrap();
    folder
}

fn assert_untouched(folder: &Path) {
    assert_eq!(fs::read_dir(folder).unwrap().count(), 1);
    assert_eq!(fs::read(folder.join("file")).unwrap(), b"untouched");
}

#[tokio::test]
async fn a_symlink_at_the_place_of_a_tree_is_not_followed() {
    for options in [&[][..], &["--overwrite"]] {
        let place = Place::new();
        place.write("tree/file", "new");
        let neighbour = neighbour(&place);
        fs::create_dir(place.target()).unwrap();
        symlink(&neighbour, place.target().join("tree")).unwrap();
        let (sender, receiver) = place.cross(Tcp, &[&place.offered("tree")], &[], options).await;
        assert_eq!(sender.code, receiver.code);
        assert_untouched(&neighbour);
    }
}

#[tokio::test]
async fn a_symlink_at_the_place_of_a_file_is_kept_or_replaced_and_not_followed() {
    let place = Place::new();
    let file = place.write("file", "new");
    let neighbour = neighbour(&place);
    fs::create_dir(place.target()).unwrap();
    symlink(neighbour.join("file"), place.target().join("file")).unwrap();

    assert_left(place.cross(Tcp, &[&file], &[], &[]).await, "file", "exists");
    assert!(place.target().join("file").is_symlink());
    assert_untouched(&neighbour);

    assert_all(place.cross(Tcp, &[&file], &[], &["--overwrite"]).await);
    place.assert_equal();
    assert_untouched(&neighbour);
}
