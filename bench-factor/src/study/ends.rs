//! Listening for connections and dialing them, without a Swarm: the transports of `ketch-channel` alone.

use std::{
    future::poll_fn,
    io,
    net::{IpAddr, SocketAddr, TcpListener},
    pin::Pin,
    time::Duration,
};

use futures::future::BoxFuture;
use ketch_channel::{ChannelSettings, Deadlines, Gauges, SetupCause, SetupError, TransportKind, transport};
use libp2p_core::{
    Endpoint, Multiaddr, Transport as _,
    multiaddr::Protocol,
    muxing::StreamMuxerBox,
    transport::{Boxed, DialOpts, ListenerId, PortUse, TransportError, TransportEvent},
};
use libp2p_identity::{Keypair, PeerId};
use tokio::time::{Instant, sleep};

use super::{connection::Connection, error::StudyError, limits::PORT_PAUSE};

/// Both transports for one identity.
pub(super) struct Ends {
    transport: Boxed<(PeerId, StreamMuxerBox)>,
    gauges: Gauges,
}

/// A connection that is being set up; to be awaited in a task of its own.
pub(super) type SettingUp = BoxFuture<'static, io::Result<Connection>>;

impl Ends {
    pub(super) fn new(identity: &Keypair, settings: ChannelSettings) -> Result<Self, StudyError> {
        let (transport, gauges) = transport(identity, Deadlines::default(), settings)
            .map_err(|error| StudyError::Channel(error.to_string()))?;
        Ok(Self { transport, gauges })
    }

    /// Listens; gives the address with the port that it has. An address in use is tried again until `patience` is
    /// over.
    pub(super) async fn listen(
        &mut self,
        address: SocketAddr,
        kind: TransportKind,
        patience: Duration,
    ) -> Result<SocketAddr, StudyError> {
        let failed = |reason: String| StudyError::Listen { address, reason };
        let until = Instant::now() + patience;
        loop {
            match self.try_listen(address, kind) {
                Ok(()) => break,
                Err(error) if is_in_use(&error) && Instant::now() < until => sleep(PORT_PAUSE).await,
                Err(error) => return Err(failed(error.to_string())),
            }
        }
        loop {
            match self.next_event().await {
                TransportEvent::NewAddress { listen_addr, .. } => {
                    return Ok(SocketAddr::new(address.ip(), port(&listen_addr).unwrap_or(address.port())));
                }
                TransportEvent::ListenerClosed { reason: Err(error), .. }
                | TransportEvent::ListenerError { error, .. } => return Err(failed(error.to_string())),
                TransportEvent::ListenerClosed { reason: Ok(()), .. } => {
                    return Err(failed("it was closed".into()));
                }
                TransportEvent::AddressExpired { .. } | TransportEvent::Incoming { .. } => {}
            }
        }
    }

    /// The TCP transport lets several listeners share a port; a source must have its own.
    fn try_listen(&mut self, address: SocketAddr, kind: TransportKind) -> io::Result<()> {
        if kind == TransportKind::Tcp {
            drop(TcpListener::bind(address)?);
        }
        let listening = self.transport.listen_on(ListenerId::next(), multiaddr(address, kind));
        listening.map_err(|error| transport_error(error, kind))
    }

    /// The next connection that somebody begins. May be dropped while it waits.
    pub(super) async fn accept(&mut self) -> SettingUp {
        loop {
            match self.next_event().await {
                TransportEvent::Incoming { upgrade, local_addr, send_back_addr, .. } => {
                    let gauges = self.gauges.clone();
                    return Box::pin(async move {
                        let (peer, muxer) = upgrade.await?;
                        let gauge = gauges.take_accepted(&local_addr, &send_back_addr);
                        Ok(Connection::drive(peer, muxer, gauge.ok_or(io::ErrorKind::NotConnected)?))
                    });
                }
                // A failed listener takes nobody; whoever waits for connections has a limit.
                TransportEvent::NewAddress { .. }
                | TransportEvent::AddressExpired { .. }
                | TransportEvent::ListenerClosed { .. }
                | TransportEvent::ListenerError { .. } => {}
            }
        }
    }

    /// Dials, from a socket of its own.
    pub(super) fn dial(&mut self, address: SocketAddr, kind: TransportKind) -> io::Result<SettingUp> {
        let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
        let dialing = self.transport.dial(multiaddr(address, kind), options);
        let dialing = dialing.map_err(|error| transport_error(error, kind))?;
        let gauge = self.gauges.take_dialed();
        Ok(Box::pin(async move {
            let (peer, muxer) = dialing.await?;
            let gauge = gauge.and_then(|gauge| gauge.gauge()).ok_or(io::ErrorKind::NotConnected)?;
            Ok(Connection::drive(peer, muxer, gauge))
        }))
    }

    async fn next_event(
        &mut self,
    ) -> TransportEvent<BoxFuture<'static, io::Result<(PeerId, StreamMuxerBox)>>, io::Error> {
        let event = poll_fn(|context| Pin::new(&mut self.transport).poll(context)).await;
        event.map_upgrade(|upgrade| Box::pin(upgrade) as BoxFuture<'static, _>)
    }
}

fn multiaddr(address: SocketAddr, kind: TransportKind) -> Multiaddr {
    let host = match address.ip() {
        IpAddr::V4(ip) => Protocol::Ip4(ip),
        IpAddr::V6(ip) => Protocol::Ip6(ip),
    };
    match kind {
        TransportKind::Tcp => Multiaddr::from(host).with(Protocol::Tcp(address.port())),
        TransportKind::Quic => {
            Multiaddr::from(host).with(Protocol::Udp(address.port())).with(Protocol::QuicV1)
        }
    }
}

fn port(address: &Multiaddr) -> Option<u16> {
    address
        .iter()
        .find_map(|part| if let Protocol::Tcp(port) | Protocol::Udp(port) = part { Some(port) } else { None })
}

fn transport_error(error: TransportError<io::Error>, kind: TransportKind) -> io::Error {
    match error {
        TransportError::Other(error) => error,
        TransportError::MultiaddrNotSupported(address) => {
            io::Error::new(io::ErrorKind::Unsupported, format!("{address} is no address that {kind} can use"))
        }
    }
}

/// Whether somebody else has the port.
fn is_in_use(error: &io::Error) -> bool {
    let setup = error.get_ref().and_then(|inner| inner.downcast_ref::<SetupError>());
    let cause = match setup {
        Some(SetupError { cause: SetupCause::Failed(cause), .. }) => cause,
        Some(_) | None => error,
    };
    cause.kind() == io::ErrorKind::AddrInUse
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_port_in_use_is_known_over_either_transport() {
        let mut held = Ends::new(&Keypair::generate_ed25519(), ChannelSettings::default()).unwrap();
        for kind in [TransportKind::Tcp, TransportKind::Quic] {
            let any = SocketAddr::from(([127, 0, 0, 1], 0));
            let address = held.listen(any, kind, Duration::ZERO).await.unwrap();
            assert_ne!(address.port(), 0);
            let mut other = Ends::new(&Keypair::generate_ed25519(), ChannelSettings::default()).unwrap();
            let error = other.try_listen(address, kind).unwrap_err();
            assert!(is_in_use(&error), "{kind}: {error:?}");
        }
    }
}
