//! Both ends are gone within a second of the end of a session, every time.

use std::{env, path::PathBuf, time::Duration};

use ketch::swarm::TransportKind::{self, Quic, Tcp};
use ketch_fixtures::tree::Shape;

use crate::{place::Place, process::Ketch};

/// From the receiver's `done` to the end of both processes.
const LIMIT: Duration = Duration::from_secs(1);

/// Runs of each kind; `KETCH_TEARDOWN_RUNS` asks for more.
const RUNS: usize = 10;

async fn ends_at_once(transport: TransportKind, write: fn(&Place) -> PathBuf) {
    let runs = env::var("KETCH_TEARDOWN_RUNS").map_or(RUNS, |runs| runs.parse().unwrap());
    for _ in 0..runs {
        let place = Place::new();
        let path = write(&place);
        let (sender, ticket) = place.send(transport, &[&path], &[]).await;
        let mut receiver = Ketch::start(place.receive(&ticket, &[]));
        receiver.event("done").await;
        let (sender, receiver) = tokio::join!(sender.end_within(LIMIT), receiver.end_within(LIMIT));
        sender.expect(0);
        receiver.expect(0);
    }
}

fn tree(place: &Place) -> PathBuf {
    let tree = place.offered("tree");
    Shape::Small { files: 50, bytes: 1_000 }.write(7, &tree).unwrap();
    tree
}

fn file(place: &Place) -> PathBuf {
    place.write("file", "content")
}

#[tokio::test]
async fn after_a_tree_over_tcp() {
    ends_at_once(Tcp, tree).await;
}

#[tokio::test]
async fn after_a_tree_over_quic() {
    ends_at_once(Quic, tree).await;
}

#[tokio::test]
async fn after_a_file_over_tcp() {
    ends_at_once(Tcp, file).await;
}

#[tokio::test]
async fn after_a_file_over_quic() {
    ends_at_once(Quic, file).await;
}
