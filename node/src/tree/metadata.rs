//! Modes, times and owners, read and set by handle.

use std::{fmt, os::fd::AsFd};

use ketch_protocol::manifest::{Entry, Owner, Timestamp};
use rustix::{
    fs::{
        AtFlags, Gid, Mode, Stat, Timespec, Timestamps, UTIME_OMIT, Uid, chownat, fchmod, fchown, fstat,
        futimens, statat, utimensat,
    },
    io::Errno,
};

use super::attributes;
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

/// What is set beside mode and times.
#[derive(Debug, Clone, Copy)]
pub(super) struct Carried {
    pub(super) owner: bool,
    pub(super) attributes: bool,
}

/// What could not be set, and why.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Unset {
    part: &'static str,
    error: Errno,
}

impl Unset {
    pub(super) fn of(part: &'static str) -> impl FnOnce(Errno) -> Self {
        move |error| Self { part, error }
    }
}

impl fmt::Display for Unset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "setting its {}: {}", self.part, self.error)
    }
}

/// Sets all that an entry says beside its content on the file or directory that `handle` holds: as much as
/// can be, and the first that can't be is named.
pub(super) fn apply(handle: impl AsFd, entry: &Entry, carried: Carried) -> Result<(), Unset> {
    // A change of owner takes rights away; attributes need the right to write; times come last, since
    // everything before may change them.
    let set = apply_unordered(&handle, entry, carried);
    set.and(apply_mode_and_time(&handle, carried_mode(entry.mode), entry.mtime))
}

/// Sets the owner and the attributes of an entry where they are carried.
pub(super) fn apply_unordered(handle: impl AsFd, entry: &Entry, carried: Carried) -> Result<(), Unset> {
    let owner = match entry.owner.filter(|_| carried.owner) {
        Some(owner) => apply_owner(&handle, owner).map_err(Unset::of("owner")),
        None => Ok(()),
    };
    if !carried.attributes {
        return owner;
    }
    owner.and(attributes::apply(&handle, &entry.attributes).map_err(Unset::of("extended attributes")))
}

/// Sets mode and time.
pub(super) fn apply_mode_and_time(handle: impl AsFd, mode: Mode, mtime: Timestamp) -> Result<(), Unset> {
    let mode = apply_mode(&handle, mode).map_err(Unset::of("mode"));
    mode.and(futimens(&handle, &times(mtime)).map_err(Unset::of("time")))
}

/// To find that it has its mode costs a tenth of setting it, and what was made with that mode mostly has it.
fn apply_mode(handle: impl AsFd, wanted: Mode) -> Result<(), Errno> {
    if mode(&fstat(&handle)?) == wanted.as_raw_mode() { Ok(()) } else { fchmod(handle, wanted) }
}

/// Sets the time, and the owner where it is carried, of the symlink `leaf` itself.
pub(super) fn apply_to_link(
    directory: impl AsFd,
    leaf: &[u8],
    entry: &Entry,
    carried: Carried,
) -> Result<(), Unset> {
    let owner = match entry.owner.filter(|_| carried.owner) {
        Some(owner) => apply_link_owner(&directory, leaf, owner).map_err(Unset::of("owner")),
        None => Ok(()),
    };
    let dated = utimensat(&directory, leaf, &times(entry.mtime), AtFlags::SYMLINK_NOFOLLOW);
    owner.and(dated.map_err(Unset::of("time")))
}

/// Who owns it already needs no right to.
fn apply_owner(handle: impl AsFd, listed: Owner) -> Result<(), Errno> {
    if owner(&fstat(&handle)?) == listed {
        return Ok(());
    }
    let (user, group) = ids(listed);
    fchown(&handle, user, group)
}

fn apply_link_owner(directory: impl AsFd, leaf: &[u8], listed: Owner) -> Result<(), Errno> {
    if owner(&statat(&directory, leaf, AtFlags::SYMLINK_NOFOLLOW)?) == listed {
        return Ok(());
    }
    let (user, group) = ids(listed);
    chownat(&directory, leaf, user, group, AtFlags::SYMLINK_NOFOLLOW)
}

/// The number with all bits set means "as it is" to the system and cannot be given.
fn ids(owner: Owner) -> (Option<Uid>, Option<Gid>) {
    let user = (owner.user != u32::MAX).then(|| Uid::from_raw(owner.user));
    (user, (owner.group != u32::MAX).then(|| Gid::from_raw(owner.group)))
}

/// The part of a mode that is set.
pub(super) fn carried_mode(mode: u32) -> Mode {
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
