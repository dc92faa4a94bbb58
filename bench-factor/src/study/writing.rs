//! The target's files on their way out of bounded queues: made, written and closed on threads of their own.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write as _},
    os::fd::OwnedFd,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use ketch_protocol::path::EntryPath;
use rustix::{
    fs::{CWD, Mode, OFlags, mkdirat, openat, syncfs},
    io::Errno,
};
use tokio::sync::{Notify, mpsc};

use super::{
    error::{StudyError, Trouble, io_error},
    stopwatch::Stopwatch,
};

/// An empty folder that becomes the copy.
#[derive(Debug)]
pub(super) struct Target {
    pub(super) place: PathBuf,
    handle: OwnedFd,
    /// What every file is instead, where nothing is kept.
    sink: Option<PathBuf>,
}

impl Target {
    /// Makes the folder, or takes one that has nothing in it; with `discard` nothing comes into it.
    pub(super) fn open(place: &Path, discard: bool) -> Result<Self, StudyError> {
        fs::create_dir_all(place).map_err(io_error("make the folder", place))?;
        let mut content = fs::read_dir(place).map_err(io_error("read the folder", place))?;
        // What a file system has made for itself is not the tree's.
        let is_own = |name: &std::ffi::OsStr| name == "lost+found";
        if content.any(|entry| entry.is_ok_and(|entry| !is_own(&entry.file_name()))) {
            return Err(StudyError::NotEmpty(place.to_owned()));
        }
        let flags = OFlags::DIRECTORY | OFlags::CLOEXEC;
        let handle = openat(CWD, place, flags, Mode::empty()).map_err(io::Error::from);
        let sink = discard.then(|| "/dev/null".into());
        Ok(Self {
            place: place.to_owned(),
            handle: handle.map_err(io_error("open the folder", place))?,
            sink,
        })
    }

    /// Waits until everything is on the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        Ok(syncfs(&self.handle)?)
    }

    /// Makes a file that was not there, with its folders. [`EntryPath`] keeps it below the folder.
    fn create(&self, path: &EntryPath) -> io::Result<File> {
        if let Some(sink) = &self.sink {
            return File::options().write(true).open(sink);
        }
        match self.create_new(path.as_bytes()) {
            Err(Errno::NOENT) => {
                self.make_parents(path)?;
                Ok(self.create_new(path.as_bytes())?)
            }
            created => Ok(created?),
        }
    }

    fn create_new(&self, path: &[u8]) -> Result<File, Errno> {
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        openat(&self.handle, path, flags, Mode::from_raw_mode(0o666)).map(File::from)
    }

    fn make_parents(&self, path: &EntryPath) -> io::Result<()> {
        let bytes = path.as_bytes();
        for (end, _) in bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/') {
            match mkdirat(&self.handle, &bytes[..end], Mode::from_raw_mode(0o777)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

/// A part of one record.
#[derive(Debug)]
pub(super) struct Piece {
    /// Which record, of all on this connection.
    pub(super) record: u64,
    /// At its beginning: where it goes.
    pub(super) begins: Option<EntryPath>,
    pub(super) bytes: Vec<u8>,
    /// Whether the file ends with it.
    pub(super) ends: bool,
}

/// How much of one connection is in files.
#[derive(Debug)]
pub(super) struct Tally {
    stopwatch: Arc<Stopwatch>,
    files: AtomicU64,
    bytes: AtomicU64,
    /// A file was closed.
    pub(super) changed: Notify,
}

impl Tally {
    pub(super) fn new(stopwatch: Arc<Stopwatch>) -> Self {
        Self { stopwatch, files: AtomicU64::new(0), bytes: AtomicU64::new(0), changed: Notify::new() }
    }

    /// Files that were closed.
    pub(super) fn files(&self) -> u64 {
        self.files.load(Ordering::Acquire)
    }

    /// Bytes that were written.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    fn note_close(&self) {
        self.stopwatch.note_close();
        self.files.fetch_add(1, Ordering::AcqRel);
        self.changed.notify_one();
    }
}

/// Writes what comes until nobody sends any more. For a thread of its own.
pub(super) fn write(
    target: &Target,
    tally: &Tally,
    mut pieces: mpsc::Receiver<Piece>,
) -> Result<(), Trouble> {
    let mut open = BTreeMap::new();
    while let Some(piece) = pieces.blocking_recv() {
        write_piece(target, tally, &mut open, piece)?;
    }
    Ok(())
}

fn write_piece(
    target: &Target,
    tally: &Tally,
    open: &mut BTreeMap<u64, File>,
    piece: Piece,
) -> Result<(), Trouble> {
    let Piece { record, begins, bytes, ends } = piece;
    let mut file = match begins {
        Some(path) => target
            .create(&path)
            .map_err(|error| Trouble::failed(&format!("making the file {path}"), &error))?,
        None => open
            .remove(&record)
            .ok_or_else(|| Trouble::Failed("a record goes on that has not begun".into()))?,
    };
    file.write_all(&bytes).map_err(|error| Trouble::failed("writing to a file", &error))?;
    tally.bytes.fetch_add(bytes.len() as u64, Ordering::AcqRel);
    if ends {
        drop(file);
        tally.note_close();
    } else {
        open.insert(record, file);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn piece(record: u64, path: Option<&str>, bytes: &str, ends: bool) -> Piece {
        let begins = path.map(|path| EntryPath::parse(path.as_bytes()).unwrap());
        Piece { record, begins, bytes: bytes.into(), ends }
    }

    fn write_all(pieces: Vec<Piece>) -> (tempfile::TempDir, Tally, Result<(), Trouble>) {
        let place = tempfile::tempdir().unwrap();
        let target = Target::open(place.path(), false).unwrap();
        let tally = Tally::new(Arc::new(Stopwatch::start()));
        let (sending, receiving) = mpsc::channel(pieces.len());
        for piece in pieces {
            sending.try_send(piece).unwrap();
        }
        drop(sending);
        let written = write(&target, &tally, receiving);
        (place, tally, written)
    }

    #[test]
    fn pieces_of_several_records_may_alternate() {
        let (place, tally, written) = write_all(vec![
            piece(0, Some("d/e/long"), "one ", false),
            piece(1, Some("d/empty"), "", true),
            piece(0, None, "two", true),
        ]);
        assert_eq!(written, Ok(()));
        assert_eq!(fs::read_to_string(place.path().join("d/e/long")).unwrap(), "one two");
        assert!(place.path().join("d/empty").exists());
        assert_eq!((tally.files(), tally.bytes()), (2, 7));
    }

    #[test]
    fn a_file_is_never_written_twice() {
        let (_place, tally, written) =
            write_all(vec![piece(0, Some("a"), "x", true), piece(1, Some("a"), "y", true)]);
        assert!(written.unwrap_err().to_string().starts_with("making the file a: "));
        assert_eq!(tally.files(), 1);
    }

    #[test]
    fn a_target_that_discards_makes_no_file() {
        let place = tempfile::tempdir().unwrap();
        let target = Target::open(place.path(), true).unwrap();
        target.create(&EntryPath::parse(b"a/b").unwrap()).unwrap().write_all(b"content").unwrap();
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_target_must_be_empty() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("lost+found")).unwrap();
        Target::open(place.path(), false).unwrap();
        fs::write(place.path().join("a"), "").unwrap();
        let refused = Target::open(place.path(), false).unwrap_err().to_string();
        assert!(refused.ends_with(" is not empty"), "{refused}");
        Target::open(&place.path().join("new/er"), false).unwrap();
    }
}
