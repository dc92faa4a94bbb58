//! `bench-factor report`: makes the report of a run.

use std::{io, os::unix::ffi::OsStrExt as _, path::PathBuf};

use clap::Args;
use ketch_fixtures::escape::escape;

use crate::report;

#[derive(Debug, Args)]
pub(super) struct Report {
    /// The run's folder, with its observations.jsonl and its plan.toml
    #[arg(value_name = "RUN")]
    run: PathBuf,
    /// Where the report goes [default: the folder report in RUN]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

/// Makes the report and names its files.
pub(super) fn run(arguments: Report, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Report { run, out: folder } = arguments;
    let folder = folder.unwrap_or_else(|| run.join("report"));
    for path in report::run(&report::Options { run, out: folder })? {
        writeln!(out, "{}", escape(path.as_os_str().as_bytes()))?;
    }
    Ok(())
}
