//! A peer with rights on a share that wants all of a node's memory, disk or time: a real `ketch serve` bounds what one
//! session takes, says whose fault it is, and serves the next who comes.

use std::{fs, time::Duration};

use futures::AsyncWriteExt as _;
use ketch::{
    swarm::{Stream, TransportKind::Tcp},
    tree::PRIVATE_FOLDER,
};
use ketch_protocol::{
    chunk::{Name, Part},
    delta::Grain,
    difference::RangeHash,
    hash::ContentHash,
    io::{DataForm, StreamKind},
    limits::{ATTRIBUTE_BYTES, BLOCK_BYTES, LEVELS, RECIPE_GROUPS, VERSION, WINDOW_BYTES},
    manifest::EntryId,
    message::{
        Batch, Connections, Message, Policy, Propose, Removal, RemovalLimit, Root, Run, Selection, SessionId,
        Settled, TargetView, Totals, Want, encode,
    },
    path::EntryPath,
    problem::{Cause, Problem, Reason},
    record::{
        compressed::Compressor,
        segment::{put_end, put_part, put_recipe},
    },
};

use crate::{
    hostile_sync::{ask, come, place, refused, still_serves},
    peer::{Control, PlayedReceiver, plain_offer},
    serving::{Serving, write},
    wire::{bytes, directory, file, frame, manifest, manifest_end, number, varint, whole},
};

const SESSION: SessionId = SessionId([7; 16]);

const PLAIN: DataForm = DataForm { compressed: false, acknowledged: false };
const COMPRESSED: DataForm = DataForm { compressed: true, ..PLAIN };

/// What a session may take beside what it is bounded to, in KiB: buffers of streams, threads, an allocator's habits.
const SLACK_KIB: u64 = 40 * 1024;

/// Proposes a tree for `target`, waits until it is asked for and offers it.
async fn proposed(comer: &PlayedReceiver, target: &str, policy: Policy) -> (Control, TargetView) {
    let mut control = comer.control().await;
    let selection = Selection { attributes: true, ..Selection::default() };
    let (connections, controller) = (Connections::ONE, None);
    let propose = Propose {
        version: VERSION,
        session: SESSION,
        place: place(target),
        selection,
        policy,
        connections,
        controller,
    };
    control.say(&Message::Propose(propose)).await;
    let asked = control.hear_until(|message| if let Message::Ask(ask) = message { Some(ask) } else { None });
    let view = asked.await.target;
    control.say(&Message::Offer(plain_offer())).await;
    (control, view)
}

fn mirror() -> Policy {
    let removal = Removal::Extra { limit: RemovalLimit::Percent(100), force_empty: true };
    Policy { removal, ..Policy::default() }
}

/// A compressed data stream with these bytes. The other side may end the session before it has taken all.
async fn compressed(comer: &PlayedReceiver, bytes: &[u8]) -> Stream {
    let mut stream = comer.stream().await;
    StreamKind::Data(SESSION, COMPRESSED).write(&mut stream).await.unwrap();
    if stream.write_all(bytes).await.is_ok() {
        let _ = stream.flush().await;
    }
    stream
}

/// A frame of a compressed stream that says so of itself.
fn zstd_frame(raw: u64, stored: &[u8]) -> Vec<u8> {
    [varint(raw), varint(stored.len() as u64), stored.to_vec()].concat()
}

/// The beginning of a zstd frame with a window of two to the power of `bits`, as RFC 8878 has it.
fn zstd_begin(bits: u8) -> Vec<u8> {
    vec![0x28, 0xb5, 0x2f, 0xfd, 0, (bits - 10) << 3]
}

/// A zstd block that is not the last: so many zeros in four bytes.
fn zeros(length: u32) -> [u8; 4] {
    let [low, middle, high, _] = (length << 3 | 1 << 1).to_le_bytes();
    [low, middle, high, 0]
}

/// What the node takes more at its peak than `before`, in KiB.
fn grown(serving: &Serving, before: u64) -> u64 {
    serving.serve.peak_kib() - before
}

/// A target holds what it held, and nothing else under a name of its own.
fn assert_left(serving: &Serving, target: &str) {
    let names = fs::read_dir(serving.shared().join(target)).unwrap().map(|entry| entry.unwrap().file_name());
    assert_eq!(names.filter(|name| name != PRIVATE_FOLDER).collect::<Vec<_>>(), ["kept"]);
}

#[tokio::test]
async fn names_in_trouble_are_kept_up_to_a_bound_and_then_nothing_is_removed() {
    let serving = Serving::with(Tcp, "read,mirror").await;
    write(&serving.shared(), "old/kept", "x");
    let comer = come(&serving).await;
    let (mut control, view) = proposed(&comer, "old", mirror()).await;
    assert_eq!(view, TargetView::Comparable);
    let before = serving.serve.peak_kib();
    let long = vec!["x".repeat(250); 15].join("/");
    const PROBLEMS: u64 = 16_000;
    for first in (0..PROBLEMS).step_by(20) {
        let path = |number| EntryPath::parse(format!("{number:08}/{long}").as_bytes()).unwrap();
        let problems = (first..first + 20).map(|number| Problem::new(path(number), Cause::Unreadable, ""));
        control.say(&Message::Manifest(Batch { problems: problems.collect(), ..Batch::default() })).await;
    }
    let totals = Totals { entries: 0, bytes: 0, problems: PROBLEMS };
    control.say(&Message::Root(Root { hash: RangeHash([5; 16]), levels: 0, totals })).await;
    control.hear_until(|message| matches!(message, Message::List(_)).then_some(())).await;
    control.say(&Message::ManifestEnd(totals)).await;
    control.hear_until(|message| matches!(message, Message::Done(_)).then_some(())).await;
    control.say(&Message::Farewell).await;
    // 60 MB crossed.
    assert!(grown(&serving, before) < SLACK_KIB, "{} KiB", grown(&serving, before));
    assert!(serving.shared().join("old/kept").exists());
    still_serves(&serving).await;
}

#[tokio::test]
async fn recipes_that_come_again_and_again_are_not_kept() {
    let serving = Serving::with(Tcp, "read,write").await;
    // Long enough to be cut for some seconds; it takes no space.
    const LARGE_BYTES: u64 = 1 << 30;
    fs::create_dir(serving.shared().join("old")).unwrap();
    fs::File::create(serving.shared().join("old/large")).unwrap().set_len(LARGE_BYTES).unwrap();
    let comer = come(&serving).await;
    let (mut control, _) = proposed(&comer, "old", Policy { delta: true, ..Policy::default() }).await;
    let totals = Totals { entries: 1, bytes: LARGE_BYTES - 1, problems: 0 };
    control.say(&Message::Root(Root { hash: RangeHash([5; 16]), levels: 0, totals })).await;
    control.hear_until(|message| matches!(message, Message::List(_)).then_some(())).await;
    control.say_bytes(&manifest(0, &[file(b"large", LARGE_BYTES - 1)])).await;
    control.say_bytes(&manifest_end(1, LARGE_BYTES - 1)).await;
    let is_delta =
        |message| matches!(message, Message::Want(Want { delta, .. }) if !delta.is_empty()).then_some(());
    control.hear_until(is_delta).await;

    let before = serving.serve.peak_kib();
    let mut recipe = Vec::new();
    put_recipe(&mut recipe, EntryId(0), Grain::Groups);
    let part = Part { length: 60_000, name: Name::of(b"nothing") };
    (0..RECIPE_GROUPS).for_each(|_| put_part(&mut recipe, part));
    put_end(&mut recipe, ContentHash([1; 32]));
    let (mut compressor, mut sent) = (Compressor::new().unwrap(), Vec::new());
    (0..100).for_each(|_| compressor.put(&recipe, &mut sent).unwrap());
    assert!(sent.len() < 1 << 20, "{} bytes of 100 x {}", sent.len(), recipe.len());
    let _stream = compressed(&comer, &sent).await;
    let (reason, detail) = refused(&mut control).await;
    assert_eq!(reason, Reason::Violation, "{detail}");
    assert!(grown(&serving, before) < SLACK_KIB, "{} KiB", grown(&serving, before));
    still_serves(&serving).await;
}

#[tokio::test]
async fn compressed_bytes_that_lie_are_named_and_those_that_only_grow_take_no_memory() {
    let mut serving = Serving::with(Tcp, "read,write").await;
    let comer = come(&serving).await;
    let bomb = [zstd_begin(20), zeros(128 << 10).repeat(8_000)].concat();
    let cases = [
        ("more than it says", zstd_frame(100, &bomb[..1_000]), "a compressed frame is damaged"),
        ("a window of 2 TiB", zstd_frame(100, &[zstd_begin(41), zeros(100).into()].concat()), "is damaged"),
        ("longer than a frame", zstd_frame(BLOCK_BYTES as u64 + 1, &bomb[..9]), "is not one"),
        ("empty frames", zstd_frame(0, b"").repeat(1_000), "a frame of 0 bytes in 0 is not one"),
        (
            "endless emptiness",
            zstd_frame(1, &[zstd_begin(20), zeros(0).repeat(60_000)].concat()),
            "is damaged",
        ),
        ("no zstd", zstd_frame(9, b"no zstd at all"), "is damaged"),
    ];
    let before = serving.serve.peak_kib();
    for (case, sent, words) in cases {
        let (mut control, _) = proposed(&comer, case, Policy::default()).await;
        control.say_bytes(&manifest(0, &[file(b"f", 100)])).await;
        let _stream = compressed(&comer, &sent).await;
        let (reason, detail) = refused(&mut control).await;
        assert_eq!(reason, Reason::Violation, "{case}: {detail}");
        let told = serving.serve.event("session_ended").await;
        let error = told["error"].as_str().unwrap();
        assert!(error.contains(words) && error.contains("the peer broke the protocol"), "{case}: {error}");
        assert!(!serving.shared().join(case).join("f").exists(), "{case}");
    }

    // 2 GiB of content that nobody asked for, out of 64 KB: it is passed over.
    let (mut control, _) = proposed(&comer, "grows", Policy::default()).await;
    control.say_bytes(&manifest(0, &[directory(b"d")])).await;
    let content: Vec<u8> = [vec![1], varint(0), varint(0), varint(1 << 20), vec![0]].concat();
    let mut stream = [content, varint(BLOCK_BYTES as u64), vec![0; BLOCK_BYTES]].concat();
    stream.extend([varint(BLOCK_BYTES as u64), vec![0; BLOCK_BYTES]].concat().repeat(3));
    stream.extend([&[0, 0][..], &[0; 32]].concat());
    let (mut compressor, mut sent) = (Compressor::new().unwrap(), Vec::new());
    (0..2_000).for_each(|_| compressor.put(&stream, &mut sent).unwrap());
    assert!(sent.len() < 1 << 20, "{}", sent.len());
    let _stream = compressed(&comer, &sent).await;
    control.say_bytes(&manifest_end(1, 0)).await;
    control.hear_until(|message| matches!(message, Message::Done(_)).then_some(())).await;
    control.say(&Message::Farewell).await;
    assert!(grown(&serving, before) < SLACK_KIB, "{} KiB", grown(&serving, before));
    still_serves(&serving).await;
}

#[tokio::test]
async fn attributes_fill_the_window_like_names() {
    let mut serving = Serving::with(Tcp, "read,write").await;
    let comer = come(&serving).await;
    let (mut control, _) = proposed(&comer, "new", Policy::default()).await;
    let before = serving.serve.peak_kib();
    let attribute = bytes(11, &[bytes(1, b"user.x"), bytes(2, &vec![1; ATTRIBUTE_BYTES - 6])].concat());
    for first in (0..1_400).step_by(7) {
        let entry = |id| [file(format!("{id:08}").as_bytes(), 1), attribute.clone()].concat();
        control.say_bytes(&manifest(first, &(first..first + 7).map(entry).collect::<Vec<_>>())).await;
    }
    assert_eq!(refused(&mut control).await.0, Reason::Violation);
    let told = serving.serve.event("session_ended").await;
    assert!(told["error"].as_str().unwrap().contains("more entries than may wait"), "{told}");
    // They are kept once while they wait, and once as they came.
    assert!(grown(&serving, before) < SLACK_KIB + 2 * WINDOW_BYTES / 1024, "{} KiB", grown(&serving, before));
    still_serves(&serving).await;
}

#[tokio::test]
async fn a_root_that_lies_is_named() {
    let mut serving = Serving::with(Tcp, "read,write").await;
    write(&serving.shared(), "old/kept", "x");
    let comer = come(&serving).await;
    let root = |levels, entries, bytes| {
        let totals = Totals { entries, bytes, problems: 0 };
        encode(&Message::Root(Root { hash: RangeHash([5; 16]), levels, totals }))
    };
    let nothing = Vec::new;
    let nodes = |level, hashes: &[u8]| frame(&bytes(15, &[number(1, level), bytes(3, hashes)].concat()));
    let files = |files: &[Vec<u8>]| manifest(0, files);
    let cases = [
        ("too high", root(LEVELS + 1, 1, 1), nothing(), "levels"),
        ("other children", root(3, 1, 1), nodes(2, &[1; 16 * 128]), "others than it said before"),
        ("no children", root(3, 1, 1), nodes(2, &[]), "it said no nodes"),
        ("another level", root(3, 1, 1), nodes(1, &[1; 16]), "not asked for"),
        ("nodes of nothing", nodes(2, &[1; 16]), nothing(), "\"nodes\" came while"),
        ("two roots", root(0, 1, 1), root(0, 1, 1), "\"root\" came while"),
        ("more than it has", root(0, 1, 1), files(&[file(b"a", 1), file(b"b", 1)]), "totals"),
        (
            "longer than it is",
            root(0, 1, 1),
            [files(&[file(b"a", 2)]), manifest_end(1, 1)].concat(),
            "totals",
        ),
        ("2^60 bytes", root(0, 1, 1 << 60), files(&[file(b"a", 1 << 60)]), "no space left"),
    ];
    for (case, said, then, words) in cases {
        let (mut control, _) = proposed(&comer, "old", Policy::default()).await;
        control.say_bytes(&said).await;
        if !then.is_empty() {
            let is_asked = |message| matches!(message, Message::Expand(_) | Message::List(_)).then_some(());
            control.hear_until(is_asked).await;
            control.say_bytes(&then).await;
        }
        let (reason, detail) = refused(&mut control).await;
        let expected = if words == "no space left" { Reason::NoSpace } else { Reason::Violation };
        assert_eq!(reason, expected, "{case}: {detail}");
        let told = serving.serve.event("session_ended").await;
        assert!(told["error"].as_str().unwrap().contains(words), "{case}: {told}");
    }
    assert_left(&serving, "old");
    still_serves(&serving).await;
}

#[tokio::test]
async fn what_was_never_listed_is_not_settled_and_names_without_end_are_not_believed() {
    let mut serving = Serving::with(Tcp, "read").await;
    fs::write(serving.shared().join("f"), "x").unwrap();
    let comer = come(&serving).await;
    let run = |first, count| vec![Run { first, count }];
    let settle = |settled| encode(&Message::Settled(settled));
    let problem = Problem::new(EntryPath::parse(b"f").unwrap(), Cause::Exists, "");
    let cases = [
        ("never listed", settle(Settled { kept: run(5, 1), ..Settled::default() })),
        ("for ever", settle(Settled { created: run(0, u64::MAX), ..Settled::default() })),
        ("twice", settle(Settled { kept: [run(0, 1), run(0, 1)].concat(), ..Settled::default() })),
        (
            "a problem of nothing",
            settle(Settled { problems: vec![(EntryId(9), problem)], ..Settled::default() }),
        ),
        ("a plan of a real run", settle(Settled { planned_bytes: u64::MAX, ..Settled::default() })),
    ];
    for (case, said) in cases {
        let mut control = comer.control().await;
        control.say_bytes(&ask(&comer, "", TargetView::Occupied)).await;
        control.hear_until(|message| matches!(message, Message::ManifestEnd(_)).then_some(())).await;
        control.say_bytes(&said).await;
        assert_eq!(refused(&mut control).await.0, Reason::Violation, "{case}");
        let told = serving.serve.event("session_ended").await;
        assert!(told["error"].as_str().unwrap().contains("the peer broke the protocol"), "{case}: {told}");
    }
    assert!(serving.shared().join("f").exists());
    still_serves(&serving).await;
}

#[tokio::test]
async fn in_a_preview_nothing_is_stored_whatever_comes() {
    let serving = Serving::with(Tcp, "read,mirror").await;
    write(&serving.shared(), "old/kept", "x");
    let comer = come(&serving).await;
    let (mut control, view) = proposed(&comer, "old", Policy { preview: true, ..mirror() }).await;
    assert_eq!(view, TargetView::Comparable);
    let totals = Totals { entries: 1, bytes: 4, problems: 0 };
    control.say(&Message::Root(Root { hash: RangeHash([5; 16]), levels: 0, totals })).await;
    control.hear_until(|message| matches!(message, Message::List(_)).then_some(())).await;
    control.say_bytes(&manifest(0, &[file(b"f", 4)])).await;
    let mut streams = Vec::new();
    for kind in [StreamKind::Data(SESSION, PLAIN), StreamKind::Data(SESSION, COMPRESSED)] {
        let mut stream = comer.stream().await;
        kind.write(&mut stream).await.unwrap();
        // It may be reset at any byte.
        let _ = stream.write_all(&whole(0, b"evil")).await;
        let _ = stream.flush().await;
        streams.push(stream);
    }
    control.say_bytes(&manifest_end(1, 4)).await;
    control.hear_until(|message| matches!(message, Message::Done(_)).then_some(())).await;
    control.say(&Message::Farewell).await;
    assert_left(&serving, "old");
    still_serves(&serving).await;
}

#[tokio::test]
async fn rules_as_heavy_as_they_may_be_cost_seconds_at_most_and_little_memory() {
    let serving = Serving::with(Tcp, "read").await;
    (0..1_000).for_each(|name| fs::write(serving.shared().join(format!("{name}")), "").unwrap());
    let comer = come(&serving).await;
    let before = serving.serve.peak_kib();
    let lines: [Vec<Box<[u8]>>; 3] = [
        vec![b"**/*a*/**/*b*"[..].into(); 4_096],
        vec!["{a,b,c,d,e,f}".repeat(1_000).as_bytes().into(); 4],
        vec!["*a".repeat(30_000).as_bytes().into()],
    ];
    for lines in lines {
        let rules = ketch_protocol::message::Rules::new(lines).unwrap();
        let asked = ketch_protocol::message::Ask {
            claim: ketch_protocol::message::Claim::Share(place("")),
            selection: Selection { rules, ..Selection::default() },
            ..comer.ask(TargetView::Occupied)
        };
        let mut control = comer.control().await;
        let answer = async {
            control.say(&Message::Ask(asked)).await;
            let is_end =
                |message| matches!(message, Message::ManifestEnd(_) | Message::Refuse(_)).then_some(());
            control.hear_until(is_end).await;
        };
        tokio::time::timeout(Duration::from_secs(20), answer).await.expect("rules are soon understood");
    }
    assert!(grown(&serving, before) < 3 * SLACK_KIB, "{} KiB", grown(&serving, before));
    still_serves(&serving).await;
}
