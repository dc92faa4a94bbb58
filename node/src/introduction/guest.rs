//! The side that was told the code or the ticket, and dials.

use std::{fmt, time::Duration};

use futures::{StreamExt as _, stream};
use ketch_protocol::{
    introduction::{Hello, Message, Purpose, Refusal},
    limits::{INTRODUCTION_TIMEOUT_S, VERSION},
};
use tokio::{sync::Semaphore, time::timeout};

use super::{
    Found, Introduced,
    keys::{Exchange, KeyError, Parties},
    line::{Line, LineError},
};
use crate::{
    swarm::{DialError, Node, PeerId, StreamError},
    trust::invitation::Password,
};

/// Most peers that get as far as the guest's proof. Each of them may be somebody who guesses, so a place that names many
/// must not get many guesses.
const GUESSES: usize = 4;

/// Most peers that are asked whether they wait for this guest: more than have ketch running on most LANs.
const CANDIDATES: usize = 64;

/// How many of them at a time.
const AT_ONCE: usize = 8;

/// What a guest brings.
#[derive(Debug)]
pub struct Joining<'a> {
    /// What it was told.
    pub password: &'a Password,
    /// What it comes for.
    pub purpose: Purpose,
    /// What it has to say to the right inviter.
    pub says: Vec<u8>,
}

/// Why nobody introduced the guest.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// There was nobody to try.
    #[error("nobody waits there")]
    Nobody,
    /// None of those who were found was the right one.
    #[error("{}", Listed(.0))]
    Failed(Vec<(PeerId, GuestError)>),
}

impl JoinError {
    /// What an inviter said, if one did: the most telling of all.
    pub fn refusal(&self) -> Option<Refusal> {
        let Self::Failed(tried) = self else { return None };
        let mut refusals = tried.iter().filter_map(|(_, error)| match error {
            GuestError::Line(LineError::Refused(refusal)) => Some(*refusal),
            GuestError::Line(
                LineError::Broken { .. }
                | LineError::NotWaiting
                | LineError::Order { .. }
                | LineError::Message(_),
            )
            | GuestError::Dial(_)
            | GuestError::Stream(_)
            | GuestError::Keys(_)
            | GuestError::Impostor
            | GuestError::Enough
            | GuestError::Silence => None,
        });
        refusals.next()
    }
}

struct Listed<'a>(&'a [(PeerId, GuestError)]);

impl fmt::Display for Listed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (peer, error)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(f, "{separator}meeting {peer}: {error}")?;
        }
        Ok(())
    }
}

/// Why one peer did not introduce the guest.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// It was not reached.
    #[error(transparent)]
    Dial(#[from] DialError),
    /// It waits for nobody.
    #[error(transparent)]
    Stream(#[from] StreamError),
    /// It refused, did not keep to the protocol, or was lost.
    #[error(transparent)]
    Line(#[from] LineError),
    /// What it sent is no part of a key exchange, or does not open.
    #[error(transparent)]
    Keys(#[from] KeyError),
    /// It does not know the code.
    #[error("it does not know the code, though it says that it does")]
    Impostor,
    /// Too many others have claimed to be the one before.
    #[error("{GUESSES} others said before that they wait for this code, and do not know it")]
    Enough,
    /// It took too long.
    #[error("the introduction took more than {INTRODUCTION_TIMEOUT_S} s")]
    Silence,
}

/// Asks those who were found, until one proves that it is the inviter.
pub async fn join(node: &Node, joining: &Joining<'_>, found: Vec<Found>) -> Result<Introduced, JoinError> {
    let guesses = Semaphore::new(GUESSES);
    let others = found.into_iter().filter(|found| found.peer != node.peer()).take(CANDIDATES);
    let meetings = others.map(|candidate| async {
        let peer = candidate.peer;
        meet(node, joining, candidate, &guesses).await.map_err(|error| (peer, error))
    });
    let mut met = stream::iter(meetings).buffer_unordered(AT_ONCE);
    let mut tried = Vec::new();
    while let Some(outcome) = met.next().await {
        match outcome {
            Ok(introduced) => return Ok(introduced),
            Err(failed) => tried.push(failed),
        }
    }
    Err(if tried.is_empty() { JoinError::Nobody } else { JoinError::Failed(tried) })
}

async fn meet(
    node: &Node,
    joining: &Joining<'_>,
    found: Found,
    guesses: &Semaphore,
) -> Result<Introduced, GuestError> {
    let connection = node.dial(found.peer, found.addresses).await?;
    let line = Line::new(connection.open_introduction().await?);
    let parties = Parties { guest: node.peer(), inviter: found.peer, purpose: joining.purpose };
    let conversed = converse(line, joining, &parties, guesses);
    let said = timeout(Duration::from_secs(INTRODUCTION_TIMEOUT_S), conversed).await;
    Ok(Introduced { connection, said: said.unwrap_or(Err(GuestError::Silence))? })
}

async fn converse(
    mut line: Line,
    joining: &Joining<'_>,
    parties: &Parties,
    guesses: &Semaphore,
) -> Result<Vec<u8>, GuestError> {
    let (exchange, share) = Exchange::as_guest(joining.password, parties);
    let nameplate = joining.password.nameplate();
    line.say(&Message::Hello(Hello { version: VERSION, purpose: joining.purpose, nameplate, share })).await?;
    let share = line
        .hear("share", |message| if let Message::Share(share) = message { Ok(share) } else { Err(message) })
        .await?;
    let keys = exchange.finish(&share)?;
    // The proof is what a guess can be compared with.
    guesses.try_acquire().map_err(|_| GuestError::Enough)?.forget();
    line.say(&Message::Proof(keys.guest_proof())).await?;
    let welcome =
        line.hear("welcome", |message| {
            if let Message::Welcome(welcome) = message { Ok(welcome) } else { Err(message) }
        })
        .await?;
    if !keys.is_inviter_proof(welcome.proof) {
        return Err(GuestError::Impostor);
    }
    let said = keys.from_inviter.open(welcome.sealed)?;
    line.say(&Message::Card(keys.from_guest.close(joining.says.clone()))).await?;
    line.hear("thanks", |message| if message == Message::Thanks { Ok(()) } else { Err(message) }).await?;
    Ok(said)
}
