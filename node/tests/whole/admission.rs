//! Only who holds the ticket gets anything; everybody else gets nothing, and the sender goes on offering.

use std::fs;

use ketch::{
    identity,
    state::StateFolder,
    swarm::{
        Keypair,
        TransportKind::{Quic, Tcp},
    },
    trust::{Secret, Ticket},
};
use ketch_protocol::message::TargetView;
use serde_json::Value;

use crate::{
    peer::PlayedReceiver,
    place::{BOTH, Place, parse},
    process::{Ended, Ketch, ketch},
};

/// The identity in a state folder of the place.
fn identity(place: &Place, state: &str) -> Keypair {
    let folder = StateFolder::locate(Some(place.path(state)), |_| None).unwrap();
    identity::load_or_create(&folder).unwrap()
}

fn offered(place: &Place) -> std::path::PathBuf {
    place.write("file", "for one receiver")
}

/// It was turned away, stored nothing, and was not told why.
fn assert_turned_away(place: &Place, ended: Ended) {
    let ended = ended.expect(3);
    assert!(ended.stderr.contains("the peer ended the session: not admitted\n"), "{ended:#?}");
    assert!(ended.stderr.contains("hint: the ticket is spent, expired or for someone else"), "{ended:#?}");
    assert_eq!(fs::read_dir(place.target()).unwrap().count(), 0);
}

/// What the sender's user hears of it.
async fn why(sender: &mut Ketch) -> String {
    let turned_away: Value = sender.event("turned_away").await;
    turned_away["why"].as_str().unwrap().to_owned()
}

/// The right receiver is served, and both are done.
async fn serves(place: &Place, sender: Ketch, ticket: &str) {
    Ketch::start(place.receive(ticket, &[])).end().await.expect(0);
    sender.end().await.expect(0);
    place.assert_equal();
}

#[tokio::test]
async fn a_wrong_secret_gets_nothing() {
    for transport in BOTH {
        let place = Place::new();
        let (mut sender, ticket) = place.send(transport, &[&offered(&place)], &[]).await;
        let right = parse(&ticket);
        let guess = Ticket::new(right.peer(), right.addresses().to_vec(), Secret::from_bytes([0; 16]), None);
        let receiver = Ketch::start(place.receive(&guess.to_string(), &[])).end().await;
        assert_turned_away(&place, receiver);
        assert_eq!(why(&mut sender).await, "its secret is not the ticket's");
        serves(&place, sender, &ticket).await;
    }
}

#[tokio::test]
async fn a_ticket_for_another_peer_gets_nothing() {
    let place = Place::new();
    let friend = identity(&place, "receiver").public().to_peer_id().to_string();
    let (mut sender, ticket) = place.send(Quic, &[&offered(&place)], &["--to", &friend]).await;
    let stranger = Ketch::start(place.receive_as("stranger", &ticket, &[])).end().await;
    assert_turned_away(&place, stranger);
    assert_eq!(why(&mut sender).await, format!("the offer is for {friend} only"));
    serves(&place, sender, &ticket).await;
}

#[tokio::test]
async fn a_ticket_that_another_peer_has_begun_to_use_gets_nothing() {
    let place = Place::new();
    let (mut sender, ticket) = place.send(Tcp, &[&offered(&place)], &[]).await;
    let first = identity(&place, "receiver");
    let first_peer = first.public().to_peer_id();
    let playing = PlayedReceiver::dial_as(first, &parse(&ticket)).await;
    let session = playing.session(TargetView::Occupied).await;
    let stranger = Ketch::start(place.receive_as("stranger", &ticket, &[])).end().await;
    assert_turned_away(&place, stranger);
    assert!(why(&mut sender).await.contains(&format!("the ticket is reserved for {first_peer}")));
    // The first one may come back, even while its old connection still stands.
    serves(&place, sender, &ticket).await;
    drop(session);
}

#[tokio::test]
async fn a_spent_ticket_gets_nothing() {
    let place = Place::new();
    let file = offered(&place);
    let (sender, spent) = place.send(Tcp, &[&file], &[]).await;
    serves(&place, sender, &spent).await;
    fs::remove_dir_all(place.target()).unwrap();

    let (mut sender, ticket) = place.send(Tcp, &[&file], &[]).await;
    assert_ne!(parse(&spent).secret(), parse(&ticket).secret());
    let (spent, ticket) = (parse(&spent), parse(&ticket));
    let moved = Ticket::new(spent.peer(), ticket.addresses().to_vec(), *spent.secret(), None);
    let receiver = Ketch::start(place.receive(&moved.to_string(), &[])).end().await;
    assert_turned_away(&place, receiver);
    why(&mut sender).await;
    serves(&place, sender, &ticket.to_string()).await;
}

#[tokio::test]
async fn an_expired_ticket_gets_nothing() {
    let place = Place::new();
    let options = &["--expires", "2s", "--uses", "2"];
    let (mut sender, ticket) = place.send(Quic, &[&offered(&place)], options).await;
    // A session that began in time keeps the sender up.
    let playing = PlayedReceiver::dial(&parse(&ticket)).await;
    let session = playing.session(TargetView::Occupied).await;
    let expires_s = parse(&ticket).expires_s().unwrap();
    let expiry = std::time::UNIX_EPOCH + std::time::Duration::from_secs(expires_s);
    if let Ok(left) = expiry.duration_since(std::time::SystemTime::now()) {
        tokio::time::sleep(left).await;
    }
    let late = Ketch::start(place.receive(&ticket, &[])).end().await;
    assert_turned_away(&place, late);
    assert_eq!(why(&mut sender).await, "the ticket has expired");
    drop((session, playing));
    let sender = sender.end().await.expect(1);
    assert!(sender.stderr.contains("error: the offer has expired"), "{sender:#?}");
}

#[tokio::test]
async fn another_peer_at_the_address_is_named_and_learns_no_secret() {
    for transport in BOTH {
        let place = Place::new();
        let (sender, ticket) = place.send(transport, &[&offered(&place)], &[]).await;
        let right = parse(&ticket);
        let expected = Keypair::generate_ed25519().public().to_peer_id();
        let wrong = Ticket::new(expected, right.addresses().to_vec(), *right.secret(), None);
        let ended = Ketch::start(place.receive(&wrong.to_string(), &[])).end().await.expect(3);
        let (who, instead) =
            (format!("reaching {expected}"), format!("another peer answered: {}", right.peer()));
        assert!(ended.stderr.contains(&who) && ended.stderr.contains(&instead), "{ended:#?}");
        serves(&place, sender, &ticket).await;
    }
}

#[tokio::test]
async fn what_is_no_ticket_is_told_without_a_network() {
    let place = Place::new();
    for (text, words) in [("hello", "this is no ticket"), ("ketch1aeafk", "the ticket"), ("", "is empty")] {
        let command = ketch(&place.path("receiver"), &[&"receive", &text, &place.target()]);
        let ended = Ketch::start(command).end().await.expect(2);
        assert!(ended.stderr.contains(words), "{text}: {ended:#?}");
        assert!(!place.target().exists());
    }
}
