//! Random trees over links that deliver in random pieces.

use ketch_protocol::{
    message::{Consent, Policy, Removal, RemovalLimit, TargetView},
    path::EntryPath,
};
use proptest::{collection::vec, option, prelude::*};

use super::{
    tree::{Node, Tree},
    world::{LATENCY, World},
};

/// A tree of the named nodes and the directories above them; what would lie below a file is left out.
fn grow(nodes: Vec<(Vec<u8>, Node)>) -> Tree {
    let mut tree = Tree::new();
    for (name, node) in nodes {
        let Ok(path) = EntryPath::parse(&name) else { continue };
        let parents: Vec<EntryPath> = (0..name.len())
            .filter(|&end| name[end] == b'/')
            .filter_map(|end| EntryPath::parse(&name[..end]).ok())
            .collect();
        let fits = parents.iter().all(|parent| tree.get(parent).is_none_or(|node| *node == Node::Directory));
        if fits && !tree.contains_key(&path) {
            tree.extend(parents.into_iter().map(|parent| (parent, Node::Directory)));
            tree.insert(path, node);
        }
    }
    tree
}

fn node() -> impl Strategy<Value = Node> {
    prop_oneof![
        Just(Node::Directory),
        vec(any::<u8>(), 0..2_000).prop_map(Node::File),
        vec(1u8..=255, 1..30).prop_map(Node::Link),
    ]
}

fn tree() -> impl Strategy<Value = Tree> {
    let name = vec(prop_oneof![Just(b'/'), Just(b'a'), Just(b'-'), Just(0xffu8)], 1..8);
    vec((name, node()), 0..40).prop_map(grow)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn any_tree_crosses_any_link(
        tree in tree(),
        pieces in vec(1usize..3_000, 0..8),
        data_streams in 1usize..4,
        lag in 0u32..3,
        stream_bytes in option::of(100usize..5_000),
        occupied: bool,
        pending: bool,
    ) {
        let view = if occupied { TargetView::Occupied } else { TargetView::Empty };
        let consent = if pending { Consent::Pending } else { Consent::Given };
        let mut world = World::new(tree, consent, view);
        world.link.pieces = pieces;
        world.link.control_lag = LATENCY * lag;
        world.link.stream_bytes = stream_bytes;
        world.source.data_streams = data_streams;
        world.run_to_completion();
        prop_assert_eq!(&world.target.tree, &world.source.tree);
    }

    #[test]
    fn any_tree_becomes_the_same_as_any_other(tree in tree(), there in tree(), known: bool, pushed: bool) {
        let removal = Removal::Extra { limit: RemovalLimit::Default, force_empty: true };
        let policy = Policy { removal, ..Policy::default() };
        let mut world = if pushed { World::push(tree, there, policy) } else { World::pull(tree, there) };
        world.source.hashes_known = known;
        world.run_to_completion();
        prop_assert_eq!(&world.target.tree, &world.source.tree);
    }

    #[test]
    fn any_tree_becomes_any_other_when_overwriting(tree in tree(), there in tree()) {
        let mut world = World::onto(tree, there);
        world.target.overwrite = true;
        world.run_to_completion();
        for (path, node) in &world.source.tree {
            prop_assert_eq!(world.target.tree.get(path), Some(node));
        }
    }
}
