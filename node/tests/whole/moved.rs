//! A connection that dies is made again, and the session goes on where it was without anybody doing anything.

use ketch::swarm::TransportKind::Tcp;

use crate::{
    connections::{Forwarder, MIB, PACE, Rule, port, write_tree},
    place::{Place, assert_same},
    process::{Ended, Ketch},
    serving::Serving,
};

/// What a receiver says of its first connection, which this rule breaks.
async fn receive_through(rule: Rule) -> (Place, Ended) {
    let place = Place::new();
    write_tree(&place.offered("tree"), 21);
    let tree = place.offered("tree");
    let (sender, ticket) = place.send(Tcp, &[&tree], &[]).await;
    let (_forwarder, through) = Forwarder::before_sender(&ticket, rule).await;
    let received = Ketch::start(place.receive(&through, &["--connections", "1"])).end().await.expect(0);
    sender.end().await.expect(0);
    place.assert_equal();
    (place, received)
}

#[tokio::test]
async fn a_receiver_that_is_cut_off_goes_on_by_itself() {
    let (_place, received) = receive_through(Rule::Cut { connection: 0, bytes: 3 * MIB }).await;
    assert_eq!((received.events("retrying").len(), received.events("connected").len()), (1, 2));
}

#[tokio::test]
async fn a_receiver_leaves_a_connection_that_is_silent_for_one_that_is_not() {
    let (_place, received) = receive_through(Rule::Silence { connection: 0, bytes: 3 * MIB }).await;
    let why = received.event("retrying")["why"].as_str().unwrap().to_owned();
    assert!(why.contains("the peer answers elsewhere"), "{why}");
}

#[tokio::test]
async fn a_receiver_that_may_not_try_again_says_how_much_it_keeps() {
    let place = Place::new();
    write_tree(&place.offered("tree"), 22);
    let tree = place.offered("tree");
    let (_sender, ticket) = place.send(Tcp, &[&tree], &[]).await;
    let rule = Rule::Cut { connection: 0, bytes: 12 * MIB };
    let (_forwarder, through) = Forwarder::before_sender(&ticket, rule).await;
    let options = ["--connections", "1", "--retry-for", "0s"];
    let received = Ketch::start(place.receive(&through, &options)).end().await.expect(1);
    assert_eq!((received.events("retrying").len(), received.events("connected").len()), (0, 1));
}

/// The side that serves still holds the target for the session that is dead.
#[tokio::test]
async fn a_push_leaves_a_connection_that_is_silent_for_one_that_is_not() {
    let mut serving = Serving::with(Tcp, "read,mirror").await;
    write_tree(&serving.place.source(), 23);
    let rule = Rule::Silence { connection: 0, bytes: 3 * MIB };
    let forwarder = Forwarder::before(port(&serving.address), rule).await;
    serving.address = forwarder.address();
    let options = [&PACE[..], &["--connections", "1"]].concat();
    let pushed = serving.push(&options).await.expect(0);
    assert_eq!(pushed.events("retrying").len(), 1, "{pushed:#?}");
    assert_same(&serving.place.source(), &serving.shared());
}

#[tokio::test]
async fn a_lost_connection_of_several_is_made_again() {
    let mut serving = Serving::with(Tcp, "read,mirror").await;
    write_tree(&serving.shared(), 24);
    let rule = Rule::Cut { connection: 1, bytes: MIB };
    let forwarder = Forwarder::before(port(&serving.address), rule).await;
    serving.address = forwarder.address();
    // It takes longer than the pause before the next one is made.
    let options = ["--bwlimit", "5M", "--connections", "3"];
    let done = serving.pull(&options).await.expect(0).event("done");
    assert_eq!(
        (&done["connections"]["made"], &done["connections"]["lost"]),
        (&4.into(), &1.into()),
        "{done}"
    );
    assert_same(&serving.shared(), &serving.place.target());
}
