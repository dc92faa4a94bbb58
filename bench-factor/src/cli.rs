//! Arguments, and what each command does with them.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use clap::{Args, Parser, Subcommand};
use ketch_fixtures::{
    digest::{self, Pattern, digest},
    escape::escape,
    tree::{SMALL_BYTES, SMALL_FILES, SOURCE_FILES, Shape},
};

/// Measures why a transfer is as fast as it is.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Write a tree that is the same on every machine
    #[command(subcommand)]
    Fixture(Fixture),
    /// Print one hash of a tree, made without the product's code
    Digest(Digest),
}

#[derive(Debug, Subcommand)]
enum Fixture {
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
struct Place {
    /// Where to write it: a new or empty directory
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Another seed makes another tree of the same shape
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
}

#[derive(Debug, Args)]
struct Digest {
    /// The tree
    #[arg(value_name = "DIR")]
    root: PathBuf,
    /// Cover directories and symlinks too, and modes, times and link targets
    #[arg(long)]
    full: bool,
    /// Leave out what this pattern names, with all below it; without a `/` it names last components
    #[arg(long, value_name = "GLOB")]
    ignore: Vec<OsString>,
    /// Print the lines that are hashed instead of their hash
    #[arg(long)]
    lines: bool,
}

/// Does what `arguments` ask and writes results to `out`.
pub(crate) fn run(arguments: Arguments, out: &mut impl io::Write) -> anyhow::Result<()> {
    match arguments.command {
        Command::Fixture(fixture) => write_fixture(fixture, out),
        Command::Digest(digest) => print_digest(digest, out),
    }
}

fn write_fixture(fixture: Fixture, out: &mut impl io::Write) -> anyhow::Result<()> {
    let (shape, place) = match fixture {
        Fixture::Small { files, bytes, place } => (Shape::Small { files, bytes }, place),
        Fixture::Source { files, place } => (Shape::Source { files }, place),
        Fixture::Names { place } => (Shape::Names, place),
    };
    let summary = shape.write(place.seed, &place.out)?;
    Ok(writeln!(out, "{summary}")?)
}

fn print_digest(arguments: Digest, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Digest { root, full, ignore, lines } = arguments;
    let ignore = ignore.into_iter().map(|glob| Pattern::new(glob.into_vec())).collect();
    let options = digest::Options { full, ignore };
    if lines {
        let lines = digest::lines(&root, &options)?;
        return Ok(lines.iter().try_for_each(|line| writeln!(out, "{line}"))?);
    }
    let digest = digest(&root, &options)?;
    writeln!(out, "{}  files: {}, bytes: {}", digest.hex, digest.files, digest.bytes)?;
    for path in &digest.special {
        let path = escape(path.as_os_str().as_bytes());
        writeln!(out, "left out, as it is neither file, directory nor symlink: {path}")?;
    }
    Ok(())
}
