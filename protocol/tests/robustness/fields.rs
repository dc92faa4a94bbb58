//! Messages whose fields contradict each other, or hold more than they may.

use ketch_protocol::{
    limits::BATCH_ENTRIES,
    message::{Message, MessageError, Run, Settled, Want, encode},
    path::EntryPath,
};

use crate::frames::decode;

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
