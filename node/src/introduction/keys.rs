//! What an introduction proves and how it is sealed, without a network: SPAKE2, and the keys that follow from it.
//!
//! SPAKE2 makes one key at both sides if they know the same password, and lets whoever does not try one password per
//! exchange. The identities in it are the PeerIds that both sides have proved on the connection, so that nobody who
//! relays the messages to another connection gets anywhere: the keys differ there. Each of the four keys is used for
//! one thing, once.

use ketch_protocol::introduction::{PROOF_BYTES, Purpose, SHARE_BYTES};
use ring::aead::{self, Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use spake2::{Ed25519Group, Identity, Password as SharedPassword, Spake2};

use crate::{swarm::PeerId, trust::invitation::Password};

/// What is hashed into the keys beside the password, so that they are good for nothing else.
const LABEL: &str = "ketch introduction 1";

/// Who takes which part in an exchange, and what for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Parties {
    pub(super) guest: PeerId,
    pub(super) inviter: PeerId,
    pub(super) purpose: Purpose,
}

/// A key exchange that waits for the other side's share.
pub(super) struct Exchange(Spake2<Ed25519Group>);

/// Why there are no keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    /// The bytes are no share of the other side.
    #[error("the share of the key exchange is none")]
    Share,
    /// It does not open with the key that both should have.
    #[error("what was sealed does not open")]
    Seal,
}

impl Exchange {
    /// Begins as the guest; the share is for the inviter.
    pub(super) fn as_guest(password: &Password, parties: &Parties) -> (Self, [u8; SHARE_BYTES]) {
        let (guest, inviter) = identities(parties);
        Self::begun(Spake2::start_a(&shared(password, parties.purpose), &guest, &inviter))
    }

    /// Begins as the inviter; the share is for the guest.
    pub(super) fn as_inviter(password: &Password, parties: &Parties) -> (Self, [u8; SHARE_BYTES]) {
        let (guest, inviter) = identities(parties);
        Self::begun(Spake2::start_b(&shared(password, parties.purpose), &guest, &inviter))
    }

    fn begun((exchange, share): (Spake2<Ed25519Group>, Vec<u8>)) -> (Self, [u8; SHARE_BYTES]) {
        let share = share.try_into().expect("a share is a letter for the side and a point of 32 bytes");
        (Self(exchange), share)
    }

    /// The keys, from the other side's share. They are the same on both sides if the password is.
    pub(super) fn finish(self, share: &[u8; SHARE_BYTES]) -> Result<Keys, KeyError> {
        let key = self.0.finish(share).map_err(|_| KeyError::Share)?;
        Ok(Keys::from_shared(&key))
    }
}

/// The names of both sides in the exchange.
fn identities(parties: &Parties) -> (Identity, Identity) {
    let named = |side: &str, peer: PeerId| {
        Identity::new(&[format!("{LABEL} {side} ").as_bytes(), &peer.to_bytes()].concat())
    };
    (named("guest", parties.guest), named("inviter", parties.inviter))
}

/// What both sides know, of this kind and for this purpose.
fn shared(password: &Password, purpose: Purpose) -> SharedPassword {
    let purpose = match purpose {
        Purpose::Fetch => "fetch",
        Purpose::Pair => "pair",
    };
    SharedPassword::new(match password {
        Password::Code(code) => format!("{LABEL} {purpose} code {code}").into_bytes(),
        Password::Ticket(secret) => {
            [format!("{LABEL} {purpose} ticket ").as_bytes(), secret.as_bytes()].concat()
        }
    })
}

/// What follows from an exchange.
pub(super) struct Keys {
    /// Only who knows the password can say it; hashes are compared in constant time.
    guest_proof: blake3::Hash,
    inviter_proof: blake3::Hash,
    pub(super) from_guest: Seal,
    pub(super) from_inviter: Seal,
}

impl Keys {
    fn from_shared(key: &[u8]) -> Self {
        let derive = |what: &str| blake3::derive_key(&format!("{LABEL} {what}"), key);
        Self {
            guest_proof: derive("guest proof").into(),
            inviter_proof: derive("inviter proof").into(),
            from_guest: Seal(derive("guest seal")),
            from_inviter: Seal(derive("inviter seal")),
        }
    }

    /// What the guest says to prove that it knows the password.
    pub(super) fn guest_proof(&self) -> [u8; PROOF_BYTES] {
        self.guest_proof.into()
    }

    /// What the inviter says to prove it.
    pub(super) fn inviter_proof(&self) -> [u8; PROOF_BYTES] {
        self.inviter_proof.into()
    }

    /// Whether the guest knows the password.
    pub(super) fn is_guest_proof(&self, proof: [u8; PROOF_BYTES]) -> bool {
        self.guest_proof == blake3::Hash::from(proof)
    }

    /// Whether the inviter does.
    pub(super) fn is_inviter_proof(&self, proof: [u8; PROOF_BYTES]) -> bool {
        self.inviter_proof == blake3::Hash::from(proof)
    }
}

/// Seals what one side says, once.
pub(super) struct Seal([u8; 32]);

impl Seal {
    /// The bytes under the key (ChaCha20-Poly1305, RFC 8439), 16 longer.
    pub(super) fn close(self, bytes: Vec<u8>) -> Vec<u8> {
        let mut sealed = bytes;
        let closed = self.key().seal_in_place_append_tag(nonce(), Aad::empty(), &mut sealed);
        closed.expect("what is sealed is far below the 256 GiB that the cipher takes");
        sealed
    }

    /// What was sealed.
    pub(super) fn open(self, mut sealed: Vec<u8>) -> Result<Vec<u8>, KeyError> {
        let opened = self.key().open_in_place(nonce(), Aad::empty(), &mut sealed);
        opened.map(|bytes| bytes.to_vec()).map_err(|_| KeyError::Seal)
    }

    fn key(&self) -> LessSafeKey {
        let key = UnboundKey::new(&CHACHA20_POLY1305, &self.0);
        LessSafeKey::new(key.expect("a key of ChaCha20-Poly1305 has 32 bytes"))
    }
}

/// Zeros: a key seals one message.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; aead::NONCE_LEN])
}

#[cfg(test)]
mod tests {
    use ketch_protocol::{
        introduction::{Hello, Message, Welcome, encode},
        limits::VERSION,
        message::{SECRET_BYTES, Secret},
    };
    use rand_core::{CryptoRng, RngCore};

    use super::*;

    fn code(text: &str) -> Password {
        Password::Code(text.parse().unwrap())
    }

    fn parties() -> Parties {
        Parties { guest: PeerId::random(), inviter: PeerId::random(), purpose: Purpose::Fetch }
    }

    /// The keys of a guest and of an inviter who believe this.
    fn exchange(guest: (&Password, &Parties), inviter: (&Password, &Parties)) -> (Keys, Keys) {
        let (guest, guest_share) = Exchange::as_guest(guest.0, guest.1);
        let (inviter, inviter_share) = Exchange::as_inviter(inviter.0, inviter.1);
        (guest.finish(&inviter_share).unwrap(), inviter.finish(&guest_share).unwrap())
    }

    fn agree(guest: &Keys, inviter: &Keys) -> bool {
        let proofs =
            (inviter.is_guest_proof(guest.guest_proof()), guest.is_inviter_proof(inviter.inviter_proof()));
        assert_eq!(proofs.0, proofs.1);
        proofs.0
    }

    /// Gives the same byte over and over.
    struct Same(u8);

    impl RngCore for Same {
        fn next_u32(&mut self) -> u32 {
            u32::from_ne_bytes([self.0; 4])
        }

        fn next_u64(&mut self) -> u64 {
            u64::from_ne_bytes([self.0; 8])
        }

        fn fill_bytes(&mut self, bytes: &mut [u8]) {
            bytes.fill(self.0);
        }

        fn try_fill_bytes(&mut self, bytes: &mut [u8]) -> Result<(), rand_core::Error> {
            self.fill_bytes(bytes);
            Ok(())
        }
    }

    impl CryptoRng for Same {}

    /// The peer with an ed25519 key of this byte.
    fn peer(byte: u8) -> PeerId {
        PeerId::from_bytes(&[&[0x00, 0x24, 0x08, 0x01, 0x12, 0x20][..], &[byte; 32]].concat()).unwrap()
    }

    /// The whole introduction of `docs/wire-format.md`: what both sides say, frame by frame.
    fn example() -> Vec<u8> {
        let password = code("7-crossword-almond");
        let parties = Parties { guest: peer(0x22), inviter: peer(0x11), purpose: Purpose::Fetch };
        let (guest, inviter) = identities(&parties);
        let shared = shared(&password, parties.purpose);
        let (guest_exchange, guest_share) =
            Exchange::begun(Spake2::start_a_with_rng(&shared, &guest, &inviter, Same(1)));
        let (inviter_exchange, inviter_share) =
            Exchange::begun(Spake2::start_b_with_rng(&shared, &guest, &inviter, Same(2)));
        let guest = guest_exchange.finish(&inviter_share).unwrap();
        let inviter = inviter_exchange.finish(&guest_share).unwrap();
        let (guest_proof, proof) = (guest.guest_proof(), inviter.inviter_proof());
        let sealed = inviter.from_inviter.close(b"ketch1...".to_vec());
        let hello = Hello {
            version: VERSION,
            purpose: parties.purpose,
            nameplate: password.nameplate(),
            share: guest_share,
        };
        let said = [
            Message::Hello(hello),
            Message::Share(inviter_share),
            Message::Proof(guest_proof),
            Message::Welcome(Welcome { proof, sealed }),
            Message::Card(guest.from_guest.close(Vec::new())),
            Message::Thanks,
        ];
        said.iter().flat_map(encode).collect()
    }

    #[test]
    fn the_fixture_is_what_two_who_know_the_code_say() {
        let fixture = include_str!("../../../fixtures/wire/introduction.hex");
        let digits: String = fixture.lines().filter_map(|line| line.split('#').next()).collect();
        let digits: String = digits.split_whitespace().collect();
        assert_eq!(data_encoding::HEXLOWER.encode(&example()), digits);
    }

    #[test]
    fn who_knows_the_password_proves_it_and_opens_what_was_sealed() {
        let secret = Password::Ticket(Secret::from_bytes([7; SECRET_BYTES]));
        for password in [code("7-crossword-almond"), secret] {
            let parties = parties();
            let (guest, inviter) = exchange((&password, &parties), (&password, &parties));
            assert!(agree(&guest, &inviter));
            let (ticket, card) = (b"ticket".to_vec(), b"card".to_vec());
            assert_eq!(guest.from_inviter.open(inviter.from_inviter.close(ticket.clone())), Ok(ticket));
            assert_eq!(inviter.from_guest.open(guest.from_guest.close(card.clone())), Ok(card));
        }
    }

    #[test]
    fn another_password_proves_nothing_and_opens_nothing() {
        let (right, parties) = (code("7-crossword-almond"), parties());
        for wrong in ["7-crossword-album", "8-crossword-almond", "7-almond-crossword"] {
            let (guest, inviter) = exchange((&code(wrong), &parties), (&right, &parties));
            assert!(!agree(&guest, &inviter));
            assert_eq!(
                guest.from_inviter.open(inviter.from_inviter.close(b"ticket".to_vec())),
                Err(KeyError::Seal)
            );
        }
    }

    #[test]
    fn the_same_password_on_other_connections_proves_nothing() {
        // given: somebody in the middle who has a connection with each side and hands their messages on
        let (password, seen_by_inviter) = (code("7-crossword-almond"), parties());
        let middle = PeerId::random();
        let others = [
            Parties { inviter: middle, ..seen_by_inviter },
            Parties { guest: middle, ..seen_by_inviter },
            Parties { purpose: Purpose::Pair, ..seen_by_inviter },
        ];
        // then: the proof of the guest is none for the inviter
        for seen_by_guest in others {
            let (guest, inviter) = exchange((&password, &seen_by_guest), (&password, &seen_by_inviter));
            assert!(!agree(&guest, &inviter));
        }
    }

    #[test]
    fn no_side_can_say_back_what_it_heard() {
        let (password, parties) = (code("7-crossword-almond"), parties());
        let (guest, share) = Exchange::as_guest(&password, &parties);
        assert_eq!(guest.finish(&share).err(), Some(KeyError::Share));
        let (guest, inviter) = exchange((&password, &parties), (&password, &parties));
        assert!(!guest.is_inviter_proof(guest.guest_proof()));
        assert!(!inviter.is_guest_proof(inviter.inviter_proof()));
    }

    #[test]
    fn what_is_no_share_is_refused() {
        let (password, parties) = (code("7-crossword-almond"), parties());
        let is_refused = |share: [u8; SHARE_BYTES]| {
            let (guest, _) = Exchange::as_guest(&password, &parties);
            guest.finish(&share).is_err_and(|error| error == KeyError::Share)
        };
        assert!(is_refused([0; SHARE_BYTES]) && is_refused([0xff; SHARE_BYTES]));
        // Of the right side, but only every second number is the height of a point.
        let heights = (0..100).filter(|height| {
            let mut share = [0; SHARE_BYTES];
            (share[0], share[1]) = (b'B', *height);
            is_refused(share)
        });
        assert!((30..70).contains(&heights.count()));
    }

    #[test]
    fn what_was_sealed_can_not_be_changed() {
        let sealed = Keys::from_shared(b"key").from_guest.close(b"card".to_vec());
        for place in 0..sealed.len() {
            let mut changed = sealed.clone();
            changed[place] ^= 1;
            assert_eq!(Keys::from_shared(b"key").from_guest.open(changed), Err(KeyError::Seal));
        }
        assert_eq!(Keys::from_shared(b"key").from_inviter.open(sealed), Err(KeyError::Seal));
        assert_eq!(Keys::from_shared(b"key").from_guest.open(Vec::new()), Err(KeyError::Seal));
    }
}
