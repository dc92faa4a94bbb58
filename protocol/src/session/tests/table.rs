//! Every state and every message: who may say what when.

use std::sync::Arc;

use super::{
    super::{
        receiver::{self, Answer, Outcome},
        sender,
    },
    *,
};

/// `.` ignored, `!` violation: unexpected, `R` ended by the other side's refusal; anything else is told.
type Row = [&'static str; 16];

/// What a machine did, as a cell of the table.
#[derive(Debug)]
enum Did {
    Said(&'static str),
    Other(&'static str),
    Ended(Ending),
}

fn cell(did: &[Did], message: &str, state_awaits: &str) -> String {
    match did {
        [] => ".".into(),
        [Did::Ended(Ending::Failed(SessionError::Refused(_)))] => "R".into(),
        [
            Did::Said("refuse"),
            Did::Ended(Ending::Failed(SessionError::Violation(Violation::Unexpected {
                message: named,
                awaited,
            }))),
        ] if (*named, *awaited) == (message, state_awaits) => "!".into(),
        [Did::Said("refuse"), Did::Ended(Ending::Failed(SessionError::Violation(violation)))] => {
            format!("{violation:?}").split([' ', '(']).next().unwrap_or_default().to_owned()
        }
        others => others.iter().map(name).collect::<Vec<_>>().join("+"),
    }
}

fn name(did: &Did) -> String {
    match did {
        Did::Said(name) | Did::Other(name) => (*name).to_owned(),
        Did::Ended(Ending::Complete(_)) => "complete".into(),
        Did::Ended(failed @ Ending::Failed(_)) => format!("{failed:?}"),
    }
}

fn sender_did(action: sender::Action) -> Did {
    match action {
        sender::Action::Send(message) => Did::Said(message.name()),
        sender::Action::Admit(_) => Did::Other("admit"),
        sender::Action::List => Did::Other("list"),
        sender::Action::Read(_) => Did::Other("read"),
        sender::Action::Catalogue => Did::Other("catalogue"),
        sender::Action::Report(_) => Did::Other("report"),
        sender::Action::Settled { .. } => Did::Other("settled"),
        sender::Action::Removed(_) => Did::Other("removed"),
        sender::Action::End(ending) => Did::Ended(ending),
    }
}

fn receiver_did(action: receiver::Action) -> Did {
    match action {
        receiver::Action::Send(message) => Did::Said(message.name()),
        receiver::Action::Admit(_) => Did::Other("admit"),
        receiver::Action::Catalogue => Did::Other("catalogue"),
        receiver::Action::Offered(_) => Did::Other("offered"),
        receiver::Action::Compared => Did::Other("compared"),
        receiver::Action::Consult { .. } => Did::Other("consult"),
        receiver::Action::Plan { .. } => Did::Other("plan"),
        receiver::Action::Finish => Did::Other("finish"),
        receiver::Action::Report(_) => Did::Other("report"),
        receiver::Action::End(ending) => Did::Ended(ending),
    }
}

/// Every state of a sender: its name, what it waits for, and the inputs that lead there.
fn sender_states() -> [(&'static str, &'static str, Vec<sender::Input>); 11] {
    use sender::Input;
    let asked = |consent| Input::Message(Message::Ask(ask(consent, TargetView::Occupied)));
    let admitted = |consent| {
        vec![asked(consent), Input::Admitted { estimate: None, connections: Connections::ONE, disk: None }]
    };
    let listed = Input::Listed { entries: vec![file("f")], problems: Vec::new() };
    let with = |before: Vec<Input>, more: &[Input]| [before, more.to_vec()].concat();
    let compared = || {
        let ask = ask(Consent::Given, TargetView::Comparable);
        vec![
            Input::Message(Message::Ask(ask)),
            Input::Admitted { estimate: None, connections: Connections::ONE, disk: None },
        ]
    };
    let catalogued = || Input::Catalogued { catalogue: numbered_catalogue(100), problems: Vec::new() };
    let list = |complete| Input::Message(Message::List(List { leaves: runs(0, 1), complete }));
    [
        ("await ask", "ask", Vec::new()),
        ("await admission", "admission", vec![asked(Consent::Given)]),
        ("await accept", "accept", with(admitted(Consent::Pending), std::slice::from_ref(&listed))),
        ("cataloguing", "the catalogue", compared()),
        ("comparing", "expand", with(compared(), &[catalogued()])),
        (
            "sending, more may be asked",
            "settled",
            with(compared(), &[catalogued(), list(false), Input::Room]),
        ),
        ("sending, all asked", "settled", with(compared(), &[catalogued(), list(true), Input::Room])),
        ("sending", "settled", with(admitted(Consent::Given), std::slice::from_ref(&listed))),
        ("sending, all listed", "settled", with(admitted(Consent::Given), &[listed, Input::ListEnded])),
        ("sending, all settled", "done", with(admitted(Consent::Given), &[Input::ListEnded])),
        ("ended", "nothing", vec![Input::Denied]),
    ]
}

fn sender_in(inputs: Vec<sender::Input>) -> Sender {
    let mut sender = Sender::default();
    inputs.into_iter().for_each(|input| drop(sender.handle(input, START)));
    sender
}

/// How a receiver begins.
#[derive(Debug, Clone)]
enum Begun {
    Asks(Consent, TargetView),
    IsAsked,
}

/// Every state of a receiver likewise.
fn receiver_states() -> [(&'static str, &'static str, Begun, Vec<receiver::Input>); 13] {
    use Consent::{Given, Pending};
    use receiver::Input;
    let asks = |consent| Begun::Asks(consent, TargetView::Occupied);
    let compares = || Begun::Asks(Given, TargetView::Comparable);
    let offered = || vec![Input::Message(offer())];
    let listed = Input::Message(batch(0, &[file("f")]));
    let end = |entries| Input::Message(Message::ManifestEnd(Totals { entries, bytes: entries, problems: 0 }));
    let with = |more: &[Input]| [offered(), more.to_vec()].concat();
    let theirs = numbered_catalogue(100);
    let root = Root { hash: theirs.root(), levels: theirs.levels(), totals: theirs.totals() };
    let root = Input::Message(Message::Root(root));
    let catalogued = Input::Catalogued { catalogue: numbered_catalogue(0), agreed: None };
    [
        ("await admission", "admission", Begun::IsAsked, Vec::new()),
        ("await offer", "offer", asks(Given), Vec::new()),
        ("await consent", "consent", asks(Pending), offered()),
        ("await consent, all listed", "consent", asks(Pending), with(&[listed.clone(), end(1)])),
        ("await root", "root", compares(), offered()),
        ("await catalogue", "the catalogue", compares(), with(std::slice::from_ref(&root))),
        ("narrowing", "nodes", compares(), with(&[root, catalogued])),
        ("storing", "manifest", asks(Given), offered()),
        ("storing, some listed", "manifest", asks(Given), with(std::slice::from_ref(&listed))),
        ("storing, all listed", "content", asks(Given), with(&[listed, end(1)])),
        ("finishing", "the end of storing", asks(Given), with(&[end(0)])),
        ("await farewell", "farewell", asks(Given), with(&[end(0), Input::Finished { late: Vec::new() }])),
        ("ended", "nothing", asks(Given), vec![Input::Lost(String::new())]),
    ]
}

fn receiver_in(begun: Begun, inputs: Vec<receiver::Input>) -> Receiver {
    let (mut receiver, _) = match begun {
        Begun::Asks(consent, view) => Receiver::new(ask(consent, view)),
        Begun::IsAsked => Receiver::answer(proposal(Policy::default())),
    };
    inputs.into_iter().for_each(|input| drop(receiver.handle(input, START)));
    receiver
}

#[test]
#[rustfmt::skip]
fn a_sender_takes_each_message_in_its_state_alone() {
    let table: [Row; 11] = [
        // ask   offer refuse accept manifest end   want       settled    done                 farewell keep alive propose root  expand   nodes list
        ["admit", "!", "R",   "!",   "!",     "!",  "!",       "!",       "!",                 "!",     ".",       "!",    "!",  "!",     "!",  "!"],
        ["!",     "!", "R",   "!",   "!",     "!",  "!",       "!",       "!",                 "!",     ".",       "!",    "!",  "!",     "!",  "!"],
        ["!",     "!", "R",   ".",   "!",     "!",  "!",       "!",       "!",                 "!",     ".",       "!",    "!",  "!",     "!",  "!"],
        ["!",     "!", "R",   "!",   "!",     "!",  "!",       "!",       "!",                 "!",     ".",       "!",    "!",  "!",     "!",  "!"],
        ["!",     "!", "R",   "!",   "!",     "!",  "!",       "NotOpen", "Account",           "!",     ".",       "!",    "!",  "nodes", "!",  "."],
        ["!",     "!", "R",   "!",   "!",     "!",  "read",    "settled", "!",                 "!",     ".",       "!",    "!",  "!",     "!",  "Ask"],
        ["!",     "!", "R",   "!",   "!",     "!",  "read",    "settled", "!",                 "!",     ".",       "!",    "!",  "!",     "!",  "!"],
        ["!",     "!", "R",   "!",   "!",     "!",  "read",    "settled", "!",                 "!",     ".",       "!",    "!",  "!",     "!",  "!"],
        ["!",     "!", "R",   "!",   "!",     "!",  "read",    "settled", "!",                 "!",     ".",       "!",    "!",  "!",     "!",  "!"],
        ["!",     "!", "R",   "!",   "!",     "!",  "NotOpen", "NotOpen", "farewell+complete", "!",     ".",       "!",    "!",  "!",     "!",  "!"],
        [".",     ".", ".",   ".",   ".",     ".",  ".",       ".",       ".",                 ".",     ".",       ".",    ".",  ".",     ".",  "."],
    ];
    for ((state, awaited, inputs), row) in sender_states().into_iter().zip(table) {
        for (message, expected) in every_message().into_iter().zip(row) {
            let name = message.name();
            let actions = sender_in(inputs.clone()).handle(sender::Input::Message(message), START);
            let did: Vec<_> = actions.into_iter().map(sender_did).collect();
            assert_eq!(cell(&did, name, awaited), expected, "{state}: {name}: {did:?}");
        }
    }
}

#[test]
#[rustfmt::skip]
fn a_receiver_takes_each_message_in_its_state_alone() {
    let table: [Row; 13] = [
        // ask offer     refuse accept manifest   end        want settled done farewell   keep alive propose root expand nodes        list
        ["!", "!",       "R",   "!",   "!",       "!",       "!", "!",    "!", "!",        ".",      "!",    "!",  "!", "!",         "!"],
        ["!", "offered", "R",   "!",   "!",       "!",       "!", "!",    "!", "!",        ".",      "!",    "!",  "!", "!",         "!"],
        ["!", "!",       "R",   "!",   ".",       "consult", "!", "!",    "!", "!",        ".",      "!",    "!",  "!", "!",         "!"],
        ["!", "!",       "R",   "!",   "!",       "!",       "!", "!",    "!", "!",        ".",      "!",    "!",  "!", "!",         "!"],
        ["!", "!",       "R",   "!",   "Unasked", "!",       "!", "!",    "!", "!",        ".",      "!",    ".",  "!", "!",         "!"],
        ["!", "!",       "R",   "!",   "!",       "!",       "!", "!",    "!", "!",        ".",      "!",    "!",  "!", "!",         "!"],
        ["!", "!",       "R",   "!",   "!",       "!",       "!", "!",    "!", "!",        ".",      "!",    "!",  "!", ".",         "!"],
        ["!", "!",       "R",   "!",   "plan",    "finish",  "!", "!",    "!", "!",        ".",      "!",    "!",  "!", "!",         "!"],
        ["!", "!",       "R",   "!",   "Gap",     "Totals",  "!", "!",    "!", "!",        ".",      "!",    "!",  "!", "!",         "!"],
        ["!", "!",       "R",   "!",   "!",       "!",       "!", "!",    "!", "!",        ".",      "!",    "!",  "!", "!",         "!"],
        ["!", "!",       "R",   "!",   "!",       "!",       "!", "!",    "!", "!",        ".",      "!",    "!",  "!", "!",         "!"],
        ["!", "!",       "R",   "!",   "!",       "!",       "!", "!",    "!", "complete", ".",      "!",    "!",  "!", "!",         "!"],
        [".", ".",       ".",   ".",   ".",       ".",       ".", ".",    ".", ".",        ".",      ".",    ".",  ".", ".",         "."],
    ];
    for ((state, awaited, begun, inputs), row) in receiver_states().into_iter().zip(table) {
        for (message, expected) in every_message().into_iter().zip(row) {
            let name = message.name();
            let mut receiver = receiver_in(begun.clone(), inputs.clone());
            let actions = receiver.handle(receiver::Input::Message(message), START);
            let did: Vec<_> = actions.into_iter().map(receiver_did).collect();
            assert_eq!(cell(&did, name, awaited), expected, "{state}: {name}: {did:?}");
        }
    }
}

#[test]
fn no_input_in_any_state_makes_a_sender_panic_or_speak_behind_its_end() {
    use sender::Input;
    let inputs = [
        Input::Message(Message::Accept),
        Input::Violation(Violation::Window),
        Input::Admitted { estimate: Some(Totals::default()), connections: Connections::ONE, disk: None },
        Input::Denied,
        Input::Listed { entries: vec![file("g"); 1_100], problems: vec![problem("p", Cause::Special)] },
        Input::ListEnded,
        Input::Catalogued { catalogue: numbered_catalogue(40), problems: vec![problem("p", Cause::Special)] },
        Input::Room,
        Input::Stop(Stop::new(Reason::Interrupted, "")),
        Input::Lost("gone".into()),
        Input::Tick,
    ];
    for (state, _, before) in sender_states() {
        for (first, second) in
            inputs.iter().flat_map(|first| inputs.iter().map(move |second| (first, second)))
        {
            let mut sender = sender_in(before.clone());
            let mut actions = sender.handle(first.clone(), seconds(1));
            actions.extend(sender.handle(second.clone(), seconds(1_000)));
            let end = actions.iter().position(|action| matches!(action, sender::Action::End(_)));
            assert!(end.is_none_or(|end| end + 1 == actions.len()), "{state}: {first:?} {second:?}");
            let _ = (sender.room(), sender.counts(), sender.is_open(EntryId(u64::MAX)));
            let _ = (sender.may_announce(), sender.planned_bytes());
        }
    }
}

#[test]
fn no_input_in_any_state_makes_a_receiver_panic_or_speak_behind_its_end() {
    use receiver::Input;
    let parts = Outcome::Parts { content: runs(0, 1), digest: Vec::new() };
    let outcomes = [
        Outcome::Created,
        Outcome::Updated,
        Outcome::Described,
        Outcome::Kept,
        Outcome::Skipped,
        Outcome::Content,
        Outcome::ContentAgain,
        Outcome::Digest,
        parts,
    ];
    let inputs = [
        Input::Message(Message::Farewell),
        Input::Violation(Violation::Window),
        Input::Admitted { target: TargetView::Comparable, connections: Connections::ONE },
        Input::Denied,
        Input::Catalogued { catalogue: numbered_catalogue(40), agreed: None },
        Input::Consent(Answer::Yes),
        Input::Consent(Answer::No),
        Input::Removed(vec![path("x")]),
        Input::Planned { bytes: u64::MAX },
        Input::Outcomes(outcomes.into_iter().map(|outcome| (EntryId(0), outcome)).collect()),
        Input::Outcomes(vec![(EntryId(u64::MAX), Outcome::Problem(problem("p", Cause::Corrupt)))]),
        Input::Finished { late: vec![problem("d", Cause::Metadata)] },
        Input::Stop(Stop::new(Reason::Interrupted, "")),
        Input::Lost("gone".into()),
        Input::Tick,
    ];
    for (state, _, begun, before) in receiver_states() {
        for (first, second) in
            inputs.iter().flat_map(|first| inputs.iter().map(move |second| (first, second)))
        {
            let mut receiver = receiver_in(begun.clone(), before.clone());
            let mut actions = receiver.handle(first.clone(), seconds(1));
            actions.extend(receiver.handle(second.clone(), seconds(1_000)));
            let end = actions.iter().position(|action| matches!(action, receiver::Action::End(_)));
            assert!(end.is_none_or(|end| end + 1 == actions.len()), "{state}: {first:?} {second:?}");
            let open: Vec<&Arc<Entry>> = receiver.open_entries().collect();
            let _ = (open, receiver.listed(), receiver.counts(), receiver.root());
            let _ = (receiver.planned_bytes(), receiver.take_narrowing());
        }
    }
}
