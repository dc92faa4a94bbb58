//! How many one-way journeys a session takes, whatever the number of files.

use ketch_protocol::{
    limits::WINDOW_ENTRIES,
    message::{Consent, TargetView},
};

use super::{
    tree::{Node, Tree, file, large_content, path, small_files},
    world::{LATENCY, World},
};

/// Flights of fresh copies of 1, 100 and 10,000 small files.
fn flights(consent: Consent, view: TargetView) -> [f64; 3] {
    [1, 100, 10_000].map(|count| {
        let mut world = World::new(small_files(count), consent, view);
        world.run_to_completion();
        assert!(world.target.tree == world.source.tree, "the trees differ");
        world.flights()
    })
}

#[test]
fn a_copy_into_nothing_takes_four_flights() {
    // ask; offer, manifest and content; done; farewell.
    assert_eq!(flights(Consent::Given, TargetView::Empty), [4.0; 3]);
}

#[test]
fn a_copy_into_an_occupied_target_takes_six_flights() {
    // ask; offer and manifest; want; content; done; farewell.
    assert_eq!(flights(Consent::Given, TargetView::Occupied), [6.0; 3]);
}

#[test]
fn consent_adds_one_round_trip_to_a_copy_into_nothing() {
    // ask; offer and manifest; accept; content; done; farewell.
    assert_eq!(flights(Consent::Pending, TargetView::Empty), [6.0; 3]);
}

#[test]
fn consent_adds_nothing_where_content_must_be_wanted_anyway() {
    // ask; offer and manifest; accept and want; content; done; farewell.
    assert_eq!(flights(Consent::Pending, TargetView::Occupied), [6.0; 3]);
}

#[test]
fn a_delta_adds_one_round_trip_for_the_recipe_and_one_for_lists() {
    for (length, expected) in [(100_000, 8.0), (10_000_000, 10.0)] {
        let old = large_content(length);
        let mut new = old.clone();
        new.insert(1_000, 7);
        let mut world = World::onto([(path("f"), file(new))].into(), [(path("f"), file(old))].into());
        world.target.overwrite = true;
        world.run_to_completion();
        // ask; offer and manifest; want; recipe; (want; list;) want; piece; done; farewell.
        assert_eq!(world.flights(), expected, "{length}");
    }
}

#[test]
fn an_equal_tree_without_content_takes_four_flights() {
    // ask; offer and manifest; done; farewell.
    let directories: Tree = (0..100).map(|index| (path(&format!("d{index:03}")), Node::Directory)).collect();
    let mut world = World::onto(directories.clone(), directories);
    world.run_to_completion();
    assert_eq!(world.flights(), 4.0);
}

#[test]
fn a_stream_that_holds_little_takes_a_flight_for_each_time_it_is_full() {
    let mut world = World::fresh([(path("f"), file(large_content(1_000_000)))].into());
    world.link.stream_bytes = Some(100_000);
    world.run_to_completion();
    // As without a bound, and ten times more for what follows the first 100,000 bytes.
    assert_eq!(world.flights(), 14.0);
    assert!(world.target.tree == world.source.tree, "the trees differ");
    // ask; done; farewell.
    assert_eq!(world.idle, 3 * LATENCY);
}

#[test]
fn a_tree_beyond_the_window_completes() {
    let count = WINDOW_ENTRIES as usize + 5_000;
    let tree: Tree = (0..count).map(|index| (path(&format!("f{index:06}")), file(""))).collect();
    let mut world = World::fresh(tree);
    world.run_to_completion();
    assert_eq!(world.counts().listed, count as u64);
    // One more round trip for each window: the rest follows what was settled of the first.
    assert_eq!(world.flights(), 6.0);
}

#[test]
fn consent_is_asked_when_the_window_is_full_and_the_rest_follows() {
    let count = WINDOW_ENTRIES as usize + 10;
    let tree: Tree = (0..count).map(|index| (path(&format!("f{index:06}")), file(""))).collect();
    let mut world = World::new(tree, Consent::Pending, TargetView::Empty);
    world.run_to_completion();
    assert_eq!(world.target.tree.len(), count);
}

#[test]
fn a_manifest_of_the_longest_names_is_cut_into_messages_that_fit() {
    let directories = ["x"; 15].map(|letter| letter.repeat(255)).join("/");
    let parents: Vec<String> =
        (1..=15).map(|depth| ["x"; 15].map(|letter| letter.repeat(255))[..depth].join("/")).collect();
    let mut tree: Tree = parents.iter().map(|parent| (path(parent), Node::Directory)).collect();
    for index in 0..200 {
        tree.insert(path(&format!("{directories}/{index:0>255}")), file("x"));
    }
    let mut world = World::fresh(tree.clone());
    world.run_to_completion();
    assert!(world.source.batches > 10, "{} batches", world.source.batches);
    assert!(world.target.tree == tree, "the trees differ");
}
