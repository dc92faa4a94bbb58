//! Whatever a peer says, nothing panics, and nothing is kept beyond the limits.

use std::time::Duration;

use ketch_protocol::{
    limits::{DETAIL_BYTES, MESSAGE_BYTES, PATH_BYTES, VERSION},
    manifest::{Entry, EntryId, EntryKind, Timestamp},
    message::{
        Ask, Batch, Consent, Counts, Frames, Message, MessageError, Offer, Parts, Pieces, Refuse, Run,
        Secret, SessionId, Settled, TargetView, Totals, Want, encode,
    },
    path::EntryPath,
    problem::{Cause, Problem, Reason},
    record::{bare, segment},
    session::{Receiver, Sender, receiver, sender},
};
use proptest::{collection::vec, prelude::*, sample::select};

/// Most bytes a segment decoder may take without giving an item: the longest detail and its numbers.
const SEGMENT_FIELD_BYTES: usize = DETAIL_BYTES + 32;

/// Most bytes a decoder of bare records may take likewise: a header and the longest path.
const BARE_FIELD_BYTES: usize = bare::HEADER_BYTES + PATH_BYTES;

/// Numbers as a liar would choose them.
fn number() -> impl Strategy<Value = u64> {
    prop_oneof![4 => 0u64..6, 1 => any::<u64>(), 1 => Just(u64::MAX), 1 => Just(1 << 63)]
}

fn path() -> impl Strategy<Value = EntryPath> {
    "[ab]{1,3}(/[ab]{1,3}){0,2}".prop_map(|name| EntryPath::parse(name.as_bytes()).unwrap())
}

fn problem() -> impl Strategy<Value = Problem> {
    (path(), select(Cause::ALL), ".{0,20}")
        .prop_map(|(path, cause, detail)| Problem::new(path, cause, detail))
}

fn entry() -> impl Strategy<Value = Entry> {
    let kind = prop_oneof![
        (0..=i64::MAX as u64).prop_map(|size| EntryKind::File { size }),
        Just(EntryKind::File { size: 1 }),
        Just(EntryKind::Directory),
        vec(1u8..=255, 1..9).prop_map(|target| EntryKind::Symlink { target: target.into() }),
    ];
    (path(), kind, 0u32..=0o7777, any::<i64>(), 0u32..1_000_000_000).prop_map(
        |(path, kind, mode, seconds, nanoseconds)| {
            Entry::new(path, kind, mode, Timestamp { seconds, nanoseconds })
        },
    )
}

fn totals() -> impl Strategy<Value = Totals> {
    (number(), number(), number()).prop_map(|(entries, bytes, problems)| Totals { entries, bytes, problems })
}

fn runs() -> impl Strategy<Value = Vec<Run>> {
    let run = (number(), number()).prop_map(|(first, count)| {
        let first = first.min(u64::MAX - 1);
        Run { first, count: count.clamp(1, u64::MAX - first) }
    });
    vec(run, 0..4)
}

/// Runs of wanted entries, of which there are no more than a window.
fn few_runs() -> impl Strategy<Value = Vec<Run>> {
    runs().prop_map(|runs| runs.into_iter().map(|run| Run { count: run.count.min(9), ..run }).collect())
}

fn parts() -> impl Strategy<Value = Parts> {
    (number(), runs(), runs()).prop_map(|(id, content, digest)| Parts { id: EntryId(id), content, digest })
}

fn pieces() -> impl Strategy<Value = Vec<Pieces>> {
    vec((number(), runs()).prop_map(|(id, bytes)| Pieces { id: EntryId(id), bytes }), 0..3)
}

fn settled() -> impl Strategy<Value = Settled> {
    (runs(), runs(), vec((number().prop_map(EntryId), problem()), 0..3), vec(problem(), 0..3))
        .prop_map(|(stored, kept, problems, late)| Settled { stored, kept, problems, late })
}

fn ask() -> impl Strategy<Value = Ask> {
    (any::<[u8; 16]>(), any::<bool>(), any::<bool>()).prop_map(|(bytes, pending, occupied)| Ask {
        version: VERSION,
        session: SessionId(bytes),
        secret: Secret::from_bytes(bytes),
        consent: if pending { Consent::Pending } else { Consent::Given },
        target: if occupied { TargetView::Occupied } else { TargetView::Empty },
    })
}

fn message() -> impl Strategy<Value = Message> {
    let batch =
        (number(), vec(entry(), 0..4), vec(problem(), 0..3)).prop_map(|(first, entries, problems)| Batch {
            first: EntryId(first.min(u64::MAX - 4)),
            entries,
            problems,
        });
    let counts = (number(), number(), number(), number(), number())
        .prop_map(|(listed, sent, kept, skipped, failed)| Counts { listed, sent, kept, skipped, failed });
    let refuse = (select(Reason::ALL), proptest::option::of(path()), ".{0,20}")
        .prop_map(|(reason, path, detail)| Refuse { reason, path, detail });
    let offer = proptest::option::of(totals())
        .prop_map(|estimate| Message::Offer(Offer { version: VERSION, estimate }));
    let want = (few_runs(), few_runs(), vec(parts(), 0..3), few_runs(), pieces(), pieces()).prop_map(
        |(content, digest, parts, delta, lists, pieces)| {
            Message::Want(Want { content, digest, parts, delta, lists, pieces })
        },
    );
    // What ends a session is rare, so that most of a sequence is heard.
    prop_oneof![
        1 => ask().prop_map(Message::Ask),
        1 => offer,
        1 => refuse.prop_map(Message::Refuse),
        1 => Just(Message::Accept),
        6 => batch.prop_map(Message::Manifest),
        1 => totals().prop_map(Message::ManifestEnd),
        6 => want,
        6 => settled().prop_map(Message::Settled),
        1 => counts.prop_map(Message::Done),
        1 => Just(Message::Farewell),
        6 => Just(Message::KeepAlive),
    ]
}

/// All messages of some bytes, or the error that ends them.
fn decode(bytes: &[u8]) -> Result<Vec<Message>, MessageError> {
    let mut frames = Frames::default();
    frames.push(bytes);
    let mut messages = Vec::new();
    while let Some(message) = frames.next_message()? {
        messages.push(message);
    }
    Ok(messages)
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

#[test]
fn a_frame_that_is_too_long_is_refused_by_its_length_alone() {
    for length in [MESSAGE_BYTES as u32 + 1, u32::MAX] {
        assert_eq!(decode(&length.to_be_bytes()), Err(MessageError::TooLong(length.into())));
    }
    assert_eq!(decode(&(MESSAGE_BYTES as u32).to_be_bytes()), Ok(Vec::new()));
}

#[test]
fn a_frame_without_a_known_message_is_refused() {
    let unknown = [0, 0, 0, 2, 12 << 3 | 2, 0];
    for frame in [&[0, 0, 0, 0][..], &unknown] {
        assert_eq!(decode(frame), Err(MessageError::Field("body")));
    }
}

#[test]
fn an_unknown_field_of_a_known_message_is_ignored() {
    // `accept` with a field 9 that no version has yet.
    assert_eq!(decode(&[0, 0, 0, 4, 4 << 3 | 2, 2, 9 << 3, 5]), Ok(vec![Message::Accept]));
}

#[test]
fn wants_of_more_entries_than_a_window_are_refused() {
    let many = |count| Message::Want(Want { content: vec![Run { first: 0, count }; 2], ..Want::default() });
    assert!(decode(&encode(&many(32_768))).is_ok());
    assert_eq!(decode(&encode(&many(32_769))), Err(MessageError::Field("number of wanted entries")));
    assert_eq!(decode(&encode(&many(u64::MAX))), Err(MessageError::Field("number of wanted entries")));
}

proptest! {
    #[test]
    fn messages_survive_encoding_in_any_pieces(messages in vec(message(), 1..6), piece in 1usize..200) {
        let bytes: Vec<u8> = messages.iter().flat_map(encode).collect();
        let mut frames = Frames::default();
        let mut decoded = Vec::new();
        for piece in bytes.chunks(piece) {
            frames.push(piece);
            while let Some(message) = frames.next_message().unwrap() {
                decoded.push(message);
            }
        }
        prop_assert_eq!(decoded, messages);
        prop_assert!(!frames.is_mid_message());
    }

    #[test]
    fn mutated_frames_never_panic(
        message in message(),
        changes in vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        keep in any::<prop::sample::Index>(),
    ) {
        let mut frame = encode(&message);
        for (place, byte) in changes {
            // Behind the length, so that the mutation reaches the fields.
            let place = 4 + place.index(frame.len() - 4);
            frame[place] = byte;
        }
        let _ = decode(&frame);
        let _ = decode(&frame[..keep.index(frame.len())]);
    }

    #[test]
    fn random_frames_never_panic(body in vec(any::<u8>(), 0..300)) {
        let frame = [&(body.len() as u32).to_be_bytes()[..], &body].concat();
        let _ = decode(&frame);
        let _ = decode(&body);
    }

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

    #[test]
    fn no_order_of_messages_makes_a_sender_panic(ask in ask(), messages in vec(message(), 0..30)) {
        use sender::{Action, Input};
        let mut machine = Sender::default();
        let entries = ["a", "b", "c", "d"].map(|name| {
            let path = EntryPath::parse(name.as_bytes()).unwrap();
            Entry::new(path, EntryKind::File { size: 20 << 20 }, 0o644, Timestamp::default())
        });
        let prelude = [
            Input::Message(Message::Ask(ask)),
            Input::Admitted { estimate: None },
            Input::Listed { entries: entries.to_vec(), problems: Vec::new() },
        ];
        let inputs = prelude.into_iter().chain(messages.into_iter().map(Input::Message));
        let mut ended = false;
        for (second, input) in inputs.enumerate() {
            for action in machine.handle(input, Duration::from_secs(second as u64)) {
                prop_assert!(!ended, "{action:?} follows the end");
                ended = matches!(action, Action::End(_));
            }
        }
    }

    #[test]
    fn no_order_of_messages_makes_a_receiver_panic(ask in ask(), messages in vec(message(), 0..30)) {
        use receiver::{Action, Answer, Input, Outcome};
        let (mut machine, _) = Receiver::new(ask);
        let offer = Message::Offer(Offer { version: VERSION, estimate: None });
        let mut inputs: Vec<Input> =
            [offer].into_iter().chain(messages).rev().map(Input::Message).collect();
        let (mut ended, mut second) = (false, 0);
        while let Some(input) = inputs.pop() {
            second += 1;
            for action in machine.handle(input, Duration::from_secs(second)) {
                prop_assert!(!ended, "{action:?} follows the end");
                match action {
                    Action::Plan { first, .. } => {
                        inputs.push(Input::Outcomes(vec![(first, Outcome::Stored)]));
                    }
                    Action::Consult { .. } => inputs.push(Input::Consent(Answer::Yes)),
                    Action::Finish => inputs.push(Input::Finished { late: Vec::new() }),
                    Action::End(_) => ended = true,
                    Action::Send(_) | Action::Offered(_) | Action::Report(_) => {}
                }
            }
        }
    }
}
