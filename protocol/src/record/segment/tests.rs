use proptest::prelude::*;

use super::*;
use crate::{
    chunk::Name,
    limits::{GROUP_CHUNKS, RECIPE_CHUNKS},
};

fn segment(id: u64, content: &[u8]) -> Vec<u8> {
    let span = Span::whole(content.len() as u64);
    let mut out = Vec::new();
    put_begin(&mut out, EntryId(id), span);
    for block in content.chunks(BLOCK_BYTES) {
        put_block_length(&mut out, block.len());
        out.extend_from_slice(block);
    }
    let mut hasher = span.hasher(span.length());
    hasher.update(content);
    put_end(&mut out, hasher.finish());
    out
}

/// What came out, with adjoining data joined.
fn decode(pieces: &[&[u8]]) -> Result<Vec<String>, SegmentError> {
    let mut decoder = Decoder::default();
    let mut seen: Vec<String> = Vec::new();
    let mut data: Vec<u8> = Vec::new();
    for piece in pieces {
        let mut input = *piece;
        while let Some(item) = decoder.next_item(&mut input)? {
            if let Item::Data(bytes) = item {
                data.extend_from_slice(bytes);
            } else {
                if !data.is_empty() {
                    seen.push(format!("{} bytes {}", data.len(), blake3::hash(&data).to_hex()));
                    data.clear();
                }
                seen.push(format!("{item:?}"));
            }
        }
    }
    decoder.finish()?;
    Ok(seen)
}

fn stream() -> Vec<u8> {
    let mut bytes = segment(0, b"hello");
    put_begin(&mut bytes, EntryId(300), Span::whole(10));
    put_block_length(&mut bytes, 4);
    bytes.extend_from_slice(b"trun");
    put_aborted(&mut bytes, Cause::Changed, "10 bytes were listed, 4 were there");
    put_digest(&mut bytes, EntryId(7), Span::range(WHOLE_BYTES + 1, 8), ContentHash([9; 32]));
    bytes.extend(segment(1 << 40, &[5; 100]));
    bytes.extend(delta_segments());
    bytes
}

fn part(length: u32) -> Part {
    Part { length, name: Name([length as u8; 16]) }
}

fn run(first: u64, count: u64) -> Run {
    Run { first, count }
}

/// A recipe, a list, and a piece of 1,000 bytes most of which are a hole.
fn delta_segments() -> Vec<u8> {
    let mut bytes = Vec::new();
    put_recipe(&mut bytes, EntryId(2), Grain::Groups);
    [5_000_000, 70_000].into_iter().for_each(|length| put_part(&mut bytes, part(length)));
    put_end(&mut bytes, ContentHash([8; 32]));
    put_list(&mut bytes, EntryId(2), run(5_000_000, 70_000));
    put_part(&mut bytes, part(70_000));
    put_list_end(&mut bytes);
    put_piece(&mut bytes, EntryId(2), run(5_000_010, 1_000));
    put_hole(&mut bytes, 998);
    put_block_length(&mut bytes, 2);
    bytes.extend_from_slice(b"ab");
    put_end(&mut bytes, ContentHash([9; 32]));
    bytes
}

#[test]
fn a_file_that_shrinks_costs_its_own_segment_and_the_stream_goes_on() {
    let items = decode(&[&stream()]).unwrap();
    assert_eq!(items.len(), 21);
    assert!(items[3].contains("#300"), "{items:?}");
    assert!(items[5].contains("Aborted { cause: Changed"), "{items:?}");
    assert!(items[6].contains("Digest"), "{items:?}");
}

#[test]
fn items_are_the_same_wherever_the_stream_is_cut() {
    let bytes = stream();
    let whole = decode(&[&bytes]).unwrap();
    for cut in 0..bytes.len() {
        let (front, back) = bytes.split_at(cut);
        assert_eq!(decode(&[front, back]).as_ref(), Ok(&whole), "cut at {cut}");
    }
    let single: Vec<&[u8]> = bytes.chunks(1).collect();
    assert_eq!(decode(&single), Ok(whole));
}

#[test]
fn a_stream_that_ends_early_is_an_error_unless_between_segments() {
    let bytes = stream();
    let ends: Vec<usize> = (0..=bytes.len()).filter(|&end| decode(&[&bytes[..end]]).is_ok()).collect();
    assert_eq!(ends.len(), 8, "{ends:?}");
}

#[test]
fn lengths_that_lie_are_refused() {
    let mut long_block = Vec::new();
    put_begin(&mut long_block, EntryId(0), Span::whole(4));
    put_number(&mut long_block, 5);
    assert_eq!(decode(&[&long_block, b"12345"]), Err(SegmentError::Block { length: 5, allowed: 4 }));

    let mut short = Vec::new();
    put_begin(&mut short, EntryId(0), Span::whole(4));
    put_end(&mut short, ContentHash::of_nothing());
    assert_eq!(decode(&[&short]), Err(SegmentError::Short { missing: 4 }));

    let huge = [CONTENT, 0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01, RAW];
    assert!(matches!(decode(&[&huge]), Err(SegmentError::Span { .. })));
    let overflow = [CONTENT, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02];
    assert_eq!(decode(&[&overflow]), Err(SegmentError::Overflow));
    assert!(matches!(decode(&[&[9]]), Err(SegmentError::Unknown { field: "tag", value: 9 })));
    assert!(matches!(
        decode(&[&[CONTENT, 0, 0, 1, 7]]),
        Err(SegmentError::Unknown { field: "encoding", .. })
    ));
}

#[test]
fn what_a_delta_is_made_of_comes_out_as_it_went_in() {
    let items = decode(&[&delta_segments()]).unwrap();
    let expected = [
        Item::Recipe { id: EntryId(2), grain: Grain::Groups },
        Item::Part(part(5_000_000)),
        Item::Part(part(70_000)),
        Item::End(ContentHash([8; 32])),
        Item::List { id: EntryId(2), bytes: run(5_000_000, 70_000) },
        Item::Part(part(70_000)),
        Item::ListEnd,
        Item::Piece { id: EntryId(2), bytes: run(5_000_010, 1_000) },
        Item::Hole(998),
    ];
    assert_eq!(items[..9], expected.map(|item| format!("{item:?}")));
    assert!(items[9].starts_with("2 bytes") && items[10].starts_with("End"), "{items:?}");
}

#[test]
fn a_recipe_or_a_list_that_is_given_up_costs_nothing_else() {
    let mut bytes = Vec::new();
    put_recipe(&mut bytes, EntryId(1), Grain::Chunks);
    put_aborted(&mut bytes, Cause::Unrepresentable, "");
    put_list(&mut bytes, EntryId(1), run(0, 9));
    put_part(&mut bytes, part(9));
    put_aborted(&mut bytes, Cause::Changed, "");
    assert_eq!(decode(&[&bytes]).unwrap().len(), 5);
}

#[test]
fn recipes_lists_pieces_and_holes_are_bounded() {
    let parts = |begin: &dyn Fn(&mut Vec<u8>), count: usize| {
        let mut bytes = Vec::new();
        begin(&mut bytes);
        (0..count).for_each(|_| put_part(&mut bytes, part(1)));
        decode(&[&bytes])
    };
    let recipe = |out: &mut Vec<u8>| put_recipe(out, EntryId(0), Grain::Chunks);
    let list = |out: &mut Vec<u8>| put_list(out, EntryId(0), run(0, 1));
    for (result, allowed) in
        [(parts(&recipe, RECIPE_CHUNKS + 1), RECIPE_CHUNKS), (parts(&list, GROUP_CHUNKS + 1), GROUP_CHUNKS)]
    {
        assert_eq!(result, Err(SegmentError::Parts { allowed }));
    }
    assert_eq!(parts(&recipe, RECIPE_CHUNKS), Err(SegmentError::Truncated));

    let header = |tag: u8, offset: u64, length: u64| {
        let mut bytes = vec![tag, 0];
        [offset, length].into_iter().for_each(|number| put_number(&mut bytes, number));
        bytes.push(RAW);
        decode(&[&bytes])
    };
    let end = i64::MAX as u64;
    for (tag, offset, length) in
        [(PIECE, 0, 0), (PIECE, 0, RANGE_BYTES + 1), (LIST, end, 1), (LIST, 0, 0), (PIECE, u64::MAX, 1)]
    {
        assert_eq!(header(tag, offset, length), Err(SegmentError::Span { offset, length }));
    }

    let mut hole = Vec::new();
    put_begin(&mut hole, EntryId(0), Span::whole(4));
    put_hole(&mut hole, 5);
    assert_eq!(decode(&[&hole]), Err(SegmentError::Block { length: 5, allowed: 4 }));
}

#[test]
fn spans_are_whole_files_or_aligned_ranges() {
    for (offset, length, legal) in [
        (0, 0, true),
        (0, WHOLE_BYTES, true),
        (0, WHOLE_BYTES + 1, false),
        (1, 1, false),
        (RANGE_BYTES, RANGE_BYTES, true),
        (RANGE_BYTES, RANGE_BYTES + 1, false),
        (RANGE_BYTES, 0, false),
    ] {
        assert_eq!(Span::parse(offset, length).is_some(), legal, "{offset} {length}");
    }
    let size = WHOLE_BYTES + 5;
    assert_eq!(Span::count(size), 9);
    assert_eq!(Span::range(size, 8), Span { offset: 8 * RANGE_BYTES, length: 5 });
    assert!(Span::range(size, 8).is_of(size) && !Span::range(size, 8).is_of(size + 1));
    assert!(Span::whole(5).is_of(5) && !Span::whole(5).is_of(6));
    assert!((0..9).all(|index| Span::range(size, index).index() == index));
}

proptest! {
    #[test]
    fn random_bytes_never_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200), cut in 0usize..200) {
        let cut = cut.min(bytes.len());
        let _ = decode(&[&bytes[..cut], &bytes[cut..]]);
    }
}
