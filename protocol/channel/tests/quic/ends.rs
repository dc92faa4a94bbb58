//! The two ends of a connection, each of either stack.

use std::{
    future::poll_fn,
    pin::Pin,
    task::{Context, Waker},
    time::Duration,
};

use futures::{AsyncReadExt, AsyncWriteExt, StreamExt};
use ketch_channel::{ChannelSettings, Deadlines, Gauges};
use libp2p_core::{
    Endpoint, Multiaddr, Transport,
    muxing::{StreamMuxerBox, StreamMuxerExt, SubstreamBox},
    transport::{Boxed, DialOpts, ListenerId, PortUse, TransportEvent},
};
use libp2p_identity::{Keypair, PeerId};

/// Far above what anything here takes; it only keeps a failed test from hanging.
const PATIENCE: Duration = Duration::from_secs(30);

type Upgrade = <Boxed<(PeerId, StreamMuxerBox)> as Transport>::ListenerUpgrade;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stack {
    Own,
    Stock,
}

/// One side, with its transport.
pub(crate) struct End {
    pub(crate) peer: PeerId,
    pub(crate) transport: Boxed<(PeerId, StreamMuxerBox)>,
    /// Empty for the stock stack.
    pub(crate) gauges: Gauges,
}

impl End {
    pub(crate) fn new(stack: Stack) -> Self {
        let identity = Keypair::generate_ed25519();
        let peer = identity.public().to_peer_id();
        match stack {
            Stack::Own => Self::own(&identity, Deadlines::default()),
            Stack::Stock => {
                let stock = libp2p_quic::tokio::Transport::new(libp2p_quic::Config::new(&identity));
                let boxed =
                    stock.map(|(peer, connection), _| (peer, StreamMuxerBox::new(connection))).boxed();
                Self { peer, transport: boxed, gauges: Gauges::default() }
            }
        }
    }

    pub(crate) fn impatient(setup: Duration) -> Self {
        Self::own(&Keypair::generate_ed25519(), Deadlines { connect: setup, setup })
    }

    pub(crate) fn own(identity: &Keypair, deadlines: Deadlines) -> Self {
        let settings = ChannelSettings::default();
        let (transport, gauges) = ketch_channel::transport(identity, deadlines, settings).unwrap();
        Self { peer: identity.public().to_peer_id(), transport, gauges }
    }

    /// Listens and waits for the first address.
    pub(crate) async fn listen(&mut self, address: &str) -> (ListenerId, Multiaddr) {
        let id = ListenerId::next();
        self.transport.listen_on(id, address.parse().unwrap()).unwrap();
        match self.event().await {
            TransportEvent::NewAddress { listener_id, listen_addr } => {
                assert_eq!(listener_id, id);
                (id, listen_addr)
            }
            other => panic!("{other:?}"),
        }
    }

    pub(crate) async fn event(&mut self) -> TransportEvent<Upgrade, std::io::Error> {
        tokio::time::timeout(PATIENCE, self.transport.select_next_some()).await.expect("no event")
    }

    /// Lets the transport do what is due, which must be nothing that it reports.
    pub(crate) fn must_be_quiet(&mut self) {
        let polled = Pin::new(&mut self.transport).poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending(), "{polled:?}");
    }
}

pub(crate) const DIALER: DialOpts = DialOpts { role: Endpoint::Dialer, port_use: PortUse::Reuse };

/// The two ends of one connection.
pub(crate) struct Connected {
    pub(crate) dialer: Side,
    pub(crate) listener: Side,
    /// From where the listener saw the dialer come.
    pub(crate) seen: Multiaddr,
    pub(crate) local: Multiaddr,
}

pub(crate) struct Side(pub(crate) StreamMuxerBox);

pub(crate) async fn connect(
    dialer: &mut End,
    listener: &mut End,
    address: &Multiaddr,
    options: DialOpts,
) -> Connected {
    let dial = dialer.transport.dial(address.clone(), options).unwrap();
    let accept = async {
        match listener.event().await {
            TransportEvent::Incoming { upgrade, local_addr, send_back_addr, .. } => {
                (upgrade.await.unwrap(), local_addr, send_back_addr)
            }
            other => panic!("{other:?}"),
        }
    };
    let both = async { futures::join!(dial, accept) };
    let (dialed, (accepted, local, seen)) =
        tokio::time::timeout(PATIENCE, both).await.expect("no connection");
    let (met, dialed) = dialed.unwrap();
    assert_eq!((met, accepted.0), (listener.peer, dialer.peer));
    Connected { dialer: Side(dialed), listener: Side(accepted.1), seen, local }
}

/// Two ends of the given stacks, connected over IPv4 loopback. The ends must be kept.
pub(crate) async fn pair(dialer: Stack, listener: Stack) -> (End, End, Connected) {
    let (mut dialer, mut listener) = (End::new(dialer), End::new(listener));
    let (_, address) = listener.listen("/ip4/127.0.0.1/udp/0/quic-v1").await;
    let connected = connect(&mut dialer, &mut listener, &address, DIALER).await;
    (dialer, listener, connected)
}

impl Side {
    pub(crate) async fn open(&mut self) -> SubstreamBox {
        let opened = poll_fn(|context| self.0.poll_outbound_unpin(context));
        tokio::time::timeout(PATIENCE, opened).await.expect("no stream").unwrap()
    }

    pub(crate) async fn accept(&mut self) -> std::io::Result<SubstreamBox> {
        let accepted = poll_fn(|context| self.0.poll_inbound_unpin(context));
        tokio::time::timeout(PATIENCE, accepted).await.expect("no stream")
    }

    pub(crate) async fn close(&mut self) {
        let closed = poll_fn(|context| self.0.poll_close_unpin(context));
        tokio::time::timeout(PATIENCE, closed).await.expect("it does not close").unwrap();
    }
}

/// Writes everything and ends the direction.
pub(crate) async fn send(stream: &mut SubstreamBox, bytes: &[u8]) {
    stream.write_all(bytes).await.unwrap();
    stream.close().await.unwrap();
}

/// Reads to the end, which must be a clean one.
pub(crate) async fn receive(stream: &mut SubstreamBox) -> Vec<u8> {
    let mut bytes = Vec::new();
    tokio::time::timeout(PATIENCE, stream.read_to_end(&mut bytes)).await.expect("no end").unwrap();
    bytes
}

/// Bytes that differ from place to place.
pub(crate) fn content(length: usize) -> Vec<u8> {
    (0..length).map(|place| (place % 251) as u8).collect()
}
