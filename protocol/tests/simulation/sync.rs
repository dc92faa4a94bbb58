//! One tree becomes the same as another, at the cost of what differs.

use ketch_protocol::{
    limits::WHOLE_BYTES,
    message::{Policy, Removal, RemovalLimit, TargetView},
    problem::{Cause, Problem},
    session::{Ending, receiver::Agreed},
};

use super::{
    Side,
    link::{Break, Cut},
    tree::{Node, Tree, catalogue, file, path, small_files, tree},
    world::World,
};

/// What an unchanged tree may cost each way.
const NO_OP_BYTES: u64 = 1_024;

fn mirror() -> Policy {
    let removal = Removal::Extra { limit: RemovalLimit::Default, force_empty: false };
    Policy { removal, ..Policy::default() }
}

/// `count` files in one folder, each with its own content.
fn flat(count: usize) -> Tree {
    (0..count).map(|index| (path(&format!("file{index:05}")), file(format!("content of {index}")))).collect()
}

/// Changes every file of which the number is a multiple of `step`.
fn change(tree: &mut Tree, step: usize) -> usize {
    let mut changed = 0;
    for node in tree.values_mut().step_by(step) {
        let Node::File(content) = node else { continue };
        content.push(b'!');
        changed += 1;
    }
    changed
}

/// Every way in which two trees can differ.
fn differing() -> (Tree, Tree) {
    let source = tree([
        ("changed", file("new content")),
        ("dir", Node::Directory),
        ("dir/new", file("new")),
        ("dir/same", file("same")),
        ("empty", file("")),
        ("file now", file("was a directory")),
        ("link", Node::Link(b"changed".to_vec())),
        ("new", Node::Directory),
        ("new/below", file("below")),
        ("same", Node::Link(b"there".to_vec())),
    ]);
    let target = tree([
        ("changed", file("old content")),
        ("dir", Node::Directory),
        ("dir/same", file("same")),
        ("extra", Node::Directory),
        ("extra/below", file("of no use")),
        ("file now", file("of another length")),
        ("link", Node::Link(b"elsewhere".to_vec())),
        ("same", Node::Link(b"there".to_vec())),
    ]);
    (source, target)
}

#[test]
fn a_pull_makes_the_trees_the_same() {
    let (source, target) = differing();
    let mut world = World::pull(source.clone(), target);
    world.run_to_completion();
    assert_eq!(world.target.tree, source);
    let counts = world.counts();
    assert_eq!((counts.listed, counts.sent, counts.kept, counts.removed), (10, 7, 3, 2));
    assert_eq!(world.source.told, 12, "the sender knows what became of each");
}

#[test]
fn a_push_makes_the_trees_the_same() {
    let (source, target) = differing();
    let mut world = World::push(source.clone(), target, mirror());
    world.run_to_completion();
    assert_eq!(world.target.tree, source);
    let counts = world.counts();
    assert_eq!((counts.listed, counts.sent, counts.kept, counts.removed), (10, 7, 3, 2));
}

#[test]
fn without_removal_what_is_extra_stays() {
    let (source, target) = differing();
    let mut world = World::push(source.clone(), target.clone(), Policy::default());
    world.run_to_completion();
    assert_eq!(world.counts().removed, 0);
    let mut expected = target;
    expected.extend(source);
    assert_eq!(world.target.tree, expected);
}

#[test]
fn a_preview_says_what_would_be_and_does_nothing() {
    let (source, target) = differing();
    let mut whole = World::push(source.clone(), target.clone(), mirror());
    whole.run_to_completion();
    let mut world = World::push(source, target.clone(), Policy { preview: true, ..mirror() });
    world.target.planned_bytes = 26;
    world.run_to_completion();
    assert_eq!(world.target.tree, target);
    assert_eq!(world.counts(), whole.counts());
    assert_eq!(world.source.content_bytes, 0);
    assert_eq!(world.source.machine.planned_bytes(), 26);
}

#[test]
fn a_preview_into_nothing_sends_no_content() {
    let mut world = World::push(small_files(10), Tree::new(), Policy { preview: true, ..mirror() });
    world.target.view = TargetView::Empty;
    world.run_to_completion();
    assert_eq!((world.source.content_bytes, world.counts().sent), (0, 11));
    assert!(world.target.tree.is_empty());
}

#[test]
fn files_of_unknown_content_are_compared_by_their_hashes() {
    let (source, target) = differing();
    let mut world = World::pull(source.clone(), target);
    world.source.hashes_known = false;
    world.run_to_completion();
    assert_eq!(world.target.tree, source);
    assert_eq!(world.counts().kept, 3);
}

#[test]
fn problems_of_the_scan_are_named_and_counted_though_all_is_equal() {
    let mut world = World::pull(small_files(20), small_files(20));
    world.source.problems = vec![Problem::new(path("d000/pipe"), Cause::Special, "a FIFO")];
    world.run_to_completion();
    let counts = world.counts();
    assert_eq!((counts.listed, counts.kept, counts.skipped, counts.problems), (22, 21, 1, 1));
    assert_eq!(world.target.reports, world.source.problems);
}

#[test]
fn an_unchanged_tree_takes_four_flights_and_a_kilobyte() {
    // ask; offer and root; done; farewell.
    for count in [1, 1_000, 65_536] {
        let mut world = World::pull(flat(count), flat(count));
        world.run_to_completion();
        let counts = world.counts();
        assert_eq!((counts.kept, counts.listed), (count as u64, count as u64));
        assert_eq!(world.flights(), 4.0);
        for side in [Side::Sender, Side::Receiver] {
            let bytes = world.link.carried(side);
            assert!(bytes <= NO_OP_BYTES, "{side:?}: {bytes} bytes for {count} entries");
        }
    }
}

#[test]
fn an_unchanged_tree_is_pushed_in_five_flights_and_a_kilobyte() {
    let mut world = World::push(flat(1_000), flat(1_000), mirror());
    world.run_to_completion();
    assert_eq!((world.flights(), world.counts().kept), (5.0, 1_000));
    for side in [Side::Sender, Side::Receiver] {
        assert!(world.link.carried(side) <= NO_OP_BYTES, "{side:?}: {}", world.link.carried(side));
    }
}

#[test]
fn roots_on_which_the_two_agreed_before_make_extras_cost_nothing() {
    let (source, mut target) = (flat(1_000), flat(1_000));
    target.insert(path("extra"), file("mine"));
    let roots =
        Agreed { theirs: catalogue(&source, true, 1).root(), own: catalogue(&target, true, 2).root() };
    let mut world = World::pull(source.clone(), target.clone());
    world.target.remove = false;
    world.target.agreed = Some(roots);
    world.run_to_completion();
    assert_eq!((world.flights(), world.counts().kept), (4.0, 1_000));

    // A tree that is not what it was is compared.
    change(&mut target, 500);
    let mut world = World::pull(source, target);
    world.target.remove = false;
    world.target.agreed = Some(roots);
    world.run_to_completion();
    assert_eq!(world.counts().sent, 2);
}

#[test]
fn one_change_takes_one_round_trip_for_each_level() {
    let (source, mut target) = (flat(65_536), flat(65_536));
    change(&mut target, 65_536);
    let levels = catalogue(&source, true, 1).levels();
    let mut world = World::pull(source, target);
    world.run_to_completion();
    assert_eq!((world.counts().sent, world.counts().kept), (1, 65_535));
    // ask; root; then expand and nodes for each level; list; manifest; want; content; done; farewell.
    assert_eq!(world.flights(), f64::from(8 + 2 * levels));
    assert!(levels <= 3, "{levels} levels");
    let bytes = world.link.carried(Side::Sender) + world.link.carried(Side::Receiver);
    assert!(bytes <= 16 * 1_024, "{bytes} bytes");
}

#[test]
fn any_number_of_changes_takes_equal_flights() {
    let source = flat(20_000);
    let flights = [20_000, 200, 2].map(|step| {
        let mut target = source.clone();
        let changed = change(&mut target, step) as u64;
        let mut world = World::pull(source.clone(), target);
        world.run_to_completion();
        assert_eq!((world.counts().sent, world.counts().kept), (changed, 20_000 - changed));
        assert!(world.target.tree == world.source.tree, "the trees differ");
        world.flights()
    });
    assert_eq!(flights, [flights[0]; 3]);
}

#[test]
fn a_copy_of_a_share_into_nothing_takes_as_many_flights_as_of_an_offer() {
    let mut world = World::push(small_files(100), Tree::new(), mirror());
    world.target.view = TargetView::Empty;
    world.run_to_completion();
    // One more: it is proposed.
    assert_eq!(world.flights(), 5.0);
    assert!(world.target.tree == world.source.tree, "the trees differ");
}

#[test]
fn more_changes_than_the_window_complete() {
    let source: Tree = (0..70_000).map(|index| (path(&format!("d{index:05}")), Node::Directory)).collect();
    let target: Tree = (0..70_000).map(|index| (path(&format!("d{index:05}")), file(""))).collect();
    let mut world = World::pull(source.clone(), target);
    world.run_to_completion();
    assert_eq!(world.counts().sent, 70_000);
    assert!(world.target.tree == source, "the trees differ");
}

/// A session with something of everything, of a few hundred bytes.
fn small_session(pushed: bool) -> World {
    let (mut source, target) = differing();
    source.insert(path("large"), file(vec![7; WHOLE_BYTES as usize / 4_096]));
    if pushed { World::push(source, target, mirror()) } else { World::pull(source, target) }
}

#[test]
fn a_cut_anywhere_loses_nothing_of_the_account() {
    for pushed in [false, true] {
        let mut whole = small_session(pushed);
        whole.run_to_completion();
        for said_by in [Side::Sender, Side::Receiver] {
            for after_bytes in 0..whole.link.carried(said_by) {
                let mut world = small_session(pushed);
                world.link.cut = Some(Cut { said_by, after_bytes, kind: Break::Reset });
                world.run();
                check_cut(&world, &format!("{said_by:?} {after_bytes}: {:?}", world.endings()));
            }
        }
    }
}

fn check_cut(world: &World, case: &str) {
    let (sent, stored) = (world.source.machine.counts(), world.target.counts());
    for counts in [sent, stored] {
        let settled = counts.sent + counts.kept + counts.skipped + counts.failed;
        assert!(settled <= counts.listed, "{case}: {counts:?}");
    }
    assert!(sent.sent <= stored.sent && sent.removed <= stored.removed, "{case}: {sent:?} {stored:?}");
    match world.endings() {
        (Ending::Complete(_), Ending::Failed(_)) => panic!("only the sender thinks that all is well, {case}"),
        (_, Ending::Complete(counts)) => {
            assert_eq!(world.target.tree, world.source.tree, "{case}");
            assert_eq!(counts.sent + counts.kept, counts.listed, "{case}");
        }
        (Ending::Failed(_), Ending::Failed(_)) => {
            let stored =
                world.target.tree.iter().filter(|(path, node)| world.source.tree.get(path) == Some(node));
            assert!(stored.count() as u64 >= sent.sent, "{case}");
        }
    }
}
