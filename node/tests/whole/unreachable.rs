//! Whoever cannot be reached is named, with the address, the step that failed and what came, in time.

use std::{
    io::Read as _,
    net::{TcpListener, UdpSocket},
    time::Duration,
};

use ketch::{
    swarm::{Keypair, PeerId},
    trust::{Secret, Ticket},
};
use rustix::net::sockopt::set_socket_linger;

use crate::{place::Place, process::Ketch};

/// Ten seconds, and a busy machine's share.
const LIMIT: Duration = Duration::from_secs(12);

/// A receiver with a ticket for this address gives up in time, and its error has all these words.
async fn is_named(address: &str, words: &[&str]) {
    let place = Place::new();
    let peer = Keypair::generate_ed25519().public().to_peer_id();
    let ticket = Ticket::new(peer, [address.parse().unwrap()], Secret::from_bytes([1; 16]), None);
    let receiver = Ketch::start(place.receive(&ticket.to_string(), &[]));
    let ended = receiver.end_within(LIMIT).await.expect(3);
    for word in [address, &peer.to_string()].iter().chain(words) {
        assert!(ended.stderr.contains(word), "\"{word}\" is missing: {}", ended.stderr);
    }
    assert!(ended.stderr.contains("hint: "), "{}", ended.stderr);
}

fn tcp(port: u16) -> String {
    format!("/ip4/127.0.0.1/tcp/{port}")
}

fn listener() -> (TcpListener, u16) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    (listener, port)
}

#[tokio::test]
async fn a_dead_port_is_named() {
    let (listener, port) = listener();
    drop(listener);
    is_named(&tcp(port), &["connect: connection refused"]).await;
}

/// Resets every connection once it has read so many bytes.
fn resets_after(listener: TcpListener, bytes: usize) {
    std::thread::spawn(move || {
        for accepted in listener.incoming() {
            let mut accepted = accepted.unwrap();
            accepted.read_exact(&mut vec![0; bytes]).unwrap();
            set_socket_linger(accepted, Some(Duration::ZERO)).unwrap();
        }
    });
}

#[tokio::test]
async fn a_reset_before_tls_is_named() {
    let (at_once, port) = listener();
    resets_after(at_once, 0);
    // It may come before the connect is seen to have succeeded.
    is_named(&tcp(port), &["connection reset by the peer"]).await;
    let (later, port) = listener();
    resets_after(later, 1);
    is_named(&tcp(port), &["tls handshake: connection reset by the peer"]).await;
}

#[tokio::test]
async fn an_acceptor_that_stays_silent_is_named() {
    let (_listener, port) = listener();
    is_named(&tcp(port), &["tls handshake", "no answer within 8 s"]).await;
}

#[tokio::test]
async fn a_socket_that_never_answers_is_named() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    let address = format!("/ip4/127.0.0.1/udp/{port}/quic-v1");
    is_named(&address, &["quic handshake", "no answer within 8 s"]).await;
}

#[tokio::test]
async fn a_dead_udp_port_is_named() {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let port = socket.local_addr().unwrap().port();
    drop(socket);
    is_named(&format!("/ip4/127.0.0.1/udp/{port}/quic-v1"), &["quic handshake"]).await;
}

#[tokio::test]
async fn every_address_that_was_tried_is_named() {
    let place = Place::new();
    let ((one, first), (other, second)) = (listener(), listener());
    drop((one, other));
    let peer: PeerId = Keypair::generate_ed25519().public().to_peer_id();
    let addresses = [first, second].map(|port| tcp(port).parse().unwrap());
    let ticket = Ticket::new(peer, addresses, Secret::from_bytes([1; 16]), None);
    let ended = Ketch::start(place.receive(&ticket.to_string(), &[])).end_within(LIMIT).await.expect(3);
    assert!(ended.stderr.contains(&tcp(first)) && ended.stderr.contains(&tcp(second)), "{}", ended.stderr);
}
