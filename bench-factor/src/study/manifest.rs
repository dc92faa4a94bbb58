//! The manifest of a source: which files it has, how long they are and what is in them, fixed before anything is
//! timed. To make it reads every file once, so that the source is in memory when it is sent.

use std::{collections::BTreeSet, path::Path};

use ketch_fixtures::digest::{self, HashedFile};
use ketch_protocol::path::EntryPath;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use super::{
    error::{StudyError, Trouble, taken_over},
    limits::{MANIFEST_BYTES, NAMED_DIFFERENCES},
};

/// A file to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SourceFile {
    pub(super) path: EntryPath,
    pub(super) bytes: u64,
}

/// What a source has.
#[derive(Debug)]
pub(super) struct Manifest {
    /// In the order of the raw bytes of their paths.
    pub(super) files: Vec<SourceFile>,
    /// The lines of the plain digest (`ketch_fixtures::digest`), of which [`Summary::sha256`] is the hash.
    pub(super) text: String,
    pub(super) summary: Summary,
}

/// What a manifest comes to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Summary {
    pub(crate) files: u64,
    /// Useful bytes: all content together.
    pub(crate) bytes: u64,
    /// SHA-256 of the manifest, the same as `bench-factor digest` prints of the source.
    pub(crate) sha256: String,
    /// Length of the manifest.
    pub(crate) manifest_bytes: u64,
}

impl Manifest {
    /// Reads all regular files below `root`. What else is there is outside of the study's scope and left out.
    pub(super) fn read(root: &Path) -> Result<Self, StudyError> {
        if !root.is_dir() {
            return Err(StudyError::NoFolder(root.to_owned()));
        }
        let hashed = digest::files(root)?;
        let text = join(&hashed);
        let files = hashed.into_iter().map(source_file).collect::<Result<Vec<_>, _>>()?;
        let summary = Summary {
            files: files.len() as u64,
            bytes: files.iter().map(|file| file.bytes).sum(),
            sha256: sha256(&text),
            manifest_bytes: text.len() as u64,
        };
        if summary.manifest_bytes > MANIFEST_BYTES {
            return Err(StudyError::LongManifest(summary.manifest_bytes));
        }
        Ok(Self { files, text, summary })
    }
}

/// Reads the files below `root` again and compares them with a manifest that was announced as `summary`.
pub(super) fn verify(root: &Path, manifest: &str, summary: &Summary) -> Result<(), Trouble> {
    if sha256(manifest) != summary.sha256 {
        return Err(Trouble::Failed("the manifest is not the one that was announced".into()));
    }
    let found = digest::files(root).map_err(|error| Trouble::failed("verifying", &error))?;
    let found = join(&found);
    if found == manifest {
        return Ok(());
    }
    Err(Trouble::Failed(format!("the copy differs: {}", differences(manifest, &found))))
}

fn source_file(file: HashedFile) -> Result<SourceFile, StudyError> {
    match EntryPath::parse(&file.path) {
        Ok(path) => Ok(SourceFile { path, bytes: file.bytes }),
        Err(reason) => Err(StudyError::Path { path: file.path, reason }),
    }
}

fn join(files: &[HashedFile]) -> String {
    files.iter().map(HashedFile::line).collect::<Vec<_>>().join("\n")
}

fn sha256(text: &str) -> String {
    format!("{:x}", Sha256::digest(text))
}

/// Names some of the lines that only one of two sorted manifests has.
fn differences(expected: &str, found: &str) -> String {
    let mut named = Vec::new();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<_>>();
    let (expected, found) = (lines(expected), lines(found));
    let (missing, extra) = (expected.difference(&found), found.difference(&expected));
    let all = missing.map(|line| ("expected", line)).chain(extra.map(|line| ("found", line)));
    let mut count = 0;
    for (word, line) in all {
        count += 1;
        if named.len() < NAMED_DIFFERENCES {
            // A line of a source that lies may be anything.
            named.push(format!("{word} {}", taken_over(line)));
        }
    }
    let more =
        if count > named.len() { format!(", and {} more", count - named.len()) } else { String::new() };
    format!("{}{more}", named.join(", "))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, content) in files {
            let place = root.path().join(path);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            fs::write(place, content).unwrap();
        }
        root
    }

    #[test]
    fn the_hash_of_a_manifest_is_the_digest_of_its_tree() {
        let root = tree(&[("b", "two"), ("a/c", ""), ("a-b", "one")]);
        let manifest = Manifest::read(root.path()).unwrap();
        let digest = digest::digest(root.path(), &digest::Options::default()).unwrap();
        assert_eq!(
            (&manifest.summary.sha256, manifest.summary.files, manifest.summary.bytes),
            (&digest.hex, 3, 6)
        );
        let paths: Vec<_> = manifest.files.iter().map(|file| file.path.to_string()).collect();
        assert_eq!(paths, ["a-b", "a/c", "b"]);
    }

    #[test]
    fn an_equal_tree_is_verified_and_any_other_is_not() {
        let source = tree(&[("a", "one"), ("b", "two")]);
        let Manifest { text, summary, .. } = Manifest::read(source.path()).unwrap();
        assert_eq!(verify(tree(&[("b", "two"), ("a", "one")]).path(), &text, &summary), Ok(()));
        for other in
            [&[("a", "one")][..], &[("a", "one"), ("b", "twO")], &[("a", "one"), ("b", "two"), ("c", "")]]
        {
            let refused = verify(tree(other).path(), &text, &summary).unwrap_err();
            assert!(refused.to_string().starts_with("the copy differs: "), "{refused}");
        }
    }

    #[test]
    fn a_manifest_that_was_not_announced_is_refused() {
        let source = tree(&[("a", "one")]);
        let Manifest { text, summary, .. } = Manifest::read(source.path()).unwrap();
        let other = text.replace("a:3", "a:4");
        assert!(verify(source.path(), &other, &summary).unwrap_err().to_string().contains("announced"));
    }

    #[test]
    fn differences_are_named_and_counted() {
        let expected: Vec<_> = (0..9).map(|number| format!("{number}:0:x")).collect();
        let text = differences(&expected.join("\n"), "0:0:x\n1:0:x");
        assert!(text.starts_with("expected 2:0:x, ") && text.ends_with(", and 2 more"), "{text}");
    }

    #[test]
    fn a_source_that_is_no_folder_is_named() {
        let refused = Manifest::read(Path::new("/nowhere\n")).unwrap_err();
        assert_eq!(refused.to_string(), "/nowhere\\n is no folder");
    }
}
