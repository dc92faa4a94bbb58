//! The private folder of one file system: what is not yet complete lies here, and nowhere else.
//!
//! It holds `<32 hex digits>.tmp` (a file or symlink about to replace another; lives for milliseconds),
//! `<32 hex digits>.part` (a large file, kept for a later session) and `<32 hex digits>.ranges` beside it
//! (which ranges of it are stored).

use std::{
    fmt::Write as _,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use rustix::{
    fs::{
        AtFlags, Dir, FlockOperation, Mode, OFlags, fchmod, flock, fstat, linkat, mkdirat, openat, statat,
        symlinkat, unlinkat,
    },
    io::Errno,
    process::geteuid,
};

use super::{Directory, Unfinished, spelling::Alike};
use crate::tree::{PRIVATE_FOLDER, metadata, platform};

/// How long leftovers are kept: long enough to resume after a holiday week.
const STALE_AFTER: Duration = Duration::from_secs(7 * 24 * 60 * 60);

/// How often the folder is made again when another receiver removes it just then.
const OPEN_ATTEMPTS: usize = 16;

/// Hex digits of every name in the folder.
const STEM_DIGITS: usize = 32;

/// The folder, held. Whoever holds it has a shared lock on it, so that nobody removes it.
#[derive(Debug)]
pub(super) struct Private {
    above: Arc<Directory>,
    folder: OwnedFd,
    /// Whether files can be made without a name and named later.
    pub(super) nameless: bool,
    /// Which names the file system takes for one another.
    pub(super) alike: Alike,
}

impl Private {
    /// Opens the folder in `above`, making it where missing, and tries it out. ENOTDIR when its name is
    /// taken by a symlink, a file or another user's directory.
    pub(super) fn open(above: Arc<Directory>) -> Result<Self, Errno> {
        let folder = open_folder(&above)?;
        let mut private = Self { above, folder, nameless: false, alike: Alike::default() };
        private.nameless = private.try_out()?;
        private.alike = private.probe()?;
        Ok(private)
    }

    /// Its handle.
    pub(super) fn folder(&self) -> BorrowedFd<'_> {
        self.folder.as_fd()
    }

    /// Makes a file and drops it; tells whether that works without a name.
    fn try_out(&self) -> Result<bool, Errno> {
        let name = random_name();
        if let Some(file) = platform::make_nameless(self.folder.as_fd(), Mode::RUSR | Mode::WUSR)? {
            match platform::link_nameless(file.as_fd(), self.folder.as_fd(), name.as_bytes()) {
                Ok(()) => return self.remove(&name).map(|()| true),
                Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::ROFS)) => return Err(error),
                Err(_) => {}
            }
        }
        self.make(&name)?;
        self.remove(&name).map(|()| false)
    }

    /// Makes a file and looks for it under other spellings of its name.
    fn probe(&self) -> Result<Alike, Errno> {
        let is_there = |name: &str| statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        let name = random_name();
        self.make(&name)?;
        let case = is_there(&name.to_uppercase());
        self.remove(&name)?;
        let (composed, decomposed) = (format!("\u{e9}{name}"), format!("e\u{301}{name}"));
        // A file system that can't have such a name has no two forms of it.
        let form = self.make(&composed).is_ok() && is_there(&decomposed);
        let _ = self.remove(&composed);
        Ok(Alike { case, form })
    }

    fn make(&self, name: &str) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.folder, name, flags, Mode::RUSR | Mode::WUSR)
    }

    pub(super) fn remove(&self, name: &str) -> Result<(), Errno> {
        unlinkat(&self.folder, name, AtFlags::empty())
    }

    /// Writes everything on its file system to disk.
    pub(super) fn sync_file_system(&self) -> io::Result<()> {
        Ok(platform::sync_file_system(self.folder.as_fd())?)
    }

    /// Removes the folder unless it holds something or another receiver holds it.
    pub(super) fn remove_if_empty(&self) {
        let locked = flock(&self.folder, FlockOperation::NonBlockingLockExclusive).is_ok();
        // Once it is removed, the name may stand for another receiver's folder.
        if locked && is_linked(&self.folder) {
            // Not empty is the usual answer while something is unfinished, and nothing is lost either way.
            let _ = unlinkat(&self.above.handle, PRIVATE_FOLDER, AtFlags::REMOVEDIR);
        }
        let _ = flock(&self.folder, FlockOperation::NonBlockingLockShared);
    }

    /// Removes leftovers that nobody touched for [`STALE_AFTER`] and nobody holds. What can't be removed
    /// stays for the next time.
    pub(super) fn sweep(&self, now: SystemTime) {
        for name in self.own_names() {
            if self.is_stale(&name, now) && !self.is_held(&name) {
                let _ = self.remove(&name);
            }
        }
    }

    /// Adds what is kept here of large files.
    pub(super) fn count_unfinished(&self, all: &mut Unfinished) {
        for name in self.own_names().filter(|name| name.ends_with(".part")) {
            if let Ok(stat) = statat(&self.folder, &name, AtFlags::SYMLINK_NOFOLLOW) {
                all.files += 1;
                // Counted by the system in 512 bytes, holes left out.
                all.bytes += u64::try_from(stat.st_blocks).unwrap_or_default() * 512;
            }
        }
    }

    /// The names in it that have one of the three forms; others are not ours to touch.
    fn own_names(&self) -> impl Iterator<Item = String> {
        let listed = Dir::read_from(&self.folder).into_iter().flatten().flatten();
        listed
            .filter_map(|found| found.file_name().to_str().ok().filter(|name| is_own(name)).map(String::from))
    }

    /// By the ctime, which nobody can set: temporaries already have the entry's mtime.
    fn is_stale(&self, name: &str, now: SystemTime) -> bool {
        let Ok(stat) = statat(&self.folder, name, AtFlags::SYMLINK_NOFOLLOW) else { return false };
        let seconds = u64::try_from(metadata::ctime(&stat).seconds).unwrap_or_default();
        let touched = UNIX_EPOCH + Duration::from_secs(seconds);
        now.duration_since(touched).is_ok_and(|age| age > STALE_AFTER)
    }

    /// Whether a receiver works on it: the lock is on the `.part`, for its `.ranges` too.
    fn is_held(&self, name: &str) -> bool {
        let part = name.replace(".ranges", ".part");
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(file) = openat(&self.folder, part, flags, Mode::empty()) else { return false };
        flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK)
    }
}

impl Drop for Private {
    fn drop(&mut self) {
        self.remove_if_empty();
    }
}

fn open_folder(above: &Directory) -> Result<OwnedFd, Errno> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    for _ in 0..OPEN_ATTEMPTS {
        match mkdirat(&above.handle, PRIVATE_FOLDER, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error),
        }
        let folder = match openat(&above.handle, PRIVATE_FOLDER, flags, Mode::empty()) {
            Err(Errno::NOENT) => continue,
            Err(Errno::LOOP) => return Err(Errno::NOTDIR),
            opened => opened?,
        };
        let stat = fstat(&folder)?;
        if stat.st_uid != geteuid().as_raw() {
            return Err(Errno::NOTDIR);
        }
        if metadata::mode(&stat) != 0o700 {
            fchmod(&folder, Mode::RWXU)?;
        }
        // A file system without locks has none to offer against removal either.
        let _ = flock(&folder, FlockOperation::LockShared);
        if is_linked(&folder) {
            return Ok(folder);
        }
    }
    Err(Errno::NOENT)
}

fn is_linked(folder: &OwnedFd) -> bool {
    fstat(folder).is_ok_and(|stat| stat.st_nlink > 0)
}

fn is_own(name: &str) -> bool {
    let Some((stem, "tmp" | "part" | "ranges")) = name.split_once('.') else { return false };
    stem.len() == STEM_DIGITS && stem.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn random_name() -> String {
    let mut random = [0; STEM_DIGITS / 2];
    getrandom::fill(&mut random).expect("the system gives random bytes once it has booted");
    format!("{}.tmp", hex(&random))
}

/// Lower-case hex digits of 16 bytes: a stem.
pub(super) fn hex(bytes: &[u8; STEM_DIGITS / 2]) -> String {
    bytes.iter().fold(String::with_capacity(STEM_DIGITS), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A file or symlink in the private folder for a moment. Dropped, it is removed.
#[derive(Debug)]
pub(super) struct Temporary {
    private: Arc<Private>,
    name: String,
}

impl Temporary {
    /// A new, empty file of mode 0600.
    pub(super) fn file(private: Arc<Private>) -> Result<(OwnedFd, Self), Errno> {
        let name = random_name();
        let file = private.make(&name)?;
        Ok((file, Self { private, name }))
    }

    /// A symlink.
    pub(super) fn symlink(private: Arc<Private>, target: &[u8]) -> Result<Self, Errno> {
        let name = random_name();
        symlinkat(target, &private.folder, &name)?;
        Ok(Self { private, name })
    }

    /// A name for a nameless file.
    pub(super) fn name(private: Arc<Private>, file: impl AsFd) -> Result<Self, Errno> {
        let name = random_name();
        platform::link_nameless(file.as_fd(), private.folder.as_fd(), name.as_bytes())?;
        Ok(Self { private, name })
    }

    /// Another name of a file.
    pub(super) fn link(
        private: Arc<Private>,
        (directory, leaf): (BorrowedFd<'_>, &[u8]),
    ) -> Result<Self, Errno> {
        let name = random_name();
        linkat(directory, leaf, &private.folder, &name, AtFlags::empty())?;
        Ok(Self { private, name })
    }

    /// Where it is to be taken from.
    pub(super) fn place(&self) -> (&Private, &str) {
        (&self.private, &self.name)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        // After a rename there is nothing to remove; names are never given twice.
        let _ = self.private.remove(&self.name);
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use rustix::fs::open;

    use super::*;

    fn private(folder: &Path) -> Private {
        let above = open(folder, platform::HANDLE | OFlags::DIRECTORY, Mode::empty()).unwrap();
        Private::open(Arc::new(Directory::hold(above).unwrap())).unwrap()
    }

    fn in_a_week() -> SystemTime {
        SystemTime::now() + STALE_AFTER + Duration::from_secs(60)
    }

    #[test]
    fn what_nobody_touched_for_a_week_is_swept() {
        let folder = tempfile::tempdir().unwrap();
        let private = private(folder.path());
        let at = |name: &str| folder.path().join(PRIVATE_FOLDER).join(name);
        let stem = hex(&[0xab; 16]);
        let leftovers = ["tmp", "part", "ranges"].map(|ending| at(&format!("{stem}.{ending}")));
        let not_ours = [at("notes.txt"), at(&format!("{stem}.bak"))];
        leftovers.iter().chain(&not_ours).for_each(|path| fs::write(path, "").unwrap());

        private.sweep(SystemTime::now());
        assert!(leftovers.iter().all(|path| path.exists()));
        private.sweep(in_a_week());
        assert!(!leftovers.iter().any(|path| path.exists()));
        assert!(not_ours.iter().all(|path| path.exists()));
    }

    #[test]
    fn what_someone_holds_is_not_swept() {
        let folder = tempfile::tempdir().unwrap();
        let private = private(folder.path());
        let at =
            |ending: &str| folder.path().join(PRIVATE_FOLDER).join(format!("{}.{ending}", hex(&[1; 16])));
        let (part, record) = (at("part"), at("ranges"));
        fs::write(&record, "").unwrap();
        let held = fs::File::create(&part).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();

        private.sweep(in_a_week());
        assert!(part.exists() && record.exists());
        drop(held);
        private.sweep(in_a_week());
        assert!(!part.exists() && !record.exists());
    }

    #[test]
    fn the_folder_goes_with_its_last_holder() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join(PRIVATE_FOLDER);
        let (first, second) = (private(folder.path()), private(folder.path()));
        drop(first);
        assert!(at.exists());
        second.remove_if_empty();
        assert!(!at.exists());
        let third = private(folder.path());
        drop(second);
        assert!(at.exists(), "the folder of the third was removed by the second");
        drop(third);
        assert!(!at.exists());
    }

    #[test]
    fn a_folder_that_others_may_read_is_closed() {
        use std::os::unix::fs::PermissionsExt as _;
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join(PRIVATE_FOLDER);
        fs::create_dir(&at).unwrap();
        fs::set_permissions(&at, fs::Permissions::from_mode(0o777)).unwrap();
        let _private = private(folder.path());
        assert_eq!(fs::metadata(&at).unwrap().permissions().mode() & 0o7777, 0o700);
    }
}
