//! Modes and times, read and set by handle.

use std::os::fd::AsFd;

use ketch_protocol::manifest::{Entry, Owner, Timestamp};
use rustix::{
    fs::{AtFlags, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, fchmod, futimens, utimensat},
    io::Errno,
};

use crate::index::StatKey;

/// What may be set on a target: setuid, setgid and sticky are dropped, since they would act with the rights
/// of whoever receives.
const CARRIED_BITS: u32 = 0o777;

/// When the content was last changed.
pub(super) fn mtime(stat: &Stat) -> Timestamp {
    timestamp(stat.st_mtime, stat.st_mtime_nsec)
}

/// When anything of the file was last changed; no program can set it.
pub(super) fn ctime(stat: &Stat) -> Timestamp {
    timestamp(stat.st_ctime, stat.st_ctime_nsec)
}

/// Length in bytes.
pub(super) fn size(stat: &Stat) -> u64 {
    u64::try_from(stat.st_size).unwrap_or_default()
}

/// What tells its state from another without reading it.
pub(super) fn stat_key(stat: &Stat) -> StatKey {
    StatKey { size: size(stat), mtime: mtime(stat), ctime: ctime(stat), inode: stat.st_ino }
}

/// How many names it has.
#[allow(clippy::useless_conversion, reason = "its type differs between systems")]
pub(super) fn names(stat: &Stat) -> u64 {
    u64::from(stat.st_nlink)
}

/// Who owns it.
pub(super) fn owner(stat: &Stat) -> Owner {
    Owner { user: stat.st_uid, group: stat.st_gid }
}

/// Whether a file takes less space than it has bytes: it has holes, or its file system compresses.
pub(super) fn is_sparse(stat: &Stat) -> bool {
    // Counted by the system in 512 bytes.
    u64::try_from(stat.st_blocks).unwrap_or_default().saturating_mul(512) < size(stat)
}

/// Permission bits with setuid, setgid and sticky.
pub(super) fn mode(stat: &Stat) -> u32 {
    stat.st_mode & 0o7777
}

/// Sets the mode and the times of an entry on what `handle` holds.
pub(super) fn apply(handle: impl AsFd, mode: u32, mtime: Timestamp) -> Result<(), Errno> {
    fchmod(&handle, carried_mode(mode))?;
    futimens(&handle, &times(mtime))
}

/// Sets the time of the symlink `leaf` itself.
pub(super) fn apply_to_link(directory: impl AsFd, leaf: &[u8], entry: &Entry) -> Result<(), Errno> {
    utimensat(directory, leaf, &times(entry.mtime), AtFlags::SYMLINK_NOFOLLOW)
}

fn carried_mode(mode: u32) -> Mode {
    Mode::from_raw_mode(mode & CARRIED_BITS)
}

fn times(mtime: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: mtime.seconds, tv_nsec: mtime.nanoseconds.into() },
    }
}

/// The types of the parts differ between architectures. A file system that stores nonsense for nanoseconds
/// gets none.
fn timestamp(seconds: impl Into<i64>, nanoseconds: impl TryInto<u32>) -> Timestamp {
    let nanoseconds = nanoseconds.try_into().ok().filter(|&part| part < 1_000_000_000).unwrap_or_default();
    Timestamp { seconds: seconds.into(), nanoseconds }
}
