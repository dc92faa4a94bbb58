//! What the QUIC library is told, once for all connections of an identity.

use std::sync::Arc;

use libp2p_identity::Keypair;
use noq::{
    ClientConfig, EndpointConfig, IdleTimeout, MtuDiscoveryConfig, ServerConfig, TransportConfig, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use noq_proto::HashedConnectionIdGenerator;
use ring::hmac;

use super::controller::Switch;
use crate::{
    limits::{QUIC_DATAGRAM_BYTES, QUIC_IDLE_TIMEOUT, QUIC_INCOMING, QUIC_INCOMING_BYTES, QUIC_KEEP_ALIVE},
    settings::{ChannelSettings, Controller, QuicFlow},
    tls::{self, IdentityError},
};

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Configs {
    pub(super) endpoint: EndpointConfig,
    client: ClientConfig,
    pub(super) server: ServerConfig,
    transport: TransportConfig,
    pub(super) flow: QuicFlow,
}

impl Configs {
    pub(super) fn new(identity: &Keypair, settings: &ChannelSettings) -> Result<Self, IdentityError> {
        let (client, server) = tls::configs(identity)?;
        let suite = "the first suite of our provider is AES-128-GCM, which seals QUIC's first packets";
        let client = QuicClientConfig::try_from(client).expect(suite);
        let server = QuicServerConfig::try_from(server).expect(suite);
        let transport = transport(settings);
        Ok(Self {
            endpoint: endpoint(identity),
            client: ClientConfig::new(Arc::new(client)),
            server: server_config(server, Arc::new(transport.clone())),
            transport,
            flow: settings.quic_flow,
        })
    }

    /// For a dial along a way that carries datagrams of `largest` bytes.
    pub(super) fn client(&self, largest: u16) -> ClientConfig {
        let mut config = self.client.clone();
        config.transport_config(self.transport_for(largest));
        config
    }

    /// For an attempt from along such a way.
    pub(super) fn server(&self, largest: u16) -> Arc<ServerConfig> {
        let mut config = self.server.clone();
        config.transport_config(self.transport_for(largest));
        Arc::new(config)
    }

    /// Larger datagrams than the usual ones are tried before they are used, as all sizes are.
    fn transport_for(&self, largest: u16) -> Arc<TransportConfig> {
        let mut discovery = MtuDiscoveryConfig::default();
        discovery.upper_bound(largest);
        let mut transport = self.transport.clone();
        transport.mtu_discovery_config(Some(discovery));
        Arc::new(transport)
    }
}

/// With keys that outlive the process, a peer of an earlier life learns at once that its connection is gone, instead
/// of waiting for its idle timeout. An identity from which nothing can be derived has new keys in each life.
fn endpoint(identity: &Keypair) -> EndpointConfig {
    let mut config = EndpointConfig::default();
    if let Some(secret) = identity.derive_secret(b"ketch quic stateless reset") {
        config.reset_key(Arc::new(hmac::Key::new(hmac::HMAC_SHA256, &secret)));
    }
    if let Some([a, b, c, d, e, f, g, h, ..]) = identity.derive_secret(b"ketch quic connection ids") {
        let key = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        config.cid_generator(Arc::new(move || Box::new(HashedConnectionIdGenerator::from_key(key))));
    }
    config.supported_versions(vec![1]);
    config.max_udp_payload_size(QUIC_DATAGRAM_BYTES).expect("more than every path carries");
    config
}

fn server_config(tls: QuicServerConfig, transport: Arc<TransportConfig>) -> ServerConfig {
    let mut config = ServerConfig::with_crypto(Arc::new(tls));
    // The swarm knows a connection by its addresses and is not told of new ones.
    config.migration(false).transport_config(transport);
    config.max_incoming(QUIC_INCOMING).incoming_buffer_size_total(QUIC_INCOMING_BYTES);
    config
}

fn transport(settings: &ChannelSettings) -> TransportConfig {
    let flow = settings.quic_flow;
    let controller = settings.controller.unwrap_or(Controller::Cubic);
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
        .congestion_controller_factory(Arc::new(Switch::starting_with(controller, settings.quic_bbr)));
    config
}
