//! Any Unix: single steps with O_NOFOLLOW, named temporaries only.

use std::os::fd::{BorrowedFd, OwnedFd};

use rustix::{
    fs::{AtFlags, Mode, OFlags, fchmod, fstat, linkat, openat, unlinkat},
    io::Errno,
};

use super::{Extent, FileSystem, walk_beneath};

/// How a directory is held.
pub(crate) const HANDLE: OFlags = OFlags::RDONLY;

/// Opens `path` below `root`, following no symlink anywhere. An empty path is `root` itself.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    walk_beneath(root, path, flags)
}

/// There are no nameless files here.
pub(crate) fn make_nameless(_directory: BorrowedFd<'_>, _mode: Mode) -> Result<Option<OwnedFd>, Errno> {
    Ok(None)
}

/// There are no nameless files here.
pub(crate) fn link_nameless(_: BorrowedFd<'_>, _: BorrowedFd<'_>, _: &[u8]) -> Result<(), Errno> {
    Err(Errno::OPNOTSUPP)
}

/// Moves `from` to `to` unless that name is taken (EEXIST).
pub(crate) fn rename_to_free(
    (from_directory, from): (BorrowedFd<'_>, &[u8]),
    (to_directory, to): (BorrowedFd<'_>, &[u8]),
) -> Result<(), Errno> {
    linkat(from_directory, from, to_directory, to, AtFlags::empty())?;
    unlinkat(from_directory, from, AtFlags::empty())
}

/// The file system that an open file or directory lies on.
pub(crate) fn file_system(handle: BorrowedFd<'_>) -> Result<FileSystem, Errno> {
    #[allow(clippy::useless_conversion, reason = "its type differs between systems")]
    let device = u64::try_from(fstat(handle)?.st_dev).unwrap_or_default();
    Ok(FileSystem { device, mount: 0 })
}

/// Writes everything to disk: there is no narrower call.
pub(crate) fn sync_file_system(_handle: BorrowedFd<'_>) -> Result<(), Errno> {
    rustix::fs::sync();
    Ok(())
}

/// Holes are not looked for here.
pub(crate) fn extent_at(_file: BorrowedFd<'_>, _offset: u64, most: u64) -> Extent {
    Extent::Data(most)
}

/// Sets the mode of the file or directory `leaf` in `parent`.
pub(crate) fn change_mode(parent: BorrowedFd<'_>, leaf: &[u8], mode: Mode) -> Result<(), Errno> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    fchmod(openat(parent, leaf, flags, Mode::empty())?, mode)
}

/// There are no holes here.
pub(crate) fn punch_hole(_file: BorrowedFd<'_>, _offset: u64, _length: u64) -> Result<bool, Errno> {
    Ok(false)
}

/// No two files share their content here.
pub(crate) fn share_content(_file: BorrowedFd<'_>, _of: BorrowedFd<'_>) -> bool {
    false
}
