//! The `bench-factor` command: measures why a transfer is as fast as it is, and makes what it is measured on.

mod cli;
#[cfg(target_os = "linux")]
mod cold_path;
#[cfg(target_os = "linux")]
mod latency;
mod observation;
mod report;
#[cfg(target_os = "linux")]
mod runner;
mod statistics;
#[cfg(target_os = "linux")]
mod study;
mod tools;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;

/// Libraries on which speed depends.
#[cfg(target_os = "linux")]
const LIBRARIES: [&str; 8] =
    ["noq", "noq-proto", "rustls", "ring", "tokio", "libp2p-core", "libp2p-identity", "libp2p-tls"];

/// Exits with 0 on success, 1 on failure, or as a command does that it ran; clap exits with 2 on wrong usage.
fn main() -> ExitCode {
    match cli::run(cli::Arguments::parse(), &mut io::stdout().lock()) {
        Ok(code) => code,
        Err(error) => {
            // Nowhere is left to report that standard error cannot be written.
            let _ = writeln!(io::stderr(), "error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
