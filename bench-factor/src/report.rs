//! The report of a run: from its rows alone, and byte for byte the same whenever it is made.
//!
//! [`rows`] and [`plan`] read once and check, [`analysis`] makes values of what was read, and [`markdown`], [`csv`] and
//! [`html`] write them down, with the words of [`wording`].

mod analysis;
mod csv;
pub(crate) mod error;
mod html;
mod limits;
mod markdown;
mod outline;
pub(crate) mod plan;
pub(crate) mod rows;
mod tables;
mod wording;

use std::{
    fs,
    path::{Path, PathBuf},
};

use self::{
    error::{ReportError, io_error},
    plan::Plan,
};

/// What `bench-factor report` was asked for.
#[derive(Debug)]
pub(crate) struct Options {
    /// The run's folder: `observations.jsonl`, and `plan.toml` where something was declared.
    pub(crate) run: PathBuf,
    /// Where the report goes; made if missing.
    pub(crate) out: PathBuf,
}

/// Makes the report; returns the files that it wrote.
pub(crate) fn run(options: &Options) -> Result<Vec<PathBuf>, ReportError> {
    let rows = rows::read(&options.run.join("observations.jsonl"))?;
    let plan = Plan::read(&options.run.join("plan.toml"))?;
    let analysis = analysis::analyse(&rows, plan.as_ref());
    let files = [
        ("report.html", html::write(&analysis)),
        ("report.md", markdown::write(&analysis)),
        ("observations.csv", csv::observations(&analysis)),
        ("conditions.csv", csv::conditions(&analysis)),
        ("comparisons.csv", csv::comparisons(&analysis)),
        ("ratios.csv", csv::ratios(&analysis)),
    ];
    fs::create_dir_all(&options.out).map_err(io_error("make the folder", &options.out))?;
    files.into_iter().map(|(name, text)| write(&options.out.join(name), &text)).collect()
}

fn write(path: &Path, text: &str) -> Result<PathBuf, ReportError> {
    fs::write(path, text).map_err(io_error("write", path))?;
    Ok(path.to_owned())
}
