//! Names in addresses, and what they stand for.
//!
//! Names of machines are asked of the system, as every other program does: it knows the hosts file, the names of the LAN
//! and those of a VPN. `/dnsaddr` names addresses in TXT records, which systems do not look up for programs; hickory asks
//! the name servers of the system for them.

use std::{io, net::IpAddr};

use futures::future::{BoxFuture, FutureExt as _, join_all};
use hickory_resolver::{
    TokioResolver,
    config::{NameServerConfig, ResolverConfig},
    net::{NetError, runtime::TokioRuntimeProvider},
    proto::rr::RData,
};
use libp2p::{Multiaddr, PeerId, multiaddr::Protocol};
use tokio::time::timeout;

use super::{
    address::split_peer,
    dial::AttemptError,
    limits::{NAME_ADDRESSES, NAME_DEPTH, NAME_TIMEOUT},
};

/// The name server of a machine that names none (resolv.conf(5)).
const LOCAL_NAME_SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

/// Whether an address begins with a name.
pub(super) fn is_named(address: &Multiaddr) -> bool {
    let first = address.iter().next();
    matches!(first, Some(Protocol::Dns(_) | Protocol::Dns4(_) | Protocol::Dns6(_) | Protocol::Dnsaddr(_)))
}

/// The addresses of a peer that an address with a name stands for, within a bounded time.
pub(super) async fn resolve(address: Multiaddr, peer: PeerId) -> Result<Vec<Multiaddr>, AttemptError> {
    let resolved = timeout(NAME_TIMEOUT, follow(address, peer, NAME_DEPTH)).await;
    let found =
        resolved.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into())).map_err(AttemptError::Name)?;
    if found.is_empty() {
        return Err(AttemptError::Name(io::Error::other("it has no address of the kind asked for")));
    }
    Ok(found)
}

/// Boxed, since what a name stands for may begin with a name.
fn follow(address: Multiaddr, peer: PeerId, depth: u32) -> BoxFuture<'static, io::Result<Vec<Multiaddr>>> {
    async move {
        let mut parts = address.iter();
        let first = parts.next();
        let rest: Multiaddr = parts.collect();
        match first {
            Some(Protocol::Dns(name)) => machines(&name, &rest, |_| true).await,
            Some(Protocol::Dns4(name)) => machines(&name, &rest, |ip| ip.is_ipv4()).await,
            Some(Protocol::Dns6(name)) => machines(&name, &rest, |ip| ip.is_ipv6()).await,
            Some(Protocol::Dnsaddr(_)) if depth == 0 => {
                Err(io::Error::other("its names lead to each other without end"))
            }
            Some(Protocol::Dnsaddr(name)) => {
                let named = fitting(records(&name).await?, &rest, peer);
                let followed = join_all(named.into_iter().map(|address| follow(address, peer, depth - 1)));
                // One that leads nowhere takes nothing from the others.
                let found = followed.await.into_iter().flatten().flatten();
                Ok(found.take(NAME_ADDRESSES).collect())
            }
            Some(_) | None => Ok(vec![address.clone()]),
        }
    }
    .boxed()
}

/// The machines that a name stands for, each in front of the rest of the address.
async fn machines(
    name: &str,
    rest: &Multiaddr,
    fits: impl Fn(&IpAddr) -> bool,
) -> io::Result<Vec<Multiaddr>> {
    let found = tokio::net::lookup_host((name, 0)).await?;
    let mut all: Vec<_> = found.map(|socket| socket.ip()).filter(fits).collect();
    all.dedup();
    let behind = |ip: IpAddr| std::iter::once(Protocol::from(ip)).chain(rest.iter()).collect();
    Ok(all.into_iter().take(NAME_ADDRESSES).map(behind).collect())
}

/// The texts of the TXT records in which a name has its addresses.
async fn records(name: &str) -> io::Result<Vec<String>> {
    let answer = resolver()?.txt_lookup(format!("_dnsaddr.{name}.")).await.map_err(io::Error::other)?;
    let text = |data: &RData| {
        if let RData::TXT(text) = data {
            let bytes = text.txt_data.concat();
            String::from_utf8(bytes).ok()
        } else {
            None
        }
    };
    Ok(answer.answers().iter().filter_map(|record| text(&record.data)).collect())
}

fn resolver() -> io::Result<TokioResolver> {
    let builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
        tracing::debug!(%error, "no name server is configured");
        let servers = vec![NameServerConfig::udp_and_tcp(LOCAL_NAME_SERVER)];
        let config = ResolverConfig::from_parts(None, Vec::new(), servers);
        TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
    });
    builder.build().map_err(|error: NetError| io::Error::other(error))
}

/// Those of the named addresses that are of this peer and end as the address does that led to them.
fn fitting(texts: Vec<String>, rest: &Multiaddr, peer: PeerId) -> Vec<Multiaddr> {
    let parse = |text: &String| text.strip_prefix("dnsaddr=")?.parse::<Multiaddr>().ok();
    let of_peer = |address: Multiaddr| match split_peer(address.clone()) {
        Some((named, bare)) => (named == peer).then_some(bare),
        None => Some(address),
    };
    let found = texts.iter().filter_map(parse).filter_map(of_peer);
    found.filter(|address| address.ends_with(rest)).take(NAME_ADDRESSES).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stands_for_addresses_of_the_peer_alone() {
        let (peer, other) = (PeerId::random(), PeerId::random());
        let texts = [
            format!("dnsaddr=/ip4/192.0.2.1/tcp/1/p2p/{peer}"),
            format!("dnsaddr=/ip4/192.0.2.2/tcp/1/p2p/{other}"),
            "dnsaddr=/ip6/2001:db8::1/udp/1/quic-v1".to_owned(),
            "/ip4/192.0.2.3/tcp/1".to_owned(),
            "dnsaddr=nonsense".to_owned(),
            "v=spf1".to_owned(),
        ];
        let all = fitting(texts.to_vec(), &Multiaddr::empty(), peer);
        let shown: Vec<_> = all.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["/ip4/192.0.2.1/tcp/1", "/ip6/2001:db8::1/udp/1/quic-v1"]);
        let over_tcp = fitting(texts.to_vec(), &"/tcp/1".parse().unwrap(), peer);
        assert_eq!(over_tcp, all[..1]);
    }

    #[test]
    fn more_addresses_than_a_name_may_have_are_left_out() {
        let texts = (0..100).map(|host| format!("dnsaddr=/ip4/192.0.2.{host}/tcp/1")).collect();
        assert_eq!(fitting(texts, &Multiaddr::empty(), PeerId::random()).len(), NAME_ADDRESSES);
    }

    #[tokio::test]
    async fn a_machine_has_the_addresses_that_the_system_says() {
        let local = resolve("/dns4/localhost/tcp/7".parse().unwrap(), PeerId::random()).await.unwrap();
        assert_eq!(local, ["/ip4/127.0.0.1/tcp/7".parse().unwrap()]);
        let plain: Multiaddr = "/ip4/192.0.2.1/tcp/7".parse().unwrap();
        assert_eq!(resolve(plain.clone(), PeerId::random()).await.unwrap(), [plain]);
    }
}
