//! Linux: openat2, O_PATH, O_TMPFILE, renameat2, statx and syncfs, each with a way around where an older
//! kernel or a sandbox lacks it.

use std::{
    os::fd::{AsRawFd as _, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering},
};

use rustix::{
    fs::{
        AtFlags, CWD, FallocateFlags, Mode, OFlags, RenameFlags, ResolveFlags, SeekFrom, StatxFlags, chmod,
        fallocate, ioctl_ficlone, linkat, openat, openat2, renameat_with, seek, statx, syncfs, unlinkat,
    },
    io::Errno,
};

use super::{Extent, FileSystem, walk_beneath};

/// How a directory is held: it needs no permission to read it, so execute-only directories work.
pub(crate) const HANDLE: OFlags = OFlags::PATH;

/// openat2 gives EAGAIN when anything on the system was renamed while it walked; after this many the walk
/// by single components decides.
const RACE_ATTEMPTS: usize = 16;

/// Opens `path` below `root`, following no symlink anywhere. An empty path is `root` itself.
pub(crate) fn open_beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let place = if path.is_empty() { b"." } else { path };
    for _ in 0..RACE_ATTEMPTS {
        match openat2(root, place, flags | OFlags::CLOEXEC, Mode::empty(), resolve) {
            Err(Errno::AGAIN | Errno::INTR) => {}
            // An old kernel, or a sandbox that knows openat only.
            Err(Errno::NOSYS | Errno::PERM) => break,
            opened => return opened,
        }
    }
    walk_beneath(root, path, flags)
}

/// A file of `mode`, less what the umask takes, in `directory` without a name, for [`link_nameless`]; `None`
/// where the file system has none.
pub(crate) fn make_nameless(directory: BorrowedFd<'_>, mode: Mode) -> Result<Option<OwnedFd>, Errno> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match openat(directory, ".", flags, mode) {
        Ok(file) => Ok(Some(file)),
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Whether naming a file by its handle alone was refused (before Linux 6.10 it takes a capability), so that
/// every further one goes through /proc at once.
static THROUGH_PROC: AtomicBool = AtomicBool::new(false);

/// Gives a nameless file its name; EEXIST when it is taken.
pub(crate) fn link_nameless(
    file: BorrowedFd<'_>,
    directory: BorrowedFd<'_>,
    name: &[u8],
) -> Result<(), Errno> {
    if !THROUGH_PROC.load(Ordering::Relaxed) {
        match linkat(file, c"", directory, name, AtFlags::EMPTY_PATH) {
            Err(Errno::NOENT | Errno::PERM | Errno::INVAL) => {}
            linked => return linked,
        }
    }
    let by_proc = format!("/proc/self/fd/{}", file.as_raw_fd());
    linkat(CWD, by_proc, directory, name, AtFlags::SYMLINK_FOLLOW)?;
    THROUGH_PROC.store(true, Ordering::Relaxed);
    Ok(())
}

/// Moves `from` to `to` unless that name is taken (EEXIST).
pub(crate) fn rename_to_free(
    (from_directory, from): (BorrowedFd<'_>, &[u8]),
    (to_directory, to): (BorrowedFd<'_>, &[u8]),
) -> Result<(), Errno> {
    match renameat_with(from_directory, from, to_directory, to, RenameFlags::NOREPLACE) {
        Err(Errno::INVAL | Errno::NOSYS) => {
            linkat(from_directory, from, to_directory, to, AtFlags::empty())?;
            unlinkat(from_directory, from, AtFlags::empty())
        }
        renamed => renamed,
    }
}

/// The file system that an open file or directory lies on.
pub(crate) fn file_system(handle: BorrowedFd<'_>) -> Result<FileSystem, Errno> {
    let seen = statx(handle, c"", AtFlags::EMPTY_PATH, StatxFlags::MNT_ID)?;
    let device = u64::from(seen.stx_dev_major) << 32 | u64::from(seen.stx_dev_minor);
    Ok(FileSystem { device, mount: seen.stx_mnt_id })
}

/// Writes everything stored on the file system of `handle` to its disk.
pub(crate) fn sync_file_system(handle: BorrowedFd<'_>) -> Result<(), Errno> {
    syncfs(handle)
}

/// What the bytes at `offset` are, of which there are `most`. A file system that does not tell has no holes.
pub(crate) fn extent_at(file: BorrowedFd<'_>, offset: u64, most: u64) -> Extent {
    let until = |place: u64| place.saturating_sub(offset).min(most);
    match seek(file, SeekFrom::Data(offset)) {
        Ok(data) if data > offset => Extent::Hole(until(data)),
        Ok(_) => match seek(file, SeekFrom::Hole(offset)) {
            Ok(hole) if hole > offset => Extent::Data(until(hole)),
            Ok(_) | Err(_) => Extent::Data(most),
        },
        // No data follows.
        Err(Errno::NXIO) => Extent::Hole(most),
        Err(_) => Extent::Data(most),
    }
}

/// Sets the mode of the file or directory `leaf` in `parent`, also when it can't be read. A symlink is
/// refused: it has none.
pub(crate) fn change_mode(parent: BorrowedFd<'_>, leaf: &[u8], mode: Mode) -> Result<(), Errno> {
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let held = openat(parent, leaf, flags, Mode::empty())?;
    // fchmod refuses an O_PATH handle; the link in /proc is that very handle, not a path.
    chmod(format!("/proc/self/fd/{}", held.as_raw_fd()), mode)
}

/// Makes a part of a file read as zeros and gives its space back; `false` where that can't be done.
pub(crate) fn punch_hole(file: BorrowedFd<'_>, offset: u64, length: u64) -> Result<bool, Errno> {
    match fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, offset, length) {
        Ok(()) => Ok(true),
        Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Gives a new file the content of another one without copying it; `false` where the two can't share it.
pub(crate) fn share_content(file: BorrowedFd<'_>, of: BorrowedFd<'_>) -> bool {
    // Whatever is wrong, a copy meets it too, and says it better.
    ioctl_ficlone(file, of).is_ok()
}

#[cfg(test)]
mod tests {
    use std::{fs, os::fd::AsFd as _};

    use super::*;

    #[test]
    fn a_nameless_file_gets_its_name_in_either_way_unless_it_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let held = fs::File::open(folder.path()).unwrap();
        // Temporary folders on a file system without them are rare; the way around has tests of its own.
        let Some(file) = make_nameless(held.as_fd(), Mode::RUSR).unwrap() else {
            return;
        };
        for through_proc in [false, true] {
            THROUGH_PROC.store(through_proc, Ordering::Relaxed);
            let name = format!("through proc {through_proc}");
            assert_eq!(link_nameless(file.as_fd(), held.as_fd(), name.as_bytes()), Ok(()));
            assert_eq!(link_nameless(file.as_fd(), held.as_fd(), name.as_bytes()), Err(Errno::EXIST));
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
