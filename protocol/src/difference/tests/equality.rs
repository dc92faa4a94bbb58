//! What is found equal is equal, and what differs is found.

use proptest::prelude::*;

use super::*;

/// Changes a tree in `count` places, in every way a tree can change.
fn edit(tree: &mut Tree, count: u64, random: &mut Random) {
    for _ in 0..count {
        let name = name(random.below(4_000));
        let entry = file(&name, random.below(3));
        match random.below(6) {
            0 => drop(tree.remove(&entry.path)),
            1 => drop(tree.insert(entry.path.clone(), Entry { mode: 0o600, ..entry })),
            2 => drop(tree.insert(entry.path.clone(), Entry { hash: None, ..entry })),
            3 => drop(tree.insert(entry.path.clone(), Entry { kind: EntryKind::Directory, ..entry })),
            4 => drop(tree.insert(entry.path.clone(), entry)),
            _ => {
                let last = tree.pop_last();
                tree.extend(last.map(|(_, moved)| {
                    let moved = Entry { path: entry.path, ..moved };
                    (moved.path.clone(), moved)
                }));
            }
        }
    }
}

fn name(number: u64) -> String {
    format!("d{}/e{}/f{number}", number % 3, number % 41)
}

fn without(tree: &Tree, entries: &[Entry]) -> Tree {
    let mut rest = tree.clone();
    for entry in entries {
        assert_eq!(rest.remove(&entry.path).as_ref(), Some(entry), "it is of the tree, and named once");
    }
    rest
}

/// Compares two trees; what was neither listed nor left unmatched must be the same on both sides.
fn compare(sender: &Tree, receiver: &Tree, cut: usize) -> Exchange {
    let exchange = exchange(&salted(sender, [1; 16]), &salted(receiver, [2; 16]), cut);
    let kept = without(sender, &exchange.listed);
    assert_eq!(kept, without(receiver, &exchange.unmatched));
    assert!(kept.values().all(|entry| entry.hash.is_some() || entry.kind == EntryKind::Directory));
    assert!(exchange.listed.is_sorted_by(|before, after| before.path < after.path));
    assert!(exchange.unmatched.is_sorted_by(|before, after| before.path < after.path));
    exchange
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn all_that_is_kept_is_equal_and_all_else_is_listed_or_unmatched(
        seed in any::<u64>(),
        files in 0u64..4_000,
        edits in [0u64..12, 0u64..12],
        cut in 1usize..300,
    ) {
        let mut random = Random(seed);
        let base = tree((0..files).map(|number| file(&name(number), number)));
        let (mut sender, mut receiver) = (base.clone(), base);
        edit(&mut sender, edits[0], &mut random);
        edit(&mut receiver, edits[1], &mut random);
        compare(&sender, &receiver, cut);
    }
}

#[test]
fn equal_trees_end_at_the_root() {
    for count in [0, 1, 100, 5_000] {
        let tree = flat_folder(count);
        let exchange = compare(&tree, &tree, 100);
        assert_eq!((exchange.asked, exchange.listed.len(), exchange.unmatched.len()), (0, 0, 0));
    }
}

#[test]
fn nothing_and_something_have_nothing_in_common() {
    let (nothing, something) = (Tree::new(), flat_folder(5_000));
    let exchange = compare(&something, &nothing, 100);
    assert_eq!((exchange.listed.len(), exchange.unmatched.len()), (5_000, 0));
    let exchange = compare(&nothing, &something, 100);
    assert_eq!((exchange.listed.len(), exchange.unmatched.len()), (0, 5_000));
}

#[test]
fn trees_of_any_two_heights_can_be_compared() {
    let large = flat_folder(30_000);
    for count in [1, 10, 100, 3_000, 29_999] {
        let small: Tree = large.clone().into_iter().take(count).collect();
        let (longer, shorter) = (compare(&large, &small, 100), compare(&small, &large, 100));
        // At most the leaf, and the nodes, in which the smaller one ends are told apart for nothing.
        assert!(longer.unmatched.len() < 33, "{}", longer.unmatched.len());
        assert!(shorter.listed.len() < 33, "{}", shorter.listed.len());
    }
}

#[test]
fn a_file_of_unknown_content_is_listed_even_when_both_salts_are_one() {
    // given
    let mut tree = flat_folder(3_000);
    let unknown = tree.values_mut().nth(1_500).unwrap();
    unknown.hash = None;
    let unknown = unknown.path.clone();
    for salts in [[5, 6], [5, 5]] {
        let [sender, receiver] = salts.map(|salt| salted(&tree, [salt; 16]));
        // when
        let exchange = exchange(&sender, &receiver, 100);
        // then
        assert!(exchange.listed.iter().any(|entry| entry.path == unknown));
        assert!(exchange.unmatched.iter().any(|entry| entry.path == unknown));
        assert!(exchange.listed.len() < 33);
    }
}

#[test]
fn what_only_the_receiver_has_is_unmatched_and_little_else() {
    let sender = flat_folder(20_000);
    let extras = (0..50).map(|index| file(&format!("{index:02x}-extra"), 1));
    let mut receiver = sender.clone();
    receiver.extend(tree(extras.clone()));
    let exchange = compare(&sender, &receiver, 1_000);
    for extra in extras {
        assert!(exchange.unmatched.contains(&extra));
    }
    assert!(exchange.listed.len() < 50 * 33);
}
