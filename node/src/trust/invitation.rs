//! [`Invitation`]: a code or a ticket that waits for its one guest; the rules, without a network or a clock.
//!
//! A code can be guessed, so it stands for one attempt: the first wrong proof burns it, and nobody gets in by it
//! any more. A right one takes it for its peer, which may come again when its connection broke. What a peer does
//! before it proves anything costs nothing, since it learns nothing by that. A ticket's secret cannot be guessed,
//! and a wrong one does not burn it: else whoever finds the port could.

use ketch_protocol::{
    introduction::{Hello, Purpose, Refusal},
    limits::VERSION,
};

use super::{Code, Secret, code::Nameplate};
use crate::swarm::PeerId;

/// What both sides of an introduction know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Password {
    /// A code that was said.
    Code(Code),
    /// The secret in a ticket that was handed over.
    Ticket(Secret),
}

impl Password {
    /// The number that finds the inviter; a ticket has addresses instead.
    pub fn nameplate(&self) -> Option<Nameplate> {
        match self {
            Self::Code(code) => Some(code.nameplate()),
            Self::Ticket(_) => None,
        }
    }

    /// Whether it is short enough to be guessed.
    fn is_guessable(&self) -> bool {
        match self {
            Self::Code(_) => true,
            Self::Ticket(_) => false,
        }
    }
}

/// A code or a ticket that waits for its guest.
#[derive(Debug)]
pub struct Invitation {
    password: Password,
    purpose: Purpose,
    expires_s: Option<u64>,
    standing: Standing,
}

/// What has become of an invitation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Nobody has proved anything.
    Open,
    /// This peer has proved that it knows the password.
    Taken(PeerId),
    /// Somebody has guessed.
    Burnt,
}

impl Invitation {
    /// One that waits until the Unix second `expires_s`.
    pub fn new(password: Password, purpose: Purpose, expires_s: Option<u64>) -> Self {
        Self { password, purpose, expires_s, standing: Standing::Open }
    }

    /// What the guest must know.
    pub fn password(&self) -> &Password {
        &self.password
    }

    /// What it is for.
    pub fn purpose(&self) -> Purpose {
        self.purpose
    }

    /// What has become of it.
    pub fn standing(&self) -> Standing {
        self.standing
    }

    /// The Unix second at which it ends by itself; one that is taken does not.
    pub fn waits_until_s(&self) -> Option<u64> {
        match self.standing {
            Standing::Open => self.expires_s,
            Standing::Taken(_) | Standing::Burnt => None,
        }
    }

    /// Whether a peer that says hello at the Unix second `now_s` may go on and prove what it knows.
    pub fn hear(&self, hello: &Hello, peer: PeerId, now_s: u64) -> Result<(), Refusal> {
        if hello.version != VERSION {
            return Err(Refusal::Version);
        }
        if hello.nameplate != self.password.nameplate() {
            return Err(Refusal::OtherCode);
        }
        if hello.purpose != self.purpose {
            return Err(Refusal::OtherPurpose);
        }
        self.stands_for(peer, now_s)
    }

    /// What a proof means that came at the Unix second `now_s` and was right or not. Of those that come at once only
    /// the first is looked at, so that many connections are not many attempts.
    pub fn judge(&mut self, peer: PeerId, is_right: bool, now_s: u64) -> Result<(), Refusal> {
        self.stands_for(peer, now_s)?;
        if is_right {
            self.standing = Standing::Taken(peer);
            return Ok(());
        }
        if self.standing == Standing::Open && self.password.is_guessable() {
            self.standing = Standing::Burnt;
        }
        Err(Refusal::Wrong)
    }

    fn stands_for(&self, peer: PeerId, now_s: u64) -> Result<(), Refusal> {
        match self.standing {
            Standing::Burnt => Err(Refusal::Burnt),
            Standing::Taken(guest) if guest == peer => Ok(()),
            Standing::Taken(_) => Err(Refusal::Used),
            Standing::Open if self.is_expired(now_s) => Err(Refusal::Expired),
            Standing::Open => Ok(()),
        }
    }

    fn is_expired(&self, now_s: u64) -> bool {
        self.expires_s.is_some_and(|expires_s| expires_s <= now_s)
    }
}

#[cfg(test)]
mod tests {
    use ketch_protocol::{introduction::SHARE_BYTES, message::SECRET_BYTES};

    use super::*;

    const NOW_S: u64 = 1_000;

    fn code() -> Password {
        Password::Code("7-crossword-almond".parse().unwrap())
    }

    fn ticket() -> Password {
        Password::Ticket(Secret::from_bytes([7; SECRET_BYTES]))
    }

    fn invitation(password: Password) -> Invitation {
        Invitation::new(password, Purpose::Fetch, Some(NOW_S + 1))
    }

    fn hello(password: Password) -> Hello {
        let nameplate = password.nameplate();
        Hello { version: VERSION, purpose: Purpose::Fetch, nameplate, share: [0; SHARE_BYTES] }
    }

    #[test]
    fn one_wrong_guess_burns_a_code_for_everybody() {
        let (mut invitation, guesser, friend) = (invitation(code()), PeerId::random(), PeerId::random());
        assert_eq!(invitation.judge(guesser, false, NOW_S), Err(Refusal::Wrong));
        assert_eq!(invitation.standing(), Standing::Burnt);
        for peer in [guesser, friend] {
            assert_eq!(invitation.judge(peer, true, NOW_S), Err(Refusal::Burnt));
            assert_eq!(invitation.hear(&hello(code()), peer, NOW_S), Err(Refusal::Burnt));
        }
    }

    #[test]
    fn a_guess_at_a_ticket_burns_nothing() {
        let (mut invitation, friend) = (invitation(ticket()), PeerId::random());
        assert_eq!(invitation.judge(PeerId::random(), false, NOW_S), Err(Refusal::Wrong));
        assert_eq!(invitation.hear(&hello(ticket()), friend, NOW_S), Ok(()));
        assert_eq!(invitation.judge(friend, true, NOW_S), Ok(()));
    }

    #[test]
    fn whoever_took_it_may_come_again_and_nobody_else() {
        for password in [code(), ticket()] {
            let (mut invitation, guest, other) = (invitation(password), PeerId::random(), PeerId::random());
            assert_eq!(invitation.judge(guest, true, NOW_S), Ok(()));
            assert_eq!(invitation.hear(&hello(password), other, NOW_S), Err(Refusal::Used));
            assert_eq!(invitation.judge(other, true, NOW_S), Err(Refusal::Used));
            assert_eq!(invitation.judge(other, false, NOW_S), Err(Refusal::Used));
            assert_eq!(invitation.hear(&hello(password), guest, NOW_S + 9), Ok(()));
            assert_eq!(invitation.judge(guest, false, NOW_S), Err(Refusal::Wrong));
            assert_eq!(invitation.judge(guest, true, NOW_S + 9), Ok(()));
            assert_eq!(invitation.standing(), Standing::Taken(guest));
        }
    }

    #[test]
    fn it_expires_to_the_second_also_between_hello_and_proof() {
        let (mut invitation, peer) = (invitation(code()), PeerId::random());
        assert_eq!(invitation.hear(&hello(code()), peer, NOW_S), Ok(()));
        assert_eq!(invitation.hear(&hello(code()), peer, NOW_S + 1), Err(Refusal::Expired));
        assert_eq!(invitation.judge(peer, true, NOW_S + 1), Err(Refusal::Expired));
        assert_eq!(invitation.standing(), Standing::Open);
    }

    #[test]
    fn a_hello_for_something_else_costs_nothing() {
        let (mut invitation, peer) = (invitation(code()), PeerId::random());
        let eight = Nameplate::new(8);
        let wrong = [
            (Hello { version: VERSION + 1, ..hello(code()) }, Refusal::Version),
            (Hello { nameplate: eight, ..hello(code()) }, Refusal::OtherCode),
            (hello(ticket()), Refusal::OtherCode),
            (Hello { purpose: Purpose::Pair, ..hello(code()) }, Refusal::OtherPurpose),
        ];
        for (hello, refusal) in wrong {
            assert_eq!(invitation.hear(&hello, peer, NOW_S), Err(refusal));
        }
        assert_eq!(invitation.judge(peer, true, NOW_S), Ok(()));
    }
}
