//! [`TreeName`]: by what the index of a tree is found.

use std::{
    os::unix::ffi::OsStrExt as _,
    path::{Path, PathBuf},
};

use ketch_protocol::path::EntryPath;

/// Separates the hashes of operands from those of roots.
const OPERANDS_CONTEXT: &str = "ketch 1 index of operands";

/// Bytes of a hash that name an index: enough that no two trees meet in one.
const NAME_BYTES: usize = 16;

/// Which tree an index is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeName {
    name: String,
    path: PathBuf,
}

impl TreeName {
    /// Of all that lies in the directory at `path`, in which no symlink is left.
    pub fn of_root(path: &Path) -> Self {
        Self::new(blake3::hash(path.as_os_str().as_bytes()), path)
    }

    /// Of files and directories, each by the name that it is listed under and by its path, in which no symlink is
    /// left; in the order in which they are listed.
    pub fn of_operands<'a>(operands: impl IntoIterator<Item = (&'a EntryPath, &'a Path)>) -> Self {
        let mut hasher = blake3::Hasher::new_derive_key(OPERANDS_CONTEXT);
        let mut first = None;
        for (name, path) in operands {
            for part in [name.as_bytes(), path.as_os_str().as_bytes()] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part);
            }
            first = first.or(Some(path));
        }
        Self::new(hasher.finalize(), first.unwrap_or(Path::new("")))
    }

    fn new(hash: blake3::Hash, path: &Path) -> Self {
        let name = data_encoding::HEXLOWER.encode(&hash.as_bytes()[..NAME_BYTES]);
        Self { name, path: path.into() }
    }

    /// The name of its index, in the alphabet of any file system.
    pub(super) fn as_str(&self) -> &str {
        &self.name
    }

    /// A path of it, for messages: its root or its first operand.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of_operands(operands: &[(&str, &str)]) -> TreeName {
        let operands = operands.iter().map(|(name, path)| (EntryPath::parse(name.as_bytes()).unwrap(), path));
        let operands: Vec<_> = operands.collect();
        TreeName::of_operands(operands.iter().map(|(name, path)| (name, Path::new(path))))
    }

    #[test]
    fn every_list_of_operands_has_an_index_of_its_own() {
        let names = [
            TreeName::of_root(Path::new("/a")),
            of_operands(&[("a", "/a")]),
            of_operands(&[("b", "/a")]),
            of_operands(&[("a", "/b/a")]),
            of_operands(&[("a", "/a"), ("b", "/b")]),
            of_operands(&[("a", "/b"), ("b", "/a")]),
        ];
        for (index, name) in names.iter().enumerate() {
            assert!(names[..index].iter().all(|other| other.as_str() != name.as_str()), "{index}");
        }
        assert_eq!(of_operands(&[("a", "/a")]), of_operands(&[("a", "/a")]));
    }
}
