//! Forgets trees that were not synced for a long time.

use std::{
    fs::{self, File},
    io,
    path::Path,
    time::{Duration, SystemTime},
};

use rustix::fs::{FlockOperation, flock};

use super::{DAMAGED, JOURNAL, STORE};

/// An index that was not used for so long is of no use: much of what it says has changed, and reading a tree again
/// after a quarter of a year is no loss.
const UNUSED: Duration = Duration::from_secs(90 * 24 * 60 * 60);

/// Removes the indexes in `folder` that were not used for long. What can't be removed stays: it is in nobody's way.
pub(super) fn forget(folder: &Path, now: SystemTime) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.extension().is_some_and(|ending| ending == JOURNAL) && is_unused(&path, now) {
            let _ = remove(&path);
        }
    }
}

/// A journal is touched whenever its index is opened.
fn is_unused(journal: &Path, now: SystemTime) -> bool {
    let modified = fs::metadata(journal).and_then(|found| found.modified());
    modified.is_ok_and(|modified| now.duration_since(modified).is_ok_and(|unused| unused >= UNUSED))
}

/// Removes an index unless another process has it open. The journal goes last: it is what others lock.
fn remove(journal: &Path) -> io::Result<()> {
    let file = File::options().read(true).write(true).open(journal)?;
    flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    let store = journal.with_extension(STORE);
    for path in [store.with_added_extension(DAMAGED), journal.with_added_extension(DAMAGED), store] {
        match fs::remove_file(path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    fs::remove_file(journal)
}
