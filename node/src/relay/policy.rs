//! [`Policy`]: how much a relay does for whom.

use std::{collections::BTreeMap, fmt, time::Duration};

use super::limits::{MEETING_BYTES, MEETING_TIME};
use crate::swarm::PeerId;

/// How much of other people's data is carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Carrying {
    /// Enough for two peers to meet and to make a connection of their own.
    Off,
    /// As much as the policy says.
    Limited,
    /// Any amount; only the traffic of all peers together has a limit.
    On,
}

impl fmt::Display for Carrying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Off => "off",
            Self::Limited => "limited",
            Self::On => "on",
        })
    }
}

/// What one circuit may carry, both directions together. `None` is without limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Allowance {
    /// How many bytes.
    pub bytes: Option<u64>,
    /// For how long.
    pub time: Option<Duration>,
}

/// How much a relay does for whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// Reservations of all peers; each has one.
    pub reservations: usize,
    /// Reservations of the peers behind one IPv4 address, or in one IPv6 network of 64 bits.
    pub reservations_per_address: usize,
    /// How long a reservation lasts unless it is renewed.
    pub reservation_time: Duration,
    /// Circuits at a time.
    pub circuits: usize,
    /// Circuits at a time from or to one peer.
    pub circuits_per_peer: usize,
    /// How much is carried for those that are not listed.
    pub carrying: Carrying,
    /// What a circuit may carry where carrying is limited.
    pub circuit: Allowance,
    /// Bytes that are carried from and to one peer in an hour; `None` for any number. Peers that are listed with
    /// [`Carrying::On`] are exempt.
    pub hourly_bytes_per_peer: Option<u64>,
    /// Bytes that are carried in an hour.
    pub hourly_bytes: Option<u64>,
    /// How much is carried for these. Of the two ends of a circuit, the one for which more is carried counts.
    pub listed: BTreeMap<PeerId, Carrying>,
}

/// What a small rented machine does beside other work.
impl Default for Policy {
    fn default() -> Self {
        Self {
            reservations: 1_024,
            reservations_per_address: 64,
            reservation_time: Duration::from_secs(3600),
            circuits: 256,
            circuits_per_peer: 8,
            carrying: Carrying::Limited,
            circuit: Allowance { bytes: Some(128 << 20), time: Some(Duration::from_secs(3600)) },
            hourly_bytes_per_peer: Some(1 << 30),
            hourly_bytes: Some(16 << 30),
            listed: BTreeMap::new(),
        }
    }
}

impl Policy {
    /// How much is carried for a peer.
    pub fn carrying_for(&self, peer: &PeerId) -> Carrying {
        self.listed.get(peer).copied().unwrap_or(self.carrying)
    }

    /// What a circuit with this much carrying may carry.
    pub fn allowance(&self, carrying: Carrying) -> Allowance {
        match carrying {
            Carrying::Off => Allowance { bytes: Some(MEETING_BYTES), time: Some(MEETING_TIME) },
            Carrying::Limited => self.circuit,
            Carrying::On => Allowance::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_listed_is_treated_as_listed_and_others_by_default() {
        let [friend, foe, other] = std::array::from_fn(|_| PeerId::random());
        let listed = [(friend, Carrying::On), (foe, Carrying::Off)].into();
        let policy = Policy { listed, ..Policy::default() };
        let carried = [friend, foe, other].map(|peer| policy.carrying_for(&peer));
        assert_eq!(carried, [Carrying::On, Carrying::Off, Carrying::Limited]);
        assert_eq!(policy.allowance(Carrying::On), Allowance::default());
        assert_eq!(policy.allowance(Carrying::Off).bytes, Some(MEETING_BYTES));
        assert_eq!(policy.allowance(Carrying::Limited), policy.circuit);
    }
}
