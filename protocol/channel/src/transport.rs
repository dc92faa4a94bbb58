//! Both transports as one, and the name of each.

use std::{fmt, io, str::FromStr};

use futures::{AsyncRead, AsyncWrite, future::Either};
use libp2p_core::{
    Multiaddr, Transport,
    multiaddr::Protocol,
    muxing::StreamMuxerBox,
    transport::{Boxed, OrTransport, dummy::DummyTransport},
};
use libp2p_identity::{Keypair, PeerId};

use crate::{
    circuit::CircuitTransport,
    doorway::Doorway,
    gauge::Gauges,
    quic::QuicTransport,
    settings::{ChannelSettings, QuicStack},
    setup::{Deadlines, SetupCause, SetupError, Step},
    tcp::TcpTransport,
    tls::IdentityError,
};

type Connected = (PeerId, StreamMuxerBox);

/// Everything that listens and dials for one identity, for use in a swarm or alone, and where it leaves the gauges of
/// its connections. Every error it yields is an [`std::io::Error`] around a [`SetupError`].
pub fn transport(
    identity: &Keypair,
    deadlines: Deadlines,
    settings: ChannelSettings,
) -> Result<(Boxed<Connected>, Gauges), IdentityError> {
    let none = DummyTransport::<Connected>::new();
    let none = none.map_err(|cause| SetupError { step: Step::Circuit, cause: SetupCause::Failed(cause) });
    with_sockets(none, identity, deadlines, settings)
}

/// The same, and connections over the circuits that `circuits` gives: streams through relays. Its errors are shown as
/// they are.
pub fn transport_with_circuits<C>(
    identity: &Keypair,
    deadlines: Deadlines,
    settings: ChannelSettings,
    circuits: C,
) -> Result<(Boxed<Connected>, Gauges), IdentityError>
where
    C: Transport<Error = io::Error> + Send + Unpin + 'static,
    C::Output: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    C::Dial: Send + 'static,
    C::ListenerUpgrade: Send + 'static,
{
    with_sockets(CircuitTransport::new(circuits, identity, deadlines)?, identity, deadlines, settings)
}

/// `circuits`, TCP and QUIC. Circuits come first, as their addresses begin like those of the others.
fn with_sockets<C>(
    circuits: C,
    identity: &Keypair,
    deadlines: Deadlines,
    settings: ChannelSettings,
) -> Result<(Boxed<Connected>, Gauges), IdentityError>
where
    C: Transport<Output = Connected, Error = SetupError> + Send + Unpin + 'static,
    C::Dial: Send + 'static,
    C::ListenerUpgrade: Send + 'static,
{
    let gauges = Gauges::default();
    let tcp = TcpTransport::new(identity, deadlines, settings.clone(), gauges.clone())?;
    let with_tcp = either(circuits, tcp);
    let boxed = match settings.quic {
        QuicStack::Own => {
            let quic = QuicTransport::new(identity, deadlines, &settings, gauges.clone())?;
            Doorway::new(either(with_tcp, quic)).boxed()
        }
        #[cfg(feature = "stock-quic")]
        QuicStack::Stock => {
            Doorway::new(either(with_tcp, crate::quic::stock_transport(identity, deadlines))).boxed()
        }
    };
    Ok((boxed, gauges))
}

/// Whichever takes an address, the first one first.
fn either<A, B>(
    first: A,
    second: B,
) -> impl Transport<Output = Connected, Error = SetupError, Dial: Send + 'static, ListenerUpgrade: Send + 'static>
+ Send
+ Unpin
+ 'static
where
    A: Transport<
            Output = Connected,
            Error = SetupError,
            Dial: Send + 'static,
            ListenerUpgrade: Send + 'static,
        > + Send
        + Unpin
        + 'static,
    B: Transport<
            Output = Connected,
            Error = SetupError,
            Dial: Send + 'static,
            ListenerUpgrade: Send + 'static,
        > + Send
        + Unpin
        + 'static,
{
    OrTransport::new(first, second)
        .map(|connected, _| match connected {
            Either::Left(connected) | Either::Right(connected) => connected,
        })
        .map_err(|error| error.into_inner())
}

/// How the bytes of a connection travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TransportKind {
    /// TCP, TLS 1.3 and yamux.
    Tcp,
    /// QUIC.
    Quic,
}

/// A word that names no transport.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is no transport, use tcp or quic", ketch_protocol::path::escape(.0.as_bytes()))]
pub struct TransportKindError(String);

impl TransportKind {
    /// The transport that an address names; `None` when we speak none of those it names.
    pub fn of(address: &Multiaddr) -> Option<Self> {
        if address.iter().any(|part| matches!(part, Protocol::Tcp(_))) {
            return Some(Self::Tcp);
        }
        address.iter().any(|part| part == Protocol::QuicV1).then_some(Self::Quic)
    }
}

impl fmt::Display for TransportKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Tcp => "tcp",
            Self::Quic => "quic",
        })
    }
}

impl FromStr for TransportKind {
    type Err = TransportKindError;

    fn from_str(word: &str) -> Result<Self, TransportKindError> {
        match word {
            "tcp" => Ok(Self::Tcp),
            "quic" => Ok(Self::Quic),
            other => Err(TransportKindError(other.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_names_its_transport() {
        let cases = [
            ("/ip4/10.0.0.1/tcp/4001", Some(TransportKind::Tcp)),
            ("/ip6/::1/udp/4001/quic-v1", Some(TransportKind::Quic)),
            ("/ip4/10.0.0.1/udp/4001", None),
            ("/ip4/10.0.0.1", None),
        ];
        for (address, kind) in cases {
            assert_eq!(TransportKind::of(&address.parse().unwrap()), kind, "{address}");
        }
    }

    #[test]
    fn a_transport_is_read_back_from_its_name() {
        for kind in [TransportKind::Tcp, TransportKind::Quic] {
            assert_eq!(kind.to_string().parse(), Ok(kind));
        }
        assert_eq!(
            "ws\n".parse::<TransportKind>().unwrap_err().to_string(),
            "\"ws\\n\" is no transport, use tcp or quic"
        );
    }
}
