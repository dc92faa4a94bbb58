//! Any message that can be said, by strategies of proptest.

use ketch_protocol::{
    controller::Controller,
    difference::RangeHash,
    limits::{self, VERSION},
    manifest::{Entry, EntryId, EntryKind, Timestamp},
    message::{
        Ask, Batch, Claim, Compression, Congestion, Connections, Consent, Counts, DiskId, Durability,
        Equality, Expand, Hashes, List, Message, Nodes, Offer, Parts, Pieces, Place, Policy, Propose, Refuse,
        Removal, RemovalLimit, Root, Rules, Run, Secret, Selection, SessionId, Settled, ShareName,
        TargetView, Totals, Want,
    },
    path::EntryPath,
    problem::{Cause, Problem, Reason},
};
use proptest::{collection::vec, prelude::*, sample::select};

pub(crate) fn message() -> impl Strategy<Value = Message> {
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

pub(crate) fn ask() -> impl Strategy<Value = Ask> {
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

/// Numbers as a liar would choose them.
pub(crate) fn number() -> impl Strategy<Value = u64> {
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
