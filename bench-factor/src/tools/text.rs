//! How paths and errors are shown.

use std::{os::unix::ffi::OsStrExt, path::Path};

use ketch_fixtures::escape::escape;

/// `path` as printable ASCII.
pub(crate) fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_bytes()).to_string()
}

/// An error with its causes, on one line.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(error.source(), |cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::tools::error::ToolsError;

    #[test]
    fn an_error_is_told_with_its_causes() {
        let error = ToolsError::Start { program: "tar".into(), source: io::Error::other("no such luck") };
        assert_eq!(chain(&error), "cannot start tar: no such luck");
    }
}
