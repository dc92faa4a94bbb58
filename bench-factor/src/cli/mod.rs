//! Arguments, and what each command does with them: one file per command.

#[cfg(target_os = "linux")]
mod cell;
mod digest;
mod diverge;
mod fixture;
#[cfg(target_os = "linux")]
mod host;
#[cfg(target_os = "linux")]
mod latency;
#[cfg(target_os = "linux")]
mod link;
#[cfg(target_os = "linux")]
mod pipe;
mod report;
#[cfg(target_os = "linux")]
mod serve;
#[cfg(target_os = "linux")]
mod study;
#[cfg(target_os = "linux")]
mod tools;

use std::{io, process::ExitCode, time::Instant};

use clap::{Parser, Subcommand};

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
    Fixture(fixture::Fixture),
    /// Make two copies of a tree differ in a known way
    Diverge(diverge::Diverge),
    /// Print one hash of a tree, made without the product's code
    Digest(digest::Digest),
    /// Make tables and a page of what a run of the study observed
    Report(report::Report),
    /// Join two hosts by an emulated path, on this machine
    #[cfg(target_os = "linux")]
    #[command(subcommand)]
    Link(Box<link::Link>),
    /// Run other people's programs on the same work, and ketch beside them
    #[cfg(target_os = "linux")]
    Tools(tools::Tools),
    /// Measure how much of a copy is waiting for answers: in a model, or with two ketch over an emulated path
    #[cfg(target_os = "linux")]
    Latency(latency::Latency),
    /// Offer a tree to observations of the study
    #[cfg(target_os = "linux")]
    Serve(serve::Serve),
    /// Make one observation of the study: fetch a tree, timed, and verify the copy
    #[cfg(target_os = "linux")]
    Cell(cell::Cell),
    /// Run the study: make the observations of a plan, keep each, and go on after any interruption
    #[cfg(target_os = "linux")]
    Study(study::Study),
    /// Be the far end of a study between two machines, for the runner that started this over ssh
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Host(host::Host),
    /// Become a command whose input and output are a TCP connection
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    Pipe(pipe::Pipe),
}

/// Does what `arguments` ask and writes results to `out`; returns how to exit.
pub(crate) fn run(arguments: Arguments, out: &mut impl io::Write) -> anyhow::Result<ExitCode> {
    let started = Instant::now();
    match arguments.command {
        Command::Fixture(fixture) => fixture::run(fixture, out)?,
        Command::Diverge(diverge) => diverge::run(diverge, out)?,
        Command::Digest(digest) => digest::run(digest, out)?,
        Command::Report(report) => report::run(report, out)?,
        #[cfg(target_os = "linux")]
        Command::Link(link) => return link::run(*link, out),
        #[cfg(target_os = "linux")]
        Command::Tools(tools) => tools::run(tools, out)?,
        #[cfg(target_os = "linux")]
        Command::Latency(latency) => latency::run(latency, out)?,
        #[cfg(target_os = "linux")]
        Command::Serve(serve) => serve::run(serve, out)?,
        #[cfg(target_os = "linux")]
        Command::Cell(cell) => return cell::run(cell, started, out),
        #[cfg(target_os = "linux")]
        Command::Study(study) => study::run(study, out)?,
        #[cfg(target_os = "linux")]
        Command::Host(host) => host::run(host, out)?,
        #[cfg(target_os = "linux")]
        Command::Pipe(pipe) => match pipe::run(pipe)? {},
    }
    Ok(ExitCode::SUCCESS)
}
