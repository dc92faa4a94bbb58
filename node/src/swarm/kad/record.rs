//! Records of the DHT: the addresses of a peer, signed by it.

use libp2p::{
    Multiaddr, PeerId,
    core::{PeerRecord, SignedEnvelope},
    identity::{Keypair, SigningError},
    kad,
};

use super::limits::{RECORD_ADDRESSES, RECORD_BYTES};

/// What keys of records begin with, so that they never meet those of other things in the same DHT.
const KEY_PREFIX: &[u8] = b"/ketch/peer/";

/// Where a peer is reached, by its own word. The addresses are hints, as all are: a dial proves the PeerId.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whereabouts {
    /// Who says so.
    pub peer: PeerId,
    /// Grows from one record of a peer to the next: Unix seconds.
    pub sequence: u64,
    /// Where it is reached, the best first.
    pub addresses: Vec<Multiaddr>,
}

/// Why a record is worth nothing.
#[derive(Debug, thiserror::Error)]
pub enum RecordError {
    /// It is longer than any peer needs.
    #[error("it has {0} bytes, and {RECORD_BYTES} are allowed")]
    TooLong(usize),
    /// It has more addresses than any peer needs.
    #[error("it has {0} addresses, and {RECORD_ADDRESSES} are allowed")]
    TooManyAddresses(usize),
    /// It is no signed peer record (libp2p RFC 0003).
    #[error("it is no signed peer record: {0}")]
    Malformed(String),
    /// It is signed by a peer under whose key it does not lie.
    #[error("it is a record of {0}, which lies under another peer's key")]
    Misplaced(PeerId),
}

/// The key under which the record of a peer lies.
pub fn key_of(peer: &PeerId) -> kad::RecordKey {
    kad::RecordKey::from([KEY_PREFIX, &peer.to_bytes()].concat())
}

/// Signs the addresses of this node; those beyond the bound are left out.
pub fn sign(key: &Keypair, mut addresses: Vec<Multiaddr>) -> Result<Vec<u8>, SigningError> {
    addresses.truncate(RECORD_ADDRESSES);
    Ok(PeerRecord::new_interop(key, addresses)?.into_signed_envelope().into_protobuf_encoding())
}

/// Reads a record that lies under a key, and checks that the peer of that key has signed it.
pub fn open(key: &kad::RecordKey, value: &[u8]) -> Result<Whereabouts, RecordError> {
    if value.len() > RECORD_BYTES {
        return Err(RecordError::TooLong(value.len()));
    }
    let malformed = |error: &dyn std::error::Error| RecordError::Malformed(error.to_string());
    let envelope = SignedEnvelope::from_protobuf_encoding(value).map_err(|error| malformed(&error))?;
    let record = PeerRecord::from_signed_envelope_interop(envelope).map_err(|error| malformed(&error))?;
    let peer = record.peer_id();
    if key_of(&peer) != *key {
        return Err(RecordError::Misplaced(peer));
    }
    match record.addresses() {
        many if many.len() > RECORD_ADDRESSES => Err(RecordError::TooManyAddresses(many.len())),
        addresses => Ok(Whereabouts { peer, sequence: record.seq(), addresses: addresses.to_vec() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(count: usize) -> Vec<Multiaddr> {
        (0..count).map(|port| format!("/ip4/192.0.2.1/tcp/{}", port + 1).parse().unwrap()).collect()
    }

    #[test]
    fn what_a_peer_signed_is_read_as_it_was() {
        let key = Keypair::generate_ed25519();
        let peer = key.public().to_peer_id();
        let read = open(&key_of(&peer), &sign(&key, addresses(2)).unwrap()).unwrap();
        assert_eq!((read.peer, read.addresses), (peer, addresses(2)));
    }

    #[test]
    fn a_record_has_room_for_as_many_addresses_as_it_may_have() {
        let key = Keypair::generate_ed25519();
        let relayed = format!("/ip6/2001:db8::1/udp/65535/quic-v1/p2p/{}/p2p-circuit", PeerId::random());
        let signed = sign(&key, vec![relayed.parse().unwrap(); RECORD_ADDRESSES + 1]).unwrap();
        assert!(signed.len() <= RECORD_BYTES, "{}", signed.len());
        let read = open(&key_of(&key.public().to_peer_id()), &signed).unwrap();
        assert_eq!(read.addresses.len(), RECORD_ADDRESSES);
    }

    #[test]
    fn a_record_under_the_key_of_another_peer_is_refused() {
        let signed = sign(&Keypair::generate_ed25519(), addresses(1)).unwrap();
        let refused = open(&key_of(&PeerId::random()), &signed).unwrap_err();
        assert!(matches!(refused, RecordError::Misplaced(_)), "{refused}");
    }

    #[test]
    fn a_record_of_which_any_byte_was_changed_is_refused() {
        let key = Keypair::generate_ed25519();
        let signed = sign(&key, addresses(1)).unwrap();
        for at in 0..signed.len() {
            let mut changed = signed.clone();
            changed[at] ^= 1;
            open(&key_of(&key.public().to_peer_id()), &changed).unwrap_err();
        }
    }

    #[test]
    fn a_record_beyond_a_bound_is_refused() {
        let key = Keypair::generate_ed25519();
        let under = key_of(&key.public().to_peer_id());
        let refused = open(&under, &vec![0; RECORD_BYTES + 1]).unwrap_err();
        assert!(matches!(refused, RecordError::TooLong(_)), "{refused}");
        let many = PeerRecord::new_interop(&key, addresses(RECORD_ADDRESSES + 1)).unwrap();
        let refused = open(&under, &many.into_signed_envelope().into_protobuf_encoding()).unwrap_err();
        assert!(matches!(refused, RecordError::TooManyAddresses(_)), "{refused}");
    }
}
