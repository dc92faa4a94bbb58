//! A peer that has rights on a share and keeps to no rule: a real `ketch serve` turns it away, neither shows nor
//! touches anything beyond its rights, and serves the next who comes.

use std::{
    fs,
    os::unix::fs::symlink,
    time::{Duration, SystemTime},
};

use futures::AsyncWriteExt as _;
use ketch::{identity, state::StateFolder, swarm::TransportKind::Tcp, trust::Ticket};
use ketch_protocol::{
    hash::ContentHash,
    io::{DataForm, StreamKind},
    limits::VERSION,
    manifest::{Entry, EntryId, EntryKind, Timestamp},
    message::{
        Ask, Batch, Claim, Connections, Expand, List, Message, Parts, Place as SharePlace, Policy, Propose,
        Removal, RemovalLimit, Run, Secret, Selection, SessionId, ShareName, TargetView, Want, encode,
    },
    path::EntryPath,
    problem::Reason,
};

use crate::{
    peer::{Control, PlayedReceiver, plain_offer},
    serving::{Serving, write},
    wire::{file, manifest, manifest_end, symlink as link, whole},
};

const SESSION: SessionId = SessionId([9; 16]);

/// The test as the node `comer`, which has rights on `docs`.
pub(crate) async fn come(serving: &Serving) -> PlayedReceiver {
    let comer = StateFolder::locate(Some(serving.place.path("comer")), |_| None).unwrap();
    let identity = identity::load_or_create(&comer).unwrap();
    let address = serving.address.parse().unwrap();
    let ticket = Ticket::new(serving.peer.parse().unwrap(), vec![address], Secret::from_bytes([0; 16]), None);
    PlayedReceiver::dial_as(identity, &ticket).await
}

pub(crate) fn place(path: &str) -> SharePlace {
    let path = (!path.is_empty()).then(|| EntryPath::parse(path.as_bytes()).unwrap());
    SharePlace { share: ShareName::parse("docs").unwrap(), path }
}

fn propose(path: &str, policy: Policy) -> Vec<u8> {
    let selection = Selection::default();
    let place = place(path);
    encode(&Message::Propose(Propose {
        version: VERSION,
        session: SESSION,
        place,
        selection,
        policy,
        connections: Connections::ONE,
        controller: None,
    }))
}

pub(crate) fn ask(comer: &PlayedReceiver, path: &str, target: TargetView) -> Vec<u8> {
    let ask = Ask { claim: Claim::Share(place(path)), session: SESSION, ..comer.ask(target) };
    encode(&Message::Ask(ask))
}

/// The same message with another path of the same length, which no honest peer can say.
fn with_path(message: Vec<u8>, path: &str, other: &str) -> Vec<u8> {
    let at = message.windows(path.len()).position(|bytes| bytes == path.as_bytes()).unwrap();
    [&message[..at], other.as_bytes(), &message[at + path.len()..]].concat()
}

/// Why the other side does not go on.
pub(crate) async fn refused(control: &mut Control) -> (Reason, String) {
    control
        .hear_until(|message| {
            if let Message::Refuse(refuse) = message { Some((refuse.reason, refuse.detail)) } else { None }
        })
        .await
}

/// An honest pull gets all that is shared.
pub(crate) async fn still_serves(serving: &Serving) {
    let pulled = serving.sync_as("other", serving.docs(""), serving.place.path("honest"), &[]).end().await;
    pulled.expect(0);
}

/// Files beside the share that nobody may see or touch, with a link in the share that leads there.
fn guard(serving: &Serving) {
    write(&serving.place.path("outside"), "secret", "untouched");
    symlink(serving.place.path("outside"), serving.shared().join("out")).unwrap();
}

fn assert_untouched(serving: &Serving) {
    let outside = serving.place.path("outside");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert_eq!(fs::read(outside.join("secret")).unwrap(), b"untouched");
}

#[tokio::test]
async fn no_place_leads_out_of_a_share() {
    let serving = Serving::with(Tcp, "read,mirror").await;
    guard(&serving);
    let comer = come(&serving).await;
    let asked = ask(&comer, "aa/outside", TargetView::Empty);
    let proposed = propose("aa/outside", Policy::default());
    for bytes in [asked, proposed] {
        let mut control = comer.control().await;
        control.say_bytes(&with_path(bytes, "aa/outside", "../outside")).await;
        // No message at all, from a stranger as far as anybody knows: the stream is reset.
        assert!(control.hear().await.is_err());
    }
    for bytes in [ask(&comer, "out", TargetView::Empty), propose("out/deep", Policy::default())] {
        let mut control = comer.control().await;
        control.say_bytes(&bytes).await;
        refused(&mut control).await;
    }
    assert_untouched(&serving);
    still_serves(&serving).await;
}

#[tokio::test]
async fn who_may_write_may_not_remove_by_any_message() {
    let serving = Serving::with(Tcp, "read,write").await;
    write(&serving.shared(), "kept", "x");
    let comer = come(&serving).await;
    for limit in [RemovalLimit::Default, RemovalLimit::Entries(0), RemovalLimit::Percent(100)] {
        let removal = Removal::Extra { limit, force_empty: true };
        let mut control = comer.control().await;
        control.say_bytes(&propose("", Policy { removal, ..Policy::default() })).await;
        assert_eq!(refused(&mut control).await.0, Reason::NotAdmitted);
    }
    assert!(serving.shared().join("kept").exists());
    still_serves(&serving).await;
}

/// Proposes a tree for a target that is not there, and waits until it is asked for.
async fn proposed(comer: &PlayedReceiver, target: &str, session: SessionId) -> Control {
    let mut control = comer.control().await;
    let (selection, policy) = (Selection::default(), Policy::default());
    let propose = Propose {
        version: VERSION,
        session,
        place: place(target),
        selection,
        policy,
        connections: Connections::ONE,
        controller: None,
    };
    control.say(&Message::Propose(propose)).await;
    let asked = control.hear_until(|message| if let Message::Ask(ask) = message { Some(ask) } else { None });
    assert_eq!(asked.await.claim, Claim::Proposed);
    control.say(&Message::Offer(plain_offer())).await;
    control
}

#[tokio::test]
async fn what_is_pushed_stays_in_its_target() {
    let serving = Serving::with(Tcp, "read,write").await;
    guard(&serving);
    let comer = come(&serving).await;
    let canary = serving.place.path("outside");
    let canary = canary.to_str().unwrap().as_bytes();
    let manifests = [
        vec![file(b"../f", 1)],
        vec![file(b"/f", 1)],
        vec![link(b"a", canary), file(b"a/f", 1)],
        vec![file(b"b", 1), file(b"a", 1)],
    ];
    for (entries, number) in manifests.into_iter().zip(1..) {
        let mut control = proposed(&comer, &format!("new {number}"), SessionId([number; 16])).await;
        control.say_bytes(&manifest(0, &entries)).await;
        assert_eq!(refused(&mut control).await.0, Reason::Violation);
    }
    assert_untouched(&serving);
    still_serves(&serving).await;
}

#[tokio::test]
async fn a_hash_that_was_listed_is_not_believed_of_other_content() {
    let serving = Serving::with(Tcp, "read,write").await;
    let comer = come(&serving).await;
    let mut control = proposed(&comer, "new", SESSION).await;
    let kind = EntryKind::File { size: 7 };
    let mtime = Timestamp { seconds: 9, nanoseconds: 0 };
    let hash = Some(ContentHash(*blake3::hash(b"listed!").as_bytes()));
    let entry = Entry { hash, ..Entry::new(EntryPath::parse(b"f").unwrap(), kind, 0o644, mtime) };
    let batch = Batch { first: EntryId(0), entries: vec![entry], problems: Vec::new() };
    control.say(&Message::Manifest(batch)).await;
    control.say_bytes(&manifest_end(1, 7)).await;
    let mut stream = comer.stream().await;
    StreamKind::Data(SESSION, DataForm::default()).write(&mut stream).await.unwrap();
    stream.write_all(&whole(0, b"another")).await.unwrap();
    stream.flush().await.unwrap();
    control.hear_until(|message| matches!(message, Message::Done(_)).then_some(())).await;
    control.say(&Message::Farewell).await;

    // An honest peer brings what the other one said that it had brought.
    write(&serving.place.source(), "f", "listed!");
    let honest = fs::File::options().write(true).open(serving.place.source().join("f")).unwrap();
    honest.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(9)).unwrap();
    serving.sync_as("other", serving.place.source(), serving.docs("/new"), &[]).end().await.expect(0);
    assert_eq!(fs::read(serving.shared().join("new/f")).unwrap(), b"listed!");
}

#[tokio::test]
async fn nothing_is_told_or_sent_twice_to_a_receiver_that_compares() {
    let serving = Serving::with(Tcp, "read").await;
    for name in 0..300 {
        write(&serving.shared(), &format!("{name}"), "");
    }
    let comer = come(&serving).await;
    let run = |first, count| vec![Run { first, count }];
    let expand = |level, nodes| encode(&Message::Expand(Expand { level, nodes }));
    let list = |leaves| encode(&Message::List(List { leaves, complete: false }));
    let want = |want| encode(&Message::Want(want));
    let lists = vec![Parts { id: EntryId(0), content: run(0, u64::MAX / 2), digest: Vec::new() }];
    let cases = [
        ("expanded again", [expand(1, run(0, 1)), expand(1, run(0, 1))].concat()),
        ("expanded for ever", expand(1, run(0, u64::MAX))),
        ("a level that is not", expand(40, run(0, 1))),
        ("leaves as nodes", expand(0, run(0, 1))),
        ("listed again", [list(run(0, 1)), list(run(0, 1))].concat()),
        ("listed for ever", list(run(0, u64::MAX))),
        ("leaves that are not", list(run(u64::MAX - 1, 1))),
        ("a description of nothing", want(Want { delta: run(0, 1), ..Want::default() })),
        ("content of nothing", want(Want { content: run(0, 1), ..Want::default() })),
        ("parts of nothing", want(Want { parts: lists, ..Want::default() })),
    ];
    for (case, bytes) in cases {
        let mut control = comer.control().await;
        control.say_bytes(&ask(&comer, "", TargetView::Comparable)).await;
        control.hear_until(|message| matches!(message, Message::Root(_)).then_some(())).await;
        control.say_bytes(&bytes).await;
        assert_eq!(refused(&mut control).await.0, Reason::Violation, "{case}");
    }
    still_serves(&serving).await;
}
