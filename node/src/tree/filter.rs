//! [`Filter`]: which paths of a tree take part, by rules in the syntax of gitignore.
//!
//! The last rule that matches a path decides: it is left out, or, after `!`, taken. Nothing below a directory
//! that is left out is looked at, so a rule can't take it back. Rules match any path, but a rule that is not
//! UTF-8 can't be written; `?` matches a byte of such a name.

use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _, path::Path, str, sync::Arc};

use ignore::gitignore::{Gitignore, GitignoreBuilder};
use ketch_protocol::{
    message::Rules,
    path::{EntryPath, escape},
};

/// Cheap to clone. Without rules it takes every path.
#[derive(Debug, Clone, Default)]
pub struct Filter(Option<Arc<Gitignore>>);

/// Why rules can't be followed. They come from the local user or from a peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FilterError {
    /// Not UTF-8, or with a carriage return.
    #[error("the rule \"{}\" is not one line of UTF-8", escape(.0))]
    Text(Box<[u8]>),
    /// Not a pattern.
    #[error("the rule \"{}\": {cause}", escape(rule))]
    Pattern {
        /// The rule.
        rule: Box<[u8]>,
        /// What is wrong with it.
        cause: String,
    },
    /// Too much to match at once.
    #[error("the rules are too complex together: {0}")]
    Complex(String),
}

impl Filter {
    /// Follows `rules`; comments among them do nothing.
    pub fn new(rules: &Rules) -> Result<Self, FilterError> {
        let mut builder = GitignoreBuilder::new("");
        rules.iter().try_for_each(|rule| add(&mut builder, rule))?;
        let matcher = builder.build().map_err(|error| FilterError::Complex(cause(error)))?;
        Ok(Self((!matcher.is_empty()).then(|| Arc::new(matcher))))
    }

    /// Whether the entry at `path` is left out, provided that no directory above it is.
    pub fn leaves_out(&self, path: &EntryPath, is_directory: bool) -> bool {
        let Some(matcher) = &self.0 else { return false };
        matcher.matched(Path::new(OsStr::from_bytes(path.as_bytes())), is_directory).is_ignore()
    }

    /// Whether it takes every path.
    pub fn is_empty(&self) -> bool {
        self.0.is_none()
    }
}

/// The rule that leaves out what matches `pattern`, even one that begins like a comment or an exception.
pub fn excluding(pattern: &[u8]) -> Box<[u8]> {
    match pattern.first() {
        Some(b'#' | b'!') => [b"\\", pattern].concat().into(),
        Some(_) | None => pattern.into(),
    }
}

/// The rule that takes what matches `pattern`, though one before it leaves it out.
pub fn including(pattern: &[u8]) -> Box<[u8]> {
    [b"!", &*excluding(pattern)].concat().into()
}

/// The rules in the content of a file: its lines, without a byte order mark in front of them.
pub fn rules_in(content: &[u8]) -> impl Iterator<Item = &[u8]> {
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(content);
    let lines = content.split(|&byte| byte == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    lines.filter(|line| !line.is_empty() && !line.starts_with(b"#"))
}

fn add(builder: &mut GitignoreBuilder, rule: &[u8]) -> Result<(), FilterError> {
    let line = str::from_utf8(rule).ok().filter(|line| !line.contains('\r'));
    let line = line.ok_or_else(|| FilterError::Text(rule.into()))?;
    match builder.add_line(None, line) {
        Ok(_) => Ok(()),
        Err(error) => Err(FilterError::Pattern { rule: rule.into(), cause: cause(error) }),
    }
}

/// What is wrong with a pattern, without the pattern itself.
fn cause(error: ignore::Error) -> String {
    let text = match error {
        ignore::Error::Glob { err, .. } => err,
        ignore::Error::Partial(_)
        | ignore::Error::WithLineNumber { .. }
        | ignore::Error::WithPath { .. }
        | ignore::Error::WithDepth { .. }
        | ignore::Error::Loop { .. }
        | ignore::Error::Io(_)
        | ignore::Error::UnrecognizedFileType(_)
        | ignore::Error::InvalidDefinition => error.to_string(),
    };
    escape(text.as_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use ketch_protocol::limits::{RULES, RULES_BYTES};

    use super::*;

    fn filter(rules: &[&[u8]]) -> Result<Filter, FilterError> {
        Filter::new(&Rules::new(rules.iter().map(|&rule| rule.into()).collect()).unwrap())
    }

    /// Whether each path is left out; directories end with `/`.
    fn left_out(rules: &[&str], paths: &[&str]) -> Vec<bool> {
        let rules: Vec<_> = rules.iter().map(|rule| rule.as_bytes()).collect();
        let filter = filter(&rules).unwrap();
        let is_left_out = |path: &&str| {
            let name = path.trim_end_matches('/');
            filter.leaves_out(&EntryPath::parse(name.as_bytes()).unwrap(), path.ends_with('/'))
        };
        paths.iter().map(is_left_out).collect()
    }

    #[test]
    fn no_rules_leave_nothing_out() {
        assert!(Filter::default().is_empty());
        for rules in [&[][..], &["# a comment", "   "]] {
            assert_eq!(left_out(rules, &["a", ".git/"]), [false, false]);
        }
    }

    #[test]
    fn rules_match_as_in_a_gitignore_file() {
        let paths = ["a.o", "d/a.o", "build/", "d/build/", "build", "d/x/a.txt", "x/"];
        let cases: [(&str, [bool; 7]); 6] = [
            ("*.o", [true, true, false, false, false, false, false]),
            ("/*.o", [true, false, false, false, false, false, false]),
            ("build/", [false, false, true, true, false, false, false]),
            ("/build", [false, false, true, false, true, false, false]),
            ("d/**/a.*", [false, true, false, false, false, true, false]),
            ("x", [false, false, false, false, false, false, true]),
        ];
        for (rule, expected) in cases {
            assert_eq!(left_out(&[rule], &paths), expected, "{rule}");
        }
    }

    #[test]
    fn the_last_rule_that_matches_decides() {
        let paths = ["keep.o", "other.o"];
        assert_eq!(left_out(&["*.o", "!keep.o"], &paths), [false, true]);
        assert_eq!(left_out(&["!keep.o", "*.o"], &paths), [true, true]);
        assert_eq!(left_out(&["*.o", "!*.o", "other.o"], &paths), [false, true]);
    }

    #[test]
    fn names_of_any_bytes_are_matched() {
        let filter = filter(&[b"bad_?", "*.ü".as_bytes(), b"# x", b"\\#y"]).unwrap();
        for (name, expected) in [
            (&b"bad_\xff"[..], true),
            (b"\xff\xfe.\xc3\xbc", true),
            (b"d/\xff.\xc3\xbc", true),
            (b"# x", false),
            (b"#y", true),
            (b"a\nb", false),
        ] {
            let path = EntryPath::parse(name).unwrap();
            assert_eq!(filter.leaves_out(&path, false), expected, "{path}");
        }
    }

    #[test]
    fn patterns_of_options_are_never_comments_or_exceptions() {
        for pattern in ["#a", "!a", "a"] {
            let (excluding, including) = (excluding(pattern.as_bytes()), including(pattern.as_bytes()));
            let path = EntryPath::parse(pattern.as_bytes()).unwrap();
            assert!(filter(&[&excluding]).unwrap().leaves_out(&path, false), "{pattern}");
            assert!(!filter(&[&excluding, &including]).unwrap().leaves_out(&path, false), "{pattern}");
        }
    }

    #[test]
    fn the_rules_of_a_file_are_its_lines() {
        let lines: Vec<_> = rules_in(b"\xef\xbb\xbf*.o\r\n# no\n\n!a \nb").collect();
        assert_eq!(lines, [&b"*.o"[..], b"!a ", b"b"]);
        assert_eq!(rules_in(b"").count(), 0);
    }

    #[test]
    fn what_is_no_pattern_is_refused_by_name() {
        for rule in [&b"[z-a]"[..], b"{a,b", b"a\xff", b"a\rb", b"\x1b[2J{"] {
            let error = filter(&[b"fine", rule]).unwrap_err().to_string();
            assert!(error.starts_with("the rule \""), "{error}");
            assert!(!error.contains(['\x1b', '\r']), "{error}");
        }
    }

    #[test]
    fn rules_made_to_be_slow_are_refused_or_matched_in_linear_time() {
        let path = EntryPath::parse("a".repeat(255).as_bytes()).unwrap();
        let stars = "*a".repeat(RULES_BYTES / 2);
        for rule in ["*a".repeat(64), stars, "{".repeat(50) + "a" + &"}".repeat(50), "**/".repeat(400) + "a"]
        {
            if let Ok(filter) = filter(&[rule.as_bytes()]) {
                filter.leaves_out(&path, false);
            }
        }
        let many = vec![&b"*a*b"[..]; RULES];
        assert!(!filter(&many).unwrap().leaves_out(&path, false));
    }
}
