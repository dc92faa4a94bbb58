//! The words of codes, in `words.txt`: 2,048 common English ones of 4 to 9 letters, sorted.
//!
//! No two begin with the same four letters, so that four are enough to type; no two differ by a single typo, so
//! that none turns into another one; and no two sound alike when spelled as one hears them. The tests hold the
//! list to the first two.

use std::sync::LazyLock;

/// How many words there are: 11 bits a word.
pub const WORDS: usize = 2_048;

/// Letters that tell each word from all others.
const PREFIX_LETTERS: usize = 4;

/// Most words that are suggested for one that is none.
const SUGGESTIONS: usize = 3;

static LIST: LazyLock<Vec<&str>> = LazyLock::new(|| include_str!("words.txt").lines().collect());

/// A word of the list.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Word(&'static str);

impl Word {
    /// By its place in the list, which is below [`WORDS`].
    pub(super) fn at(place: usize) -> Self {
        Self(LIST[place])
    }

    /// The text.
    pub fn as_str(self) -> &'static str {
        self.0
    }

    /// The word that this is, or the one that begins with these letters, four at least.
    pub(super) fn find(text: &str) -> Option<Self> {
        let place = LIST.partition_point(|word| *word < text);
        let word = LIST.get(place).filter(|word| word.starts_with(text))?;
        (*word == text || text.len() >= PREFIX_LETTERS).then_some(Self(word))
    }

    /// The words that this one may be with a typo, the likeliest first.
    pub(super) fn suggest(text: &str) -> Vec<Self> {
        // A third of the letters may be wrong; more would suggest anything.
        let most = (text.chars().count() / 3).min(2);
        let mut near: Vec<_> =
            LIST.iter().map(|word| (typos(text, word), *word)).filter(|(typos, _)| *typos <= most).collect();
        near.sort_unstable();
        near.into_iter().take(SUGGESTIONS).map(|(_, word)| Self(word)).collect()
    }
}

/// How many letters were left out, put in, mistaken or swapped with their neighbour to make one of the other
/// (the restricted Damerau-Levenshtein distance).
fn typos(one: &str, other: &str) -> usize {
    let (one, other): (Vec<_>, Vec<_>) = (one.chars().collect(), other.chars().collect());
    let mut before_last = vec![0; other.len() + 1];
    let mut last: Vec<_> = (0..=other.len()).collect();
    for row in 1..=one.len() {
        let mut current = vec![row; other.len() + 1];
        for column in 1..=other.len() {
            let mistaken = usize::from(one[row - 1] != other[column - 1]);
            let mut least = (last[column] + 1).min(current[column - 1] + 1).min(last[column - 1] + mistaken);
            let swapped = row > 1
                && column > 1
                && one[row - 1] == other[column - 2]
                && one[row - 2] == other[column - 1];
            if swapped {
                least = least.min(before_last[column - 2] + 1);
            }
            current[column] = least;
        }
        before_last = std::mem::replace(&mut last, current);
    }
    last[other.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_2048_short_plain_words_in_order() {
        assert_eq!(LIST.len(), WORDS);
        assert!(LIST.is_sorted_by(|one, other| one < other));
        let plain =
            |word: &&str| (4..=9).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_lowercase());
        assert!(LIST.iter().all(plain));
    }

    #[test]
    fn four_letters_tell_a_word() {
        assert!(LIST.windows(2).all(|pair| pair[0][..PREFIX_LETTERS] != pair[1][..PREFIX_LETTERS]));
        assert_eq!(Word::find("cros").map(Word::as_str), Some("crossword"));
        for text in ["", "cro", "crosswords", "crox", "zzzz"] {
            assert!(Word::find(text).is_none(), "{text}");
        }
    }

    #[test]
    fn no_typo_makes_one_word_of_another() {
        // One typo leaves the first letter or the last one as it was.
        let may_be_near = |one: &str, other: &str| {
            one.len().abs_diff(other.len()) <= 1
                && (one.as_bytes().first() == other.as_bytes().first()
                    || one.as_bytes().last() == other.as_bytes().last())
        };
        for (place, word) in LIST.iter().enumerate() {
            let near = LIST[place + 1..]
                .iter()
                .filter(|other| may_be_near(word, other))
                .find(|other| typos(word, other) < 2);
            assert_eq!(near, None, "{word}");
        }
    }

    #[test]
    fn typos_are_counted() {
        for (one, other, count) in [
            ("almond", "almond", 0),
            ("almnod", "almond", 1),
            ("almod", "almond", 1),
            ("almonds", "almond", 1),
            ("elmond", "almond", 1),
            ("lamodn", "almond", 2),
            ("", "almond", 6),
        ] {
            assert_eq!((typos(one, other), typos(other, one)), (count, count), "{one}");
        }
    }
}
