//! What content crosses, and what happens to what cannot.

use ketch_protocol::{
    limits::{RANGE_BYTES, WHOLE_BYTES},
    message::Secret,
    problem::{Cause, Problem, Reason},
    session::Ending,
};

use super::{
    source::Fault,
    tree::{Node, Tree, file, large_content, path, small_files, tree},
    world::{LATENCY, World},
};

fn varied_tree() -> Tree {
    tree([
        ("d", Node::Directory),
        ("d/empty", file("")),
        ("d/file", file("content")),
        ("d/link", Node::Link(b"../elsewhere".to_vec())),
        ("large", file(large_content(WHOLE_BYTES + 5))),
        ("whole", file(large_content(WHOLE_BYTES))),
    ])
}

#[test]
fn every_kind_of_entry_arrives() {
    let mut world = World::fresh(varied_tree());
    world.source.data_streams = 3;
    world.run_to_completion();
    assert!(world.target.tree == world.source.tree, "the trees differ");
}

#[test]
fn an_equal_tree_costs_no_content() {
    let mut world = World::onto(varied_tree(), varied_tree());
    world.run_to_completion();
    assert_eq!(world.source.content_bytes, 0);
    let counts = world.counts();
    assert_eq!((counts.kept, counts.sent), (counts.listed, 0));
}

#[test]
fn a_changed_file_of_the_same_size_is_fetched_when_overwriting() {
    let mut world = World::onto(small_files(50), small_files(50));
    let changed = path("d000/f000007");
    let Some(Node::File(content)) = world.target.tree.get_mut(&changed) else { unreachable!("it is a file") };
    content[0] ^= 1;
    world.target.overwrite = true;
    world.run_to_completion();
    assert!(world.target.tree == world.source.tree, "the trees differ");
    assert_eq!(world.counts().sent, 1);
}

#[test]
fn a_different_file_is_kept_and_named_otherwise() {
    let there = tree([("same size", file("mine")), ("size", file("mine"))]);
    let mut world =
        World::onto(tree([("same size", file("your")), ("size", file("yours, longer"))]), there.clone());
    world.run_to_completion();
    assert_eq!(world.target.tree, there);
    assert_eq!(world.counts().skipped, 2);
    let named: Vec<_> =
        world.source.reports.iter().map(|problem| (problem.path.clone(), problem.cause)).collect();
    assert_eq!(named, [(path("size"), Cause::Exists), (path("same size"), Cause::Exists)]);
    assert_eq!(world.source.content_bytes, 0);
}

/// Bytes in which no part is like another.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 1u64;
    let mut next = || {
        // xorshift64 (Marsaglia, "Xorshift RNGs", 2003).
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..length.div_ceil(8)).flat_map(|_| next()).take(length).collect()
}

#[test]
fn a_changed_file_is_made_from_its_old_version() {
    let (small, large) = (noise(100_000), noise(9_000_000));
    let with = |content: &[u8], byte: u8| [&content[..50_000], &[byte], &content[50_000..]].concat();
    let mut world = World::onto(
        tree([
            ("large", file(with(&large, 1))),
            ("same size", file(with(&small, 2))),
            ("small", file(with(&small, 1))),
        ]),
        tree([("large", file(&large)), ("same size", file(with(&small, 3))), ("small", file(&small))]),
    );
    world.target.overwrite = true;
    world.run_to_completion();
    assert!(world.target.tree == world.source.tree, "the trees differ");
    assert_eq!(world.counts().sent, 3);
    assert!(world.source.content_bytes < 150_000, "{} bytes", world.source.content_bytes);
}

#[test]
fn of_a_file_that_is_held_in_part_only_the_rest_is_fetched() {
    let size = 12 * RANGE_BYTES + 17;
    let content = large_content(size);
    let held = [0, 1, 2, 7, 11]
        .map(|index| (index, content[(index * RANGE_BYTES) as usize..][..RANGE_BYTES as usize].to_vec()));
    let mut world = World::onto(tree([("large", file(&content))]), Tree::new());
    world.target.held.insert(path("large"), held.into());
    world.run_to_completion();
    assert!(world.target.tree == world.source.tree, "the trees differ");
    assert_eq!(world.source.content_bytes, size - 5 * RANGE_BYTES);
}

#[test]
fn a_file_that_changes_while_it_is_read_costs_itself_alone() {
    for (fault, cause) in [
        (Fault::Truncated { to: 3 }, Cause::Changed),
        (Fault::Truncated { to: 0 }, Cause::Changed),
        (Fault::Grown, Cause::Changed),
        (Fault::Gone, Cause::Vanished),
        (Fault::Damaged, Cause::Corrupt),
    ] {
        let mut world = World::fresh(small_files(10));
        let hit = path("d000/f000004");
        world.source.faults.insert(hit.clone(), fault);
        world.run_to_completion();
        let mut expected = world.source.tree.clone();
        expected.remove(&hit);
        assert!(world.target.tree == expected, "{fault:?}: something else was lost");
        for reports in [&world.source.reports, &world.target.reports] {
            let named: Vec<_> = reports.iter().map(|problem| (&problem.path, problem.cause)).collect();
            assert_eq!(named, [(&hit, cause)], "{fault:?}");
        }
    }
}

#[test]
fn a_large_file_that_changes_is_given_up_whole() {
    let mut world =
        World::fresh(tree([("large", file(large_content(WHOLE_BYTES + 1))), ("small", file("x"))]));
    world.source.faults.insert(path("large"), Fault::Truncated { to: 100 });
    world.run_to_completion();
    assert_eq!(world.target.tree, tree([("small", file("x"))]));
    assert_eq!(world.counts().failed, 1);
}

#[test]
fn problems_found_when_directories_are_completed_reach_the_sender() {
    let mut world = World::fresh(tree([("d", Node::Directory)]));
    world.target.late = (0..600).map(|_| Problem::new(path("d"), Cause::Metadata, "x".repeat(900))).collect();
    world.run_to_completion();
    assert_eq!(world.source.reports.len(), 600);
    assert_eq!((world.counts().listed, world.counts().failed), (601, 600));
}

#[test]
fn content_that_overtakes_its_manifest_waits_for_it() {
    let mut world = World::fresh(varied_tree());
    world.link.control_lag = LATENCY * 3;
    world.run_to_completion();
    assert!(world.target.tree == world.source.tree, "the trees differ");
}

#[test]
fn a_wrong_secret_gets_nothing() {
    let mut world = World::fresh(small_files(1));
    world.source.secret = Secret::from_bytes([8; 16]);
    world.run();
    let (Ending::Failed(sender), Ending::Failed(receiver)) = world.endings() else {
        panic!("{:?}", world.endings());
    };

    assert_eq!((sender.reason(), receiver.reason()), (Some(Reason::NotAdmitted), Some(Reason::NotAdmitted)));
    assert_eq!(world.source.batches, 0);
}
