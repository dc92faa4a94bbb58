//! Directories whose modes and times are set at the end: while entries are stored below, a directory must
//! stay writable, and each of them changes its time.

use ketch_protocol::{manifest::Timestamp, path::EntryPath};

/// A stack of directories, packed: one costs its path and 20 bytes.
#[derive(Debug, Default)]
pub(super) struct PendingDirectories {
    /// Each path followed by its trailer.
    packed: Vec<u8>,
}

/// A directory that waits for its mode and time.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PendingDirectory {
    pub(super) path: EntryPath,
    pub(super) mode: u32,
    pub(super) mtime: Timestamp,
}

/// Mode, seconds, nanoseconds and the length of the path.
const TRAILER_BYTES: usize = 4 + 8 + 4 + 4;

impl PendingDirectories {
    /// Takes the next directory of the manifest.
    pub(super) fn push(&mut self, path: &EntryPath, mode: u32, mtime: Timestamp) {
        let length = u32::try_from(path.as_bytes().len()).expect("a path has at most 4,096 bytes");
        self.packed.extend_from_slice(path.as_bytes());
        self.packed.extend_from_slice(&mode.to_le_bytes());
        self.packed.extend_from_slice(&mtime.seconds.to_le_bytes());
        self.packed.extend_from_slice(&mtime.nanoseconds.to_le_bytes());
        self.packed.extend_from_slice(&length.to_le_bytes());
    }

    /// Gives back the latest. In manifest order whatever lies below a directory comes after it, so this way
    /// round it comes before it.
    pub(super) fn pop(&mut self) -> Option<PendingDirectory> {
        let (rest, length) = self.packed.split_last_chunk()?;
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
        };
        debug_assert_eq!(rest.len() + TRAILER_BYTES, self.packed.len());
        self.packed.truncate(path_start);
        Some(popped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_come_back_last_first_with_all_they_were_given() {
        let mut pending = PendingDirectories::default();
        let paths = ["a", "a/b", "c"].map(|path| EntryPath::parse(path.as_bytes()).unwrap());
        let mtime = Timestamp { seconds: -1, nanoseconds: 999_999_999 };
        for path in &paths {
            pending.push(path, 0o555, mtime);
        }
        for path in paths.into_iter().rev() {
            assert_eq!(pending.pop(), Some(PendingDirectory { path, mode: 0o555, mtime }));
        }
        assert_eq!(pending.pop(), None);
    }
}
