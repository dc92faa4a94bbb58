//! The worked example of `docs/wire-format.md`: built here, kept in `fixtures/wire/`, shown in the document.
//! All three must agree, and so must the document's tables with the code.

use std::time::Duration;

use futures::executor::block_on;
use ketch_protocol::{
    chunk::{Name, Part},
    controller::Controller,
    delta::Grain,
    difference::RangeHash,
    hash::{ContentHash, Hasher},
    io::{DataForm, JOINED, StreamKind, acknowledge},
    limits::{self, VERSION},
    manifest::{Entry, EntryId, EntryKind, Timestamp},
    message::{
        Ask, Batch, Claim, Compression, Congestion, Connections, Consent, Counts, DiskId, Durability, Expand,
        Frames, Hashes, List, Message, Nodes, Offer, Pieces, Place, Policy, Propose, Refuse, Removal,
        RemovalLimit, Root, Rules, Run, Secret, Selection, SessionId, Settled, ShareName, TargetView, Totals,
        Want, encode,
    },
    path::EntryPath,
    problem::{Cause, Problem, Reason},
    record::{
        bare,
        segment::{self, Span},
    },
    session::{
        Ending, Receiver, Sender,
        receiver::{self, Answer, Outcome},
        sender,
    },
};

const DOCUMENT: &str = include_str!("../../docs/wire-format.md");
const FROM_RECEIVER: &str = include_str!("../../fixtures/wire/control-from-receiver.hex");
const FROM_SENDER: &str = include_str!("../../fixtures/wire/control-from-sender.hex");
const DATA: &str = include_str!("../../fixtures/wire/data.hex");
const DELTA: &str = include_str!("../../fixtures/wire/delta.hex");
const OTHERS: &str = include_str!("../../fixtures/wire/other-messages.hex");
const CONNECTIONS: &str = include_str!("../../fixtures/wire/connections.hex");
const BARE: &str = include_str!("../../fixtures/wire/bare.hex");

/// Bytes of a fixture: pairs of hexadecimal digits; `#` begins a comment.
fn bytes_of(fixture: &str) -> Vec<u8> {
    let digits: String =
        fixture.lines().filter_map(|line| line.split('#').next()).flat_map(str::split_whitespace).collect();
    assert!(digits.len().is_multiple_of(2));
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).unwrap()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn path(name: &str) -> EntryPath {
    EntryPath::parse(name.as_bytes()).unwrap()
}

fn hash(content: &[u8]) -> ContentHash {
    let mut hasher = Hasher::whole();
    hasher.update(content);
    hasher.finish()
}

fn ascending(first: u8) -> [u8; 16] {
    std::array::from_fn(|index| first + index as u8)
}

fn the_ask() -> Ask {
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
fn entries() -> Vec<Entry> {
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

fn pipe() -> Problem {
    Problem::new(path("d/pipe"), Cause::Special, "")
}

fn gone() -> Problem {
    Problem::new(path("d/gone"), Cause::Changed, "4 of 9 bytes are left")
}

const TOTALS: Totals = Totals { entries: 5, bytes: 18, problems: 1 };

const COUNTS: Counts = Counts { listed: 6, sent: 3, kept: 1, skipped: 1, failed: 1, removed: 0, problems: 2 };

fn run(first: u64, count: u64) -> Vec<Run> {
    vec![Run { first, count }]
}

fn said_by_receiver() -> Vec<Message> {
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

fn said_by_sender() -> Vec<Message> {
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
fn others() -> Vec<Message> {
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

fn photos(below: Option<&str>) -> Place {
    Place { share: ShareName::parse("photos").unwrap(), path: below.map(path) }
}

fn connections(count: u32) -> Connections {
    count.try_into().unwrap()
}

fn an_ask_for_a_share() -> Ask {
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

fn no_bbr() -> Congestion {
    Congestion { controller: "cubic".into(), problem: "no bbr here".into() }
}

fn a_proposal() -> Propose {
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

fn frames(messages: &[Message]) -> Vec<u8> {
    messages.iter().flat_map(encode).collect()
}

fn kind(kind: StreamKind) -> Vec<u8> {
    let mut out = Vec::new();
    block_on(kind.write(&mut out)).unwrap();
    out
}

fn control_from_receiver() -> Vec<u8> {
    [kind(StreamKind::Control), frames(&said_by_receiver())].concat()
}

fn data() -> Vec<u8> {
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
fn delta() -> Vec<u8> {
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
fn a_connection() -> Vec<u8> {
    let session = the_ask().session;
    let mut out = kind(StreamKind::Join(session));
    out.push(JOINED);
    out.extend(kind(StreamKind::Data(session, DataForm { compressed: false, acknowledged: true })));
    block_on(acknowledge(&mut out, 300)).unwrap();
    out
}

fn bare_records() -> Vec<u8> {
    let mut out = Vec::new();
    for (name, content) in [("d/a", &b"hello"[..]), ("empty", b"")] {
        bare::put_header(&mut out, &path(name), content.len() as u64);
        out.extend(content);
    }
    out
}

#[test]
fn the_fixtures_are_what_the_crate_writes() {
    let fixtures = [
        ("control-from-receiver", FROM_RECEIVER, control_from_receiver()),
        ("control-from-sender", FROM_SENDER, frames(&said_by_sender())),
        ("data", DATA, data()),
        ("delta", DELTA, delta()),
        ("other-messages", OTHERS, frames(&others())),
        ("connections", CONNECTIONS, a_connection()),
        ("bare", BARE, bare_records()),
    ];
    for (name, fixture, built) in fixtures {
        assert_eq!(hex(&bytes_of(fixture)), hex(&built), "fixtures/wire/{name}.hex");
    }
}

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

#[test]
fn a_sender_says_its_side_of_the_example() {
    use sender::{Action, Input};
    let [ask, accept, want, settled, done] = said_by_receiver().try_into().expect("five messages");
    let inputs = [
        Input::Message(ask),
        Input::Admitted {
            estimate: Some(TOTALS),
            connections: Connections::ONE,
            disk: Some(DiskId([0xd0; 16])),
        },
        Input::Listed { entries: entries(), problems: vec![pipe()] },
        Input::ListEnded,
        Input::Message(accept),
        Input::Message(want),
        Input::Message(settled),
        Input::Message(done),
    ];
    let mut machine = Sender::default();
    let (mut said, mut endings) = (Vec::new(), Vec::new());
    for action in inputs.into_iter().flat_map(|input| machine.handle(input, Duration::ZERO)) {
        match action {
            Action::Send(message) => said.push(message),
            Action::End(ending) => endings.push(ending),
            Action::Admit(_)
            | Action::List
            | Action::Catalogue
            | Action::Read(_)
            | Action::Report(_)
            | Action::Settled { .. }
            | Action::Removed(_) => {}
        }
    }
    assert_eq!((said, endings), (said_by_sender(), vec![Ending::Complete(COUNTS)]));
}

#[test]
fn a_receiver_says_its_side_of_the_example() {
    use receiver::{Action, Input};
    let [offer, manifest, end, farewell] = said_by_sender().try_into().expect("four messages");
    let outcomes = |outcomes: &[(u64, Outcome)]| {
        Input::Outcomes(outcomes.iter().map(|(id, outcome)| (EntryId(*id), outcome.clone())).collect())
    };
    let planned = [
        (0, Outcome::Created),
        (1, Outcome::Content),
        (2, Outcome::Content),
        (3, Outcome::Created),
        (4, Outcome::Digest),
    ];
    let arrived = [(1, Outcome::Created), (2, Outcome::Problem(gone())), (4, Outcome::Kept)];
    let inputs = [
        Input::Message(offer),
        Input::Message(manifest),
        Input::Message(end),
        Input::Consent(Answer::Yes),
        outcomes(&planned),
        outcomes(&arrived),
        Input::Finished { late: Vec::new() },
        Input::Message(farewell),
    ];
    let (mut machine, first) = Receiver::new(the_ask());
    let (mut said, mut endings) = (Vec::new(), Vec::new());
    let rest = inputs.into_iter().flat_map(|input| machine.handle(input, Duration::ZERO));
    for action in first.into_iter().chain(rest) {
        match action {
            Action::Send(message) => said.push(message),
            Action::End(ending) => endings.push(ending),
            Action::Admit(_)
            | Action::Offered(_)
            | Action::Catalogue
            | Action::Compared
            | Action::Consult { .. }
            | Action::Plan { .. }
            | Action::Finish
            | Action::Report(_) => {}
        }
    }
    assert_eq!((said, endings), (said_by_receiver(), vec![Ending::Complete(COUNTS)]));
}

#[test]
fn the_document_shows_the_fixtures() {
    for fixture in [FROM_RECEIVER, FROM_SENDER, DATA, DELTA, OTHERS, CONNECTIONS, BARE] {
        assert!(DOCUMENT.contains(fixture), "docs/wire-format.md lacks this:\n{fixture}");
    }
}

/// Rows of the table below a heading of the document, as trimmed cells without their quotes.
fn rows(heading: &str) -> Vec<Vec<String>> {
    let (_, section) =
        DOCUMENT.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no {heading}"));
    let table =
        section.lines().skip_while(|line| !line.starts_with('|')).take_while(|line| line.starts_with('|'));
    let cells =
        |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().replace('`', "")).collect();
    table.skip(2).map(cells).collect()
}

#[test]
fn the_document_names_every_limit_with_its_value() {
    let values = [
        ("VERSION", u64::from(VERSION)),
        ("COMPONENT_BYTES", limits::COMPONENT_BYTES as u64),
        ("PATH_BYTES", limits::PATH_BYTES as u64),
        ("LINK_TARGET_BYTES", limits::LINK_TARGET_BYTES as u64),
        ("ATTRIBUTE_BYTES", limits::ATTRIBUTE_BYTES as u64),
        ("ATTRIBUTES", limits::ATTRIBUTES as u64),
        ("SHARE_NAME_BYTES", limits::SHARE_NAME_BYTES as u64),
        ("CONTROLLER_NAME_BYTES", limits::CONTROLLER_NAME_BYTES as u64),
        ("RULES", limits::RULES as u64),
        ("RULES_BYTES", limits::RULES_BYTES as u64),
        ("MESSAGE_BYTES", limits::MESSAGE_BYTES as u64),
        ("BATCH_BYTES", limits::BATCH_BYTES as u64),
        ("BATCH_ENTRIES", limits::BATCH_ENTRIES as u64),
        ("WINDOW_ENTRIES", limits::WINDOW_ENTRIES),
        ("WINDOW_BYTES", limits::WINDOW_BYTES),
        ("LEAF_ENTRIES", limits::LEAF_ENTRIES as u64),
        ("LEAF_BYTES", limits::LEAF_BYTES as u64),
        ("NODE_CHILDREN", limits::NODE_CHILDREN as u64),
        ("LEVELS", u64::from(limits::LEVELS)),
        ("NARROWING_NODES", limits::NARROWING_NODES as u64),
        ("BATCH_PROBLEMS", limits::BATCH_PROBLEMS as u64),
        ("PARTS_RUNS", limits::PARTS_RUNS as u64),
        ("WANTS_PER_SPAN", limits::WANTS_PER_SPAN),
        ("DETAIL_BYTES", limits::DETAIL_BYTES as u64),
        ("BLOCK_BYTES", limits::BLOCK_BYTES as u64),
        ("RANGE_BYTES", limits::RANGE_BYTES),
        ("WHOLE_BYTES", limits::WHOLE_BYTES),
        ("GROUP_CHUNKS_LEAST", limits::GROUP_CHUNKS_LEAST as u64),
        ("GROUP_CHUNKS", limits::GROUP_CHUNKS as u64),
        ("RECIPE_CHUNKS", limits::RECIPE_CHUNKS as u64),
        ("RECIPE_GROUPS", limits::RECIPE_GROUPS as u64),
        ("PIECES_PER_BYTE", limits::PIECES_PER_BYTE),
        ("FRAME_WINDOW_BITS", u64::from(limits::FRAME_WINDOW_BITS)),
        ("CONNECTIONS", u64::from(limits::CONNECTIONS)),
        ("DATA_STREAMS", u64::from(limits::DATA_STREAMS)),
        ("FILE_STREAMS", limits::FILE_STREAMS as u64),
        ("HELLO_TIMEOUT_S", limits::HELLO_TIMEOUT_S),
        ("CONSENT_TIMEOUT_S", limits::CONSENT_TIMEOUT_S),
        ("KEEP_ALIVE_S", limits::KEEP_ALIVE_S),
        ("SILENCE_TIMEOUT_S", limits::SILENCE_TIMEOUT_S),
        ("FAREWELL_TIMEOUT_S", limits::FAREWELL_TIMEOUT_S),
    ];
    let documented: Vec<(String, u64)> = rows("## Limits")
        .into_iter()
        .map(|row| (row[0].clone(), row[1].replace(',', "").parse().unwrap()))
        .collect();
    let expected: Vec<(String, u64)> = values.map(|(name, value)| (name.to_owned(), value)).into();
    assert_eq!(documented, expected);
    let source = include_str!("../src/limits.rs");
    let defined: Vec<&str> =
        source.lines().filter_map(|line| line.strip_prefix("pub const ")?.split(':').next()).collect();
    assert_eq!(defined, values.map(|(name, _)| name), "limits.rs holds others");
}

#[test]
fn the_document_names_every_field_of_every_message() {
    let sources = [
        include_str!("../src/message/wire.rs"),
        include_str!("../src/message/wire/entry.rs"),
        include_str!("../src/message/wire/sync.rs"),
    ];
    for definition in sources.iter().flat_map(|source| source.split("struct Wire").skip(1)) {
        let (name, body) = definition.split_once(" {").unwrap();
        let (body, _) = body.split_once("\n}").unwrap();
        let lines: Vec<&str> = body.lines().map(str::trim).collect();
        let fields: Vec<[String; 3]> = lines
            .windows(2)
            .filter_map(|pair| {
                let attribute = pair[0].strip_prefix("#[prost(")?.strip_suffix(")]")?;
                let (kind, tag) = attribute.split_once(", tag = ")?;
                let field = pair[1].split(':').next()?;
                Some([tag.trim_matches('"'), field, &kind.replace(" = \"vec\"", "")].map(str::to_owned))
            })
            .collect();
        let documented: Vec<Vec<String>> =
            rows(&format!("### {name}")).into_iter().map(|row| row[..3].to_vec()).collect();
        assert_eq!(documented, fields, "{name}");
        assert!(!fields.is_empty(), "{name}");
    }
}

#[test]
fn the_document_names_every_code() {
    let codes = |heading| -> Vec<(String, String)> {
        rows(heading).into_iter().map(|row| (row[0].clone(), row[1].clone())).collect()
    };
    let causes: Vec<_> =
        Cause::ALL.iter().map(|cause| (cause.code().to_string(), format!("{cause:?}"))).collect();
    let reasons: Vec<_> =
        Reason::ALL.iter().map(|reason| (reason.code().to_string(), format!("{reason:?}"))).collect();
    assert_eq!((codes("### Causes"), codes("### Reasons")), (causes, reasons));
}

#[test]
#[ignore = "prints the bytes for whoever changes the format"]
#[allow(clippy::print_stdout)]
fn print_the_fixtures() {
    for (name, built) in [
        ("control-from-receiver", control_from_receiver()),
        ("control-from-sender", frames(&said_by_sender())),
        ("data", data()),
        ("delta", delta()),
        ("other-messages", frames(&others())),
        ("connections", a_connection()),
        ("bare", bare_records()),
    ] {
        println!("{name} {}", hex(&built));
    }
}
