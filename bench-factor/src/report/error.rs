//! Why there is no report.

use std::{
    io,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use ketch_fixtures::escape::escape;

/// What a run says that it cannot say.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ReportError {
    /// The operating system refused a step.
    #[error("cannot {action} {}", shown(path))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// The plan cannot be read as one.
    #[error("the plan {} makes no sense", shown(path))]
    Plan { path: PathBuf, source: toml::de::Error },
    /// The plan can be read, and asks for what cannot be done.
    #[error("the plan {} asks for {asked}, {reason}", shown(path))]
    Asked { path: PathBuf, asked: String, reason: String },
    /// A line cannot be read as an observation.
    #[error("line {line} of {} is not an observation", shown(path))]
    Line { line: usize, path: PathBuf, source: serde_json::Error },
    /// An observation says what no observation can.
    #[error("line {line} of {}: {wrong}", shown(path))]
    Row { line: usize, path: PathBuf, wrong: String },
    /// A file is longer than a run can be.
    #[error("{} is longer than {allowed}", shown(path))]
    TooLong { path: PathBuf, allowed: String },
    /// There is nothing to report of.
    #[error("{} holds no observation", shown(path))]
    Empty { path: PathBuf },
}

/// For `map_err`: names the step and the place of an `io::Error`.
pub(crate) fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> ReportError + 'a {
    move |source| ReportError::Io { action, path: path.to_owned(), source }
}

fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_bytes()).to_string()
}
