//! Which of several connections with one peer nobody asked for.
//!
//! Two nodes that dial each other at the same time have two connections where they wanted one. Each finds out for
//! itself which is too much, and both come to the same: those that the peer with the greater PeerId dialed. Several
//! that one side dialed are no duplicates, since somebody asked for each of them. A circuit is too much as soon as
//! there is a direct connection: it was there to bring that about.

use libp2p::PeerId;

/// One connection with a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Candidate<I> {
    pub(super) id: I,
    /// Whether this node dialed it.
    pub(super) dialed: bool,
    /// Whether it goes through a relay.
    pub(super) is_circuit: bool,
    /// Whether transfer streams are open on it.
    pub(super) carries_streams: bool,
}

/// The connections with `peer` that are too much.
pub(super) fn duplicates<I: Copy>(
    own: &PeerId,
    peer: &PeerId,
    candidates: &[Candidate<I>],
) -> Vec<Candidate<I>> {
    let (circuits, directs): (Vec<_>, Vec<_>) = candidates.iter().copied().partition(|one| one.is_circuit);
    if directs.is_empty() {
        return dialed_by_greater(own, peer, circuits);
    }
    circuits.into_iter().chain(dialed_by_greater(own, peer, directs)).collect()
}

/// Of connections that both sides dialed, those of the greater peer.
fn dialed_by_greater<I>(own: &PeerId, peer: &PeerId, mut candidates: Vec<Candidate<I>>) -> Vec<Candidate<I>> {
    let was_dialed_by_both =
        [true, false].iter().all(|side| candidates.iter().any(|one| one.dialed == *side));
    let keeps_own = own < peer;
    candidates.retain(|candidate| was_dialed_by_both && candidate.dialed != keeps_own);
    candidates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: u8, dialed: bool) -> Candidate<u8> {
        Candidate { id, dialed, is_circuit: false, carries_streams: false }
    }

    fn circuit(id: u8, dialed: bool) -> Candidate<u8> {
        Candidate { is_circuit: true, ..candidate(id, dialed) }
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
    fn a_circuit_is_too_much_beside_a_direct_connection_whoever_dialed() {
        let (own, peer) = (PeerId::random(), PeerId::random());
        for (circuit_dialed, direct_dialed) in [(true, true), (true, false), (false, true), (false, false)] {
            let seen = [circuit(1, circuit_dialed), candidate(2, direct_dialed)];
            assert_eq!(ids(&own, &peer, &seen), [1]);
        }
        assert!(ids(&own, &peer, &[circuit(1, true)]).is_empty());
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
