//! [`HeldDirectory`]: a directory held by handle, the top of a source or a target.

use std::{
    fs, io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
};

use ketch_protocol::path::EntryPath;
use rustix::{
    fs::{Mode, OFlags, mkdirat, open},
    io::Errno,
};

use super::{
    PRIVATE_FOLDER,
    platform::{self, HANDLE},
};

/// A directory by its handle: whatever becomes of its name, the same directory is meant.
#[derive(Debug)]
pub struct HeldDirectory {
    handle: OwnedFd,
    path: PathBuf,
}

impl HeldDirectory {
    /// The directory that a user of this machine names. Symlinks on the way are followed.
    pub fn open(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let handle = open(&path, HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { handle, path })
    }

    /// The directory at an absolute path in which there was no symlink when it was found. One that was put
    /// there since is not followed.
    pub fn open_exactly(path: &Path) -> io::Result<Self> {
        let top = open("/", HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
        let below = path.as_os_str().as_bytes();
        let below = below.strip_prefix(b"/").ok_or(io::ErrorKind::InvalidInput)?;
        let handle = platform::open_beneath(top.as_fd(), below, HANDLE | OFlags::DIRECTORY)?;
        Ok(Self { handle, path: path.into() })
    }

    /// A directory below it. No symlink on the way is followed, and a private folder is none.
    pub fn below(&self, path: &EntryPath) -> io::Result<Self> {
        Self::refuse_private(path)?;
        let handle =
            platform::open_beneath(self.handle.as_fd(), path.as_bytes(), HANDLE | OFlags::DIRECTORY)?;
        Ok(Self { handle, path: self.path.join(std::ffi::OsStr::from_bytes(path.as_bytes())) })
    }

    /// A directory below it, made where it is missing.
    pub fn make_below(&self, path: &EntryPath) -> io::Result<Self> {
        Self::refuse_private(path)?;
        let mut above: Option<OwnedFd> = None;
        for component in path.components() {
            let parent = above.as_ref().map_or(self.handle.as_fd(), |handle| handle.as_fd());
            match mkdirat(parent, component, Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            above = Some(platform::open_beneath(parent, component, HANDLE | OFlags::DIRECTORY)?);
        }
        self.below(path)
    }

    /// The same directory once more.
    pub fn again(&self) -> io::Result<Self> {
        Ok(Self { handle: self.handle.try_clone()?, path: self.path.clone() })
    }

    /// Its path when it was opened, to be shown and to tell it from others.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its handle.
    pub(super) fn handle(&self) -> &OwnedFd {
        &self.handle
    }

    /// Its handle, to be kept.
    pub(super) fn into_handle(self) -> OwnedFd {
        self.handle
    }

    fn refuse_private(path: &EntryPath) -> io::Result<()> {
        match path.components().any(|component| component == PRIVATE_FOLDER.as_bytes()) {
            true => Err(Errno::PERM.into()),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn path(text: &str) -> EntryPath {
        EntryPath::parse(text.as_bytes()).unwrap()
    }

    /// A folder with `share/inside` and a link `share/out` that leads out of it.
    fn place() -> (tempfile::TempDir, HeldDirectory) {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("share/inside")).unwrap();
        fs::create_dir(place.path().join("other")).unwrap();
        symlink("../other", place.path().join("share/out")).unwrap();
        let root = HeldDirectory::open(&place.path().join("share")).unwrap();
        (place, root)
    }

    #[test]
    fn what_lies_below_is_found_and_nothing_else() {
        let (_place, root) = place();
        assert_eq!(root.below(&path("inside")).unwrap().path(), root.path().join("inside"));
        for elsewhere in ["out", "missing", "out/x", "inside/missing", PRIVATE_FOLDER] {
            assert!(root.below(&path(elsewhere)).is_err(), "{elsewhere}");
        }
    }

    #[test]
    fn what_is_missing_is_made_below_and_nowhere_else() {
        let (place, root) = place();
        root.make_below(&path("inside/a/b")).unwrap();
        root.make_below(&path("inside/a/b")).unwrap();
        assert!(place.path().join("share/inside/a/b").is_dir());
        root.make_below(&path("out/new")).unwrap_err();
        assert_eq!(fs::read_dir(place.path().join("other")).unwrap().count(), 0);
    }

    #[test]
    fn a_link_that_took_the_place_of_a_directory_is_not_followed() {
        let (place, root) = place();
        let exact = root.path().join("inside");
        assert!(HeldDirectory::open_exactly(&exact).is_ok());
        fs::remove_dir(&exact).unwrap();
        symlink(place.path().join("other"), &exact).unwrap();
        HeldDirectory::open_exactly(&exact).unwrap_err();
    }
}
