//! What quinn is told, once for all connections of an identity.

use std::sync::Arc;

use libp2p_identity::Keypair;
use noq::{
    ClientConfig, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt,
    congestion::{BbrConfig, ControllerFactory, CubicConfig},
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};

use crate::{
    limits::{QUIC_IDLE_TIMEOUT, QUIC_INCOMING, QUIC_INCOMING_BYTES, QUIC_KEEP_ALIVE},
    settings::{ChannelSettings, Controller, QuicFlow},
    tls::{self, IdentityError},
};

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Configs {
    pub(super) endpoint: EndpointConfig,
    client: ClientConfig,
    pub(super) server: ServerConfig,
    pub(super) flow: QuicFlow,
}

impl Configs {
    pub(super) fn new(identity: &Keypair, settings: &ChannelSettings) -> Result<Self, IdentityError> {
        let (client, server) = tls::configs(identity)?;
        let suite = "the first suite of our provider is AES-128-GCM, which seals QUIC's first packets";
        let client = QuicClientConfig::try_from(client).expect(suite);
        let server = QuicServerConfig::try_from(server).expect(suite);
        let flow = settings.quic_flow;
        let transport = Arc::new(transport(settings.controller.unwrap_or(Controller::Cubic), flow));
        Ok(Self {
            endpoint: endpoint(),
            client: client_config(client, transport.clone()),
            server: server_config(server, transport),
            flow,
        })
    }

    /// The library tries its own sizes of datagrams, as it did in the first study.
    pub(super) fn client(&self, _largest: u16) -> ClientConfig {
        self.client.clone()
    }

    /// The same for an attempt.
    pub(super) fn server(&self, _largest: u16) -> Arc<ServerConfig> {
        Arc::new(self.server.clone())
    }
}

fn endpoint() -> EndpointConfig {
    let mut config = EndpointConfig::default();
    config.supported_versions(vec![1]);
    config
}

fn client_config(tls: QuicClientConfig, transport: Arc<TransportConfig>) -> ClientConfig {
    let mut config = ClientConfig::new(Arc::new(tls));
    config.transport_config(transport);
    config
}

fn server_config(tls: QuicServerConfig, transport: Arc<TransportConfig>) -> ServerConfig {
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    // The swarm knows a connection by its addresses and is not told of new ones.
    config.migration(false).transport_config(transport);
    config.max_incoming(QUIC_INCOMING).incoming_buffer_size_total(QUIC_INCOMING_BYTES);
    config
}

fn transport(controller: Controller, flow: QuicFlow) -> TransportConfig {
    let idle = IdleTimeout::from(VarInt::from_u32(QUIC_IDLE_TIMEOUT.as_millis() as u32));
    let mut config = TransportConfig::default();
    config
        .max_concurrent_bidi_streams(flow.streams.into())
        .max_concurrent_uni_streams(VarInt::from_u32(0))
        .datagram_receive_buffer_size(None)
        .stream_receive_window(flow.stream_window_bytes.into())
        .receive_window(flow.window_bytes.into())
        .send_window(flow.largest_window_bytes.into())
        .keep_alive_interval(Some(QUIC_KEEP_ALIVE))
        .max_idle_timeout(Some(idle))
        .allow_spin(false)
        .congestion_controller_factory(factory(controller));
    config
}

fn factory(controller: Controller) -> Arc<dyn ControllerFactory + Send + Sync> {
    match controller {
        Controller::Cubic => Arc::new(CubicConfig::default()),
        Controller::Bbr => Arc::new(BbrConfig::default()),
    }
}
