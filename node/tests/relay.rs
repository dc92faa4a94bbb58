//! Peers that meet through a relay: reservations, circuits, and what ends them.

use std::time::Duration;

use futures::{AsyncReadExt as _, AsyncWriteExt as _};
use ketch::swarm::{Inbound, Keypair, Node, NodeOptions, Relay, RelayOptions, RelayServer, TransportKind};
use tokio::time::timeout;

/// Far above what anything here takes; it only keeps a failed test from hanging.
const PATIENCE: Duration = Duration::from_secs(30);

const LISTEN: [&str; 2] = ["/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"];

async fn relay() -> RelayServer {
    let listen = LISTEN.iter().map(|address| address.parse().unwrap()).collect();
    let options = RelayOptions { listen, ..RelayOptions::default() };
    RelayServer::start(Keypair::generate_ed25519(), options).await.unwrap()
}

async fn node() -> (Node, Inbound) {
    Node::start(Keypair::generate_ed25519(), NodeOptions::default()).await.unwrap()
}

/// How to find a relay over one transport.
fn known(relay: &RelayServer, kind: TransportKind) -> Relay {
    let addresses = relay.addresses().into_iter();
    let addresses = addresses.filter(|address| TransportKind::of(address) == Some(kind)).collect();
    Relay { peer: relay.peer(), addresses }
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.expect("it takes far less")
}

#[tokio::test]
async fn a_peer_without_a_listener_is_reached_through_its_relay_over_both_transports() {
    for kind in [TransportKind::Tcp, TransportKind::Quic] {
        let (relay, (hidden, mut inbound), (dialer, _other)) = (relay().await, node().await, node().await);
        let reservation = within(hidden.reserve(&known(&relay, kind))).await.unwrap();
        let addresses = reservation.addresses();
        let connection = within(dialer.dial(hidden.peer(), addresses[..1].to_vec())).await.unwrap();
        assert_eq!(connection.peer(), hidden.peer());
        assert_eq!(connection.transport(), kind);
        assert_eq!(connection.circuit().unwrap().relay, relay.peer());
        assert!(connection.circuit().unwrap().limit.bytes.is_some());

        let mut stream = within(connection.open_stream()).await.unwrap();
        stream.write_all(b"over").await.unwrap();
        stream.close().await.unwrap();
        let (came, mut taken) = within(inbound.next()).await.unwrap();
        let mut read = Vec::new();
        within(taken.read_to_end(&mut read)).await.unwrap();
        assert_eq!(read, b"over");
        assert_eq!((came.peer(), came.circuit().unwrap().relay), (dialer.peer(), relay.peer()));
    }
}
