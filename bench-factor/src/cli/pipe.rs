//! `bench-factor pipe`: becomes a command whose input and output are a TCP connection. For `tools` alone.

use std::{convert::Infallible, ffi::OsString, net::SocketAddr, process::Command};

use anyhow::Context as _;
use clap::Args;

use crate::tools::pipe::{Role, become_command};

#[derive(Debug, Args)]
pub(super) struct Pipe {
    /// Take the first connection to this address
    #[arg(long, value_name = "IP:PORT", conflicts_with = "connect", required_unless_present = "connect")]
    listen: Option<SocketAddr>,
    /// Connect to this address
    #[arg(long, value_name = "IP:PORT")]
    connect: Option<SocketAddr>,
    /// The command with its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Returns only when it fails.
pub(super) fn run(arguments: Pipe) -> anyhow::Result<Infallible> {
    let role = arguments.listen.map(Role::Listen).or(arguments.connect.map(Role::Connect));
    let role = role.context("an address is needed, to listen on or to connect to")?;
    let (program, arguments) = arguments.command.split_first().context("a command is needed")?;
    let mut command = Command::new(program);
    command.args(arguments);
    Ok(become_command(role, command)?)
}
