//! `bench-factor tools`: runs a plan of whole-tool sessions.

use std::{io, path::PathBuf};

use clap::Args;

use crate::tools;

#[derive(Debug, Args)]
pub(super) struct Tools {
    /// What to run, several times for several; bench-factor/plans has examples
    #[arg(long, value_name = "FILE", required = true)]
    plan: Vec<PathBuf>,
    /// Join both ends by an emulated path with this profile, or of a rate and a round trip like 100mbit@262ms, whatever the
    /// plan says
    #[arg(long, value_name = "PROFILE")]
    link: Option<String>,
    /// Where rows.csv and summary.txt go; for several plans into a folder each, called as the plan
    #[arg(long, value_name = "DIR", default_value = "tools-results")]
    out: PathBuf,
    /// Where sources, images and targets are made; best on a tmpfs, so that no disk is measured
    #[arg(long, value_name = "DIR", default_value = "/dev/shm")]
    scratch: PathBuf,
    /// The ketch to run [default: the one beside this program]
    #[arg(long, value_name = "FILE")]
    ketch: Option<PathBuf>,
}

/// Runs the plan; rows are kept even where it fails.
pub(super) fn run(arguments: Tools, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Tools { plan: plans, link, out: results, scratch, ketch } = arguments;
    Ok(tools::run(&tools::Options { plans, link, out: results, scratch, ketch }, out)?)
}
