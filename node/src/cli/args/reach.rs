//! How a peer is reached and found, as the commands that meet peers share it.

use clap::Args;
use ketch::{
    config::{ConfigError, NodeConfig, relay_address},
    state::StateFolder,
    swarm::{Multiaddr, PeerId, Relay},
};

/// How peers are found, and through whom they meet.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct ReachOptions {
    /// Meet peers through this relay too, as `ketch relay` prints it; may be given several times
    #[arg(long, value_name = "ADDR/p2p/PEERID", value_parser = relay_address)]
    relay_at: Vec<(PeerId, Multiaddr)>,

    /// Neither look for peers on the LAN nor tell it who and where this node is
    #[arg(long)]
    no_lan: bool,
}

impl ReachOptions {
    /// Whether the LAN takes part.
    pub(crate) fn lan(&self) -> bool {
        !self.no_lan
    }

    /// These relays and those of the configuration in the state folder.
    pub(crate) fn relays(&self, state: &StateFolder) -> Result<Vec<Relay>, ConfigError> {
        Ok(by_peer(self.relay_at.iter().cloned().chain(NodeConfig::read(state)?.relays)))
    }
}

/// Relays in the order in which they were first named, each with all its addresses.
fn by_peer(addresses: impl IntoIterator<Item = (PeerId, Multiaddr)>) -> Vec<Relay> {
    let mut relays = Vec::<Relay>::new();
    for (peer, address) in addresses {
        match relays.iter_mut().find(|relay| relay.peer == peer) {
            Some(relay) if relay.addresses.contains(&address) => {}
            Some(relay) => relay.addresses.push(address),
            None => relays.push(Relay { peer, addresses: vec![address] }),
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
