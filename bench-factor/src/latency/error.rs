//! Why the question of latency got no answer.

use std::{io, path::PathBuf};

use ketch_fixtures::{refused::Refused, tree::TreeError};
use ketch_protocol::{path::PathError, session::SessionError};

use crate::tools::{error::ToolsError, text::shown};

/// A step that failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LatencyError {
    /// The operating system refused a step.
    #[error("cannot {action} {}", shown(path))]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    /// A path of a tree is none that crosses.
    #[error("the tree has a path that does not cross")]
    Path(#[from] PathError),
    /// A session of the model did not come to its end.
    #[error("the session in memory did not complete")]
    Session(#[source] SessionError),
    /// A source could not be written.
    #[error(transparent)]
    Tree(#[from] TreeError),
    /// A tree could not be digested.
    #[error(transparent)]
    Digest(#[from] Refused),
    /// A path, a program or what it did was not as it has to be.
    #[error(transparent)]
    Tools(#[from] ToolsError),
    /// Both ended well, but the copy is none.
    #[error("{work} over {parallel} connections: the copy differs from its source")]
    Differs { work: String, parallel: u8 },
    /// A program that is no ketch as this program knows it.
    #[error("{} did not say \"{missing}\" in its events", shown(program))]
    Unsaid { program: PathBuf, missing: &'static str },
}

/// For `map_err`: names the step and the place of an `io::Error`.
pub(super) fn io_error<'a>(
    action: &'static str,
    path: &'a std::path::Path,
) -> impl FnOnce(io::Error) -> LatencyError + 'a {
    move |source| LatencyError::Io { action, path: path.to_owned(), source }
}
