//! Comparison and proposals: who says what, and what is no answer to it.

use super::{
    super::{
        receiver::{self, Agreed, Outcome},
        sender,
    },
    *,
};
use crate::{
    difference::AskError,
    limits::{BATCH_ENTRIES, HELLO_TIMEOUT_S, MESSAGE_BYTES, WINDOW_ENTRIES},
    message::{Fate, Removal, RemovalLimit, encode},
};

/// A sender that has said the root of this catalogue.
fn comparing(catalogue: Arc<Catalogue>) -> Sender {
    let mut sender = Sender::default();
    say(&mut sender, Message::Ask(ask(Consent::Given, TargetView::Comparable)));
    sender
        .handle(sender::Input::Admitted { estimate: None, connections: Connections::ONE, disk: None }, START);
    sender.handle(sender::Input::Catalogued { catalogue, problems: Vec::new() }, START);
    sender
}

fn say(sender: &mut Sender, message: Message) -> Vec<sender::Action> {
    sender.handle(sender::Input::Message(message), START)
}

/// A receiver that holds this, and has been admitted.
fn holding(catalogue: Arc<Catalogue>, agreed: Option<Agreed>) -> Receiver {
    let (mut receiver, _) = Receiver::new(ask(Consent::Given, TargetView::Comparable));
    hear(&mut receiver, offer());
    receiver.handle(receiver::Input::Catalogued { catalogue, agreed }, START);
    receiver
}

fn hear(receiver: &mut Receiver, message: Message) -> Vec<receiver::Action> {
    receiver.handle(receiver::Input::Message(message), START)
}

fn root_of(catalogue: &Catalogue) -> Root {
    Root { hash: catalogue.root(), levels: catalogue.levels(), totals: catalogue.totals() }
}

fn list(first: u64, count: u64, complete: bool) -> Message {
    Message::List(List { leaves: runs(first, count), complete })
}

fn expand(level: u32, first: u64, count: u64) -> Message {
    Message::Expand(Expand { level, nodes: runs(first, count) })
}

fn sender_violation(actions: &[sender::Action]) -> &Violation {
    match actions {
        [.., sender::Action::End(Ending::Failed(SessionError::Violation(violation)))] => violation,
        other => panic!("no violation: {other:?}"),
    }
}

fn receiver_violation(actions: &[receiver::Action]) -> &Violation {
    match actions {
        [.., receiver::Action::End(Ending::Failed(SessionError::Violation(violation)))] => violation,
        other => panic!("no violation: {other:?}"),
    }
}

#[test]
fn a_root_comes_behind_the_problems_of_the_scan() {
    let mut sender = Sender::default();
    say(&mut sender, Message::Ask(ask(Consent::Given, TargetView::Comparable)));
    let actions = sender
        .handle(sender::Input::Admitted { estimate: None, connections: Connections::ONE, disk: None }, START);
    assert_eq!(actions, [sender::Action::Send(offer()), sender::Action::Catalogue]);
    let (catalogue, problem) = (numbered_catalogue(3), problem("pipe", Cause::Special));
    let problems = vec![problem.clone()];
    let actions =
        sender.handle(sender::Input::Catalogued { catalogue: Arc::clone(&catalogue), problems }, START);
    let told = Batch { first: EntryId(0), entries: Vec::new(), problems: vec![problem.clone()] };
    let totals = Totals { entries: 3, bytes: 3, problems: 1 };
    let expected = [
        sender::Action::Report(problem),
        sender::Action::Send(Message::Manifest(told)),
        sender::Action::Send(Message::Root(Root { totals, ..root_of(&catalogue) })),
    ];
    assert_eq!(actions, expected);
    assert_eq!(sender.counts(), Counts { listed: 4, skipped: 1, problems: 1, ..Counts::default() });
}

#[test]
fn only_leaves_that_are_asked_for_are_listed_as_there_is_room() {
    let entries: Vec<Entry> = (0..100).map(|index| hashed(&format!("{index:06}"), 7)).collect();
    let catalogue = catalogue(&entries);
    let mut sender = comparing(Arc::clone(&catalogue));
    assert!(!sender.may_announce());
    assert_eq!((sender.room(), say(&mut sender, list(1, 2, true))), (0, vec![]));
    assert!(sender.may_announce());
    let asked: Vec<Entry> = catalogue.leaf_entries(&runs(1, 2)).unwrap().collect();
    let totals = Totals { entries: 100, bytes: 100, problems: 0 };
    let expected = [batch(0, &asked), Message::ManifestEnd(totals)].map(sender::Action::Send);
    assert_eq!(sender.handle(sender::Input::Room, START), expected);
    assert_eq!(sender.counts().kept, 100 - asked.len() as u64);
    assert!(!sender.may_announce());
    assert_eq!(sender.handle(sender::Input::Room, START), []);
}

#[test]
fn leaves_may_be_asked_for_in_parts() {
    let mut sender = comparing(numbered_catalogue(100));
    assert_eq!(say(&mut sender, list(0, 1, false)), []);
    assert_eq!(sender.handle(sender::Input::Room, START).len(), 1, "a batch, and not the end");
    assert_eq!(say(&mut sender, list(2, 1, true)), []);
    let actions = sender.handle(sender::Input::Room, START);
    assert!(matches!(actions[..], [_, sender::Action::Send(Message::ManifestEnd(_))]), "{actions:?}");
}

#[test]
fn who_asks_for_no_leaves_at_last_hears_the_end() {
    let mut sender = comparing(numbered_catalogue(100));
    let actions = say(&mut sender, Message::List(List { leaves: Vec::new(), complete: true }));
    assert!(matches!(actions[..], [sender::Action::Send(Message::ManifestEnd(_))]), "{actions:?}");
}

#[test]
fn a_listing_waits_where_the_window_is_full() {
    let mut sender = comparing(numbered_catalogue(WINDOW_ENTRIES as usize + 1));
    let leaves = numbered_catalogue(WINDOW_ENTRIES as usize + 1).width(0);
    say(&mut sender, list(0, leaves, true));
    let mut batches = 0;
    while sender.may_announce() {
        assert_eq!(sender.handle(sender::Input::Room, START).len(), 1);
        batches += 1;
    }
    assert!(batches >= WINDOW_ENTRIES as usize / BATCH_ENTRIES);
    say(&mut sender, created(0, 1));
    assert_eq!(sender.handle(sender::Input::Room, START).len(), 2, "the last, and the end");
}

#[test]
fn each_node_is_expanded_once_and_downwards() {
    let catalogue = numbered_catalogue(10_000);
    let [top, below] = [catalogue.levels(), catalogue.levels() - 1];
    assert!(top >= 2 && catalogue.width(below) > 3, "{top} levels");
    let unsorted = |level, first| Violation::Ask(AskError::Unsorted { level, first });
    let cases = [
        (vec![expand(top, 0, 1), expand(top, 0, 1)], unsorted(top, 0)),
        (vec![expand(below, 1, 1), expand(below, 0, 1)], unsorted(below, 0)),
        (vec![expand(below, 1, 2), expand(below, 2, 1)], unsorted(below, 2)),
        (vec![expand(below, 0, 1), expand(top, 0, 1)], unsorted(top, 0)),
        (vec![expand(0, 0, 1)], AskError::BelowLeaves.into()),
        (vec![list(1, 1, false), list(1, 1, false)], unsorted(0, 1)),
        (vec![list(1, 1, false), list(0, 1, false)], unsorted(0, 0)),
    ];
    for (mut asked, expected) in cases {
        let mut sender = comparing(Arc::clone(&catalogue));
        let last = asked.pop().unwrap();
        for legal in asked {
            let did = say(&mut sender, legal.clone());
            assert!(!matches!(did.last(), Some(sender::Action::End(_))), "{legal:?}: {did:?}");
        }
        assert_eq!(*sender_violation(&say(&mut sender, last.clone())), expected, "{last:?}");
    }
    let mut sender = comparing(Arc::clone(&catalogue));
    say(&mut sender, expand(below, 0, 1));
    assert!(matches!(say(&mut sender, expand(below, 1, 2))[0], sender::Action::Send(Message::Nodes(_))));
}

#[test]
fn what_is_not_in_the_catalogue_cannot_be_asked_for() {
    let catalogue = numbered_catalogue(100);
    let leaves = catalogue.width(0);
    for asked in [
        expand(1, 1, 1),
        expand(1, 0, u64::MAX),
        expand(9, 0, 1),
        expand(u32::MAX, 0, 1),
        list(leaves, 1, true),
        list(0, leaves + 1, true),
        list(0, u64::MAX, true),
    ] {
        let actions = say(&mut comparing(Arc::clone(&catalogue)), asked.clone());
        let violation = sender_violation(&actions);
        assert!(matches!(violation, Violation::Ask(AskError::NoSuchNodes { .. })), "{asked:?}: {violation}");
    }
}

#[test]
fn a_receiver_that_needs_nothing_is_done_without_a_list() {
    let mut sender = comparing(numbered_catalogue(100));
    let counts = Counts { listed: 100, kept: 100, ..Counts::default() };
    let expected = [sender::Action::Send(Message::Farewell), sender::Action::End(Ending::Complete(counts))];
    assert_eq!(say(&mut sender, Message::Done(counts)), expected);
}

#[test]
fn equal_roots_keep_everything() {
    let catalogue = numbered_catalogue(100);
    let mut receiver = holding(Arc::clone(&catalogue), None);
    let actions = hear(&mut receiver, Message::Root(root_of(&catalogue)));
    assert_eq!(actions, [receiver::Action::Compared, receiver::Action::Finish]);
    assert!(receiver.take_narrowing().is_none());
    assert_eq!(receiver.counts(), Counts { listed: 100, kept: 100, ..Counts::default() });
    assert_eq!(receiver.root(), Some(root_of(&catalogue)));
}

#[test]
fn a_root_waits_for_the_receivers_own() {
    let catalogue = numbered_catalogue(100);
    let (mut receiver, first) = Receiver::new(ask(Consent::Given, TargetView::Comparable));
    assert_eq!(first[1], receiver::Action::Catalogue, "it scans while the ask is on its way");
    hear(&mut receiver, offer());
    assert_eq!(hear(&mut receiver, Message::Root(root_of(&catalogue))), []);
    let actions = receiver.handle(receiver::Input::Catalogued { catalogue, agreed: None }, START);
    assert_eq!(actions, [receiver::Action::Compared, receiver::Action::Finish]);
}

#[test]
fn agreed_roots_keep_everything_while_both_are_what_they_were() {
    let (theirs, own) = (numbered_catalogue(100), numbered_catalogue(101));
    let agreed = Agreed { theirs: theirs.root(), own: own.root() };
    let mut receiver = holding(Arc::clone(&own), Some(agreed));
    let actions = hear(&mut receiver, Message::Root(root_of(&theirs)));
    assert_eq!(actions, [receiver::Action::Compared, receiver::Action::Finish]);
    for agreed in [Agreed { theirs: own.root(), ..agreed }, Agreed { own: theirs.root(), ..agreed }] {
        let mut receiver = holding(Arc::clone(&own), Some(agreed));
        let actions = hear(&mut receiver, Message::Root(root_of(&theirs)));
        assert!(matches!(actions[..], [receiver::Action::Send(Message::Expand(_))]), "{actions:?}");
    }
}

#[test]
fn a_root_that_lies_about_the_tree_is_refused() {
    let catalogue = numbered_catalogue(100);
    let root = root_of(&catalogue);
    for totals in [
        Totals { entries: 101, ..root.totals },
        Totals { bytes: 99, ..root.totals },
        Totals { problems: 1, ..root.totals },
    ] {
        let actions =
            hear(&mut holding(Arc::clone(&catalogue), None), Message::Root(Root { totals, ..root }));
        assert_eq!(*receiver_violation(&actions), Violation::Totals, "{totals:?}");
    }
}

#[test]
fn nodes_that_contradict_the_root_are_refused() {
    let mut receiver = holding(numbered_catalogue(0), None);
    hear(&mut receiver, Message::Root(root_of(&numbered_catalogue(100))));
    let forged = Message::Nodes(Nodes { level: 5, first: 0, hashes: vec![RangeHash([1; 16])] });
    let actions = hear(&mut receiver, forged);
    assert!(matches!(receiver_violation(&actions), Violation::Narrowing(_)));
}

/// A receiver of nothing that has asked for the leaves of a small tree.
fn asked(theirs: &[Entry]) -> Receiver {
    let theirs = catalogue(theirs);
    assert_eq!(theirs.levels(), 0, "one leaf");
    let mut receiver = holding(numbered_catalogue(0), None);
    let actions = hear(&mut receiver, Message::Root(root_of(&theirs)));
    assert_eq!(actions, [receiver::Action::Compared, receiver::Action::Send(list(0, 1, true))]);
    receiver
}

#[test]
fn no_more_is_listed_than_the_root_counted() {
    let theirs = [file("a"), file("b")];
    let totals = catalogue(&theirs).totals();
    let end = Message::ManifestEnd(totals);

    let mut receiver = asked(&theirs);
    let more = hear(&mut receiver, batch(0, &[file("a"), file("b"), file("c")]));
    assert_eq!(*receiver_violation(&more), Violation::Totals);

    let mut receiver = asked(&theirs);
    hear(&mut receiver, batch(0, &[entry("a", EntryKind::File { size: 3 })]));
    assert_eq!(*receiver_violation(&hear(&mut receiver, end.clone())), Violation::Totals);

    let mut receiver = asked(&theirs);
    hear(&mut receiver, batch(0, &[file("a")]));
    let other = Message::ManifestEnd(Totals { entries: 1, ..totals });
    assert_eq!(*receiver_violation(&hear(&mut receiver, other)), Violation::Totals);

    let mut receiver = asked(&theirs);
    hear(&mut receiver, batch(0, &[file("a")]));
    assert_eq!(hear(&mut receiver, end), []);
    assert_eq!(receiver.counts(), Counts { listed: 2, kept: 1, ..Counts::default() });
}

#[test]
fn parts_may_lack_what_lies_above_them_but_lie_below_no_file() {
    let theirs = [entry("a", EntryKind::Directory), file("a/b"), file("c")];
    let mut receiver = asked(&theirs);
    assert!(matches!(hear(&mut receiver, batch(0, &[file("a/b")]))[..], [receiver::Action::Plan { .. }]));
    let orphan = hear(&mut receiver, batch(1, &[file("a/b/c")]));
    assert!(matches!(receiver_violation(&orphan), Violation::Order(OrderError::Orphan { .. })));
}

#[test]
fn what_is_asked_of_a_scattered_tree_fits_its_messages() {
    let own: Vec<Entry> = (0..400_000).map(|index| hashed(&format!("{index:06}"), 7)).collect();
    // A change in each second leaf.
    let mut theirs = own.clone();
    let leaves = catalogue(&own);
    let mut place = 0;
    for leaf in 0..leaves.width(0) {
        let count = leaves.leaf_entries(&runs(leaf, 1)).unwrap().count();
        if leaf % 2 == 0 {
            theirs[place].mode = 0o600;
        }
        place += count;
    }
    let theirs = catalogue(&theirs);
    let mut receiver = holding(leaves, None);
    let mut sender = comparing(Arc::clone(&theirs));
    let mut said = vec![Message::Root(root_of(&theirs))];
    let (mut lists, mut listed) = (0, 0);
    while let Some(message) = said.pop() {
        for action in hear(&mut receiver, message) {
            let receiver::Action::Send(message) = action else { continue };
            assert!(encode(&message).len() <= MESSAGE_BYTES);
            if let Message::List(list) = &message {
                lists += 1;
                listed += list.leaves.len() as u64;
            }
            let answers = say(&mut sender, message).into_iter().rev();
            said.extend(answers.filter_map(|action| {
                if let sender::Action::Send(message) = action { Some(message) } else { None }
            }));
        }
    }
    assert_eq!(listed, theirs.width(0).div_ceil(2));
    assert!(lists > 1, "{lists} messages");
}

fn proposing(policy: Policy) -> Sender {
    let (sender, actions) = Sender::propose(proposal(policy.clone()));
    assert_eq!(actions, [sender::Action::Send(Message::Propose(proposal(policy)))]);
    sender
}

#[test]
fn a_proposal_is_answered_by_an_ask_of_its_own() {
    let mut sender = proposing(Policy::default());
    let asked = answer(TargetView::Occupied);
    assert_eq!(say(&mut sender, Message::Ask(asked.clone())), [sender::Action::Admit(asked)]);
    for wrong in [
        ask(Consent::Given, TargetView::Occupied),
        Ask { session: SessionId([2; 16]), ..answer(TargetView::Occupied) },
        Ask { preview: true, ..answer(TargetView::Occupied) },
    ] {
        let mut sender = proposing(Policy::default());
        let actions = say(&mut sender, Message::Ask(wrong.clone()));
        assert_eq!(*sender_violation(&actions), Violation::Claim, "{wrong:?}");
    }
    let unproposed = say(&mut Sender::default(), Message::Ask(answer(TargetView::Occupied)));
    assert_eq!(*sender_violation(&unproposed), Violation::Claim);
}

#[test]
fn a_proposal_that_nobody_answers_is_given_up() {
    let mut sender = proposing(Policy::default());
    let actions = sender.handle(sender::Input::Tick, seconds(HELLO_TIMEOUT_S));
    let expected = SessionError::Timeout { awaited: "ask", seconds: HELLO_TIMEOUT_S };
    assert_eq!(actions.last(), Some(&sender::Action::End(Ending::Failed(expected))));
}

#[test]
fn a_receiver_asks_once_a_proposal_is_accepted() {
    let (mut receiver, actions) = Receiver::answer(proposal(Policy::default()));
    assert_eq!(actions, [receiver::Action::Admit(proposal(Policy::default()))]);
    let actions = receiver.handle(
        receiver::Input::Admitted { target: TargetView::Comparable, connections: Connections::ONE },
        START,
    );
    let asked = receiver::Action::Send(Message::Ask(answer(TargetView::Comparable)));
    assert_eq!(actions, [asked, receiver::Action::Catalogue]);
    assert_eq!(
        receiver.handle(
            receiver::Input::Admitted { target: TargetView::Empty, connections: Connections::ONE },
            START
        ),
        []
    );
}

#[test]
fn both_roles_say_how_many_connections_they_take() {
    let connections = Connections::try_from(3).unwrap();
    let (mut receiver, _) = Receiver::answer(proposal(Policy::default()));
    let target = TargetView::Occupied;
    let actions = receiver.handle(receiver::Input::Admitted { target, connections }, START);
    let asked = Ask { connections, ..answer(target) };
    assert_eq!(actions, [receiver::Action::Send(Message::Ask(asked))]);

    let mut sender = Sender::default();
    let asked = Ask { connections: Connections::MOST, ..ask(Consent::Given, target) };
    say(&mut sender, Message::Ask(asked));
    let actions = sender.handle(sender::Input::Admitted { estimate: None, connections, disk: None }, START);
    let offer = Offer { version: VERSION, estimate: None, connections, congestion: None, disk: None };
    assert_eq!(actions[0], sender::Action::Send(Message::Offer(offer)));
}

#[test]
fn a_proposal_is_turned_away_without_a_word_about_the_target() {
    let (mut receiver, _) = Receiver::answer(proposal(Policy::default()));
    let actions = receiver.handle(receiver::Input::Denied, START);
    assert_eq!(actions[0], receiver::Action::Send(refuse(Reason::NotAdmitted)));
    let (mut receiver, _) = Receiver::answer(proposal(Policy::default()));
    let stop = Stop::new(Reason::Busy, "");
    let actions = receiver.handle(receiver::Input::Stop(stop.clone()), START);
    let ending = Ending::Failed(SessionError::Stopped(stop));
    assert_eq!(actions, [receiver::Action::Send(refuse(Reason::Busy)), receiver::Action::End(ending)]);
}

#[test]
fn a_proposal_of_another_version_is_refused_with_both_numbers() {
    let (_, actions) = Receiver::answer(Propose { version: 3, ..proposal(Policy::default()) });
    let stop = Stop::new(Reason::Version, "version 3 was proposed, version 1 is spoken here");
    let ending = Ending::Failed(SessionError::Stopped(stop.clone()));
    assert_eq!(
        actions,
        [receiver::Action::Send(Message::Refuse(stop.into())), receiver::Action::End(ending)]
    );
}

#[test]
fn a_preview_takes_no_content_unasked() {
    let policy = Policy { preview: true, ..Policy::default() };
    let (mut receiver, _) = Receiver::answer(proposal(policy));
    let actions = receiver.handle(
        receiver::Input::Admitted { target: TargetView::Empty, connections: Connections::ONE },
        START,
    );
    let asked = Ask { preview: true, ..answer(TargetView::Occupied) };
    assert_eq!(actions, [receiver::Action::Send(Message::Ask(asked))]);
}

/// A sender that has proposed this, and listed a file of one byte to what is there.
fn proposed(policy: Policy) -> Sender {
    let preview = policy.preview;
    let mut sender = proposing(policy);
    say(&mut sender, Message::Ask(Ask { preview, ..answer(TargetView::Occupied) }));
    sender
        .handle(sender::Input::Admitted { estimate: None, connections: Connections::ONE, disk: None }, START);
    sender.handle(sender::Input::Listed { entries: vec![file("a")], problems: Vec::new() }, START);
    sender
}

fn settled(settled: Settled) -> Message {
    Message::Settled(settled)
}

#[test]
fn nothing_is_removed_that_was_not_proposed() {
    let removed = vec![path("old/a"), path("old")];
    let told = settled(Settled { removed: removed.clone(), ..Settled::default() });
    let actions = say(&mut proposed(Policy::default()), told.clone());
    assert_eq!(*sender_violation(&actions), Violation::Removal);

    let removal = Removal::Extra { limit: RemovalLimit::Entries(2), force_empty: false };
    let mut sender = proposed(Policy { removal, ..Policy::default() });
    assert_eq!(say(&mut sender, told), [sender::Action::Removed(removed)]);
    assert_eq!(sender.counts().removed, 2);
}

#[test]
fn bytes_are_planned_in_a_preview_alone_and_no_more_than_were_listed() {
    let planned = |planned_bytes| settled(Settled { planned_bytes, ..Settled::default() });
    let actions = say(&mut proposed(Policy::default()), planned(1));
    assert_eq!(*sender_violation(&actions), Violation::Plan(1));
    let preview = Policy { preview: true, ..Policy::default() };
    let mut sender = proposed(preview);
    assert_eq!(say(&mut sender, planned(1)), []);
    assert_eq!(sender.planned_bytes(), 1);
    assert_eq!(*sender_violation(&say(&mut sender, planned(u64::MAX))), Violation::Plan(u64::MAX));
}

#[test]
fn each_fate_is_counted_and_told() {
    let mut sender = comparing(numbered_catalogue(5));
    say(&mut sender, list(0, 1, true));
    sender.handle(sender::Input::Room, START);
    let fates = Settled {
        created: runs(0, 1),
        updated: runs(1, 1),
        described: runs(2, 1),
        kept: runs(3, 1),
        skipped: runs(4, 1),
        ..Settled::default()
    };
    let told = say(&mut sender, settled(fates));
    let told: Vec<Fate> = told
        .into_iter()
        .filter_map(
            |action| if let sender::Action::Settled { fate, .. } = action { Some(fate) } else { None },
        )
        .collect();
    assert_eq!(told, [Fate::Created, Fate::Updated, Fate::Described, Fate::Kept, Fate::Skipped]);
    let expected = Counts { listed: 5, sent: 3, kept: 1, skipped: 1, ..Counts::default() };
    assert_eq!(sender.counts(), expected);
    assert!(expected.is_complete(), "what was to be skipped is no problem");
}

#[test]
fn what_is_removed_is_told_in_messages_that_fit() {
    let mut receiver = holding(numbered_catalogue(1), None);
    hear(&mut receiver, Message::Root(root_of(&numbered_catalogue(1))));
    let long = |index: usize| {
        path(&format!("{}/{index:0>255}", ["x"; 14].map(|letter| letter.repeat(255)).join("/")))
    };
    let mut actions = receiver.handle(receiver::Input::Removed((0..3_000).map(long).collect()), START);
    actions.extend(receiver.handle(receiver::Input::Planned { bytes: 7 }, START));
    actions.extend(receiver.handle(receiver::Input::Finished { late: Vec::new() }, START));
    let (mut removed, mut planned_bytes) = (0, 0);
    for action in &actions {
        let receiver::Action::Send(message) = action else { panic!("{action:?}") };
        assert!(encode(message).len() <= MESSAGE_BYTES);
        if let Message::Settled(settled) = message {
            assert!(settled.removed.len() <= BATCH_ENTRIES);
            removed += settled.removed.len();
            planned_bytes += settled.planned_bytes;
        }
    }
    assert_eq!((removed, planned_bytes), (3_000, 7));
    assert_eq!(receiver.counts().removed, 3_000);
    assert_eq!(receiver.planned_bytes(), 7);
}

#[test]
fn what_is_in_the_way_may_be_removed_before_the_end() {
    let mut receiver = asked(&[file("a")]);
    hear(&mut receiver, batch(0, &[file("a")]));
    assert_eq!(receiver.handle(receiver::Input::Removed(vec![path("a/b")]), START), []);
    let updated = receiver::Input::Outcomes(vec![(EntryId(0), Outcome::Updated)]);
    assert_eq!(receiver.handle(updated, START), []);
    let told = Settled { updated: runs(0, 1), removed: vec![path("a/b")], ..Settled::default() };
    assert_eq!(receiver.handle(receiver::Input::Tick, TICK), [receiver::Action::Send(settled(told))]);
}
