//! Brings back what the latest session of a trash deleted, replaced and described, and removes what it made.
//!
//! The log is gone through from its end. Each step looks before it acts, and does nothing where its action
//! was not taken or is undone already; so whatever was cut, the session or an undoing, undoing again ends
//! right. What somebody changed after the session stays, and is named.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs, io,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::ffi::OsStrExt as _,
    },
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use ketch_protocol::{
    manifest::{Attribute, Entry, EntryKind, Owner},
    path::EntryPath,
    problem::{Cause, Problem},
};
use rustix::{
    fs::{AtFlags, FileType, Mode, OFlags, Stat, mkdirat, open, openat, renameat, statat, unlinkat},
    io::Errno,
};

use super::{
    LOG, TREE,
    log::{Action, Bytes, Described, Left, Time},
    open_directory,
    sessions::{Log, UNDONE, latest, read_log},
    shown,
};
use crate::tree::{
    HeldDirectory,
    metadata::{self, Carried, Unset},
    platform::{self, HANDLE},
    target::{Directory, Durability, Handling, Options, Target, TargetError},
};

/// What undoing a session came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Undone {
    /// The name of the session's folder in the trash.
    pub session: String,
    /// The target that it wrote to.
    pub target: PathBuf,
    /// Entries that were brought back.
    pub restored: u64,
    /// Entries that the session had made and that were removed.
    pub removed: u64,
    /// Entries whose mode, time, owner or attributes were set back.
    pub described: u64,
    /// What stays as it is, and why. What is in the trash of these stays there.
    pub problems: Vec<Problem>,
}

/// Why nothing is undone.
#[derive(Debug, thiserror::Error)]
pub enum UndoError {
    /// The trash can't be read.
    #[error("cannot read the trash \"{}\"", shown(folder))]
    Read {
        /// The trash.
        folder: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Every session in it is undone, or there was none.
    #[error("no session to undo is in the trash \"{}\"", shown(folder))]
    Nothing {
        /// The trash.
        folder: PathBuf,
    },
    /// The log of the latest session says not even where it wrote.
    #[error("the log of the latest session is damaged: look into \"{}\"", shown(folder))]
    Damaged {
        /// The session's folder.
        folder: PathBuf,
    },
    /// The target is no longer where it was.
    #[error("\"{}\", which the latest session wrote to, is not a directory any more", shown(target))]
    Gone {
        /// The target.
        target: PathBuf,
    },
    /// The target can't be written.
    #[error(transparent)]
    Target(#[from] TargetError),
}

/// Undoes the latest session of the trash `folder` that is not undone yet.
pub fn undo(folder: &Path) -> Result<Undone, UndoError> {
    let mut undoing = Undoing::begin(folder)?;
    while undoing.step() {}
    undoing.finish()
}

/// An undoing that is under way.
pub(super) struct Undoing {
    folder: PathBuf,
    trash: OwnedFd,
    tree: OwnedFd,
    target: Target,
    /// Still to be undone, the next one last.
    actions: Vec<Action>,
    /// When the session ended, where it was not cut.
    ended: Option<Time>,
    /// When it began.
    began: Time,
    /// Since when it, or one after it, is being undone.
    undoing: Time,
    /// Directories that are described last: everything below changes their times.
    directories: Vec<(EntryPath, Described)>,
    /// Directories of the trash's tree that may be empty in the end.
    emptied: BTreeSet<EntryPath>,
    undone: Undone,
}

/// What became of one step.
enum Step {
    Nothing,
    Restored,
    Removed,
    Described,
}

/// Why a step was not taken.
enum Stays {
    Changed,
    Taken,
    Full,
    Failed(Errno),
    Unset(Unset),
}

impl From<Errno> for Stays {
    fn from(error: Errno) -> Self {
        Self::Failed(error)
    }
}

impl Undoing {
    /// Takes hold of the latest session and its target.
    pub(super) fn begin(folder: &Path) -> Result<Self, UndoError> {
        let unread = |error: Errno| UndoError::Read { folder: folder.into(), source: error.into() };
        let flags = HANDLE | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let trash = open(folder, flags, Mode::empty()).map_err(unread)?;
        let session = latest(&trash).map_err(unread)?;
        let session = session.ok_or_else(|| UndoError::Nothing { folder: folder.into() })?;
        let held = open_directory(&trash, session.as_bytes()).map_err(unread)?;
        let tree = open_directory(&held, TREE.as_bytes()).map_err(unread)?;
        let mut log = read_log(&held).map_err(unread)?;
        let Some(Action::Began { target, at }) = log.actions.first() else {
            return Err(UndoError::Damaged { folder: folder.join(&session) });
        };
        let (target, began) = (PathBuf::from(OsStr::from_bytes(&target.0)), *at);
        if !fs::metadata(&target).is_ok_and(|found| found.is_dir()) {
            return Err(UndoError::Gone { target });
        }
        let handling = Handling::receiving(true);
        let options = Options { handling, durability: Durability::Session };
        let root = HeldDirectory::open(&target).map_err(|error| TargetError::new(&target, error))?;
        let open_target = Target::open_alone(root, options, None)?;
        log.note_undoing(Time::from(SystemTime::now())).map_err(unread)?;
        let Log { actions, .. } = log;
        let undone = Undone { session, target, restored: 0, removed: 0, described: 0, problems: Vec::new() };
        Ok(Self {
            folder: folder.into(),
            trash,
            tree,
            target: open_target,
            ended: actions.iter().filter_map(ended).max(),
            began,
            undoing: actions.iter().filter_map(undoing).min().expect("it was noted just now"),
            actions,
            directories: Vec::new(),
            emptied: BTreeSet::new(),
            undone,
        })
    }

    /// Undoes one more action; `false` when there is none.
    pub(super) fn step(&mut self) -> bool {
        let Some(action) = self.actions.pop() else { return false };
        let (path, taken) = match action {
            Action::Began { .. } | Action::Ended { .. } | Action::Undoing { .. } => return true,
            Action::Created { path, left } => act(path, |path| self.undo_created(path, left)),
            Action::Replaced { path, left } => act(path, |path| self.undo_replaced(path, left)),
            Action::Removed { path, directory: None } => act(path, |path| self.undo_removed(path)),
            Action::Removed { path, directory: Some(old) } => {
                act(path, |path| self.undo_removed_directory(path, old))
            }
            Action::Described { path, old, new } => act(path, |path| self.undo_described(path, old, &new)),
        };
        match taken {
            Ok(Step::Nothing) => {}
            Ok(Step::Restored) => self.undone.restored += 1,
            Ok(Step::Removed) => self.undone.removed += 1,
            Ok(Step::Described) => self.undone.described += 1,
            Err(stays) => self.undone.problems.extend(path.map(|path| stays.problem(path))),
        }
        true
    }

    /// Describes directories, and clears the session out of the trash as far as nothing is left of it.
    fn finish(mut self) -> Result<Undone, UndoError> {
        let late = self.target.finish();
        self.undone.problems.extend(late);
        // Those below first.
        self.directories.sort_by(|(left, _), (right, _)| right.cmp(left));
        for (path, described) in std::mem::take(&mut self.directories) {
            if let Err(stays) = self.describe(&path, &described) {
                self.undone.problems.push(stays.problem(path));
            }
        }
        let Self { folder, target, undone, .. } = &self;
        let unread = |source: io::Error| UndoError::Read { folder: folder.clone(), source };
        target.sync().map_err(unread)?;
        self.clear().and_then(|()| self.tell_earlier()).map_err(|error| unread(error.into()))?;
        Ok(undone.clone())
    }

    fn undo_created(&mut self, path: &EntryPath, left: Left) -> Result<Step, Stays> {
        let Some((above, present)) = self.present(path)? else { return Ok(Step::Nothing) };
        if !self.is_left(left, &present) {
            return Err(Stays::Changed);
        }
        self.target.0.remember_above(path)?;
        remove(&above, path, left)?;
        Ok(Step::Removed)
    }

    fn undo_replaced(&mut self, path: &EntryPath, left: Left) -> Result<Step, Stays> {
        let Some((from, kept)) = self.kept(path)? else { return Ok(Step::Nothing) };
        let present = self.present(path)?;
        if let Some((above, present)) = present {
            if (present.st_dev, present.st_ino) == (kept.st_dev, kept.st_ino) {
                // It got its second name, and then the session was cut.
                unlinkat(&from, path.leaf(), AtFlags::empty())?;
                return Ok(Step::Nothing);
            }
            if !self.is_left(left, &present) {
                return Err(Stays::Changed);
            }
            self.target.0.remember_above(path)?;
            if left == Left::Directory {
                remove(&above, path, left)?;
            }
        }
        let above = self.target.0.directory_above(path)?;
        renameat(&from, path.leaf(), &above.handle, path.leaf())?;
        Ok(Step::Restored)
    }

    fn undo_removed(&mut self, path: &EntryPath) -> Result<Step, Stays> {
        let Some((from, _)) = self.kept(path)? else { return Ok(Step::Nothing) };
        self.target.0.remember_above(path)?;
        let above = self.target.0.directory_above(path)?;
        let to = (above.handle.as_fd(), path.leaf());
        match platform::rename_to_free((from.as_fd(), path.leaf()), to) {
            Err(Errno::EXIST) => Err(Stays::Taken),
            moved => Ok(moved.map(|()| Step::Restored)?),
        }
    }

    fn undo_removed_directory(&mut self, path: &EntryPath, old: Described) -> Result<Step, Stays> {
        self.emptied.insert(path.clone());
        self.target.0.remember_above(path)?;
        let above = self.target.0.directory_above(path)?;
        let step = match mkdirat(&above.handle, path.leaf(), Mode::RWXU) {
            Ok(()) => Step::Restored,
            Err(Errno::EXIST) => match self.present(path)? {
                Some((_, present)) if is_directory(&present) => Step::Nothing,
                Some(_) | None => return Err(Stays::Taken),
            },
            Err(error) => return Err(error.into()),
        };
        self.directories.push((path.clone(), old));
        Ok(step)
    }

    fn undo_described(&mut self, path: &EntryPath, old: Described, new: &Described) -> Result<Step, Stays> {
        let Some((_, present)) = self.present(path)? else { return Ok(Step::Nothing) };
        let (mode, mtime) = (metadata::mode(&present), Time::from(metadata::mtime(&present)));
        let is_link = FileType::from_raw_mode(present.st_mode) == FileType::Symlink;
        let has_mode = |described: &Described| is_link || mode == described.mode;
        let carried = Described { mode: metadata::carried_mode(new.mode).as_raw_mode(), ..new.clone() };
        if is_directory(&present) {
            // Its time changes with what lies in it, and says nothing.
            if !has_mode(&carried) && !has_mode(&old) {
                return Err(Stays::Changed);
            }
            self.directories.push((path.clone(), old));
            return Ok(Step::Described);
        }
        if has_mode(&old) && mtime == old.mtime && old.owner == new.owner && old.attributes == new.attributes
        {
            return Ok(Step::Nothing);
        }
        if !(has_mode(&carried) && mtime == new.mtime) {
            return Err(Stays::Changed);
        }
        self.describe(path, &old)?;
        Ok(Step::Described)
    }

    /// Sets what something was described by before the session, exactly.
    fn describe(&self, path: &EntryPath, old: &Described) -> Result<(), Stays> {
        let entry = old.entry(path);
        let carried = Carried { owner: old.owner.is_some(), attributes: old.attributes.is_some() };
        let above = self.target.0.directory_above(path)?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let held = match openat(&above.handle, path.leaf(), flags, Mode::empty()) {
            Err(Errno::LOOP) => {
                let set = metadata::apply_to_link(&above.handle, path.leaf(), &entry, carried);
                return set.map_err(Stays::Unset);
            }
            opened => opened?,
        };
        let set = metadata::apply_unordered(&held, &entry, carried);
        let mode = Mode::from_raw_mode(old.mode);
        set.and(metadata::apply_mode_and_time(&held, mode, entry.mtime)).map_err(Stays::Unset)
    }

    /// What stands at a path of the target, and the directory it lies in.
    fn present(&self, path: &EntryPath) -> Result<Option<(Arc<Directory>, Stat)>, Stays> {
        let looked = self.target.0.directory_above(path).and_then(|above| {
            let stat = statat(&above.handle, path.leaf(), AtFlags::SYMLINK_NOFOLLOW)?;
            Ok((above, stat))
        });
        match looked {
            Ok(present) => Ok(Some(present)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// What is in the trash of a path, and the directory it lies in. Directories there only hold others.
    fn kept(&mut self, path: &EntryPath) -> Result<Option<(OwnedFd, Stat)>, Stays> {
        let looked = open_directory(&self.tree, path.parent().unwrap_or_default()).and_then(|above| {
            let stat = statat(&above, path.leaf(), AtFlags::SYMLINK_NOFOLLOW)?;
            Ok((above, stat))
        });
        self.emptied.extend(path.parent().and_then(|parent| EntryPath::parse(parent).ok()));
        match looked {
            Ok((_, stat)) if is_directory(&stat) => Ok(None),
            Ok(kept) => Ok(Some(kept)),
            Err(Errno::NOENT | Errno::NOTDIR) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether what stands there is what the session left: nobody wrote to it since. Undoing may have touched
    /// it: this one where it has several names, that of a later session where it was brought back.
    fn is_left(&self, left: Left, present: &Stat) -> bool {
        let touched = Time::from(metadata::ctime(present));
        let is_ours = self.ended.is_none_or(|ended| touched <= ended) || touched >= self.undoing;
        Left::of(present) == left && (left == Left::Directory || is_ours)
    }

    /// Tells the session before this one since when its files may have been touched by undoing.
    fn tell_earlier(&self) -> Result<(), Errno> {
        match latest(&self.trash)? {
            Some(earlier) => {
                let session = open_directory(&self.trash, earlier.as_bytes())?;
                read_log(&session).and_then(|mut log| log.note_undoing(self.began))
            }
            None => Ok(()),
        }
    }

    /// Removes what is left of the session in the trash, or marks it as undone where something stays.
    fn clear(&self) -> Result<(), Errno> {
        let mut directories = self.emptied.clone();
        for path in &self.emptied {
            directories.extend(above(path));
        }
        for path in directories.iter().rev() {
            // What is not empty stays.
            let _ = open_directory(&self.tree, path.parent().unwrap_or_default())
                .and_then(|above| unlinkat(&above, path.leaf(), AtFlags::REMOVEDIR));
        }
        let name = &self.undone.session;
        let session = open_directory(&self.trash, name.as_bytes())?;
        match unlinkat(&session, TREE, AtFlags::REMOVEDIR) {
            Ok(()) => {
                unlinkat(&session, LOG, AtFlags::empty())?;
                unlinkat(&self.trash, name.as_str(), AtFlags::REMOVEDIR)
            }
            Err(_) => renameat(&self.trash, name.as_str(), &self.trash, format!("{name}{UNDONE}")),
        }
    }
}

/// Runs a step on the path of a record; one that is no path is passed over, as nothing can have been done
/// to it.
fn act(
    path: Bytes,
    step: impl FnOnce(&EntryPath) -> Result<Step, Stays>,
) -> (Option<EntryPath>, Result<Step, Stays>) {
    match EntryPath::parse(&path.0) {
        Ok(path) => {
            let taken = step(&path);
            (Some(path), taken)
        }
        Err(_) => (None, Ok(Step::Nothing)),
    }
}

/// Removes what the session left.
fn remove(above: &Directory, path: &EntryPath, left: Left) -> Result<(), Stays> {
    let flags = if left == Left::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
    match unlinkat(&above.handle, path.leaf(), flags) {
        Err(Errno::NOTEMPTY | Errno::EXIST) => Err(Stays::Full),
        removed => Ok(removed?),
    }
}

impl Stays {
    fn problem(self, path: EntryPath) -> Problem {
        match self {
            Self::Changed => Problem::new(path, Cause::Changed, "it changed after the session, and stays"),
            Self::Taken => Problem::new(path, Cause::Exists, "its name is taken, so it stays in the trash"),
            Self::Full => Problem::new(path, Cause::Exists, "it holds what the session did not put there"),
            Self::Failed(error) => Problem::new(path, Cause::Unwritable, error),
            Self::Unset(unset) => Problem::new(path, Cause::Metadata, unset),
        }
    }
}

impl Described {
    fn entry(&self, path: &EntryPath) -> Entry {
        let mut entry = Entry::new(path.clone(), EntryKind::Directory, self.mode, self.mtime.into());
        entry.owner = self.owner.map(|(user, group)| Owner { user, group });
        let attributes = self.attributes.iter().flatten();
        entry.attributes = attributes
            .map(|(name, value)| Attribute { name: name.0.clone().into(), value: value.0.clone().into() })
            .collect();
        entry
    }
}

fn is_directory(stat: &Stat) -> bool {
    FileType::from_raw_mode(stat.st_mode) == FileType::Directory
}

fn ended(action: &Action) -> Option<Time> {
    if let Action::Ended { at } = action { Some(*at) } else { None }
}

fn undoing(action: &Action) -> Option<Time> {
    if let Action::Undoing { at } = action { Some(*at) } else { None }
}

/// The directories above a path.
fn above(path: &EntryPath) -> Vec<EntryPath> {
    let bytes = path.as_bytes();
    let ends = bytes.iter().enumerate().filter(|&(_, &byte)| byte == b'/').map(|(index, _)| index);
    ends.filter_map(|end| EntryPath::parse(&bytes[..end]).ok()).collect()
}
