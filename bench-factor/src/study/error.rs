//! Why an observation could not begin, and why one that had begun brought no verified copy.

use std::{
    fmt, io,
    net::SocketAddr,
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use ketch_fixtures::refused::Refused;
use ketch_protocol::{
    path::{PathError, escape},
    record::bare::BareError,
};

use super::limits::{MANIFEST_BYTES, REASON_CHARACTERS};

/// What keeps an observation from beginning, or a source from serving any.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StudyError {
    /// The operating system refused a step.
    #[error("cannot {action} {}", shown(path))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A tree could not be read.
    #[error(transparent)]
    Tree(#[from] Refused),
    /// The source is no folder.
    #[error("{} is no folder", shown(.0))]
    NoFolder(PathBuf),
    /// A file has a name that records cannot carry.
    #[error("cannot send {}: {reason}", escape(path))]
    Path { path: Vec<u8>, reason: PathError },
    /// A source has so many files that its manifest is longer than a target takes.
    #[error("the manifest of the source has {0} bytes, at most {MANIFEST_BYTES} are allowed")]
    LongManifest(u64),
    /// A target has something in it.
    #[error("the target {} is not empty", shown(.0))]
    NotEmpty(PathBuf),
    /// Nobody can listen there.
    #[error("cannot listen on {address}: {reason}")]
    Listen { address: SocketAddr, reason: String },
    /// A channel could not be set up on this side.
    #[error("cannot make a channel: {0}")]
    Channel(String),
    /// The other end is not there, or goes away before the observation.
    #[error("cannot reach {peer}: {reason}")]
    Unreachable { peer: SocketAddr, reason: String },
    /// Whoever answers is no bench-factor.
    #[error("what answers is no bench-factor")]
    Foreign,
    /// The other end was built from something else.
    #[error("the other end is another build: it is {theirs}, this is {ours}")]
    OtherBuild { ours: String, theirs: String },
    /// The other end does not want this observation.
    #[error("the source refused: {}", escape(.0.as_bytes()))]
    Declined(String),
    /// The other end says what makes no sense.
    #[error("the other end broke the protocol: {0}")]
    Violation(&'static str),
    /// The only observation broke off.
    #[error("the observation broke off: {0}")]
    Broken(Trouble),
    /// The control connection failed.
    #[error("the control connection failed: {}", ketch_channel::describe(.0))]
    Control(io::Error),
}

/// For `map_err`: names the step and the place of an `io::Error`.
pub(super) fn io_error<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl FnOnce(io::Error) -> StudyError + 'a {
    move |source| StudyError::Io { action, path: path.to_owned(), source }
}

/// What ends an observation that has begun. The two are told apart in every report: a lost connection is what the
/// transport did, all else is a fault.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Trouble {
    /// A connection was lost.
    #[error("{0}")]
    Aborted(String),
    /// The copy is wrong, or an end did not do as it was asked.
    #[error("{0}")]
    Failed(String),
}

impl Trouble {
    /// A connection failed while `action` was done.
    pub(super) fn lost(action: &str, error: &io::Error) -> Self {
        Self::Aborted(format!("{action}: {}", ketch_channel::describe(error)))
    }

    /// A step on this side failed.
    pub(super) fn failed(action: &str, error: &dyn std::error::Error) -> Self {
        let causes = std::iter::successors(Some(error), |cause| cause.source());
        Self::Failed(causes.fold(action.to_owned(), |text, cause| format!("{text}: {cause}")))
    }

    /// For `map_err`: a stream failed while `action` was done.
    pub(super) fn stream(action: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::lost(action, &error)
    }
}

impl From<BareError> for Trouble {
    fn from(error: BareError) -> Self {
        Self::Failed(error.to_string())
    }
}

/// Text from the other end as it can be shown and kept.
pub(super) fn taken_over(text: &str) -> String {
    let short: String = text.chars().take(REASON_CHARACTERS).collect();
    escape(short.as_bytes()).to_string()
}

fn shown(path: &Path) -> impl fmt::Display + '_ {
    escape(path.as_os_str().as_bytes())
}
