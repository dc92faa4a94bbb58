//! What a person types: tickets from files and pipes, state folders, and the mistakes that are told.

use std::{fs, os::unix::fs::PermissionsExt as _};

use ketch::swarm::TransportKind::{Quic, Tcp};
use serde_json::Value;
use tokio::process::Command;

use crate::{
    place::Place,
    process::{Ketch, ketch},
};

#[tokio::test]
async fn a_ticket_comes_from_a_file_that_nobody_else_can_read() {
    let place = Place::new();
    let ticket_file = place.path("ticket");
    let file = place.write("file", "content");
    let options = ["--ticket-file", ticket_file.to_str().unwrap()];
    let (sender, _) = place.send(Tcp, &[&file], &options).await;
    assert_eq!(fs::metadata(&ticket_file).unwrap().permissions().mode() & 0o777, 0o600);
    let at = format!("@{}", ticket_file.display());
    Ketch::start(place.receive(&at, &[])).end().await.expect(0);
    sender.end().await.expect(0);
    place.assert_equal();
}

#[tokio::test]
async fn a_ticket_comes_from_standard_input_however_it_is_wrapped() {
    let place = Place::new();
    let (sender, ticket) = place.send(Quic, &[&place.write("file", "content")], &[]).await;
    let (first, second) = ticket.split_at(40);
    let wrapped = format!("  {first}\n  {second}\n");
    Ketch::start_with_input(place.receive("-", &[]), &wrapped).await.end().await.expect(0);
    sender.end().await.expect(0);
    place.assert_equal();
}

#[tokio::test]
async fn without_json_the_ticket_alone_is_on_standard_output() {
    let place = Place::new();
    let file = place.write("file", "content");
    let listen = "/ip4/127.0.0.1/tcp/0";
    let mut sender = Ketch::start(ketch(&place.path("sender"), &[&"send", &file, &"--listen", &listen]));
    let ticket = sender.line("the ticket").await;
    let receive = ketch(&place.path("receiver"), &[&"receive", &ticket, &place.target()]);
    let receiver = Ketch::start(receive).end().await.expect(0);
    assert!(receiver.stdout[0].starts_with("stored 1 of 1 entry"), "{receiver:#?}");
    let sender = sender.end().await.expect(0);
    assert!(sender.stdout[1].starts_with("sent 1 of 1 entry"), "{sender:#?}");
}

#[tokio::test]
async fn a_typo_is_found_without_a_network() {
    let place = Place::new();
    let (sender, ticket) = place.send(Tcp, &[&place.write("file", "content")], &[]).await;
    let place_of_typo = ticket.len() - 20;
    let other = if ticket.as_bytes()[place_of_typo] == b'a' { "b" } else { "a" };
    let mut typo = ticket.clone();
    typo.replace_range(place_of_typo..=place_of_typo, other);
    let ended = Ketch::start(place.receive(&typo, &[])).end().await.expect(2);
    assert!(ended.stderr.contains("the ticket has a typo"), "{ended:#?}");
    let ended = Ketch::start(place.receive(&ticket[..50], &[])).end().await.expect(2);
    assert!(ended.stderr.contains("cut short"), "{ended:#?}");
    let ended = Ketch::start(place.receive("@/no/such file", &[])).end().await;
    assert!(ended.code != Some(0) && ended.stderr.contains("/no/such file"), "{ended:#?}");
    assert!(!place.target().exists());
    drop(sender);
}

#[tokio::test]
async fn the_identity_is_one_line_and_stays() {
    let place = Place::new();
    let state = place.path("state");
    let before = Ketch::start(ketch(&state, &[&"id", &"--json"])).end().await.expect(0);
    let mut command = Command::new(env!("CARGO_BIN_EXE_ketch"));
    command.args(["id", "--json", "--state"]).arg(&state);
    let after = Ketch::start(command).end().await.expect(0);
    let peer = |line: &str| serde_json::from_str::<Value>(line).unwrap()["peer_id"].clone();
    assert_eq!((before.stdout.len(), after.stdout.len()), (1, 1));
    assert_eq!(peer(&before.stdout[0]), peer(&after.stdout[0]));
    assert_eq!(fs::metadata(&state).unwrap().permissions().mode() & 0o777, 0o700);
}

#[tokio::test]
async fn without_a_home_the_error_names_the_option() {
    for command in ["id", "receive"] {
        let mut line = Command::new(env!("CARGO_BIN_EXE_ketch"));
        line.env_clear().arg(command);
        if command == "receive" {
            line.arg("ticket");
        }
        let ended = Ketch::start(line).end().await;
        assert!(ended.code.is_some_and(|code| code != 0), "{ended:#?}");
        assert!(ended.stderr.contains("--state"), "{ended:#?}");
    }
}

#[tokio::test]
async fn two_paths_that_end_alike_are_refused_with_a_hint() {
    let place = Place::new();
    let paths = ["a/same", "b/same"].map(|name| place.write(name, "content"));
    let command = ketch(&place.path("sender"), &[&"send", &paths[0], &paths[1]]);
    let ended = Ketch::start(command).end().await.expect(2);
    assert!(ended.stderr.contains("same") && ended.stderr.contains("hint: "), "{ended:#?}");
}

#[tokio::test]
async fn a_path_that_is_missing_is_named() {
    let place = Place::new();
    let missing = place.offered("missing");
    let command = ketch(&place.path("sender"), &[&"send", &missing]);
    let ended = Ketch::start(command).end().await;
    assert!(ended.code.is_some_and(|code| code != 0), "{ended:#?}");
    assert!(ended.stderr.contains(&missing.display().to_string()), "{ended:#?}");
}

#[tokio::test]
async fn a_command_line_without_sense_exits_with_two() {
    let place = Place::new();
    let file = place.write("file", "content");
    let cases: [&[&dyn AsRef<std::ffi::OsStr>]; 5] = [
        &[&"send"],
        &[&"fetch"],
        &[&"send", &file, &"--uses", &"0"],
        &[&"send", &file, &"--transport", &"tcp", &"--listen", &"/ip4/127.0.0.1/udp/0/quic-v1"],
        &[&"ping", &"/ip4/127.0.0.1/tcp/1"],
    ];
    for case in cases {
        Ketch::start(ketch(&place.path("state"), case)).end().await.expect(2);
    }
}
