//! Either end is interrupted or killed in the middle: the other one is told, nothing half-written is visible,
//! and the same commands finish the work.

use std::{fs, path::Path, time::Duration};

use ketch::swarm::TransportKind::{self, Quic, Tcp};
use ketch_fixtures::tree::Shape;
use rustix::process::Signal;
use serde_json::Value;

use crate::{
    place::{Place, noise, parse},
    process::{Ended, Ketch},
};

/// In two large files and some small ones: enough to be met in the middle.
const LARGE_BYTES: usize = 96 << 20;

/// What a person who pressed Ctrl-C waits for, and a busy machine's share.
const SOON: Duration = Duration::from_secs(4);

fn place_with_much() -> Place {
    let place = Place::new();
    Shape::Small { files: 200, bytes: 4_096 }.write(7, &place.offered("tree/small")).unwrap();
    place.write("tree/large one", noise(LARGE_BYTES, 1));
    place.write("tree/large two", noise(LARGE_BYTES, 2));
    place
}

/// Waits until a good part has crossed.
async fn get_going(receiver: &mut Ketch) {
    receiver.event_where("progress", |progress| number(progress, "moved_bytes") > 20 << 20).await;
}

fn number(event: &Value, name: &str) -> u64 {
    event[name].as_u64().unwrap()
}

/// Every visible file is whole, and beside it lies nothing but the partials of large files.
fn assert_whole(place: &Place) {
    let (source, target) = (place.offered("tree"), place.target().join("tree"));
    for folder in ["", "small", "small/d00"] {
        let Ok(entries) = fs::read_dir(target.join(folder)) else { continue };
        for path in entries.map(|entry| entry.unwrap().path()).filter(|path| path.is_file()) {
            let original = source.join(path.strip_prefix(&target).unwrap());
            assert!(fs::read(&path).unwrap() == fs::read(original).unwrap(), "{}", path.display());
        }
    }
    for entry in fs::read_dir(place.target().join(".ketch-partial")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        assert!(name.ends_with(".part") || name.ends_with(".ranges"), "{name}");
    }
}

/// The receiver has everything, and some of it from before.
fn assert_resumed(place: &Place, receiver: &Ended) {
    let done = receiver.event("done");
    assert!(number(&done, "found_bytes") > 0, "{done}");
    assert!(number(&done, "moved_bytes") < 2 * LARGE_BYTES as u64, "{done}");
    place.assert_equal();
}

async fn a_receiver_stopped_by(signal: Signal, transport: TransportKind) {
    let place = place_with_much();
    let tree: &[&Path] = &[&place.offered("tree")];
    let (mut sender, ticket) = place.send(transport, tree, &[]).await;
    let mut receiver = Ketch::start(place.receive(&ticket, &[]));
    get_going(&mut receiver).await;

    receiver.signal(signal);
    let stopped = receiver.end_within(SOON).await;
    if signal == Signal::INT {
        assert_eq!(stopped.code, Some(130), "{stopped:#?}");
        let kept = stopped.event("unfinished");
        assert!(number(&kept, "files") > 0 && number(&kept, "bytes") > 0, "{kept}");
        let told = sender.event("session_ended").await;
        assert_eq!(told["error"], "the peer ended the session: interrupted");
    }
    assert_whole(&place);

    let again = Ketch::start(place.receive(&ticket, &[])).end().await.expect(0);
    sender.end().await.expect(0);
    assert_resumed(&place, &again);
}

async fn a_sender_stopped_by(signal: Signal, transport: TransportKind) {
    let place = place_with_much();
    let tree: &[&Path] = &[&place.offered("tree")];
    let (sender, ticket) = place.send(transport, tree, &[]).await;
    let mut receiver = Ketch::start(place.receive(&ticket, &[]));
    get_going(&mut receiver).await;

    sender.signal(signal);
    let stopped = sender.end_within(SOON).await;
    if signal == Signal::INT {
        assert_eq!(stopped.code, Some(130), "{stopped:#?}");
        let told = receiver.end_within(SOON).await.expect(1);
        let error = told.event("error")["error"].as_str().unwrap().to_owned();
        assert!(error.contains("the peer ended the session: interrupted"), "{error}");
    } else {
        // A killed sender's kernel closes TCP; over QUIC nobody says so and silence has to.
        receiver.signal(Signal::INT);
        receiver.end_within(SOON).await;
    }
    assert_whole(&place);

    let (sender, same_ticket) = place.send_again(tree).await;
    assert_eq!(parse(&same_ticket), parse(&ticket));
    let again = Ketch::start(place.receive(&ticket, &[])).end().await.expect(0);
    sender.end().await.expect(0);
    assert_resumed(&place, &again);
}

#[tokio::test]
async fn an_interrupted_receiver_says_what_it_keeps_and_resumes() {
    a_receiver_stopped_by(Signal::INT, Tcp).await;
}

#[tokio::test]
async fn an_interrupted_receiver_resumes_over_quic() {
    a_receiver_stopped_by(Signal::INT, Quic).await;
}

#[tokio::test]
async fn a_killed_receiver_resumes() {
    a_receiver_stopped_by(Signal::KILL, Tcp).await;
}

#[tokio::test]
async fn a_killed_receiver_resumes_over_quic() {
    a_receiver_stopped_by(Signal::KILL, Quic).await;
}

#[tokio::test]
async fn an_interrupted_sender_tells_and_reopens_its_ticket() {
    a_sender_stopped_by(Signal::INT, Tcp).await;
}

#[tokio::test]
async fn an_interrupted_sender_tells_and_reopens_its_ticket_over_quic() {
    a_sender_stopped_by(Signal::INT, Quic).await;
}

#[tokio::test]
async fn a_killed_sender_reopens_its_ticket() {
    a_sender_stopped_by(Signal::KILL, Quic).await;
}

#[tokio::test]
async fn a_killed_sender_is_noticed_over_tcp() {
    let place = place_with_much();
    let (sender, ticket) = place.send(Tcp, &[&place.offered("tree")], &[]).await;
    let mut receiver = Ketch::start(place.receive(&ticket, &["--retry-for", "0s"]));
    get_going(&mut receiver).await;
    sender.signal(Signal::KILL);
    let told = receiver.end_within(SOON).await.expect(1);
    assert!(told.stderr.contains("the connection was lost"), "{told:#?}");
    assert!(told.stderr.contains("hint: run the same command again"), "{told:#?}");
    assert_whole(&place);
}

#[tokio::test]
async fn an_interrupted_sender_that_waits_ends_at_once() {
    let place = Place::new();
    let (sender, _) = place.send(Quic, &[&place.write("file", "x")], &[]).await;
    sender.signal(Signal::INT);
    sender.end_within(SOON).await.expect(130);
}
