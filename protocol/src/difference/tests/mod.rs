mod catalogue;
mod cost;
mod equality;
mod format;
mod hostile;

use std::{collections::BTreeMap, sync::Arc};

use super::*;
use crate::{
    hash::ContentHash,
    manifest::{Entry, EntryKind, Timestamp},
    message::{Batch, Fill, Message, Run, encode},
    path::EntryPath,
};

/// Most bytes of a frame, an envelope and the numbers of a message.
const MESSAGE_FIELD_BYTES: usize = 48;

/// Most bytes of an encoded run.
const RUN_BYTES: usize = 24;

type Tree = BTreeMap<EntryPath, Entry>;

fn path(name: &str) -> EntryPath {
    EntryPath::parse(name.as_bytes()).unwrap()
}

/// A file that holds version `content`.
fn file(name: &str, content: u64) -> Entry {
    let mut hash = [content as u8; 32];
    hash[..8].copy_from_slice(&content.to_le_bytes());
    let mtime = Timestamp { seconds: 1_700_000_000, nanoseconds: 123_456_789 };
    Entry {
        hash: Some(ContentHash(hash)),
        ..Entry::new(path(name), EntryKind::File { size: 4096 }, 0o644, mtime)
    }
}

fn tree(entries: impl IntoIterator<Item = Entry>) -> Tree {
    entries.into_iter().map(|entry| (entry.path.clone(), entry)).collect()
}

/// `count` files of one folder whose names share nothing.
fn flat_folder(count: u64) -> Tree {
    let mut random = Random(1);
    tree((0..count).map(|index| file(&format!("{:016x}", random.number()), index)))
}

fn catalogue_of(tree: &Tree) -> Arc<Catalogue> {
    salted(tree, [1; 16])
}

fn salted(tree: &Tree, salt: [u8; 16]) -> Arc<Catalogue> {
    let mut builder = CatalogueBuilder::new(salt);
    tree.values().for_each(|entry| builder.push(entry));
    Arc::new(builder.finish())
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound
    }
}

/// What a comparison came to.
struct Exchange {
    /// Bytes said in both directions, up to the entries listed.
    bytes: usize,
    /// How often the receiver asked and waited.
    asked: usize,
    listed: Vec<Entry>,
    unmatched: Vec<Entry>,
}

/// Compares two catalogues; the sender says at most `cut` nodes in a message.
fn exchange(sender: &Catalogue, receiver: &Arc<Catalogue>, cut: usize) -> Exchange {
    let mut narrowing = Narrowing::new(Arc::clone(receiver));
    let (mut bytes, mut asked, mut listed) = (MESSAGE_FIELD_BYTES, 0, Vec::new());
    let mut step = narrowing.hear_root(sender.root(), sender.levels()).unwrap();
    loop {
        step = match step {
            Step::Equal => break,
            Step::Expand { level, runs } => {
                asked += 1;
                bytes += MESSAGE_FIELD_BYTES + runs.len() * RUN_BYTES;
                let children = sender.children(level, &runs).unwrap();
                bytes += children.iter().map(|children| nodes_bytes(children, cut)).sum::<usize>();
                hear_all(&mut narrowing, &children, cut)
            }
            Step::List { runs } => {
                asked += 1;
                listed = sender.leaf_entries(&runs).unwrap().collect();
                bytes += MESSAGE_FIELD_BYTES + runs.len() * RUN_BYTES + listing_bytes(&listed);
                break;
            }
            Step::Wait => panic!("all that was asked for was said"),
        }
    }
    Exchange { bytes, asked, listed, unmatched: narrowing.unmatched_entries().collect() }
}

fn hear_all(narrowing: &mut Narrowing, children: &[Children<'_>], cut: usize) -> Step {
    let mut step = Step::Wait;
    for Children { level, first, hashes } in children {
        let firsts = (*first..).step_by(cut);
        for (first, hashes) in firsts.zip(hashes.chunks(cut)) {
            assert_eq!(step, Step::Wait);
            step = narrowing.hear_nodes(*level, first, hashes).unwrap();
        }
    }
    step
}

fn nodes_bytes(children: &Children<'_>, cut: usize) -> usize {
    children.hashes.len().div_ceil(cut) * MESSAGE_FIELD_BYTES + size_of_val(children.hashes)
}

/// What manifest batches of these entries take, cut as a sender cuts them, and their end.
fn listing_bytes(entries: &[Entry]) -> usize {
    let (mut bytes, mut batch, mut fill) = (MESSAGE_FIELD_BYTES, Batch::default(), Fill::default());
    for entry in entries {
        fill.add_entry(entry);
        batch.entries.push(entry.clone());
        if fill.is_full() {
            bytes += encode(&Message::Manifest(std::mem::take(&mut batch))).len();
            fill = Fill::default();
        }
    }
    bytes + encode(&Message::Manifest(batch)).len()
}
