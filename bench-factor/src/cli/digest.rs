//! `digest`: prints the hash of a tree, or the lines that it is made of.

use std::{
    ffi::OsString,
    io,
    os::unix::ffi::{OsStrExt, OsStringExt},
    path::PathBuf,
};

use clap::Args;
use ketch_fixtures::{
    digest::{self, Pattern},
    escape::escape,
};

#[derive(Debug, Args)]
pub(super) struct Digest {
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

pub(super) fn run(arguments: Digest, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Digest { root, full, ignore, lines } = arguments;
    let ignore = ignore.into_iter().map(|glob| Pattern::new(glob.into_vec())).collect();
    let options = digest::Options { full, ignore };
    if lines {
        let lines = digest::lines(&root, &options)?;
        return Ok(lines.iter().try_for_each(|line| writeln!(out, "{line}"))?);
    }
    let digest = digest::digest(&root, &options)?;
    writeln!(out, "{}  files: {}, bytes: {}", digest.hex, digest.files, digest.bytes)?;
    for path in &digest.special {
        let path = escape(path.as_os_str().as_bytes());
        writeln!(out, "left out, as it is neither file, directory nor symlink: {path}")?;
    }
    Ok(())
}
