//! [`Network`]: peers of one DHT, each with a swarm of its own.

#![allow(clippy::wildcard_enum_match_arm, reason = "a test waits for a few of libp2p's many events")]

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures::StreamExt as _;
use ketch::swarm::{
    Keypair, Multiaddr, PeerId,
    kad::{self, Dht, LookupError, Whereabouts},
};
use libp2p::{
    Swarm, Transport as _,
    core::{transport::MemoryTransport, upgrade},
    kad::{Event, Mode, PutRecordError, QueryResult},
    plaintext,
    swarm::{self, SwarmEvent},
    yamux,
};
use tokio::{
    sync::{mpsc, oneshot},
    time::timeout,
};

/// Far above what anything here takes; it only keeps a failed test from hanging.
const PATIENCE: Duration = Duration::from_secs(300);

/// Peers of one DHT. They end with it.
pub(crate) struct Network {
    peers: Vec<Handle>,
    ports: Ports,
}

struct Handle {
    id: PeerId,
    commands: mpsc::Sender<Command>,
}

/// Where each peer is reached: what identify would tell.
type Ports = Arc<HashMap<PeerId, Multiaddr>>;

enum Command {
    /// Says how many others hold the record.
    Publish(oneshot::Sender<usize>),
    Find(PeerId, oneshot::Sender<Found>),
}

type Found = Result<Whereabouts, LookupError>;

impl Network {
    /// Peers that know the first one, and get to know the others through it.
    pub(crate) async fn joined(count: usize) -> Self {
        let (keys, ports) = identities(count);
        let first = keys[0].public().to_peer_id();
        let known = [(first, ports[&first].clone())];
        let mut peers = Vec::new();
        for key in keys {
            let mut peer = Peer::new(key, &ports);
            let (done, joined) = oneshot::channel();
            if !peers.is_empty() {
                peer.dht.join(peer.swarm.behaviour_mut(), &known);
                peer.joining = Some(done);
            }
            peers.push(peer.start());
            if peers.len() > 1 {
                timeout(PATIENCE, joined).await.unwrap().unwrap();
            }
        }
        Self { peers, ports }
    }

    /// Every peer leaves its addresses with all the others: there are fewer than may hold a record.
    pub(crate) async fn publish_all(&self) {
        for peer in &self.peers {
            assert_eq!(peer.ask(Command::Publish).await, self.peers.len() - 1, "holders");
        }
    }

    /// Each peer looks for the next one, one after another.
    pub(crate) async fn assert_each_finds_the_next(&self) {
        for (from, to) in self.peers.iter().zip(self.peers.iter().cycle().skip(1)) {
            let found = from.find(to.id).await.unwrap();
            assert_eq!((found.peer, found.addresses), (to.id, vec![self.ports[&to.id].clone()]));
        }
    }

    pub(crate) async fn assert_unknown_is_not_found(&self) {
        let stranger = PeerId::random();
        assert_eq!(self.peers[0].find(stranger).await, Err(LookupError::NotFound(stranger)));
    }
}

impl Handle {
    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> T {
        let (answer, answered) = oneshot::channel();
        assert!(self.commands.send(command(answer)).await.is_ok(), "it ends with the network");
        timeout(PATIENCE, answered).await.unwrap().unwrap()
    }

    async fn find(&self, peer: PeerId) -> Found {
        self.ask(|answer| Command::Find(peer, answer)).await
    }
}

/// One peer, and what it has been asked.
struct Peer {
    swarm: Swarm<kad::Behaviour>,
    dht: Dht,
    key: Keypair,
    ports: Ports,
    joining: Option<oneshot::Sender<()>>,
    publishing: Option<oneshot::Sender<usize>>,
}

impl Peer {
    fn new(key: Keypair, ports: &Ports) -> Self {
        let id = key.public().to_peer_id();
        let transport = MemoryTransport::default()
            .upgrade(upgrade::Version::V1Lazy)
            .authenticate(plaintext::Config::new(&key))
            .multiplex(yamux::Config::default())
            .boxed();
        let config = swarm::Config::with_tokio_executor().with_idle_connection_timeout(PATIENCE);
        let mut swarm = Swarm::new(transport, kad::behaviour(id), id, config);
        swarm.behaviour_mut().set_mode(Some(Mode::Server));
        swarm.listen_on(ports[&id].clone()).unwrap();
        let (dht, ports) = (Dht::default(), Arc::clone(ports));
        Self { swarm, dht, key, ports, joining: None, publishing: None }
    }

    fn start(self) -> Handle {
        let (commands, asked) = mpsc::channel(1);
        let id = *self.swarm.local_peer_id();
        tokio::spawn(self.run(asked));
        Handle { id, commands }
    }

    async fn run(mut self, mut asked: mpsc::Receiver<Command>) {
        loop {
            tokio::select! {
                event = self.swarm.select_next_some() => {
                    if let SwarmEvent::Behaviour(event) = event {
                        self.on_event(event);
                    }
                }
                command = asked.recv() => match command {
                    Some(command) => self.on_command(command),
                    None => return,
                },
            }
        }
    }

    fn on_command(&mut self, command: Command) {
        let kad = self.swarm.behaviour_mut();
        match command {
            Command::Publish(done) => {
                let address = self.ports[&self.key.public().to_peer_id()].clone();
                self.dht.publish(kad, &self.key, vec![address]).unwrap();
                self.publishing = Some(done);
            }
            Command::Find(peer, answer) => self.dht.find(kad, peer, answer),
        }
    }

    fn on_event(&mut self, event: Event) {
        let kad = self.swarm.behaviour_mut();
        if let Event::UnroutablePeer { peer } = &event {
            kad.add_address(peer, self.ports[peer].clone());
        }
        match &event {
            Event::OutboundQueryProgressed { result: QueryResult::Bootstrap(_), step, .. } if step.last => {
                if let Some(joining) = self.joining.take() {
                    joining.send(()).unwrap();
                }
            }
            Event::OutboundQueryProgressed { result: QueryResult::PutRecord(Err(error)), .. } => {
                let holders = match error {
                    PutRecordError::QuorumFailed { success, .. }
                    | PutRecordError::Timeout { success, .. } => success,
                };
                self.publishing.take().unwrap().send(holders.len()).unwrap();
            }
            _ => {}
        }
        self.dht.on_event(kad, event);
    }
}

/// Keys of as many peers, and where each is reached.
fn identities(count: usize) -> (Vec<Keypair>, Ports) {
    let keys: Vec<_> = (0..count).map(|_| Keypair::generate_ed25519()).collect();
    let place = |(at, key): (usize, &Keypair)| {
        (key.public().to_peer_id(), format!("/memory/{}", at + 1).parse().unwrap())
    };
    let ports = keys.iter().enumerate().map(place).collect();
    (keys, Arc::new(ports))
}
