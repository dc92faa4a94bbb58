//! Hole punching: the side that waits sends packets, the other one dials.

use std::net::{Ipv4Addr, UdpSocket};

use libp2p_core::{
    Endpoint, Transport,
    transport::{DialOpts, PortUse, TransportError},
};

use crate::ends::{DIALER, End, Stack};

const WAITING: DialOpts = DialOpts { role: Endpoint::Listener, port_use: PortUse::Reuse };

#[tokio::test]
async fn the_peer_that_comes_through_the_hole_is_the_one_that_was_dialed() {
    for stack in [Stack::Own, Stack::Stock] {
        let (mut waiting, mut dialing) = (End::new(Stack::Own), End::new(stack));
        let (_, waiting_at) = waiting.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
        let (_, dialing_from) = dialing.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;

        let awaited = waiting.transport.dial(dialing_from, WAITING).unwrap();
        let dialed = dialing.transport.dial(waiting_at, DIALER).unwrap();
        let peers = async { futures::join!(awaited, dialed) };
        let (awaited, dialed) = tokio::select! {
            done = peers => done,
            // The packets that punch are no connection attempts, and the connection is no inbound one.
            event = waiting.event() => panic!("{event:?}"),
        };
        assert_eq!(awaited.unwrap().0, dialing.peer);
        assert_eq!(dialed.unwrap().0, waiting.peer);
        dialing.must_be_quiet();
    }
}

#[tokio::test]
async fn packets_leave_the_listening_socket_until_the_dial_is_given_up() {
    let mut waiting = End::new(Stack::Own);
    let (_, waiting_at) = waiting.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let remote = tokio::net::UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let address = format!("/ip4/127.0.0.1/udp/{}/quic-v1", remote.local_addr().unwrap().port());

    let awaited = tokio::spawn(waiting.transport.dial(address.parse().unwrap(), WAITING).unwrap());
    let mut packets = Vec::new();
    for _ in 0..3 {
        let mut packet = [0; 1500];
        let (length, from) = remote.recv_from(&mut packet).await.unwrap();
        assert_eq!(format!("/ip4/127.0.0.1/udp/{}/quic-v1", from.port()), waiting_at.to_string());
        packets.push(packet[..length].to_vec());
    }
    assert!(packets[0] != packets[1] && packets[1] != packets[2]);
    // A second dial of the same address waits for the same packets.
    assert!(matches!(
        waiting.transport.dial(address.parse().unwrap(), WAITING),
        Err(TransportError::Other(_))
    ));
    awaited.abort();
    assert!(awaited.await.unwrap_err().is_cancelled());
    drop(waiting.transport.dial(address.parse().unwrap(), WAITING).unwrap());
}

#[tokio::test]
async fn without_a_listener_there_is_nowhere_to_wait() {
    let mut waiting = End::new(Stack::Own);
    let remote = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("/ip4/127.0.0.1/udp/{}/quic-v1", remote.local_addr().unwrap().port());
    let refused = waiting.transport.dial(address.parse().unwrap(), WAITING);
    let Err(TransportError::Other(error)) = refused else { panic!("it waits") };
    assert!(error.to_string().contains("no listener"), "{error}");
}
