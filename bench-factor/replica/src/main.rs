//! `bench-factor serve` and `bench-factor cell` on the libraries of the seed: the same study over another channel.
//!
//! The sources are those of bench-factor. What differs is `channel/`, which stands in for `ketch-channel`.

mod cli;
#[allow(dead_code, reason = "the command line of bench-factor uses more of it")]
#[path = "../../src/study/mod.rs"]
mod study;

use std::{
    io::{self, Write as _},
    process::ExitCode,
};

use clap::Parser as _;

/// Libraries on which speed depends.
const LIBRARIES: [&str; 10] = [
    "quinn",
    "quinn-proto",
    "quinn-udp",
    "yamux",
    "rustls",
    "ring",
    "tokio",
    "libp2p-core",
    "libp2p-identity",
    "libp2p-tls",
];

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
