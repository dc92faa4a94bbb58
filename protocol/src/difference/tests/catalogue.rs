//! What a catalogue holds and answers.

use super::*;
use crate::{
    limits::{LEAF_BYTES, LEAF_ENTRIES, NODE_CHILDREN},
    manifest::Attribute,
    message::Totals,
};

#[test]
fn a_tree_without_entries_is_one_leaf_without_entries() {
    let nothing = catalogue_of(&Tree::new());
    assert_eq!((nothing.levels(), nothing.width(0), nothing.width(1)), (0, 1, 0));
    assert_eq!(nothing.totals(), Totals::default());
    assert_eq!(nothing.entries().count(), 0);
    let leaf = [Run { first: 0, count: 1 }];
    assert_eq!(nothing.leaf_entries(&leaf).unwrap().count(), 0);
}

#[test]
fn entries_come_out_as_they_were_pushed() {
    for count in [1, 2, 31, 32, 33, 5_000] {
        let tree = flat_folder(count);
        let catalogue = catalogue_of(&tree);
        assert!(catalogue.entries().eq(tree.values().cloned()), "{count}");
        assert_eq!(catalogue.totals(), Totals { entries: count, bytes: count * 4096, problems: 0 });
    }
}

#[test]
fn every_path_is_found_and_no_other() {
    let tree = flat_folder(3_000);
    let catalogue = catalogue_of(&tree);
    for (path, entry) in &tree {
        assert_eq!(catalogue.find(path).as_ref(), Some(entry));
        assert_eq!(catalogue.find(&path.join(b"x").unwrap()), None);
    }
    for missing in ["!", "8", "~"] {
        assert_eq!(catalogue.find(&path(missing)), None);
    }
    assert_eq!(catalogue_of(&Tree::new()).find(&path("a")), None);
}

#[test]
fn children_of_all_nodes_are_the_level_below() {
    let catalogue = catalogue_of(&flat_folder(30_000));
    assert_eq!(catalogue.levels(), 2);
    assert_eq!(catalogue.width(2), 1);
    for level in 1..=2 {
        let nodes: Vec<Run> = (0..catalogue.width(level)).map(|first| Run { first, count: 1 }).collect();
        let children = catalogue.children(level, &nodes).unwrap();
        let mut next = 0;
        for Children { level: below, first, hashes } in &children {
            assert_eq!((*below, *first), (level - 1, next));
            assert!((1..=NODE_CHILDREN).contains(&hashes.len()));
            next += hashes.len() as u64;
        }
        assert_eq!(next, catalogue.width(level - 1));
    }
}

#[test]
fn leaves_have_some_fourteen_entries_and_nodes_some_fifty_five_children() {
    let catalogue = catalogue_of(&flat_folder(60_000));
    let [leaves, nodes] = [0, 1].map(|level| catalogue.width(level));
    assert!((3_900..4_800).contains(&leaves), "{leaves}");
    assert!((60..110).contains(&nodes), "{nodes}");
}

#[test]
fn a_leaf_ends_at_its_bounds() {
    // given: entries that fill a leaf by their bytes, which need not be many
    let attribute = Attribute { name: b"user.a"[..].into(), value: vec![0; 16_000].into() };
    let heavy = |index| Entry { attributes: vec![attribute.clone()], ..file(&format!("{index:03}"), 1) };
    // when
    let catalogue = catalogue_of(&tree((0..200).map(heavy)));
    // then
    for leaf in 0..catalogue.width(0) {
        let bytes = catalogue.leaf_bytes(leaf as usize).len();
        assert!(bytes < LEAF_BYTES + 16_200, "{bytes}");
    }
    // and: no leaf has more entries than allowed, but some have as many
    let catalogue = catalogue_of(&flat_folder(5_000));
    let entries = |first| catalogue.leaf_entries(&[Run { first, count: 1 }]).unwrap().count();
    assert_eq!((0..catalogue.width(0)).map(entries).max(), Some(LEAF_ENTRIES));
}

#[test]
fn equal_trees_have_equal_roots_and_a_change_anywhere_shows() {
    let tree = flat_folder(2_000);
    let root = catalogue_of(&tree).root();
    assert_eq!(salted(&tree, [2; 16]).root(), root, "the salt is for what is open alone");
    for path in tree.keys().step_by(199) {
        let changed = Tree::from_iter(
            tree.clone().into_iter().chain([(path.clone(), file(&path.to_string(), u64::MAX))]),
        );
        assert_ne!(catalogue_of(&changed).root(), root);
    }
}

#[test]
fn a_file_of_unknown_content_opens_all_above_it() {
    let mut tree = flat_folder(2_000);
    assert!(!catalogue_of(&tree).is_open());
    tree.values_mut().nth(1_234).unwrap().hash = None;
    let open = salted(&tree, [2; 16]);
    assert!(open.is_open());
    assert_ne!(open.root(), salted(&tree, [3; 16]).root());
}

#[test]
fn what_a_peer_asks_for_must_exist_and_ascend() {
    let catalogue = catalogue_of(&flat_folder(30_000));
    let (level, width) = (1, catalogue.width(1));
    let refused = |runs: &[(u64, u64)]| {
        let runs: Vec<Run> = runs.iter().map(|&(first, count)| Run { first, count }).collect();
        catalogue.children(level, &runs).unwrap_err()
    };
    let no_such = |first, count| AskError::NoSuchNodes { level, first, count, width };
    assert_eq!(refused(&[(width, 1)]), no_such(width, 1));
    assert_eq!(refused(&[(0, width + 1)]), no_such(0, width + 1));
    assert_eq!(refused(&[(u64::MAX, 2)]), no_such(u64::MAX, 2));
    assert_eq!(refused(&[(1, 1), (1, 1)]), AskError::Unsorted { level, first: 1 });
    assert_eq!(refused(&[(2, 2), (0, 1)]), AskError::Unsorted { level, first: 0 });
    let one = [Run { first: 0, count: 1 }];
    assert_eq!(catalogue.children(0, &one), Err(AskError::BelowLeaves));
    let above = AskError::NoSuchNodes { level: 3, first: 0, count: 1, width: 0 };
    assert_eq!(catalogue.children(3, &one), Err(above));
    assert!(catalogue.children(u32::MAX, &one).is_err());
    let leaves = catalogue.width(0);
    assert!(catalogue.leaf_entries(&[Run { first: leaves - 1, count: 2 }]).is_err());
}

#[test]
fn an_entry_takes_less_than_75_bytes() {
    const ENTRIES: u64 = 200_000;
    let mut random = Random(3);
    let mut names: Vec<String> = (0..ENTRIES).map(|_| format!("{:010x}", random.number() >> 24)).collect();
    names.sort_unstable();
    let mut builder = CatalogueBuilder::new([0; 16]);
    names.iter().for_each(|name| builder.push(&file(name, 1)));
    let held = builder.finish().held_bytes() as u64;
    assert!(held < 75 * ENTRIES, "{} bytes an entry", held as f64 / ENTRIES as f64);
    assert!(held > 55 * ENTRIES, "a hash, a name and a time do not fit in less");
}
