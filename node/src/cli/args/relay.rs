//! What commands are told about relays, and what `ketch relay` is told.

use std::{net::SocketAddr, path::PathBuf};

use clap::Args;
use ketch::{
    config::{ConfigError, NodeConfig, relay_address},
    state::StateFolder,
    swarm::{Multiaddr, PeerId, Relay as KnownRelay},
};

#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// Addresses, limits and listed peers from a file
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,

    /// Listen here instead of on every interface; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<Multiaddr>,

    /// Where others reach it, if it is not where it listens; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) external: Vec<Multiaddr>,

    /// Show counts for Prometheus here, at /metrics, such as 127.0.0.1:9383
    #[arg(long, value_name = "IP:PORT")]
    pub(crate) metrics: Option<SocketAddr>,

    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Through whom peers meet.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct ReachOptions {
    /// Meet peers through this relay too, as `ketch relay` prints it; may be given several times
    #[arg(long, value_name = "ADDR/p2p/PEERID", value_parser = relay_address)]
    relay_at: Vec<(PeerId, Multiaddr)>,
}

impl ReachOptions {
    /// These relays and those of the configuration in the state folder.
    pub(crate) fn relays(&self, state: &StateFolder) -> Result<Vec<KnownRelay>, ConfigError> {
        Ok(by_peer(self.relay_at.iter().cloned().chain(NodeConfig::read(state)?.relays)))
    }
}

/// Relays in the order in which they were first named, each with all its addresses.
fn by_peer(addresses: impl IntoIterator<Item = (PeerId, Multiaddr)>) -> Vec<KnownRelay> {
    let mut relays = Vec::<KnownRelay>::new();
    for (peer, address) in addresses {
        match relays.iter_mut().find(|relay| relay.peer == peer) {
            Some(relay) if relay.addresses.contains(&address) => {}
            Some(relay) => relay.addresses.push(address),
            None => relays.push(KnownRelay { peer, addresses: vec![address] }),
        }
    }
    relays
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_relay_belong_together() {
        let (one, other) = (PeerId::random(), PeerId::random());
        let parse = |text: String| relay_address(&text).unwrap();
        let twice = || parse(format!("/ip4/192.0.2.1/tcp/1/p2p/{one}"));
        let addresses = [
            twice(),
            parse(format!("/dns4/relay.example/tcp/1/p2p/{other}")),
            parse(format!("/ip4/192.0.2.1/udp/1/quic-v1/p2p/{one}")),
            twice(),
        ];
        let relays: Vec<_> =
            by_peer(addresses).iter().map(|relay| (relay.peer, relay.addresses.len())).collect();
        assert_eq!(relays, [(one, 2), (other, 1)]);
    }

    #[test]
    fn a_relay_that_is_not_named_is_refused() {
        for text in ["", "relay.example", "/ip4/192.0.2.1/tcp/1", "\u{1b}"] {
            let error = relay_address(text).unwrap_err();
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
    }
}
