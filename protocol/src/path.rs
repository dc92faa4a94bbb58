//! [`EntryPath`]: the only name of a file on the wire, and the way names are shown to a person.

use std::{cmp::Ordering, fmt};

use crate::limits::{COMPONENT_BYTES, PATH_BYTES};

/// A parsed path of an entry: relative, `/` between components, any bytes but NUL.
///
/// No component is empty, `.` or `..`, so joining it to a root cannot lead out of that root unless the
/// file system itself does (a symlink). It is ordered by components, so that a directory is followed by
/// everything below it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EntryPath(Box<[u8]>);

/// Why bytes are not an entry path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PathError {
    /// No bytes at all.
    #[error("the path is empty")]
    Empty,
    /// Begins with `/`.
    #[error("the path is absolute")]
    Absolute,
    /// Two slashes in a row, or one at the end.
    #[error("the path has an empty component")]
    EmptyComponent,
    /// A component is `.` or `..`.
    #[error("the path has a component \".\" or \"..\"")]
    DotComponent,
    /// Contains a NUL byte.
    #[error("the path contains a NUL byte")]
    Nul,
    /// A component is longer than [`COMPONENT_BYTES`].
    #[error("a component has {0} bytes, at most {COMPONENT_BYTES} are allowed")]
    LongComponent(usize),
    /// The path is longer than [`PATH_BYTES`].
    #[error("the path has {0} bytes, at most {PATH_BYTES} are allowed")]
    LongPath(usize),
}

impl EntryPath {
    /// Parses bytes that came from a peer or from a directory.
    pub fn parse(bytes: &[u8]) -> Result<Self, PathError> {
        if bytes.is_empty() {
            return Err(PathError::Empty);
        }
        if bytes.len() > PATH_BYTES {
            return Err(PathError::LongPath(bytes.len()));
        }
        if bytes[0] == b'/' {
            return Err(PathError::Absolute);
        }
        bytes.split(|&byte| byte == b'/').try_for_each(check_component)?;
        Ok(Self(bytes.into()))
    }

    /// The path one component below this one.
    pub fn join(&self, component: &[u8]) -> Result<Self, PathError> {
        check_component(component)?;
        if component.contains(&b'/') {
            return Err(PathError::EmptyComponent);
        }
        let length = self.0.len() + 1 + component.len();
        if length > PATH_BYTES {
            return Err(PathError::LongPath(length));
        }
        let mut bytes = Vec::with_capacity(length);
        bytes.extend_from_slice(&self.0);
        bytes.push(b'/');
        bytes.extend_from_slice(component);
        Ok(Self(bytes.into()))
    }

    /// The exact bytes.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Its components from the root down; at least one.
    pub fn components(&self) -> impl Iterator<Item = &[u8]> {
        self.0.split(|&byte| byte == b'/')
    }

    /// The bytes of the directory it lies in; `None` at the top of the tree.
    pub fn parent(&self) -> Option<&[u8]> {
        self.0.iter().rposition(|&byte| byte == b'/').map(|slash| &self.0[..slash])
    }

    /// Its last component.
    pub fn leaf(&self) -> &[u8] {
        match self.0.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => &self.0[slash + 1..],
            None => &self.0,
        }
    }
}

fn check_component(component: &[u8]) -> Result<(), PathError> {
    match component {
        b"" => Err(PathError::EmptyComponent),
        b"." | b".." => Err(PathError::DotComponent),
        long if long.len() > COMPONENT_BYTES => Err(PathError::LongComponent(long.len())),
        nul if nul.contains(&0) => Err(PathError::Nul),
        _ => Ok(()),
    }
}

impl Ord for EntryPath {
    /// By components: `/` sorts below every other byte, so `a/z` comes before `a-b`.
    fn cmp(&self, other: &Self) -> Ordering {
        compare(&self.0, &other.0)
    }
}

/// Compares the bytes of two paths as [`EntryPath`] is ordered.
pub(crate) fn compare(left: &[u8], right: &[u8]) -> Ordering {
    let rank = |&byte: &u8| if byte == b'/' { 0 } else { u16::from(byte) + 1 };
    let shared = left.iter().zip(right).take_while(|(left, right)| left == right).count();
    left.get(shared).map(rank).cmp(&right.get(shared).map(rank))
}

impl PartialOrd for EntryPath {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        escape(&self.0).fmt(f)
    }
}

impl fmt::Debug for EntryPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{self}\"")
    }
}

/// Shows bytes from a peer or a directory to a person: what could steer a terminal, break a line or
/// reorder text is written as an escape, everything else stays as it is. Distinct bytes give distinct text.
pub fn escape(bytes: &[u8]) -> impl fmt::Display + '_ {
    Escaped(bytes)
}

struct Escaped<'a>(&'a [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            for character in chunk.valid().chars() {
                write_character(f, character)?;
            }
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02x}")?;
            }
        }
        Ok(())
    }
}

fn write_character(f: &mut fmt::Formatter<'_>, character: char) -> fmt::Result {
    use fmt::Write as _;
    match character {
        '\\' => f.write_str("\\\\"),
        '\n' => f.write_str("\\n"),
        '\r' => f.write_str("\\r"),
        '\t' => f.write_str("\\t"),
        unsafe_character if is_unsafe(unsafe_character) => write!(f, "\\u{{{:x}}}", u32::from(character)),
        safe => f.write_char(safe),
    }
}

/// Control characters (C0, DEL, C1), line and paragraph separators, and the format characters that reorder
/// or hide text (Unicode Standard Annex 9, Trojan Source).
fn is_unsafe(character: char) -> bool {
    character.is_control()
        || matches!(character, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn path(text: &str) -> EntryPath {
        EntryPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn paths_that_could_leave_the_root_are_refused() {
        let cases: [(&[u8], PathError); 12] = [
            (b"", PathError::Empty),
            (b"/", PathError::Absolute),
            (b"/etc/passwd", PathError::Absolute),
            (b"a//b", PathError::EmptyComponent),
            (b"a/", PathError::EmptyComponent),
            (b".", PathError::DotComponent),
            (b"..", PathError::DotComponent),
            (b"../x", PathError::DotComponent),
            (b"a/../../x", PathError::DotComponent),
            (b"./x", PathError::DotComponent),
            (b"a/.", PathError::DotComponent),
            (b"a\0b", PathError::Nul),
        ];
        for (bytes, error) in cases {
            assert_eq!(EntryPath::parse(bytes), Err(error), "{}", escape(bytes));
        }
    }

    #[test]
    fn lengths_are_checked_at_the_limit_and_one_past_it() {
        assert!(EntryPath::parse(&[b'x'; COMPONENT_BYTES]).is_ok());
        assert_eq!(EntryPath::parse(&[b'x'; 256]), Err(PathError::LongComponent(256)));
        let longest = b"x/".repeat(PATH_BYTES / 2 - 1).into_iter().chain(*b"xy").collect::<Vec<_>>();
        assert_eq!(longest.len(), PATH_BYTES);
        let parsed = EntryPath::parse(&longest).unwrap();
        assert_eq!(
            EntryPath::parse(&[&longest[..], b"z"].concat()),
            Err(PathError::LongPath(PATH_BYTES + 1))
        );
        assert_eq!(parsed.join(b"z"), Err(PathError::LongPath(PATH_BYTES + 2)));
    }

    #[test]
    fn bytes_that_are_not_utf8_are_legal() {
        let name = EntryPath::parse(b"d\x80/f\xff").unwrap();
        assert_eq!(name.as_bytes(), b"d\x80/f\xff");
        assert_eq!(name.to_string(), "d\\x80/f\\xff");
    }

    #[test]
    fn a_path_knows_its_parts() {
        let deep = path("a/b/c");
        assert_eq!(deep.components().collect::<Vec<_>>(), [b"a", b"b", b"c"]);
        assert_eq!((deep.parent(), deep.leaf()), (Some(&b"a/b"[..]), &b"c"[..]));
        assert_eq!((path("a").parent(), path("a").leaf()), (None, &b"a"[..]));
        assert_eq!(path("a").join(b"b"), Ok(path("a/b")));
        assert_eq!(path("a").join(b"b/c"), Err(PathError::EmptyComponent));
    }

    #[test]
    fn a_directory_is_followed_by_all_below_it() {
        let mut paths = ["a-b", "a/z", "a", "a/b/c", "b", "a/b", "a\u{1}"].map(path);
        paths.sort();
        assert_eq!(paths.map(|p| p.to_string()), ["a", "a/b", "a/b/c", "a/z", "a\\u{1}", "a-b", "b"]);
    }

    #[test]
    fn what_steers_a_terminal_is_escaped() {
        assert_eq!(escape(b"a\x1b[1A\r\n\x07").to_string(), "a\\u{1b}[1A\\r\\n\\u{7}");
        assert_eq!(escape("\u{9b}\u{202e}gpj".as_bytes()).to_string(), "\\u{9b}\\u{202e}gpj");
        assert_eq!(escape(b"a\x9bb\\").to_string(), "a\\x9bb\\\\");
        assert_eq!(escape("größe ✓".as_bytes()).to_string(), "größe ✓");
    }

    proptest! {
        #[test]
        fn order_is_the_order_of_component_lists(left in "[a/\\-]{1,8}", right in "[a/\\-]{1,8}") {
            if let (Ok(l), Ok(r)) = (EntryPath::parse(left.as_bytes()), EntryPath::parse(right.as_bytes())) {
                prop_assert_eq!(l.cmp(&r), l.components().cmp(r.components()));
            }
        }

        #[test]
        fn parsing_keeps_the_bytes_or_refuses(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Ok(parsed) = EntryPath::parse(&bytes) {
                prop_assert_eq!(parsed.as_bytes(), &bytes[..]);
                prop_assert!(parsed.components().all(|c| !c.is_empty() && c != b"." && c != b".."));
            }
        }

        #[test]
        fn escaped_text_is_safe_and_distinct(left in proptest::collection::vec(any::<u8>(), 0..12), right in proptest::collection::vec(any::<u8>(), 0..12)) {
            let (l, r) = (escape(&left).to_string(), escape(&right).to_string());
            prop_assert!(!l.chars().any(is_unsafe));
            prop_assert_eq!(l == r, left == right);
        }
    }
}
