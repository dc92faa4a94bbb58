//! What rows are made with: the program at both ends, its lock file and the method, by their hashes, and its libraries by
//! version.

use sha2::{Digest as _, Sha256};

use crate::{
    observation::MadeOf,
    study::{BUILD, CellReport, libraries},
};

/// How the study is made, as it was written before the run.
pub(super) const METHOD: &str = include_str!("../../../docs/benchmarks/method.md");

/// Of an observation whose ends are both on this machine, by what its program says of itself; where that says nothing, this
/// program stands for it.
pub(super) fn made_of(report: Option<&CellReport>) -> MadeOf {
    let method = sha256(METHOD.as_bytes());
    match report {
        Some(CellReport { build, lock, libraries, .. }) => {
            MadeOf::of(build, lock.clone(), method, libraries.clone())
        }
        None => MadeOf::of(BUILD, libraries::lock_sha256(), method, libraries::libraries()),
    }
}

/// SHA-256 in hex.
pub(super) fn sha256(bytes: &[u8]) -> String {
    format!("{:x}", Sha256::digest(bytes))
}
