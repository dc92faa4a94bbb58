//! A sender that lies about its tree.

use super::*;
use crate::limits::{LEVELS, NARROWING_NODES, NODE_CHILDREN};

fn leaf(number: u64) -> RangeHash {
    let mut hasher = RangeHasher::leaf();
    hasher.update(&number.to_le_bytes());
    hasher.finish()
}

/// The hash of a node with these children.
fn above(children: &[RangeHash]) -> RangeHash {
    let mut hasher = RangeHasher::node();
    children.iter().for_each(|child| hasher.update(&child.0));
    hasher.finish()
}

/// A comparison with a tree of five thousand files, in which the root has been heard.
fn heard(root: RangeHash, levels: u32) -> Narrowing {
    let mut narrowing = Narrowing::new(catalogue_of(&flat_folder(5_000)));
    assert!(matches!(narrowing.hear_root(root, levels), Ok(Step::Expand { .. })));
    narrowing
}

#[test]
fn a_tree_that_is_too_high_is_refused() {
    let mut narrowing = Narrowing::new(catalogue_of(&Tree::new()));
    for levels in [LEVELS + 1, u32::MAX] {
        assert_eq!(narrowing.hear_root(leaf(1), levels), Err(NarrowingError::Levels(levels)));
    }
    assert!(narrowing.hear_root(leaf(1), LEVELS).is_ok());
}

#[test]
fn nodes_that_were_not_asked_for_are_refused() {
    // given
    let children = [leaf(1), leaf(2)];
    let unasked = |level| Err(NarrowingError::Unasked { level });
    // when: before the root
    let mut early = Narrowing::new(catalogue_of(&Tree::new()));
    assert_eq!(early.hear_nodes(0, 0, &children), unasked(0));
    // when: of another level
    let mut narrowing = heard(above(&children), 1);
    assert_eq!(narrowing.hear_nodes(1, 0, &children), unasked(1));
    // when: another root
    assert_eq!(narrowing.hear_root(leaf(1), 1), unasked(1));
    // when: more than there are
    let mut surplus = heard(above(&children), 1);
    assert_eq!(surplus.hear_nodes(0, 0, &[leaf(1), leaf(2), leaf(3)]), unasked(0));
    // when: after the end
    assert!(matches!(narrowing.hear_nodes(0, 0, &children), Ok(Step::List { .. })));
    assert_eq!(narrowing.hear_nodes(0, 2, &children), unasked(0));
    // when: after a tree of one leaf
    let mut single = Narrowing::new(catalogue_of(&Tree::new()));
    assert!(matches!(single.hear_root(leaf(1), 0), Ok(Step::List { .. })));
    assert_eq!(single.hear_nodes(0, 0, &children), unasked(0));
}

#[test]
fn a_message_of_no_nodes_is_refused() {
    let mut narrowing = heard(above(&[leaf(1)]), 1);
    assert_eq!(narrowing.hear_nodes(0, 0, &[]), Err(NarrowingError::Empty { level: 0 }));
}

#[test]
fn children_of_another_node_are_refused_once_as_many_came_as_there_can_be() {
    let mut narrowing = heard(above(&[leaf(1), leaf(2)]), 1);
    let others: Vec<RangeHash> = (10..).take(NODE_CHILDREN).map(leaf).collect();
    let (first, last) = others.split_at(NODE_CHILDREN - 1);
    assert_eq!(narrowing.hear_nodes(0, 0, first), Ok(Step::Wait));
    let forged = NarrowingError::Forged { level: 1, index: 0 };
    assert_eq!(narrowing.hear_nodes(0, NODE_CHILDREN as u64 - 1, last), Err(forged));
}

#[test]
fn a_leaf_cannot_pass_for_a_node() {
    // given: a leaf whose encoding is that of two children
    let children = [leaf(1), leaf(2)];
    let mut hasher = RangeHasher::leaf();
    children.iter().for_each(|child| hasher.update(&child.0));
    // when, then
    let mut narrowing = heard(hasher.finish(), 1);
    assert_eq!(narrowing.hear_nodes(0, 0, &children), Ok(Step::Wait));
}

#[test]
fn a_child_comes_where_the_last_one_ended() {
    let misplaced = |got, expected| Err(NarrowingError::Misplaced { level: 0, got, expected });
    let mut narrowing = heard(above(&[leaf(1), leaf(2), leaf(3)]), 1);
    assert_eq!(narrowing.hear_nodes(0, 1, &[leaf(1)]), misplaced(1, 0));
    assert_eq!(narrowing.hear_nodes(0, 0, &[leaf(1)]), Ok(Step::Wait));
    for wrong in [0, 2, u64::MAX] {
        assert_eq!(narrowing.hear_nodes(0, wrong, &[leaf(2)]), misplaced(wrong, 1));
    }
    let rest = [leaf(2), leaf(3)];
    let all = vec![Run { first: 0, count: 3 }];
    assert_eq!(narrowing.hear_nodes(0, 1, &rest), Ok(Step::List { runs: all }));
}

#[test]
fn where_nodes_are_skipped_their_children_are_too() {
    // given: three nodes, of which the second is also here
    let own = catalogue_of(&flat_folder(10_000));
    let known = own.children(2, &[Run { first: 0, count: 1 }]).unwrap()[0].hashes[1];
    let outer = [above(&[leaf(1)]), known, above(&[leaf(2), leaf(3)])];
    let begin = || {
        let mut narrowing = Narrowing::new(Arc::clone(&own));
        narrowing.hear_root(above(&outer), 2).unwrap();
        let ends = vec![Run { first: 0, count: 1 }, Run { first: 2, count: 1 }];
        assert_eq!(narrowing.hear_nodes(1, 0, &outer), Ok(Step::Expand { level: 1, runs: ends }));
        assert_eq!(narrowing.hear_nodes(0, 0, &[leaf(1)]), Ok(Step::Wait));
        narrowing
    };
    // when: it has 0 or 129 children
    for wrong in [1, 2 + NODE_CHILDREN as u64] {
        let misplaced = NarrowingError::Misplaced { level: 0, got: wrong, expected: 2 };
        assert_eq!(begin().hear_nodes(0, wrong, &[leaf(2)]), Err(misplaced));
    }
    // when: it has 1 or 128
    for possible in [2, 1 + NODE_CHILDREN as u64] {
        let step = begin().hear_nodes(0, possible, &[leaf(2), leaf(3)]);
        let runs = vec![Run { first: 0, count: 1 }, Run { first: possible, count: 2 }];
        assert_eq!(step, Ok(Step::List { runs }));
    }
}

#[test]
fn a_node_that_is_here_comes_once_and_in_order() {
    let own = catalogue_of(&flat_folder(1_000));
    let known = own.children(1, &[Run { first: 0, count: 1 }]).unwrap()[0].hashes;
    for children in [[known[1], known[0]], [known[0], known[0]]] {
        let mut narrowing = Narrowing::new(Arc::clone(&own));
        narrowing.hear_root(above(&children), 1).unwrap();
        let order = NarrowingError::Order { level: 0, index: 1 };
        assert_eq!(narrowing.hear_nodes(0, 0, &children), Err(order));
    }
}

#[test]
fn a_tree_made_up_of_endless_nodes_is_refused_at_the_limit() {
    // given: nodes of 128 equal children each, all the way down
    let levels: Vec<[RangeHash; NODE_CHILDREN]> =
        std::iter::successors(Some([leaf(1); NODE_CHILDREN]), |below| Some([above(below); NODE_CHILDREN]))
            .take(LEVELS as usize)
            .collect();
    let root = above(&levels[LEVELS as usize - 1]);
    let mut narrowing = heard(root, LEVELS);
    // when
    let (mut said, mut level, mut first) = (0, LEVELS - 1, 0);
    let refused = loop {
        match narrowing.hear_nodes(level, first, &levels[level as usize]) {
            Ok(Step::Wait) => first += NODE_CHILDREN as u64,
            Ok(Step::Expand { level: asked, .. }) => (level, first) = (asked - 1, 0),
            Ok(step) => panic!("{step:?}"),
            Err(error) => break error,
        }
        said += NODE_CHILDREN;
    };
    // then
    assert_eq!(refused, NarrowingError::TooMany { level });
    assert!(said >= NARROWING_NODES);
}
