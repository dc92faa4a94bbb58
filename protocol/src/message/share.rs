//! By what right a receiver asks: a ticket, a share that a node serves, or the sender's own proposal.

use std::fmt;

use super::Secret;
use crate::{
    limits::SHARE_NAME_BYTES,
    path::{EntryPath, escape},
};

/// The name of a share, unique on the node that serves it.
///
/// 1 to 64 ASCII letters, digits, `.`, `_` and `-`, the first of them a letter or a digit: it needs no quotes in
/// a command line, cannot be taken for an option or a path, and looks the same to everybody.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShareName(Box<str>);

/// Why text is not the name of a share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ShareNameError {
    /// It has no characters, or too many.
    #[error("the name of a share has {0} bytes, 1 to {SHARE_NAME_BYTES} are allowed")]
    Length(usize),
    /// It has a character that is not allowed, or does not begin with a letter or a digit.
    #[error(
        "\"{}\" is no name of a share: it may have letters, digits, \".\", \"_\" and \"-\", and begins with a letter or a digit",
        escape(.0.as_bytes())
    )]
    Character(String),
}

impl ShareName {
    /// Parses what came from a person or a peer.
    pub fn parse(name: &str) -> Result<Self, ShareNameError> {
        if name.is_empty() || name.len() > SHARE_NAME_BYTES {
            return Err(ShareNameError::Length(name.len()));
        }
        let is_part = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        if !name.bytes().all(is_part) || !name.as_bytes()[0].is_ascii_alphanumeric() {
            return Err(ShareNameError::Character(name.to_owned()));
        }
        Ok(Self(name.into()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ShareName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for ShareName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// A share, or a directory in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The share.
    pub share: ShareName,
    /// The directory below it whose content is meant; the share itself when absent.
    pub path: Option<EntryPath>,
}

impl fmt::Display for Place {
    /// As in a command line, escaped: `share/path`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{}/{path}", self.share),
            None => self.share.fmt(f),
        }
    }
}

/// By what right a receiver asks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Claim {
    /// It holds the ticket of an offer.
    Ticket(Secret),
    /// It wants what a share holds, and its name decides whether it may.
    Share(Place),
    /// The sender has proposed the session: this answers it.
    Proposed,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_short_and_plain() {
        for name in ["a", "photos-2024", "0.b_c", &"x".repeat(64)] {
            assert_eq!(ShareName::parse(name).map(|parsed| parsed.to_string()), Ok(name.to_owned()));
        }
        for name in ["", &"x".repeat(65)] {
            assert_eq!(ShareName::parse(name), Err(ShareNameError::Length(name.len())));
        }
        for name in ["-n", ".", "..", "_a", "a/b", "a:b", "a b", "ä", "a\0"] {
            assert_eq!(ShareName::parse(name), Err(ShareNameError::Character(name.to_owned())));
        }
    }

    #[test]
    fn a_place_is_shown_as_it_is_typed() {
        let share = ShareName::parse("photos").unwrap();
        let path = EntryPath::parse(b"2024/may\n").unwrap();
        assert_eq!(Place { share: share.clone(), path: None }.to_string(), "photos");
        assert_eq!(Place { share, path: Some(path) }.to_string(), "photos/2024/may\\n");
    }
}
