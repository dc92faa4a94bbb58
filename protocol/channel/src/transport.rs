//! Both transports as one, and the name of each.

use std::{fmt, str::FromStr};

use futures::future::Either;
use libp2p_core::{
    Multiaddr, Transport,
    multiaddr::Protocol,
    muxing::StreamMuxerBox,
    transport::{Boxed, OrTransport},
};
use libp2p_identity::{Keypair, PeerId};

use crate::{
    doorway::Doorway,
    gauge::Gauges,
    quic::QuicTransport,
    settings::{ChannelSettings, QuicStack},
    setup::{Deadlines, SetupError},
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
    let gauges = Gauges::default();
    let tcp = TcpTransport::new(identity, deadlines, settings.clone(), gauges.clone())?;
    let boxed = match settings.quic {
        QuicStack::Own => join(tcp, QuicTransport::new(identity, deadlines, &settings, gauges.clone())?),
        #[cfg(feature = "stock-quic")]
        QuicStack::Stock => join(tcp, crate::quic::stock_transport(identity, deadlines)),
    };
    Ok((boxed, gauges))
}

fn join<Q>(tcp: TcpTransport, quic: Q) -> Boxed<Connected>
where
    Q: Transport<Output = Connected, Error = SetupError> + Send + Unpin + 'static,
    Q::Dial: Send + 'static,
    Q::ListenerUpgrade: Send + 'static,
{
    let either = OrTransport::new(tcp, quic)
        .map(|connected, _| match connected {
            Either::Left(connected) | Either::Right(connected) => connected,
        })
        .map_err(|error| error.into_inner());
    Doorway::new(either).boxed()
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
