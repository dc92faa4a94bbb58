//! What is kept decodes to the example.

use ketch_protocol::{
    chunk::{Name, Part},
    delta::Grain,
    manifest::EntryId,
    message::{Frames, Run},
    problem::Cause,
    record::{
        bare,
        segment::{self, Span},
    },
};

use crate::{
    BARE, DATA, DELTA, FROM_RECEIVER, FROM_SENDER, OTHERS, bytes_of,
    example::{ascending, gone, hash, others, path, said_by_receiver, said_by_sender},
};

#[test]
fn the_fixtures_decode_to_the_example() {
    let decode = |bytes: &[u8]| {
        let mut frames = Frames::default();
        frames.push(bytes);
        let mut messages = Vec::new();
        while let Some(message) = frames.next_message().unwrap() {
            messages.push(message);
        }
        assert!(!frames.is_mid_message());
        messages
    };
    assert_eq!(decode(&bytes_of(FROM_RECEIVER)[1..]), said_by_receiver());
    assert_eq!(decode(&bytes_of(FROM_SENDER)), said_by_sender());
    assert_eq!(decode(&bytes_of(OTHERS)), others());
}

#[test]
fn the_data_stream_decodes_to_its_segments() {
    use segment::Item;
    let bytes = bytes_of(DATA);
    let mut input = &bytes[17..];
    let mut decoder = segment::Decoder::default();
    let detail = gone().detail;
    let expected = [
        Item::Begin { id: EntryId(1), span: Span::whole(5) },
        Item::Data(b"hello"),
        Item::End(hash(b"hello")),
        Item::Begin { id: EntryId(2), span: Span::whole(9) },
        Item::Data(b"half"),
        Item::Aborted { cause: Cause::Changed, detail },
        Item::Digest { id: EntryId(4), span: Span::whole(4), hash: hash(b"same") },
    ];
    for item in expected {
        assert_eq!(decoder.next_item(&mut input), Ok(Some(item)));
    }
    assert_eq!((input.len(), decoder.finish()), (0, Ok(())));
}

#[test]
fn the_delta_decodes_to_its_segments() {
    use segment::Item;
    let bytes = bytes_of(DELTA);
    let mut input = &bytes[17..];
    let mut decoder = segment::Decoder::default();
    let part = |length, first| Item::Part(Part { length, name: Name(ascending(first)) });
    let expected = [
        Item::Recipe { id: EntryId(4), grain: Grain::Groups },
        part(40_000, 0x20),
        part(30_000, 0x40),
        Item::End(hash(b"all of it")),
        Item::List { id: EntryId(4), bytes: Run { first: 40_000, count: 30_000 } },
        part(25_000, 0x60),
        part(5_000, 0x80),
        Item::ListEnd,
        Item::Piece { id: EntryId(4), bytes: Run { first: 65_000, count: 5_000 } },
        Item::Hole(4_996),
        Item::Data(b"tail"),
        Item::End(hash(&[&[0; 4_996][..], b"tail"].concat())),
    ];
    for item in expected {
        assert_eq!(decoder.next_item(&mut input), Ok(Some(item)));
    }
    assert_eq!((input.len(), decoder.finish()), (0, Ok(())));
}

#[test]
fn the_bare_records_decode_to_their_files() {
    use bare::Item;
    let bytes = bytes_of(BARE);
    let mut input = &bytes[..];
    let mut decoder = bare::Decoder::default();
    let expected = [
        Item::Begin { path: path("d/a"), length: 5 },
        Item::Data(b"hello"),
        Item::End,
        Item::Begin { path: path("empty"), length: 0 },
        Item::End,
    ];
    for item in expected {
        assert_eq!(decoder.next_item(&mut input), Ok(Some(item)));
    }
    assert_eq!(decoder.finish(), Ok(()));
}
