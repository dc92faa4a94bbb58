//! What the QUIC library is told, once for all connections of an identity.

use std::sync::Arc;

use libp2p_identity::Keypair;
use noq::{
    ClientConfig, EndpointConfig, IdleTimeout, ServerConfig, TransportConfig, VarInt,
    crypto::rustls::{QuicClientConfig, QuicServerConfig},
};
use noq_proto::HashedConnectionIdGenerator;
use ring::hmac;

use super::controller::Switch;
use crate::{
    limits::{QUIC_IDLE_TIMEOUT, QUIC_INCOMING, QUIC_INCOMING_BYTES, QUIC_KEEP_ALIVE},
    settings::{ChannelSettings, Controller, QuicFlow},
    tls::{self, IdentityError},
};

/// Cheap to clone.
#[derive(Clone)]
pub(super) struct Configs {
    pub(super) endpoint: EndpointConfig,
    pub(super) client: ClientConfig,
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
            endpoint: endpoint(identity),
            client: client_config(client, transport.clone()),
            server: server_config(server, transport),
            flow,
        })
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
        .congestion_controller_factory(Arc::new(Switch::starting_with(controller)));
    config
}
