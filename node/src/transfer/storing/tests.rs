use std::{fs, path::Path};

use futures::FutureExt as _;
use ketch_protocol::{
    limits::WHOLE_BYTES,
    message::{Hashes, TargetView},
    record::compressed::Compressor,
    session::sender::{Job as Wish, Wanted},
};

use super::*;
use crate::{
    index::Indexes,
    state::StateFolder,
    transfer::{
        known_tree::KnownTree,
        queue::{Portion, Queue},
        reading::Reading,
    },
    tree::{Durability, Found, Handling, Options, Source, Target},
};

/// What crosses into an empty target, with a state folder in `folder`.
fn offered(source: Source, folder: &Path) -> KnownTree {
    let state = StateFolder::locate(Some(folder.join("state")), |_| None).unwrap();
    KnownTree::by_ticket(source, &Indexes::new(&state), TargetView::Empty, Hashes::Known)
}

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
    let mut reading = Reading::new(&offered(source, place.path()), Some(Compressor::new().unwrap()));
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

/// A receiver that awaits a file, and the stream that brings it, in blocks.
fn awaiting(folder: &Path, size: usize) -> (Arc<Store>, Vec<Vec<u8>>) {
    let path = folder.join("file");
    fs::write(&path, vec![7; size]).unwrap();
    let source = Source::open(&[path]).unwrap();
    let Some(Found::Entry(entry)) = source.scan().next() else { panic!("nothing was found") };
    let entry = Arc::new(entry);
    let options = Options { handling: Handling::receiving(false), durability: Durability::None };
    let store = Arc::new(Store::new(Target::open(&folder.join("target"), options).unwrap()));
    let awaited = await_content(&store.target, &entry).unwrap();
    store.registry.plan(vec![(EntryId(0), awaited)], EntryId(1));
    let queue = Queue::default();
    queue.push(vec![Wish { id: EntryId(0), entry, wanted: Wanted::Content }]);
    let mut reading = Reading::new(&offered(source, folder), None);
    reading.begin(queue.next(1).now_or_never().flatten().unwrap());
    let mut blocks = Vec::new();
    while !reading.is_idle() {
        let mut block = Vec::new();
        reading.fill(&mut block).unwrap();
        blocks.push(block);
    }
    (store, blocks)
}

fn take_all(storing: &mut Storing, blocks: &[Vec<u8>]) -> Vec<(EntryId, Outcome)> {
    blocks.iter().flat_map(|block| storing.take(block).outcomes).collect()
}

#[test]
fn what_broke_off_comes_again_on_another_stream() {
    let folder = tempfile::tempdir().unwrap();
    let (store, blocks) = awaiting(folder.path(), 3 * BLOCK_BYTES);
    let mut lost = Storing::new(Arc::clone(&store));
    assert_eq!(take_all(&mut lost, &blocks[..1]), []);
    assert_eq!(lost.abandon().outcomes, []);
    assert_eq!(take_all(&mut Storing::new(store), &blocks), [(EntryId(0), Outcome::Created)]);
}

#[test]
fn what_came_again_while_another_stream_brought_it_is_wanted_when_that_breaks_off() {
    let folder = tempfile::tempdir().unwrap();
    let (store, blocks) = awaiting(folder.path(), 3 * BLOCK_BYTES);
    let mut lost = Storing::new(Arc::clone(&store));
    assert_eq!(take_all(&mut lost, &blocks[..1]), []);
    assert_eq!(take_all(&mut Storing::new(Arc::clone(&store)), &blocks), []);
    assert_eq!(lost.abandon().outcomes, [(EntryId(0), Outcome::ContentAgain)]);
    let mut last = Storing::new(store);
    assert_eq!(take_all(&mut last, &blocks), [(EntryId(0), Outcome::Created)]);
    assert_eq!(take_all(&mut last, &blocks), [], "it is settled");
}

#[test]
fn a_range_that_broke_off_is_wanted_again_likewise() {
    let folder = tempfile::tempdir().unwrap();
    let (store, blocks) = awaiting(folder.path(), WHOLE_BYTES as usize + 1);
    let mut lost = Storing::new(Arc::clone(&store));
    take_all(&mut lost, &blocks[..1]);
    take_all(&mut Storing::new(store), &blocks);
    let parts = Outcome::Parts { content: vec![Run { first: 0, count: 1 }], digest: Vec::new() };
    assert_eq!(lost.abandon().outcomes, [(EntryId(0), parts)]);
}
