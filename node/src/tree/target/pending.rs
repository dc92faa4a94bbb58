//! Directories whose modes and times are set at the end: while entries are stored below, a directory must
//! stay writable, and each of them changes its time.

use ketch_protocol::{manifest::Timestamp, path::EntryPath};

/// A stack of directories, packed: one costs its path and 21 bytes. Where one is pushed twice, what was
/// pushed first is set last.
#[derive(Debug, Default)]
pub(super) struct PendingDirectories {
    /// Each path followed by its trailer.
    packed: Vec<u8>,
    /// Those above the latest path or itself, from the top down.
    above: Vec<Box<[u8]>>,
}

/// A directory that waits for its mode and time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PendingDirectory {
    pub(super) path: EntryPath,
    pub(super) mode: u32,
    pub(super) mtime: Timestamp,
    pub(super) origin: Origin,
}

/// Where the mode and the time of a directory come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    /// The manifest.
    Listed = 0,
    /// The directory itself before anything below it was changed: the sender did not list it.
    Remembered = 1,
}

/// Mode, seconds, nanoseconds, origin and the length of the path.
const TRAILER_BYTES: usize = 4 + 8 + 4 + 1 + 4;

impl PendingDirectories {
    /// Takes a directory.
    pub(super) fn push(&mut self, path: &EntryPath, mode: u32, mtime: Timestamp, origin: Origin) {
        let length = u32::try_from(path.as_bytes().len()).expect("a path has at most 4,096 bytes");
        self.packed.extend_from_slice(path.as_bytes());
        self.packed.extend_from_slice(&mode.to_le_bytes());
        self.packed.extend_from_slice(&mtime.seconds.to_le_bytes());
        self.packed.extend_from_slice(&mtime.nanoseconds.to_le_bytes());
        self.packed.push(origin as u8);
        self.packed.extend_from_slice(&length.to_le_bytes());
        self.leave(path.as_bytes());
        self.above.push(path.as_bytes().into());
    }

    /// The directories above `path`, from the top down, that were not pushed; asked in manifest order. Out of
    /// order, some that were pushed may be among them.
    pub(super) fn missing_above(&mut self, path: &EntryPath) -> Vec<EntryPath> {
        self.leave(path.as_bytes());
        let Some(parent) = path.parent() else { return Vec::new() };
        let known = self.above.last().map_or(0, |above| above.len());
        if known == parent.len() {
            return Vec::new();
        }
        let slashes = path.as_bytes().iter().enumerate().filter(|&(_, &byte)| byte == b'/');
        let ends = slashes.map(|(index, _)| index).filter(|&end| end > known);
        ends.map(|end| EntryPath::parse(&path.as_bytes()[..end]).expect("it is above an entry path"))
            .collect()
    }

    /// Forgets which directories lie above the latest path but not above `path`.
    fn leave(&mut self, path: &[u8]) {
        let is_above = |above: &[u8]| path.strip_prefix(above).is_some_and(|rest| rest.starts_with(b"/"));
        while self.above.last().is_some_and(|above| !is_above(above)) {
            self.above.pop();
        }
    }

    /// Gives back the latest. In manifest order whatever lies below a directory comes after it, so this way
    /// round it comes before it.
    pub(super) fn pop(&mut self) -> Option<PendingDirectory> {
        let (rest, length) = self.packed.split_last_chunk()?;
        let (&origin, rest) = rest.split_last()?;
        let (rest, nanoseconds) = rest.split_last_chunk()?;
        let (rest, seconds) = rest.split_last_chunk()?;
        let (rest, mode) = rest.split_last_chunk()?;
        let path_start = rest.len() - u32::from_le_bytes(*length) as usize;
        let popped = PendingDirectory {
            path: EntryPath::parse(&rest[path_start..]).expect("it was pushed as an entry path"),
            mode: u32::from_le_bytes(*mode),
            mtime: Timestamp {
                seconds: i64::from_le_bytes(*seconds),
                nanoseconds: u32::from_le_bytes(*nanoseconds),
            },
            origin: if origin == Origin::Listed as u8 { Origin::Listed } else { Origin::Remembered },
        };
        debug_assert_eq!(rest.len() + TRAILER_BYTES, self.packed.len());
        self.packed.truncate(path_start);
        Some(popped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTIME: Timestamp = Timestamp { seconds: -1, nanoseconds: 999_999_999 };

    fn path(text: &str) -> EntryPath {
        EntryPath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn directories_come_back_last_first_with_all_they_were_given() {
        let mut pending = PendingDirectories::default();
        let pushed = [("a", Origin::Listed), ("a/b", Origin::Remembered), ("c", Origin::Listed)];
        for (text, origin) in pushed {
            pending.push(&path(text), 0o555, MTIME, origin);
        }
        for (text, origin) in pushed.into_iter().rev() {
            let expected = PendingDirectory { path: path(text), mode: 0o555, mtime: MTIME, origin };
            assert_eq!(pending.pop(), Some(expected));
        }
        assert_eq!(pending.pop(), None);
    }

    #[test]
    fn directories_that_were_not_pushed_are_missing() {
        let mut pending = PendingDirectories::default();
        let mut missing = |text: &str| {
            let missing = pending.missing_above(&path(text));
            missing.iter().for_each(|above| pending.push(above, 0, MTIME, Origin::Remembered));
            missing.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(missing("a"), [""; 0]);
        assert_eq!(missing("a/b/c/f"), ["a", "a/b", "a/b/c"]);
        assert_eq!(missing("a/b/c/g"), [""; 0]);
        assert_eq!(missing("a/b/d/f"), ["a/b/d"]);
        assert_eq!(missing("a/z"), [""; 0]);
        assert_eq!(missing("a-/z"), ["a-"]);
        pending.push(&path("b"), 0, MTIME, Origin::Listed);
        assert_eq!(pending.missing_above(&path("b/f")), []);
        assert_eq!(pending.missing_above(&path("b/c/f")), [path("b/c")]);
    }
}
