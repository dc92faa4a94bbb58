//! Names in addresses, and what they stand for.
//!
//! Names of machines are asked of the system, as every other program does: it knows the hosts file, the names of the LAN
//! and those of a VPN. `/dnsaddr` names addresses in TXT records, which systems do not look up for programs; hickory asks
//! the name servers of the system for them.

use std::{io, net::IpAddr};

use futures::future::{BoxFuture, FutureExt as _, join_all};
use hickory_resolver::{
    ResolverBuilder, TokioResolver,
    config::{NameServerConfig, ResolverConfig},
    net::runtime::TokioRuntimeProvider,
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
    let resolver = system_resolver().map_err(AttemptError::Name)?;
    Lookup { resolver, peer }.run(address).await
}

/// What names are looked up with, and for whom.
struct Lookup {
    /// Asked for TXT records alone.
    resolver: TokioResolver,
    peer: PeerId,
}

impl Lookup {
    async fn run(&self, address: Multiaddr) -> Result<Vec<Multiaddr>, AttemptError> {
        let followed = timeout(NAME_TIMEOUT, self.follow(address, NAME_DEPTH)).await;
        let found = followed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
        match found.map_err(AttemptError::Name)? {
            none if none.is_empty() => {
                Err(AttemptError::Name(io::Error::other("it has no address of the kind asked for")))
            }
            found => Ok(found),
        }
    }

    /// Boxed, since what a name stands for may begin with a name.
    fn follow(&self, address: Multiaddr, depth: u32) -> BoxFuture<'_, io::Result<Vec<Multiaddr>>> {
        async move {
            let mut parts = address.iter();
            let first = parts.next();
            let rest: Multiaddr = parts.collect();
            match first {
                Some(Protocol::Dns(name)) => machines(&name, &rest, |_| true).await,
                Some(Protocol::Dns4(name)) => machines(&name, &rest, IpAddr::is_ipv4).await,
                Some(Protocol::Dns6(name)) => machines(&name, &rest, IpAddr::is_ipv6).await,
                Some(Protocol::Dnsaddr(_)) if depth == 0 => {
                    Err(io::Error::other("its names lead to each other without end"))
                }
                Some(Protocol::Dnsaddr(name)) => self.follow_records(&name, &rest, depth - 1).await,
                Some(_) | None => Ok(vec![address.clone()]),
            }
        }
        .boxed()
    }

    /// One address that leads nowhere takes nothing from the others; when none leads anywhere the first says why.
    async fn follow_records(&self, name: &str, rest: &Multiaddr, depth: u32) -> io::Result<Vec<Multiaddr>> {
        let named = fitting(self.records(name).await?, rest, self.peer);
        let followed = join_all(named.into_iter().map(|address| self.follow(address, depth))).await;
        let (mut found, mut failed) = (Vec::new(), None);
        for result in followed {
            match result {
                Ok(addresses) => found.extend(addresses),
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        found.truncate(NAME_ADDRESSES);
        match failed {
            Some(error) if found.is_empty() => Err(error),
            Some(_) | None => Ok(found),
        }
    }

    /// The texts of the TXT records in which a name has its addresses.
    async fn records(&self, name: &str) -> io::Result<Vec<String>> {
        let asked = self.resolver.txt_lookup(format!("_dnsaddr.{name}.")).await;
        let answer = asked.map_err(io::Error::other)?;
        Ok(answer.answers().iter().filter_map(|record| text_of(&record.data)).collect())
    }
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

fn text_of(data: &RData) -> Option<String> {
    if let RData::TXT(text) = data { String::from_utf8(text.txt_data.concat()).ok() } else { None }
}

fn system_resolver() -> io::Result<TokioResolver> {
    let builder = TokioResolver::builder_tokio().unwrap_or_else(|error| {
        tracing::debug!(%error, "no name server is configured");
        resolver_at(NameServerConfig::udp_and_tcp(LOCAL_NAME_SERVER))
    });
    builder.build().map_err(io::Error::other)
}

fn resolver_at(server: NameServerConfig) -> ResolverBuilder<TokioRuntimeProvider> {
    let config = ResolverConfig::from_parts(None, Vec::new(), vec![server]);
    TokioResolver::builder_with_config(config, TokioRuntimeProvider::default())
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
    use hickory_resolver::proto::{
        op::{Message, MessageType},
        rr::{Record, rdata::TXT},
    };

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

    /// Answers questions for TXT records, with nothing for a name that it does not know.
    async fn name_server(records: Vec<(&'static str, String)>) -> u16 {
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let port = socket.local_addr().unwrap().port();
        tokio::spawn(async move {
            let mut asked = [0; 512];
            while let Ok((length, from)) = socket.recv_from(&mut asked).await {
                let mut answer = Message::from_vec(&asked[..length]).unwrap();
                let name = answer.queries[0].name().clone();
                let known = records.iter().filter(|(known, _)| name.to_string() == *known);
                let texts = known.map(|(_, text)| RData::TXT(TXT::new(vec![text.clone()])));
                answer.answers.extend(texts.map(|text| Record::from_rdata(name.clone(), 60, text)));
                answer.metadata.message_type = MessageType::Response;
                socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
            }
        });
        port
    }

    async fn resolved(port: u16, address: &str, peer: PeerId) -> Result<Vec<String>, String> {
        let mut server = NameServerConfig::udp(LOCAL_NAME_SERVER);
        server.connections.iter_mut().for_each(|connection| connection.port = port);
        let resolver = resolver_at(server).build().unwrap();
        let found = Lookup { resolver, peer }.run(address.parse().unwrap()).await;
        let found = found.map(|found| found.iter().map(ToString::to_string).collect());
        found.map_err(|error| error.to_string())
    }

    #[tokio::test]
    async fn names_lead_to_addresses_and_to_other_names() {
        let peer = PeerId::random();
        let records = vec![
            ("_dnsaddr.example.org.", format!("dnsaddr=/ip4/192.0.2.1/tcp/1/p2p/{peer}")),
            ("_dnsaddr.example.org.", format!("dnsaddr=/dnsaddr/eu.example.org/p2p/{peer}")),
            ("_dnsaddr.eu.example.org.", "dnsaddr=/dns4/localhost/udp/2/quic-v1".to_owned()),
            ("_dnsaddr.round.example.org.", "dnsaddr=/dnsaddr/round.example.org".to_owned()),
        ];
        let port = name_server(records).await;
        let found = resolved(port, "/dnsaddr/example.org", peer).await;
        assert_eq!(found.unwrap(), ["/ip4/192.0.2.1/tcp/1", "/ip4/127.0.0.1/udp/2/quic-v1"]);
        let endless = resolved(port, "/dnsaddr/round.example.org", peer).await.unwrap_err();
        assert!(endless.contains("lead to each other without end"), "{endless}");
        let unknown = resolved(port, "/dnsaddr/nowhere.example.org", peer).await.unwrap_err();
        assert!(unknown.starts_with("resolving the name: "), "{unknown}");
    }

    #[tokio::test]
    async fn a_machine_has_the_addresses_that_the_system_says() {
        let local = resolve("/dns4/localhost/tcp/7".parse().unwrap(), PeerId::random()).await.unwrap();
        assert_eq!(local, ["/ip4/127.0.0.1/tcp/7".parse().unwrap()]);
        let plain: Multiaddr = "/ip4/192.0.2.1/tcp/7".parse().unwrap();
        assert_eq!(resolve(plain.clone(), PeerId::random()).await.unwrap(), [plain]);
    }
}
