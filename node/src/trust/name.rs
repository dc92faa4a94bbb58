//! [`PeerName`]: what a person calls a peer, and [`PeerReference`]: a peer by its name or by its PeerId.

use std::{fmt, str::FromStr};

use ketch_protocol::path::escape;

use crate::swarm::PeerId;

/// Longest name of a peer, in characters: it stands in front of `:SHARE/PATH` on a command line.
pub const PEER_NAME_CHARACTERS: usize = 64;

/// A name in the address book: letters and digits of ASCII, `.`, `_` and `-`, beginning with a letter or a
/// digit. It never reads as a PeerId, so the two can't be mistaken for each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct PeerName(Box<str>);

/// Why text is not a name of a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PeerNameError {
    /// No characters, or too many.
    #[error("\"{text}\" has {characters} characters, a name of a peer has 1 to {PEER_NAME_CHARACTERS}")]
    Length {
        /// The text, escaped and cut.
        text: String,
        /// How many it has.
        characters: usize,
    },
    /// A character that names do not have, or not in front.
    #[error(
        "\"{text}\" is no name of a peer: it may have letters, digits, \".\", \"_\" and \"-\", and begins with \
         a letter or a digit"
    )]
    Character {
        /// The text, escaped.
        text: String,
    },
    /// It would be taken for a key.
    #[error("\"{text}\" is a PeerId, a name must be something else")]
    PeerId {
        /// The text.
        text: String,
    },
}

impl PeerName {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for PeerName {
    type Err = PeerNameError;

    fn from_str(text: &str) -> Result<Self, PeerNameError> {
        let characters = text.chars().count();
        if !(1..=PEER_NAME_CHARACTERS).contains(&characters) {
            let cut: String = text.chars().take(PEER_NAME_CHARACTERS).collect();
            return Err(PeerNameError::Length { text: escape(cut.as_bytes()).to_string(), characters });
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if !text.bytes().all(allowed) || !text.as_bytes()[0].is_ascii_alphanumeric() {
            return Err(PeerNameError::Character { text: escape(text.as_bytes()).to_string() });
        }
        if text.parse::<PeerId>().is_ok() {
            return Err(PeerNameError::PeerId { text: text.into() });
        }
        Ok(Self(text.into()))
    }
}

impl fmt::Display for PeerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A peer as a person writes it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum PeerReference {
    /// By its key.
    Id(PeerId),
    /// By its name in the address book.
    Name(PeerName),
}

impl FromStr for PeerReference {
    type Err = PeerNameError;

    fn from_str(text: &str) -> Result<Self, PeerNameError> {
        match text.parse() {
            Ok(peer) => Ok(Self::Id(peer)),
            Err(_) => text.parse().map(Self::Name),
        }
    }
}

impl fmt::Display for PeerReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(peer) => peer.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_plain_and_no_peer_id() {
        for text in ["a", "laptop", "office-2.example_x", "7", &"x".repeat(PEER_NAME_CHARACTERS)] {
            assert_eq!(text.parse::<PeerName>().unwrap().as_str(), text);
        }
        for text in ["", &"x".repeat(PEER_NAME_CHARACTERS + 1)] {
            assert!(matches!(text.parse::<PeerName>(), Err(PeerNameError::Length { .. })), "{text}");
        }
        for text in ["a b", "a:b", "a/b", "ü", "-x", ".", "..", "\u{1b}[2J", "a\0", "a=b"] {
            assert!(matches!(text.parse::<PeerName>(), Err(PeerNameError::Character { .. })), "{text:?}");
        }
        let peer = PeerId::random().to_string();
        assert_eq!(peer.parse::<PeerName>(), Err(PeerNameError::PeerId { text: peer }));
    }

    #[test]
    fn a_name_that_is_none_can_not_steer_a_terminal() {
        for text in ["\u{1b}[2J".to_owned(), format!("\u{1b}[2J{}", "x".repeat(100))] {
            assert!(!text.parse::<PeerName>().unwrap_err().to_string().contains('\u{1b}'));
        }
    }

    #[test]
    fn a_peer_is_named_by_its_id_or_by_its_name() {
        let peer = PeerId::random();
        assert_eq!(peer.to_string().parse(), Ok(PeerReference::Id(peer)));
        assert_eq!("laptop".parse(), Ok(PeerReference::Name("laptop".parse().unwrap())));
        assert!("a b".parse::<PeerReference>().is_err());
    }
}
