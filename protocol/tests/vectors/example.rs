//! What the two sides of the worked example say, and messages and records beside it.

use futures::executor::block_on;
use ketch_protocol::{
    chunk::{Name, Part},
    controller::Controller,
    delta::Grain,
    difference::RangeHash,
    hash::{ContentHash, Hasher},
    io::{DataForm, JOINED, StreamKind, acknowledge},
    limits::VERSION,
    manifest::{Entry, EntryId, EntryKind, Timestamp},
    message::{
        Ask, Batch, Claim, Compression, Congestion, Connections, Consent, Counts, DiskId, Durability, Expand,
        Hashes, List, Message, Nodes, Offer, Pieces, Place, Policy, Propose, Refuse, Removal, RemovalLimit,
        Root, Rules, Run, Secret, Selection, SessionId, Settled, ShareName, TargetView, Totals, Want, encode,
    },
    path::EntryPath,
    problem::{Cause, Problem, Reason},
    record::{
        bare,
        segment::{self, Span},
    },
};

pub(crate) fn path(name: &str) -> EntryPath {
    EntryPath::parse(name.as_bytes()).unwrap()
}

pub(crate) fn hash(content: &[u8]) -> ContentHash {
    let mut hasher = Hasher::whole();
    hasher.update(content);
    hasher.finish()
}

pub(crate) fn ascending(first: u8) -> [u8; 16] {
    std::array::from_fn(|index| first + index as u8)
}

pub(crate) fn the_ask() -> Ask {
    Ask {
        version: VERSION,
        session: SessionId(ascending(0x10)),
        claim: Claim::Ticket(Secret::from_bytes(ascending(0xa0))),
        consent: Consent::Pending,
        target: TargetView::Occupied,
        selection: Selection::default(),
        preview: false,
        connections: Connections::ONE,
        controller: None,
        congestion: None,
        missed: Vec::new(),
    }
}

/// The tree: a directory, two files and a link in it, and a file that the receiver has already.
pub(crate) fn entries() -> Vec<Entry> {
    let mtime = Timestamp { seconds: 1_700_000_000, nanoseconds: 5 };
    let entry = |name, kind, mode| Entry::new(path(name), kind, mode, mtime);
    vec![
        entry("d", EntryKind::Directory, 0o755),
        entry("d/a", EntryKind::File { size: 5 }, 0o644),
        entry("d/gone", EntryKind::File { size: 9 }, 0o644),
        entry("d/link", EntryKind::Symlink { target: b"a"[..].into() }, 0),
        entry("e", EntryKind::File { size: 4 }, 0o755),
    ]
}

pub(crate) fn pipe() -> Problem {
    Problem::new(path("d/pipe"), Cause::Special, "")
}

pub(crate) fn gone() -> Problem {
    Problem::new(path("d/gone"), Cause::Changed, "4 of 9 bytes are left")
}

pub(crate) const TOTALS: Totals = Totals { entries: 5, bytes: 18, problems: 1 };

pub(crate) const COUNTS: Counts =
    Counts { listed: 6, sent: 3, kept: 1, skipped: 1, failed: 1, removed: 0, problems: 2 };

pub(crate) fn run(first: u64, count: u64) -> Vec<Run> {
    vec![Run { first, count }]
}

pub(crate) fn said_by_receiver() -> Vec<Message> {
    vec![
        Message::Ask(the_ask()),
        Message::Accept,
        Message::Want(Want { content: run(1, 2), digest: run(4, 1), ..Want::default() }),
        Message::Settled(Settled {
            // In the order in which they were: 0 and 3 when planned, then 1.
            created: [0, 3, 1].map(|first| Run { first, count: 1 }).to_vec(),
            kept: run(4, 1),
            problems: vec![(EntryId(2), gone())],
            ..Settled::default()
        }),
        Message::Done(COUNTS),
    ]
}

pub(crate) fn said_by_sender() -> Vec<Message> {
    vec![
        Message::Offer(Offer {
            version: VERSION,
            estimate: Some(TOTALS),
            connections: Connections::ONE,
            congestion: None,
            disk: Some(DiskId([0xd0; 16])),
        }),
        Message::Manifest(Batch { first: EntryId(0), entries: entries(), problems: vec![pipe()] }),
        Message::ManifestEnd(TOTALS),
        Message::Farewell,
    ]
}

/// Messages that the example has no use for.
pub(crate) fn others() -> Vec<Message> {
    let pieces = |first, count| vec![Pieces { id: EntryId(4), bytes: run(first, count) }];
    vec![
        Message::KeepAlive,
        Message::Want(Want { delta: run(4, 1), ..Want::default() }),
        Message::Want(Want {
            lists: pieces(40_000, 30_000),
            pieces: pieces(65_000, 5_000),
            ..Want::default()
        }),
        Message::Refuse(Refuse {
            reason: Reason::NoSpace,
            path: Some(path("d/a")),
            detail: "could not write".into(),
        }),
        Message::Ask(an_ask_for_a_share()),
        Message::Offer(Offer {
            version: VERSION,
            estimate: None,
            connections: connections(2),
            congestion: None,
            disk: None,
        }),
        Message::Propose(a_proposal()),
        Message::Offer(Offer {
            version: VERSION,
            estimate: None,
            connections: Connections::ONE,
            congestion: Some(no_bbr()),
            disk: None,
        }),
        Message::Root(Root {
            hash: RangeHash([0xc0; 16]),
            levels: 1,
            totals: Totals { entries: 40, bytes: 1_000, problems: 0 },
        }),
        Message::Expand(Expand { level: 1, nodes: run(0, 1) }),
        Message::Nodes(Nodes {
            level: 0,
            first: 0,
            hashes: [0xc1, 0xc2].map(|byte| RangeHash([byte; 16])).into(),
        }),
        Message::List(List { leaves: run(1, 1), complete: true }),
        Message::Settled(Settled {
            updated: run(0, 1),
            described: run(1, 1),
            skipped: run(2, 1),
            removed: vec![path("old/b"), path("old")],
            planned_bytes: 300,
            ..Settled::default()
        }),
    ]
}

pub(crate) fn photos(below: Option<&str>) -> Place {
    Place { share: ShareName::parse("photos").unwrap(), path: below.map(path) }
}

pub(crate) fn connections(count: u32) -> Connections {
    count.try_into().unwrap()
}

pub(crate) fn an_ask_for_a_share() -> Ask {
    let rules = Rules::new(["*.tmp", "!keep.tmp"].map(|line| line.as_bytes().into()).into()).unwrap();
    Ask {
        claim: Claim::Share(photos(Some("2024"))),
        consent: Consent::Given,
        target: TargetView::Comparable,
        selection: Selection {
            rules,
            hashes: Hashes::All,
            compression: Compression::None,
            ..Selection::default()
        },
        preview: true,
        connections: connections(4),
        controller: Some(Controller::Bbr),
        missed: vec![path("log/b"), path("log/c")],
        ..the_ask()
    }
}

pub(crate) fn no_bbr() -> Congestion {
    Congestion { controller: "cubic".into(), problem: "no bbr here".into() }
}

pub(crate) fn a_proposal() -> Propose {
    Propose {
        version: VERSION,
        session: SessionId(ascending(0x10)),
        place: photos(None),
        selection: Selection::default(),
        policy: Policy {
            removal: Removal::Extra { limit: RemovalLimit::Percent(25), force_empty: false },
            update: true,
            delta: true,
            durability: Durability::Session,
            ..Policy::default()
        },
        connections: Connections::MOST,
        controller: Some(Controller::Cubic),
    }
}

pub(crate) fn frames(messages: &[Message]) -> Vec<u8> {
    messages.iter().flat_map(encode).collect()
}

pub(crate) fn kind(kind: StreamKind) -> Vec<u8> {
    let mut out = Vec::new();
    block_on(kind.write(&mut out)).unwrap();
    out
}

pub(crate) fn control_from_receiver() -> Vec<u8> {
    [kind(StreamKind::Control), frames(&said_by_receiver())].concat()
}

pub(crate) fn data() -> Vec<u8> {
    let mut out = kind(StreamKind::Data(the_ask().session, DataForm::default()));
    segment::put_begin(&mut out, EntryId(1), Span::whole(5));
    segment::put_block_length(&mut out, 5);
    out.extend(b"hello");
    segment::put_end(&mut out, hash(b"hello"));
    segment::put_begin(&mut out, EntryId(2), Span::whole(9));
    segment::put_block_length(&mut out, 4);
    out.extend(b"half");
    segment::put_aborted(&mut out, Cause::Changed, &gone().detail);
    segment::put_digest(&mut out, EntryId(4), Span::whole(4), hash(b"same"));
    out
}

/// A file of 70,000 bytes that was made from an old version and a piece of 5,000, most of them a hole.
pub(crate) fn delta() -> Vec<u8> {
    let part = |length, first| Part { length, name: Name(ascending(first)) };
    let mut out = kind(StreamKind::Data(the_ask().session, DataForm::default()));
    segment::put_recipe(&mut out, EntryId(4), Grain::Groups);
    segment::put_part(&mut out, part(40_000, 0x20));
    segment::put_part(&mut out, part(30_000, 0x40));
    segment::put_end(&mut out, hash(b"all of it"));
    segment::put_list(&mut out, EntryId(4), Run { first: 40_000, count: 30_000 });
    segment::put_part(&mut out, part(25_000, 0x60));
    segment::put_part(&mut out, part(5_000, 0x80));
    segment::put_list_end(&mut out);
    segment::put_piece(&mut out, EntryId(4), Run { first: 65_000, count: 5_000 });
    segment::put_hole(&mut out, 4_996);
    segment::put_block_length(&mut out, 4);
    out.extend(b"tail");
    segment::put_end(&mut out, hash(&[&[0; 4_996][..], b"tail"].concat()));
    out
}

/// What is said on a connection that joins: by who dialed, by the other side, by the sender and by the receiver.
pub(crate) fn a_connection() -> Vec<u8> {
    let session = the_ask().session;
    let mut out = kind(StreamKind::Join(session));
    out.push(JOINED);
    out.extend(kind(StreamKind::Data(session, DataForm { compressed: false, acknowledged: true })));
    block_on(acknowledge(&mut out, 300)).unwrap();
    out
}

pub(crate) fn bare_records() -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in [("d/a", &b"hello"[..]), ("empty", b"")] {
        bare::put_header(&mut out, &path(name), content.len() as u64);
        out.extend(content);
    }
    out
}
