//! `fixture`: writes a seeded tree.

use std::{io, path::PathBuf};

use clap::{Args, Subcommand};
use ketch_fixtures::tree::{
    LARGE_BYTES, MILLION_FILES, PILOT_FILES, SMALL_BYTES, SMALL_FILES, SOURCE_FILES, Shape, TREE_UNIT_BYTES,
};

/// Files of `large8`: one for each of the study's parallel connections.
const LARGE8_FILES: u64 = 8;

#[derive(Debug, Subcommand)]
pub(super) enum Fixture {
    /// Equal files that do not compress
    Small {
        /// How many files
        #[arg(long, value_name = "N", default_value_t = SMALL_FILES)]
        files: u64,
        /// Length of each, in bytes
        #[arg(long, value_name = "B", default_value_t = SMALL_BYTES)]
        bytes: u64,
        #[command(flatten)]
        place: Place,
    },
    /// The first files of `small`, enough to use every stream again
    Pilot {
        #[command(flatten)]
        place: Place,
    },
    /// One large file that does not compress
    Large {
        /// Its length, in bytes
        #[arg(long, value_name = "B", default_value_t = LARGE_BYTES)]
        bytes: u64,
        #[command(flatten)]
        place: Place,
    },
    /// Eight large files of one length but different content that do not compress
    Large8 {
        /// Length of each, in bytes
        #[arg(long, value_name = "B", default_value_t = LARGE_BYTES / LARGE8_FILES)]
        bytes: u64,
        #[command(flatten)]
        place: Place,
    },
    /// Small, big and empty files that do not compress: 100 in 8 directories, and an empty directory
    Tree {
        /// What sizes count in, in bytes: small files have 1 to 4 of it, big ones 20 to 64
        #[arg(long, value_name = "B", default_value_t = TREE_UNIT_BYTES)]
        unit_bytes: u64,
        #[command(flatten)]
        place: Place,
    },
    /// A million files, empty or tiny
    Million {
        /// How many files
        #[arg(long, value_name = "N", default_value_t = MILLION_FILES)]
        files: u64,
        #[command(flatten)]
        place: Place,
    },
    /// Like a tree of source code: text, deep folders, executables, symlinks
    Source {
        /// How many regular files
        #[arg(long, value_name = "N", default_value_t = SOURCE_FILES)]
        files: u64,
        #[command(flatten)]
        place: Place,
    },
    /// Every name, mode, time and symlink that is legal and hard
    Names {
        #[command(flatten)]
        place: Place,
    },
}

#[derive(Debug, Args)]
pub(super) struct Place {
    /// Where to write it: a new or empty directory
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Another seed makes another tree of the same shape
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
}

pub(super) fn run(fixture: Fixture, out: &mut impl io::Write) -> anyhow::Result<()> {
    let (shape, place) = match fixture {
        Fixture::Small { files, bytes, place } => (Shape::Small { files, bytes }, place),
        Fixture::Pilot { place } => (Shape::Small { files: PILOT_FILES, bytes: SMALL_BYTES }, place),
        Fixture::Large { bytes, place } => (Shape::Large { files: 1, bytes }, place),
        Fixture::Large8 { bytes, place } => (Shape::Large { files: LARGE8_FILES, bytes }, place),
        Fixture::Tree { unit_bytes, place } => (Shape::Tree { unit_bytes }, place),
        Fixture::Million { files, place } => (Shape::Million { files }, place),
        Fixture::Source { files, place } => (Shape::Source { files }, place),
        Fixture::Names { place } => (Shape::Names, place),
    };
    let summary = shape.write(place.seed, &place.out)?;
    Ok(writeln!(out, "{summary}")?)
}
