//! One change in a flat folder costs a few KiB and three questions, wherever it is.

use super::*;

/// What the comparison may say in both directions, listed entries included.
const BUDGET_BYTES: usize = 16 * 1024;

/// Files of the folder.
const FILES: u64 = 65_536;

/// How often the receiver asks: for nodes of the two levels below the root, and for the list.
const QUESTIONS: usize = 3;

#[derive(Debug, Clone, Copy)]
enum Change {
    Content,
    Insertion,
    Removal,
    Rename,
}

const CHANGES: [Change; 4] = [Change::Content, Change::Insertion, Change::Removal, Change::Rename];

fn changed(tree: &Tree, change: Change, place: u64) -> Tree {
    let mut tree = tree.clone();
    let name = tree.keys().nth(place as usize).unwrap().clone();
    let new_name = format!("{name}-new");
    let removed = match change {
        Change::Content => tree.insert(name.clone(), file(&name.to_string(), u64::MAX)),
        Change::Insertion => tree.insert(path(&new_name), file(&new_name, u64::MAX)),
        Change::Removal => tree.remove(&name),
        Change::Rename => {
            let renamed = Entry { path: path(&format!("{:016x}", !place)), ..tree.remove(&name).unwrap() };
            tree.insert(renamed.path.clone(), renamed)
        }
    };
    drop(removed);
    tree
}

fn cost(receiver: &Arc<Catalogue>, tree: &Tree, change: Change, place: u64) -> usize {
    let exchange = exchange(&catalogue_of(&changed(tree, change, place)), receiver, 1_024);
    assert_eq!(exchange.asked, QUESTIONS, "{change:?} at {place}");
    exchange.bytes
}

#[test]
fn one_change_among_65536_files_costs_at_most_16_kib_and_three_questions() {
    let tree = flat_folder(FILES);
    let receiver = catalogue_of(&tree);
    for change in CHANGES {
        for place in [0, FILES / 3] {
            let bytes = cost(&receiver, &tree, change, place);
            assert!(bytes <= BUDGET_BYTES, "{change:?} at {place}: {bytes} bytes");
        }
    }
}

#[test]
fn no_place_of_a_change_costs_more_than_the_largest_leaf_and_nodes() {
    let receiver = catalogue_of(&flat_folder(FILES));
    let whole = |level| receiver.children(level, &[Run { first: 0, count: receiver.width(level) }]).unwrap();
    assert_eq!((receiver.levels(), whole(2)[0].hashes.len() as u64), (2, receiver.width(1)));
    let largest_leaf = (0..receiver.width(0))
        .map(|first| receiver.leaf_entries(&[Run { first, count: 1 }]).unwrap().collect::<Vec<_>>())
        .map(|entries| listing_bytes(&entries))
        .max();
    let nodes = (0..receiver.width(1)).map(|first| receiver.children(1, &[Run { first, count: 1 }]).unwrap());
    let largest_node = nodes.map(|children| nodes_bytes(&children[0], 1_024)).max();
    let asked = (QUESTIONS + 1) * (MESSAGE_FIELD_BYTES + RUN_BYTES);
    let bytes = asked + largest_leaf.unwrap() + largest_node.unwrap() + nodes_bytes(&whole(2)[0], 1_024);
    assert!(bytes <= BUDGET_BYTES / 2, "{bytes}");
}

#[test]
#[ignore = "takes a minute; prints how the cost is distributed over 200 random places"]
#[allow(clippy::print_stdout)]
fn print_the_cost_of_200_random_changes() {
    let tree = flat_folder(FILES);
    let receiver = catalogue_of(&tree);
    for change in CHANGES {
        let mut random = Random(7);
        let mut costs: Vec<usize> =
            (0..200).map(|_| cost(&receiver, &tree, change, random.below(FILES))).collect();
        costs.sort_unstable();
        println!(
            "{change:?}: least {} median {} p95 {} most {}",
            costs[0], costs[100], costs[190], costs[199]
        );
        assert!(costs[199] <= BUDGET_BYTES);
    }
}
