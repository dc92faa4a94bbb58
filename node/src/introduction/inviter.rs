//! The side that made the code or the ticket, and waits.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use futures::{FutureExt as _, StreamExt as _, stream::FuturesUnordered};
use ketch_protocol::{
    introduction::{Message, Refusal, Welcome},
    limits::INTRODUCTION_TIMEOUT_S,
};
use tokio::time::{sleep, timeout};

use super::{
    Introduced,
    keys::{Exchange, KeyError, Keys, Parties},
    line::{Line, LineError},
};
use crate::{
    swarm::{Connection, Introductions, PeerId, Stream},
    trust::{
        Invitation,
        invitation::{Password, Standing},
    },
};

/// Introductions at once. Each is seven short messages; more than a few are strangers, who can keep these places for
/// [`INTRODUCTION_TIMEOUT_S`] at most.
const AT_ONCE: usize = 16;

/// Waits for the guest of one invitation.
pub struct Inviting {
    own: PeerId,
    introductions: Introductions,
    password: Password,
    invitation: Mutex<Invitation>,
}

/// Why nobody was introduced, for the inviter's user.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InviteError {
    /// Somebody guessed.
    #[error("{0} came with a wrong code, so the code is worthless now")]
    Burnt(PeerId),
    /// Nobody came in time.
    #[error("nobody came before the code or ticket expired")]
    Expired,
    /// The node has been shut down.
    #[error("the node has stopped")]
    Stopped,
}

/// Why a peer was not introduced. The invitation goes on, unless the peer has guessed.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It was refused, and told so.
    #[error("{}", told(*.0))]
    Refused(Refusal),
    /// It was right, but is not wanted.
    #[error("{0}")]
    Unwanted(String),
    /// It did not keep to the protocol, or was lost.
    #[error(transparent)]
    Line(#[from] LineError),
    /// What it sent is no part of a key exchange.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// It took too long.
    #[error("the introduction took more than {INTRODUCTION_TIMEOUT_S} s")]
    Silence,
}

/// What the inviter's user hears of a refusal.
fn told(refusal: Refusal) -> &'static str {
    match refusal {
        Refusal::Version => "it speaks another version of the protocol",
        Refusal::OtherCode => "it came for another code",
        Refusal::OtherPurpose => "it came for something else than the code is for",
        Refusal::Wrong => "its code is wrong",
        Refusal::Burnt => "the code was burnt before",
        Refusal::Used => "another peer has used the code",
        Refusal::Expired => "the code has expired",
        Refusal::NotAdmitted => "it is not admitted",
    }
}

impl Inviting {
    /// Waits as this peer, on these streams.
    pub fn new(own: PeerId, introductions: Introductions, invitation: Invitation) -> Self {
        let password = *invitation.password();
        Self { own, introductions, password, invitation: Mutex::new(invitation) }
    }

    /// Waits until a guest has proved that it knows the code, got what `give` gives it and said what it has to say. The
    /// same guest may come again in a later call. `give` may refuse it with a reason for this side's user, and
    /// `turned_away` hears of all who were not introduced. Dropping the future ends what is going on.
    pub async fn next(
        &mut self,
        give: impl FnMut(PeerId) -> Result<Vec<u8>, String>,
        mut turned_away: impl FnMut(PeerId, &Trouble),
    ) -> Result<Introduced, InviteError> {
        let terms = Terms {
            own: self.own,
            password: self.password,
            invitation: &self.invitation,
            give: Mutex::new(give),
        };
        let expired = expire(&self.invitation).fuse();
        let mut expired = std::pin::pin!(expired);
        let mut running = FuturesUnordered::new();
        loop {
            tokio::select! {
                arrived = self.introductions.next(), if running.len() < AT_ONCE => {
                    let Some((connection, stream)) = arrived else { return Err(InviteError::Stopped) };
                    running.push(terms.introduce(connection, stream));
                }
                Some((peer, outcome)) = running.next() => match outcome {
                    Ok(introduced) => return Ok(introduced),
                    Err(trouble) => {
                        turned_away(peer, &trouble);
                        if self.was_burnt_by(&trouble) {
                            return Err(InviteError::Burnt(peer));
                        }
                    }
                },
                () = &mut expired, if running.is_empty() => return Err(InviteError::Expired),
            }
        }
    }

    fn was_burnt_by(&self, trouble: &Trouble) -> bool {
        matches!(trouble, Trouble::Refused(Refusal::Wrong))
            && lock(&self.invitation).standing() == Standing::Burnt
    }
}

/// What all introductions of an invitation share.
struct Terms<'a, G> {
    own: PeerId,
    password: Password,
    invitation: &'a Mutex<Invitation>,
    give: Mutex<G>,
}

impl<G: FnMut(PeerId) -> Result<Vec<u8>, String>> Terms<'_, G> {
    async fn introduce(
        &self,
        connection: Connection,
        stream: Stream,
    ) -> (PeerId, Result<Introduced, Trouble>) {
        let peer = connection.peer();
        let limit = Duration::from_secs(INTRODUCTION_TIMEOUT_S);
        let outcome = timeout(limit, self.converse(peer, Line::new(stream))).await;
        let said = outcome.unwrap_or(Err(Trouble::Silence));
        (peer, said.map(|said| Introduced { connection, said }))
    }

    async fn converse(&self, peer: PeerId, mut line: Line) -> Result<Vec<u8>, Trouble> {
        let keys = match self.exchange(peer, &mut line).await {
            Ok(keys) => keys,
            Err(trouble) => return Err(refuse(line, trouble).await),
        };
        let proof =
            line.hear(
                "proof",
                |message| {
                    if let Message::Proof(proof) = message { Ok(proof) } else { Err(message) }
                },
            );
        let is_right = keys.is_guest_proof(proof.await?);
        let given = match self.judge(peer, is_right) {
            Ok(given) => given,
            Err(trouble) => return Err(refuse(line, trouble).await),
        };
        let proof = keys.inviter_proof();
        let sealed = keys.from_inviter.close(given);
        line.say(&Message::Welcome(Welcome { proof, sealed })).await?;
        let card = line
            .hear("card", |message| if let Message::Card(card) = message { Ok(card) } else { Err(message) })
            .await?;
        let said = keys.from_guest.open(card)?;
        line.leave(&Message::Thanks).await?;
        Ok(said)
    }

    /// Hears the guest's hello and makes the keys that its proof is held against.
    async fn exchange(&self, peer: PeerId, line: &mut Line) -> Result<Keys, Trouble> {
        let hello = line
            .hear(
                "hello",
                |message| if let Message::Hello(hello) = message { Ok(hello) } else { Err(message) },
            )
            .await?;
        lock(self.invitation).hear(&hello, peer, now_s()).map_err(Trouble::Refused)?;
        let parties = Parties { guest: peer, inviter: self.own, purpose: hello.purpose };
        let (exchange, share) = Exchange::as_inviter(&self.password, &parties);
        let keys = exchange.finish(&hello.share)?;
        line.say(&Message::Share(share)).await?;
        Ok(keys)
    }

    /// What a guest gets whose proof was right or not.
    fn judge(&self, peer: PeerId, is_right: bool) -> Result<Vec<u8>, Trouble> {
        lock(self.invitation).judge(peer, is_right, now_s()).map_err(Trouble::Refused)?;
        lock(&self.give)(peer).map_err(Trouble::Unwanted)
    }
}

/// Tells the guest as much as it may know.
async fn refuse(line: Line, trouble: Trouble) -> Trouble {
    let refusal = match &trouble {
        Trouble::Refused(refusal) => *refusal,
        Trouble::Unwanted(_) => Refusal::NotAdmitted,
        Trouble::Line(_) | Trouble::Keys(_) | Trouble::Silence => return trouble,
    };
    // Whether it is heard changes nothing here.
    let _ = line.leave(&Message::Refuse(refusal)).await;
    trouble
}

/// Resolves when an invitation that nobody has taken expires.
async fn expire(invitation: &Mutex<Invitation>) {
    let expires_s = lock(invitation).waits_until_s();
    match expires_s {
        Some(expires_s) => sleep(Duration::from_secs(expires_s.saturating_sub(now_s()))).await,
        None => std::future::pending().await,
    }
}

/// A panic elsewhere leaves what is locked whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Seconds since 1970.
fn now_s() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs())
}
