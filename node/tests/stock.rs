//! A node meets peers built from stock libp2p, in both directions.

#![allow(clippy::wildcard_enum_match_arm, reason = "a test waits for a few of libp2p's many events")]

use std::time::Duration;

use futures::StreamExt;
use ketch::swarm::{Inbound, Keypair, Multiaddr, Node, NodeOptions, PeerId, TransportKind};
use libp2p::{
    Swarm, SwarmBuilder, identify, noise, ping,
    swarm::{NetworkBehaviour, SwarmEvent},
    tcp, tls, yamux,
};
use tokio::time::timeout;

/// Far above what anything here takes; it only keeps a failed test from hanging.
const PATIENCE: Duration = Duration::from_secs(30);

const STOCK_AGENT: &str = "stock/1";

const STACKS: [Stack; 3] = [Stack::Tls, Stack::Noise, Stack::Quic];

#[derive(Debug, Clone, Copy)]
enum Stack {
    Tls,
    Noise,
    Quic,
}

impl Stack {
    fn kind(self) -> TransportKind {
        match self {
            Self::Tls | Self::Noise => TransportKind::Tcp,
            Self::Quic => TransportKind::Quic,
        }
    }

    fn listen_address(self) -> Multiaddr {
        match self {
            Self::Tls | Self::Noise => "/ip4/127.0.0.1/tcp/0",
            Self::Quic => "/ip4/127.0.0.1/udp/0/quic-v1",
        }
        .parse()
        .unwrap()
    }

    fn swarm(self) -> Swarm<Stock> {
        let builder = SwarmBuilder::with_existing_identity(Keypair::generate_ed25519()).with_tokio();
        let (tcp, mux) = (tcp::Config::default(), yamux::Config::default);
        match self {
            Self::Tls => {
                let built = builder.with_tcp(tcp, tls::Config::new, mux).unwrap();
                built.with_behaviour(Stock::new).unwrap().with_swarm_config(patient).build()
            }
            Self::Noise => {
                let built = builder.with_tcp(tcp, noise::Config::new, mux).unwrap();
                built.with_behaviour(Stock::new).unwrap().with_swarm_config(patient).build()
            }
            Self::Quic => {
                let built = builder.with_quic();
                built.with_behaviour(Stock::new).unwrap().with_swarm_config(patient).build()
            }
        }
    }
}

fn patient(config: libp2p::swarm::Config) -> libp2p::swarm::Config {
    config.with_idle_connection_timeout(PATIENCE)
}

#[derive(NetworkBehaviour)]
struct Stock {
    identify: identify::Behaviour,
    ping: ping::Behaviour,
}

impl Stock {
    fn new(key: &Keypair) -> Self {
        let identify = identify::Config::new("/stock/1".into(), key.public());
        Self {
            identify: identify::Behaviour::new(identify.with_agent_version(STOCK_AGENT.into())),
            ping: ping::Behaviour::default(),
        }
    }
}

async fn node(listen: Vec<Multiaddr>) -> (Node, Inbound) {
    let ping_interval = Duration::from_millis(10);
    let options = NodeOptions { listen, ping_interval, ..NodeOptions::default() };
    Node::start(Keypair::generate_ed25519(), options).await.unwrap()
}

/// Runs a stock swarm until it knows the peer's agent and has a ping answered.
async fn meet(stock: &mut Swarm<Stock>, peer: PeerId) -> String {
    let (mut agent, mut pinged) = (None, false);
    loop {
        match stock.select_next_some().await {
            SwarmEvent::Behaviour(StockEvent::Identify(identify::Event::Received { info, .. })) => {
                agent = Some(info.agent_version);
            }
            SwarmEvent::Behaviour(StockEvent::Ping(event)) => {
                assert_eq!(event.peer, peer);
                event.result.unwrap();
                pinged = true;
            }
            SwarmEvent::OutgoingConnectionError { error, .. } => panic!("{error}"),
            _ => {}
        }
        if let (Some(agent), true) = (&agent, pinged) {
            return agent.clone();
        }
    }
}

#[tokio::test]
async fn stock_peers_reach_us() {
    for stack in STACKS {
        let (node, _inbound) = node(vec![stack.listen_address()]).await;
        let mut stock = stack.swarm();
        let address = node.listen_addresses().remove(0).with_p2p(node.peer()).unwrap();
        stock.dial(address).unwrap();
        let agent = timeout(PATIENCE, meet(&mut stock, node.peer())).await.unwrap();
        assert!(agent.starts_with("ketch/"), "{stack:?}: {agent}");
    }
}

#[tokio::test]
async fn we_reach_stock_peers() {
    for stack in STACKS {
        let mut stock = stack.swarm();
        let peer = *stock.local_peer_id();
        stock.listen_on(stack.listen_address()).unwrap();
        let address = loop {
            if let SwarmEvent::NewListenAddr { address, .. } = stock.select_next_some().await {
                break address;
            }
        };
        let running = tokio::spawn(async move { while stock.next().await.is_some() {} });

        let (node, _inbound) = node(vec![]).await;
        let connection = timeout(PATIENCE, node.dial(peer, vec![address])).await.unwrap().unwrap();
        let report = timeout(PATIENCE, node.ping(&connection, 2)).await.unwrap().unwrap();

        assert_eq!((report.transport, report.rtts.len()), (stack.kind(), 2));
        assert_eq!(report.agent.as_deref(), Some(STOCK_AGENT), "{stack:?}");
        running.abort();
    }
}

#[tokio::test]
async fn of_two_connections_that_one_dial_makes_one_is_closed() {
    let builder = SwarmBuilder::with_existing_identity(Keypair::generate_ed25519()).with_tokio();
    let built = builder.with_tcp(tcp::Config::default(), tls::Config::new, yamux::Config::default).unwrap();
    let built = built.with_quic().with_behaviour(Stock::new).unwrap();
    let mut stock = built.with_swarm_config(patient).build();
    let peer = *stock.local_peer_id();
    // Those of one transport are tried at once.
    stock.listen_on(Stack::Quic.listen_address()).unwrap();
    stock.listen_on(Stack::Quic.listen_address()).unwrap();
    let mut addresses = Vec::new();
    while addresses.len() < 2 {
        if let SwarmEvent::NewListenAddr { address, .. } = stock.select_next_some().await {
            addresses.push(address);
        }
    }

    let (node, _inbound) = node(vec![]).await;
    let dialing = tokio::spawn(async move { (node.dial(peer, addresses).await.unwrap(), node) });
    // The one that is late may be given up before its handshake has ended here.
    let (mut established, mut closed, mut given_up) = (0, 0, 0);
    let settled = async {
        while (established - closed, closed + given_up) != (1, 1) {
            match stock.select_next_some().await {
                SwarmEvent::ConnectionEstablished { .. } => established += 1,
                SwarmEvent::ConnectionClosed { .. } => closed += 1,
                SwarmEvent::IncomingConnectionError { .. } => given_up += 1,
                _ => {}
            }
        }
    };
    timeout(PATIENCE, settled).await.unwrap();
    let (connection, _node) = dialing.await.unwrap();
    assert_eq!(connection.peer(), peer);
}
