//! `fixture`: writes a seeded tree.

use std::{io, path::PathBuf};

use clap::{Args, Subcommand};
use ketch_fixtures::tree::{SMALL_BYTES, SMALL_FILES, SOURCE_FILES, Shape};

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
        Fixture::Source { files, place } => (Shape::Source { files }, place),
        Fixture::Names { place } => (Shape::Names, place),
    };
    let summary = shape.write(place.seed, &place.out)?;
    Ok(writeln!(out, "{summary}")?)
}
