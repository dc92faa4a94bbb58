//! What is kept so that an unchanged tree is known without reading it: for each file its hash, with what the
//! file looked like then ([`StatKey`]).
//!
//! There is one [`Index`] for each tree, in the state folder. It is only a cache: without it files are read
//! again, and nothing is decided by it alone. So a damaged one is moved aside and built anew, with one
//! [`Warning`], and one that another process has open is done without.
//!
//! A session opens the index of its tree by [`Indexes::open`], scans with a [`Reader`], tells a [`Recorder`]
//! what it read and stored, calls [`Index::checkpoint`] after it wrote the target to its disk, and ends with
//! [`Index::fold`]. What a recorder was told goes to a journal at once, so that a session which ends in any
//! other way loses nothing: the next one folds the journal into the index when it opens it. A session that makes
//! a whole copy opens it by [`Indexes::begin`], needs no reader, and leaves what it learnt in the journal.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
    time::SystemTime,
};

use ketch_protocol::{manifest::Timestamp, message::DiskId, session::receiver::Agreed};

use self::{
    boot::Boot,
    journal::{Journal, Refused},
    seal::Seal,
    store::{Reading, StoreError},
};
use crate::state::{StateFolder, show};

mod boot;
mod journal;
mod key;
mod pair;
mod reader;
mod record;
mod recorder;
mod seal;
mod store;
mod tree_name;
mod unused;

pub use journal::Mark;
pub use pair::PairKey;
pub use reader::{Gone, Reader};
pub use record::{Seen, StatKey, now};
pub use recorder::Recorder;
pub use store::Changes;
pub use tree_name::TreeName;

/// How the names of the files of an index end.
const JOURNAL: &str = "journal";
const STORE: &str = "redb";

/// Added to the name of what was moved aside. One of each is kept, for whoever wants to know.
const DAMAGED: &str = "damaged";

/// Tells whether what is at a path lies where it lay before: not on another disk, and not in the directory below a
/// disk that is not mounted. A directory that is made anew in the same place, as builds do, is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RootIdentity {
    /// The number of its file system.
    pub file_system: u64,
}

impl RootIdentity {
    /// What another node may know of it.
    pub(crate) fn disk(self) -> DiskId {
        let hash = blake3::derive_key("ketch 1 disk of a source", &self.encode());
        let (disk, _) = hash.split_first_chunk().expect("a hash has 32 bytes");
        DiskId(*disk)
    }

    fn encode(self) -> [u8; 8] {
        self.file_system.to_le_bytes()
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(|bytes| Self { file_system: u64::from_le_bytes(bytes) })
    }
}

/// Why files are read again that would not have to be.
#[derive(Debug, thiserror::Error)]
pub enum Warning {
    /// It was not what was written.
    #[error(
        "the index of \"{}\" was damaged and is built anew; what it was is kept in {}",
        show(root),
        show(kept)
    )]
    Damaged {
        /// The tree.
        root: PathBuf,
        /// Where it was moved.
        kept: PathBuf,
    },
    /// Another process has it open.
    #[error("the index of \"{}\" is in use by another process, going on without it", show(root))]
    Busy {
        /// The tree.
        root: PathBuf,
    },
    /// It can't be read or written.
    #[error("cannot use the index of \"{}\", going on without it: {cause}", show(root))]
    Unusable {
        /// The tree.
        root: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
}

/// The indexes in a state folder. Sessions of one process that use the same tree share its index.
#[derive(Debug)]
pub struct Indexes {
    folder: PathBuf,
    boot: Boot,
    /// By name, those that are in use.
    open: Mutex<BTreeMap<String, Weak<Shared>>>,
}

impl Indexes {
    /// Those of `state`.
    pub fn new(state: &StateFolder) -> Self {
        Self { folder: state.path().join("index"), boot: Boot::current(), open: Mutex::default() }
    }

    /// Removes those that were not used for a quarter of a year before `now`.
    pub fn forget_unused(&self, now: SystemTime) {
        unused::forget(&self.folder, now);
    }

    /// Opens the index of a tree, with all that its journal holds: also what sessions recorded that have not ended,
    /// or whose end nobody noticed yet.
    pub fn open(&self, tree: &TreeName) -> Index {
        let shared = self.share(tree, |_| ());
        shared.fold(&Changes::default());
        Index(shared)
    }

    /// Opens the index of a tree of which a whole copy begins. What its journal holds is of no use then and is
    /// forgotten, so that it never grows beyond one copy; unless a session of this process uses it.
    pub fn begin(&self, tree: &TreeName) -> Index {
        Index(self.share(tree, Shared::forget_journal))
    }

    /// The index of a tree, which may be in use; `first` is done with one that is not.
    fn share(&self, tree: &TreeName, first: impl FnOnce(&Shared)) -> Arc<Shared> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = open.get(tree.as_str()).and_then(Weak::upgrade) {
            return shared;
        }
        open.retain(|_, shared| shared.strong_count() > 0);
        let shared = Arc::new(self.open_files(tree));
        first(&shared);
        if shared.files.is_some() {
            open.insert(tree.as_str().to_owned(), Arc::downgrade(&shared));
        }
        shared
    }

    fn open_files(&self, tree: &TreeName) -> Shared {
        let root = tree.path().into();
        let mut shared = Shared { root, files: None, boot: self.boot, warnings: Mutex::default() };
        let named = |ending| self.folder.join(format!("{}.{ending}", tree.as_str()));
        match shared.open_journal(&self.folder, &named(JOURNAL)) {
            Ok(journal) => {
                let store = named(STORE);
                shared.check(&journal, &store);
                shared.files = Some(Files { store, journal: Mutex::new(journal) });
            }
            Err(warning) => shared.warn(warning),
        }
        shared
    }
}

/// What is known of the files of one tree. Cheap to clone; all clones are one.
#[derive(Debug, Clone)]
pub struct Index(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    /// The tree, for messages.
    root: PathBuf,
    /// `None` when it goes on without.
    files: Option<Files>,
    boot: Boot,
    warnings: Mutex<Vec<Warning>>,
}

#[derive(Debug)]
struct Files {
    store: PathBuf,
    journal: Mutex<Journal>,
}

impl Index {
    /// What is known now; `now` is the time of the clock. While it is in use nothing can be folded.
    pub fn reader(&self, now: Timestamp) -> Reader {
        Reader::new(&self.0, now)
    }

    /// Takes what becomes known. Each thread has its own.
    pub fn recorder(&self) -> Recorder {
        Recorder::new(Arc::clone(&self.0))
    }

    /// Where the journal stands. Take it after recorders were flushed and before the target is written to
    /// its disk; then give it to [`Index::checkpoint`].
    pub fn mark(&self) -> Option<Mark> {
        self.0.files.as_ref().map(|files| files.journal().mark())
    }

    /// What was flushed before `mark` was taken is on its disk now.
    pub fn checkpoint(&self, mark: Option<Mark>) {
        if let (Some(files), Some(mark)) = (&self.0.files, mark) {
            let written = files.journal().checkpoint(mark);
            // Recorders do not wait for the disk of the journal.
            let synced = written.and_then(|file| file.map_or(Ok(()), |file| file.sync_data()));
            synced.unwrap_or_else(|cause| self.0.warn_unusable(cause));
        }
    }

    /// On which states this tree and another last agreed.
    pub fn agreed(&self, pair: &PairKey) -> Option<Agreed> {
        self.0.read(|reading| reading.agreed(pair)).flatten()
    }

    /// On what the source of a pair lay.
    pub fn disk(&self, pair: &PairKey) -> Option<DiskId> {
        self.0.read(|reading| reading.disk(pair)).flatten()
    }

    /// What was at the root of the tree when [`Changes::root`] was last folded.
    pub fn known_root(&self) -> Option<RootIdentity> {
        self.0.read(Reading::root).flatten()
    }

    /// Writes what was recorded, and `changes`, to the index. When a reader of this process is in use, or
    /// the disk is full, what was recorded stays in the journal for the next session.
    pub fn fold(&self, changes: &Changes) {
        self.0.fold(changes);
    }

    /// What went wrong since it was last asked.
    pub fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut self.0.warnings())
    }
}

impl Shared {
    fn open_journal(&self, folder: &Path, path: &Path) -> Result<Journal, Warning> {
        let unusable = |cause| Warning::Unusable { root: self.root.clone(), cause };
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(unusable)?;
        let opened = match Journal::open(path) {
            Err(Refused::Foreign) => {
                self.move_aside(path);
                Journal::open(path)
            }
            opened => opened,
        };
        opened.map_err(|refused| match refused {
            Refused::Busy => Warning::Busy { root: self.root.clone() },
            Refused::Foreign => unusable(io::Error::other("another version of ketch wrote its journal")),
            Refused::Io(cause) => unusable(cause),
        })
    }

    /// Moves aside the file of the index when it is not what was written.
    fn check(&self, journal: &Journal, store: &Path) {
        match (journal.seal(), Seal::of(store)) {
            // A killed session was at it: redb puts it in order.
            (Seal::Writing, _) | (_, Ok(Seal::Missing)) => {}
            (expected, Ok(seal)) if seal == expected => {}
            (_, Ok(_)) => self.move_aside(store),
            (_, Err(cause)) => self.warn_unusable(cause),
        }
    }

    /// What `ask` finds in the file.
    fn read<T>(&self, ask: impl FnOnce(&Reading) -> Result<T, StoreError>) -> Option<T> {
        let files = self.files.as_ref()?;
        match Reading::open(&files.store).and_then(|reading| ask(&reading)) {
            Ok(found) => Some(found),
            Err(error) => {
                self.met(error);
                None
            }
        }
    }

    fn forget_journal(&self) {
        let Some(files) = &self.files else { return };
        let mut journal = files.journal();
        let seal = journal.seal();
        journal.clear(seal).unwrap_or_else(|cause| self.warn_unusable(cause));
    }

    fn fold(&self, changes: &Changes) {
        let Some(files) = &self.files else { return };
        let mut journal = files.journal();
        if journal.is_empty() && changes.is_empty() && journal.seal() != Seal::Writing {
            return;
        }
        let folded = match self.fold_into(&files.store, &mut journal, changes) {
            Err(StoreError::Damaged) => {
                self.move_aside(&files.store);
                self.fold_into(&files.store, &mut journal, changes)
            }
            folded => folded,
        };
        folded.unwrap_or_else(|error| self.met(error));
    }

    fn fold_into(&self, store: &Path, journal: &mut Journal, changes: &Changes) -> Result<(), StoreError> {
        journal.begin_writing()?;
        store::fold(store, journal, changes, self.boot)?;
        journal.clear(Seal::of(store)?)?;
        Ok(())
    }

    /// Does what an error of the file asks for.
    fn met(&self, error: StoreError) {
        match error {
            // Nothing is known yet, or a reader of this process is still at it.
            StoreError::Missing | StoreError::Busy => {}
            StoreError::Damaged => {
                if let Some(files) = &self.files {
                    self.move_aside(&files.store);
                }
            }
            StoreError::Io(cause) => self.warn_unusable(cause),
        }
    }

    /// Gets what is damaged out of the way. What was moved there before is lost.
    fn move_aside(&self, path: &Path) {
        let mut kept = path.as_os_str().to_owned();
        kept.push(".");
        kept.push(DAMAGED);
        let kept = PathBuf::from(kept);
        match fs::rename(path, &kept) {
            Ok(()) => self.warn(Warning::Damaged { root: self.root.clone(), kept }),
            // Another session of this process has done it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(cause) => self.warn_unusable(cause),
        }
    }

    fn warn_unusable(&self, cause: io::Error) {
        self.warn(Warning::Unusable { root: self.root.clone(), cause });
    }

    /// Says each kind of trouble once.
    fn warn(&self, warning: Warning) {
        let mut warnings = self.warnings();
        let kind = std::mem::discriminant(&warning);
        if !warnings.iter().any(|known| std::mem::discriminant(known) == kind) {
            warnings.push(warning);
        }
    }

    fn warnings(&self) -> MutexGuard<'_, Vec<Warning>> {
        // The list is whole between any two statements.
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Files {
    fn journal(&self) -> MutexGuard<'_, Journal> {
        // A frame is only counted once it is written, so a thread that panicked left it usable.
        self.journal.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
