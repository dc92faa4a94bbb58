//! What of a tree is listed, with what, and how its content crosses: asked of the side that has the tree.

use crate::limits::{RULES, RULES_BYTES};

/// What a sender lists. The default is everything, with what it knows anyway.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Selection {
    /// Which entries are left out.
    pub rules: Rules,
    /// Which hashes are listed.
    pub hashes: Hashes,
    /// Whether owners are listed.
    pub owner: bool,
    /// Whether extended attributes are listed.
    pub attributes: bool,
    /// How content crosses.
    pub compression: Compression,
}

/// Lines in the syntax of `.gitignore`, relative to the root of the tree: at most [`RULES`] with
/// [`RULES_BYTES`] bytes in all, none of them empty or with a NUL or a line feed. A later line wins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Rules(Vec<Box<[u8]>>);

/// Why lines are no rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RulesError {
    /// Too many of them.
    #[error("there are {0} rules, at most {RULES} are allowed")]
    Many(usize),
    /// Too long in all.
    #[error("the rules have {0} bytes in all, at most {RULES_BYTES} are allowed")]
    Long(usize),
    /// A line that is empty, or has a NUL or a line feed.
    #[error("rule {0} is empty or has a NUL or a line feed")]
    Line(usize),
}

impl Rules {
    /// Checks lines from a person or a peer.
    pub fn new(lines: Vec<Box<[u8]>>) -> Result<Self, RulesError> {
        if lines.len() > RULES {
            return Err(RulesError::Many(lines.len()));
        }
        let bytes = lines.iter().map(|line| line.len()).sum();
        if bytes > RULES_BYTES {
            return Err(RulesError::Long(bytes));
        }
        let is_line = |line: &[u8]| !line.is_empty() && !line.contains(&0) && !line.contains(&b'\n');
        match lines.iter().position(|line| !is_line(line)) {
            Some(index) => Err(RulesError::Line(index + 1)),
            None => Ok(Self(lines)),
        }
    }

    /// The lines in their order.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        self.0.iter().map(|line| &**line)
    }

    /// Whether nothing is left out.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Which hashes of files are listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Hashes {
    /// Those that are known without reading.
    #[default]
    Known,
    /// Those of all files; what is not known is read.
    All,
    /// Those of all files, and all are read, whatever is known.
    Read,
}

/// How content crosses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Compression {
    /// Compressed where that saves time.
    #[default]
    Auto,
    /// Compressed where it becomes shorter.
    Zstd,
    /// As it is.
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(count: usize, length: usize) -> Vec<Box<[u8]>> {
        vec![vec![b'x'; length].into(); count]
    }

    #[test]
    fn rules_are_bounded_in_number_and_in_length() {
        assert!(Rules::new(lines(RULES, 1)).is_ok());
        assert_eq!(Rules::new(lines(RULES + 1, 1)), Err(RulesError::Many(RULES + 1)));
        assert!(Rules::new(lines(1, RULES_BYTES)).is_ok());
        assert_eq!(Rules::new(lines(1, RULES_BYTES + 1)), Err(RulesError::Long(RULES_BYTES + 1)));
    }

    #[test]
    fn a_rule_is_one_line() {
        for line in [&b""[..], b"a\nb", b"a\0"] {
            assert_eq!(Rules::new(vec![b"*.o"[..].into(), line.into()]), Err(RulesError::Line(2)));
        }
    }
}
