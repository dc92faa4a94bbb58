//! A connection over a circuit: a stream through a relay, which can read nothing of it and pose as nobody.
//!
//! Circuits come from a transport of the caller's. What is dialed over one is TLS where the peer speaks it, else Noise.

use std::{
    io,
    pin::Pin,
    task::{Context, Poll},
};

use futures::{AsyncRead, AsyncWrite, FutureExt, future::BoxFuture};
use libp2p_core::{
    Multiaddr, Transport,
    muxing::StreamMuxerBox,
    transport::{DialOpts, ListenerId, TransportError, TransportEvent},
};
use libp2p_identity::{Keypair, PeerId};

use crate::{
    security::{Security, accept_multiplexer, dial_multiplexer},
    setup::{Budget, Deadlines, SetupCause, SetupError, Step},
    tls::IdentityError,
};

type Connected = (PeerId, StreamMuxerBox);

/// Makes connections of the circuits of `C`.
pub(crate) struct CircuitTransport<C> {
    circuits: C,
    security: Security,
    deadlines: Deadlines,
}

impl<C> CircuitTransport<C> {
    pub(crate) fn new(circuits: C, identity: &Keypair, deadlines: Deadlines) -> Result<Self, IdentityError> {
        Ok(Self { circuits, security: Security::new(identity)?, deadlines })
    }
}

impl<C> Transport for CircuitTransport<C>
where
    C: Transport<Error = io::Error> + Unpin,
    C::Output: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C::Dial: Send + 'static,
    C::ListenerUpgrade: Send + 'static,
{
    type Output = Connected;
    type Error = SetupError;
    type Dial = BoxFuture<'static, Result<Connected, SetupError>>;
    type ListenerUpgrade = BoxFuture<'static, Result<Connected, SetupError>>;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<SetupError>> {
        self.circuits.listen_on(id, address).map_err(|error| error.map(failed))
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.circuits.remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<Self::Dial, TransportError<SetupError>> {
        let circuit = self.circuits.dial(address, options).map_err(|error| error.map(failed))?;
        Ok(dial(self.security.clone(), self.deadlines, circuit).boxed())
    }

    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, SetupError>> {
        let event = std::task::ready!(Pin::new(&mut self.circuits).poll(context));
        let upgrade = |circuit| accept(self.security.clone(), self.deadlines, circuit).boxed();
        Poll::Ready(event.map_upgrade(upgrade).map_err(failed))
    }
}

async fn dial<C>(
    security: Security,
    deadlines: Deadlines,
    circuit: impl Future<Output = io::Result<C>>,
) -> Result<Connected, SetupError>
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let budget = Budget::start(deadlines);
    let circuit = budget.run(Step::Circuit, circuit).await?;
    let (peer, secured) = budget.run(Step::Security, security.dial(circuit)).await?;
    let muxer = budget.run(Step::Multiplexer, dial_multiplexer(secured)).await?;
    Ok((peer, StreamMuxerBox::new(muxer)))
}

async fn accept<C>(
    security: Security,
    deadlines: Deadlines,
    circuit: impl Future<Output = io::Result<C>>,
) -> Result<Connected, SetupError>
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let budget = Budget::start(deadlines);
    let circuit = budget.run(Step::Circuit, circuit).await?;
    let (peer, secured) = budget.run(Step::Security, security.accept(circuit)).await?;
    let muxer = budget.run(Step::Multiplexer, accept_multiplexer(secured)).await?;
    Ok((peer, StreamMuxerBox::new(muxer)))
}

fn failed(error: io::Error) -> SetupError {
    SetupError { step: Step::Circuit, cause: SetupCause::Failed(error) }
}
