//! [`Paths`]: where peers were reached, and how fast that was.
//!
//! One JSON file in the state folder, `paths.json`, written by the commands that dial. It speeds up finding a peer again
//! and choosing a transport, and says nothing of trust: a file that cannot be read counts as empty and is replaced.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Read as _},
    time::Duration,
};

use serde::{Deserialize, Serialize};

use crate::{
    state::StateFolder,
    swarm::{Multiaddr, PeerId, TransportKind},
};

/// Name of the file in the state folder.
pub const PATHS_FILE: &str = "paths.json";

/// Name of the file that is locked while the other is changed.
const LOCK_FILE: &str = "paths.lock";

/// Most peers that are remembered, those that were reached last: more than anybody copies to and from.
pub const PATHS_PEERS: usize = 1_024;

/// Most paths to one peer: both transports and families, at home and away.
pub const PEER_PATHS: usize = 8;

/// Longest file that is read, in bytes: about half a kilobyte for each path.
const PATHS_BYTES: u64 = 4 * 1024 * 1024;

/// Least content of a session whose rate says something of the path and not of its start.
const MEASURED_BYTES: u64 = 8 * 1024 * 1024;

/// A transport is the faster one if it carried so many percent of what the other did. Two runs over one path often
/// differ by less.
const FASTER_PERCENT: u64 = 125;

/// Where peers were reached.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Paths {
    /// The latest path of each peer comes first.
    peers: BTreeMap<PeerId, Vec<Reached>>,
}

/// One path to a peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reached {
    /// Where the peer was, without its PeerId.
    pub address: Multiaddr,
    /// The network on which this machine was, if that is known
    /// ([`network_toward`](crate::swarm::network::network_toward)).
    pub network: Option<String>,
    /// When, in seconds since 1970.
    pub last_s: u64,
    /// The round trip, if it was measured.
    pub round_trip: Option<Duration>,
    /// Bytes of content that a session carried a second, if it carried enough to tell.
    pub bytes_per_s: Option<u64>,
}

impl Reached {
    fn is_same_path(&self, other: &Self) -> bool {
        self.address == other.address && self.network == other.network
    }
}

/// What a session says of its path, in bytes a second; `None` if it was too short to say anything.
pub fn rate_of(moved_bytes: u64, time: Duration) -> Option<u64> {
    let is_enough = moved_bytes >= MEASURED_BYTES && !time.is_zero();
    is_enough.then(|| (moved_bytes as f64 / time.as_secs_f64()) as u64)
}

impl Paths {
    /// Reads what is remembered; nothing where that can't be read.
    pub fn load(state: &StateFolder) -> Self {
        read(state).unwrap_or_else(|error| {
            tracing::info!(%error, "what was remembered of paths to peers is lost");
            Self::default()
        })
    }

    /// Remembers that a peer was reached.
    pub fn note(state: &StateFolder, peer: PeerId, reached: Reached) -> io::Result<()> {
        Self::change(state, |paths| paths.add(peer, reached))
    }

    /// Forgets a path to a peer, or all of them; how many.
    pub fn forget(state: &StateFolder, peer: PeerId, address: Option<&Multiaddr>) -> io::Result<usize> {
        let is_meant = |known: &Reached| address.is_none_or(|address| *address == known.address);
        Self::change(state, |paths| {
            let Some(known) = paths.peers.get_mut(&peer) else { return 0 };
            let before = known.len();
            known.retain(|known| !is_meant(known));
            let gone = before - known.len();
            paths.peers.retain(|_, known| !known.is_empty());
            gone
        })
    }

    /// The paths to a peer, the latest first.
    pub fn of(&self, peer: PeerId) -> &[Reached] {
        self.peers.get(&peer).map_or(&[], Vec::as_slice)
    }

    /// Where a peer was reached, the latest first; one address may come more than once.
    pub fn addresses(&self, peer: PeerId) -> impl Iterator<Item = &Multiaddr> {
        self.of(peer).iter().map(|reached| &reached.address)
    }

    /// Everybody who was reached.
    pub fn peers(&self) -> impl Iterator<Item = PeerId> {
        self.peers.keys().copied()
    }

    /// The transport that carried clearly more, if both were measured from the network on which this machine is now, which
    /// `network_toward` tells of an address.
    pub fn faster(
        &self,
        peer: PeerId,
        network_toward: impl Fn(&Multiaddr) -> Option<String>,
    ) -> Option<TransportKind> {
        let here = |reached: &&Reached| {
            reached.network.is_some() && reached.network == network_toward(&reached.address)
        };
        let best = |kind| {
            let over =
                self.of(peer).iter().filter(|reached| TransportKind::of(&reached.address) == Some(kind));
            over.filter(here).filter_map(|reached| reached.bytes_per_s).max()
        };
        let (tcp, quic) = (best(TransportKind::Tcp)?, best(TransportKind::Quic)?);
        let is_clearly_more =
            |one: u64, other: u64| u128::from(one) * 100 >= u128::from(other) * u128::from(FASTER_PERCENT);
        match () {
            () if is_clearly_more(tcp, quic) => Some(TransportKind::Tcp),
            () if is_clearly_more(quic, tcp) => Some(TransportKind::Quic),
            () => None,
        }
    }

    /// What is not measured this time stays as it was.
    fn add(&mut self, peer: PeerId, mut reached: Reached) {
        let known = self.peers.entry(peer).or_default();
        if let Some(index) = known.iter().position(|known| known.is_same_path(&reached)) {
            let before = known.remove(index);
            reached.round_trip = reached.round_trip.or(before.round_trip);
            reached.bytes_per_s = reached.bytes_per_s.or(before.bytes_per_s);
        }
        known.insert(0, reached);
        known.truncate(PEER_PATHS);
        while self.peers.len() > PATHS_PEERS {
            let last = |(_, known): &(&PeerId, &Vec<Reached>)| known.first().map(|reached| reached.last_s);
            let oldest = self.peers.iter().min_by_key(last).map(|(peer, _)| *peer);
            oldest.and_then(|peer| self.peers.remove(&peer));
        }
    }

    fn change<T>(state: &StateFolder, change: impl FnOnce(&mut Self) -> T) -> io::Result<T> {
        let _held = state.lock(LOCK_FILE)?;
        let before = Self::load(state);
        let mut paths = before.clone();
        let done = change(&mut paths);
        if paths != before {
            state.replace(PATHS_FILE, &paths.encode()?)?;
        }
        Ok(done)
    }

    fn encode(&self) -> serde_json::Result<Vec<u8>> {
        let stored = self.peers.iter().flat_map(|(peer, known)| {
            known.iter().map(|reached| StoredPath {
                peer_id: peer.to_string(),
                address: reached.address.to_string(),
                network: reached.network.clone(),
                last_s: reached.last_s,
                rtt_us: reached.round_trip.map(|rtt| u64::try_from(rtt.as_micros()).unwrap_or(u64::MAX)),
                bytes_per_s: reached.bytes_per_s,
            })
        });
        serde_json::to_vec_pretty(&stored.collect::<Vec<_>>())
    }
}

/// A path as it stands in the file.
#[derive(Serialize, Deserialize)]
struct StoredPath {
    peer_id: String,
    address: String,
    network: Option<String>,
    last_s: u64,
    rtt_us: Option<u64>,
    bytes_per_s: Option<u64>,
}

fn read(state: &StateFolder) -> io::Result<Paths> {
    let mut json = Vec::new();
    match fs::File::open(state.path().join(PATHS_FILE)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Paths::default()),
        opened => opened?.take(PATHS_BYTES).read_to_end(&mut json)?,
    };
    let mut paths = Paths::default();
    // Those that come first are the latest, and what is added comes first.
    for stored in serde_json::from_slice::<Vec<StoredPath>>(&json)?.into_iter().rev() {
        let peer = stored.peer_id.parse().map_err(io::Error::other)?;
        let reached = Reached {
            address: stored.address.parse().map_err(io::Error::other)?,
            network: stored.network,
            last_s: stored.last_s,
            round_trip: stored.rtt_us.map(Duration::from_micros),
            bytes_per_s: stored.bytes_per_s,
        };
        paths.add(peer, reached);
    }
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOME: &str = "192.168.1.0/24";
    const TCP: &str = "/ip4/192.0.2.1/tcp/1";
    const QUIC: &str = "/ip4/192.0.2.1/udp/1/quic-v1";

    fn state() -> (tempfile::TempDir, StateFolder) {
        let root = tempfile::tempdir().unwrap();
        let folder = StateFolder::locate(Some(root.path().join("state")), |_| None).unwrap();
        (root, folder)
    }

    fn reached(address: &str, last_s: u64, bytes_per_s: Option<u64>) -> Reached {
        let address = address.parse().unwrap();
        Reached { address, network: Some(HOME.into()), last_s, round_trip: None, bytes_per_s }
    }

    #[test]
    fn what_was_reached_is_known_to_the_next_command_with_the_latest_first() {
        let ((_root, state), peer) = (state(), PeerId::random());
        let measured = Reached { round_trip: Some(Duration::from_micros(1500)), ..reached(TCP, 1, Some(7)) };
        Paths::note(&state, peer, measured.clone()).unwrap();
        Paths::note(&state, peer, reached(QUIC, 2, None)).unwrap();
        assert_eq!(Paths::load(&state).of(peer), [reached(QUIC, 2, None), measured.clone()]);

        Paths::note(&state, peer, reached(TCP, 3, None)).unwrap();
        let paths = Paths::load(&state);
        assert_eq!(paths.of(peer), [Reached { last_s: 3, ..measured }, reached(QUIC, 2, None)]);
        assert!(paths.peers().eq([peer]));
    }

    #[test]
    fn a_path_or_all_of_a_peer_can_be_forgotten() {
        let ((_root, state), peer) = (state(), PeerId::random());
        Paths::note(&state, peer, reached(TCP, 1, None)).unwrap();
        Paths::note(&state, peer, reached(QUIC, 1, None)).unwrap();
        assert_eq!(Paths::forget(&state, peer, Some(&TCP.parse().unwrap())).unwrap(), 1);
        assert!(Paths::load(&state).addresses(peer).eq([&QUIC.parse::<Multiaddr>().unwrap()]));
        assert_eq!(Paths::forget(&state, peer, None).unwrap(), 1);
        assert_eq!(Paths::load(&state), Paths::default());
        assert_eq!(Paths::forget(&state, peer, None).unwrap(), 0);
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let (mut paths, old) = (Paths::default(), PeerId::random());
        paths.add(old, reached(TCP, 1, None));
        for last_s in 2..2 + PATHS_PEERS as u64 {
            paths.add(PeerId::random(), reached(TCP, last_s, None));
        }
        assert_eq!((paths.peers().count(), paths.of(old)), (PATHS_PEERS, &[][..]));
        for port in 1..100 {
            paths.add(old, reached(&format!("/ip4/192.0.2.1/tcp/{port}"), u64::MAX, None));
        }
        assert_eq!(paths.of(old).len(), PEER_PATHS);
    }

    #[test]
    fn a_transport_is_faster_if_both_were_measured_here_and_differ_clearly() {
        let faster = |tcp, quic, network: &str| {
            let (mut paths, peer) = (Paths::default(), PeerId::random());
            paths.add(peer, reached(TCP, 1, tcp));
            paths.add(peer, reached(QUIC, 1, quic));
            paths.faster(peer, |_| Some(network.into()))
        };
        let table = [
            (Some(200), Some(100), Some(TransportKind::Tcp)),
            (Some(100), Some(200), Some(TransportKind::Quic)),
            (Some(125), Some(100), Some(TransportKind::Tcp)),
            (Some(124), Some(100), None),
            (Some(u64::MAX), Some(u64::MAX), None),
            (Some(200), None, None),
            (None, None, None),
        ];
        for (tcp, quic, expected) in table {
            assert_eq!(faster(tcp, quic, HOME), expected, "{tcp:?} {quic:?}");
        }
        assert_eq!(faster(Some(200), Some(100), "10.0.0.0/24"), None);
    }

    #[test]
    fn a_short_session_says_nothing_of_its_path() {
        let second = Duration::from_secs(1);
        assert_eq!(rate_of(MEASURED_BYTES - 1, second), None);
        assert_eq!(rate_of(MEASURED_BYTES, 2 * second), Some(MEASURED_BYTES / 2));
        assert_eq!(rate_of(MEASURED_BYTES, Duration::ZERO), None);
    }

    #[test]
    fn a_damaged_file_counts_as_empty_and_is_replaced() {
        let ((_root, state), peer) = (state(), PeerId::random());
        for damage in
            ["", "{", "[{\"peer_id\": 7}]", "[{\"peer_id\":\"x\",\"address\":\"/tcp\",\"last_s\":1}]"]
        {
            fs::write(state.path().join(PATHS_FILE), damage).unwrap();
            assert_eq!(Paths::load(&state), Paths::default(), "{damage}");
            Paths::note(&state, peer, reached(TCP, 1, None)).unwrap();
            assert_eq!(Paths::load(&state).of(peer).len(), 1, "{damage}");
        }
    }
}
