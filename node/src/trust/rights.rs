//! [`Rights`]: what one peer may do with one share.

use std::{fmt, str::FromStr};

use ketch_protocol::path::escape;

/// The rights of a peer on a share. Each is given by a word of its own; `mirror` brings `write` with it, and
/// neither brings `read`: whoever may leave something behind need not see what others left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rights {
    /// It may pull: fetch what is in the share.
    pub read: bool,
    /// What it may do to the share by a push.
    pub writing: Writing,
}

/// What a peer may do to a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum Writing {
    /// Nothing.
    #[default]
    None,
    /// Add to it and change what is there: `write`.
    Change,
    /// Remove from it too: `mirror`.
    Remove,
}

/// Why text does not give rights.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is no right: there are read, write and mirror", escape(.0.as_bytes()))]
pub struct RightsError(pub String);

impl Rights {
    /// Both together.
    pub fn and(self, other: Self) -> Self {
        Self { read: self.read || other.read, writing: self.writing.max(other.writing) }
    }
}

impl FromStr for Rights {
    type Err = RightsError;

    /// Reads one word, or several with commas between: `read,write`.
    fn from_str(text: &str) -> Result<Self, RightsError> {
        text.split(',').map(|word| one(word.trim())).try_fold(Self::default(), |all, one| Ok(all.and(one?)))
    }
}

fn one(word: &str) -> Result<Rights, RightsError> {
    match word {
        "read" => Ok(Rights { read: true, writing: Writing::None }),
        "write" => Ok(Rights { read: false, writing: Writing::Change }),
        "mirror" => Ok(Rights { read: false, writing: Writing::Remove }),
        _ => Err(RightsError(word.into())),
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let writing = match self.writing {
            Writing::None => None,
            Writing::Change => Some("write"),
            Writing::Remove => Some("mirror"),
        };
        let words: Vec<_> = self.read.then_some("read").into_iter().chain(writing).collect();
        f.write_str(if words.is_empty() { "nothing" } else { "" })?;
        f.write_str(&words.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_add_up_and_are_shown_as_they_are_written() {
        for text in ["read", "write", "mirror", "read,write", "read,mirror"] {
            assert_eq!(text.parse::<Rights>().unwrap().to_string(), text);
        }
        assert_eq!("write,mirror".parse(), "mirror".parse::<Rights>());
        assert_eq!("mirror, read".parse(), "read,mirror".parse::<Rights>());
        assert_eq!(Rights::default().to_string(), "nothing");
    }

    #[test]
    fn what_is_no_right_gives_none() {
        for text in ["", "Read", "all", "read,", "read write", ",", "\u{1b}[2J"] {
            let error = text.parse::<Rights>().unwrap_err();
            assert!(!error.to_string().contains('\u{1b}'), "{text:?}");
        }
    }
}
