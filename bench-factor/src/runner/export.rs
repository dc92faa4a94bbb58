//! What a referee gets beside the rows: the program's sources, and the hashes of all files of a run.

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
    zip::zip,
};
use crate::study::BUILD;

/// All that this program is made from, with its lock file and the method (`build.rs`).
const SOURCES: &[(&str, &[u8])] = &include!(concat!(env!("OUT_DIR"), "/sources.rs"));

/// The product is no part of the sources. The workspace and its lock file name it, so its manifest is there, over a
/// program that does nothing.
const STUBS: [(&str, &[u8]); 2] = [("node/src/lib.rs", b""), ("node/src/main.rs", b"fn main() {}\n")];

/// The archive of the sources.
const ARCHIVE: &str = "source.zip";

/// The file of hashes, which cannot hold its own.
const HASHES: &str = "export.json";

/// A run's files.
#[derive(Debug, Serialize)]
struct Export {
    /// Of the program that wrote this.
    build: &'static str,
    /// SHA-256 in hex, by path below the run's folder.
    sha256: BTreeMap<String, String>,
}

/// Writes the sources, and the hashes of all files below `folder`.
pub(super) fn export(folder: &Path) -> Result<(), RunError> {
    let place = folder.join(ARCHIVE);
    write_durably(&place, &zip(members()))?;
    let mut hashes = BTreeMap::new();
    for path in files(folder)? {
        let bytes = fs::read(&path).map_err(run_io_error("read", &path))?;
        let below = path.strip_prefix(folder).unwrap_or(&path);
        hashes.insert(below.to_string_lossy().into_owned(), sha256(&bytes));
    }
    hashes.remove(HASHES);
    let export = Export { build: BUILD, sha256: hashes };
    let text = serde_json::to_string_pretty(&export).expect("hashes are text");
    write_durably(&folder.join(HASHES), text.as_bytes())
}

/// All that is needed to build this program by itself: paths and content.
fn members() -> impl Iterator<Item = (&'static str, &'static [u8])> {
    SOURCES.iter().copied().chain(STUBS)
}

/// All files below a folder.
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

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, process::Command};

    use super::*;

    #[test]
    fn the_sources_are_a_workspace_that_fits_its_lock_file() {
        let place = tempfile::tempdir().unwrap();
        for (path, content) in members() {
            let path = place.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        }
        let checked = Command::new(env!("CARGO"))
            .args(["metadata", "--locked", "--offline", "--format-version", "1"])
            .current_dir(place.path())
            .output()
            .unwrap();
        assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    }

    #[test]
    fn the_archive_has_the_method_the_locks_and_nothing_of_the_product() {
        let names: BTreeSet<&str> = SOURCES.iter().map(|(path, _)| *path).collect();
        let needed = ["Cargo.lock", "bench-factor/replica/Cargo.lock", "docs/benchmarks/method.md"];
        assert!(needed.iter().all(|name| names.contains(name)), "{names:?}");
        let of_product: Vec<_> = names.iter().filter(|name| name.starts_with("node/")).collect();
        assert_eq!(of_product, [&"node/Cargo.toml"]);
        assert_eq!(names.len() + STUBS.len(), members().count(), "no path is there twice");
    }

    #[test]
    fn the_archive_has_no_key() {
        // What begins a key in PEM, and an Ed25519 key as libp2p keeps it; written so that these lines have neither.
        let signs = [["PRIVATE", " KEY-----"].concat().into_bytes(), vec![0x08, 0x01, 0x12, 0x40]];
        for (path, content) in SOURCES {
            let has = |sign: &Vec<u8>| content.windows(sign.len()).any(|window| window == sign);
            assert!(!signs.iter().any(has), "{path}");
            let is_key = [".key", ".pem", ".p8", ".der"].iter().any(|end| path.ends_with(end));
            assert!(!is_key, "{path}");
        }
    }

    #[test]
    fn every_file_of_a_run_has_its_hash() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("logs")).unwrap();
        fs::write(place.path().join("logs/target.log"), "abc").unwrap();
        export(place.path()).unwrap();
        export(place.path()).unwrap();
        let text = fs::read_to_string(place.path().join(HASHES)).unwrap();
        let export: serde_json::Value = serde_json::from_str(&text).unwrap();
        let hashes = export["sha256"].as_object().unwrap();
        assert_eq!(hashes.keys().collect::<Vec<_>>(), ["logs/target.log", ARCHIVE]);
        let of_abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hashes["logs/target.log"], of_abc);
    }
}
