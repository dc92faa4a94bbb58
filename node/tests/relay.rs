//! Peers that meet through a relay: reservations, circuits, what ends them, and names under which peers are found.

use std::{collections::HashSet, sync::Arc, time::Duration};

use futures::{AsyncReadExt as _, AsyncWriteExt as _, FutureExt as _, StreamExt as _, future::join_all};
use ketch::{
    introduction::{AtRelays, Meeting as _, MeetingError},
    relay::{Allowance, Carrying, Policy},
    swarm::{
        CloseReason, Connection, Inbound, KeptReservations, Keypair, MeetingName, Node, NodeOptions, Relay,
        RelayOptions, RelayServer, Stream, TransportKind,
    },
    trust::code::Nameplate,
};
use libp2p::{
    Multiaddr, Swarm, SwarmBuilder, noise, ping, relay,
    swarm::{NetworkBehaviour, SwarmEvent},
    tcp, yamux,
};
use tokio::time::timeout;

/// Far above what anything here takes; it only keeps a failed test from hanging.
const PATIENCE: Duration = Duration::from_secs(60);

const LISTEN: [&str; 2] = ["/ip4/127.0.0.1/tcp/0", "/ip4/127.0.0.1/udp/0/quic-v1"];

async fn relay_with(policy: Policy) -> RelayServer {
    let listen = LISTEN.iter().map(|address| address.parse().unwrap()).collect();
    let options = RelayOptions { listen, policy, ..RelayOptions::default() };
    RelayServer::start(Keypair::generate_ed25519(), options).await.unwrap()
}

async fn relay() -> RelayServer {
    relay_with(Policy::default()).await
}

/// A node that nobody can dial, and that knows these relays.
async fn hidden(relays: Vec<Relay>) -> (Node, Inbound) {
    let options = NodeOptions { relays, ..NodeOptions::default() };
    Node::start(Keypair::generate_ed25519(), options).await.unwrap()
}

fn known(relay: &RelayServer) -> Relay {
    Relay { peer: relay.peer(), addresses: relay.addresses() }
}

/// How to find a relay over one transport.
fn known_over(relay: &RelayServer, kind: TransportKind) -> Relay {
    let Relay { peer, mut addresses } = known(relay);
    addresses.retain(|address| TransportKind::of(address) == Some(kind));
    Relay { peer, addresses }
}

async fn within<T>(work: impl Future<Output = T>) -> T {
    timeout(PATIENCE, work).await.expect("it takes far less")
}

/// A circuit to a hidden node, which has a reservation as long as what is returned lives.
async fn circuit(relay: &RelayServer, kind: TransportKind) -> (Connection, (Node, Inbound), Node) {
    let (to, from) = (hidden(Vec::new()).await, hidden(Vec::new()).await.0);
    let reservation = within(to.0.reserve(&known_over(relay, kind))).await.unwrap();
    let connection = within(from.dial(to.0.peer(), reservation.addresses()[..1].to_vec())).await.unwrap();
    (connection, to, from)
}

/// A stream with some first bytes, at both of its ends.
async fn stream(connection: &Connection, inbound: &mut Inbound) -> (Stream, Connection, Stream) {
    let mut stream = within(connection.open_stream()).await.unwrap();
    stream.write_all(b"over").await.unwrap();
    let (came, mut taken) = within(inbound.next()).await.unwrap();
    let mut read = [0; 4];
    within(taken.read_exact(&mut read)).await.unwrap();
    assert_eq!(&read, b"over");
    (stream, came, taken)
}

#[tokio::test]
async fn a_peer_that_nobody_can_dial_is_reached_through_its_relay_over_both_transports() {
    for kind in [TransportKind::Tcp, TransportKind::Quic] {
        let relay = relay().await;
        let (connection, (to, mut inbound), from) = circuit(&relay, kind).await;
        assert_eq!((connection.peer(), connection.transport()), (to.peer(), kind));
        let circuit = connection.circuit().unwrap();
        assert_eq!((circuit.relay, circuit.limit.bytes), (relay.peer(), Policy::default().circuit.bytes));

        let (_stream, came, _taken) = stream(&connection, &mut inbound).await;
        assert_eq!((came.peer(), came.circuit().unwrap().relay), (from.peer(), relay.peer()));
    }
}

/// A node that listens, so that a hole can be punched for it.
async fn listening() -> (Node, Inbound) {
    let listen = LISTEN.iter().map(|address| address.parse().unwrap()).collect();
    let options = NodeOptions { listen, ..NodeOptions::default() };
    Node::start(Keypair::generate_ed25519(), options).await.unwrap()
}

#[tokio::test]
async fn a_circuit_is_closed_on_both_sides_once_there_is_a_direct_connection() {
    let (relay, (to, mut inbound), (from, _from_inbound)) =
        (relay().await, listening().await, listening().await);
    let reservation = within(to.reserve(&known(&relay))).await.unwrap();
    let circuit = within(from.dial(to.peer(), reservation.addresses()[..1].to_vec())).await.unwrap();
    let (_stream, circuit_there, _taken) = stream(&circuit, &mut inbound).await;
    let direct = within(from.direct(&circuit, None)).await.unwrap();
    assert!(direct.circuit().is_none());
    assert_eq!(within(circuit.closed()).await, CloseReason::Local);
    within(circuit_there.closed()).await;
    // What carries the session is another one, and both have the same.
    let (_stream, direct_there, _taken) = stream(&direct, &mut inbound).await;
    assert!(direct_there.circuit().is_none());
    assert_eq!(direct_there.transport(), direct.transport());
}

#[tokio::test]
async fn what_a_relay_refuses_is_said_in_words() {
    let relay = relay_with(Policy { reservations: 1, circuits: 1, ..Policy::default() }).await;
    let (_connection, (to, _inbound), from) = circuit(&relay, TransportKind::Tcp).await;
    let (stranger, _) = hidden(Vec::new()).await;
    let refused = within(stranger.reserve(&known(&relay))).await.unwrap_err().to_string();
    assert!(refused.contains("no room for another reservation"), "{refused}");
    assert!(refused.contains(&relay.peer().to_string()), "{refused}");

    let through =
        |address: &Multiaddr| format!("{address}/p2p/{}/p2p-circuit", relay.peer()).parse().unwrap();
    let addresses: Vec<Multiaddr> = relay.addresses().iter().map(through).collect();
    let refused = within(from.dial(to.peer(), addresses.clone())).await.unwrap_err().to_string();
    assert!(refused.contains("no room for another circuit"), "{refused}");
    let refused = within(from.dial(stranger.peer(), addresses)).await.unwrap_err().to_string();
    assert!(refused.contains("no reservation at the relay"), "{refused}");

    let counts = relay.metrics()();
    for line in [
        "ketch_relay_reservations 1\n",
        "ketch_relay_circuits 1\n",
        "{reason=\"reservations\"} 1\n",
        "{reason=\"circuits\"} 2\n",
        "{reason=\"no_reservation\"}",
    ] {
        assert!(counts.contains(line), "{line} in {counts}");
    }
}

#[tokio::test]
async fn a_circuit_that_is_cut_never_looks_like_the_end_of_a_stream() {
    for (bytes, time) in [(Some(64 * 1024), None), (None, Some(Duration::from_secs(1)))] {
        let relay = relay_with(Policy { circuit: Allowance { bytes, time }, ..Policy::default() }).await;
        let (connection, (_to, mut inbound), _from) = circuit(&relay, TransportKind::Tcp).await;
        let (mut sent, came, mut taken) = stream(&connection, &mut inbound).await;
        let write = async {
            let block = vec![7; 4096];
            while sent.write_all(&block).await.is_ok() {}
        };
        let mut block = vec![0; 4096];
        let read = async {
            loop {
                match taken.read(&mut block).await {
                    Ok(0) => panic!("a circuit that was cut looked like an end"),
                    Ok(_) => {}
                    Err(_) => return,
                }
            }
        };
        within(futures::future::join(write, read)).await;
        for connection in [&connection, &came] {
            let reason = within(connection.closed()).await;
            let CloseReason::Circuit { circuit, .. } = &reason else { panic!("{reason}") };
            assert_eq!(circuit.relay, relay.peer());
            assert_eq!((circuit.limit.bytes, circuit.limit.time), (bytes, time));
        }
    }
}

#[tokio::test]
async fn a_listed_peer_has_no_limit_whoever_dials() {
    let keypair = Keypair::generate_ed25519();
    let listed = [(keypair.public().to_peer_id(), Carrying::On)].into();
    let relay = relay_with(Policy { carrying: Carrying::Off, listed, ..Policy::default() }).await;
    let (to, _inbound) = Node::start(keypair, NodeOptions::default()).await.unwrap();
    let (from, _) = hidden(Vec::new()).await;
    let reservation = within(to.reserve(&known(&relay))).await.unwrap();
    let connection = within(from.dial(to.peer(), reservation.addresses())).await.unwrap();
    assert_eq!(connection.circuit().unwrap().limit.bytes, None);
}

#[tokio::test]
async fn where_no_data_is_carried_peers_still_meet() {
    let relay = relay_with(Policy { carrying: Carrying::Off, ..Policy::default() }).await;
    let (connection, (_to, mut inbound), from) = circuit(&relay, TransportKind::Quic).await;
    stream(&connection, &mut inbound).await;
    within(from.ping(&connection, 1)).await.unwrap();
    let counts = relay.metrics()();
    let carried = counts.lines().find_map(|line| line.strip_prefix("ketch_relay_carried_bytes_total "));
    let (carried, most) =
        (carried.unwrap().parse::<u64>().unwrap(), connection.circuit().unwrap().limit.bytes);
    assert!(carried < most.unwrap() / 4, "{carried} of {most:?}");
}

#[tokio::test]
async fn a_lost_relay_is_replaced() {
    let relays = [relay().await, relay().await, relay().await];
    let (node, _inbound) = hidden(relays.iter().map(known).collect()).await;
    let mut kept = node.keep_reservations();
    within(kept.settled()).await;
    let before = held(&kept);
    assert_eq!(before.len(), 2);

    let lost = relays.iter().find(|relay| before.contains(&relay.peer())).unwrap();
    lost.shutdown().await;
    let expected: HashSet<_> =
        relays.iter().map(RelayServer::peer).filter(|relay| *relay != lost.peer()).collect();
    within(async {
        while held(&kept) != expected {
            kept.changed().await;
        }
    })
    .await;
    assert!(kept.troubles()[0].to_string().contains(&lost.peer().to_string()));
}

fn held(kept: &KeptReservations) -> HashSet<ketch::swarm::PeerId> {
    kept.held().iter().map(|reservation| reservation.relay()).collect()
}

#[tokio::test]
async fn a_relay_that_tries_our_addresses_is_no_duplicate_of_the_one_with_the_reservation() {
    // Which of two connections is too much depends on who has the greater PeerId.
    let mut keys = [Keypair::generate_ed25519(), Keypair::generate_ed25519()];
    keys.sort_by_key(|key| key.public().to_peer_id());
    let [lesser, greater] = keys;
    within(futures::future::join(
        stays_reserved(lesser.clone(), greater.clone()),
        stays_reserved(greater, lesser),
    ))
    .await;
}

async fn stays_reserved(own: Keypair, relay: Keypair) {
    let listen: Vec<_> = LISTEN[..1].iter().map(|address| address.parse().unwrap()).collect();
    let options = RelayOptions { listen: listen.clone(), ..RelayOptions::default() };
    let relay = RelayServer::start(relay, options).await.unwrap();
    let duplicate_grace = Duration::from_millis(1);
    let ping_interval = Duration::from_millis(50);
    let options = NodeOptions { listen, duplicate_grace, ping_interval, ..NodeOptions::default() };
    let (node, _inbound) = Node::start(own, options).await.unwrap();
    let reservation = node.reserve(&known(&relay)).await.unwrap();
    let is_confirmed =
        || node.external_addresses().iter().any(|address| !address.to_string().contains("circuit"));
    while !is_confirmed() {
        node.ping(reservation.connection(), 1).await.unwrap();
    }
    node.ping(reservation.connection(), 1).await.unwrap();
    assert!(reservation.ended().now_or_never().is_none());
}

#[tokio::test]
async fn a_peer_is_found_by_its_peer_id_alone() {
    let relay = Arc::new(relay().await);
    let (to, mut inbound) = hidden(vec![known(&relay)]).await;
    let kept = to.keep_reservations();
    within(kept.settled()).await;
    let (from, _) = hidden(vec![known(&relay)]).await;
    let addresses = within(from.addresses_at_relays(to.peer())).await;
    let connection = within(from.dial(to.peer(), addresses)).await.unwrap();
    stream(&connection, &mut inbound).await;
}

#[tokio::test]
async fn who_has_left_addresses_under_a_name_is_found_until_it_takes_them_back() {
    let relay = relay().await;
    let (one, _) = hidden(vec![known(&relay)]).await;
    let (other, _) = hidden(vec![known(&relay)]).await;
    let name = MeetingName::new("ketch/test/7".into()).unwrap();
    assert_eq!(within(other.discover(&name)).await.unwrap(), []);
    let unreachable = within(one.register(&name)).await.unwrap_err();
    assert_eq!(unreachable, ketch::swarm::RendezvousError::NoAddress);

    let kept = one.keep_reservations();
    within(kept.settled()).await;
    within(one.register(&name)).await.unwrap();
    let found = within(other.discover(&name)).await.unwrap();
    assert_eq!((found.len(), found[0].peer), (1, one.peer()));
    let connection = within(other.dial(found[0].peer, found[0].addresses.clone())).await.unwrap();
    assert_eq!(connection.peer(), one.peer());

    within(one.unregister(&name)).await;
    assert_eq!(within(other.discover(&name)).await.unwrap(), []);
}

#[tokio::test]
async fn the_number_of_a_code_leads_to_its_maker_and_is_nobody_elses_until_it_is_withdrawn() {
    let relay = relay().await;
    let (one, _one) = hidden(vec![known(&relay)]).await;
    let (other, _other) = hidden(vec![known(&relay)]).await;
    let kept = [one.keep_reservations(), other.keep_reservations()];
    within(join_all(kept.iter().map(KeptReservations::settled))).await;
    let (there, here) = (AtRelays::of(&one).unwrap(), AtRelays::of(&other).unwrap());
    let seven = Nameplate::new(7).unwrap();

    let present = within(there.announce(seven)).await.unwrap();
    let found = within(here.find(seven)).await.unwrap();
    assert_eq!((found.len(), found[0].peer), (1, one.peer()));
    assert_eq!(within(here.find(Nameplate::new(8).unwrap())).await, Ok(Vec::new()));
    let connection = within(other.dial(found[0].peer, found[0].addresses.clone())).await.unwrap();
    assert_eq!(connection.peer(), one.peer());

    // Who finds it taken leaves nothing there.
    let taken = within(here.announce(seven)).await.err();
    assert_eq!(taken, Some(MeetingError::Taken(seven)));
    assert_eq!(within(there.find(seven)).await.unwrap().len(), 1);

    within(present.withdraw()).await;
    assert_eq!(within(here.find(seven)).await, Ok(Vec::new()));
    assert!(within(here.announce(seven)).await.is_ok());
}

#[tokio::test]
async fn without_a_relay_nobody_is_found_and_nothing_is_left() {
    let (node, _) = hidden(Vec::new()).await;
    let name = MeetingName::of_peer(&node.peer());
    assert!(AtRelays::of(&node).is_none());
    assert!(within(node.register(&name)).await.is_err());
    assert!(within(node.addresses_at_relays(node.peer())).await.is_empty());
    within(node.keep_reservations().settled()).await;
}

#[tokio::test]
async fn many_identities_behind_one_address_leave_room_for_others() {
    let relay = relay_with(Policy { reservations_per_address: 8, ..Policy::default() }).await;
    let relay_at = known_over(&relay, TransportKind::Quic);
    let crowd = join_all((0..64).map(|_| hidden(Vec::new()))).await;
    let asked = crowd.iter().map(|(node, _)| node.reserve(&relay_at));
    let granted = within(join_all(asked)).await.into_iter().filter(Result::is_ok).count();
    assert_eq!(granted, 8);
    let counts = relay.metrics()();
    assert!(counts.contains("ketch_relay_reservations 8\n"), "{counts}");
    assert!(counts.contains("{reason=\"reservations_per_address\"} 56\n"), "{counts}");
}

#[derive(NetworkBehaviour)]
struct Stock {
    relay: relay::client::Behaviour,
    ping: ping::Behaviour,
}

fn stock() -> Swarm<Stock> {
    SwarmBuilder::with_existing_identity(Keypair::generate_ed25519())
        .with_tokio()
        .with_tcp(tcp::Config::default(), noise::Config::new, yamux::Config::default)
        .unwrap()
        .with_relay_client(noise::Config::new, yamux::Config::default)
        .unwrap()
        .with_behaviour(|_, relay| Stock { relay, ping: ping::Behaviour::default() })
        .unwrap()
        .with_swarm_config(|config| config.with_idle_connection_timeout(PATIENCE))
        .build()
}

/// Runs a stock peer until something happens.
async fn until<T>(stock: &mut Swarm<Stock>, happened: impl Fn(SwarmEvent<StockEvent>) -> Option<T>) -> T {
    within(async {
        loop {
            if let Some(found) = happened(stock.select_next_some().await) {
                return found;
            }
        }
    })
    .await
}

#[tokio::test]
#[allow(clippy::wildcard_enum_match_arm, reason = "a test waits for a few of libp2p's many events")]
async fn stock_peers_reserve_here_are_reached_by_us_and_reach_us() {
    let relay = relay().await;
    let mut stock = stock();
    let peer = *stock.local_peer_id();
    let Relay { addresses, .. } = known_over(&relay, TransportKind::Tcp);
    let through: Multiaddr = format!("{}/p2p/{}/p2p-circuit", addresses[0], relay.peer()).parse().unwrap();
    stock.listen_on(through.clone()).unwrap();
    until(&mut stock, |event| match event {
        SwarmEvent::NewListenAddr { .. } => Some(()),
        _ => None,
    })
    .await;

    let (node, _inbound) = hidden(Vec::new()).await;
    let _reservation = within(node.reserve(&known(&relay))).await.unwrap();
    let to_us = through.clone().with(libp2p::multiaddr::Protocol::P2p(node.peer()));
    stock.dial(to_us).unwrap();
    let us = node.peer();
    until(&mut stock, |event| match event {
        SwarmEvent::ConnectionEstablished { peer_id, .. } if peer_id == us => Some(()),
        SwarmEvent::OutgoingConnectionError { error, .. } => panic!("{error}"),
        _ => None,
    })
    .await;

    let running = tokio::spawn(async move { while stock.next().await.is_some() {} });
    let connection = within(node.dial(peer, vec![through])).await.unwrap();
    assert_eq!(connection.circuit().unwrap().relay, relay.peer());
    within(node.ping(&connection, 1)).await.unwrap();
    running.abort();
}
