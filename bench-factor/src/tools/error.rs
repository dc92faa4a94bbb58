//! Why a run of tools could not begin, go on, or be believed.

use std::{
    io,
    path::{Path, PathBuf},
    process::ExitStatus,
};

use ketch_fixtures::{diverge::DivergeError, refused::Refused, tree::TreeError};

use super::text::shown;

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ToolsError {
    /// The operating system refused a step.
    #[error("cannot {action} {}", shown(path))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A program could not be started.
    #[error("cannot start {program}")]
    Start { program: String, source: io::Error },
    /// A program ended with failure.
    #[error("{program} ended with {status}: {said}")]
    Failed { program: String, status: ExitStatus, said: String },
    /// A server ended before it could be used.
    #[error("{program} ended before it was ready: {said}")]
    Gone { program: String, said: String },
    /// The emulated path could not be made.
    #[error(transparent)]
    Lab(#[from] ketch_lab::Error),
    /// It could not be found out what a path carries.
    #[error("cannot measure what the path carries")]
    Capacity { source: io::Error },
    /// The emulated path was not what it was asked to be, so that nothing was measured.
    #[error("the emulated path was not as asked: {why}")]
    InvalidLink { why: String },
    /// A program neither ended nor got ready in time.
    #[error("{program} {missed} within {limit_s} s: {said}")]
    Late { program: String, missed: &'static str, limit_s: u64, said: String },
    /// A source tree could not be made.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A source and an earlier copy of it could not be made to differ.
    #[error(transparent)]
    Diverge(#[from] DivergeError),
    /// A digest could not be made.
    #[error(transparent)]
    Digest(#[from] Refused),
    /// The plan cannot be read as one.
    #[error("the plan {} makes no sense", shown(path))]
    Plan { path: PathBuf, source: toml::de::Error },
    /// The plan can be read, and asks for what cannot be done.
    #[error("the plan asks for {asked}, {reason}")]
    Asked { asked: String, reason: String },
    /// Plans that are called alike in different folders.
    #[error("the results of two plans would both go to {}: run them apart, or rename one", shown(folder))]
    SameFolder { folder: PathBuf },
    /// The kernel's counters are not as expected.
    #[error("{} has no line for {interface}", shown(path))]
    Counters { path: PathBuf, interface: &'static str },
    /// Somebody wants the run to end.
    #[error("interrupted")]
    Interrupted,
    /// Some observations failed, so that the run as a whole has.
    #[error("{failed} of {total} observations failed or gave a copy that differs; the rows name them")]
    Unverified { failed: usize, total: usize },
}

impl ToolsError {
    /// For `map_err`: measuring what a path carries failed.
    pub(crate) fn capacity(source: io::Error) -> Self {
        Self::Capacity { source }
    }
}

/// For `map_err`: names the step and the place of an `io::Error`.
pub(crate) fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> ToolsError + 'a {
    move |source| ToolsError::Io { action, path: path.to_owned(), source }
}
