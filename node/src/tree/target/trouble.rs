//! What can go wrong with a target: with all of it, or with one entry.

use std::{
    fmt, io,
    path::{Path, PathBuf},
};

use ketch_protocol::{
    path::EntryPath,
    problem::{Cause, Problem, Reason},
};
use rustix::io::Errno;

use super::{shown, trash::TrashError};
use crate::tree::metadata::Unset;

/// Why a target can't be opened.
#[derive(Debug, thiserror::Error)]
pub enum TargetError {
    /// Its file system is full.
    #[error("no space left to write to \"{}\"", shown(path))]
    NoSpace {
        /// The target.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// It can't be written by this user, or not at all.
    #[error("cannot write to \"{}\"", shown(path))]
    ReadOnly {
        /// The target.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something other than a directory has its name or a name above it.
    #[error("\"{}\" is not a directory", shown(path))]
    NotDirectory {
        /// The target.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The folder for unfinished files is a symlink, a file, or another user's.
    #[error("\"{}\" is not a directory of this user, so unfinished files cannot be kept there", shown(path))]
    Planted {
        /// The folder.
        path: PathBuf,
    },
    /// Another session writes it and must not be met.
    #[error("another session is writing to \"{}\"", shown(path))]
    Busy {
        /// The target.
        path: PathBuf,
    },
    /// What is deleted or replaced can't be kept in the folder that was named for it.
    #[error("cannot use the trash")]
    Trash(#[from] TrashError),
    /// Anything else.
    #[error("cannot open \"{}\" for writing", shown(path))]
    Failed {
        /// The target.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl TargetError {
    pub(crate) fn new(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match errno(&source) {
            Errno::NOSPC | Errno::DQUOT => Self::NoSpace { path, source },
            Errno::ROFS | Errno::ACCESS | Errno::PERM => Self::ReadOnly { path, source },
            Errno::EXIST | Errno::NOTDIR => Self::NotDirectory { path, source },
            _ => Self::Failed { path, source },
        }
    }

    /// The reason that the sender is told.
    pub fn reason(&self) -> Reason {
        match self {
            Self::NoSpace { .. } => Reason::NoSpace,
            Self::ReadOnly { .. } | Self::NotDirectory { .. } | Self::Planted { .. } => Reason::ReadOnly,
            Self::Busy { .. } => Reason::Busy,
            Self::Trash(_) | Self::Failed { .. } => Reason::Internal,
        }
    }
}

/// Why an entry was not stored.
#[derive(Debug, thiserror::Error)]
pub enum Trouble {
    /// It is about this entry; others can go on.
    #[error("{0}")]
    Problem(Problem),
    /// It will meet every further entry too: the session must stop.
    #[error("{path}: {reason}")]
    Guard {
        /// What it is.
        reason: Reason,
        /// The entry that met it.
        path: EntryPath,
        /// What the system said.
        source: io::Error,
    },
}

impl Trouble {
    pub(super) fn problem(path: &EntryPath, cause: Cause, detail: impl fmt::Display) -> Self {
        Self::Problem(Problem::new(path.clone(), cause, detail))
    }
}

/// What an error means that came while `doing` something in the directory above `path`.
pub(super) fn write_trouble(path: &EntryPath, doing: &str, error: Errno) -> Trouble {
    let guard = |reason| Trouble::Guard { reason, path: path.clone(), source: error.into() };
    match error {
        Errno::NOSPC | Errno::DQUOT => guard(Reason::NoSpace),
        Errno::ROFS => guard(Reason::ReadOnly),
        // Right below the destination: then nothing can be stored in it.
        Errno::ACCESS if path.parent().is_none() => guard(Reason::ReadOnly),
        // Waiting did not help, and it is not the file's fault.
        Errno::MFILE | Errno::NFILE => guard(Reason::Internal),
        Errno::EXIST => Trouble::problem(path, Cause::Exists, "its name is taken"),
        Errno::ISDIR | Errno::NOTEMPTY => directory_in_the_way(path),
        Errno::LOOP | Errno::NOTDIR | Errno::XDEV => {
            let detail = format_args!("{doing}: a symlink, a file or a mount is in the way");
            Trouble::problem(path, Cause::Unwritable, detail)
        }
        _ => Trouble::problem(path, Cause::Unwritable, format_args!("{doing}: {error}")),
    }
}

pub(super) fn directory_in_the_way(path: &EntryPath) -> Trouble {
    Trouble::problem(path, Cause::Exists, "a directory is in the way")
}

pub(super) fn metadata_trouble(path: &EntryPath, unset: Unset) -> Trouble {
    Trouble::problem(path, Cause::Metadata, unset)
}

/// The system's number for an error of the standard library.
pub(super) fn errno(error: &io::Error) -> Errno {
    Errno::from_io_error(error).unwrap_or(Errno::IO)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_meets_every_entry_stops_the_session_and_all_else_is_about_one() {
        let (top, below) = (EntryPath::parse(b"a").unwrap(), EntryPath::parse(b"a/b").unwrap());
        for (path, error, reason) in [
            (&below, Errno::NOSPC, Reason::NoSpace),
            (&below, Errno::DQUOT, Reason::NoSpace),
            (&below, Errno::ROFS, Reason::ReadOnly),
            (&top, Errno::ACCESS, Reason::ReadOnly),
            (&below, Errno::MFILE, Reason::Internal),
        ] {
            let trouble = write_trouble(path, "writing", error);
            assert!(matches!(trouble, Trouble::Guard { reason: met, .. } if met == reason), "{error}");
        }
        for (error, cause) in [
            (Errno::ACCESS, Cause::Unwritable),
            (Errno::IO, Cause::Unwritable),
            (Errno::NOTDIR, Cause::Unwritable),
            (Errno::EXIST, Cause::Exists),
            (Errno::ISDIR, Cause::Exists),
        ] {
            let trouble = write_trouble(&below, "writing", error);
            assert!(matches!(trouble, Trouble::Problem(problem) if problem.cause == cause), "{error}");
        }
    }
}
