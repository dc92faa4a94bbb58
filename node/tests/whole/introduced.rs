//! Codes and pairing, as two people use them.

use std::{ffi::OsStr, fs, path::Path};

use ketch::swarm::TransportKind::{self, Tcp};
use rustix::process::Signal;
use serde_json::Value;
use tokio::process::Command;

use crate::{
    place::{BOTH, Place},
    process::{Ketch, ketch},
};

fn listen_address(transport: TransportKind) -> &'static str {
    match transport {
        Tcp => "/ip4/127.0.0.1/tcp/0",
        TransportKind::Quic => "/ip4/127.0.0.1/udp/0/quic-v1",
    }
}

/// A sender that waits with a code: itself, the code, and where it waits.
async fn send_by_code(place: &Place, transport: TransportKind, path: &Path) -> (Ketch, String, String) {
    let listen = listen_address(transport);
    let mut sender = Ketch::start(ketch(
        &place.path("sender"),
        &[&"send", &"--code", &"--json", &"--listen", &listen, &path],
    ));
    let (code, at) = invited(&mut sender, "code").await;
    (sender, code, at)
}

/// What a side that waits prints of this kind, and where it waits.
async fn invited(waiting: &mut Ketch, kind: &str) -> (String, String) {
    let event: Value = waiting.event("invited").await;
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    (text(&event[kind]), text(&event["addresses"][0]))
}

/// The same number with other words.
fn mistaken(code: &str) -> String {
    let number = code.split('-').next().unwrap();
    let wrong = format!("{number}-crossword-almond");
    if wrong == code { format!("{number}-almond-crossword") } else { wrong }
}

#[tokio::test]
async fn a_code_fetches_what_a_ticket_would() {
    for transport in BOTH {
        let place = Place::new();
        let file = place.write("file", "for whoever was told the code");
        let (sender, code, at) = send_by_code(&place, transport, &file).await;
        let receiver = Ketch::start(place.receive(&code.to_uppercase().replace('-', " "), &["--at", &at]));
        receiver.end().await.expect(0);
        let sent = sender.end().await.expect(0);
        assert!(sent.stdout.iter().any(|line| line.contains("\"event\":\"introduced\"")), "{sent:#?}");
        place.assert_equal();
    }
}

#[tokio::test]
async fn a_code_alone_finds_its_maker_at_a_relay_that_both_name() {
    let place = Place::new();
    let file = place.write("file", "for whoever was told the code");
    let (_relay, relay_at) = place.relay().await;
    let mut sender = Ketch::start(ketch(
        &place.path("sender"),
        &[
            &"send",
            &"--code",
            &"--json",
            &"--no-lan",
            &"--listen",
            &listen_address(Tcp),
            &"--relay-at",
            &relay_at,
            &file,
        ],
    ));
    let (code, _) = invited(&mut sender, "code").await;
    // Where nobody has left that number nobody is bothered with the words.
    let other = format!("{}-crossword-almond", if code.starts_with("7-") { 8 } else { 7 });
    let options = ["--no-lan", "--relay-at", &relay_at];
    let missed = Ketch::start(place.receive(&other, &options)).end().await.expect(3);
    assert!(missed.stderr.contains("nobody waits there"), "{missed:#?}");
    Ketch::start(place.receive(&code, &options)).end().await.expect(0);
    sender.end().await.expect(0);
    place.assert_equal();
    // It is taken back, so that nobody looks for it in vain.
    let late = Ketch::start(place.receive(&code, &options)).end().await.expect(3);
    assert!(late.stderr.contains("nobody waits there"), "{late:#?}");
}

#[tokio::test]
async fn a_wrong_code_is_worthless_on_both_sides() {
    let place = Place::new();
    let file = place.write("file", "for nobody");
    let (sender, code, at) = send_by_code(&place, Tcp, &file).await;
    let guess = Ketch::start(place.receive(&mistaken(&code), &["--at", &at])).end().await.expect(3);
    assert!(
        guess.stderr.contains("the code is wrong\nhint: run the command that printed it once more"),
        "{guess:#?}"
    );
    let sender = sender.end().await.expect(1);
    assert!(
        sender.stderr.contains("so the code is worthless now\nhint: run the same command again"),
        "{sender:#?}"
    );
    let late = Ketch::start(place.receive(&code, &["--at", &at])).end().await.expect(3);
    assert!(late.stderr.contains("hint: the command that printed it must still be running"), "{late:#?}");
    assert!(!place.target().exists());
}

#[tokio::test]
async fn a_typo_is_found_before_anything_is_sent() {
    let place = Place::new();
    let file = place.write("file", "for whoever was told the code");
    let (sender, code, at) = send_by_code(&place, Tcp, &file).await;
    let typo = Ketch::start(place.receive("7-crosword-almond", &["--at", &at])).end().await.expect(2);
    assert!(typo.stderr.contains("\"crosword\" is no word of a code; is it crossword?"), "{typo:#?}");
    let nowhere = Ketch::start(place.receive(&code, &["--no-lan"])).end().await.expect(2);
    assert!(nowhere.stderr.contains("hint: leave out --no-lan where both are on one LAN"), "{nowhere:#?}");
    Ketch::start(place.receive(&code, &["--at", &at])).end().await.expect(0);
    sender.end().await.expect(0);
    place.assert_equal();
}

#[tokio::test]
async fn whoever_had_the_code_first_may_use_it_again_and_nobody_else() {
    let place = Place::new();
    let file = place.write("file", "for whoever was told the code");
    let (sender, code, at) = send_by_code(&place, Tcp, &file).await;
    // given: a guest who was introduced and could not store anything
    fs::write(place.target(), "in the way").unwrap();
    let failed = Ketch::start(place.receive(&code, &["--at", &at])).end().await;
    assert_ne!(failed.code, Some(0), "{failed:#?}");
    fs::remove_file(place.target()).unwrap();
    // then: another one is too late, and the same one is not
    let other = Ketch::start(place.receive_as("other", &code, &["--at", &at])).end().await.expect(3);
    assert!(other.stderr.contains("its code has been used"), "{other:#?}");
    Ketch::start(place.receive(&code, &["--at", &at])).end().await.expect(0);
    sender.end().await.expect(0);
    place.assert_equal();
}

#[tokio::test]
async fn waiting_for_a_guest_can_be_interrupted() {
    let place = Place::new();
    let file = place.write("file", "for nobody");
    let (sender, _, _) = send_by_code(&place, Tcp, &file).await;
    sender.signal(Signal::INT);
    sender.end().await.expect(130);
}

/// The `ketch pair` of a side, on loopback.
fn pair(place: &Place, state: &str, options: &[&str]) -> Command {
    let mut arguments: Vec<&dyn AsRef<OsStr>> =
        vec![&"pair", &"--json", &"--listen", &"/ip4/127.0.0.1/tcp/0"];
    arguments.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
    ketch(&place.path(state), &arguments)
}

async fn printed(place: &Place, state: &str, arguments: &[&str]) -> Value {
    let arguments: Vec<_> = arguments.iter().map(|argument| argument as &dyn AsRef<OsStr>).collect();
    let ended = Ketch::start(ketch(&place.path(state), &arguments)).end().await.expect(0);
    serde_json::from_str(&ended.stdout[0]).unwrap()
}

#[tokio::test]
async fn two_who_paired_are_in_each_others_books_and_sync_by_name() {
    let place = Place::new();
    place.write("may/photo", "a photo");
    // given: a laptop that lets the desktop's key read, wherever it comes from
    let desktop = printed(&place, "desktop", &["id", "--json"]).await["peer_id"].as_str().unwrap().to_owned();
    let share = format!("photos={}", place.source().display());
    let allow = format!("{desktop}=photos:read");
    let mut serve = Ketch::start(ketch(
        &place.path("laptop"),
        &[&"serve", &"--json", &"--share", &share, &"--allow", &allow, &"--listen", &listen_address(Tcp)],
    ));
    let address = serve.event("serving").await["addresses"][0].as_str().unwrap().to_owned();
    // when: the two pair, once by each way
    for kind in ["code", "ticket"] {
        let mut options = vec!["--as", "laptop", "--address", &address];
        options.extend((kind == "code").then_some("--code"));
        let mut laptop = Ketch::start(pair(&place, "laptop", &options));
        let (told, at) = invited(&mut laptop, kind).await;
        let mut options = vec![told.as_str(), "--as", "desktop"];
        if kind == "code" {
            options.extend(["--at", &at]);
        }
        Ketch::start(pair(&place, "desktop", &options)).end().await.expect(0);
        laptop.end().await.expect(0);
    }
    // then: each has the other one under its name, and the name is enough
    let known = printed(&place, "laptop", &["peers", "show", "desktop", "--json"]).await;
    assert_eq!(known["peer_id"], desktop.as_str());
    let known = printed(&place, "desktop", &["peers", "show", "laptop", "--json"]).await;
    assert_eq!(known["addresses"], serde_json::json!([address]));
    let target = place.target();
    let sync = ketch(&place.path("desktop"), &[&"sync", &"laptop:photos", &target, &"--durability", &"none"]);
    Ketch::start(sync).end().await.expect(0);
    assert_eq!(fs::read(place.target().join("may/photo")).unwrap(), b"a photo");
}

#[tokio::test]
async fn what_is_for_fetching_does_not_pair() {
    let place = Place::new();
    let file = place.write("file", "for whoever was told the code");
    let (sender, code, at) = send_by_code(&place, Tcp, &file).await;
    let wrong = Ketch::start(pair(&place, "receiver", &[&code, "--at", &at])).end().await.expect(3);
    assert!(wrong.stderr.contains("hint: what `ketch send` prints is for `ketch receive`"), "{wrong:#?}");
    Ketch::start(place.receive(&code, &["--at", &at])).end().await.expect(0);
    sender.end().await.expect(0);
}

#[tokio::test]
async fn a_name_that_somebody_else_has_is_not_given_away() {
    let place = Place::new();
    for (state, expected) in [("first", "desk"), ("second", "desk-2"), ("first", "desk")] {
        let mut host = Ketch::start(pair(&place, "host", &[]));
        let (ticket, _) = invited(&mut host, "ticket").await;
        Ketch::start(pair(&place, state, &[&ticket, "--as", "desk"])).end().await.expect(0);
        assert_eq!(host.event("paired").await["name"], expected);
        host.end().await.expect(0);
    }
}
