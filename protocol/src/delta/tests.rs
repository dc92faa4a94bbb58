use super::*;
use crate::{
    chunk::NAME_BYTES,
    manifest::EntryId,
    message::{Message, Pieces, Want, encode},
    record::segment::{put_block_length, put_end, put_list, put_list_end, put_part, put_piece, put_recipe},
};

const ID: EntryId = EntryId(5);

/// Bytes that no cut can foresee; each seed has others.
fn noise(seed: u64, length: usize) -> Vec<u8> {
    let mut bytes = vec![0; length];
    let mut hasher = blake3::Hasher::new();
    hasher.update(&seed.to_be_bytes());
    hasher.finalize_xof().fill(&mut bytes);
    bytes
}

fn chunks(sizes: ChunkSizes, content: &[u8]) -> Vec<Part> {
    let (mut chunker, mut chunks) = (Chunker::new(sizes), Vec::new());
    chunker.push(content, |chunk| chunks.push(chunk));
    chunker.finish(|chunk| chunks.push(chunk));
    chunks
}

fn recipe(sizes: ChunkSizes, content: &[u8]) -> Recipe {
    let mut describer = Describer::new(sizes);
    content.chunks(100_000).for_each(|piece| describer.push(piece));
    describer.finish().unwrap()
}

fn old(sizes: ChunkSizes, content: &[u8]) -> Old {
    let mut builder = OldBuilder::default();
    chunks(sizes, content).into_iter().for_each(|chunk| builder.push(chunk));
    builder.finish()
}

fn bytes_of(content: &[u8], run: Run) -> &[u8] {
    &content[run.first as usize..run.numbers().end as usize]
}

/// What it costs to make one content out of another.
#[derive(Debug, Default)]
struct Cost {
    /// Bytes on the wire, both ways, of everything but content.
    words: usize,
    /// Bytes of content.
    content: u64,
    /// One-way trips from the first want to the last piece.
    flights: usize,
}

impl Cost {
    fn bytes(&self) -> u64 {
        self.words as u64 + self.content
    }

    fn want(&mut self, needs: &Needs) {
        let pieces = |bytes: &[Run]| match bytes {
            [] => Vec::new(),
            bytes => vec![Pieces { id: ID, bytes: bytes.to_vec() }],
        };
        let want = Want { lists: pieces(&needs.lists), pieces: pieces(&needs.pieces), ..Want::default() };
        if !want.is_empty() {
            self.words += encode(&Message::Want(want)).len();
        }
    }
}

/// Makes `new` out of `before` as two peers would, checks it, and says what it cost.
fn transfer(before: &[u8], new: &[u8]) -> Cost {
    let size = new.len() as u64;
    let sizes = ChunkSizes::of_file(size).unwrap();
    let recipe = recipe(sizes, new);
    let mut cost = Cost { flights: 2, ..Cost::default() };
    let mut out = Vec::new();
    put_recipe(&mut out, ID, recipe.grain);
    recipe.parts.iter().for_each(|&part| put_part(&mut out, part));
    put_end(&mut out, recipe.hash);

    let mut assembly = Assembly::new(size, sizes, old(sizes, before));
    let mut wanted = Needs::default();
    let needs = assembly.hear_recipe(recipe).unwrap();
    cost.want(&needs);
    cost.flights += if needs.lists.is_empty() { 0 } else { 2 };
    wanted.pieces.extend(needs.pieces);
    for &group in &needs.lists {
        let listed = chunks(sizes, bytes_of(new, group));
        put_list(&mut out, ID, group);
        listed.iter().for_each(|&chunk| put_part(&mut out, chunk));
        put_list_end(&mut out);
        let needs = assembly.hear_list(group.first, &listed).unwrap();
        cost.want(&needs);
        wanted.pieces.extend(needs.pieces);
    }
    for &piece in &wanted.pieces {
        put_piece(&mut out, ID, piece);
        put_block_length(&mut out, 1);
        put_end(&mut out, ContentHash::of_nothing());
        cost.content += piece.count;
    }
    cost.flights += if wanted.pieces.is_empty() { 0 } else { 2 };
    cost.words += out.len();
    assert_eq!(build(assembly, before, new, &wanted.pieces), new);
    cost
}

/// Carries out the steps, with bytes of the new content only where they were asked for.
fn build(assembly: Assembly, before: &[u8], new: &[u8], pieces: &[Run]) -> Vec<u8> {
    assert!(assembly.is_described());
    let delta = assembly.finish().unwrap();
    let mut built = vec![0; new.len()];
    for piece in pieces {
        let at = piece.first as usize..piece.numbers().end as usize;
        built[at.clone()].copy_from_slice(&new[at]);
    }
    let mut end = 0;
    for step in delta.steps {
        assert_eq!(step.offset, end, "a gap or an overlap");
        end += step.length;
        if let Origin::Old(offset) = step.origin {
            let from = bytes_of(before, Run { first: offset, count: step.length });
            built[step.offset as usize..end as usize].copy_from_slice(from);
        }
    }
    assert_eq!(end, new.len() as u64);
    built
}

#[test]
fn a_byte_put_into_a_large_file_costs_a_chunk_and_short_lists() {
    let before = noise(1, 64 << 20);
    let mut new = before.clone();
    new.insert(1_000, 7);
    let cost = transfer(&before, &new);
    assert!(cost.bytes() < 64 * 1024, "{cost:?}");
    assert_eq!(cost.flights, 6, "{cost:?}");
}

#[test]
fn a_part_rewritten_costs_little_more_than_itself() {
    let (mut rewritten, mut cost) = (0, 0);
    for seed in 0..8 {
        let before = noise(seed, 1_500_000 + 300_000 * seed as usize);
        let mut new = before.clone();
        let length = new.len() / 20;
        let from = 100_000 * seed as usize;
        new[from..from + length].copy_from_slice(&noise(!seed, length));
        rewritten += length as u64;
        cost += transfer(&before, &new).bytes();
    }
    assert!(cost < rewritten + rewritten / 12, "{cost} for {rewritten}");
}

#[test]
fn a_small_file_takes_a_flight_less_each_way() {
    let before = noise(1, 200_000);
    let mut new = before.clone();
    new.truncate(150_000);
    new[70_000] ^= 1;
    let cost = transfer(&before, &new);
    assert_eq!(cost.flights, 4, "{cost:?}");
    assert!(cost.bytes() < 20_000, "{cost:?}");
}

#[test]
fn contents_that_share_nothing_cost_little_more_than_a_copy() {
    for length in [16 << 10, 1 << 20, 24 << 20] {
        let cost = transfer(&noise(1, length), &noise(2, length));
        assert!(cost.bytes() * 100 <= length as u64 * 101, "{cost:?} for {length}");
    }
}

#[test]
fn equal_contents_cost_a_recipe() {
    let content = noise(1, 16 << 20);
    let cost = transfer(&content, &content);
    assert_eq!((cost.content, cost.flights), (0, 2));
    assert!(cost.words < 2_000, "{cost:?}");
}

#[test]
fn nothing_is_made_out_of_nothing_and_of_anything() {
    for (before, new) in [(0, 0), (0, 100_000), (100_000, 0), (1, 1)] {
        transfer(&noise(1, before), &noise(2, new));
    }
}

#[test]
fn a_file_of_one_repeated_block_is_searched_once() {
    let block = noise(1, 8_192);
    let before = block.repeat(4_096);
    let sizes = ChunkSizes::of_file(before.len() as u64).unwrap();
    let old = old(sizes, &before);
    assert!(old.chunks.len() < 20, "{} places are kept", old.chunks.len());
    let mut new = before.clone();
    new.truncate(20 << 20);
    new.insert(5_000, 1);
    let cost = transfer(&before, &new);
    assert!(cost.bytes() < 128 * 1024, "{cost:?}");
}

/// A recipe of parts of these lengths.
fn lying(grain: Grain, lengths: &[u32]) -> Recipe {
    let part = |&length: &u32| Part { length, name: Name([7; NAME_BYTES]) };
    Recipe { grain, parts: lengths.iter().map(part).collect(), hash: ContentHash::of_nothing() }
}

#[test]
fn a_recipe_that_cannot_be_is_refused() {
    let size = 20_000;
    let sizes = ChunkSizes::of_file(size).unwrap();
    let (least, most) = (1_024, 16_384);
    let fresh = || Assembly::new(size, sizes, Old::default());
    let table = [
        (&[4_000, 15_999][..], DeltaError::Sum { parts: 19_999, whole: size }),
        (&[], DeltaError::Sum { parts: 0, whole: size }),
        (&[4_000, 16_001], DeltaError::Sum { parts: 20_001, whole: size }),
        (&[1_023, 16_000, 2_977], DeltaError::Length { length: 1_023, least, most }),
        (&[16_385, 3_615], DeltaError::Length { length: 16_385, least, most }),
        (&[3_615, 16_385], DeltaError::Length { length: 16_385, least: 1, most }),
        (&[20_000, 0], DeltaError::Length { length: 20_000, least: 1, most }),
    ];
    for (lengths, error) in table {
        assert_eq!(fresh().hear_recipe(lying(Grain::Chunks, lengths)), Err(error), "{lengths:?}");
    }
    assert!(fresh().hear_recipe(lying(Grain::Chunks, &[4_000, 15_995, 5])).is_ok());
    assert!(fresh().hear_recipe(lying(Grain::Groups, &[20_000])).is_ok());
}

#[test]
fn what_was_not_asked_for_or_comes_twice_is_refused() {
    let size = 40_000;
    let sizes = ChunkSizes::of_file(size).unwrap();
    let mut assembly = Assembly::new(size, sizes, Old::default());
    let list = lying(Grain::Chunks, &[10_000, 10_000]).parts;
    assert_eq!(assembly.hear_list(0, &list), Err(DeltaError::Unasked));
    assembly.hear_recipe(lying(Grain::Groups, &[20_000, 20_000])).unwrap();
    let again = assembly.hear_recipe(lying(Grain::Groups, &[20_000, 20_000]));
    assert_eq!(again, Err(DeltaError::Unasked));
    assert_eq!(assembly.hear_list(10_000, &list), Err(DeltaError::Unasked));
    assembly.hear_list(20_000, &list).unwrap();
    assert_eq!(assembly.hear_list(20_000, &list), Err(DeltaError::Unasked));
    assert!(!assembly.is_described());
    assembly.hear_list(0, &list).unwrap();
    assert_eq!(assembly.finish().unwrap().steps.len(), 1);
}

#[test]
fn a_name_that_stands_for_another_length_is_not_the_same() {
    let size = 20_000;
    let sizes = ChunkSizes::of_file(size).unwrap();
    let mut builder = OldBuilder::default();
    builder.push(Part { length: 4_000, name: Name([7; NAME_BYTES]) });
    let mut assembly = Assembly::new(size, sizes, builder.finish());
    let needs = assembly.hear_recipe(lying(Grain::Chunks, &[4_000, 16_000])).unwrap();
    assert_eq!(needs.pieces, [Run { first: 4_000, count: 16_000 }]);
}

#[test]
fn pieces_are_joined_up_to_a_range_and_no_further() {
    let mut needs = Needs::default();
    needs.piece(10, 5);
    needs.piece(15, RANGE_BYTES);
    needs.piece(15 + RANGE_BYTES, 3 * RANGE_BYTES);
    needs.piece(9 * RANGE_BYTES, 1);
    assert!(needs.pieces.iter().all(|piece| piece.count <= RANGE_BYTES));
    let covered: u64 = needs.pieces.iter().map(|piece| piece.count).sum();
    assert_eq!((needs.pieces[0].first, covered), (10, 5 + 4 * RANGE_BYTES + 1));
    assert_eq!(needs.pieces.len(), 6);
}

#[test]
fn only_versions_of_like_lengths_are_worth_a_delta() {
    for (old, new, expected) in [
        (LEAST_BYTES, LEAST_BYTES, true),
        (LEAST_BYTES - 1, LEAST_BYTES, false),
        (1 << 30, LEAST_BYTES - 1, false),
        (1 << 20, 16 << 20, true),
        (1 << 20, 17 << 20, false),
        (17 << 20, 1 << 20, false),
        (1 << 40, 1 << 40, false),
        (u64::MAX, 1 << 39, false),
    ] {
        assert_eq!(worthwhile(old, new).is_some(), expected, "{old} to {new}");
    }
}
