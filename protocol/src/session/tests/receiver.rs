use super::{
    super::receiver::{Action, Answer, Input, Outcome},
    *,
};
use crate::{
    limits::{
        BATCH_ENTRIES, CONSENT_TIMEOUT_S, FAREWELL_TIMEOUT_S, HELLO_TIMEOUT_S, KEEP_ALIVE_S, MESSAGE_BYTES,
        PARTS_RUNS, SILENCE_TIMEOUT_S, WINDOW_ENTRIES,
    },
    manifest::OrderError,
    message::{Frames, encode},
};

/// A receiver that was admitted.
fn offered(consent: Consent, target: TargetView) -> Receiver {
    let (mut receiver, _) = Receiver::new(ask(consent, target));
    hear(&mut receiver, offer());
    receiver
}

fn storing(entries: &[Entry]) -> Receiver {
    let mut receiver = offered(Consent::Given, TargetView::Occupied);
    for (index, entries) in entries.chunks(BATCH_ENTRIES).enumerate() {
        hear(&mut receiver, batch((index * BATCH_ENTRIES) as u64, entries));
    }
    receiver
}

/// A receiver that has said done to a tree of nothing.
fn done() -> Receiver {
    let mut receiver = storing(&[]);
    hear(&mut receiver, Message::ManifestEnd(Totals::default()));
    receiver.handle(Input::Finished { late: Vec::new() }, START);
    receiver
}

fn hear(receiver: &mut Receiver, message: Message) -> Vec<Action> {
    receiver.handle(Input::Message(message), START)
}

fn end_list(receiver: &mut Receiver) -> Vec<Action> {
    let (totals, _) = receiver.listed();
    hear(receiver, Message::ManifestEnd(totals))
}

fn note(receiver: &mut Receiver, outcomes: &[(u64, Outcome)]) -> Vec<Action> {
    let outcomes = outcomes.iter().map(|(id, outcome)| (EntryId(*id), outcome.clone())).collect();
    receiver.handle(Input::Outcomes(outcomes), START)
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

fn said(actions: Vec<Action>) -> Vec<Message> {
    actions
        .into_iter()
        .filter_map(|action| if let Action::Send(message) = action { Some(message) } else { None })
        .collect()
}

fn numbered(count: usize) -> Vec<Entry> {
    (0..count).map(|index| file(&format!("{index:06}"))).collect()
}

#[test]
fn another_version_is_refused_with_both_numbers() {
    let (mut receiver, _) = Receiver::new(ask(Consent::Given, TargetView::Empty));
    let actions = hear(
        &mut receiver,
        Message::Offer(Offer {
            version: 2,
            estimate: None,
            connections: Connections::ONE,
            congestion: None,
            disk: None,
        }),
    );
    let detail = "version 2 was offered, version 1 is spoken here";
    assert_eq!(*failure(&actions), SessionError::Stopped(Stop::new(Reason::Version, detail)));
}

/// Actions other than to say that this side is there.
fn beside_signs_of_life(mut actions: Vec<Action>) -> Vec<Action> {
    actions.retain(|action| *action != Action::Send(Message::KeepAlive));
    actions
}

#[test]
fn a_person_is_asked_once_and_nothing_is_planned_before() {
    let mut receiver = offered(Consent::Pending, TargetView::Occupied);
    assert_eq!(hear(&mut receiver, batch(0, &[file("a"), file("b")])), []);
    assert_eq!(end_list(&mut receiver), [Action::Consult { complete: true }]);
    assert_eq!(beside_signs_of_life(receiver.handle(Input::Tick, seconds(4))), []);
    assert_eq!(receiver.open_entries().count(), 2);
    let actions = receiver.handle(Input::Consent(Answer::Yes), seconds(4));
    assert_eq!(actions[0], Action::Send(Message::Accept));
    assert!(matches!(&actions[1], Action::Plan { first: EntryId(0), entries } if entries.len() == 2));
    assert_eq!(receiver.handle(Input::Consent(Answer::Yes), seconds(4)), [], "one answer is enough");
}

#[test]
fn a_person_is_asked_about_a_long_list_before_its_end() {
    let mut receiver = offered(Consent::Pending, TargetView::Occupied);
    let actions = beside_signs_of_life(receiver.handle(Input::Tick, seconds(3)));
    assert_eq!(actions, [], "there is nothing to show");
    let listed = receiver.handle(Input::Message(batch(0, &[file("a")])), seconds(3));
    assert_eq!(listed, [Action::Consult { complete: false }]);
}

#[test]
fn consent_to_an_empty_tree_finishes_it() {
    let mut receiver = offered(Consent::Pending, TargetView::Occupied);
    end_list(&mut receiver);
    let actions = receiver.handle(Input::Consent(Answer::Yes), START);
    assert_eq!(actions, [Action::Send(Message::Accept), Action::Finish]);
}

#[test]
fn who_says_no_or_nothing_declines() {
    let mut receiver = offered(Consent::Pending, TargetView::Occupied);
    let actions = receiver.handle(Input::Consent(Answer::No), START);
    assert_eq!(*failure(&actions), SessionError::Stopped(Stop::new(Reason::Declined, "")));
    let mut receiver = offered(Consent::Pending, TargetView::Occupied);
    receiver.handle(Input::Message(Message::KeepAlive), seconds(CONSENT_TIMEOUT_S - 1));
    let actions = receiver.handle(Input::Tick, seconds(CONSENT_TIMEOUT_S));
    let stop = Stop::new(Reason::Declined, "nobody answered for 600 s");
    assert_eq!(*failure(&actions), SessionError::Stopped(stop));
}

#[test]
fn a_manifest_goes_on_where_it_ended() {
    for (first, entries) in [(0, vec![file("b")]), (2, vec![file("b")]), (u64::MAX - 1, vec![file("b")])] {
        let actions = hear(&mut storing(&[file("a")]), batch(first, &entries));
        assert_eq!(*violation(&actions), Violation::Gap { expected: EntryId(1), got: EntryId(first) });
    }
}

#[test]
fn a_manifest_out_of_order_is_refused() {
    let duplicate = hear(&mut storing(&[file("b")]), batch(1, &[file("b")]));
    assert_eq!(*violation(&duplicate), OrderError::Duplicate { path: path("b") }.into());
    let unsorted = hear(&mut storing(&[file("b")]), batch(1, &[file("a")]));
    assert_eq!(*violation(&unsorted), OrderError::Unsorted { path: path("a"), before: path("b") }.into());
    let orphan = hear(&mut storing(&[file("b")]), batch(1, &[file("b/c")]));
    assert_eq!(*violation(&orphan), OrderError::Orphan { path: path("b/c") }.into());
}

#[test]
fn more_entries_than_the_window_are_refused() {
    let mut receiver = storing(&numbered(WINDOW_ENTRIES as usize));
    let one_more = batch(WINDOW_ENTRIES, &[file("z")]);
    assert_eq!(*violation(&hear(&mut receiver, one_more.clone())), Violation::Window);
    let mut receiver = storing(&numbered(WINDOW_ENTRIES as usize));
    note(&mut receiver, &[(7, Outcome::Created)]);
    assert!(matches!(hear(&mut receiver, one_more)[..], [Action::Plan { .. }]));
}

#[test]
fn more_bytes_of_names_than_the_window_are_refused() {
    let link =
        |index: usize| entry(&format!("{index:06}"), EntryKind::Symlink { target: [b'/'; 4096].into() });
    let mut receiver = storing(&(0..4_096).map(link).collect::<Vec<_>>());
    assert_eq!(*violation(&hear(&mut receiver, batch(4_096, &[file("z")]))), Violation::Window);
}

#[test]
fn totals_must_be_those_of_the_list() {
    let wrong = Totals { entries: 1, bytes: 2, problems: 0 };
    let actions = hear(&mut storing(&[file("a")]), Message::ManifestEnd(wrong));
    assert_eq!(*violation(&actions), Violation::Totals);
}

#[test]
fn problems_of_the_manifest_are_reported_and_counted() {
    let mut receiver = storing(&[]);
    let problems = vec![problem("pipe", Cause::Special), problem("secret", Cause::Unreadable)];
    let told =
        Message::Manifest(Batch { first: EntryId(0), entries: Vec::new(), problems: problems.clone() });
    let reports: Vec<Action> = problems.into_iter().map(Action::Report).collect();
    assert_eq!(hear(&mut receiver, told), reports);
    assert_eq!(
        receiver.counts(),
        Counts { listed: 2, skipped: 1, failed: 1, problems: 2, ..Counts::default() }
    );
    assert_eq!(end_list(&mut receiver), [Action::Finish]);
}

#[test]
fn content_is_not_wanted_of_a_sender_that_sends_it_anyway() {
    let mut receiver = offered(Consent::Given, TargetView::Empty);
    hear(&mut receiver, batch(0, &[file("a")]));
    assert_eq!(note(&mut receiver, &[(0, Outcome::Content)]), []);
    assert_eq!(note(&mut receiver, &[(0, Outcome::ContentAgain)]), [Action::Send(want(0, 1))]);
}

#[test]
fn wants_of_a_batch_go_out_together() {
    let mut receiver = storing(&numbered(5));
    let outcomes =
        [(0, Outcome::Content), (1, Outcome::Content), (2, Outcome::Digest), (4, Outcome::ContentAgain)];
    let content = vec![Run { first: 0, count: 2 }, Run { first: 4, count: 1 }];
    let expected = Want { content, digest: runs(2, 1), ..Want::default() };
    assert_eq!(note(&mut receiver, &outcomes), [Action::Send(Message::Want(expected))]);
}

#[test]
fn wants_of_any_number_are_cut_into_messages_that_fit() {
    let scattered: Vec<Run> =
        (0..10 * PARTS_RUNS as u64).map(|index| Run { first: (1 << 40) + 2 * index, count: 1 }).collect();
    let parts = Outcome::Parts { content: scattered.clone(), digest: scattered[..PARTS_RUNS + 1].to_vec() };
    let mut outcomes: Vec<(u64, Outcome)> = (0..30_000).map(|index| (2 * index, Outcome::Content)).collect();
    outcomes.extend([(1, parts)]);
    let messages = said(note(&mut storing(&numbered(60_000)), &outcomes));
    assert!(messages.len() > 10, "{} messages", messages.len());
    let (mut content, mut ranges, mut digests) = (0, 0, 0);
    for message in messages {
        assert!(encode(&message).len() <= MESSAGE_BYTES);
        assert_eq!(reread(&message), message, "our own limits hold for it");
        let Message::Want(want) = message else { panic!("{}", message.name()) };
        content += want.content.len();
        ranges += want.parts.iter().map(|parts| parts.content.len()).sum::<usize>();
        digests += want.parts.iter().map(|parts| parts.digest.len()).sum::<usize>();
    }
    assert_eq!((content, ranges, digests), (30_000, scattered.len(), PARTS_RUNS + 1));
}

fn reread(message: &Message) -> Message {
    let mut frames = Frames::default();
    frames.push(&encode(message));
    frames.next_message().unwrap().unwrap()
}

#[test]
fn outcomes_of_any_number_are_cut_into_messages_that_fit() {
    let name =
        |index: usize| format!("{}/{index:0>255}", ["x"; 14].map(|letter| letter.repeat(255)).join("/"));
    let mut receiver = storing(&numbered(2_000));
    let mut outcomes: Vec<(u64, Outcome)> = (0..500).map(|index| (4 * index, Outcome::Created)).collect();
    outcomes.extend((0..500).map(|index| (4 * index + 2, Outcome::Kept)));
    outcomes.extend((0..300u64).map(|index| {
        let problem = Problem::new(path(&name(index as usize)), Cause::Unwritable, "x".repeat(2_000));
        (2 * index + 1, Outcome::Problem(problem))
    }));
    let mut messages = said(note(&mut receiver, &outcomes));
    messages.extend(said(receiver.handle(Input::Tick, TICK)));
    let mut settled = 0;
    for message in messages {
        assert!(encode(&message).len() <= MESSAGE_BYTES);
        assert_eq!(reread(&message), message, "our own limits hold for it");
        let Message::Settled(batch) = message else { panic!("{}", message.name()) };
        let runs = batch.created.iter().chain(&batch.kept).map(|run| run.count).sum::<u64>();
        settled += runs + batch.problems.len() as u64;
    }
    assert_eq!(settled, 1_300);
}

#[test]
fn outcomes_wait_for_the_next_tick() {
    let mut receiver = storing(&numbered(3));
    assert_eq!(note(&mut receiver, &[(0, Outcome::Created), (1, Outcome::Created)]), []);
    assert_eq!(receiver.handle(Input::Tick, TICK), [Action::Send(created(0, 2))]);
    assert_eq!(receiver.handle(Input::Tick, 2 * TICK), []);
}

#[test]
fn what_is_said_of_an_entry_that_is_not_open_changes_nothing() {
    let mut receiver = storing(&numbered(2));
    note(&mut receiver, &[(0, Outcome::Created)]);
    let counts = receiver.counts();
    for outcome in [Outcome::Created, Outcome::Kept, Outcome::ContentAgain, Outcome::Digest] {
        assert_eq!(note(&mut receiver, &[(0, outcome.clone()), (2, outcome)]), []);
    }
    assert_eq!(receiver.counts(), counts);
}

#[test]
fn the_account_adds_up_and_is_said() {
    let mut receiver = storing(&numbered(4));
    let skipped = Outcome::Problem(problem("000002", Cause::Exists));
    let failed = Outcome::Problem(problem("000003", Cause::Corrupt));
    note(&mut receiver, &[(0, Outcome::Created), (1, Outcome::Kept), (2, skipped)]);
    assert_eq!(end_list(&mut receiver), [], "one entry is open");
    let actions = note(&mut receiver, &[(3, failed)]);
    assert_eq!(actions.last(), Some(&Action::Finish));
    let late = vec![problem("d", Cause::Metadata)];
    let actions = receiver.handle(Input::Finished { late: late.clone() }, START);
    let counts = Counts { listed: 5, sent: 1, kept: 1, skipped: 1, failed: 2, removed: 0, problems: 3 };
    assert_eq!(counts.sent + counts.kept + counts.skipped + counts.failed, counts.listed);
    let settled = Message::Settled(Settled { late: late.clone(), ..Settled::default() });
    let expected =
        [Action::Report(late[0].clone()), Action::Send(settled), Action::Send(Message::Done(counts))];
    assert_eq!(actions, expected);
    let complete = Action::End(Ending::Complete(counts));
    assert_eq!(hear(&mut receiver, Message::Farewell), [complete]);
    assert_eq!(receiver.counts(), counts, "the account outlives the end");
}

#[test]
fn the_account_outlives_a_failure() {
    let mut receiver = storing(&numbered(2));
    note(&mut receiver, &[(0, Outcome::Created)]);
    receiver.handle(Input::Lost("reset".into()), START);
    assert_eq!(receiver.counts(), Counts { listed: 2, sent: 1, ..Counts::default() });
}

#[test]
fn once_done_was_said_a_sender_that_is_gone_takes_nothing_back() {
    let complete = [Action::End(Ending::Complete(Counts::default()))];
    assert_eq!(done().handle(Input::Tick, seconds(FAREWELL_TIMEOUT_S)), complete);
    assert_eq!(done().handle(Input::Lost("reset".into()), START), complete);
    let actions = done().handle(Input::Tick, seconds(FAREWELL_TIMEOUT_S) - TICK);
    assert_eq!(beside_signs_of_life(actions), []);
}

#[test]
fn a_sender_that_refuses_the_account_ends_it_even_after_done() {
    let actions = hear(&mut done(), refuse(Reason::Violation));
    assert_eq!(failure(&actions).reason(), Some(Reason::Violation));
}

#[test]
fn a_sender_that_does_not_answer_or_falls_silent_is_given_up() {
    let (mut receiver, _) = Receiver::new(ask(Consent::Given, TargetView::Empty));
    receiver.handle(Input::Message(Message::KeepAlive), seconds(HELLO_TIMEOUT_S - 1));
    let actions = receiver.handle(Input::Tick, seconds(HELLO_TIMEOUT_S));
    assert_eq!(*failure(&actions), SessionError::Timeout { awaited: "offer", seconds: HELLO_TIMEOUT_S });

    let mut receiver = storing(&[file("a")]);
    let alive = [Action::Send(Message::KeepAlive)];
    assert_eq!(receiver.handle(Input::Tick, seconds(KEEP_ALIVE_S)), alive);
    let actions = receiver.handle(Input::Tick, seconds(SILENCE_TIMEOUT_S));
    assert!(matches!(&actions[0], Action::Send(Message::Refuse(refuse)) if refuse.reason == Reason::Timeout));
    let expected = SessionError::Timeout { awaited: "manifest", seconds: SILENCE_TIMEOUT_S };
    assert_eq!(*failure(&actions), expected);
    assert_eq!(failure(&actions).blame(), Blame::Network);
}
