//! Several connections in one session: all carry content, and one that is lost takes nothing with it.

use futures::future::join_all;
use ketch::{swarm::TransportKind::Tcp, trust::Ticket};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::watch,
    task::JoinSet,
};

use crate::{
    place::{BOTH, Place, assert_same, noise, parse},
    process::Ketch,
    serving::{Serving, write},
};

pub(crate) const MIB: u64 = 1 << 20;

/// What a forwarder does to the connections that it carries.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rule {
    /// Holds each back once it has carried so many bytes to who dialed, until so many have.
    Gate { bytes: u64, connections: usize },
    /// Cuts this one, counted from 0, once it has carried so many bytes.
    Cut { connection: usize, bytes: u64 },
    /// Carries nothing more on this one, counted from 0, once it has carried so many bytes, and never says so.
    Silence { connection: usize, bytes: u64 },
}

/// Stands between two nodes and counts what each connection carries.
pub(crate) struct Forwarder {
    port: u16,
    carried: watch::Sender<Vec<u64>>,
    _carrying: JoinSet<()>,
}

impl Forwarder {
    pub(crate) async fn before(port: u16, rule: Rule) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let own = listener.local_addr().unwrap().port();
        let carried = watch::Sender::new(Vec::new());
        let mut carrying = JoinSet::new();
        let count = carried.clone();
        carrying.spawn(async move {
            let mut lanes = JoinSet::new();
            while let Ok((near, _)) = listener.accept().await {
                let far = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
                let index = count.borrow().len();
                count.send_modify(|carried| carried.push(0));
                let lane = Lane { index, carried: count.clone(), rule };
                lanes.spawn(lane.carry(near, far));
            }
        });
        Self { port: own, carried, _carrying: carrying }
    }

    /// Stands before a sender: its ticket, as the receiver gets it.
    pub(crate) async fn before_sender(ticket: &str, rule: Rule) -> (Self, String) {
        let ticket = parse(ticket);
        let forwarder = Self::before(port(&ticket.addresses()[0].to_string()), rule).await;
        let address = forwarder.address().parse().unwrap();
        let through = Ticket::new(ticket.peer(), [address], *ticket.secret(), ticket.expires_s());
        (forwarder, through.to_string())
    }

    pub(crate) fn address(&self) -> String {
        format!("/ip4/127.0.0.1/tcp/{}", self.port)
    }

    pub(crate) fn carried(&self) -> Vec<u64> {
        self.carried.borrow().clone()
    }
}

pub(crate) fn port(address: &str) -> u16 {
    address.strip_prefix("/ip4/127.0.0.1/tcp/").unwrap().parse().unwrap()
}

/// One connection that a forwarder carries.
struct Lane {
    index: usize,
    carried: watch::Sender<Vec<u64>>,
    rule: Rule,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    ToDialer,
    FromDialer,
}

impl Lane {
    /// Carries it; both of its sides are cut when this ends.
    async fn carry(self, near: TcpStream, far: TcpStream) {
        let (near_reader, near_writer) = near.into_split();
        let (far_reader, far_writer) = far.into_split();
        tokio::select! {
            () = self.pass(near_reader, far_writer, Way::FromDialer) => {}
            () = self.pass(far_reader, near_writer, Way::ToDialer) => {}
        }
    }

    /// Passes on what comes until the rule cuts the connection, or one of its sides has gone.
    async fn pass(&self, mut from: OwnedReadHalf, mut to: OwnedWriteHalf, way: Way) {
        let mut bytes = vec![0; 64 * 1024];
        loop {
            match from.read(&mut bytes).await {
                Ok(length @ 1..) if to.write_all(&bytes[..length]).await.is_ok() => {
                    if self.is_cut(length as u64, way).await {
                        return;
                    }
                }
                Ok(0) if to.shutdown().await.is_ok() => return std::future::pending().await,
                Ok(_) | Err(_) => return,
            }
        }
    }

    /// Counts what was passed on, and does what the rule says.
    async fn is_cut(&self, length: u64, way: Way) -> bool {
        self.carried.send_modify(|carried| carried[self.index] += length);
        let so_far = self.carried.borrow()[self.index];
        match self.rule {
            Rule::Cut { connection, bytes } => connection == self.index && so_far >= bytes,
            Rule::Silence { connection, bytes } if connection == self.index && so_far >= bytes => {
                std::future::pending().await
            }
            Rule::Silence { .. } => false,
            Rule::Gate { bytes, connections } => {
                let have_carried =
                    |carried: &Vec<u64>| carried.iter().filter(|carried| **carried >= bytes).count();
                if so_far >= bytes && way == Way::ToDialer {
                    let is_open = |carried: &Vec<u64>| have_carried(carried) >= connections;
                    self.carried.subscribe().wait_for(is_open).await.unwrap();
                }
                false
            }
        }
    }
}

fn connections(asked: u64, made: u64, lost: u64) -> Value {
    json!({ "asked": asked, "made": made, "lost": lost })
}

/// A tree that takes some seconds at the pace of these tests, longer than any handshake.
pub(crate) fn write_tree(root: &std::path::Path, seed: u8) {
    std::fs::create_dir_all(root).unwrap();
    std::fs::write(root.join("large"), noise(20 * MIB as usize, seed)).unwrap();
    for index in 0..200 {
        write(root, &format!("small/{index}"), &format!("content of {index}"));
    }
}

pub(crate) const PACE: [&str; 2] = ["--bwlimit", "10M"];

#[tokio::test]
async fn a_session_has_as_many_connections_as_it_asks_for() {
    let both_ways = BOTH.iter().flat_map(|transport| [(*transport, true), (*transport, false)]);
    join_all(both_ways.map(|(transport, is_pull)| async move {
        let mut serving = Serving::with(transport, "read,mirror").await;
        let options = [&PACE[..], &["--connections", "4"]].concat();
        let (from, to) = if is_pull {
            (serving.shared(), serving.place.target())
        } else {
            (serving.place.source(), serving.shared())
        };
        write_tree(&from, 3);
        let ended = if is_pull { serving.pull(&options).await } else { serving.push(&options).await };
        let done = ended.expect(0).event("done");
        assert_eq!(done["connections"], connections(4, 4, 0), "{transport} {is_pull}: {done}");
        assert_eq!(serving.serve.event("done").await["connections"], connections(4, 4, 0));
        assert_same(&from, &to);
    }))
    .await;
}

#[tokio::test]
async fn no_more_connections_are_made_than_the_other_side_grants() {
    for transport in BOTH {
        let place = Place::new();
        let large = place.write("large", noise(12 * MIB as usize, 5));
        let (sent, received) =
            place.cross(transport, &[&large], &["--connections", "1"], &["--connections", "16"]).await;
        assert_eq!(received.event("done")["connections"], connections(16, 1, 0));
        assert_eq!(sent.event("done")["connections"], connections(16, 1, 0));
        place.assert_equal();
    }
}

#[tokio::test]
async fn a_session_on_one_machine_has_one_connection_by_itself() {
    let place = Place::new();
    let large = place.write("large", noise(12 * MIB as usize, 6));
    let (_, received) = place.cross(Tcp, &[&large], &[], &[]).await;
    assert_eq!(received.event("done")["connections"], connections(1, 1, 0));
}

/// No connection gets further before all have carried a part of it.
#[tokio::test]
async fn a_single_large_file_uses_all_connections() {
    for layout in ["bundle", "files"] {
        let place = Place::new();
        let large = place.write("large", noise(64 * MIB as usize, 7));
        let (sender, ticket) = place.send(Tcp, &[&large], &["--layout", layout]).await;
        let rule = Rule::Gate { bytes: 2 * MIB, connections: 4 };
        let (forwarder, ticket) = Forwarder::before_sender(&ticket, rule).await;
        let received = Ketch::start(place.receive(&ticket, &["--connections", "4"])).end().await;
        let carried = forwarder.carried();
        assert_eq!(received.code, Some(0), "{layout} {carried:?}: {received:#?}");
        sender.end().await.expect(0);
        assert_eq!(received.event("done")["connections"], connections(4, 4, 0));
        assert_eq!(forwarder.carried().len(), 4);
        place.assert_equal();
    }
}

#[tokio::test]
async fn the_work_of_a_lost_connection_moves_to_the_others() {
    for layout in ["bundle", "files"] {
        // given a large file, and enough small ones that some are under way at any time
        let place = Place::new();
        let tree = place.offered("tree");
        place.write("tree/large", noise(96 * MIB as usize, 8));
        for index in 0..2_000 {
            place.write(&format!("tree/small/{index}"), noise(10_000, index as u8));
        }
        let (sender, ticket) = place.send(Tcp, &[&tree], &["--layout", layout]).await;
        let rule = Rule::Cut { connection: 2, bytes: 4 * MIB };
        let (forwarder, ticket) = Forwarder::before_sender(&ticket, rule).await;

        // when one connection of four is cut
        let receiver = place.receive(&ticket, &["--connections", "4"]);
        let received = Ketch::start(receiver).end().await.expect(0);
        let sent = sender.end().await.expect(0);

        // then the session ends well, perhaps before the lost one was made again, and little crossed twice
        for done in [received.event("done"), sent.event("done")] {
            let made = [4, 5].map(|made| connections(4, made, 1));
            assert!(made.contains(&done["connections"]), "{done}");
        }
        place.assert_equal();
        let (whole, crossed) = (116 * MIB, forwarder.carried().iter().sum::<u64>());
        assert!(crossed < whole + 16 * MIB, "{crossed} bytes crossed for {whole}");
    }
}

/// The side that is dialed stores here, and the side that dialed sends.
#[tokio::test]
async fn a_push_survives_the_loss_of_a_connection() {
    let mut serving = Serving::with(Tcp, "read,mirror").await;
    write_tree(&serving.place.source(), 9);
    let rule = Rule::Cut { connection: 1, bytes: 3 * MIB };
    let forwarder = Forwarder::before(port(&serving.address), rule).await;
    serving.address = forwarder.address();
    let options = [&PACE[..], &["--connections", "3"]].concat();
    let pushed = serving.push(&options).await.expect(0);
    let lost = |done: &Value| done["connections"]["lost"].as_u64().unwrap();
    assert_eq!(lost(&pushed.event("done")), 1, "{:?}", forwarder.carried());
    assert_eq!(lost(&serving.serve.event("done").await), 1);
    assert_same(&serving.place.source(), &serving.shared());
}

/// Nothing of a delta is done twice or forgotten when a connection is lost.
#[tokio::test]
async fn a_delta_survives_the_loss_of_a_connection() {
    let mut serving = Serving::with(Tcp, "read,mirror").await;
    let old = noise(24 * MIB as usize, 10);
    let mut new = old.clone();
    for (index, part) in new.chunks_mut(512 * 1024).enumerate() {
        part[..200_000].copy_from_slice(&noise(200_000, index as u8));
    }
    std::fs::create_dir_all(serving.place.target()).unwrap();
    for index in 0..4 {
        std::fs::write(serving.place.target().join(format!("f{index}")), &old).unwrap();
        std::fs::write(serving.shared().join(format!("f{index}")), &new).unwrap();
    }
    let rule = Rule::Cut { connection: 1, bytes: 2 * MIB };
    let forwarder = Forwarder::before(port(&serving.address), rule).await;
    serving.address = forwarder.address();
    let options = [&PACE[..], &["--connections", "3"]].concat();
    let pulled = serving.pull(&options).await.expect(0);
    let done = pulled.event("done");
    assert_eq!(done["connections"]["lost"], 1, "{:?}", forwarder.carried());
    assert_same(&serving.shared(), &serving.place.target());
}

/// As before several connections: a session ends with the one that carries its control stream.
#[tokio::test]
async fn the_first_connection_ends_the_session_and_the_next_goes_on_where_it_was() {
    let mut serving = Serving::with(Tcp, "read,mirror").await;
    write_tree(&serving.shared(), 11);
    let rule = Rule::Cut { connection: 0, bytes: 3 * MIB };
    let forwarder = Forwarder::before(port(&serving.address), rule).await;
    serving.address = forwarder.address();
    let options = [&PACE[..], &["--connections", "3", "--retry-for", "30s"]].concat();
    let pulled = serving.pull(&options).await.expect(0);
    assert_eq!(pulled.events("retrying").len(), 1);
    assert_same(&serving.shared(), &serving.place.target());
}
