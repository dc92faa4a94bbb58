//! `diverge`: makes two copies of a tree differ.

use std::{io, path::PathBuf};

use clap::{Args, ValueEnum};
use ketch_fixtures::diverge::Divergence;

#[derive(Debug, Args)]
pub(super) struct Diverge {
    /// What becomes different
    #[arg(value_enum)]
    kind: Kind,
    /// The tree that will be read, which is changed
    #[arg(long, value_name = "DIR")]
    source: PathBuf,
    /// The tree that will be written: a copy of it with the same times, which `edit` gives files of its own
    #[arg(long, value_name = "DIR")]
    target: PathBuf,
    /// Another seed makes other changes of the same kind
    #[arg(long, value_name = "N", default_value_t = 42)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Kind {
    /// Every fourth file is rewritten by 5 % and gets a new neighbour; the target has files of its own
    Edit,
    /// About half of the files are at another path
    Move,
    /// The largest file has one byte more near its start
    Insert,
    /// Every file has another time
    Touch,
    /// Every fourth file and directory has another mode
    Chmod,
}

pub(super) fn run(arguments: Diverge, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Diverge { kind, source, target, seed } = arguments;
    let divergence = match kind {
        Kind::Edit => Divergence::Edit,
        Kind::Move => Divergence::Move,
        Kind::Insert => Divergence::Insert,
        Kind::Touch => Divergence::Touch,
        Kind::Chmod => Divergence::Chmod,
    };
    let summary = divergence.apply(seed, &source, &target, &[])?;
    Ok(writeln!(out, "{summary}")?)
}
