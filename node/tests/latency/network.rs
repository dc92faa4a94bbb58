//! A libp2p transport in memory whose streams take their time. A dial takes a round trip.

use std::{
    collections::{HashMap, VecDeque},
    io,
    pin::Pin,
    sync::{Arc, Mutex},
    task::{Context, Poll, ready},
    time::Duration,
};

use futures::{
    FutureExt as _, StreamExt as _,
    channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded},
    future::{BoxFuture, Ready, ready as at_once},
};
use ketch::swarm::{Multiaddr, PeerId};
use libp2p::{
    core::{
        Transport,
        muxing::{StreamMuxer, StreamMuxerBox, StreamMuxerEvent},
        transport::{Boxed, DialOpts, ListenerId, TransportError, TransportEvent},
    },
    multiaddr::Protocol,
};
use tokio::time::{Instant, sleep, sleep_until};

use crate::wire::End;

/// Where a node of the tests listens: such as no machine has (RFC 5737), and of a transport that ketch knows.
pub(crate) const ADDRESS: &str = "/ip4/192.0.2.1/udp/4001/quic-v1";

/// What joins the nodes of a test. Clones share it.
#[derive(Clone)]
pub(crate) struct Network {
    round_trip: Duration,
    listeners: Arc<Mutex<HashMap<Multiaddr, Listener>>>,
}

/// Who listens somewhere, and where it takes connections.
#[derive(Clone)]
struct Listener {
    peer: PeerId,
    incoming: UnboundedSender<Connected>,
}

type Connected = (PeerId, StreamMuxerBox);

impl Network {
    pub(crate) fn new(round_trip: Duration) -> Self {
        Self { round_trip, listeners: Arc::default() }
    }

    /// A node's way into it. Nobody has to prove anything: there is nobody else.
    pub(crate) fn transport(&self, own: PeerId) -> Boxed<Connected> {
        Member { network: self.clone(), own, listening: Vec::new(), new: VecDeque::new() }.boxed()
    }
}

struct Member {
    network: Network,
    own: PeerId,
    listening: Vec<(ListenerId, Multiaddr, UnboundedReceiver<Connected>)>,
    new: VecDeque<(ListenerId, Multiaddr)>,
}

impl Transport for Member {
    type Output = Connected;
    type Error = io::Error;
    type ListenerUpgrade = Ready<Result<Connected, io::Error>>;
    type Dial = BoxFuture<'static, Result<Connected, io::Error>>;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<io::Error>> {
        let (incoming, accepted) = unbounded();
        let listener = Listener { peer: self.own, incoming };
        self.network.listeners.lock().unwrap().insert(address.clone(), listener);
        self.listening.push((id, address.clone(), accepted));
        self.new.push_back((id, address));
        Ok(())
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        let before = self.listening.len();
        self.listening.retain(|(listener, ..)| *listener != id);
        self.listening.len() < before
    }

    fn dial(&mut self, address: Multiaddr, _: DialOpts) -> Result<Self::Dial, TransportError<io::Error>> {
        let (network, own) = (self.network.clone(), self.own);
        // Who is dialed stands behind where.
        let address: Multiaddr = address.iter().filter(|part| !matches!(part, Protocol::P2p(_))).collect();
        Ok(async move {
            let one_way = network.round_trip / 2;
            let [here, there] = Muxer::pair(one_way);
            sleep(one_way).await;
            let listener = network.listeners.lock().unwrap().get(&address).cloned();
            let Listener { peer, incoming } = listener.ok_or(io::ErrorKind::ConnectionRefused)?;
            let sent = incoming.unbounded_send((own, StreamMuxerBox::new(there)));
            sent.map_err(|_| io::ErrorKind::ConnectionRefused)?;
            sleep(one_way).await;
            Ok((peer, StreamMuxerBox::new(here)))
        }
        .boxed())
    }

    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, io::Error>> {
        if let Some((listener_id, listen_addr)) = self.new.pop_front() {
            return Poll::Ready(TransportEvent::NewAddress { listener_id, listen_addr });
        }
        for (listener_id, address, incoming) in &mut self.listening {
            if let Poll::Ready(Some(connected)) = incoming.poll_next_unpin(context) {
                return Poll::Ready(TransportEvent::Incoming {
                    listener_id: *listener_id,
                    upgrade: at_once(Ok(connected)),
                    local_addr: address.clone(),
                    send_back_addr: ADDRESS.parse().unwrap(),
                });
            }
        }
        Poll::Pending
    }
}

/// One end of a connection.
struct Muxer {
    one_way: Duration,
    opened: UnboundedSender<(Instant, End)>,
    arriving: UnboundedReceiver<(Instant, End)>,
    /// A stream that the other side has opened and that is still under way; none where that side has left.
    next: Option<BoxFuture<'static, io::Result<End>>>,
}

impl Muxer {
    fn pair(one_way: Duration) -> [Self; 2] {
        let ((there, from_here), (back, from_there)) = (unbounded(), unbounded());
        let end = |opened, arriving| Self { one_way, opened, arriving, next: None };
        [end(there, from_there), end(back, from_here)]
    }
}

impl StreamMuxer for Muxer {
    type Substream = End;
    type Error = io::Error;

    fn poll_inbound(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<End>> {
        if self.next.is_none() {
            let arriving = ready!(self.arriving.poll_next_unpin(context));
            let one_way = self.one_way;
            self.next = Some(match arriving {
                Some((at, end)) => sleep_until(at).map(|()| Ok(end)).boxed(),
                None => sleep(one_way).map(|()| Err(io::ErrorKind::ConnectionReset.into())).boxed(),
            });
        }
        let arrived = ready!(self.next.as_mut().expect("it was just made").as_mut().poll(context));
        self.next = None;
        Poll::Ready(arrived)
    }

    fn poll_outbound(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<End>> {
        let [here, there] = End::pair(self.one_way);
        let sent = self.opened.unbounded_send((Instant::now() + self.one_way, there));
        Poll::Ready(sent.map(|()| here).map_err(|_| io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_close(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<StreamMuxerEvent>> {
        Poll::Pending
    }
}
