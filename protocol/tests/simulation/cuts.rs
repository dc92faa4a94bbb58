//! The link breaks behind every byte of a small session.

use ketch_protocol::{
    message::{Consent, TargetView},
    session::Ending,
};

use super::{
    Side,
    link::{Break, Cut},
    source::Fault,
    tree::{Node, Tree, file, path, tree},
    world::World,
};

/// Files, a directory, a link, an empty file, and one that is given up.
fn small_session(consent: Consent, view: TargetView) -> World {
    let tree = tree([
        ("d", Node::Directory),
        ("d/a", file("some content")),
        ("d/empty", file("")),
        ("d/gone", file("not for long")),
        ("d/link", Node::Link(b"a".to_vec())),
        ("z", file("the last")),
    ]);
    let mut world = World::new(tree, consent, view);
    world.source.faults.insert(path("d/gone"), Fault::Truncated { to: 4 });
    world
}

/// What the target holds at the end when nothing breaks.
fn expected(world: &World) -> Tree {
    let mut tree = world.source.tree.clone();
    tree.remove(&path("d/gone"));
    tree
}

fn nothing_is_half_visible(world: &World) -> bool {
    let expected = expected(world);
    world.target.tree.iter().all(|(path, node)| expected.get(path) == Some(node))
}

fn cut_everywhere(consent: Consent, view: TargetView, said_by: Side, kind: Break) {
    let mut whole = small_session(consent, view);
    whole.run_to_completion();
    assert_eq!(whole.target.tree, expected(&whole));
    for after_bytes in 0..whole.link.carried(said_by) {
        let mut world = small_session(consent, view);
        world.link.cut = Some(Cut { said_by, after_bytes, kind });
        world.run();
        let case = format!("{said_by:?} {kind:?} {after_bytes}: {:?}", world.endings());
        assert!(nothing_is_half_visible(&world), "{case}");
        match world.endings() {
            (Ending::Complete(_), Ending::Failed(_)) => {
                panic!("only the sender thinks that all is well, {case}")
            }
            (_, Ending::Complete(_)) => assert_eq!(world.target.tree, expected(&world), "{case}"),
            (Ending::Failed(sender), Ending::Failed(receiver)) => {
                assert!(!sender.to_string().is_empty() && !receiver.to_string().is_empty(), "{case}");
            }
        }
    }
}

#[test]
fn a_reset_anywhere_ends_both_sides_and_leaves_nothing_half_visible() {
    for (consent, view) in [(Consent::Given, TargetView::Empty), (Consent::Pending, TargetView::Occupied)] {
        for side in [Side::Sender, Side::Receiver] {
            cut_everywhere(consent, view, side, Break::Reset);
        }
    }
}

#[test]
fn silence_from_anywhere_on_ends_both_sides_too() {
    for side in [Side::Sender, Side::Receiver] {
        cut_everywhere(Consent::Given, TargetView::Empty, side, Break::DeadAir);
    }
}
