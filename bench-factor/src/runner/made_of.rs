//! What rows are made with: this program, its lock file and the method, by their hashes, and its libraries by version.

use std::collections::BTreeMap;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use crate::{observation::MadeOf, study::BUILD};

/// How the study is made, as it was written before the run.
pub(super) const METHOD: &str = include_str!("../../../docs/benchmarks/method.md");

/// Every dependency of this program with its version.
pub(super) const LOCK: &str = include_str!("../../../Cargo.lock");

/// Libraries on which speed depends.
const LIBRARIES: [&str; 8] =
    ["noq", "noq-proto", "rustls", "ring", "tokio", "libp2p-core", "libp2p-identity", "libp2p-tls"];

/// Of an observation whose ends are both on this machine.
pub(super) fn current() -> MadeOf {
    MadeOf::of(BUILD, sha256(LOCK.as_bytes()), sha256(METHOD.as_bytes()), libraries(LOCK))
}

/// SHA-256 in hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}

#[derive(Debug, Deserialize)]
struct Lock {
    package: Vec<Package>,
}

#[derive(Debug, Deserialize)]
struct Package {
    name: String,
    version: String,
}

fn libraries(lock: &str) -> BTreeMap<String, String> {
    let packages = toml::from_str::<Lock>(lock).map(|lock| lock.package).unwrap_or_default();
    let known = packages.into_iter().filter(|package| LIBRARIES.contains(&package.name.as_str()));
    known.map(|Package { name, version }| (name, version)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_library_that_is_named_is_used() {
        let libraries = libraries(LOCK);
        let missing = LIBRARIES.iter().find(|name| !libraries.contains_key(**name));
        assert_eq!(missing, None);
    }
}
