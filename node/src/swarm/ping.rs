//! Measuring round trips with the libp2p ping protocol, which every libp2p peer answers
//! (<https://github.com/libp2p/specs/blob/master/ping/ping.md>).

use std::time::{Duration, Instant};

use futures::{AsyncReadExt, AsyncWriteExt};
use ketch_channel::TransportKind;
use libp2p::Multiaddr;
use tokio::time::timeout;

use super::{
    connection::{Connection, Stream, StreamError},
    limits::{AGENT_TIMEOUT, PING_TIMEOUT},
};

/// What a ping measured.
#[derive(Debug, Clone)]
pub struct PingReport {
    /// Round-trip times in the order they were measured.
    pub rtts: Vec<Duration>,
    /// How the bytes travelled.
    pub transport: TransportKind,
    /// The program that the peer says it is, if it told in time.
    pub agent: Option<String>,
    /// The peer's address.
    pub address: Multiaddr,
}

/// Bytes of one ping.
const PAYLOAD_BYTES: usize = 32;

pub(super) async fn ping(connection: &Connection, count: u32) -> Result<PingReport, StreamError> {
    let mut stream = connection.open(libp2p::ping::PROTOCOL_NAME).await?;
    let mut rtts = Vec::new();
    for _ in 0..count {
        let measured = timeout(PING_TIMEOUT, round_trip(&mut stream)).await;
        rtts.push(measured.map_err(|_| StreamError::Silence(PING_TIMEOUT.as_secs()))??);
    }
    let agent = timeout(AGENT_TIMEOUT, connection.wait_for_agent()).await.unwrap_or_default();
    let (transport, address) = (connection.transport(), connection.remote_address().clone());
    Ok(PingReport { rtts, transport, agent, address })
}

async fn round_trip(stream: &mut Stream) -> std::io::Result<Duration> {
    let mut sent = [0; PAYLOAD_BYTES];
    getrandom::fill(&mut sent).map_err(std::io::Error::other)?;
    let started = Instant::now();
    stream.write_all(&sent).await?;
    stream.flush().await?;
    let mut answer = [0; PAYLOAD_BYTES];
    stream.read_exact(&mut answer).await?;
    if answer != sent {
        return Err(std::io::Error::other("the peer answered a ping with other bytes"));
    }
    Ok(started.elapsed())
}
