//! Which versions of libraries this program was built with, by the lock file of its workspace.

use std::collections::BTreeMap;

use sha2::{Digest as _, Sha256};

use crate::LIBRARIES;

/// Every dependency with its version (`build.rs`).
pub(crate) const LOCK: &str = include_str!(env!("BENCH_FACTOR_LOCK"));

/// SHA-256 of the lock file, in hex.
pub(crate) fn lock_sha256() -> String {
    format!("{:x}", Sha256::digest(LOCK))
}

/// Those on which speed depends, by name.
pub(crate) fn libraries() -> BTreeMap<String, String> {
    let known = packages(LOCK).filter(|(name, _)| LIBRARIES.contains(name));
    known.map(|(name, version)| (name.to_owned(), version.to_owned())).collect()
}

/// Names and versions, which follow each other in lock files.
fn packages(lock: &str) -> impl Iterator<Item = (&str, &str)> {
    let lines = lock.lines().zip(lock.lines().skip(1));
    lines.filter_map(|(name, version)| Some((quoted(name, "name = ")?, quoted(version, "version = ")?)))
}

fn quoted<'a>(line: &'a str, before: &str) -> Option<&'a str> {
    line.strip_prefix(before)?.strip_prefix('"')?.strip_suffix('"')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_that_is_named_is_used() {
        let known = libraries();
        let missing = LIBRARIES.iter().find(|name| !known.contains_key(**name));
        assert_eq!(missing, None);
    }

    #[test]
    fn packages_have_names_and_versions() {
        let lock = "version = 4\n\n[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nsource = \"b\"\n";
        assert_eq!(packages(lock).collect::<Vec<_>>(), [("a", "1.2.3")]);
    }
}
