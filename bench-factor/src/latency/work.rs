//! What is copied to ask about latency.

use std::fmt;

use ketch_fixtures::tree::{SMALL_BYTES, Shape};

/// Units of a tree that the small files and the large file have together: 256 MiB where a unit is 1 MiB, the study's data
/// sets.
const UNITS: u64 = 256;

/// A seeded tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Work {
    /// A hundred files of very different lengths in 8 directories.
    Tree { unit_bytes: u64 },
    /// Equal files, 256 in a directory.
    Small { files: u64 },
    /// One file.
    Large { bytes: u64 },
}

impl Work {
    /// The tree of a hundred files alone.
    pub(crate) fn quick(unit_bytes: u64) -> Vec<Self> {
        vec![Self::Tree { unit_bytes }]
    }

    /// That tree, and as many bytes in small files as in a large one, to see what files cost.
    pub(crate) fn all(unit_bytes: u64) -> Vec<Self> {
        let bytes = unit_bytes * UNITS;
        vec![Self::Tree { unit_bytes }, Self::Small { files: bytes / SMALL_BYTES }, Self::Large { bytes }]
    }

    pub(super) fn shape(self) -> Shape {
        match self {
            Self::Tree { unit_bytes } => Shape::Tree { unit_bytes },
            Self::Small { files } => Shape::Small { files, bytes: SMALL_BYTES },
            Self::Large { bytes } => Shape::Large { files: 1, bytes },
        }
    }
}

impl fmt::Display for Work {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tree { .. } => "tree",
            Self::Small { .. } => "small",
            Self::Large { .. } => "large",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_study_s_data_sets_are_what_a_unit_of_a_mebibyte_makes() {
        use ketch_fixtures::tree::{LARGE_BYTES, SMALL_FILES, TREE_UNIT_BYTES};
        let expected = [
            Work::Tree { unit_bytes: TREE_UNIT_BYTES },
            Work::Small { files: SMALL_FILES },
            Work::Large { bytes: LARGE_BYTES },
        ];
        assert_eq!(Work::all(TREE_UNIT_BYTES), expected);
    }
}
