//! Nodes that meet through `ketch relay`.

use std::{ffi::OsStr, fs};

use serde_json::Value;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use crate::{
    place::Place,
    process::{Ended, Ketch, ketch},
};

/// A relay and a node that serves `docs` through it.
struct Meeting {
    place: Place,
    relay: Ketch,
    relay_at: String,
    metrics: String,
    serve: Ketch,
    peer: String,
    /// Addresses of the node through the relay.
    circuits: Vec<String>,
}

impl Meeting {
    /// The relay goes by this file.
    async fn by(config: &str) -> Self {
        let place = Place::new();
        let file = place.path("relay.toml");
        fs::write(&file, format!("listen = [\"/ip4/127.0.0.1/tcp/0\"]\n{config}")).unwrap();
        let relaying: [&dyn AsRef<OsStr>; 4] = [&"relay", &"--json", &"--config", &file];
        let mut relay = Ketch::start(ketch(&place.path("relay"), &relaying));
        let started = relay.event("relaying").await;
        let relay_at = text(&started["addresses"][0]);
        let metrics = started["metrics"].as_str().unwrap_or_default().into();

        fs::create_dir(place.path("shared")).unwrap();
        fs::write(place.path("shared/file"), vec![7; 3 << 20]).unwrap();
        let comer = Ketch::start(ketch(&place.path("comer"), &[&"id", &"--json"])).end().await.expect(0);
        let comer: Value = serde_json::from_str(&comer.stdout[0]).unwrap();
        let share = format!("docs={}", place.path("shared").display());
        let allow = format!("{}=docs:read", text(&comer["peer_id"]));
        let serving: [&dyn AsRef<OsStr>; 10] = [
            &"serve",
            &"--json",
            &"--listen",
            &"/ip4/127.0.0.1/tcp/0",
            &"--share",
            &share,
            &"--allow",
            &allow,
            &"--relay-at",
            &relay_at,
        ];
        let mut serve = Ketch::start(ketch(&place.path("server"), &serving));
        let started = serve.event("serving").await;
        let addresses: Vec<_> = started["addresses"].as_array().unwrap().iter().map(text).collect();
        let circuits = addresses.into_iter().filter(|address| address.contains("p2p-circuit")).collect();
        Self { place, relay, relay_at, metrics, serve, peer: text(&started["peer_id"]), circuits }
    }

    async fn pull(&self, options: &[&dyn AsRef<OsStr>]) -> Ended {
        let (from, to) = (format!("{}:docs", self.peer), self.place.path("pulled"));
        let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"sync", &"--json", &from, &to];
        arguments.extend(options);
        Ketch::start(ketch(&self.place.path("comer"), &arguments)).end().await
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_tree_comes_through_a_relay_from_a_peer_of_which_only_the_peer_id_is_known() {
    let meeting = Meeting::by("").await;
    assert!(!meeting.circuits.is_empty());
    let ended = meeting.pull(&[&"--relay-at", &meeting.relay_at]).await.expect(0);
    let content = |folder: &str| fs::read(meeting.place.path(folder).join("file")).unwrap();
    assert_eq!(content("pulled"), content("shared"));
    assert_eq!(ended.event("connected")["peer_id"], meeting.peer.as_str());
}

#[tokio::test]
async fn relays_stand_in_the_state_folder_too() {
    let meeting = Meeting::by("").await;
    let config = format!("relays = [\"{}\"]\n", meeting.relay_at);
    fs::write(meeting.place.path("comer").join("config.toml"), config).unwrap();
    meeting.pull(&[]).await.expect(0);
}

#[tokio::test]
async fn a_node_that_serves_tells_when_its_relay_is_lost() {
    let mut meeting = Meeting::by("").await;
    meeting.relay.kill().await;
    let lost = meeting.serve.event("reservation_lost").await;
    assert!(meeting.relay_at.ends_with(&text(&lost["relay"])), "{lost}");
}

#[tokio::test]
async fn counts_are_shown_to_those_that_gather_them() {
    let meeting = Meeting::by("metrics = \"127.0.0.1:0\"\n").await;
    let mut socket = TcpStream::connect(&meeting.metrics).await.unwrap();
    socket.write_all(b"GET /metrics HTTP/1.1\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    assert!(answer.contains("ketch_relay_reservations 1\n"), "{answer}");
}

#[tokio::test]
async fn a_configuration_that_makes_no_sense_is_named_with_its_line() {
    let place = Place::new();
    let file = place.path("relay.toml");
    fs::write(&file, "[circuits]\nbytes = \"much\"\n").unwrap();
    let ended =
        Ketch::start(ketch(&place.path("relay"), &[&"relay", &"--config", &file])).end().await.expect(1);
    assert!(
        ended.stderr.contains("relay.toml") && ended.stderr.contains("line 2, bytes"),
        "{}",
        ended.stderr
    );
}
