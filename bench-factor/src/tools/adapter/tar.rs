//! tar, piped: over a plain TCP connection, and over ssh.

use std::process::Command;

use super::{Ends, Ready, Server, Setup, TREE, ssh};
use crate::tools::error::ToolsError;

/// tar writes the source to whoever connects.
pub(super) fn serve(setup: &Setup) -> Result<Server, ToolsError> {
    let mut command = setup.pipe("--listen");
    command.args(["tar", "-C"]).arg(setup.source_parent()).args(["-cf", "-", TREE]);
    Ok(Server { command, ready: Ready::Listens, ends: Ends::Itself })
}

pub(super) fn from_tcp(setup: &Setup) -> Result<Vec<Command>, ToolsError> {
    let mut command = setup.pipe("--connect");
    command.args(["tar", "-C"]).arg(&setup.target).args(["-xf", "-"]);
    Ok(vec![command])
}

/// A shell joins the two; where ssh fails, tar finds no whole archive and fails too.
pub(super) fn over_ssh(setup: &Setup) -> Result<Vec<Command>, ToolsError> {
    let fetch = ssh::ssh(setup);
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "target=$1 source=$2; shift 2; \"$@\" \"tar -C '$source' -cf - tree\" | tar -C \"$target\" -xf -",
        "sh",
    ]);
    command.arg(&setup.target).arg(setup.source_parent()).arg(fetch.get_program()).args(fetch.get_args());
    Ok(vec![command])
}
