//! What commands are told about relays, and what `ketch relay` is told.

use clap::Args;
use ketch::swarm::{Multiaddr, PeerId, Relay as KnownRelay, address::split_peer};
use ketch_protocol::path::escape;

#[derive(Debug, Args)]
pub(crate) struct Relay {
    /// Listen here instead of on every interface; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) listen: Vec<Multiaddr>,

    /// Where others reach it, if it is not where it listens; may be given several times
    #[arg(long, value_name = "ADDR")]
    pub(crate) external: Vec<Multiaddr>,

    /// Print one JSON object a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// Through whom peers meet.
#[derive(Debug, Clone, PartialEq, Eq, Args)]
pub(crate) struct ReachOptions {
    /// Meet peers through this relay, such as `ketch relay` prints; may be given several times
    #[arg(long, value_name = "ADDR/p2p/PEERID", value_parser = relay_address)]
    relay_at: Vec<(PeerId, Multiaddr)>,
}

impl ReachOptions {
    /// The relays in the order in which they were first named, each with all its addresses.
    pub(crate) fn relays(&self) -> Vec<KnownRelay> {
        let mut relays = Vec::<KnownRelay>::new();
        for (peer, address) in &self.relay_at {
            match relays.iter_mut().find(|relay| relay.peer == *peer) {
                Some(relay) => relay.addresses.push(address.clone()),
                None => relays.push(KnownRelay { peer: *peer, addresses: vec![address.clone()] }),
            }
        }
        relays
    }
}

fn relay_address(text: &str) -> Result<(PeerId, Multiaddr), String> {
    let shown = || escape(text.as_bytes());
    let address: Multiaddr =
        text.parse().map_err(|error| format!("\"{}\" is no address: {error}", shown()))?;
    let missing = || format!("\"{}\" does not say which relay is meant: it must end in /p2p/PEERID", shown());
    split_peer(address).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_one_relay_belong_together() {
        let (one, other) = (PeerId::random(), PeerId::random());
        let parse = |text: String| relay_address(&text).unwrap();
        let relay_at = vec![
            parse(format!("/ip4/192.0.2.1/tcp/1/p2p/{one}")),
            parse(format!("/dns4/relay.example/tcp/1/p2p/{other}")),
            parse(format!("/ip4/192.0.2.1/udp/1/quic-v1/p2p/{one}")),
        ];
        let relays = ReachOptions { relay_at }.relays();
        assert_eq!(
            relays.iter().map(|relay| (relay.peer, relay.addresses.len())).collect::<Vec<_>>(),
            [(one, 2), (other, 1)]
        );
    }

    #[test]
    fn a_relay_that_is_not_named_is_refused() {
        for text in ["", "relay.example", "/ip4/192.0.2.1/tcp/1", "\u{1b}"] {
            let error = relay_address(text).unwrap_err();
            assert!(!error.contains('\u{1b}'), "{error:?}");
        }
    }
}
