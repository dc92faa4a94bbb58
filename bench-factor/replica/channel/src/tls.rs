//! TLS 1.3 as `libp2p-tls` sets it up, in its order of ciphers.

use std::{io, sync::Arc};

use futures::{AsyncRead, AsyncWrite};
use futures_rustls::{TlsAcceptor, TlsConnector, TlsStream};
use libp2p_identity::{Keypair, PeerId};
use libp2p_tls::certificate;
use rustls::{
    ClientConfig, ServerConfig,
    pki_types::{CertificateDer, IpAddr, Ipv4Addr, ServerName},
};

/// The name by which TLS is agreed on.
pub(crate) const PROTOCOL: &str = "/tls/1.0.0";

/// Why an identity cannot be used for connections.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// No certificate could be made for it.
    #[error("making a tls certificate for the identity: {0}")]
    Certificate(#[from] certificate::GenError),
    /// The Noise library refused the identity.
    #[error("setting up noise: {0}")]
    Noise(#[from] libp2p_noise::Error),
}

/// Both ends of the TLS handshake, for one identity. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    acceptor: TlsAcceptor,
}

impl Tls {
    pub(crate) fn new(identity: &Keypair) -> Result<Self, IdentityError> {
        let (client, server) = configs(identity)?;
        Ok(Self { connector: Arc::new(client).into(), acceptor: Arc::new(server).into() })
    }

    /// The dialer's side of the handshake.
    pub(crate) async fn connect<C>(self, socket: C) -> io::Result<(PeerId, TlsStream<C>)>
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        // The specification forbids a server name: an unspecified address sends none.
        let nameless = ServerName::IpAddress(IpAddr::V4(Ipv4Addr::from([0, 0, 0, 0])));
        let stream = self.connector.connect(nameless, socket).await?;
        Ok((peer_of(stream.get_ref().1.peer_certificates())?, stream.into()))
    }

    /// The listener's side of the handshake.
    pub(crate) async fn accept<C>(self, socket: C) -> io::Result<(PeerId, TlsStream<C>)>
    where
        C: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = self.acceptor.accept(socket).await?;
        Ok((peer_of(stream.get_ref().1.peer_certificates())?, stream.into()))
    }
}

/// What both ends of a handshake are told; QUIC takes it as it is.
pub(crate) fn configs(identity: &Keypair) -> Result<(ClientConfig, ServerConfig), IdentityError> {
    Ok((libp2p_tls::make_client_config(identity, None)?, libp2p_tls::make_server_config(identity)?))
}

/// Whom the certificates of a finished handshake belong to.
pub(crate) fn peer_of(chain: Option<&[CertificateDer<'_>]>) -> io::Result<PeerId> {
    match chain {
        Some([certificate]) => {
            certificate::parse(certificate).map(|parsed| parsed.peer_id()).map_err(io::Error::other)
        }
        Some(_) | None => Err(io::Error::other("the peer did not present exactly one certificate")),
    }
}
