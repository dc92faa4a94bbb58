//! [`Offer`]: what is offered, to whom, how often and until when; the rules of admission, without a file or
//! a clock.
//!
//! An ask with the right secret *reserves* a use for its peer, done *spends* it. A cut session leaves the
//! reservation, so the same peer may come again at any time and nobody takes its place. Only the peer itself
//! gives a reservation back, by declining; one whose peer is lost for good ends with the offer, or when the
//! sender withdraws the offer and makes another.

use std::{num::NonZeroU32, path::PathBuf};

use ketch_protocol::problem::Reason;

use super::{Secret, Ticket};
use crate::swarm::{Multiaddr, PeerId};

/// One or more paths that wait for a peer with the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    pub(super) paths: Vec<PathBuf>,
    pub(super) only_for: Option<PeerId>,
    pub(super) secret: Secret,
    pub(super) expires_s: Option<u64>,
    pub(super) uses_left: u32,
    pub(super) reserved: Vec<PeerId>,
    pub(super) addresses: Vec<Multiaddr>,
}

/// Why a peer is not admitted. It is for the log of this side; the peer hears [`Refusal::reason`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It does not ask as a holder of a ticket does.
    #[error("it asks for a share or for a comparison, and this is an offer")]
    Claim,
    /// The secret is another one.
    #[error("its secret is not the ticket's")]
    Secret,
    /// The offer is for another peer.
    #[error("the offer is for {0} only")]
    OtherPeer(PeerId),
    /// No use is left.
    #[error("the ticket's uses are spent")]
    Spent,
    /// Every use that is left is reserved for a peer that came before.
    #[error("the ticket is reserved for {0}, which came first; `--new` withdraws it and makes another")]
    Reserved(PeerId),
    /// It came too late.
    #[error("the ticket has expired")]
    Expired,
}

impl Refusal {
    /// What the refused peer is told: the same for every refusal, so that a stranger learns nothing.
    pub fn reason(self) -> Reason {
        Reason::NotAdmitted
    }
}

impl Offer {
    /// An offer that nobody has asked for yet. `paths` are absolute, `addresses` are filled in later.
    pub fn new(
        paths: Vec<PathBuf>,
        only_for: Option<PeerId>,
        secret: Secret,
        uses: NonZeroU32,
        expires_s: Option<u64>,
    ) -> Self {
        let (reserved, addresses) = (Vec::new(), Vec::new());
        Self { paths, only_for, secret, expires_s, uses_left: uses.get(), reserved, addresses }
    }

    /// What is offered, as absolute paths.
    pub fn paths(&self) -> &[PathBuf] {
        &self.paths
    }

    /// The only peer that may come, if one is named.
    pub fn only_for(&self) -> Option<PeerId> {
        self.only_for
    }

    /// The Unix second from which on nobody new is admitted.
    pub fn expires_s(&self) -> Option<u64> {
        self.expires_s
    }

    /// How many peers may still finish, those with a reservation included.
    pub fn uses_left(&self) -> u32 {
        self.uses_left
    }

    /// The peers that have begun and not finished; never more than [`Offer::uses_left`].
    pub fn reserved(&self) -> &[PeerId] {
        &self.reserved
    }

    /// Where the offer listened last time; empty at first.
    pub fn addresses(&self) -> &[Multiaddr] {
        &self.addresses
    }

    /// Whether no use is left.
    pub fn is_spent(&self) -> bool {
        self.uses_left == 0
    }

    /// Whether it is past its time at the Unix second `now_s`.
    pub fn is_expired(&self, now_s: u64) -> bool {
        self.expires_s.is_some_and(|expires_s| expires_s <= now_s)
    }

    /// Its ticket, as `peer` hands it out.
    pub fn ticket(&self, peer: PeerId, addresses: impl IntoIterator<Item = Multiaddr>) -> Ticket {
        Ticket::new(peer, addresses, self.secret, self.expires_s)
    }

    /// Admits `peer` at the Unix second `now_s` and reserves a use for it, or says why not.
    ///
    /// A peer with a reservation is admitted again even after expiry, so that a transfer that began in time
    /// can finish.
    pub fn admit(&mut self, peer: PeerId, secret: &Secret, now_s: u64) -> Result<(), Refusal> {
        if self.secret != *secret {
            return Err(Refusal::Secret);
        }
        if let Some(only) = self.only_for.filter(|&only| only != peer) {
            return Err(Refusal::OtherPeer(only));
        }
        if self.is_spent() {
            return Err(Refusal::Spent);
        }
        if self.reserved.contains(&peer) {
            return Ok(());
        }
        if self.is_expired(now_s) {
            return Err(Refusal::Expired);
        }
        match self.reserved.first() {
            Some(&first) if self.reserved.len() >= self.uses_left as usize => Err(Refusal::Reserved(first)),
            _ => {
                self.reserved.push(peer);
                Ok(())
            }
        }
    }

    /// Takes back the reservation that `peer` gave up by declining. A cut session is no such case.
    pub fn release(&mut self, peer: PeerId) {
        self.reserved.retain(|&reserved| reserved != peer);
    }

    /// Spends the use reserved for `peer`, which has stored and verified everything. Without a reservation
    /// nothing is spent, so a done that is said twice counts once.
    pub fn spend(&mut self, peer: PeerId) {
        if self.reserved.contains(&peer) {
            self.release(peer);
            self.uses_left -= 1;
        }
    }

    /// Whether a `send` of `paths` to `only_for` means this offer.
    pub(super) fn is_for(&self, paths: &[PathBuf], only_for: Option<PeerId>) -> bool {
        self.paths == paths && self.only_for == only_for
    }

    /// Takes another number of uses or another expiry where one is given. Peers that have begun keep their
    /// place, so there are never fewer uses than reservations.
    pub(super) fn renew(&mut self, uses: Option<NonZeroU32>, expires_s: Option<Option<u64>>) {
        if let Some(uses) = uses {
            let reserved = u32::try_from(self.reserved.len()).unwrap_or(u32::MAX);
            self.uses_left = uses.get().max(reserved);
        }
        if let Some(expires_s) = expires_s {
            self.expires_s = expires_s;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ketch_protocol::message::SECRET_BYTES;

    const NOW_S: u64 = 1_000;
    const EXPIRES_S: u64 = 2_000;

    fn secret() -> Secret {
        Secret::from_bytes([7; SECRET_BYTES])
    }

    fn offer(uses: u32) -> Offer {
        let paths = vec![PathBuf::from("/tree")];
        Offer::new(paths, None, secret(), NonZeroU32::new(uses).unwrap(), Some(EXPIRES_S))
    }

    fn peers() -> [PeerId; 3] {
        [(); 3].map(|()| PeerId::random())
    }

    #[test]
    fn a_peer_with_the_secret_is_admitted_once_it_asks() {
        let [ann, ..] = peers();
        let mut offer = offer(1);
        assert_eq!(offer.admit(ann, &secret(), NOW_S), Ok(()));
        assert_eq!(offer.reserved(), [ann]);
        assert_eq!(offer.uses_left(), 1);
    }

    #[test]
    fn a_wrong_secret_reserves_nothing() {
        let [eve, ..] = peers();
        let mut offer = offer(1);
        let mut guess = *secret().as_bytes();
        guess[SECRET_BYTES - 1] ^= 1;
        assert_eq!(offer.admit(eve, &Secret::from_bytes(guess), NOW_S), Err(Refusal::Secret));
        assert_eq!(offer.reserved(), []);
    }

    #[test]
    fn a_wrong_secret_is_all_a_stranger_is_judged_by() {
        let [ann, eve, _] = peers();
        let mut offer = offer(1);
        offer.only_for = Some(ann);
        let wrong = Secret::from_bytes([0; SECRET_BYTES]);
        assert_eq!(offer.admit(eve, &wrong, EXPIRES_S + 1), Err(Refusal::Secret));
    }

    #[test]
    fn an_offer_to_one_peer_refuses_every_other() {
        let [ann, bob, _] = peers();
        let mut offer = offer(1);
        offer.only_for = Some(ann);
        assert_eq!(offer.admit(bob, &secret(), NOW_S), Err(Refusal::OtherPeer(ann)));
        assert_eq!(offer.admit(ann, &secret(), NOW_S), Ok(()));
    }

    #[test]
    fn an_expired_offer_admits_nobody_new() {
        let [ann, ..] = peers();
        assert_eq!(offer(1).admit(ann, &secret(), EXPIRES_S - 1), Ok(()));
        assert_eq!(offer(1).admit(ann, &secret(), EXPIRES_S), Err(Refusal::Expired));
    }

    #[test]
    fn a_peer_that_began_in_time_may_finish_after_expiry() {
        let [ann, bob, _] = peers();
        let mut offer = offer(2);
        offer.admit(ann, &secret(), NOW_S).unwrap();
        assert_eq!(offer.admit(ann, &secret(), EXPIRES_S + 1), Ok(()));
        assert_eq!(offer.admit(bob, &secret(), EXPIRES_S + 1), Err(Refusal::Expired));
    }

    #[test]
    fn nobody_takes_the_place_of_a_peer_that_was_cut() {
        let [ann, bob, _] = peers();
        let mut offer = offer(1);
        offer.admit(ann, &secret(), NOW_S).unwrap();
        assert_eq!(offer.admit(bob, &secret(), NOW_S), Err(Refusal::Reserved(ann)));
        assert_eq!(offer.admit(ann, &secret(), NOW_S), Ok(()));
        assert_eq!(offer.reserved(), [ann]);
    }

    #[test]
    fn as_many_peers_hold_reservations_as_there_are_uses() {
        let [ann, bob, cleo] = peers();
        let mut offer = offer(2);
        offer.admit(ann, &secret(), NOW_S).unwrap();
        offer.admit(bob, &secret(), NOW_S).unwrap();
        assert_eq!(offer.admit(cleo, &secret(), NOW_S), Err(Refusal::Reserved(ann)));
        offer.spend(bob);
        assert_eq!(offer.admit(cleo, &secret(), NOW_S), Err(Refusal::Reserved(ann)));
        assert_eq!(offer.uses_left(), 1);
    }

    #[test]
    fn done_spends_one_use_however_often_it_is_said() {
        let [ann, ..] = peers();
        let mut offer = offer(2);
        offer.admit(ann, &secret(), NOW_S).unwrap();
        offer.spend(ann);
        offer.spend(ann);
        assert_eq!(offer.uses_left(), 1);
        assert!(!offer.is_spent());
    }

    #[test]
    fn a_peer_that_is_done_comes_again_only_while_uses_are_left() {
        let [ann, ..] = peers();
        let mut offer = offer(2);
        for _ in 0..2 {
            offer.admit(ann, &secret(), NOW_S).unwrap();
            offer.spend(ann);
        }
        assert_eq!(offer.admit(ann, &secret(), NOW_S), Err(Refusal::Spent));
    }

    #[test]
    fn a_peer_that_declines_makes_room() {
        let [ann, bob, _] = peers();
        let mut offer = offer(1);
        offer.admit(ann, &secret(), NOW_S).unwrap();
        offer.release(ann);
        assert_eq!(offer.admit(bob, &secret(), NOW_S), Ok(()));
        assert_eq!(offer.uses_left(), 1);
    }

    #[test]
    fn renewing_keeps_the_place_of_peers_that_began() {
        let [ann, bob, _] = peers();
        let mut offer = offer(3);
        offer.admit(ann, &secret(), NOW_S).unwrap();
        offer.admit(bob, &secret(), NOW_S).unwrap();
        offer.renew(NonZeroU32::new(1), Some(None));
        assert_eq!((offer.uses_left(), offer.expires_s()), (2, None));
        offer.renew(None, None);
        assert_eq!((offer.uses_left(), offer.expires_s()), (2, None));
    }

    #[test]
    fn all_refusals_sound_the_same_to_the_peer() {
        let [ann, ..] = peers();
        let refusals = [
            Refusal::Secret,
            Refusal::OtherPeer(ann),
            Refusal::Spent,
            Refusal::Reserved(ann),
            Refusal::Expired,
        ];
        assert!(refusals.into_iter().all(|refusal| refusal.reason() == Reason::NotAdmitted));
    }
}
