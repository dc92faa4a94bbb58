//! TCP, then TLS 1.3 (or Noise, for stock peers that speak nothing else), then yamux.
//!
//! The dialer offers one protocol at each step, so that multistream-select's lazy version costs no round
//! trip: TLS first, and Noise on a second connect only when the peer refuses TLS. The listener accepts either.

use std::{
    io,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Either, Ready},
};
use libp2p_core::{
    Endpoint, Multiaddr, Transport,
    muxing::StreamMuxerBox,
    transport::{DialOpts, ListenerId, TransportError, TransportEvent},
};
use libp2p_identity::{Keypair, PeerId};
use libp2p_tcp::tokio::{TcpStream, Transport as Sockets};

use crate::{
    gauge::{Gauges, Held, Place},
    security::{Security, accept_multiplexer, dial_multiplexer, dial_noise, dial_tls},
    settings::ChannelSettings,
    setup::{Budget, Deadlines, SetupCause, SetupError, Step},
    socket::Socket,
    tls::IdentityError,
};

type Connected = (PeerId, StreamMuxerBox);

/// The TCP transport for one identity.
pub(crate) struct TcpTransport {
    sockets: Sockets,
    upgrade: Upgrade,
    gauges: Gauges,
}

/// What turns a socket into a connection. Cheap to clone: every attempt takes its own.
#[derive(Clone)]
struct Upgrade {
    security: Security,
    deadlines: Deadlines,
    settings: Arc<ChannelSettings>,
}

impl TcpTransport {
    pub(crate) fn new(
        identity: &Keypair,
        deadlines: Deadlines,
        settings: ChannelSettings,
        gauges: Gauges,
    ) -> Result<Self, IdentityError> {
        let upgrade = Upgrade { security: Security::new(identity)?, deadlines, settings: Arc::new(settings) };
        Ok(Self { sockets: sockets(), upgrade, gauges })
    }
}

impl Transport for TcpTransport {
    type Output = Connected;
    type Error = SetupError;
    type Dial = BoxFuture<'static, Result<Connected, SetupError>>;
    type ListenerUpgrade = BoxFuture<'static, Result<Connected, SetupError>>;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<SetupError>> {
        self.sockets.listen_on(id, address).map_err(|error| error.map(connect_error))
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.sockets.remove_listener(id)
    }

    fn dial(
        &mut self,
        address: Multiaddr,
        options: DialOpts,
    ) -> Result<Self::Dial, TransportError<SetupError>> {
        let mut dial = |address| self.sockets.dial(address, options).map_err(|e| e.map(connect_error));
        if options.role == Endpoint::Listener {
            // Both sides connect at once, and one of them answers in what follows.
            return Ok(self.upgrade.clone().accept(dial(address)?, self.gauges.dialing()).boxed());
        }
        let (first, second) = (dial(address.clone())?, dial(address)?);
        Ok(self.upgrade.clone().dial(first, second, self.gauges.dialing()).boxed())
    }

    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, SetupError>> {
        let event = futures::ready!(Pin::new(&mut self.sockets).poll(context));
        let place = match &event {
            TransportEvent::Incoming { local_addr, send_back_addr, .. } => {
                self.gauges.accepting(local_addr, send_back_addr)
            }
            TransportEvent::NewAddress { .. }
            | TransportEvent::AddressExpired { .. }
            | TransportEvent::ListenerClosed { .. }
            | TransportEvent::ListenerError { .. } => Place::default(),
        };
        let upgrade =
            |socket: Ready<io::Result<TcpStream>>| self.upgrade.clone().accept(socket, place).boxed();
        Poll::Ready(event.map_upgrade(upgrade).map_err(connect_error))
    }
}

impl Upgrade {
    /// Two connects to the same address are at hand; the second one is started only for Noise.
    async fn dial(
        self,
        first: impl Future<Output = io::Result<TcpStream>>,
        second: impl Future<Output = io::Result<TcpStream>>,
        place: Place,
    ) -> Result<Connected, SetupError> {
        let budget = Budget::start(self.deadlines);
        let socket = self.set_up(budget.run(Step::Connect, first).await?)?;
        let gauge = socket.gauge();
        let (peer, secured, gauge) =
            match budget.run(Step::Tls, dial_tls(self.security.tls.clone(), socket)).await {
                Ok((peer, stream)) => (peer, Either::Left(stream), gauge),
                Err(SetupError { cause: SetupCause::NotSpoken, .. }) => {
                    let socket = self.set_up(budget.run(Step::Connect, second).await?)?;
                    let gauge = socket.gauge();
                    let (peer, stream) =
                        budget.run(Step::Noise, dial_noise(self.security.noise.clone(), socket)).await?;
                    (peer, Either::Right(stream), gauge)
                }
                Err(error) => return Err(error),
            };
        place.fill(gauge);
        let muxer =
            budget.run(Step::Multiplexer, dial_multiplexer(secured)).await?.allowing(self.settings.tcp_flow);
        Ok((peer, StreamMuxerBox::new(Held::new(muxer, place))))
    }

    async fn accept(
        self,
        socket: impl Future<Output = io::Result<TcpStream>>,
        place: Place,
    ) -> Result<Connected, SetupError> {
        let budget = Budget::start(self.deadlines);
        let socket = self.set_up(budget.run(Step::Connect, socket).await?)?;
        place.fill(socket.gauge());
        let (peer, secured) = budget.run(Step::Security, self.security.clone().accept(socket)).await?;
        let muxer = budget
            .run(Step::Multiplexer, accept_multiplexer(secured))
            .await?
            .allowing(self.settings.tcp_flow);
        Ok((peer, StreamMuxerBox::new(Held::new(muxer, place))))
    }

    /// Gives a connected socket what was asked for, before anything is sent on it.
    fn set_up(&self, stream: TcpStream) -> Result<Socket, SetupError> {
        Socket::new(stream, &self.settings)
            .map_err(|error| SetupError { step: Step::Socket, cause: error.into() })
    }
}

fn sockets() -> Sockets {
    Sockets::new(libp2p_tcp::Config::new().nodelay(true))
}

fn connect_error(error: io::Error) -> SetupError {
    SetupError { step: Step::Connect, cause: SetupCause::from_io(error) }
}
