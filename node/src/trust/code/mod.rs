//! [`Code`]: a number and two words that a person can say, for instance `7-crossword-almond`.
//!
//! The number, the *nameplate*, finds whoever made the code and is no secret. The words are one of 4,194,304 pairs
//! (22 bits), which is little: whoever could try them all would soon be in. So they are never sent, and only two
//! who meet can compare them, once ([`crate::introduction`]).

mod words;

use std::{fmt, str::FromStr};

pub use ketch_protocol::introduction::Nameplate;
use ketch_protocol::path::escape;

pub use words::{WORDS, Word};

/// Words in a code.
pub const CODE_WORDS: usize = 2;

/// Longest text that is looked at as a code, in characters: twice the longest code, so that one with a typo can
/// still be named.
const CODE_CHARACTERS: usize = 64;

/// The greatest number of a code where nothing else is known: the shortest are the easiest to say.
const FEW: u16 = 99;

/// How often a code is drawn with a short number before longer ones are taken.
const SHORT_DRAWS: u32 = 3;

/// A short one-time password with the number that finds who made it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Code {
    nameplate: Nameplate,
    words: [Word; CODE_WORDS],
}

impl Code {
    /// A new one from the system's randomness, which may fail. `draw` counts the codes that were drawn before it and
    /// had a number that was taken; the more there are, the longer is the number.
    pub fn draw(draw: u32) -> Result<Self, getrandom::Error> {
        let most = if draw < SHORT_DRAWS { FEW } else { Nameplate::MOST };
        let number = 1 + getrandom::u32()? % u32::from(most);
        let nameplate = Nameplate::new(number).expect("a number from 1 to the most is one");
        // The number of words is a power of two, so each is as likely as any other.
        let words = [getrandom::u32()?, getrandom::u32()?].map(|random| Word::at(random as usize % WORDS));
        Ok(Self { nameplate, words })
    }

    /// What finds its maker.
    pub fn nameplate(&self) -> Nameplate {
        self.nameplate
    }

    /// Whether a person seems to have meant a code: it begins with a number and a hyphen or a space.
    pub fn is_meant_by(text: &str) -> bool {
        let rest = text.trim().trim_start_matches(|c: char| c.is_ascii_digit());
        rest.len() < text.trim().len() && rest.starts_with(is_separator)
    }
}

fn is_separator(character: char) -> bool {
    character == '-' || character.is_whitespace()
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.nameplate)?;
        self.words.iter().try_for_each(|word| write!(f, "-{}", word.as_str()))
    }
}

impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Code({}-..)", self.nameplate)
    }
}

/// Why text is no code. All of it is found before anything is sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CodeError {
    /// Another number of parts.
    #[error(
        "\"{0}\" is no code, which is a number and two words with hyphens between them, such as 7-crossword-almond"
    )]
    Shape(String),
    /// The number is 0 or too great.
    #[error("\"{0}\" is no number of a code, which goes from 1 to {most}", most = Nameplate::MOST)]
    Nameplate(String),
    /// A word that is in no code, and those that look like it.
    #[error("the code has a typo: \"{word}\" is no word of a code{}", Suggested(.suggestions))]
    Word {
        /// What came, escaped.
        word: String,
        /// What may have been meant, likeliest first.
        suggestions: Vec<&'static str>,
    },
}

struct Suggested<'a>(&'a [&'static str]);

impl fmt::Display for Suggested<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => Ok(()),
            some => write!(f, "; is it {}?", some.join(" or ")),
        }
    }
}

impl FromStr for Code {
    type Err = CodeError;

    /// Reads a code in either case, with hyphens or spaces. Four letters are enough of a word.
    fn from_str(text: &str) -> Result<Self, CodeError> {
        let cut: String = text.chars().take(CODE_CHARACTERS).collect();
        let parts: Vec<_> = cut.split(is_separator).filter(|part| !part.is_empty()).collect();
        let [number, first, second] = parts[..] else {
            return Err(CodeError::Shape(escape(cut.as_bytes()).to_string()));
        };
        let nameplate = number.parse().ok().and_then(Nameplate::new);
        let nameplate =
            nameplate.ok_or_else(|| CodeError::Nameplate(escape(number.as_bytes()).to_string()))?;
        Ok(Self { nameplate, words: [word(first)?, word(second)?] })
    }
}

fn word(text: &str) -> Result<Word, CodeError> {
    let lower = text.to_lowercase();
    Word::find(&lower).ok_or_else(|| CodeError::Word {
        word: escape(text.as_bytes()).to_string(),
        suggestions: Word::suggest(&lower).into_iter().map(Word::as_str).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Code, CodeError> {
        text.parse()
    }

    #[test]
    fn a_code_is_read_as_a_person_writes_it() {
        let code = parse("7-crossword-almond").unwrap();
        assert_eq!((code.to_string().as_str(), code.nameplate().number()), ("7-crossword-almond", 7));
        for text in [
            " 7-Crossword-ALMOND\n",
            "7 crossword almond",
            "007-crossword-almond",
            "7-cros-almo",
            "7--crosswo almond",
        ] {
            assert_eq!(parse(text), Ok(code), "{text}");
        }
        assert_ne!(parse("8-crossword-almond"), Ok(code));
        assert_ne!(parse("7-almond-crossword"), Ok(code));
    }

    #[test]
    fn a_typo_is_named_with_what_may_be_meant() {
        for (text, suggestion) in [
            ("7-crosword-almond", "crossword"),
            ("7-crossword-almund", "almond"),
            ("7-crossword-almnod", "almond"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(
                matches!(&error, CodeError::Word { suggestions, .. } if suggestions[0] == suggestion),
                "{error}"
            );
            assert!(error.to_string().contains(&format!("is it {suggestion}")), "{error}");
        }
        let far = parse("7-crossword-zzzzzz").unwrap_err();
        assert!(!far.to_string().contains("is it"), "{far}");
    }

    #[test]
    fn what_is_no_code_is_refused() {
        for text in ["", "7", "7-crossword", "7-crossword-almond-almond", "-", &"7-".repeat(1000)] {
            assert!(matches!(parse(text), Err(CodeError::Shape(_))), "{text}");
        }
        for text in
            ["0-crossword-almond", "10000-crossword-almond", "x-crossword-almond", "-7.1-crossword-almond"]
        {
            assert!(matches!(parse(text), Err(CodeError::Nameplate(_))), "{text}");
        }
        for text in ["7-\u{1b}[2J-almond", "\u{1b}-crossword-almond", "\u{1b}"] {
            assert!(!parse(text).unwrap_err().to_string().contains('\u{1b}'));
        }
    }

    #[test]
    fn a_number_and_a_hyphen_mean_a_code() {
        for text in ["7-crossword-almond", "7-x", " 12 crossword almond", "7-"] {
            assert!(Code::is_meant_by(text), "{text}");
        }
        for text in ["ketch1aeafk", "@7-crossword", "-", "", "7", "crossword-almond", "7x-y"] {
            assert!(!Code::is_meant_by(text), "{text}");
        }
    }

    #[test]
    fn what_is_drawn_is_read_and_its_number_grows_when_short_ones_are_taken() {
        let drawn: Vec<_> = (0..200).map(|_| Code::draw(0).unwrap()).collect();
        assert!(
            drawn
                .iter()
                .all(|code| code.nameplate().number() <= FEW && parse(&code.to_string()) == Ok(*code))
        );
        assert!(drawn.iter().any(|code| *code != drawn[0]));
        assert!((0..200).any(|_| Code::draw(SHORT_DRAWS).unwrap().nameplate().number() > FEW));
    }

    #[test]
    fn debug_does_not_show_the_words() {
        assert_eq!(format!("{:?}", parse("7-crossword-almond").unwrap()), "Code(7-..)");
    }
}
