//! What a referee gets beside the rows: the hashes of all files of a run.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::{
    error::{RunError, run_io_error},
    made_of::sha256,
    write_durably,
};
use crate::study::BUILD;

/// The file of hashes, which cannot hold its own.
const NAME: &str = "export.json";

/// A run's files.
#[derive(Debug, Serialize)]
struct Export {
    /// Of the program that wrote this.
    build: &'static str,
    /// SHA-256 in hex, by path below the run's folder.
    sha256: BTreeMap<String, String>,
}

/// Writes the hashes of all files below `folder`.
pub(super) fn export(folder: &Path) -> Result<(), RunError> {
    let mut hashes = BTreeMap::new();
    for path in files(folder)? {
        let bytes = fs::read(&path).map_err(run_io_error("read", &path))?;
        let below = path.strip_prefix(folder).unwrap_or(&path);
        hashes.insert(below.to_string_lossy().into_owned(), sha256(&bytes));
    }
    hashes.remove(NAME);
    let export = Export { build: BUILD, sha256: hashes };
    let text = serde_json::to_string_pretty(&export).expect("hashes are text");
    write_durably(&folder.join(NAME), text.as_bytes())
}

/// All files below a folder. A report can be made again from them, so it is none.
fn files(folder: &Path) -> Result<Vec<PathBuf>, RunError> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let error = || run_io_error("read the folder", &folder);
        for entry in fs::read_dir(&folder).map_err(error())? {
            let path = entry.map_err(error())?.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    Ok(found)
}
