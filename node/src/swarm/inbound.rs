//! Streams that peers open: what they are for, and the queues in which they wait to be taken.

use std::{
    collections::VecDeque,
    convert::Infallible,
    future::{Ready, ready},
    task::{Context, Poll},
};

use libp2p::{
    StreamProtocol,
    core::upgrade::{InboundUpgrade, UpgradeInfo},
};
use tokio::sync::mpsc;
use tokio_util::sync::PollSender;

use super::{
    connection::{Connection, Stream},
    limits::{INBOUND_QUEUE, INTRODUCTION_QUEUE},
};

/// What a stream is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StreamKind {
    /// Part of a session.
    Transfer,
    /// An introduction.
    Introduction,
}

impl StreamKind {
    /// Under which name it is negotiated.
    const fn name(self) -> &'static str {
        match self {
            Self::Transfer => "/ketch/transfer/1",
            Self::Introduction => "/ketch/code/1",
        }
    }

    /// The same, for libp2p.
    pub(super) const fn protocol(self) -> StreamProtocol {
        StreamProtocol::new(self.name())
    }
}

impl AsRef<str> for StreamKind {
    fn as_ref(&self) -> &str {
        self.name()
    }
}

/// Transfer streams that peers open, with the connections they came on. While nobody takes them they wait; once this
/// is dropped they are reset.
pub struct Inbound {
    transfers: mpsc::Receiver<(Connection, Stream)>,
    introductions: Option<Introductions>,
}

impl Inbound {
    /// The next stream; `None` once the node has stopped.
    pub async fn next(&mut self) -> Option<(Connection, Stream)> {
        self.transfers.recv().await
    }

    /// Those of introductions, once, if the node was started to have them.
    pub fn take_introductions(&mut self) -> Option<Introductions> {
        self.introductions.take()
    }
}

/// Streams on which peers want to be introduced. Once this is dropped the node speaks no such protocol.
pub struct Introductions(mpsc::Receiver<(Connection, Stream)>);

impl Introductions {
    /// The next one; `None` once the node has stopped.
    pub async fn next(&mut self) -> Option<(Connection, Stream)> {
        self.0.recv().await
    }
}

/// Where handlers put the streams of their connection.
#[derive(Clone)]
pub(super) struct Inlets {
    transfers: mpsc::Sender<(Connection, Stream)>,
    introductions: mpsc::Sender<(Connection, Stream)>,
}

impl Inlets {
    /// The queues of a node, and their other ends.
    pub(super) fn open(has_introductions: bool) -> (Self, Inbound) {
        let (transfers, inbound) = mpsc::channel(INBOUND_QUEUE);
        let (introductions, introduced) = mpsc::channel(INTRODUCTION_QUEUE);
        let introduced = has_introductions.then_some(Introductions(introduced));
        (Self { transfers, introductions }, Inbound { transfers: inbound, introductions: introduced })
    }

    /// What this node speaks now.
    pub(super) fn spoken(&self) -> Spoken {
        Spoken { introductions: !self.introductions.is_closed() }
    }

    /// The line in front of one queue.
    pub(super) fn waiting(&self, kind: StreamKind) -> Waiting {
        let queue = match kind {
            StreamKind::Transfer => self.transfers.clone(),
            StreamKind::Introduction => self.introductions.clone(),
        };
        Waiting { streams: VecDeque::new(), queue: PollSender::new(queue) }
    }
}

/// Streams of one connection that wait for room in a queue, bounded by the multiplexer's stream limit.
pub(super) struct Waiting {
    streams: VecDeque<Stream>,
    queue: PollSender<(Connection, Stream)>,
}

impl Waiting {
    pub(super) fn push(&mut self, stream: Stream) {
        self.streams.push_back(stream);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.streams.is_empty()
    }

    /// Hands over as many as there is room for.
    pub(super) fn hand_over(&mut self, context: &mut Context<'_>, connection: impl Fn() -> Connection) {
        while !self.streams.is_empty() {
            match self.queue.poll_reserve(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return self.streams.clear(),
                Poll::Pending => return,
            }
            let Some(stream) = self.streams.pop_front() else { return };
            // The place is reserved; only a receiver that went away just now refuses it.
            let _ = self.queue.send_item((connection(), stream));
        }
    }
}

/// The protocols that peers may open streams of. Nothing is said beyond the name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Spoken {
    introductions: bool,
}

impl UpgradeInfo for Spoken {
    type Info = StreamKind;
    type InfoIter = std::iter::Chain<std::iter::Once<StreamKind>, std::option::IntoIter<StreamKind>>;

    fn protocol_info(&self) -> Self::InfoIter {
        let introduction = self.introductions.then_some(StreamKind::Introduction);
        std::iter::once(StreamKind::Transfer).chain(introduction)
    }
}

impl<S> InboundUpgrade<S> for Spoken {
    type Output = (S, StreamKind);
    type Error = Infallible;
    type Future = Ready<Result<Self::Output, Infallible>>;

    fn upgrade_inbound(self, stream: S, kind: StreamKind) -> Self::Future {
        ready(Ok((stream, kind)))
    }
}
