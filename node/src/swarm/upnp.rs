//! Ports that a router opens when it is asked (UPnP): what comes there from outside goes to this node.

use std::collections::HashSet;

use ketch_channel::TransportKind;
use libp2p::{Multiaddr, multiaddr::Protocol, swarm::behaviour::toggle::Toggle, upnp};
use tokio::sync::watch;

use super::address::transport_port_of;

/// The behaviour that asks, where it is wanted.
pub(super) fn asking(is_wanted: bool) -> Toggle<upnp::tokio::Behaviour> {
    is_wanted.then(upnp::tokio::Behaviour::default).into()
}

/// What has come of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct OpenedPorts {
    /// The addresses that lead here.
    pub(super) addresses: Vec<Multiaddr>,
    /// Whether there is no more to come.
    pub(super) is_settled: bool,
}

impl OpenedPorts {
    /// Before anything came. Where nobody asks, or no router stands between, there is nothing to wait for.
    pub(super) fn begin(is_wanted: bool, listening: &[Multiaddr]) -> Self {
        Self { addresses: Vec::new(), is_settled: !is_wanted || ports_to_open(listening) == 0 }
    }

    /// Notes what the router did, and what is still to come while these addresses are listened on.
    pub(super) fn note(&mut self, event: upnp::Event, listening: &[Multiaddr]) {
        match event {
            upnp::Event::NewExternalAddr { external_addr, .. } => {
                self.addresses.push(external_addr);
                self.is_settled |= self.addresses.len() >= ports_to_open(listening);
            }
            upnp::Event::ExpiredExternalAddr { external_addr, .. } => {
                self.addresses.retain(|address| *address != external_addr);
            }
            upnp::Event::GatewayNotFound | upnp::Event::NonRoutableGateway => self.is_settled = true,
        }
    }
}

/// Tells what became of it to whoever waits.
pub(super) fn note_ports(told: &watch::Sender<OpenedPorts>, event: upnp::Event, listening: &[Multiaddr]) {
    tracing::debug!(?event, "asking the router for ports");
    told.send_modify(|ports| ports.note(event, listening));
}

/// How many ports a router would be asked to open: the library asks for those of private IPv4 addresses (RFC 1918), and
/// for no others.
fn ports_to_open(listening: &[Multiaddr]) -> usize {
    listening.iter().filter_map(private_port).collect::<HashSet<_>>().len()
}

fn private_port(address: &Multiaddr) -> Option<(u16, TransportKind)> {
    let is_private = |part| matches!(part, Protocol::Ip4(ip) if ip.is_private());
    transport_port_of(address).filter(|_| address.iter().next().is_some_and(is_private))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &[&str]) -> Vec<Multiaddr> {
        list.iter().map(|address| address.parse().unwrap()).collect()
    }

    fn opened(address: &str) -> upnp::Event {
        let external_addr: Multiaddr = address.parse().unwrap();
        upnp::Event::NewExternalAddr { local_addr: external_addr.clone(), external_addr }
    }

    #[test]
    fn it_is_settled_when_each_port_behind_a_router_is_open() {
        let listening = addresses(&[
            "/ip4/127.0.0.1/tcp/7",
            "/ip4/192.168.1.2/tcp/7",
            "/ip4/192.168.1.2/udp/8/quic-v1",
            "/ip4/172.17.0.1/udp/8/quic-v1",
            "/ip6/fd00::1/tcp/9",
        ]);
        let mut ports = OpenedPorts::begin(true, &listening);
        ports.note(opened("/ip4/11.0.0.1/tcp/7"), &listening);
        assert!(!ports.is_settled);
        ports.note(opened("/ip4/11.0.0.1/udp/8/quic-v1"), &listening);
        assert!(ports.is_settled);
        assert_eq!(ports.addresses.len(), 2);
    }

    #[test]
    fn an_address_that_the_router_takes_back_is_named_no_more() {
        let listening = addresses(&["/ip4/192.168.1.2/tcp/7"]);
        let mut ports = OpenedPorts::begin(true, &listening);
        ports.note(opened("/ip4/11.0.0.1/tcp/7"), &listening);
        let external_addr = ports.addresses[0].clone();
        let local_addr = listening[0].clone();
        ports.note(upnp::Event::ExpiredExternalAddr { local_addr, external_addr }, &listening);
        assert_eq!(ports.addresses, []);
    }

    #[test]
    fn where_nothing_can_be_opened_nobody_waits() {
        let (behind, public) = (
            addresses(&["/ip4/192.168.1.2/tcp/7"]),
            addresses(&["/ip4/11.0.0.1/tcp/7", "/ip4/127.0.0.1/tcp/7"]),
        );
        assert!(OpenedPorts::begin(false, &behind).is_settled);
        assert!(OpenedPorts::begin(true, &public).is_settled);
        for event in [upnp::Event::GatewayNotFound, upnp::Event::NonRoutableGateway] {
            let mut ports = OpenedPorts::begin(true, &behind);
            assert!(!ports.is_settled);
            ports.note(event, &behind);
            assert!(ports.is_settled);
        }
    }
}
