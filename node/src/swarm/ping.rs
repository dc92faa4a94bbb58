//! Round-trip times, from the pings that every libp2p peer answers
//! (<https://github.com/libp2p/specs/blob/master/ping/ping.md>).

use std::time::Duration;

use ketch_channel::TransportKind;
use libp2p::Multiaddr;
use tokio::time::timeout;

use super::{
    connection::{CloseReason, Connection},
    limits::AGENT_TIMEOUT,
};

/// What a ping measured.
#[derive(Debug, Clone)]
pub struct PingReport {
    /// Round-trip times in the order they were measured.
    pub rtts: Vec<Duration>,
    /// How the bytes travelled.
    pub transport: TransportKind,
    /// The program that the peer says it is, if it told in time. It may hold anything: escape it.
    pub agent: Option<String>,
    /// The peer's address.
    pub address: Multiaddr,
}

/// Why a round trip could not be measured.
#[derive(Debug, thiserror::Error)]
pub enum PingError {
    /// The connection has ended.
    #[error("pinging the peer: the connection has ended: {0}")]
    Closed(CloseReason),
    /// The peer did not answer, or not as it should.
    #[error("pinging the peer: {0}")]
    Failed(String),
}

pub(super) async fn ping(connection: &Connection, count: u32) -> Result<PingReport, PingError> {
    let mut rtts = Vec::new();
    let mut seen = 0;
    for _ in 0..count {
        rtts.push(next_rtt(connection, &mut seen).await?);
    }
    Ok(PingReport {
        rtts,
        transport: connection.transport(),
        agent: timeout(AGENT_TIMEOUT, told_agent(connection)).await.unwrap_or_default(),
        address: connection.remote_address().clone(),
    })
}

/// Waits for a ping after the first `seen` ones, and counts it.
async fn next_rtt(connection: &Connection, seen: &mut u64) -> Result<Duration, PingError> {
    let mut state = connection.watch();
    let known = state.wait_for(|state| state.pings > *seen || state.ended.is_some()).await;
    let state = known.map_err(|_| PingError::Closed(CloseReason::Stopped))?;
    match (&state.last_ping, &state.ended) {
        (_, Some(reason)) => Err(PingError::Closed(reason.clone())),
        (Some(Err(failure)), None) => Err(PingError::Failed(failure.clone())),
        (Some(Ok(rtt)), None) => {
            *seen = state.pings;
            Ok(*rtt)
        }
        (None, None) => Err(PingError::Failed("it ended without a result".into())),
    }
}

async fn told_agent(connection: &Connection) -> Option<String> {
    let mut state = connection.watch();
    let told = state.wait_for(|state| state.agent.is_some() || state.ended.is_some()).await;
    told.ok().and_then(|state| state.agent.clone())
}
