//! What makes an ordered stream of bytes a connection: TLS 1.3 or Noise, then yamux, each agreed on by multistream-select.

use std::io;

use futures::{AsyncRead, AsyncWrite, future::Either};
use futures_rustls::TlsStream;
use libp2p_core::upgrade::{
    InboundConnectionUpgrade, Negotiated, NegotiationError, OutboundConnectionUpgrade, UpgradeInfo, Version,
};
use libp2p_identity::{Keypair, PeerId};
use multistream_select::{dialer_select_proto, listener_select_proto};

use crate::{
    mux::{self, Multiplexer, Role},
    tls::{IdentityError, PROTOCOL, Tls},
};

/// A secured stream over `C`.
pub(crate) type Secured<C> = Either<TlsStream<Negotiated<C>>, libp2p_noise::Output<Negotiated<C>>>;

/// Both protocols that prove who is there, for one identity. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Security {
    pub(crate) tls: Tls,
    pub(crate) noise: libp2p_noise::Config,
}

impl Security {
    pub(crate) fn new(identity: &Keypair) -> Result<Self, IdentityError> {
        Ok(Self { tls: Tls::new(identity)?, noise: libp2p_noise::Config::new(identity)? })
    }

    /// Offers TLS, and Noise once TLS was declined. It waits for the answer, which costs a round trip.
    pub(crate) async fn dial<C>(self, io: C) -> io::Result<(PeerId, Secured<C>)>
    where
        C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let names = self.names();
        let (name, negotiated) = dialer_select_proto(io, names, Version::V1).await?;
        if name == PROTOCOL {
            let (peer, stream) = self.tls.connect(negotiated).await?;
            return Ok((peer, Either::Left(stream)));
        }
        let upgraded = self.noise.upgrade_outbound(negotiated, name).await;
        upgraded.map(|(peer, stream)| (peer, Either::Right(stream))).map_err(io::Error::other)
    }

    /// Takes whichever the peer wants.
    pub(crate) async fn accept<C>(self, io: C) -> io::Result<(PeerId, Secured<C>)>
    where
        C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let names = self.names();
        let (name, negotiated) = listener_select_proto(io, names).await?;
        if name == PROTOCOL {
            let (peer, stream) = self.tls.accept(negotiated).await?;
            return Ok((peer, Either::Left(stream)));
        }
        let upgraded = self.noise.upgrade_inbound(negotiated, name).await;
        upgraded.map(|(peer, stream)| (peer, Either::Right(stream))).map_err(io::Error::other)
    }

    fn names(&self) -> Vec<&'static str> {
        std::iter::once(PROTOCOL).chain(self.noise.protocol_info()).collect()
    }
}

/// Speaks TLS without waiting whether the peer agrees.
pub(crate) async fn dial_tls<C>(tls: Tls, io: C) -> io::Result<(PeerId, TlsStream<Negotiated<C>>)>
where
    C: AsyncRead + AsyncWrite + Unpin,
{
    let (_, negotiated) = dialer_select_proto(io, [PROTOCOL], Version::V1Lazy).await?;
    tls.connect(negotiated).await
}

/// Speaks Noise without waiting whether the peer agrees.
pub(crate) async fn dial_noise<C>(
    noise: libp2p_noise::Config,
    io: C,
) -> io::Result<(PeerId, libp2p_noise::Output<Negotiated<C>>)>
where
    C: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let (name, negotiated) = dialer_select_proto(io, noise.protocol_info(), Version::V1Lazy).await?;
    noise.upgrade_outbound(negotiated, name).await.map_err(io::Error::other)
}

/// Speaks yamux without waiting whether the peer agrees.
pub(crate) async fn dial_multiplexer<S>(secured: S) -> io::Result<Multiplexer<Negotiated<S>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (_, negotiated) = dialer_select_proto(secured, [mux::PROTOCOL], Version::V1Lazy).await?;
    Ok(Multiplexer::new(negotiated, Role::Dialer))
}

/// Speaks yamux with a peer that dialed.
pub(crate) async fn accept_multiplexer<S>(secured: S) -> io::Result<Multiplexer<Negotiated<S>>>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (_, negotiated) = listener_select_proto(secured, [mux::PROTOCOL])
        .await
        .map_err(<io::Error as From<NegotiationError>>::from)?;
    Ok(Multiplexer::new(negotiated, Role::Listener))
}
