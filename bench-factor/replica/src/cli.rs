//! Those of bench-factor's commands that make observations.

#[path = "../../src/cli/cell.rs"]
mod cell;
#[path = "../../src/cli/serve.rs"]
mod serve;

use std::{io, process::ExitCode, time::Instant};

use clap::{Parser, Subcommand};

/// One observation of the study on the libraries that the study was made with.
#[derive(Debug, Parser)]
#[command(version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Offer a tree to observations of the study
    Serve(serve::Serve),
    /// Make one observation of the study: fetch a tree, timed, and verify the copy
    Cell(cell::Cell),
}

/// Does what `arguments` ask and writes results to `out`; returns how to exit.
pub(crate) fn run(arguments: Arguments, out: &mut impl io::Write) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    match arguments.command {
        Command::Serve(serve) => serve::run(serve, out)?,
        Command::Cell(cell) => return cell::run(cell, started, out),
    }
    Ok(ExitCode::SUCCESS)
}
