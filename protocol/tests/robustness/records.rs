//! What decoders of data streams keep of anything.

use ketch_protocol::{
    limits::{DETAIL_BYTES, PATH_BYTES},
    manifest::EntryId,
    record::{bare, segment},
};
use proptest::{collection::vec, prelude::*};

use crate::messages::number;

/// Most bytes a segment decoder may take without giving an item: the longest detail and its numbers.
const SEGMENT_FIELD_BYTES: usize = DETAIL_BYTES + 32;

/// Most bytes a decoder of bare records may take likewise: a header and the longest path.
const BARE_FIELD_BYTES: usize = bare::HEADER_BYTES + PATH_BYTES;

proptest! {
    #[test]
    fn a_segment_decoder_keeps_no_more_than_one_field(bytes in vec(any::<u8>(), 0..3_000), tag in 0u8..7) {
        let bytes = [&[tag, 0, 0, 200, 1][..], &bytes].concat();
        let mut decoder = segment::Decoder::default();
        let most = most_kept(&bytes, |input| decoder.next_item(input).ok().map(|item| item.is_some()));
        prop_assert!(most <= SEGMENT_FIELD_BYTES, "{most}");
    }

    #[test]
    fn an_abort_that_never_ends_is_refused_in_time(length in number(), detail in vec(any::<u8>(), 0..3_000)) {
        let mut bytes = Vec::new();
        segment::put_begin(&mut bytes, EntryId(0), segment::Span::whole(5));
        bytes.extend([0, 1, 5]);
        bytes.extend((0..10).map(|index| (length >> (7 * index).min(63)) as u8 | 0x80));
        bytes.extend(detail);
        let mut decoder = segment::Decoder::default();
        let most = most_kept(&bytes, |input| decoder.next_item(input).ok().map(|item| item.is_some()));
        prop_assert!(most <= SEGMENT_FIELD_BYTES, "{most}");
    }

    #[test]
    fn a_bare_decoder_keeps_no_more_than_one_header(
        path_length in any::<u16>(),
        length in number(),
        rest in vec(any::<u8>(), 0..6_000),
    ) {
        let bytes = [&path_length.to_be_bytes()[..], &length.to_be_bytes(), &rest].concat();
        let mut decoder = bare::Decoder::default();
        let most = most_kept(&bytes, |input| decoder.next_item(input).ok().map(|item| item.is_some()));
        prop_assert!(most <= BARE_FIELD_BYTES, "{most}");
    }
}

/// Feeds single bytes; the most that were taken in a row without an item.
fn most_kept(bytes: &[u8], mut gives_item: impl FnMut(&mut &[u8]) -> Option<bool>) -> usize {
    let (mut kept, mut most) = (0, 0);
    for byte in bytes.chunks(1) {
        let mut input = byte;
        kept += 1;
        loop {
            match gives_item(&mut input) {
                Some(true) => kept = 0,
                Some(false) => break,
                None => return most,
            }
        }
        most = most.max(kept);
    }
    most
}
