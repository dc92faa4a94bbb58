//! A sender that keeps to no rule: a real `ketch receive` names what it did, writes nothing outside its
//! target, and shows nothing under a final name that is not whole.

use std::{
    fs,
    os::unix::{ffi::OsStrExt as _, fs::PermissionsExt as _},
    path::Path,
};

use futures::{AsyncWriteExt as _, future::join_all};
use ketch::swarm::TransportKind::{self, Quic, Tcp};
use ketch_protocol::{
    hash::Hasher,
    limits::{BATCH_ENTRIES, BLOCK_BYTES, RANGE_BYTES, WHOLE_BYTES, WINDOW_ENTRIES},
    message::{Message, Offer, SessionId, Totals},
    problem::Reason,
};

use crate::{
    peer::{PlayedSender, plain_offer},
    place::Place,
    process::Ended,
    wire::{
        begin, block, bytes, directory, end, file, frame, manifest, manifest_end, number, symlink, varint,
        whole,
    },
};

/// A place whose neighbour nobody may touch.
struct Guarded(Place);

const CANARY: &str = "canary";

impl Guarded {
    fn new() -> Self {
        let place = Place::new();
        fs::create_dir(place.path(CANARY)).unwrap();
        fs::write(place.path(CANARY).join("file"), "untouched").unwrap();
        Self(place)
    }

    fn canary(&self) -> Vec<u8> {
        self.0.path(CANARY).as_os_str().as_bytes().to_vec()
    }

    async fn meet(&self, transport: TransportKind) -> PlayedSender {
        let mut sender = PlayedSender::meet(&self.0, transport, &[]).await;
        sender.offer().await;
        sender
    }

    /// Fails the test unless exactly these are visible in the target and nothing beside it was touched.
    fn assert_visible(&self, expected: &[&str]) {
        let beside = names(&self.0.path(""));
        assert_eq!(beside, [CANARY, "receiver", "source", "target"]);
        assert_eq!(names(&self.0.path(CANARY)), ["file"]);
        assert_eq!(fs::read(self.0.path(CANARY).join("file")).unwrap(), b"untouched");
        let mut visible = names(&self.0.target());
        visible.retain(|name| name != ".ketch-partial");
        assert_eq!(visible, expected);
    }
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// The exit code and the words that name the fault.
fn assert_named(case: &str, ended: &Ended, code: i32, words: &str) {
    assert_eq!(ended.code, Some(code), "{case}: {ended:#?}");
    let error = ended.event("error")["error"].as_str().unwrap().to_owned();
    assert!(error.contains(words), "{case}: {error}");
    assert!(ended.stderr.contains(words), "{case}: {ended:#?}");
}

/// Says `bytes` after the offer to a receiver over each transport; it must end with this error.
async fn is_violation(case: &str, bytes: &[u8], words: &str) {
    for transport in [Tcp, Quic] {
        let guarded = Guarded::new();
        let mut sender = guarded.meet(transport).await;
        sender.control.say_bytes(bytes).await;
        let ended = sender.refused(Reason::Violation).await;
        assert_named(case, &ended, 1, &format!("the peer broke the protocol: {words}"));
        guarded.assert_visible(&[]);
    }
}

/// The same for bytes on a data stream, of one file that has `size` bytes.
async fn is_content_violation(case: &str, size: u64, bytes: &[u8], words: &str) {
    for transport in [Tcp, Quic] {
        let guarded = Guarded::new();
        let mut sender = guarded.meet(transport).await;
        sender.control.say_bytes(&manifest(0, &[file(b"f", size)])).await;
        let _stream = sender.data(bytes).await;
        let ended = sender.refused(Reason::Violation).await;
        assert_named(case, &ended, 1, &format!("the peer broke the protocol: {words}"));
        guarded.assert_visible(&[]);
    }
}

#[tokio::test]
async fn no_path_leads_out_of_the_target() {
    let long = [b'x'; 256];
    let paths: [&[u8]; 12] =
        [b"../x", b"..", b"a/../../x", b"/abs", b"a//b", b"a\0b", b"a/.", b".", b"./a", b"a/", b"", &long];
    join_all(paths.map(|path| async move {
        let shown = String::from_utf8_lossy(path).into_owned();
        let entries = [directory(b"a"), file(path, 1)];
        is_violation(&shown, &manifest(0, &entries), "a message has an impossible path").await;
    }))
    .await;
}

#[tokio::test]
async fn a_manifest_out_of_order_is_refused() {
    let guarded = Guarded::new();
    let canary = guarded.canary();
    let cases: [(&str, Vec<Vec<u8>>); 6] = [
        ("below its own symlink", vec![symlink(b"l", &canary), file(b"l/file", 1)]),
        ("below its own symlink to a folder beside", vec![symlink(b"l", b"../canary"), directory(b"l/d")]),
        ("twice", vec![file(b"a", 1), file(b"a", 1)]),
        ("backwards", vec![file(b"b", 1), file(b"a", 1)]),
        ("below a file", vec![file(b"a", 1), file(b"a/b", 1)]),
        ("below nothing", vec![file(b"a/b", 1)]),
    ];
    for (case, entries) in cases {
        is_violation(case, &manifest(0, &entries), "its manifest is out of order").await;
    }
}

#[tokio::test]
async fn a_symlink_replaced_below_the_planner_is_not_followed() {
    let guarded = Guarded::new();
    fs::create_dir(guarded.0.target()).unwrap();
    std::os::unix::fs::symlink(guarded.0.path(CANARY), guarded.0.target().join("d")).unwrap();
    let mut sender = guarded.meet(Tcp).await;
    sender.control.say_bytes(&manifest(0, &[directory(b"d"), file(b"d/file", 4)])).await;
    sender.control.say_bytes(&manifest_end(2, 4)).await;
    let _stream = sender.data(&whole(1, b"evil")).await;
    let ended = sender.farewell().await.expect(4);
    assert_eq!(ended.problems().len(), 2, "{ended:#?}");
    guarded.assert_visible(&["d"]);
}

#[tokio::test]
async fn the_private_folder_cannot_be_named() {
    for entries in [
        vec![file(b".ketch-partial", 4)],
        vec![directory(b".ketch-partial"), file(b".ketch-partial/x", 4)],
        vec![symlink(b".ketch-partial", b"../canary")],
    ] {
        let guarded = Guarded::new();
        let mut sender = guarded.meet(Quic).await;
        let count = entries.len() as u64;
        let size = if entries[0] == symlink(b".ketch-partial", b"../canary") { 0 } else { 4 };
        sender.control.say_bytes(&manifest(0, &entries)).await;
        sender.control.say_bytes(&manifest_end(count, size)).await;
        let _stream = sender.data(&whole(count - 1, b"evil")).await;
        let ended = sender.farewell().await.expect(4);
        assert_eq!(ended.problems().len() as u64, count, "{ended:#?}");
        guarded.assert_visible(&[]);
    }
}

#[tokio::test]
async fn what_is_no_message_is_refused() {
    is_violation("a huge frame", &[0xff; 8], "a message of 4294967295 bytes was announced").await;
    is_violation("garbage", &frame(&[0xff; 64]), "a message could not be decoded").await;
    is_violation("an empty message", &frame(&[]), "a message has an impossible body").await;
    is_violation("an unknown message", &frame(&bytes(99, b"")), "a message has an impossible body").await;
    let kind = [bytes(2, b"f"), number(3, 9)].concat();
    is_violation("an unknown kind", &manifest(0, &[kind]), "a message has an impossible kind of entry").await;
    let mode = [bytes(2, b"f"), number(5, 0o10000)].concat();
    is_violation("an impossible mode", &manifest(0, &[mode]), "a message has an impossible mode").await;
    let link = symlink(b"l", b"");
    is_violation("an empty link", &manifest(0, &[link]), "a message has an impossible link target").await;
    let size = file(b"f", u64::MAX);
    is_violation("an impossible size", &manifest(0, &[size]), "a message has an impossible file size").await;
}

#[tokio::test]
async fn messages_out_of_turn_are_refused() {
    let offer = ketch_protocol::message::encode(&Message::Offer(Offer { version: 1, ..plain_offer() }));
    is_violation("two offers", &offer, "\"offer\" came while waiting for manifest").await;
    is_violation("farewell", &frame(&bytes(10, b"")), "\"farewell\" came while").await;
    is_violation("the receiver's words", &frame(&bytes(9, b"")), "\"done\" came while").await;
    is_violation("a gap", &manifest(5, &[file(b"f", 1)]), "its manifest goes on at entry 5").await;
    is_violation("totals that lie", &manifest_end(7, 7), "its totals differ").await;
    let after = [manifest_end(0, 0), manifest(0, &[file(b"f", 1)])].concat();
    is_violation("more after the end", &after, "\"manifest\" came while").await;
}

#[tokio::test]
async fn more_entries_than_the_window_are_refused() {
    let batches = (0..=WINDOW_ENTRIES / BATCH_ENTRIES as u64).flat_map(|batch| {
        let first = batch * BATCH_ENTRIES as u64;
        let files = (first..first + BATCH_ENTRIES as u64).map(|id| file(format!("{id:08}").as_bytes(), 1));
        manifest(first, &files.collect::<Vec<_>>())
    });
    let words = "it announced more entries than may wait to be settled";
    is_violation("the window", &batches.collect::<Vec<_>>(), words).await;
}

#[tokio::test]
async fn content_that_lies_about_its_length_is_refused() {
    let long = [begin(0, 0, 4), block(b"12345")].concat();
    is_content_violation("a block longer than the span", 4, &long, "a block of 5 bytes exceeds the 4").await;
    let hole = [begin(0, 0, 4), varint(BLOCK_BYTES as u64 + 5)].concat();
    is_content_violation("a hole longer than the span", 4, &hole, "a block of 5 bytes exceeds the 4").await;
    let short = [begin(0, 0, 4), block(b"123"), end([0; 32])].concat();
    is_content_violation("a short end", 4, &short, "a segment ended 1 bytes short").await;
    is_content_violation("another length", 4, &whole(0, b"12345"), "it named a part of entry").await;
    let range = begin(0, RANGE_BYTES, 4);
    is_content_violation("a range of a small file", 4, &range, "it named a part of entry").await;
    let beyond = begin(0, 64 * RANGE_BYTES, RANGE_BYTES);
    is_content_violation("a range beyond the end", WHOLE_BYTES + 1, &beyond, "it named a part of entry")
        .await;
    let odd = begin(0, 5, 4);
    is_content_violation("no span at all", 4, &odd, "a segment of 4 bytes at offset 5").await;
    is_content_violation("garbage", 4, &[0x77; 64], "a segment has an unknown tag").await;
    is_content_violation("an endless number", 4, &[&[1][..], &[0xff; 12]].concat(), "a segment has a number")
        .await;
}

#[tokio::test]
async fn content_with_another_hash_is_not_shown() {
    for transport in [Tcp, Quic] {
        let guarded = Guarded::new();
        let mut sender = guarded.meet(transport).await;
        sender.control.say_bytes(&manifest(0, &[file(b"bad", 4), file(b"good", 4)])).await;
        sender.control.say_bytes(&manifest_end(2, 8)).await;
        let segments = [begin(0, 0, 4), block(b"evil"), end([0; 32]), whole(1, b"good")].concat();
        let _stream = sender.data(&segments).await;
        let ended = sender.farewell().await.expect(4);
        assert_eq!(ended.problems(), [("bad".to_owned(), "corrupt".to_owned())]);
        guarded.assert_visible(&["good"]);
    }
}

/// A file of nine ranges.
const LARGE_BYTES: u64 = WHOLE_BYTES + RANGE_BYTES;

/// A range of a large file, all of one byte, with its hash or another one.
fn range(index: u64, byte: u8, hash: Option<[u8; 32]>) -> Vec<u8> {
    let content = vec![byte; RANGE_BYTES as usize];
    let mut hasher = Hasher::range(index * RANGE_BYTES);
    hasher.update(&content);
    let blocks: Vec<u8> = content.chunks(BLOCK_BYTES).flat_map(block).collect();
    [begin(0, index * RANGE_BYTES, RANGE_BYTES), blocks, end(hash.unwrap_or(hasher.finish().0))].concat()
}

/// Sends a large file in these segments and waits for the receiver.
async fn send_large(guarded: &Guarded, segments: &[u8]) -> Ended {
    let mut sender = guarded.meet(Tcp).await;
    sender.control.say_bytes(&manifest(0, &[file(b"large", LARGE_BYTES)])).await;
    sender.control.say_bytes(&manifest_end(1, LARGE_BYTES)).await;
    let _stream = sender.data(segments).await;
    sender.farewell().await
}

#[tokio::test]
async fn a_large_file_with_one_bad_range_is_not_shown() {
    let guarded = Guarded::new();
    let ranges = (0..9).flat_map(|index| range(index, 5, (index == 3).then_some([0; 32])));
    let ended = send_large(&guarded, &ranges.collect::<Vec<_>>()).await.expect(4);
    assert_eq!(ended.problems(), [("large".to_owned(), "corrupt".to_owned())]);
    guarded.assert_visible(&[]);
}

#[tokio::test]
async fn a_range_that_comes_again_changes_nothing() {
    let guarded = Guarded::new();
    let again = (0..9).flat_map(|_| range(0, 6, None));
    let rest = (1..9).flat_map(|index| range(index, 5, None));
    let segments: Vec<_> = range(0, 5, None).into_iter().chain(again).chain(rest).collect();
    send_large(&guarded, &segments).await.expect(0);
    guarded.assert_visible(&["large"]);
    assert!(fs::read(guarded.0.target().join("large")).unwrap() == vec![5; LARGE_BYTES as usize]);
}

#[tokio::test]
async fn content_that_nobody_awaits_changes_nothing() {
    let guarded = Guarded::new();
    let mut sender = guarded.meet(Quic).await;
    let never_announced = sender.data(&whole(99, b"evil")).await;
    let other_session = sender.data_of(SessionId([0; 16]), &whole(0, b"evil")).await;
    sender.control.say_bytes(&manifest(0, &[directory(b"d"), file(b"f", 4)])).await;
    let of_directory = sender.data(&whole(0, b"evil")).await;
    let twice = [whole(1, b"once"), whole(1, b"evil"), whole(1, b"evil")].concat();
    let settled = sender.data(&twice).await;
    sender.control.say_bytes(&manifest_end(2, 4)).await;
    sender.farewell().await.expect(0);
    drop((never_announced, other_session, of_directory, settled));
    guarded.assert_visible(&["d", "f"]);
    assert_eq!(fs::read(guarded.0.target().join("f")).unwrap(), b"once");
}

#[tokio::test]
async fn a_stream_that_ends_within_a_file_is_named() {
    for transport in [Tcp, Quic] {
        let guarded = Guarded::new();
        let mut sender = guarded.meet(transport).await;
        sender.control.say_bytes(&manifest(0, &[file(b"f", 4)])).await;
        let mut stream = sender.data(&[begin(0, 0, 4), block(b"12")].concat()).await;
        stream.close().await.unwrap();
        let ended = sender.end().await;
        assert_named("truncated", &ended, 1, "the stream ended within a segment");
        guarded.assert_visible(&[]);
    }
}

#[tokio::test]
async fn a_sender_that_goes_in_the_middle_leaves_nothing_half_visible() {
    for transport in [Tcp, Quic] {
        let guarded = Guarded::new();
        let mut sender = guarded.meet(transport).await;
        let files = [file(b"large", WHOLE_BYTES + 1), file(b"small", 4)];
        sender.control.say_bytes(&manifest(0, &files)).await;
        let segments = [begin(0, 0, RANGE_BYTES), block(&[1; 1000])].concat();
        let _large = sender.data(&segments).await;
        let _small = sender.data(&[begin(1, 0, 4), block(b"12")].concat()).await;
        sender.heard().await;
        sender.connection.close().await;
        let ended = sender.end().await;
        assert_named("gone", &ended, 1, "the connection was lost");
        guarded.assert_visible(&[]);
    }
}

#[tokio::test]
async fn sizes_that_no_disk_has_are_refused_before_anything_is_written() {
    let guarded = Guarded::new();
    let mut sender = guarded.meet(Tcp).await;
    sender.control.say_bytes(&manifest(0, &[file(b"endless", i64::MAX as u64)])).await;
    assert_named("a size", &sender.refused(Reason::NoSpace).await, 5, "no space left at \"endless\"");
    guarded.assert_visible(&[]);

    let mut sender = PlayedSender::meet(&guarded.0, Tcp, &[]).await;
    let estimate = Some(Totals { entries: 1, bytes: u64::MAX, problems: 0 });
    sender.control.say(&Message::Offer(Offer { version: 1, estimate, ..plain_offer() })).await;
    assert_named("an estimate", &sender.refused(Reason::NoSpace).await, 5, "no space left");
    guarded.assert_visible(&[]);
}

#[tokio::test]
async fn another_version_is_named() {
    let guarded = Guarded::new();
    let mut sender = PlayedSender::meet(&guarded.0, Quic, &[]).await;
    sender.control.say(&Message::Offer(Offer { version: 2, ..plain_offer() })).await;
    assert_named(
        "version",
        &sender.refused(Reason::Version).await,
        1,
        "version 2 was offered, version 1 is spoken here",
    );
    guarded.assert_visible(&[]);
}

#[tokio::test]
async fn rights_beyond_permissions_are_not_given() {
    let guarded = Guarded::new();
    let mut sender = guarded.meet(Tcp).await;
    let set_user_id = [bytes(2, b"f"), number(4, 4), number(5, 0o6755)].concat();
    sender.control.say_bytes(&manifest(0, &[set_user_id])).await;
    sender.control.say_bytes(&manifest_end(1, 4)).await;
    let _stream = sender.data(&whole(0, b"evil")).await;
    sender.farewell().await.expect(0);
    let mode = fs::metadata(guarded.0.target().join("f")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o755);
}

#[tokio::test]
async fn a_sender_that_never_offers_is_left_in_time() {
    let guarded = Guarded::new();
    let sender = PlayedSender::meet(&guarded.0, Quic, &[]).await;
    let ended = sender.end().await;
    assert_named("silent", &ended, 3, "nothing came from the peer for 8 s while waiting for offer");
    guarded.assert_visible(&[]);
}
