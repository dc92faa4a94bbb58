//! Where a command looks for a peer, and what is remembered of having reached it.

use std::time::{SystemTime, UNIX_EPOCH};

use ketch::{
    config::ConfigError,
    state::StateFolder,
    swarm::{
        DialRequest, Multiaddr, NodeOptions, PeerId, TransportKind,
        address::{is_circuit, is_loopback},
        network::network_toward,
    },
    transfer::{Event, Report, Route},
    trust::{
        Book, Paths,
        book::PEER_ADDRESSES,
        paths::{Reached, rate_of},
    },
};

use super::{
    args::{ChannelOptions, ReachOptions},
    send::default_addresses,
};

/// Where to look for a peer: where it was reached before, where it was said to be, and wherever else the options allow.
pub(super) fn request(
    state: &StateFolder,
    peer: PeerId,
    said: impl IntoIterator<Item = Multiaddr>,
    only: Option<TransportKind>,
    options: &ReachOptions,
) -> anyhow::Result<DialRequest> {
    let (book, paths) = (Book::load(state)?, Paths::load(state));
    let mut addresses: Vec<Multiaddr> = Vec::new();
    let known = paths.addresses(peer).cloned().chain(said).chain(book.addresses(peer).cloned());
    for address in known.filter(|address| only.is_none_or(|only| names(address, only))) {
        if addresses.len() < PEER_ADDRESSES && !addresses.contains(&address) {
            addresses.push(address);
        }
    }
    let faster = paths.faster(peer, network_toward);
    let seek = options.lan() || !options.relays(state)?.is_empty();
    Ok(DialRequest { addresses, seek, only, faster })
}

/// How a side that dials meets the network. It listens only where it may have to meet the other in the middle: a router
/// lets in what comes to the port from which something went out.
pub(super) fn dialing_options(
    state: &StateFolder,
    channel: &ChannelOptions,
    reach: &ReachOptions,
    known: &[Multiaddr],
    transport: Option<TransportKind>,
) -> Result<NodeOptions, ConfigError> {
    let relays = reach.relays(state)?;
    let listen_where_possible = match !relays.is_empty() || known.iter().any(is_circuit) {
        true => default_addresses(transport),
        false => Vec::new(),
    };
    let (settings, lan) = (channel.settings(), reach.lan());
    Ok(NodeOptions { settings, lan, relays, listen_where_possible, ..NodeOptions::default() })
}

/// Whether an address may be one of the transport: what stands behind `/dnsaddr` is known later.
fn names(address: &Multiaddr, only: TransportKind) -> bool {
    TransportKind::of(address).is_none_or(|kind| kind == only)
}

/// Remembers where a peer was reached, and how fast that was.
pub(super) struct Memory<'a> {
    state: &'a StateFolder,
    route: Option<Route>,
}

impl<'a> Memory<'a> {
    pub(super) fn new(state: &'a StateFolder) -> Self {
        Self { state, route: None }
    }

    /// Takes note of a connection.
    pub(super) fn see(&mut self, event: &Event) {
        if let Event::Connected(route) = event {
            self.route = Some(route.clone());
        }
    }

    /// Keeps what was seen, with what a session measured if one came to its end.
    pub(super) fn keep(self, report: Option<&Report>) {
        let Some(Route { peer, address, .. }) = self.route else { return };
        // One is always there, and of the other the relay is.
        if is_loopback(&address) || is_circuit(&address) {
            return;
        }
        let statistics = report.and_then(|report| report.channel.statistics.as_ref());
        let reached = Reached {
            network: network_toward(&address),
            address,
            last_s: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()),
            round_trip: statistics.and_then(|statistics| statistics.rtt),
            bytes_per_s: report.and_then(|report| rate_of(report.moved_bytes, report.ready)),
        };
        if let Err(error) = Paths::note(self.state, peer, reached) {
            tracing::info!(%error, "where the peer was reached is not remembered");
        }
    }
}
