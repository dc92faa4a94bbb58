//! The side that was told the code or the ticket, and dials.

use std::{fmt, time::Duration};

use ketch_protocol::{
    introduction::{Hello, Message, Purpose, Refusal},
    limits::{INTRODUCTION_TIMEOUT_S, VERSION},
};
use tokio::time::timeout;

use super::{
    Found, Introduced,
    keys::{Exchange, KeyError, Parties},
    line::{Line, LineError},
};
use crate::{
    swarm::{DialError, Node, PeerId, StreamError},
    trust::invitation::Password,
};

/// Most peers that are tried under one number. Each of them may guess once, so a place that names many must not get
/// many guesses.
const CANDIDATES: usize = 4;

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
    /// It took too long.
    #[error("the introduction took more than {INTRODUCTION_TIMEOUT_S} s")]
    Silence,
}

/// Tries those who were found, one after the other, until one proves that it is the inviter.
pub async fn join(node: &Node, joining: &Joining<'_>, found: Vec<Found>) -> Result<Introduced, JoinError> {
    let mut tried = Vec::new();
    for candidate in found.into_iter().filter(|found| found.peer != node.peer()).take(CANDIDATES) {
        let peer = candidate.peer;
        match meet(node, joining, candidate).await {
            Ok(introduced) => return Ok(introduced),
            Err(error) => tried.push((peer, error)),
        }
    }
    Err(if tried.is_empty() { JoinError::Nobody } else { JoinError::Failed(tried) })
}

async fn meet(node: &Node, joining: &Joining<'_>, found: Found) -> Result<Introduced, GuestError> {
    let connection = node.dial(found.peer, found.addresses).await?;
    let line = Line::new(connection.open_introduction().await?);
    let parties = Parties { guest: node.peer(), inviter: found.peer, purpose: joining.purpose };
    let conversed = timeout(Duration::from_secs(INTRODUCTION_TIMEOUT_S), converse(line, joining, &parties));
    let said = conversed.await.unwrap_or(Err(GuestError::Silence))?;
    Ok(Introduced { connection, said })
}

async fn converse(mut line: Line, joining: &Joining<'_>, parties: &Parties) -> Result<Vec<u8>, GuestError> {
    let (exchange, share) = Exchange::as_guest(joining.password, parties);
    let nameplate = joining.password.nameplate();
    line.say(&Message::Hello(Hello { version: VERSION, purpose: joining.purpose, nameplate, share })).await?;
    let share = line
        .hear("share", |message| if let Message::Share(share) = message { Ok(share) } else { Err(message) })
        .await?;
    let keys = exchange.finish(&share)?;
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
