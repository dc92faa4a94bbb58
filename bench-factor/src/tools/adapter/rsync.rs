//! rsync: pulls, as `rsync -a`. Its own option names are kept long where rsync has a long one.

use std::{ffi::OsString, fs, os::unix::ffi::OsStrExt, path::Path, process::Command};

use super::{Ends, Ready, Server, Setup, TREE, bracketed, ssh};
use crate::tools::{
    error::{ToolsError, io_error},
    parts::parts,
};

/// One process tree joined by a socket pair: the floor for what rsync's sender and receiver cost. Between
/// local paths rsync copies files whole, unless told not to.
pub(super) fn local(setup: &Setup) -> Result<Vec<Command>, ToolsError> {
    let mut command = rsync(setup);
    command.arg("--no-whole-file").args([&setup.source, &setup.target]);
    Ok(vec![command])
}

pub(super) fn daemon(setup: &Setup) -> Result<Server, ToolsError> {
    let path = setup.scratch.join("rsyncd.conf");
    fs::write(&path, daemon_configuration(setup)).map_err(io_error("write", &path))?;
    let mut command = Command::new("rsync");
    command.args(["--daemon", "--no-detach", "--log-file=/dev/stdout"]);
    command.arg(option("--config=", &path));
    Ok(Server { command, ready: Ready::Listens, ends: Ends::Told })
}

pub(super) fn from_daemon(setup: &Setup, options: &[&str]) -> Result<Vec<Command>, ToolsError> {
    let mut command = rsync(setup);
    command.args(options);
    // `host::module` would ask port 873, whatever the daemon listens on.
    command.arg(format!("rsync://{}:{}/source/{TREE}", bracketed(setup.address), setup.port));
    command.arg(&setup.target);
    Ok(vec![command])
}

pub(super) fn over_ssh(setup: &Setup, options: &[&str]) -> Result<Vec<Command>, ToolsError> {
    let mut command = rsync(setup);
    command.args(options).arg("--rsh").arg(ssh::shell(setup));
    command.arg(remote(setup, &setup.source)).arg(&setup.target);
    Ok(vec![command])
}

/// `count` processes at once, each with its part of the entries at the top of the tree. The parts are listed
/// before the clock starts, which favours it.
pub(super) fn in_parts(setup: &Setup, count: usize) -> Result<Vec<Command>, ToolsError> {
    let copy = setup.copy();
    // Without it, a part of one file would be stored under its name.
    fs::create_dir_all(&copy).map_err(io_error("make the folder", &copy))?;
    let parts = parts(&setup.source, count)?;
    parts.iter().enumerate().map(|(index, part)| one_part(setup, index, part)).collect()
}

fn one_part(setup: &Setup, index: usize, part: &[OsString]) -> Result<Command, ToolsError> {
    let list = setup.scratch.join(format!("part-{index}"));
    let names: Vec<u8> = part.iter().flat_map(|name| [name.as_bytes(), b"\0"].concat()).collect();
    fs::write(&list, names).map_err(io_error("write", &list))?;
    let mut command = rsync(setup);
    // A list turns off the recursion that `-a` turns on.
    command.args(["--recursive", "--from0"]).arg(option("--files-from=", &list));
    command.arg("--rsh").arg(ssh::shell(setup));
    command.arg(remote(setup, &setup.source)).arg(setup.copy());
    Ok(command)
}

fn rsync(setup: &Setup) -> Command {
    let mut command = Command::new("rsync");
    command.arg("-a");
    if setup.again {
        command.arg("--delete");
    }
    command
}

fn remote(setup: &Setup, path: &Path) -> OsString {
    let mut remote = OsString::from(format!("{}:", bracketed(setup.address)));
    remote.push(path);
    remote
}

fn option(name: &str, value: &Path) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}

fn daemon_configuration(setup: &Setup) -> String {
    let Setup { address, port, .. } = setup;
    // As whoever runs it, since the default of `nobody` could not read the modes of every tree.
    let user = rustix::process::getuid().as_raw();
    let group = rustix::process::getgid().as_raw();
    let owner = if user == 0 { format!("uid = {user}\ngid = {group}\n") } else { String::new() };
    let path = setup.source_parent().display();
    format!("address = {address}\nport = {port}\nuse chroot = no\n[source]\npath = {path}\n{owner}")
}
