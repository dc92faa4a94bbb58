//! [`Connection`]: one channel, which a task of its own drives until it is closed or dropped.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{Arc, OnceLock},
    task::{Context, Poll},
    time::Duration,
};

use ketch_channel::Gauge;
use libp2p_core::muxing::{StreamMuxer as _, StreamMuxerBox, SubstreamBox};
use libp2p_identity::PeerId;
use tokio::{
    sync::{mpsc, oneshot},
    task::JoinHandle,
    time::timeout,
};

/// Requests to a connection that wait, at most; whoever has more waits.
const REQUESTS: usize = 16;

/// One authenticated connection. Dropping it cuts it.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) peer: PeerId,
    pub(super) gauge: Gauge,
    pub(super) opener: Opener,
    pub(super) arrivals: Arrivals,
    driver: JoinHandle<io::Result<()>>,
}

/// Opens streams of a connection. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Opener {
    requests: mpsc::Sender<Request>,
    end: End,
}

/// The streams that the other side opens.
#[derive(Debug)]
pub(super) struct Arrivals {
    /// The multiplexer bounds how many there are.
    streams: mpsc::UnboundedReceiver<SubstreamBox>,
    end: End,
}

/// Why a connection ended, once it has.
type End = Arc<OnceLock<(io::ErrorKind, String)>>;

#[derive(Debug)]
enum Request {
    Open(oneshot::Sender<io::Result<SubstreamBox>>),
    Close,
}

impl Connection {
    /// Drives a connection that was just set up.
    pub(super) fn drive(peer: PeerId, muxer: StreamMuxerBox, gauge: Gauge) -> Self {
        let (requests, requested) = mpsc::channel(REQUESTS);
        let (arriving, streams) = mpsc::unbounded_channel();
        let end = End::default();
        let driver =
            Driver { muxer, requested, opening: None, arriving, is_closing: false, end: end.clone() };
        let driver = tokio::spawn(driver.run());
        Self {
            peer,
            gauge,
            opener: Opener { requests, end: end.clone() },
            arrivals: Arrivals { streams, end },
            driver,
        }
    }

    /// Says goodbye and waits until it has left, or `limit` is over.
    pub(super) async fn close(mut self, limit: Duration) -> io::Result<()> {
        // A driver that has ended takes nothing more, and tells why.
        let _ = self.opener.requests.send(Request::Close).await;
        match timeout(limit, &mut self.driver).await {
            Ok(ended) => ended.map_err(io::Error::other)?,
            Err(_) => Err(io::ErrorKind::TimedOut.into()),
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Opener {
    /// Opens a stream; waits while the other side allows no more.
    pub(super) async fn open(&self) -> io::Result<SubstreamBox> {
        let (reply, opened) = oneshot::channel();
        let ended = || ended(&self.end);
        self.requests.send(Request::Open(reply)).await.map_err(|_| ended())?;
        opened.await.map_err(|_| ended())?
    }
}

impl Arrivals {
    /// The next stream; fails once the connection has ended.
    pub(super) async fn next(&mut self) -> io::Result<SubstreamBox> {
        self.streams.recv().await.ok_or_else(|| ended(&self.end))
    }
}

fn ended(end: &End) -> io::Error {
    match end.get() {
        Some((kind, why)) => io::Error::new(*kind, why.clone()),
        None => io::Error::new(io::ErrorKind::NotConnected, "the connection was closed on this side"),
    }
}

struct Driver {
    muxer: StreamMuxerBox,
    requested: mpsc::Receiver<Request>,
    opening: Option<oneshot::Sender<io::Result<SubstreamBox>>>,
    arriving: mpsc::UnboundedSender<SubstreamBox>,
    is_closing: bool,
    end: End,
}

impl Driver {
    async fn run(mut self) -> io::Result<()> {
        let ended = poll_fn(|context| self.poll(context)).await;
        if let Err(error) = &ended {
            // Whoever asks later is told the same.
            let _ = self.end.set((error.kind(), ketch_channel::describe(error)));
        }
        ended
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.is_closing {
            self.poll_requests(context)?;
        }
        if self.is_closing {
            return Pin::new(&mut self.muxer).poll_close(context);
        }
        while let Poll::Ready(arrived) = Pin::new(&mut self.muxer).poll_inbound(context)? {
            // Nobody takes streams any more where this fails, and to drop one resets it.
            let _ = self.arriving.send(arrived);
        }
        // No channel changes its address, so there is no other event.
        Pin::new(&mut self.muxer).poll(context).map_ok(drop)
    }

    /// Opens as many streams as were asked for and are allowed.
    fn poll_requests(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        loop {
            if self.opening.is_none() {
                match self.requested.poll_recv(context) {
                    Poll::Ready(Some(Request::Open(reply))) => self.opening = Some(reply),
                    Poll::Ready(Some(Request::Close)) => {
                        self.is_closing = true;
                        return Ok(());
                    }
                    Poll::Ready(None) | Poll::Pending => return Ok(()),
                }
            }
            let Poll::Ready(opened) = Pin::new(&mut self.muxer).poll_outbound(context)? else {
                return Ok(());
            };
            if let Some(reply) = self.opening.take() {
                // Whoever asked may be gone; the stream is reset then.
                let _ = reply.send(Ok(opened));
            }
        }
    }
}
