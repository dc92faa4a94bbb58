//! [`Lookup`]: what came of the search for one peer.

use libp2p::{
    PeerId,
    kad::{GetRecordError, GetRecordOk, GetRecordResult},
};

use super::{
    Answer,
    limits::{HOLDERS, LOOKUP_TIMEOUT, LOOKUPS},
    record::{Whereabouts, open},
};

/// Why a peer was not found.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LookupError {
    /// Nobody near its key has a record of it.
    #[error("the dht has no address of {0}")]
    NotFound(PeerId),
    /// The DHT was too slow.
    #[error("the dht did not say where {0} is within {limit_s} s", limit_s = LOOKUP_TIMEOUT.as_secs())]
    Timeout(PeerId),
    /// As many are looked for as may be.
    #[error("{LOOKUPS} peers are looked for in the dht already")]
    Busy,
}

/// The search for one peer.
#[derive(Debug)]
pub(super) struct Lookup {
    peer: PeerId,
    answer: Answer,
    newest: Option<Whereabouts>,
    holders: usize,
    timed_out: bool,
}

impl Lookup {
    pub(super) fn new(peer: PeerId, answer: Answer) -> Self {
        Self { peer, answer, newest: None, holders: 0, timed_out: false }
    }

    /// Takes what came. A record that its peer did not sign is as good as none.
    pub(super) fn take(&mut self, result: GetRecordResult) {
        match result {
            Ok(GetRecordOk::FoundRecord(found)) => {
                let Ok(whereabouts) = open(&found.record.key, &found.record.value) else { return };
                self.holders += 1;
                if self.newest.as_ref().is_none_or(|newest| newest.sequence < whereabouts.sequence) {
                    self.newest = Some(whereabouts);
                }
            }
            Err(GetRecordError::Timeout { .. }) => self.timed_out = true,
            Ok(GetRecordOk::FinishedWithNoAdditionalRecord { .. }) | Err(GetRecordError::NotFound { .. }) => {
            }
        }
    }

    /// Whether more answers would tell no more.
    pub(super) fn is_content(&self) -> bool {
        self.holders >= HOLDERS
    }

    /// Says what came of it.
    pub(super) fn answer(self) {
        let missing = if self.timed_out { LookupError::Timeout } else { LookupError::NotFound };
        // Whoever asked may have gone.
        let _ = self.answer.send(self.newest.ok_or(missing(self.peer)));
    }
}

#[cfg(test)]
mod tests {
    use libp2p::{
        identity::Keypair,
        kad::{PeerRecord, Record},
    };
    use tokio::sync::oneshot;

    use super::*;
    use crate::swarm::kad::{key_of, sign};

    fn found(peer: &PeerId, value: Vec<u8>) -> GetRecordResult {
        Ok(GetRecordOk::FoundRecord(PeerRecord { peer: None, record: Record::new(key_of(peer), value) }))
    }

    fn lookup() -> (Keypair, Lookup, oneshot::Receiver<Result<Whereabouts, LookupError>>) {
        let key = Keypair::generate_ed25519();
        let (answer, answered) = oneshot::channel();
        let lookup = Lookup::new(key.public().to_peer_id(), answer);
        (key, lookup, answered)
    }

    #[test]
    fn what_the_peer_signed_is_found_among_what_it_did_not() {
        let (key, mut lookup, mut answered) = lookup();
        let peer = key.public().to_peer_id();
        let address = "/ip4/192.0.2.1/tcp/1".parse::<libp2p::Multiaddr>().unwrap();
        lookup.take(found(&peer, b"junk".to_vec()));
        lookup.take(found(&peer, sign(&Keypair::generate_ed25519(), vec![]).unwrap()));
        lookup.take(found(&peer, sign(&key, vec![address.clone()]).unwrap()));
        assert!(!lookup.is_content());
        lookup.answer();
        assert_eq!(answered.try_recv().unwrap().unwrap().addresses, [address]);
    }

    #[test]
    fn enough_holders_end_a_lookup() {
        let (key, mut lookup, _answered) = lookup();
        let signed = sign(&key, vec![]).unwrap();
        for _ in 0..HOLDERS {
            assert!(!lookup.is_content());
            lookup.take(found(&key.public().to_peer_id(), signed.clone()));
        }
        assert!(lookup.is_content());
    }

    #[test]
    fn that_nobody_knows_and_that_nobody_answered_are_told_apart() {
        let (key, mut slow, mut answered) = lookup();
        let peer = key.public().to_peer_id();
        slow.take(Err(GetRecordError::Timeout { key: key_of(&peer) }));
        slow.answer();
        assert_eq!(answered.try_recv().unwrap(), Err(LookupError::Timeout(peer)));

        let (key, mut unknown, mut answered) = lookup();
        let peer = key.public().to_peer_id();
        unknown.take(Err(GetRecordError::NotFound { key: key_of(&peer), closest_peers: vec![] }));
        unknown.answer();
        assert_eq!(answered.try_recv().unwrap(), Err(LookupError::NotFound(peer)));
    }
}
