//! Listeners: their addresses, their end, what outlives it.

use std::{
    net::{Ipv4Addr, UdpSocket},
    time::Duration,
};

use libp2p_core::{
    Transport,
    multiaddr::Protocol,
    transport::{ListenerId, TransportError, TransportEvent},
};

use crate::ends::{DIALER, End, Stack, connect, pair, receive, send};

#[tokio::test]
async fn a_wildcard_listens_on_every_interface_of_its_family() {
    let mut end = End::new(Stack::Own);
    let (id, first) = end.listen("/ip4/0.0.0.0/udp/0/quic-v1").await;
    let port = first.iter().nth(1).unwrap();
    let mut addresses = vec![first.clone()];
    let loopback = format!("/ip4/127.0.0.1{}/quic-v1", libp2p_core::Multiaddr::from(port.clone()));
    while !addresses.contains(&loopback.parse().unwrap()) {
        match end.event().await {
            TransportEvent::NewAddress { listener_id, listen_addr } => {
                assert_eq!(listener_id, id);
                addresses.push(listen_addr);
            }
            other => panic!("{other:?}"),
        }
    }
    for address in addresses {
        let parts: Vec<_> = address.iter().collect();
        assert!(matches!(parts[0], Protocol::Ip4(ip) if !ip.is_unspecified()), "{address}");
        assert_eq!(parts[1..], [port.clone(), Protocol::QuicV1], "{address}");
    }
}

#[tokio::test]
async fn a_removed_listener_says_so_and_its_connections_live_on() {
    let (mut dialer, mut listener) = (End::new(Stack::Own), End::new(Stack::Own));
    let (id, address) = listener.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let mut connected = connect(&mut dialer, &mut listener, &address, DIALER).await;

    assert!(listener.transport.remove_listener(id));
    assert!(!listener.transport.remove_listener(id));
    match listener.event().await {
        TransportEvent::ListenerClosed { listener_id, reason: Ok(()) } => assert_eq!(listener_id, id),
        other => panic!("{other:?}"),
    }
    let mut near = connected.dialer.open().await;
    send(&mut near, b"still here").await;
    let mut far = connected.listener.accept().await.unwrap();
    assert_eq!(receive(&mut far).await, b"still here");
    // Nobody new is taken.
    let mut late = End::impatient(Duration::from_millis(300));
    assert!(late.transport.dial(address, DIALER).unwrap().await.is_err());
    listener.must_be_quiet();
}

#[tokio::test]
async fn several_listeners_accept_side_by_side() {
    let (mut dialer, mut listener) = (End::new(Stack::Own), End::new(Stack::Own));
    let (_, first) = listener.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let (_, second) = listener.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    assert_ne!(first, second);
    for address in [first, second] {
        let connected = connect(&mut dialer, &mut listener, &address, DIALER).await;
        assert_eq!(connected.local, address);
    }
}

#[tokio::test]
async fn ipv6_is_spoken_where_the_machine_has_it() {
    if UdpSocket::bind("[::1]:0").is_err() {
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), "skipped: this machine has no IPv6 loopback");
        return;
    }
    let (mut dialer, mut listener) = (End::new(Stack::Own), End::new(Stack::Stock));
    let (_, address) = listener.listen("/ip6/::1/udp/0/quic-v1").await;
    connect(&mut dialer, &mut listener, &address, DIALER).await;
    let (mut dialer, mut listener) = (End::new(Stack::Stock), End::new(Stack::Own));
    let (_, address) = listener.listen("/ip6/::1/udp/0/quic-v1").await;
    connect(&mut dialer, &mut listener, &address, DIALER).await;
}

#[tokio::test]
async fn a_taken_port_and_a_foreign_address_are_refused() {
    let mut end = End::new(Stack::Own);
    let taken = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = format!("/ip4/127.0.0.1/udp/{}/quic-v1", taken.local_addr().unwrap().port());
    let error = end.transport.listen_on(ListenerId::next(), address.parse().unwrap()).unwrap_err();
    let TransportError::Other(error) = error else { panic!("{error:?}") };
    assert!(error.to_string().contains("Address already in use"), "{error}");
    for foreign in ["/ip4/127.0.0.1/udp/0", "/dns4/localhost/udp/0/quic-v1", "/ip4/127.0.0.1/udp/0/quic"] {
        let error = end.transport.listen_on(ListenerId::next(), foreign.parse().unwrap()).unwrap_err();
        assert!(matches!(error, TransportError::MultiaddrNotSupported(_)), "{foreign}");
    }
}

#[tokio::test]
async fn the_peer_of_either_stack_is_who_it_proves_to_be() {
    // `connect` compares both proved PeerIds with those of the identities.
    for (dialer, listener) in [(Stack::Own, Stack::Stock), (Stack::Stock, Stack::Own)] {
        let (dialer, listener, _connected) = pair(dialer, listener).await;
        assert_ne!(dialer.peer, listener.peer);
    }
}
