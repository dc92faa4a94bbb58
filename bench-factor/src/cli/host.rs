//! `bench-factor host`: the far end of a study between two machines.

use std::{io, time::Duration};

use clap::Args;

use crate::runner::{self, AgentOptions};

#[derive(Debug, Args)]
pub(super) struct Host {
    /// Tidy up and end after so many seconds without a line; the runner sends one every ten seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    silence: u64,
}

/// Serves the runner at the other end of standard input and output.
pub(super) fn run(arguments: Host, out: &mut impl io::Write) -> anyhow::Result<()> {
    let Host { silence } = arguments;
    Ok(runner::run_agent(&AgentOptions { silence: Duration::from_secs(silence) }, out)?)
}
