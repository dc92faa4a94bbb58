use std::sync::Arc;

use super::{
    super::sender::{Action, Input, Job, Wanted},
    *,
};
use crate::{
    limits::{
        BATCH_ENTRIES, BATCH_PROBLEMS, CONSENT_TIMEOUT_S, HELLO_TIMEOUT_S, KEEP_ALIVE_S, MESSAGE_BYTES,
        PIECES_PER_BYTE, RANGE_BYTES, SILENCE_TIMEOUT_S, WANTS_PER_SPAN, WHOLE_BYTES, WINDOW_ENTRIES,
    },
    message::{Fate, Parts, Pieces, encode},
};

/// A sender that has been asked and has admitted.
fn admitted(consent: Consent, target: TargetView) -> Sender {
    let mut sender = Sender::default();
    sender.handle(Input::Message(Message::Ask(ask(consent, target))), START);
    sender.handle(Input::Admitted { estimate: None, connections: Connections::ONE, disk: None }, START);
    sender
}

/// A sender that has listed these to an occupied target.
fn listed(entries: &[Entry]) -> Sender {
    let mut sender = admitted(Consent::Given, TargetView::Occupied);
    list(&mut sender, entries);
    sender
}

fn list(sender: &mut Sender, entries: &[Entry]) -> Vec<Action> {
    sender.handle(Input::Listed { entries: entries.to_vec(), problems: Vec::new() }, START)
}

fn hear(sender: &mut Sender, message: Message) -> Vec<Action> {
    sender.handle(Input::Message(message), START)
}

fn violation(actions: &[Action]) -> &Violation {
    match actions {
        [
            Action::Send(Message::Refuse(refuse)),
            Action::End(Ending::Failed(SessionError::Violation(violation))),
        ] if refuse.reason == Reason::Violation => violation,
        other => panic!("no violation: {other:?}"),
    }
}

fn failure(actions: &[Action]) -> &SessionError {
    match actions.last() {
        Some(Action::End(Ending::Failed(error))) => error,
        other => panic!("no failure: {other:?}"),
    }
}

fn jobs(actions: &[Action]) -> Vec<Job> {
    actions
        .iter()
        .filter_map(|action| if let Action::Read(jobs) = action { Some(jobs.clone()) } else { None })
        .flatten()
        .collect()
}

#[test]
fn another_version_is_refused_with_both_numbers() {
    let ask = Ask { version: 7, ..ask(Consent::Given, TargetView::Empty) };
    let actions = hear(&mut Sender::default(), Message::Ask(ask));
    let detail = "version 7 was asked for, version 1 is spoken here";
    assert_eq!(*failure(&actions), SessionError::Stopped(Stop::new(Reason::Version, detail)));
    assert!(matches!(&actions[0], Action::Send(Message::Refuse(refuse)) if refuse.detail == detail));
}

#[test]
fn who_is_not_admitted_is_told_so_and_nothing_else() {
    let mut sender = Sender::default();
    hear(&mut sender, Message::Ask(ask(Consent::Given, TargetView::Empty)));
    let actions = sender.handle(Input::Denied, START);
    assert_eq!(actions[0], Action::Send(refuse(Reason::NotAdmitted)));
    assert_eq!(failure(&actions).blame(), Blame::Operator);
}

#[test]
fn content_follows_the_manifest_at_once_into_nothing() {
    let mut sender = admitted(Consent::Given, TargetView::Empty);
    let empty = entry("b", EntryKind::File { size: 0 });
    let actions = list(&mut sender, &[file("a"), empty, entry("c", EntryKind::Directory)]);
    assert!(matches!(actions[0], Action::Send(Message::Manifest(_))));
    let pushed: Vec<_> = jobs(&actions).into_iter().map(|job| (job.id, job.wanted)).collect();
    assert_eq!(pushed, [(EntryId(0), Wanted::Content)]);
}

#[test]
fn content_waits_for_consent() {
    let mut sender = admitted(Consent::Pending, TargetView::Empty);
    assert_eq!(jobs(&list(&mut sender, &[file("a"), file("b")])), []);
    assert_eq!(jobs(&hear(&mut sender, Message::Accept)).len(), 2);
    assert_eq!(jobs(&list(&mut sender, &[file("c")])).len(), 1);
}

#[test]
fn only_open_files_and_their_ranges_can_be_wanted() {
    let large = entry("large", EntryKind::File { size: WHOLE_BYTES + 1 });
    let entries = [entry("d", EntryKind::Directory), file("f"), large];
    let parts = |id, content, digest| {
        Message::Want(Want { parts: vec![Parts { id: EntryId(id), content, digest }], ..Want::default() })
    };
    let ranges = WHOLE_BYTES / RANGE_BYTES + 1;
    let cases = [
        (want(0, 1), Violation::NoSuchPart(EntryId(0))),
        (want(1, 3), Violation::NotOpen(EntryId(3))),
        (want(1, 1 << 63), Violation::NotOpen(EntryId(3))),
        (want(9, 1), Violation::NotOpen(EntryId(9))),
        (parts(0, runs(0, 1), vec![]), Violation::NoSuchPart(EntryId(0))),
        (parts(1, runs(0, 1), vec![]), Violation::NoSuchPart(EntryId(1))),
        (parts(2, runs(0, ranges + 1), vec![]), Violation::NoSuchPart(EntryId(2))),
        (parts(2, vec![], runs(ranges, 1)), Violation::NoSuchPart(EntryId(2))),
        (parts(2, runs(u64::MAX - 1, 1), vec![]), Violation::NoSuchPart(EntryId(2))),
        (parts(3, runs(0, 1), vec![]), Violation::NotOpen(EntryId(3))),
    ];
    for (message, expected) in cases {
        let actions = hear(&mut listed(&entries), message.clone());
        assert_eq!(*violation(&actions), expected, "{message:?}");
    }
    let legal = hear(&mut listed(&entries), parts(2, runs(0, ranges), runs(ranges - 1, 1)));
    assert_eq!(jobs(&legal).len(), 1);
}

fn lists(id: u64, bytes: Vec<Run>) -> Message {
    Message::Want(Want { lists: vec![Pieces { id: EntryId(id), bytes }], ..Want::default() })
}

fn pieces(id: u64, bytes: Vec<Run>) -> Message {
    Message::Want(Want { pieces: vec![Pieces { id: EntryId(id), bytes }], ..Want::default() })
}

fn delta(id: u64) -> Message {
    Message::Want(Want { delta: runs(id, 1), ..Want::default() })
}

#[test]
fn only_what_a_file_has_can_be_wanted_of_its_delta() {
    let size = 3 * RANGE_BYTES;
    let endless = entry("endless", EntryKind::File { size: 1 << 40 });
    let entries = [entry("d", EntryKind::Directory), endless, entry("f", EntryKind::File { size })];
    let cases = [
        (delta(0), Violation::NoSuchPart(EntryId(0))),
        (delta(1), Violation::NoSuchPart(EntryId(1))),
        (delta(3), Violation::NotOpen(EntryId(3))),
        (lists(0, runs(0, 1)), Violation::NoSuchPart(EntryId(0))),
        (lists(1, runs(0, 1)), Violation::NoSuchPart(EntryId(1))),
        (lists(2, runs(size, 1)), Violation::NoSuchPart(EntryId(2))),
        (pieces(2, runs(0, size + 1)), Violation::NoSuchPart(EntryId(2))),
        (pieces(2, runs(0, RANGE_BYTES + 1)), Violation::NoSuchPart(EntryId(2))),
        (pieces(2, runs(u64::MAX - 1, 1)), Violation::NoSuchPart(EntryId(2))),
    ];
    for (message, expected) in cases {
        let actions = hear(&mut listed(&entries), message.clone());
        assert_eq!(*violation(&actions), expected, "{message:?}");
    }
    let all = runs(0, size);
    let rest = runs(2 * RANGE_BYTES, RANGE_BYTES);
    for (message, wanted) in [
        (delta(2), Wanted::Recipe),
        (lists(2, all.clone()), Wanted::Lists(all)),
        (pieces(2, rest.clone()), Wanted::Pieces(rest)),
    ] {
        let jobs = jobs(&hear(&mut listed(&entries), message));
        assert_eq!(jobs.into_iter().map(|job| job.wanted).collect::<Vec<_>>(), [wanted]);
    }
}

#[test]
fn pieces_that_are_wanted_again_and_again_are_refused() {
    let whole = || pieces(0, runs(0, RANGE_BYTES));
    let mut sender = listed(&[entry("f", EntryKind::File { size: RANGE_BYTES })]);
    for _ in 0..PIECES_PER_BYTE {
        assert_eq!(jobs(&hear(&mut sender, whole())).len(), 1);
    }
    assert_eq!(*violation(&hear(&mut sender, whole())), Violation::Greedy(EntryId(0)));

    let mut sender = listed(&[entry("f", EntryKind::File { size: RANGE_BYTES })]);
    let nothing = vec![Pieces { id: EntryId(0), bytes: Vec::new() }; 4_000];
    let nothing = Message::Want(Want { pieces: nothing, ..Want::default() });
    assert_eq!(*violation(&hear(&mut sender, nothing)), Violation::Greedy(EntryId(0)));
}

#[test]
fn what_is_wanted_again_and_again_is_refused() {
    let parts = |count| {
        let parts = vec![Parts { id: EntryId(1), content: runs(0, count), digest: Vec::new() }];
        Message::Want(Want { parts, ..Want::default() })
    };
    let large = entry("large", EntryKind::File { size: 10 * RANGE_BYTES });
    let mut sender = listed(&[file("a"), large]);
    for _ in 0..WANTS_PER_SPAN {
        assert_eq!(jobs(&hear(&mut sender, want(0, 1))).len(), 1);
        assert_eq!(jobs(&hear(&mut sender, parts(10))).len(), 1);
    }
    assert_eq!(*violation(&hear(&mut sender, parts(1))), Violation::Greedy(EntryId(1)));
    let mut sender = listed(&[file("a")]);
    let twice = Message::Want(Want { content: vec![Run { first: 0, count: 1 }; 5], ..Want::default() });
    assert_eq!(*violation(&hear(&mut sender, twice)), Violation::Greedy(EntryId(0)));
}

#[test]
fn only_open_entries_can_be_settled_and_only_once() {
    for (first, count, closed) in [(1, 1, 1), (0, 2, 1), (0, u64::MAX, 1), (u64::MAX - 1, 1, u64::MAX - 1)] {
        let actions = hear(&mut listed(&[file("a")]), created(first, count));
        assert_eq!(*violation(&actions), Violation::NotOpen(EntryId(closed)));
    }
    let mut sender = listed(&[file("a")]);
    let told = Action::Settled { fate: Fate::Created, entries: vec![Arc::new(file("a"))] };
    assert_eq!(hear(&mut sender, created(0, 1)), [told]);
    assert!(!sender.is_open(EntryId(0)));
    assert_eq!(*violation(&hear(&mut sender, created(0, 1))), Violation::NotOpen(EntryId(0)));
}

#[test]
fn the_account_adds_up_and_is_compared() {
    let settle = |sender: &mut Sender| {
        hear(
            sender,
            Message::Settled(Settled {
                created: runs(0, 2),
                kept: runs(2, 1),
                problems: vec![
                    (EntryId(3), problem("d", Cause::Exists)),
                    (EntryId(4), problem("e", Cause::Corrupt)),
                ],
                late: vec![problem("f", Cause::Metadata)],
                ..Settled::default()
            }),
        )
    };
    let counts = Counts { listed: 7, sent: 2, kept: 1, skipped: 2, failed: 2, removed: 0, problems: 4 };
    let all = ["a", "b", "c", "d", "e"].map(file);
    for (theirs, agreed) in [(counts, true), (Counts { sent: 3, ..counts }, false)] {
        let mut sender = admitted(Consent::Given, TargetView::Occupied);
        sender.handle(
            Input::Listed { entries: all.to_vec(), problems: vec![problem("pipe", Cause::Special)] },
            START,
        );
        assert_eq!(settle(&mut sender).len(), 5, "two fates and each problem are told");
        sender.handle(Input::ListEnded, START);
        assert_eq!(sender.counts(), counts);
        assert_eq!(counts.sent + counts.kept + counts.skipped + counts.failed, counts.listed);
        let actions = hear(&mut sender, Message::Done(theirs));
        if agreed {
            assert_eq!(actions, [Action::Send(Message::Farewell), Action::End(Ending::Complete(counts))]);
        } else {
            assert_eq!(
                *violation(&actions),
                Violation::Account { theirs: theirs.into(), ours: counts.into() }
            );
        }
        assert_eq!(sender.counts(), counts, "the account outlives the end");
    }
}

#[test]
fn a_problem_is_reported_under_the_name_that_was_listed() {
    let mut sender = listed(&[file("a")]);
    let problems = vec![(EntryId(0), problem("elsewhere", Cause::Exists))];
    let actions = hear(&mut sender, Message::Settled(Settled { problems, ..Settled::default() }));
    assert_eq!(actions, [Action::Report(problem("a", Cause::Exists))]);
}

#[test]
fn the_list_ends_once() {
    let mut sender = listed(&[file("a")]);
    let totals = Totals { entries: 1, bytes: 1, problems: 0 };
    assert_eq!(sender.handle(Input::ListEnded, START), [Action::Send(Message::ManifestEnd(totals))]);
    assert_eq!(sender.handle(Input::ListEnded, START), []);
    assert_eq!(list(&mut sender, &[file("b")]), []);
    assert_eq!(sender.counts().listed, 1);
}

#[test]
fn sizes_beyond_64_bits_in_all_do_not_overflow() {
    let huge = |name| entry(name, EntryKind::File { size: i64::MAX as u64 });
    let mut sender = listed(&[huge("a"), huge("b"), huge("c")]);
    let totals = Totals { entries: 3, bytes: u64::MAX, problems: 0 };
    assert_eq!(sender.handle(Input::ListEnded, START), [Action::Send(Message::ManifestEnd(totals))]);
}

#[test]
fn a_list_of_any_length_is_cut_into_messages_that_fit() {
    let long =
        |index: usize| format!("{}/{index:0>255}", ["x"; 14].map(|letter| letter.repeat(255)).join("/"));
    let entries: Vec<Entry> = (0..BATCH_ENTRIES + 1)
        .map(|index| entry(&long(index), EntryKind::Symlink { target: [b'/'; 4096].into() }))
        .collect();
    let problems: Vec<Problem> = (0..2 * BATCH_PROBLEMS + 1)
        .map(|index| Problem::new(path(&long(index)), Cause::Metadata, "x".repeat(2_000)))
        .collect();
    let mut sender = admitted(Consent::Given, TargetView::Occupied);
    let actions =
        sender.handle(Input::Listed { entries: entries.clone(), problems: problems.clone() }, START);
    let (mut next, mut told) = (0, 0);
    for action in actions {
        let Action::Send(message) = action else { continue };
        assert!(encode(&message).len() <= MESSAGE_BYTES);
        let Message::Manifest(batch) = message else { panic!("{}", message.name()) };
        assert_eq!(batch.first, EntryId(next));
        assert!(batch.problems.len() <= BATCH_PROBLEMS);
        next += batch.entries.len() as u64;
        told += batch.problems.len();
    }
    assert_eq!((next, told), (entries.len() as u64, problems.len()));
}

#[test]
fn small_entries_fill_whole_batches() {
    let entries: Vec<Entry> = (0..BATCH_ENTRIES + 1).map(|index| file(&format!("{index:05}"))).collect();
    let actions = list(&mut admitted(Consent::Given, TargetView::Occupied), &entries);
    let lengths: Vec<usize> = actions
        .iter()
        .filter_map(|action| {
            if let Action::Send(Message::Manifest(batch)) = action { Some(batch.entries.len()) } else { None }
        })
        .collect();
    assert_eq!(lengths, [BATCH_ENTRIES, 1]);
}

#[test]
fn room_shrinks_with_entries_and_with_their_names() {
    let mut sender = admitted(Consent::Given, TargetView::Occupied);
    assert_eq!(sender.room(), WINDOW_ENTRIES);
    list(&mut sender, &[file("a")]);
    assert_eq!(sender.room(), WINDOW_ENTRIES - 1);
    let link =
        |index: usize| entry(&format!("b{index:05}"), EntryKind::Symlink { target: [b'/'; 4096].into() });
    let links: Vec<Entry> = (0..4_096).map(link).collect();
    list(&mut sender, &links);
    assert_eq!(sender.room(), 0, "16 MiB of names are open");
    hear(&mut sender, created(0, 4_097));
    assert_eq!(sender.room(), WINDOW_ENTRIES);
    list(&mut sender, &vec![file("c"); WINDOW_ENTRIES as usize + 1]);
    assert_eq!(sender.room(), 0, "even when more was listed than there was room");
}

#[test]
fn a_receiver_that_does_not_ask_or_accept_is_given_up() {
    let timed_out = |mut sender: Sender, at: u64| {
        sender.handle(Input::Message(Message::KeepAlive), seconds(at - 1));
        assert!(sender.handle(Input::Tick, seconds(at) - TICK).len() < 2, "too early");
        failure(&sender.handle(Input::Tick, seconds(at))).clone()
    };
    let limit = HELLO_TIMEOUT_S;
    let expected = SessionError::Timeout { awaited: "ask", seconds: limit };
    assert_eq!(timed_out(Sender::default(), limit), expected);
    let limit = CONSENT_TIMEOUT_S + SILENCE_TIMEOUT_S;
    let expected = SessionError::Timeout { awaited: "accept", seconds: limit };
    assert_eq!(timed_out(admitted(Consent::Pending, TargetView::Empty), limit), expected);
}

#[test]
fn silence_is_broken_by_keep_alives_and_ends_the_session() {
    let mut sender = listed(&[file("a")]);
    assert_eq!(sender.handle(Input::Tick, seconds(KEEP_ALIVE_S) - TICK), []);
    let alive = [Action::Send(Message::KeepAlive)];
    assert_eq!(sender.handle(Input::Tick, seconds(KEEP_ALIVE_S)), alive);
    assert_eq!(sender.handle(Input::Tick, seconds(KEEP_ALIVE_S) + TICK), [], "it has just spoken");
    sender.handle(Input::Message(Message::KeepAlive), seconds(20));
    assert_eq!(sender.handle(Input::Tick, seconds(20 + SILENCE_TIMEOUT_S) - TICK), alive);
    let actions = sender.handle(Input::Tick, seconds(20 + SILENCE_TIMEOUT_S));
    assert!(matches!(&actions[0], Action::Send(Message::Refuse(refuse)) if refuse.reason == Reason::Timeout));
    let expected = SessionError::Timeout { awaited: "settled", seconds: SILENCE_TIMEOUT_S };
    assert_eq!(*failure(&actions), expected);
}

#[test]
fn a_stop_is_told_and_a_lost_connection_is_not() {
    let stop = Stop::at(path("a"), Reason::Internal, "could not read it");
    let actions = listed(&[file("a")]).handle(Input::Stop(stop.clone()), START);
    let ending = Action::End(Ending::Failed(SessionError::Stopped(stop.clone())));
    assert_eq!(actions, [Action::Send(Message::Refuse(stop.into())), ending]);
    let actions = listed(&[file("a")]).handle(Input::Lost("reset".into()), START);
    let lost = SessionError::Lost { awaited: "settled", detail: "reset".into() };
    assert_eq!(actions, [Action::End(Ending::Failed(lost))]);
}
