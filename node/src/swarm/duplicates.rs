//! Which of several connections with one peer nobody asked for.
//!
//! Two nodes that dial each other at the same time have two connections where they wanted one. Each finds out for
//! itself which is too much, and both come to the same: those that the peer with the greater PeerId dialed. Several
//! that one side dialed are no duplicates, since somebody asked for each of them.

use libp2p::PeerId;

/// One connection with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate<I> {
    pub(super) id: I,
    /// Whether this node dialed it.
    pub(super) dialed: bool,
    /// Whether transfer streams are open on it.
    pub(super) carries_streams: bool,
}

/// The connections with `peer` that are too much.
pub(super) fn duplicates<I: Copy>(
    own: &PeerId,
    peer: &PeerId,
    candidates: &[Candidate<I>],
) -> Vec<Candidate<I>> {
    let was_dialed_by_both =
        [true, false].iter().all(|side| candidates.iter().any(|one| one.dialed == *side));
    if !was_dialed_by_both {
        return Vec::new();
    }
    let keeps_own = own < peer;
    candidates.iter().filter(|candidate| candidate.dialed != keeps_own).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: u8, dialed: bool) -> Candidate<u8> {
        Candidate { id, dialed, carries_streams: false }
    }

    fn ids(own: &PeerId, peer: &PeerId, candidates: &[Candidate<u8>]) -> Vec<u8> {
        duplicates(own, peer, candidates).iter().map(|one| one.id).collect()
    }

    #[test]
    fn both_sides_keep_the_connections_that_the_lesser_peer_dialed() {
        let mut peers = [PeerId::random(), PeerId::random()];
        peers.sort();
        let [lesser, greater] = peers;
        // The same connections seen from either side.
        let seen = |by_lesser: bool| {
            [(1, true), (2, false), (3, true), (4, false)]
                .map(|(id, lesser_dialed)| candidate(id, lesser_dialed == by_lesser))
        };
        assert_eq!(ids(&lesser, &greater, &seen(true)), [2, 4]);
        assert_eq!(ids(&greater, &lesser, &seen(false)), [2, 4]);
    }

    #[test]
    fn what_one_side_dialed_alone_was_asked_for() {
        let (own, peer) = (PeerId::random(), PeerId::random());
        for dialed in [true, false] {
            assert!(ids(&own, &peer, &[candidate(1, dialed), candidate(2, dialed)]).is_empty());
        }
        assert!(ids(&own, &peer, &[]).is_empty());
    }
}
