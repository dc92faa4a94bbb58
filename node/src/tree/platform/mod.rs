//! What differs between platforms, in one place: opening beneath a handle, files without a name, renaming
//! onto a free name, holes, telling file systems apart, and syncing one. The portable way needs no more than POSIX.

use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};

use rustix::{
    fs::{Mode, OFlags, openat},
    io::Errno,
};

#[cfg(target_os = "linux")]
mod linux;
#[cfg(any(test, not(target_os = "linux")))]
#[cfg_attr(target_os = "linux", allow(dead_code, reason = "on Linux it is compiled for its tests only"))]
mod portable;

#[cfg(target_os = "linux")]
pub(super) use linux::{
    HANDLE, change_mode, extent_at, file_system, link_nameless, make_nameless, open_beneath, punch_hole,
    rename_to_free, share_content, sync_file_system,
};
#[cfg(not(target_os = "linux"))]
pub(super) use portable::{
    HANDLE, change_mode, extent_at, file_system, link_nameless, make_nameless, open_beneath, punch_hole,
    rename_to_free, share_content, sync_file_system,
};

/// Tells mounted file systems apart: two directories with equal values can rename into each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct FileSystem {
    device: u64,
    mount: u64,
}

/// Bytes of a file that follow each other, at least one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// They take space.
    Data(u64),
    /// They take none and read as zeros.
    Hole(u64),
}

/// Opens `path` below `root` one component at a time, following no symlink. An empty path is `root` itself.
fn walk_beneath(root: BorrowedFd<'_>, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let (above, leaf) = match path.iter().rposition(|&byte| byte == b'/') {
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (&b""[..], path),
    };
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    if leaf.is_empty() {
        return openat(root, ".", flags, Mode::empty());
    }
    let mut held: Option<OwnedFd> = None;
    for component in above.split(|&byte| byte == b'/').filter(|component| !component.is_empty()) {
        let parent = held.as_ref().map_or(root, |handle| handle.as_fd());
        held = Some(open_step(parent, component, HANDLE | OFlags::DIRECTORY)?);
    }
    open_step(held.as_ref().map_or(root, |handle| handle.as_fd()), leaf, flags)
}

fn open_step(parent: BorrowedFd<'_>, component: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    if component == b".." {
        return Err(Errno::XDEV);
    }
    openat(parent, component, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::symlink};

    use super::*;

    type Open = fn(BorrowedFd<'_>, &[u8], OFlags) -> Result<OwnedFd, Errno>;

    const WAYS: [Open; 3] = [walk_beneath, open_beneath, portable::open_beneath];

    fn tree() -> (tempfile::TempDir, fs::File) {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join("a/b")).unwrap();
        fs::write(folder.path().join("a/b/file"), "x").unwrap();
        symlink("b", folder.path().join("a/link")).unwrap();
        symlink("/etc", folder.path().join("out")).unwrap();
        let root = fs::File::open(folder.path()).unwrap();
        (folder, root)
    }

    #[test]
    fn every_way_opens_what_lies_below() {
        let (_folder, root) = tree();
        for open in WAYS {
            for path in [&b"a/b/file"[..], b"a/b", b"a", b""] {
                assert!(open(root.as_fd(), path, OFlags::RDONLY).is_ok());
            }
        }
    }

    #[test]
    fn no_way_follows_a_symlink_or_leaves_the_root() {
        let (_folder, root) = tree();
        for open in WAYS {
            for path in [&b"a/link/file"[..], b"a/link", b"out/passwd", b"out", b"../x", b"a/../../x"] {
                assert!(open(root.as_fd(), path, OFlags::RDONLY).is_err());
            }
        }
    }

    #[test]
    fn renaming_to_a_taken_name_is_refused() {
        let (folder, root) = tree();
        for rename in [rename_to_free, portable::rename_to_free] {
            fs::write(folder.path().join("from"), "new").unwrap();
            let to = |name: &'static [u8]| (root.as_fd(), name);
            assert_eq!(rename((root.as_fd(), b"from"), to(b"a/b/file")), Err(Errno::EXIST));
            assert_eq!(rename((root.as_fd(), b"from"), to(b"free")), Ok(()));
            assert_eq!(fs::read(folder.path().join("free")).unwrap(), b"new");
            assert!(!folder.path().join("from").exists());
            fs::remove_file(folder.path().join("free")).unwrap();
        }
    }
}
