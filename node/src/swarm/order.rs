//! Which addresses of a peer deserve an attempt, and when each begins: decided without a clock or a socket.
//!
//! In the spirit of RFC 8305 attempts begin a little after each other and none waits for another to fail. QUIC begins
//! first, since it takes one round trip where TCP takes three; among the addresses of a transport the two families take
//! turns, and so do public and private ones, so that no kind that is dead here holds up one that lives.

use std::{collections::VecDeque, net::IpAddr, time::Duration};

use ketch_channel::TransportKind;
use libp2p::Multiaddr;

use super::{
    address::{ip_of, is_circuit, port_of},
    dial::AttemptError,
    limits::{DIAL_BATCH, DIAL_STAGGER},
    scope::Scope,
};

/// What an order depends on beside the addresses.
#[derive(Debug, Clone, Default)]
pub(super) struct View {
    /// Where this node listens.
    pub(super) own: Vec<Multiaddr>,
    /// The only transport that may be used.
    pub(super) only: Option<TransportKind>,
    /// The transport that is known to be the faster one on this path.
    pub(super) faster: Option<TransportKind>,
}

impl View {
    /// Whether an address is one of the transport that is preferred.
    pub(super) fn prefers(&self, address: &Multiaddr) -> bool {
        self.faster.is_some() && TransportKind::of(address) == self.faster && !is_circuit(address)
    }

    /// Whether an address may be used at all.
    fn allows(&self, address: &Multiaddr) -> bool {
        self.only.is_none_or(|only| TransportKind::of(address) == Some(only))
    }
}

/// What is to become of addresses that became known together.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Those to try, each with how long that waits while another attempt runs.
    pub(super) starts: Vec<(Duration, Multiaddr)>,
    /// Those that can lead nowhere.
    pub(super) senseless: Vec<(Multiaddr, AttemptError)>,
}

/// Orders addresses that became known together and whose names are resolved.
pub(super) fn order(addresses: Vec<Multiaddr>, view: &View) -> Order {
    let mut order = Order::default();
    let mut waves: [Vec<Multiaddr>; 3] = Default::default();
    let first = view.faster.unwrap_or(TransportKind::Quic);
    for address in addresses.into_iter().filter(|address| view.allows(address)) {
        match sense(&address, &view.own) {
            Err(why) => order.senseless.push((address, why)),
            Ok(_) if is_circuit(&address) => waves[2].push(address),
            Ok(kind) => waves[usize::from(kind != first)].push(address),
        }
    }
    for (wave, addresses) in (0..).zip(waves) {
        let batches = (0..).flat_map(|batch| [batch; DIAL_BATCH]);
        let delayed = batches
            .zip(take_turns(addresses))
            .map(|(batch, address)| (DIAL_STAGGER * (wave + batch), address));
        order.starts.extend(delayed);
    }
    order.starts.sort_by_key(|(after, _)| *after);
    order
}

/// The transport of an address, if dialing it can make sense.
fn sense(address: &Multiaddr, own: &[Multiaddr]) -> Result<TransportKind, AttemptError> {
    let kind = TransportKind::of(address).ok_or(AttemptError::Unsupported)?;
    let ip = ip_of(address);
    if own.contains(address) {
        return Err(AttemptError::Own);
    }
    if port_of(address) == Some(0) {
        return Err(AttemptError::Senseless("port 0 is nobody's"));
    }
    if ip.is_some_and(|ip| ip.is_unspecified() || ip.is_multicast() || ip == IpAddr::from([255; 4])) {
        return Err(AttemptError::Senseless("it is the address of no single machine"));
    }
    // Neither transport takes the name of the interface that would have to go with it.
    if matches!(ip, Some(IpAddr::V6(ip)) if ip.is_unicast_link_local()) {
        return Err(AttemptError::Senseless("it does not say on which network segment"));
    }
    Ok(kind)
}

/// Takes one address of each kind in turn; within a kind the order stays.
fn take_turns(addresses: Vec<Multiaddr>) -> impl Iterator<Item = Multiaddr> {
    let mut kinds: [VecDeque<Multiaddr>; 6] = Default::default();
    for address in addresses {
        kinds[rank(&address)].push_back(address);
    }
    let most = kinds.iter().map(VecDeque::len).max().unwrap_or_default();
    (0..most).flat_map(move |_| kinds.iter_mut().filter_map(VecDeque::pop_front).collect::<Vec<_>>())
}

/// Which kind an address is of: the lower ones come first in each turn.
fn rank(address: &Multiaddr) -> usize {
    let is_v4 = matches!(ip_of(address), Some(IpAddr::V4(_)));
    let distance = match Scope::of(address) {
        Scope::Everywhere => 0,
        Scope::Site => 1,
        Scope::Segment | Scope::Machine => 2,
    };
    2 * distance + usize::from(is_v4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(list: &[&str]) -> Vec<Multiaddr> {
        list.iter().map(|address| address.parse().unwrap()).collect()
    }

    fn starts(list: &[&str], view: &View) -> Vec<(u128, String)> {
        let order = order(addresses(list), view);
        order.starts.iter().map(|(after, address)| (after.as_millis(), address.to_string())).collect()
    }

    fn expected(list: &[(u128, &str)]) -> Vec<(u128, String)> {
        list.iter().map(|(after, address)| (*after, (*address).to_owned())).collect()
    }

    #[test]
    fn quic_begins_first_and_the_families_take_turns() {
        let given = [
            "/ip4/192.0.2.1/tcp/1",
            "/ip4/192.0.2.1/udp/1/quic-v1",
            "/ip4/192.0.2.2/udp/1/quic-v1",
            "/ip6/2001:db8::1/tcp/1",
            "/ip6/2001:db8::1/udp/1/quic-v1",
        ];
        let order = [
            (0, "/ip6/2001:db8::1/udp/1/quic-v1"),
            (0, "/ip4/192.0.2.1/udp/1/quic-v1"),
            (0, "/ip4/192.0.2.2/udp/1/quic-v1"),
            (250, "/ip6/2001:db8::1/tcp/1"),
            (250, "/ip4/192.0.2.1/tcp/1"),
        ];
        assert_eq!(starts(&given, &View::default()), expected(&order));
    }

    #[test]
    fn the_faster_transport_begins_first() {
        let given = ["/ip4/192.0.2.1/udp/1/quic-v1", "/ip4/192.0.2.1/tcp/1"];
        let view = View { faster: Some(TransportKind::Tcp), ..View::default() };
        let order = [(0, "/ip4/192.0.2.1/tcp/1"), (250, "/ip4/192.0.2.1/udp/1/quic-v1")];
        assert_eq!(starts(&given, &view), expected(&order));
    }

    #[test]
    fn only_the_transport_that_was_asked_for_is_tried() {
        let given = ["/ip4/192.0.2.1/udp/1/quic-v1", "/ip4/192.0.2.1/tcp/1"];
        let view = View { only: Some(TransportKind::Quic), ..View::default() };
        assert_eq!(starts(&given, &view), expected(&[(0, given[0])]));
    }

    #[test]
    fn a_relay_is_the_last_way() {
        let relayed = format!("/ip4/192.0.2.9/udp/1/quic-v1/p2p/{}/p2p-circuit", libp2p::PeerId::random());
        let given = [relayed.as_str(), "/ip4/192.0.2.1/udp/1/quic-v1"];
        assert_eq!(starts(&given, &View::default()), expected(&[(0, given[1]), (500, &relayed)]));
    }

    #[test]
    fn many_private_addresses_hold_up_a_public_one_by_nothing() {
        let private: Vec<_> = (1..=20).map(|host| format!("/ip4/10.0.0.{host}/udp/1/quic-v1")).collect();
        let mut given: Vec<_> = private.iter().map(String::as_str).collect();
        given.extend(["/ip4/192.0.2.1/udp/1/quic-v1", "/ip6/fd00::1/udp/1/quic-v1"]);
        let order = starts(&given, &View::default());
        let first: Vec<_> = order[..3].iter().map(|(_, address)| address.as_str()).collect();
        assert_eq!(first, [given[20], given[21], given[0]]);
        let begun = |ms| order.iter().filter(|(after, _)| *after == ms).count();
        assert_eq!([0, 250, 500].map(begun), [8, 8, 6]);
    }

    #[test]
    fn what_can_lead_nowhere_is_told_and_not_tried() {
        let cases = [
            ("/ip4/0.0.0.0/tcp/1", "no single machine"),
            ("/ip6/::/udp/1/quic-v1", "no single machine"),
            ("/ip4/224.0.0.1/udp/1/quic-v1", "no single machine"),
            ("/ip4/255.255.255.255/udp/1/quic-v1", "no single machine"),
            ("/ip4/192.0.2.1/tcp/0", "port 0"),
            ("/ip4/192.0.2.1/udp/0/quic-v1", "port 0"),
            ("/ip6/fe80::1/tcp/1", "network segment"),
            ("/ip4/10.0.0.7/tcp/7", "this node itself"),
            ("/ip4/192.0.2.1/udp/1", "not an address of tcp or quic"),
        ];
        let view = View { own: addresses(&["/ip4/10.0.0.7/tcp/7"]), ..View::default() };
        for (address, why) in cases {
            let order = order(addresses(&[address]), &view);
            assert_eq!(order.starts, [], "{address}");
            assert!(order.senseless[0].1.to_string().contains(why), "{address}: {}", order.senseless[0].1);
        }
        let near = ["/ip4/127.0.0.1/tcp/1", "/ip4/169.254.0.1/tcp/1"];
        assert_eq!(order(addresses(&near), &view).starts.len(), 2);
    }
}
