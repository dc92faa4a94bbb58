//! Two transports that meet.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures::future;
use ketch_channel::{ChannelSettings, Deadlines, DialedGauge, Gauge, Gauges, transport};
use libp2p_core::{
    Endpoint, Multiaddr, StreamMuxer, Transport,
    muxing::{StreamMuxerBox, SubstreamBox},
    transport::{Boxed, DialOpts, ListenerId, PortUse, TransportEvent},
};
use libp2p_identity::{Keypair, PeerId};
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
};

type Opened = oneshot::Sender<io::Result<SubstreamBox>>;

/// One side of a connection, which a task of its own drives until this is dropped.
pub(crate) struct End {
    pub(crate) gauge: Option<Gauge>,
    requests: mpsc::UnboundedSender<Opened>,
    arrived: mpsc::UnboundedReceiver<SubstreamBox>,
    task: JoinHandle<io::Error>,
}

impl End {
    pub(crate) fn drive(
        muxer: impl StreamMuxer<Substream: Send + 'static, Error: Send + Sync> + Send + 'static,
        gauge: Option<Gauge>,
    ) -> Self {
        let (requests, requested) = mpsc::unbounded_channel();
        let (arriving, arrived) = mpsc::unbounded_channel();
        let mut driver = Driver { muxer: StreamMuxerBox::new(muxer), requested, opening: None, arriving };
        let task = tokio::spawn(async move { poll_fn(|context| driver.poll(context)).await });
        Self { gauge, requests, arrived, task }
    }

    /// Opens a stream.
    pub(crate) async fn open(&self) -> io::Result<SubstreamBox> {
        let (reply, opened) = oneshot::channel();
        self.requests.send(reply).map_err(io::Error::other)?;
        opened.await.map_err(io::Error::other)?
    }

    /// The next stream that the other side opened.
    pub(crate) async fn accept(&mut self) -> Option<SubstreamBox> {
        self.arrived.recv().await
    }

    /// Why the connection ended.
    pub(crate) async fn ended(mut self) -> io::Error {
        (&mut self.task).await.unwrap()
    }

    /// Ends the connection without a word.
    pub(crate) async fn cut(mut self) {
        self.task.abort();
        let _ = (&mut self.task).await;
    }
}

impl Drop for End {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Driver {
    muxer: StreamMuxerBox,
    requested: mpsc::UnboundedReceiver<Opened>,
    opening: Option<Opened>,
    arriving: mpsc::UnboundedSender<SubstreamBox>,
}

impl Driver {
    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        while let Poll::Ready(arrived) = Pin::new(&mut self.muxer).poll_inbound(context) {
            match arrived {
                Ok(stream) => drop(self.arriving.send(stream)),
                Err(error) => return Poll::Ready(error),
            }
        }
        loop {
            if self.opening.is_none() {
                let Poll::Ready(Some(request)) = self.requested.poll_recv(context) else { break };
                self.opening = Some(request);
            }
            let Poll::Ready(opened) = Pin::new(&mut self.muxer).poll_outbound(context) else { break };
            let reply = self.opening.take().unwrap();
            let _ = reply.send(opened);
        }
        match Pin::new(&mut self.muxer).poll(context) {
            Poll::Ready(Err(error)) => Poll::Ready(error),
            Poll::Ready(Ok(event)) => panic!("{event:?}"),
            Poll::Pending => Poll::Pending,
        }
    }
}

/// A transport and its gauges.
pub(crate) struct Side {
    pub(crate) transport: Boxed<(PeerId, StreamMuxerBox)>,
    pub(crate) gauges: Gauges,
}

impl Side {
    pub(crate) fn new(settings: &ChannelSettings) -> Self {
        let identity = Keypair::generate_ed25519();
        let (transport, gauges) = transport(&identity, Deadlines::default(), settings.clone()).unwrap();
        Self { transport, gauges }
    }

    /// Listens on a port of loopback; gives the address.
    pub(crate) async fn listen(&mut self) -> Multiaddr {
        self.transport.listen_on(ListenerId::next(), "/ip4/127.0.0.1/tcp/0".parse().unwrap()).unwrap();
        let event = poll_fn(|context| Pin::new(&mut self.transport).poll(context)).await;
        let TransportEvent::NewAddress { listen_addr, .. } = event else { panic!("{event:?}") };
        listen_addr
    }

    /// Accepts the next connection.
    pub(crate) async fn accept(&mut self) -> io::Result<End> {
        let event = poll_fn(|context| Pin::new(&mut self.transport).poll(context)).await;
        let TransportEvent::Incoming { upgrade, local_addr, send_back_addr, .. } = event else {
            panic!("{event:?}")
        };
        let (_, muxer) = upgrade.await?;
        Ok(End::drive(muxer, self.gauges.take_accepted(&local_addr, &send_back_addr)))
    }

    pub(crate) async fn dial(&mut self, address: Multiaddr) -> io::Result<End> {
        let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
        let dialed = self.transport.dial(address, options).map_err(|error| match error {
            libp2p_core::transport::TransportError::Other(error) => error,
            libp2p_core::transport::TransportError::MultiaddrNotSupported(address) => {
                panic!("{address} is not supported")
            }
        })?;
        let gauge = self.gauges.take_dialed();
        let (_, muxer) = dialed.await?;
        Ok(End::drive(muxer, gauge.as_ref().and_then(DialedGauge::gauge)))
    }
}

/// A connection between two new transports: the dialing end, then the accepting one.
pub(crate) async fn pair(dialing: &ChannelSettings, accepting: &ChannelSettings) -> (End, End) {
    let (mut dialer, mut listener) = (Side::new(dialing), Side::new(accepting));
    let address = listener.listen().await;
    let (dialed, accepted) = future::join(dialer.dial(address), listener.accept()).await;
    (dialed.unwrap(), accepted.unwrap())
}
