//! Whatever a peer says, nothing panics, and nothing is kept beyond the limits.

use std::{sync::Arc, time::Duration};

use ketch_protocol::{
    controller::Controller,
    difference::{Catalogue, CatalogueBuilder, RangeHash},
    limits::{self, BATCH_ENTRIES, DETAIL_BYTES, MESSAGE_BYTES, PATH_BYTES, VERSION},
    manifest::{Entry, EntryId, EntryKind, Timestamp},
    message::{
        Ask, Batch, Claim, Compression, Congestion, Connections, Consent, Counts, DiskId, Durability,
        Equality, Expand, Frames, Hashes, List, Message, MessageError, Nodes, Offer, Parts, Pieces, Place,
        Policy, Propose, Refuse, Removal, RemovalLimit, Root, Rules, Run, Secret, Selection, SessionId,
        Settled, ShareName, TargetView, Totals, Want, encode,
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
    let fates = (runs(), runs(), runs(), runs(), runs());
    let problems = (vec((number().prop_map(EntryId), problem()), 0..3), vec(problem(), 0..3));
    (fates, problems, vec(path(), 0..3), number()).prop_map(
        |((created, updated, described, kept, skipped), (problems, late), removed, planned_bytes)| Settled {
            created,
            updated,
            described,
            kept,
            skipped,
            problems,
            late,
            removed,
            planned_bytes,
        },
    )
}

fn place() -> impl Strategy<Value = Place> {
    ("[a-z0-9][a-z0-9._-]{0,63}", proptest::option::of(path()))
        .prop_map(|(share, path)| Place { share: ShareName::parse(&share).unwrap(), path })
}

fn selection() -> impl Strategy<Value = Selection> {
    let rules = vec(vec(1u8..=9, 1..9), 0..4)
        .prop_map(|lines| Rules::new(lines.into_iter().map(Into::into).collect()).unwrap());
    let hashes = select(&[Hashes::Known, Hashes::All, Hashes::Read]);
    let compression = select(&[Compression::Auto, Compression::Zstd, Compression::None]);
    (rules, hashes, any::<bool>(), any::<bool>(), compression).prop_map(
        |(rules, hashes, owner, attributes, compression)| Selection {
            rules,
            hashes,
            owner,
            attributes,
            compression,
        },
    )
}

fn policy() -> impl Strategy<Value = Policy> {
    let limit = prop_oneof![
        Just(RemovalLimit::Default),
        number().prop_map(RemovalLimit::Entries),
        (0u8..=100).prop_map(RemovalLimit::Percent),
    ];
    let removal = prop_oneof![
        Just(Removal::Nothing),
        (limit, any::<bool>()).prop_map(|(limit, force_empty)| Removal::Extra { limit, force_empty }),
    ];
    let equality = select(&[Equality::Content, Equality::Size, Equality::Checksum]);
    let durability = select(&[Durability::None, Durability::Session, Durability::File]);
    (removal, equality, durability, any::<[bool; 6]>()).prop_map(
        |(removal, equality, durability, choices)| {
            let [existing, ignore_existing, update, find_moves, delta, preview] = choices;
            Policy {
                removal,
                existing,
                ignore_existing,
                update,
                equality,
                find_moves,
                delta,
                preview,
                durability,
            }
        },
    )
}

fn connections() -> impl Strategy<Value = Connections> {
    (1..=u32::from(limits::CONNECTIONS)).prop_map(|count| count.try_into().unwrap())
}

fn propose() -> impl Strategy<Value = Propose> {
    (any::<[u8; 16]>(), place(), selection(), policy(), connections(), controller()).prop_map(
        |(session, place, selection, policy, connections, controller)| Propose {
            version: VERSION,
            session: SessionId(session),
            place,
            selection,
            policy,
            connections,
            controller,
        },
    )
}

fn controller() -> impl Strategy<Value = Option<Controller>> {
    select(&[None, Some(Controller::Cubic), Some(Controller::Bbr)])
}

fn congestion() -> impl Strategy<Value = Option<Congestion>> {
    proptest::option::of(
        ("[a-z]{0,16}", ".{0,20}").prop_map(|(controller, problem)| Congestion { controller, problem }),
    )
}

fn claim() -> impl Strategy<Value = Claim> {
    prop_oneof![
        any::<[u8; 16]>().prop_map(|secret| Claim::Ticket(Secret::from_bytes(secret))),
        place().prop_map(Claim::Share),
        Just(Claim::Proposed),
    ]
}

fn ask() -> impl Strategy<Value = Ask> {
    let views = [
        (Consent::Given, TargetView::Empty, false),
        (Consent::Pending, TargetView::Empty, false),
        (Consent::Pending, TargetView::Occupied, true),
        (Consent::Given, TargetView::Comparable, false),
        (Consent::Given, TargetView::Comparable, true),
    ];
    let spoken_of = (connections(), controller(), congestion(), vec(path(), 0..3));
    (any::<[u8; 16]>(), claim(), select(views.to_vec()), selection(), spoken_of).prop_map(
        |(
            session,
            claim,
            (consent, target, preview),
            selection,
            (connections, controller, congestion, missed),
        )| {
            Ask {
                version: VERSION,
                session: SessionId(session),
                claim,
                consent,
                target,
                selection,
                preview,
                connections,
                controller,
                congestion,
                missed,
            }
        },
    )
}

/// Runs that ascend and do not touch.
fn ascending() -> impl Strategy<Value = Vec<Run>> {
    vec((1u64..4, 1u64..4), 0..4).prop_map(|gaps| {
        let mut next = 0;
        gaps.into_iter()
            .map(|(gap, count)| {
                let run = Run { first: next + gap, count };
                next = run.numbers().end;
                run
            })
            .collect()
    })
}

fn range_hashes() -> impl Strategy<Value = Vec<RangeHash>> {
    vec((0u8..3).prop_map(|byte| RangeHash([byte; 16])), 0..4)
}

/// A proposal that an ask would answer.
fn propose_what(ask: &Ask) -> Propose {
    Propose {
        version: VERSION,
        session: ask.session,
        place: Place { share: ShareName::parse("photos").unwrap(), path: None },
        selection: Selection::default(),
        policy: Policy { preview: ask.preview, ..Policy::default() },
        connections: Connections::ONE,
        controller: None,
    }
}

fn catalogue(entries: &[Entry]) -> Arc<Catalogue> {
    let mut builder = CatalogueBuilder::new([9; 16]);
    entries.iter().for_each(|entry| builder.push(entry));
    Arc::new(builder.finish())
}

/// Messages of a comparison.
fn comparison() -> impl Strategy<Value = Message> {
    let root = (0u8..3, 0u32..4, 0u64..9, totals()).prop_map(|(byte, levels, entries, totals)| {
        Message::Root(Root { hash: RangeHash([byte; 16]), levels, totals: Totals { entries, ..totals } })
    });
    prop_oneof![
        root,
        (0u32..3, ascending()).prop_map(|(level, nodes)| Message::Expand(Expand { level, nodes })),
        (0u32..3, 0u64..9, range_hashes()).prop_map(|(level, first, hashes)| Message::Nodes(Nodes {
            level,
            first,
            hashes
        })),
        (ascending(), any::<bool>()).prop_map(|(leaves, complete)| Message::List(List { leaves, complete })),
    ]
}

fn message() -> impl Strategy<Value = Message> {
    let batch =
        (number(), vec(entry(), 0..4), vec(problem(), 0..3)).prop_map(|(first, entries, problems)| Batch {
            first: EntryId(first.min(u64::MAX - 4)),
            entries,
            problems,
        });
    let counts = vec(number(), 7).prop_map(|numbers| Counts {
        listed: numbers[0],
        sent: numbers[1],
        kept: numbers[2],
        skipped: numbers[3],
        failed: numbers[4],
        removed: numbers[5],
        problems: numbers[6],
    });
    let refuse = (select(Reason::ALL), proptest::option::of(path()), ".{0,20}")
        .prop_map(|(reason, path, detail)| Refuse { reason, path, detail });
    let disk = proptest::option::of(any::<[u8; 16]>().prop_map(DiskId));
    let offer = (proptest::option::of(totals()), connections(), congestion(), disk).prop_map(
        |(estimate, connections, congestion, disk)| {
            Message::Offer(Offer { version: VERSION, estimate, connections, congestion, disk })
        },
    );
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
        1 => propose().prop_map(Message::Propose),
        6 => comparison(),
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
    let unknown = [0, 0, 0, 3, (17 << 3 | 2) | 0x80, 1, 0];
    for frame in [&[0, 0, 0, 0][..], &unknown] {
        assert_eq!(decode(frame), Err(MessageError::Field("body")));
    }
}

#[test]
fn an_unknown_field_of_a_known_message_is_ignored() {
    // `accept` with a field 9 that no version has yet.
    assert_eq!(decode(&[0, 0, 0, 4, 4 << 3 | 2, 2, 9 << 3, 5]), Ok(vec![Message::Accept]));
}

/// A frame of a message with these fields, each a tag with its bytes.
fn frame(tag: u8, fields: &[(u8, &[u8])]) -> Vec<u8> {
    let field = |tag: u8, bytes: &[u8]| [&[tag << 3 | 2, bytes.len() as u8], bytes].concat();
    let body: Vec<u8> = fields.iter().flat_map(|(tag, bytes)| field(*tag, bytes)).collect();
    let message = field(tag, &body);
    [&(message.len() as u32).to_be_bytes()[..], &message].concat()
}

/// A frame of a message whose fields are these bytes.
fn raw_frame(tag: u8, body: &[u8]) -> Vec<u8> {
    [&[0, 0, 0, body.len() as u8 + 2, tag << 3 | 2, body.len() as u8], body].concat()
}

#[test]
fn an_ask_has_one_claim() {
    let (session, secret): (&[u8], &[u8]) = (&[1; 16], &[2; 16]);
    let ask = |fields: &[(u8, &[u8])]| decode(&frame(1, &[&[(2, session)], fields].concat()));
    for (fields, refused) in [
        (&[(3, secret), (6, &b"photos"[..])][..], "claim"),
        (&[(3, secret), (7, b"a")], "claim"),
        (&[(7, b"a")], "claim"),
        (&[(3, &secret[1..])], "secret"),
        (&[(6, b"-n")], "name of a share"),
    ] {
        assert_eq!(ask(fields), Err(MessageError::Field(refused)), "{fields:?}");
    }
    assert!(matches!(ask(&[(6, b"photos"), (7, b"../x")]), Err(MessageError::Path(_))));
    assert!(ask(&[(6, b"photos"), (7, b"x")]).is_ok());
}

#[test]
fn a_view_of_the_target_fits_the_rest_of_the_ask() {
    let session = [&[2 << 3 | 2, 16][..], &[1; 16]].concat();
    let ask = |fields: &[u8]| decode(&raw_frame(1, &[&session[..], fields].concat()));
    let (pending, target, preview) = (4 << 3, 5 << 3, 9 << 3);
    let refused = Err(MessageError::Field("view of the target"));
    assert_eq!(ask(&[target, 3]), refused);
    assert_eq!(ask(&[pending, 1, target, 2]), refused, "nobody could be asked in time");
    assert_eq!(ask(&[preview, 1]), refused, "content would come unasked");
    assert!(ask(&[target, 2, preview, 1]).is_ok());
}

#[test]
fn a_session_has_no_more_connections_than_there_may_be() {
    let session = [&[2 << 3 | 2, 16][..], &[1; 16]].concat();
    let ask = |count| decode(&raw_frame(1, &[&session[..], &[5 << 3, 1, 11 << 3, count]].concat()));
    let offer = |count| decode(&raw_frame(2, &[4 << 3, count]));
    let refused = Err(MessageError::Field("number of connections"));
    assert_eq!((ask(17), offer(17)), (refused.clone(), refused));
    for count in [0, 1, 16] {
        assert!(ask(count).is_ok() && offer(count).is_ok(), "{count}");
    }
}

#[test]
fn a_limit_of_removal_is_one_and_of_something() {
    let (session, share): (&[u8], &[u8]) = (&[1; 16], b"photos");
    let propose = |policy: &[u8]| decode(&frame(12, &[(2, session), (3, share), (6, policy)]));
    let (remove, entries, percent, force_empty) = (1 << 3, 2 << 3, 3 << 3, 4 << 3);
    let refused = Err(MessageError::Field("limit of removal"));
    assert_eq!(propose(&[remove, 1, entries, 5, percent, 5]), refused);
    assert_eq!(propose(&[remove, 1, percent, 101]), refused);
    assert_eq!(propose(&[entries, 5]), refused);
    assert_eq!(propose(&[force_empty, 1]), refused);
    assert!(propose(&[remove, 1, percent, 100, force_empty, 1]).is_ok());
    assert_eq!(propose(&[8 << 3, 3]), Err(MessageError::Field("equality")));
    assert_eq!(propose(&[12 << 3, 3]), Err(MessageError::Field("durability")));
    assert_eq!(decode(&frame(12, &[(2, session), (3, share)])), Err(MessageError::Field("policy")));
}

#[test]
fn runs_of_a_comparison_ascend_and_do_not_touch() {
    let run = |first, count| [2 << 3 | 2, 4, 1 << 3, first, 2 << 3, count];
    let expand = |runs: &[[u8; 6]]| decode(&raw_frame(14, &runs.concat()));
    let refused = Err(MessageError::Field("order of runs"));
    assert!(expand(&[run(1, 1), run(3, 2), run(9, 1)]).is_ok());
    assert_eq!(expand(&[run(1, 1), run(2, 1)]), refused);
    assert_eq!(expand(&[run(3, 1), run(1, 1)]), refused);
    assert_eq!(expand(&[run(1, 5), run(3, 1)]), refused);
    assert_eq!(expand(&[run(1, 0)]), Err(MessageError::Field("run of numbers")));
}

#[test]
fn hashes_of_a_comparison_are_whole() {
    assert_eq!(decode(&frame(15, &[(3, &[1; 33])])), Err(MessageError::Field("list of nodes")));
    assert_eq!(decode(&frame(13, &[(1, &[1; 15])])), Err(MessageError::Field("hash of a range")));
    let many = [&[1 << 3][..], &[0xff; 9], &[1]].concat();
    let root = decode(&frame(13, &[(1, &[1; 16]), (3, &many)]));
    assert_eq!(root, Err(MessageError::Field("number of entries")));
}

#[test]
fn more_names_than_a_batch_has_entries_are_refused() {
    let told = |count| {
        let removed = vec![EntryPath::parse(b"a").unwrap(); count];
        Message::Settled(Settled { removed, ..Settled::default() })
    };
    assert!(decode(&encode(&told(BATCH_ENTRIES))).is_ok());
    assert_eq!(decode(&encode(&told(BATCH_ENTRIES + 1))), Err(MessageError::Field("number of names")));
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
        let mut machine = if ask.claim == Claim::Proposed {
            Sender::propose(propose_what(&ask)).0
        } else {
            Sender::default()
        };
        let entries = ["a", "b", "c", "d"].map(|name| {
            let path = EntryPath::parse(name.as_bytes()).unwrap();
            Entry::new(path, EntryKind::File { size: 20 << 20 }, 0o644, Timestamp::default())
        });
        let prelude = [
            Input::Message(Message::Ask(ask)),
            Input::Admitted { estimate: None, connections: Connections::MOST, disk: None },
            Input::Listed { entries: entries.to_vec(), problems: Vec::new() },
        ];
        let mut inputs: Vec<Input> =
            prelude.into_iter().chain(messages.into_iter().map(Input::Message)).rev().collect();
        let (mut ended, mut second) = (false, 0);
        while let Some(input) = inputs.pop() {
            second += 1;
            for action in machine.handle(input, Duration::from_secs(second)) {
                prop_assert!(!ended, "{action:?} follows the end");
                ended = matches!(action, Action::End(_));
                if action == Action::Catalogue {
                    inputs.push(Input::Catalogued { catalogue: catalogue(&entries), problems: Vec::new() });
                }
            }
            if machine.may_announce() {
                inputs.push(Input::Room);
            }
        }
    }

    #[test]
    fn no_order_of_messages_makes_a_receiver_panic(ask in ask(), messages in vec(message(), 0..30)) {
        use receiver::{Action, Answer, Input, Outcome};
        let (mut machine, _) = if ask.claim == Claim::Proposed {
            Receiver::answer(propose_what(&ask))
        } else {
            Receiver::new(ask.clone())
        };
        let offer = Message::Offer(Offer { version: VERSION, estimate: None, connections: Connections::ONE, congestion: None, disk: None });
        let mut inputs: Vec<Input> =
            [offer].into_iter().chain(messages).rev().map(Input::Message).collect();
        // What answers a proposal is said before the offer is heard.
        inputs.push(Input::Admitted { target: ask.target, connections: Connections::MOST });
        let (mut ended, mut second) = (false, 0);
        while let Some(input) = inputs.pop() {
            second += 1;
            for action in machine.handle(input, Duration::from_secs(second)) {
                prop_assert!(!ended, "{action:?} follows the end");
                match action {
                    Action::Plan { first, .. } => {
                        inputs.push(Input::Outcomes(vec![(first, Outcome::Created)]));
                    }
                    Action::Catalogue => {
                        inputs.push(Input::Catalogued { catalogue: catalogue(&[]), agreed: None });
                    }
                    Action::Consult { .. } => inputs.push(Input::Consent(Answer::Yes)),
                    Action::Finish => inputs.push(Input::Finished { late: Vec::new() }),
                    Action::End(_) => ended = true,
                    Action::Send(_) | Action::Admit(_)
                    | Action::Offered(_)
                    | Action::Compared
                    | Action::Report(_) => {}
                }
            }
        }
    }
}
