//! What is offered arrives, whatever it is and however it travels.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path};

use ketch::swarm::TransportKind::{Quic, Tcp};
use ketch_fixtures::tree::Shape;

use crate::{
    place::{BOTH, Place, account, noise},
    process::Ended,
};

/// Both ends ended well and say the same.
fn assert_done(sender: Ended, receiver: Ended) -> Vec<u64> {
    let (sent, stored) = (sender.expect(0).event("done"), receiver.expect(0).event("done"));
    assert_eq!(account(&sent), account(&stored));
    assert_eq!(sent["listed"], sent["sent"]);
    account(&stored)
}

/// A shape crosses; `forget` takes from the source what is not carried on purpose.
async fn crosses_every_way(shape: Shape, forget: fn(&Path)) {
    for transport in BOTH {
        for layout in ["bundle", "files"] {
            let place = Place::new();
            let tree = place.offered("tree");
            shape.write(7, &tree).unwrap();
            let (sender, receiver) = place.cross(transport, &[&tree], &["--layout", layout], &[]).await;
            assert_done(sender, receiver);
            forget(&tree);
            place.assert_equal();
        }
    }
}

#[tokio::test]
async fn every_legal_name_mode_and_time_arrives() {
    crosses_every_way(Shape::Names, |tree| {
        // The sticky bit is not carried, nor are set-user-id and set-group-id.
        let sticky = tree.join("modes/directory-1777");
        fs::set_permissions(sticky, fs::Permissions::from_mode(0o777)).unwrap();
    })
    .await;
}

#[tokio::test]
async fn a_tree_of_source_code_arrives() {
    crosses_every_way(Shape::Source { files: 600 }, |_| {}).await;
}

#[tokio::test]
async fn many_small_files_arrive() {
    crosses_every_way(Shape::Small { files: 300, bytes: 4_096 }, |_| {}).await;
}

#[tokio::test]
async fn a_file_alone_arrives_whatever_its_length() {
    // Empty, small, the longest that crosses whole, one byte more, and many ranges with a short last one.
    for length in [0, 1, 8 << 20, (8 << 20) + 1, 20_000_001] {
        for transport in BOTH {
            let place = Place::new();
            let file = place.write("file", noise(length, 1));
            let (sender, receiver) = place.cross(transport, &[&file], &[], &[]).await;
            assert_eq!(assert_done(sender, receiver), [1, 1, 0, 0, 0]);
            assert!(fs::read(place.target().join("file")).unwrap() == noise(length, 1));
            place.assert_equal();
        }
    }
}

#[tokio::test]
async fn an_empty_directory_arrives() {
    let place = Place::new();
    let directory = place.offered("empty");
    fs::create_dir(&directory).unwrap();
    let (sender, receiver) = place.cross(Quic, &[&directory], &[], &[]).await;
    assert_eq!(assert_done(sender, receiver), [1, 1, 0, 0, 0]);
    place.assert_equal();
}

#[tokio::test]
async fn two_paths_arrive_side_by_side() {
    let place = Place::new();
    let (file, tree) = (place.write("a file", "alone"), place.offered("tree"));
    Shape::Small { files: 10, bytes: 10 }.write(7, &tree).unwrap();
    let (sender, receiver) = place.cross(Tcp, &[&tree, &file], &[], &["--durability", "file"]).await;
    assert_done(sender, receiver);
    place.assert_equal();
}

#[tokio::test]
async fn a_large_file_amid_small_ones_arrives_in_either_layout() {
    for layout in ["bundle", "files"] {
        let place = Place::new();
        Shape::Small { files: 50, bytes: 100 }.write(7, &place.offered("tree/small")).unwrap();
        place.write("tree/large", noise(20 << 20, 2));
        let paths: &[&Path] = &[&place.offered("tree")];
        let (sender, receiver) = place.cross(Quic, paths, &["--layout", layout], &[]).await;
        assert_done(sender, receiver);
        place.assert_equal();
    }
}
