use std::fs;

use ketch_protocol::{
    record::compressed::Compressor,
    session::sender::{Job as Wish, Wanted},
};

use super::*;
use crate::{
    transfer::{known_tree::KnownTree, queue::Portion, reading::Reading},
    tree::{Durability, Found, Handling, Options, Source, Target},
};

#[test]
fn what_is_read_compressed_is_stored_as_it_was() {
    // given a file and a receiver that awaits it
    let place = tempfile::tempdir().unwrap();
    let (path, folder) = (place.path().join("text"), place.path().join("target"));
    let text: String = (0..60_000).map(|line| format!("line {line}\n")).collect();
    fs::write(&path, &text).unwrap();
    let source = Source::open(&[path]).unwrap();
    let Some(Found::Entry(entry)) = source.scan().next() else { panic!("nothing was found") };
    let (id, entry) = (EntryId(0), Arc::new(entry));
    let options = Options { handling: Handling::receiving(false), durability: Durability::None };
    let store = Arc::new(Store::new(Target::open(&folder, options).unwrap()));
    let awaited = await_content(&store.target, &entry).unwrap();
    store.registry.plan(vec![(id, awaited)], EntryId(1));

    // when it crosses in frames
    let mut reading = Reading::new(&KnownTree::offered(source), Some(Compressor::new().unwrap()));
    reading.begin(Portion::Files(vec![Wish { id, entry, wanted: Wanted::Content }]));
    let mut storing = Storing::compressed(store).unwrap();
    let (mut crossed, mut outcomes) = (0, Vec::new());
    while !reading.is_idle() {
        let mut block = Vec::new();
        reading.fill(&mut block).unwrap();
        crossed += block.len();
        outcomes.extend(storing.take(&block).outcomes);
    }

    // then it is there, and was shorter on its way
    assert_eq!(outcomes, [(id, Outcome::Created)]);
    assert_eq!(storing.finish(), Ok(()));
    assert_eq!(fs::read_to_string(folder.join("text")).unwrap(), text);
    assert!(crossed * 2 < text.len(), "{crossed} bytes");
}
