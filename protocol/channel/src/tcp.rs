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
    Multiaddr, Transport,
    muxing::StreamMuxerBox,
    transport::{DialOpts, ListenerId, TransportError, TransportEvent},
    upgrade::{
        InboundConnectionUpgrade, Negotiated, NegotiationError, OutboundConnectionUpgrade, UpgradeInfo,
        Version,
    },
};
use libp2p_identity::{Keypair, PeerId};
use libp2p_tcp::tokio::{TcpStream, Transport as Sockets};
use multistream_select::{dialer_select_proto, listener_select_proto};

use crate::{
    gauge::{Gauges, Held, Place},
    mux::{self, Multiplexer, Role},
    settings::ChannelSettings,
    setup::{Budget, Deadlines, SetupCause, SetupError, Step},
    socket::Socket,
    tls::{IdentityError, PROTOCOL, Tls},
};

type Connected = (PeerId, StreamMuxerBox);
type Secured =
    Either<futures_rustls::TlsStream<Negotiated<Socket>>, libp2p_noise::Output<Negotiated<Socket>>>;

type Multiplexed = Multiplexer<Negotiated<Secured>>;

/// The TCP transport for one identity.
pub(crate) struct TcpTransport {
    sockets: Sockets,
    upgrade: Upgrade,
    gauges: Gauges,
}

/// What turns a socket into a connection. Cheap to clone: every attempt takes its own.
#[derive(Clone)]
struct Upgrade {
    tls: Tls,
    noise: libp2p_noise::Config,
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
        let upgrade = Upgrade {
            tls: Tls::new(identity)?,
            noise: libp2p_noise::Config::new(identity)?,
            deadlines,
            settings: Arc::new(settings),
        };
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
        let (peer, secured, gauge) = match budget.run(Step::Tls, dial_tls(self.tls.clone(), socket)).await {
            Ok((peer, stream)) => (peer, Either::Left(stream), gauge),
            Err(SetupError { cause: SetupCause::NotSpoken, .. }) => {
                let socket = self.set_up(budget.run(Step::Connect, second).await?)?;
                let gauge = socket.gauge();
                let (peer, stream) = budget.run(Step::Noise, dial_noise(self.noise, socket)).await?;
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
        socket: Ready<io::Result<TcpStream>>,
        place: Place,
    ) -> Result<Connected, SetupError> {
        let budget = Budget::start(self.deadlines);
        let socket = self.set_up(budget.run(Step::Connect, socket).await?)?;
        place.fill(socket.gauge());
        let (peer, secured) =
            budget.run(Step::Security, accept_security(self.tls, self.noise, socket)).await?;
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

async fn dial_tls(
    tls: Tls,
    socket: Socket,
) -> io::Result<(PeerId, futures_rustls::TlsStream<Negotiated<Socket>>)> {
    let (_, negotiated) = dialer_select_proto(socket, [PROTOCOL], Version::V1Lazy).await?;
    tls.connect(negotiated).await
}

async fn dial_noise(
    noise: libp2p_noise::Config,
    socket: Socket,
) -> io::Result<(PeerId, libp2p_noise::Output<Negotiated<Socket>>)> {
    let (name, negotiated) = dialer_select_proto(socket, noise.protocol_info(), Version::V1Lazy).await?;
    noise.upgrade_outbound(negotiated, name).await.map_err(io::Error::other)
}

async fn accept_security(
    tls: Tls,
    noise: libp2p_noise::Config,
    socket: Socket,
) -> io::Result<(PeerId, Secured)> {
    let names = std::iter::once(PROTOCOL).chain(noise.protocol_info());
    let (name, negotiated) = listener_select_proto(socket, names).await?;
    if name == PROTOCOL {
        let (peer, stream) = tls.accept(negotiated).await?;
        return Ok((peer, Either::Left(stream)));
    }
    let (peer, stream) = noise.upgrade_inbound(negotiated, name).await.map_err(io::Error::other)?;
    Ok((peer, Either::Right(stream)))
}

async fn dial_multiplexer(secured: Secured) -> io::Result<Multiplexed> {
    let (_, negotiated) = dialer_select_proto(secured, [mux::PROTOCOL], Version::V1Lazy).await?;
    Ok(Multiplexer::new(negotiated, Role::Dialer))
}

async fn accept_multiplexer(secured: Secured) -> io::Result<Multiplexed> {
    let (_, negotiated) = listener_select_proto(secured, [mux::PROTOCOL])
        .await
        .map_err(<io::Error as From<NegotiationError>>::from)?;
    Ok(Multiplexer::new(negotiated, Role::Listener))
}
