//! One listening socket: its addresses and whom it accepts.

use std::{
    collections::{HashSet, VecDeque},
    io,
    net::{IpAddr, SocketAddr},
    task::{Context, Poll},
};

use futures::{FutureExt, future::BoxFuture};
use if_watch::{IfEvent, tokio::IfWatcher};
use libp2p_core::Multiaddr;
use noq::{Endpoint, Incoming};

use super::{address::from_socket, socket::Bound};

/// What happens at a listening socket.
pub(super) enum Event {
    Address(Multiaddr),
    Expired(Multiaddr),
    Attempt(Box<Incoming>),
    /// The interfaces cannot be watched; what is known stays.
    Failed(io::Error),
    /// Nobody will be accepted any more.
    Ended,
}

/// A listening socket. Dropping it accepts nobody more and leaves the connections alone.
pub(super) struct Listener {
    pub(super) bound: Bound,
    /// Addresses that were reported and hold.
    addresses: HashSet<IpAddr>,
    /// What was found out before the first poll.
    found: VecDeque<Event>,
    /// Only for a wildcard.
    interfaces: Option<IfWatcher>,
    accepting: BoxFuture<'static, Option<Incoming>>,
}

impl Listener {
    pub(super) fn new(bound: Bound) -> io::Result<Self> {
        let ip = bound.local.ip();
        let (mut addresses, mut found, mut interfaces) = (HashSet::new(), VecDeque::new(), None);
        if ip.is_unspecified() {
            interfaces = Some(IfWatcher::new()?);
        } else {
            addresses.insert(ip);
            found.push_back(Event::Address(from_socket(bound.local)));
        }
        let accepting = accept(bound.endpoint.clone());
        Ok(Self { bound, addresses, found, interfaces, accepting })
    }

    /// Whether packets from this socket can reach `remote` and the answers come back.
    pub(super) fn reaches(&self, remote: SocketAddr) -> bool {
        reaches(self.bound.local, &self.addresses, remote)
    }

    pub(super) fn poll(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        if let Some(event) = self.found.pop_front() {
            return Poll::Ready(event);
        }
        if let Poll::Ready(event) = self.poll_interfaces(context) {
            return Poll::Ready(event);
        }
        let attempt = std::task::ready!(self.accepting.poll_unpin(context));
        let Some(attempt) = attempt else { return Poll::Ready(Event::Ended) };
        self.accepting = accept(self.bound.endpoint.clone());
        Poll::Ready(Event::Attempt(Box::new(attempt)))
    }

    fn poll_interfaces(&mut self, context: &mut Context<'_>) -> Poll<Event> {
        let Some(interfaces) = &mut self.interfaces else { return Poll::Pending };
        loop {
            let (net, up) = match std::task::ready!(interfaces.poll_if_event(context)) {
                Ok(IfEvent::Up(net)) => (net, true),
                Ok(IfEvent::Down(net)) => (net, false),
                Err(error) => {
                    self.interfaces = None;
                    return Poll::Ready(Event::Failed(error));
                }
            };
            let ip = net.addr();
            if ip.is_ipv4() != self.bound.local.is_ipv4() {
                continue;
            }
            let address = from_socket(SocketAddr::new(ip, self.bound.local.port()));
            if up && self.addresses.insert(ip) {
                return Poll::Ready(Event::Address(address));
            }
            if !up && self.addresses.remove(&ip) {
                return Poll::Ready(Event::Expired(address));
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.bound.endpoint.set_server_config(None);
    }
}

fn accept(endpoint: Endpoint) -> BoxFuture<'static, Option<Incoming>> {
    async move { endpoint.accept().await }.boxed()
}

/// A socket bound to one address reaches what its interface reaches: loopback only loopback, others all but
/// loopback.
fn reaches(local: SocketAddr, addresses: &HashSet<IpAddr>, remote: SocketAddr) -> bool {
    if local.is_ipv4() != remote.is_ipv4() {
        return false;
    }
    let alike = |ip: &IpAddr| ip.is_loopback() == remote.ip().is_loopback();
    local.ip().is_unspecified() || addresses.iter().any(alike)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_is_reused_only_where_it_reaches() {
        let cases = [
            ("0.0.0.0:1", "127.0.0.1:2", true),
            ("0.0.0.0:1", "10.0.0.1:2", true),
            ("0.0.0.0:1", "[::1]:2", false),
            ("127.0.0.1:1", "127.0.0.1:2", true),
            ("127.0.0.1:1", "10.0.0.1:2", false),
            ("10.0.0.2:1", "10.0.0.1:2", true),
            ("10.0.0.2:1", "127.0.0.1:2", false),
            ("[::]:1", "[2001:db8::1]:2", true),
            ("[::1]:1", "[2001:db8::1]:2", false),
        ];
        for (local, remote, expected) in cases {
            let (local, remote): (SocketAddr, SocketAddr) = (local.parse().unwrap(), remote.parse().unwrap());
            let addresses = HashSet::from([local.ip()]);
            assert_eq!(reaches(local, &addresses, remote), expected, "{local} {remote}");
        }
    }
}
