//! The handler of one connection: opens the streams that handles ask for, and hands over those that the
//! peer opens. It drops none: what the node has not taken yet waits here, bounded by the multiplexer's
//! stream limit, and the negotiation has answered it already.

use std::{
    collections::VecDeque,
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
use tokio_util::sync::PollSender;

use super::{
    connection::{Connection, Link, LinkEnds, OpenRequest, Stream, StreamError, TRANSFER},
    limits::OPEN_TIMEOUT,
};

/// Handles the transfer protocol on one connection.
pub(super) struct Handler {
    link: Arc<Link>,
    requests: mpsc::Receiver<OpenRequest>,
    arrived: VecDeque<Stream>,
    inbound: PollSender<(Connection, Stream)>,
}

impl Handler {
    pub(super) fn new(ends: LinkEnds, inbound: mpsc::Sender<(Connection, Stream)>) -> Self {
        Self {
            link: ends.link,
            requests: ends.requests,
            arrived: VecDeque::new(),
            inbound: PollSender::new(inbound),
        }
    }

    fn hand_over(&mut self, context: &mut Context<'_>) {
        while !self.arrived.is_empty() {
            match self.inbound.poll_reserve(context) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => return self.arrived.clear(),
                Poll::Pending => return,
            }
            let Some(stream) = self.arrived.pop_front() else { return };
            // The place is reserved; only a receiver that went away just now refuses it.
            let _ = self.inbound.send_item((self.link.connection(), stream));
        }
    }
}

impl ConnectionHandler for Handler {
    type FromBehaviour = Infallible;
    type ToBehaviour = Infallible;
    type InboundProtocol = ReadyUpgrade<StreamProtocol>;
    type OutboundProtocol = ReadyUpgrade<StreamProtocol>;
    type InboundOpenInfo = ();
    type OutboundOpenInfo = OpenRequest;

    fn listen_protocol(&self) -> SubstreamProtocol<Self::InboundProtocol> {
        SubstreamProtocol::new(ReadyUpgrade::new(TRANSFER), ())
    }

    fn connection_keep_alive(&self) -> bool {
        self.link.is_held() || !self.arrived.is_empty()
    }

    fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<ConnectionHandlerEvent<Self::OutboundProtocol, OpenRequest, Infallible>> {
        self.hand_over(context);
        match self.requests.poll_recv(context) {
            Poll::Ready(Some(request)) => {
                let proposal = SubstreamProtocol::new(ReadyUpgrade::new(TRANSFER), request);
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
            ConnectionEvent::FullyNegotiatedInbound(FullyNegotiatedInbound { protocol, .. }) => {
                self.arrived.push_back(Stream::inbound(protocol, &self.link));
            }
            ConnectionEvent::FullyNegotiatedOutbound(FullyNegotiatedOutbound { protocol, info }) => {
                // Whoever asked may have given up; the stream is then reset.
                let _ = info.send(Ok(protocol));
            }
            ConnectionEvent::DialUpgradeError(DialUpgradeError { info, error }) => {
                let _ = info.send(Err(refusal(error)));
            }
            ConnectionEvent::ListenUpgradeError(ListenUpgradeError { error, .. }) => match error {},
            ConnectionEvent::AddressChange(_)
            | ConnectionEvent::LocalProtocolsChange(_)
            | ConnectionEvent::RemoteProtocolsChange(_)
            | _ => {}
        }
    }
}

fn refusal(error: StreamUpgradeError<Infallible>) -> StreamError {
    match error {
        StreamUpgradeError::Timeout => StreamError::Silence(OPEN_TIMEOUT.as_secs()),
        StreamUpgradeError::NegotiationFailed => StreamError::NotSpoken,
        StreamUpgradeError::Io(error) => StreamError::Failed(error),
        StreamUpgradeError::Apply(never) => match never {},
    }
}
