//! Why a run of the study could not begin or go on.

use std::{
    io,
    path::{Path, PathBuf},
};

use ketch_protocol::path::escape;

use super::remote::RemoteError;
use crate::{
    report::error::ReportError,
    tools::{error::ToolsError, text::shown},
};

/// What ends a run before its last observation.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    /// The operating system refused a step.
    #[error("cannot {action} {}", shown(path))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The plan cannot be read as one.
    #[error("the plan {} makes no sense", shown(path))]
    Plan { path: PathBuf, source: Box<toml::de::Error> },
    /// The plan can be read, and asks for what cannot be done.
    #[error("the plan {} asks for {wrong}", shown(path))]
    Asked { path: PathBuf, wrong: String },
    /// The questions of the plan make no sense.
    #[error(transparent)]
    Questions(#[from] ReportError),
    /// The host of `--remote` is not, or no longer, to be worked with.
    #[error(transparent)]
    Remote(#[from] RemoteError),
    /// A plan has paths of its own, and two hosts have theirs.
    #[error("the plan joins {condition} by {link}, and --remote has a path already; leave its link out")]
    OwnLink { condition: String, link: String },
    /// A step failed.
    #[error(transparent)]
    Step(#[from] ToolsError),
    /// A program that the plan names is not there.
    #[error("the plan is for the program {name}, and {} is none; build it, and put it there", shown(path))]
    NoProgram { name: String, path: PathBuf },
    /// Targets or sources are to be mounted.
    #[error("the plan keeps trees on {file_system}, and {why}")]
    Mounts { file_system: String, why: String },
    /// The folder has observations already.
    #[error("{} has a run in it already; --resume goes on with it", shown(.0))]
    Begun(PathBuf),
    /// The folder has no run.
    #[error("{} has no run in it; without --resume and --retry one begins", shown(.0))]
    NotBegun(PathBuf),
    /// Two processes are at the same run.
    #[error("another process is at the run {}", shown(.0))]
    Busy(PathBuf),
    /// A run goes on with what it began with.
    #[error("the run began with another {0}, and rows of both cannot stand beside each other")]
    Changed(&'static str),
    /// What is kept of a run cannot be read.
    #[error("line {line} of {} is no row", shown(path))]
    Row { line: usize, path: PathBuf, source: serde_json::Error },
    /// The run's own description cannot be read.
    #[error("{} does not describe a run", shown(path))]
    Description { path: PathBuf, source: serde_json::Error },
    /// There is nothing to be tried again.
    #[error("no observation of {} has failed, and others are results", escape(.0.as_bytes()))]
    NothingFailed(String),
    /// An observation says nothing of its condition; nothing after it is believed before somebody has looked.
    #[error("{condition} failed in round {round}: {}", escape(reason.as_bytes()))]
    Stopped { condition: String, round: u32, reason: String },
}

/// For `map_err`: names the step and the place of an `io::Error`.
pub(crate) fn run_io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> RunError + 'a {
    move |source| RunError::Io { action, path: path.to_owned(), source }
}
