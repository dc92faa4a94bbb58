//! The log of a session: one line a record, a check of 16 hex digits before its JSON. Reading stops at the
//! first line whose check is wrong: after a crash the tail may be torn.

use std::{
    os::{fd::BorrowedFd, unix::ffi::OsStrExt as _},
    path::Path,
    time::{SystemTime, UNIX_EPOCH},
};

use ketch_protocol::{
    manifest::{Attribute, Entry, Owner, Timestamp},
    path::EntryPath,
};
use rustix::{
    fs::{AtFlags, FileType, Stat, statat},
    io::Errno,
};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::super::Handling;
use crate::tree::metadata;

/// Hex digits before each record.
const CHECK_DIGITS: usize = 16;

/// What a session does, written before it is done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::tree::target) enum Action {
    /// The first record.
    Began { target: Bytes, at: Time },
    /// Something takes a free name.
    Created { path: Bytes, left: Left },
    /// Something takes the place of what is in the trash then.
    Replaced { path: Bytes, left: Left },
    /// What stood there is in the trash then; a directory was described so.
    Removed { path: Bytes, directory: Option<Described> },
    /// What stands there is described anew.
    Described { path: Bytes, old: Described, new: Described },
    /// The last record of a session that was not cut.
    Ended { at: Time },
    /// Undoing began; it may have been cut.
    Undoing { at: Time },
}

/// What a session left under a name: something else there is not its work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(in crate::tree::target) enum Left {
    /// Any directory.
    Directory,
    /// The file or symlink with this number, length and time.
    Other { inode: u64, size: u64, mtime: Time },
}

/// What is set beside content.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::tree::target) struct Described {
    pub(super) mode: u32,
    pub(super) mtime: Time,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) owner: Option<(u32, u32)>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub(super) attributes: Option<Vec<(Bytes, Bytes)>>,
}

/// Seconds and nanoseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(in crate::tree::target) struct Time(pub(super) i64, pub(super) u32);

/// Bytes that are text nearly always: a string then, else a list of numbers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::tree::target) struct Bytes(pub(super) Vec<u8>);

impl Action {
    pub(super) fn began(target: &Path, now: SystemTime) -> Self {
        Self::Began { target: Bytes(target.as_os_str().as_bytes().to_vec()), at: Time::from(now) }
    }

    pub(super) fn ended(now: SystemTime) -> Self {
        Self::Ended { at: Time::from(now) }
    }

    pub(in crate::tree::target) fn created(path: &EntryPath, left: Left) -> Self {
        Self::Created { path: Bytes::from(path), left }
    }

    pub(in crate::tree::target) fn replaced(path: &EntryPath, left: Left) -> Self {
        Self::Replaced { path: Bytes::from(path), left }
    }

    /// `directory` is what a directory was until then.
    pub(in crate::tree::target) fn removed(path: &EntryPath, directory: Option<Described>) -> Self {
        Self::Removed { path: Bytes::from(path), directory }
    }

    pub(super) fn described(path: &EntryPath, old: Described, new: Described) -> Self {
        Self::Described { path: Bytes::from(path), old, new }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        let record = serde_json::to_vec(self).expect("a record holds nothing that JSON can't");
        [check(&record).as_bytes(), &record, b"\n"].concat()
    }

    /// All whole records of a log.
    pub(super) fn decode_all(log: &[u8]) -> Vec<Self> {
        log.split_inclusive(|&byte| byte == b'\n').map_while(decode).collect()
    }
}

fn decode(line: &[u8]) -> Option<Action> {
    let (found, record) = line.strip_suffix(b"\n")?.split_at_checked(CHECK_DIGITS)?;
    (found == check(record).as_bytes()).then(|| serde_json::from_slice(record).ok()).flatten()
}

fn check(record: &[u8]) -> String {
    let mut hex = blake3::hash(record).to_hex().to_string();
    hex.truncate(CHECK_DIGITS);
    hex
}

impl Left {
    pub(in crate::tree::target) fn directory() -> Self {
        Self::Directory
    }

    /// What lies under a name now.
    pub(in crate::tree::target) fn at(directory: BorrowedFd<'_>, leaf: &[u8]) -> Result<Self, Errno> {
        Ok(Self::of(&statat(directory, leaf, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    pub(super) fn of(stat: &Stat) -> Self {
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            return Self::Directory;
        }
        Self::Other {
            inode: stat.st_ino,
            size: metadata::size(stat),
            mtime: Time::from(metadata::mtime(stat)),
        }
    }
}

impl Described {
    /// What an entry says, as far as it is carried.
    pub(super) fn by(entry: &Entry, handling: &Handling) -> Self {
        Self {
            mode: entry.mode,
            mtime: Time::from(entry.mtime),
            owner: entry.owner.filter(|_| handling.owner).map(|owner| (owner.user, owner.group)),
            attributes: handling.attributes.then(|| pairs(&entry.attributes)),
        }
    }

    pub(in crate::tree::target) fn directory(
        mode: u32,
        mtime: Timestamp,
        owner: Owner,
        attributes: &[Attribute],
    ) -> Self {
        let Owner { user, group } = owner;
        Self {
            mode,
            mtime: Time::from(mtime),
            owner: Some((user, group)),
            attributes: Some(pairs(attributes)),
        }
    }
}

fn pairs(attributes: &[Attribute]) -> Vec<(Bytes, Bytes)> {
    let bytes = |part: &[u8]| Bytes(part.to_vec());
    attributes.iter().map(|attribute| (bytes(&attribute.name), bytes(&attribute.value))).collect()
}

impl From<Timestamp> for Time {
    fn from(timestamp: Timestamp) -> Self {
        Self(timestamp.seconds, timestamp.nanoseconds)
    }
}

impl From<Time> for Timestamp {
    fn from(time: Time) -> Self {
        Self { seconds: time.0, nanoseconds: time.1 }
    }
}

impl From<SystemTime> for Time {
    /// A clock before 1970 says 1970.
    fn from(time: SystemTime) -> Self {
        let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self(since.as_secs().try_into().unwrap_or(i64::MAX), since.subsec_nanos())
    }
}

impl From<&EntryPath> for Bytes {
    fn from(path: &EntryPath) -> Self {
        Self(path.as_bytes().to_vec())
    }
}

impl Serialize for Bytes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match str::from_utf8(&self.0) {
            Ok(text) => serializer.serialize_str(text),
            Err(_) => self.0.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Bytes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Form {
            Text(String),
            Numbers(Vec<u8>),
        }
        Ok(match Form::deserialize(deserializer)? {
            Form::Text(text) => Self(text.into_bytes()),
            Form::Numbers(bytes) => Self(bytes),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn described() -> Described {
        Described {
            mode: 0o644,
            mtime: Time(-1, 999_999_999),
            owner: Some((0, u32::MAX)),
            attributes: Some(vec![(Bytes(b"user.a".to_vec()), Bytes(vec![0, 255]))]),
        }
    }

    fn every_action() -> Vec<Action> {
        let path = || Bytes("d/größe\n".into());
        let left = Left::Other { inode: u64::MAX, size: 1, mtime: Time(i64::MIN, 0) };
        vec![
            Action::Began { target: Bytes(b"/t\xff".to_vec()), at: Time(0, 0) },
            Action::Created { path: path(), left },
            Action::Replaced { path: path(), left: Left::Directory },
            Action::Removed { path: Bytes(b"\xff\n".to_vec()), directory: None },
            Action::Removed { path: path(), directory: Some(described()) },
            Action::Described {
                path: path(),
                old: described(),
                new: Described { owner: None, attributes: None, ..described() },
            },
            Action::Ended { at: Time(5, 6) },
            Action::Undoing { at: Time(7, 8) },
        ]
    }

    #[test]
    fn every_action_is_read_as_it_was_written() {
        let log: Vec<u8> = every_action().iter().flat_map(Action::encode).collect();
        assert_eq!(Action::decode_all(&log), every_action());
    }

    #[test]
    fn a_torn_tail_is_left_out_at_every_byte() {
        let lines: Vec<Vec<u8>> = every_action().iter().map(Action::encode).collect();
        let log = lines.concat();
        let ends: Vec<usize> = lines
            .iter()
            .scan(0, |end, line| {
                *end += line.len();
                Some(*end)
            })
            .collect();
        for length in 0..=log.len() {
            let whole = ends.iter().filter(|&&end| end <= length).count();
            assert_eq!(Action::decode_all(&log[..length]), every_action()[..whole], "of {length} bytes");
        }
    }

    #[test]
    fn nothing_is_read_from_a_damaged_record_on() {
        let mut log: Vec<u8> = every_action().iter().flat_map(Action::encode).collect();
        let second = every_action()[0].encode().len() + CHECK_DIGITS + 4;
        log[second] ^= 1;
        assert_eq!(Action::decode_all(&log), every_action()[..1]);
    }
}
