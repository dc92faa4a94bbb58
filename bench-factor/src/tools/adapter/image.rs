//! What moves a file system instead of files: Btrfs send and receive, and an image that is mounted where it
//! arrives. Both over a plain TCP connection.

use std::process::Command;

use super::{Ends, Ready, Server, Setup};
use crate::tools::error::ToolsError;

/// Name of an image that has arrived.
const ARRIVED: &str = "arrived.image";

pub(super) fn btrfs_send(setup: &Setup) -> Result<Server, ToolsError> {
    let mut command = setup.pipe("--listen");
    command.args(["btrfs", "--quiet", "send"]).arg(&setup.source);
    Ok(once(command))
}

pub(super) fn btrfs_receive(setup: &Setup) -> Result<Vec<Command>, ToolsError> {
    let mut command = setup.pipe("--connect");
    command.args(["btrfs", "--quiet", "receive"]).arg(&setup.target);
    Ok(vec![command])
}

/// Holes in the image are sent as zeros: what is raw has no holes.
pub(super) fn send(setup: &Setup) -> Result<Server, ToolsError> {
    let mut command = setup.pipe("--listen");
    command.arg("cat").arg(&setup.source);
    Ok(once(command))
}

/// The copy counts as usable when it is mounted.
pub(super) fn receive_and_mount(setup: &Setup) -> Result<Vec<Command>, ToolsError> {
    let mut command = setup.pipe("--connect");
    command.args(["sh", "-c", "cat > \"$1\" && mkdir \"$2\" && mount -o loop,ro \"$1\" \"$2\"", "sh"]);
    command.arg(setup.target.join(ARRIVED)).arg(setup.copy());
    Ok(vec![command])
}

fn once(command: Command) -> Server {
    Server { command, ready: Ready::Listens, ends: Ends::Itself }
}
