//! On which states two trees last agreed.

use ketch_protocol::{difference::RangeHash, path::EntryPath, session::receiver::Agreed};

/// A pair of trees and how they are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PairKey([u8; KEY_BYTES]);

/// Bytes of a key.
pub(super) const KEY_BYTES: usize = 32;

/// Separates these hashes from all others.
const CONTEXT: &str = "ketch 1 pair of trees";

impl PairKey {
    /// For the tree at `path` of `share` at `peer`; `terms` is whatever else decides what is compared and
    /// kept: the selection and the policy, encoded.
    pub fn new(peer: &[u8], share: &[u8], path: Option<&EntryPath>, terms: &[u8]) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(CONTEXT);
        for part in [peer, share, path.map_or(&[][..], EntryPath::as_bytes), terms] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Self(*hasher.finalize().as_bytes())
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

pub(super) fn encode(agreed: Agreed) -> [u8; 32] {
    let mut out = [0; 32];
    out[..16].copy_from_slice(&agreed.theirs.0);
    out[16..].copy_from_slice(&agreed.own.0);
    out
}

pub(super) fn decode(bytes: &[u8]) -> Option<Agreed> {
    let (theirs, own) = bytes.split_first_chunk()?;
    Some(Agreed { theirs: RangeHash(*theirs), own: RangeHash(own.try_into().ok()?) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_of_a_pair_makes_another_key() {
        let path = EntryPath::parse(b"a").unwrap();
        let keys = [
            PairKey::new(b"p", b"s", None, b""),
            PairKey::new(b"q", b"s", None, b""),
            PairKey::new(b"p", b"t", None, b""),
            PairKey::new(b"p", b"s", Some(&path), b""),
            PairKey::new(b"p", b"s", None, b"a"),
            PairKey::new(b"ps", b"", None, b""),
        ];
        for (index, key) in keys.iter().enumerate() {
            assert!(!keys[..index].contains(key), "{index}");
        }
    }

    #[test]
    fn agreed_roots_are_decoded_as_they_were_encoded() {
        let agreed = Agreed { theirs: RangeHash([1; 16]), own: RangeHash([2; 16]) };
        assert_eq!(decode(&encode(agreed)), Some(agreed));
        assert_eq!(decode(&[0; 31]), None);
    }
}
