//! The handler of one connection: opens the streams that handles ask for, and hands over those that the
//! peer opens. It drops none: what the node has not taken yet waits here, bounded by the multiplexer's
//! stream limit, and the negotiation has answered it already. A protocol that nobody here takes streams of is not
//! spoken.

use std::{
    convert::Infallible,
    sync::Arc,
    task::{Context, Poll},
};

use libp2p::{
    StreamProtocol,
    core::upgrade::ReadyUpgrade,
    swarm::{
        ConnectionHandler, ConnectionHandlerEvent, StreamUpgradeError, SubstreamProtocol,
        handler::{
            ConnectionEvent, DialUpgradeError, FullyNegotiatedInbound, FullyNegotiatedOutbound,
            ListenUpgradeError,
        },
    },
};
use tokio::sync::mpsc;

use super::{
    connection::{Link, LinkEnds, OpenRequest, Stream, StreamError},
    inbound::{Inlets, Spoken, StreamKind, Waiting},
    limits::OPEN_TIMEOUT,
};

/// Handles our own protocols on one connection.
pub(super) struct Handler {
    link: Arc<Link>,
    requests: mpsc::Receiver<OpenRequest>,
    inlets: Inlets,
    transfers: Waiting,
    introductions: Waiting,
}

impl Handler {
    pub(super) fn new(ends: LinkEnds, inlets: Inlets) -> Self {
        let [transfers, introductions] =
            [StreamKind::Transfer, StreamKind::Introduction].map(|kind| inlets.waiting(kind));
        Self { link: ends.link, requests: ends.requests, inlets, transfers, introductions }
    }

    fn hand_over(&mut self, context: &mut Context<'_>) {
        for waiting in [&mut self.transfers, &mut self.introductions] {
            waiting.hand_over(context, || self.link.connection());
        }
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Infallible;
    type ToBehaviour = Infallible;
    type InboundProtocol = Spoken;
    type OutboundProtocol = ReadyUpgrade<StreamProtocol>;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = OpenRequest;

    fn listen_protocol(&self) -> SubstreamProtocol<Self::InboundProtocol> {
        SubstreamProtocol::new(self.inlets.spoken(), ())
    }

    fn connection_keep_alive(&self) -> bool {
        self.link.is_held() || !self.transfers.is_empty() || !self.introductions.is_empty()
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<ConnectionHandlerEvent<Self::OutboundProtocol, OpenRequest, Infallible>> {
        self.hand_over(context);
        match self.requests.poll_recv(context) {
            Poll::Ready(Some(request)) => {
                let proposal = SubstreamProtocol::new(ReadyUpgrade::new(request.kind.protocol()), request);
                Poll::Ready(ConnectionHandlerEvent::OutboundSubstreamRequest {
                    protocol: proposal.with_timeout(OPEN_TIMEOUT),
                })
            }
            Poll::Ready(None) | Poll::Pending => Poll::Pending,
        }
    }

    fn on_behaviour_event(&mut self, event: Infallible) {
        match event {}
    }

    fn on_connection_event(
        &mut self,
        event: ConnectionEvent<Self::InboundProtocol, Self::OutboundProtocol, (), OpenRequest>,
    ) {
        match event {
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound {
                protocol: (stream, kind),
                ..
            }) => {
                let stream = Stream::inbound(stream, &self.link);
                match kind {
                    StreamKind::Transfer => self.transfers.push(stream),
                    StreamKind::Introduction => self.introductions.push(stream),
                }
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound { protocol, info }) => {
                // Whoever asked may have given up; the stream is then reset.
                let _ = info.reply.send(Ok(protocol));
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError { info, error }) => {
                let _ = info.reply.send(Err(refusal(info.kind, error)));
            }
            ConnectionEvent::ListenUpgradeError(ListenUpgradeError { error, .. }) => match error {},
            ConnectionEvent::AddressChange(_)
            | ConnectionEvent::LocalProtocolsChange(_)
            | ConnectionEvent::RemoteProtocolsChange(_)
            | _ => {}
        }
    }
}

fn refusal(kind: StreamKind, error: StreamUpgradeError<Infallible>) -> StreamError {
    match error {
        StreamUpgradeError::Timeout => StreamError::Silence(OPEN_TIMEOUT.as_secs()),
        StreamUpgradeError::NegotiationFailed => StreamError::NotSpoken(kind.protocol()),
        StreamUpgradeError::Io(error) => StreamError::Failed(error),
        StreamUpgradeError::Apply(never) => match never {},
    }
}
