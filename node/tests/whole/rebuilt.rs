//! Files that are made from their old versions, and files with holes.

use std::{
    fs,
    os::unix::fs::{FileExt as _, MetadataExt as _},
};

use ketch::swarm::TransportKind::Tcp;
use ketch_protocol::{
    chunk::{ChunkSizes, Chunker, Name, Part},
    delta::Grain,
    hash::ContentHash,
    manifest::EntryId,
    message::{Message, Run, Want},
    problem::{Cause, Reason},
    record::segment::{put_aborted, put_block_length, put_end, put_part, put_piece, put_recipe},
};

use crate::{
    peer::PlayedSender,
    place::{BOTH, Place, account, noise},
    wire::{file, manifest, manifest_end, whole},
};

/// A file in the source, and its old version in the target.
fn write_both(place: &Place, name: &str, new: &[u8], old: &[u8]) {
    place.write(&format!("tree/{name}"), new);
    let there = place.target().join("tree").join(name);
    fs::create_dir_all(there.parent().unwrap()).unwrap();
    fs::write(there, old).unwrap();
}

/// Gives the folder of the old versions another time than that of the new ones: it is described anew.
fn date_folder(place: &Place) {
    fs::File::open(place.target().join("tree")).unwrap().set_modified(std::time::UNIX_EPOCH).unwrap();
}

#[tokio::test]
async fn changed_files_cost_what_changed_in_them() {
    for transport in BOTH {
        let place = Place::new();
        let inserted = |old: &[u8], at: usize| [&old[..at], b"!", &old[at..]].concat();
        let (small, large) = (noise(300_000, 1), noise(20 << 20, 2));
        write_both(&place, "small", &inserted(&small, 1_000), &small);
        write_both(&place, "large", &inserted(&large, 1_000), &large);
        let mut rewritten = large.clone();
        rewritten[5 << 20..6 << 20].copy_from_slice(&noise(1 << 20, 3));
        write_both(&place, "same size", &rewritten, &large);
        write_both(&place, "shorter", &large[..9 << 20], &large);
        write_both(&place, "other", &noise(100_000, 4), &noise(90_000, 5));
        date_folder(&place);

        let (sender, receiver) =
            place.cross(transport, &[&place.offered("tree")], &[], &["--overwrite"]).await;
        let (sender, receiver) = (sender.expect(0).event("done"), receiver.expect(0).event("done"));
        assert_eq!(account(&sender), account(&receiver));
        assert_eq!(receiver["sent"].as_u64(), Some(6), "{receiver}");
        place.assert_equal();
        let moved = receiver["moved_bytes"].as_u64().unwrap();
        assert!(moved < (1 << 20) + 100_000 + 200_000, "{moved} bytes");
        assert!(receiver["found_bytes"].as_u64().unwrap() > 48 << 20, "{receiver}");
        assert!(!place.target().join(".ketch-partial").exists());
    }
}

#[tokio::test]
async fn more_files_than_are_made_at_once_are_made_one_after_another() {
    let place = Place::new();
    for index in 0..100 {
        let old = noise(40_000, index);
        write_both(&place, &format!("file {index:03}"), &[&old[..], b"more"].concat(), &old);
    }
    date_folder(&place);
    let (sender, receiver) = place.cross(Tcp, &[&place.offered("tree")], &[], &["--overwrite"]).await;
    sender.expect(0);
    assert_eq!(receiver.expect(0).event("done")["sent"].as_u64(), Some(101));
    place.assert_equal();
}

#[tokio::test]
async fn holes_neither_cross_nor_take_space() {
    for transport in BOTH {
        let place = Place::new();
        for (name, size) in [("whole", 4 << 20), ("ranges", 40 << 20)] {
            let path = place.write(&format!("tree/{name}"), "");
            let sparse = fs::File::options().write(true).open(path).unwrap();
            sparse.set_len(size).unwrap();
            sparse.write_all_at(&noise(70_000, 1), 3 << 20).unwrap();
        }
        let (sender, receiver) = place.cross(transport, &[&place.offered("tree")], &[], &[]).await;
        let sent = sender.expect(0).event("done")["moved_bytes"].as_u64();
        let moved = receiver.expect(0).event("done")["moved_bytes"].as_u64().unwrap();
        assert_eq!(sent, Some(moved));
        place.assert_equal();
        for name in ["whole", "ranges"] {
            let blocks =
                |root: std::path::PathBuf| fs::metadata(root.join("tree").join(name)).unwrap().blocks();
            let (source, target) = (blocks(place.source()), blocks(place.target()));
            assert!(target <= source + 256, "{target} blocks in the target, {source} in the source");
        }
        assert!(moved < 400_000, "{moved} bytes");
    }
}

/// A receiver that has an old version of a file of 40,000 bytes, and the new version.
async fn meet(place: &Place) -> (PlayedSender, Vec<u8>) {
    let old = noise(50_000, 1);
    let new = old[..40_000].to_vec();
    fs::create_dir_all(place.target()).unwrap();
    fs::write(place.target().join("f"), &old).unwrap();
    let mut sender = PlayedSender::meet(place, Tcp, &["--overwrite"]).await;
    sender.offer().await;
    sender.control.say_bytes(&manifest(0, &[file(b"f", 40_000)])).await;
    sender.control.say_bytes(&manifest_end(1, 40_000)).await;
    let want = sender.control.hear_until(want).await;
    assert_eq!(want, Want { delta: vec![Run { first: 0, count: 1 }], ..Want::default() });
    (sender, new)
}

fn want(message: Message) -> Option<Want> {
    if let Message::Want(want) = message { Some(want) } else { None }
}

fn chunks(content: &[u8]) -> Vec<Part> {
    let mut chunks = Vec::new();
    let mut chunker = Chunker::new(ChunkSizes::of_file(content.len() as u64).unwrap());
    chunker.push(content, |chunk| chunks.push(chunk));
    chunker.finish(|chunk| chunks.push(chunk));
    chunks
}

fn recipe(chunks: &[Part], hash: [u8; 32]) -> Vec<u8> {
    let mut out = Vec::new();
    put_recipe(&mut out, EntryId(0), Grain::Chunks);
    chunks.iter().for_each(|&chunk| put_part(&mut out, chunk));
    put_end(&mut out, ContentHash(hash));
    out
}

/// The content is wanted after all, and stored.
async fn assert_fetched_whole(place: &Place, mut sender: PlayedSender, new: &[u8]) {
    let wanted = sender.control.hear_until(want).await;
    assert_eq!(wanted, Want { content: vec![Run { first: 0, count: 1 }], ..Want::default() });
    let _stream = sender.data(&whole(0, new)).await;
    sender.farewell().await.expect(0);
    assert!(fs::read(place.target().join("f")).unwrap() == new);
}

#[tokio::test]
async fn what_is_not_as_it_was_described_is_fetched_whole() {
    let place = Place::new();
    let (mut sender, new) = meet(&place).await;
    // Every chunk but the last is there; the whole is said to have another hash.
    let last = *chunks(&new).last().unwrap();
    let _recipe = sender.data(&recipe(&chunks(&new), [7; 32])).await;
    let wanted = sender.control.hear_until(want).await;
    let piece = &wanted.pieces[0].bytes[0];
    assert_eq!((wanted.pieces.len(), piece.count), (1, u64::from(last.length)));
    let mut segment = Vec::new();
    put_piece(&mut segment, EntryId(0), *piece);
    let content = &new[piece.first as usize..];
    put_block_length(&mut segment, content.len());
    segment.extend_from_slice(content);
    put_end(&mut segment, ContentHash(*blake3::hash(content).as_bytes()));
    let _piece = sender.data(&segment).await;
    assert_fetched_whole(&place, sender, &new).await;
}

#[tokio::test]
async fn what_a_sender_cannot_describe_is_fetched_whole() {
    let place = Place::new();
    let (sender, new) = meet(&place).await;
    let mut given_up = Vec::new();
    put_recipe(&mut given_up, EntryId(0), Grain::Chunks);
    put_aborted(&mut given_up, Cause::Unrepresentable, "");
    let _recipe = sender.data(&given_up).await;
    assert_fetched_whole(&place, sender, &new).await;
}

#[tokio::test]
async fn a_file_that_changes_while_it_is_described_keeps_its_old_version() {
    let place = Place::new();
    let (sender, _) = meet(&place).await;
    let mut given_up = Vec::new();
    put_recipe(&mut given_up, EntryId(0), Grain::Chunks);
    put_aborted(&mut given_up, Cause::Changed, "");
    let _recipe = sender.data(&given_up).await;
    let ended = sender.farewell().await.expect(4);
    assert_eq!(ended.problems(), [("f".to_owned(), "changed".to_owned())]);
    assert!(fs::read(place.target().join("f")).unwrap() == noise(50_000, 1));
}

#[tokio::test]
async fn a_description_that_cannot_be_ends_the_session() {
    for parts in [vec![], vec![(39_999, 1)], vec![(20_000, 1), (20_000, 2)], vec![(500, 1), (15_000, 2)]] {
        let place = Place::new();
        let (sender, _) = meet(&place).await;
        let parts: Vec<_> =
            parts.into_iter().map(|(length, name)| Part { length, name: Name([name; 16]) }).collect();
        let _recipe = sender.data(&recipe(&parts, [7; 32])).await;
        let ended = sender.refused(Reason::Violation).await;
        assert!(ended.stderr.contains("it describes entry 0 wrongly"), "{ended:?}");
        assert!(fs::read(place.target().join("f")).unwrap() == noise(50_000, 1));
    }
}
