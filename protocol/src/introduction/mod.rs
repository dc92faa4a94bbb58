//! Messages of an introduction: how two peers who share a code or a ticket learn who the other one is and hand
//! each other what makes them trust it.
//!
//! The *inviter* made the code or the ticket, the *guest* was told it and dials. On a stream of its own, the two
//! say in turn:
//!
//! ```text
//! guest    hello    proof           card
//! inviter     share        welcome       thanks
//! ```
//!
//! The guest proves first that it knows the code, so that whoever guesses learns nothing before the inviter has
//! judged the guess. Instead of each of its messages the inviter may say `refuse`. What the shares and proofs are
//! and how the rest is sealed is decided by whoever holds the code; here are the bytes alone, which
//! `docs/wire-format.md` describes.

mod wire;

use crate::limits::INTRODUCTION_BYTES;

/// Length of a share of the key exchange, in bytes.
pub const SHARE_BYTES: usize = 33;

/// Length of a proof, in bytes.
pub const PROOF_BYTES: usize = 32;

/// The number in front of a code: it finds the inviter, and is no secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nameplate(u16);

impl Nameplate {
    /// The greatest: four digits are easily said, and enough for those who wait at one place at a time.
    pub const MOST: u16 = 9_999;

    /// From 1 to [`Self::MOST`].
    pub fn new(number: u32) -> Option<Self> {
        let number = u16::try_from(number).ok()?;
        (1..=Self::MOST).contains(&number).then_some(Self(number))
    }

    /// The number.
    pub fn number(self) -> u16 {
        self.0
    }
}

impl std::fmt::Display for Nameplate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// What an introduction is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// The guest fetches an offer: the inviter hands it the ticket.
    Fetch,
    /// Both get into each other's address book.
    Pair,
}

/// One message of an introduction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Message {
    /// The guest's first.
    Hello(Hello),
    /// The inviter's share of the key exchange.
    Share([u8; SHARE_BYTES]),
    /// The guest proves that it knows the code.
    Proof([u8; PROOF_BYTES]),
    /// The inviter proves the same, and says what it has to say.
    Welcome(Welcome),
    /// What the guest has to say, sealed.
    Card(Vec<u8>),
    /// The inviter has taken it: both are done.
    Thanks,
    /// The inviter ends the introduction.
    Refuse(Refusal),
}

impl Message {
    /// Its name in `docs/wire-format.md`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello(_) => "hello",
            Self::Share(_) => "share",
            Self::Proof(_) => "proof",
            Self::Welcome(_) => "welcome",
            Self::Card(_) => "card",
            Self::Thanks => "thanks",
            Self::Refuse(_) => "refuse",
        }
    }
}

/// The first word of a guest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hello {
    /// [`crate::limits::VERSION`] of the guest.
    pub version: u32,
    /// What it comes for.
    pub purpose: Purpose,
    /// The number in its code; none of a ticket.
    pub nameplate: Option<Nameplate>,
    /// Its share of the key exchange.
    pub share: [u8; SHARE_BYTES],
}

/// The inviter's answer to a right proof.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Welcome {
    /// The inviter knows the code too.
    pub proof: [u8; PROOF_BYTES],
    /// What it has to say, sealed.
    pub sealed: Vec<u8>,
}

/// Why an inviter ends an introduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// It speaks another version.
    #[error("it speaks another version of the protocol")]
    Version,
    /// Its own code has another number, or it waits for a ticket.
    #[error("it waits with another code")]
    OtherCode,
    /// The code is for something else.
    #[error("its code is for something else")]
    OtherPurpose,
    /// The guest's code was wrong.
    #[error("the code is wrong")]
    Wrong,
    /// Somebody's guess was wrong, now or before: nobody gets in any more.
    #[error("its code was guessed wrongly and is worthless now")]
    Burnt,
    /// Somebody else has used it.
    #[error("its code has been used")]
    Used,
    /// The guest came too late.
    #[error("its code has expired")]
    Expired,
    /// The guest is not whom the inviter wants.
    #[error("it does not admit this peer")]
    NotAdmitted,
}

impl Refusal {
    /// All of them, by their code.
    pub const ALL: [Self; 8] = [
        Self::Version,
        Self::OtherCode,
        Self::OtherPurpose,
        Self::Wrong,
        Self::Burnt,
        Self::Used,
        Self::Expired,
        Self::NotAdmitted,
    ];

    /// Its code in `docs/wire-format.md`.
    pub fn code(self) -> u32 {
        match self {
            Self::Version => 1,
            Self::OtherCode => 2,
            Self::OtherPurpose => 3,
            Self::Wrong => 4,
            Self::Burnt => 5,
            Self::Used => 6,
            Self::Expired => 7,
            Self::NotAdmitted => 8,
        }
    }
}

/// What a side that pairs says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Card {
    /// What it calls itself: at most [`crate::limits::CARD_NAME_BYTES`] bytes, not parsed.
    pub name: String,
    /// Where it says it can be dialed, as binary multiaddrs: at most [`crate::limits::CARD_ADDRESSES`] of at most
    /// [`crate::limits::CARD_ADDRESS_BYTES`] bytes, not parsed.
    pub addresses: Vec<Vec<u8>>,
}

/// Why bytes are no message of an introduction.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MessageError {
    /// More than a message has.
    #[error("a message of {0} bytes was announced, at most {INTRODUCTION_BYTES} are allowed")]
    TooLong(usize),
    /// The bytes are not protocol buffers of the expected form.
    #[error("a message could not be decoded: {0}")]
    Malformed(String),
    /// A field is missing, has an unknown value or exceeds its limit.
    #[error("a message has an impossible {0}")]
    Field(&'static str),
}

/// Length of the number in front of a message, in bytes.
pub const LENGTH_BYTES: usize = 4;

/// The frame of a message: its length as a u32 in network byte order, and itself.
pub fn encode(message: &Message) -> Vec<u8> {
    let body = wire::encode(message);
    debug_assert!(body.len() <= INTRODUCTION_BYTES, "{} of {} bytes", message.name(), body.len());
    let mut frame = (body.len() as u32).to_be_bytes().to_vec();
    frame.extend(body);
    frame
}

/// How long the message behind this number is, if it may be.
pub fn length(number: [u8; LENGTH_BYTES]) -> Result<usize, MessageError> {
    match u32::from_be_bytes(number) as usize {
        length if length > INTRODUCTION_BYTES => Err(MessageError::TooLong(length)),
        length => Ok(length),
    }
}

/// The message without its length.
pub fn decode(body: &[u8]) -> Result<Message, MessageError> {
    wire::decode(body)
}

impl Card {
    /// Its bytes, to be sealed.
    pub fn encode(&self) -> Vec<u8> {
        wire::encode_card(self)
    }

    /// One that the peer sealed.
    pub fn decode(bytes: &[u8]) -> Result<Self, MessageError> {
        wire::decode_card(bytes)
    }
}
