//! How paths are shown.

use std::{os::unix::ffi::OsStrExt, path::Path};

use ketch_fixtures::escape::escape;

/// `path` as printable ASCII.
pub(crate) fn shown(path: &Path) -> String {
    escape(path.as_os_str().as_bytes()).to_string()
}
