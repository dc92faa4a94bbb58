//! Directories whose modes and times are set at the end: while entries are stored below, a directory must
//! stay writable, and each of them changes its time.

use ketch_protocol::{manifest::Timestamp, path::EntryPath};

/// A stack of directories, packed: one costs what its path does not share with the one after it, and 25 bytes. So it
/// takes as much memory as whoever names a million of the longest paths says. Where one is pushed twice, what was pushed
/// first is set last.
#[derive(Debug, Default)]
pub(super) struct PendingDirectories {
    /// The path of the latest.
    latest: Vec<u8>,
    /// For each: in which bytes the path before it differs from its own, then its trailer.
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

/// Mode, seconds, nanoseconds and origin; how many bytes it shares with the path before, and how many that one has more.
const TRAILER_BYTES: usize = 4 + 8 + 4 + 1 + 4 + 4;

impl PendingDirectories {
    /// Takes a directory.
    pub(super) fn push(&mut self, path: &EntryPath, mode: u32, mtime: Timestamp, origin: Origin) {
        let shared =
            path.as_bytes().iter().zip(&self.latest).take_while(|(left, right)| left == right).count();
        let before = &self.latest[shared..];
        let length =
            |bytes: usize| u32::try_from(bytes).expect("a path has at most 4,096 bytes").to_le_bytes();
        self.packed.extend_from_slice(before);
        self.packed.extend_from_slice(&mode.to_le_bytes());
        self.packed.extend_from_slice(&mtime.seconds.to_le_bytes());
        self.packed.extend_from_slice(&mtime.nanoseconds.to_le_bytes());
        self.packed.push(origin as u8);
        self.packed.extend_from_slice(&length(shared));
        self.packed.extend_from_slice(&length(before.len()));
        self.latest = path.as_bytes().to_vec();
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
        let (rest, before) = self.packed.split_last_chunk()?;
        let (rest, shared) = rest.split_last_chunk()?;
        let (&origin, rest) = rest.split_last()?;
        let (rest, nanoseconds) = rest.split_last_chunk()?;
        let (rest, seconds) = rest.split_last_chunk()?;
        let (rest, mode) = rest.split_last_chunk()?;
        let before_start = rest.len() - u32::from_le_bytes(*before) as usize;
        let popped = PendingDirectory {
            path: EntryPath::parse(&self.latest).expect("it was pushed as an entry path"),
            mode: u32::from_le_bytes(*mode),
            mtime: Timestamp {
                seconds: i64::from_le_bytes(*seconds),
                nanoseconds: u32::from_le_bytes(*nanoseconds),
            },
            origin: if origin == Origin::Listed as u8 { Origin::Listed } else { Origin::Remembered },
        };
        debug_assert_eq!(rest.len() + TRAILER_BYTES, self.packed.len());
        self.latest.truncate(u32::from_le_bytes(*shared) as usize);
        self.latest.extend_from_slice(&rest[before_start..]);
        self.packed.truncate(before_start);
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
        let pushed = [
            ("a", Origin::Listed),
            ("a/bc", Origin::Remembered),
            ("a/bc/d", Origin::Listed),
            ("a/bd", Origin::Listed),
            ("c", Origin::Listed),
            ("a", Origin::Remembered),
        ];
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
    fn the_longest_paths_cost_what_they_differ_in() {
        let mut pending = PendingDirectories::default();
        let deep = vec!["x"; 2_000].join("/");
        (0..1_000).for_each(|name| pending.push(&path(&format!("{deep}/{name}")), 0, MTIME, Origin::Listed));
        assert!(pending.packed.len() < 1_000 * (TRAILER_BYTES + 4), "{}", pending.packed.len());
        for name in (0..1_000).rev() {
            assert_eq!(pending.pop().unwrap().path, path(&format!("{deep}/{name}")));
        }
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
