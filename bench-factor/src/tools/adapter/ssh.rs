//! An sshd of its own with its own keys, for everything that goes over ssh, and sftp.

use std::{
    ffi::{OsStr, OsString},
    fs,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
    process::Command,
};

use super::{Ends, Ready, Server, Setup, bracketed};
use crate::tools::{
    error::{ToolsError, io_error},
    installed,
    parts::parts,
    process::run,
};

/// Where sshd, when it is root's, wants an empty folder; a system that runs no sshd may lack it.
const PRIVILEGE_SEPARATION_FOLDER: &str = "/run/sshd";

/// Starts sshd for one session, making keys for both ends first.
pub(super) fn serve(setup: &Setup) -> Result<Server, ToolsError> {
    let folder = setup.scratch.join("ssh");
    if !folder.exists() {
        fs::DirBuilder::new().mode(0o700).create(&folder).map_err(io_error("make the folder", &folder))?;
        make_keys(&folder)?;
    }
    let configuration = folder.join("sshd_config");
    fs::write(&configuration, sshd_configuration(setup, &folder))
        .map_err(io_error("write", &configuration))?;
    if rustix::process::getuid().is_root() {
        let place = Path::new(PRIVILEGE_SEPARATION_FOLDER);
        fs::create_dir_all(place).map_err(io_error("make the folder", place))?;
    }
    // sshd starts itself again for each session and so insists on its absolute path.
    let mut command = Command::new(installed::program("sshd"));
    command.args(["-D", "-e", "-f"]).arg(configuration);
    Ok(Server { command, ready: Ready::Listens, ends: Ends::Told })
}

/// The command line that reaches the session's sshd, as rsync's `--rsh` takes it: words apart by spaces.
pub(super) fn shell(setup: &Setup) -> OsString {
    let mut words = vec!["ssh".into(), "-p".into(), setup.port.to_string().into()];
    words.extend(options(setup));
    words.join(OsStr::new(" "))
}

/// `ssh` to the session's sshd; the command to run there follows.
pub(super) fn ssh(setup: &Setup) -> Command {
    let mut command = Command::new("ssh");
    command.args(["-p", &setup.port.to_string()]).args(options(setup)).arg(setup.address.to_string());
    command
}

/// `count` sftp processes, each with its part of the entries at the top of the tree, listed before the
/// clock starts.
pub(super) fn sftp(setup: &Setup, count: usize) -> Result<Vec<Command>, ToolsError> {
    let copy = setup.copy();
    fs::create_dir_all(&copy).map_err(io_error("make the folder", &copy))?;
    let parts = if count == 1 { vec![vec![]] } else { parts(&setup.source, count)? };
    parts.iter().enumerate().map(|(index, part)| sftp_part(setup, index, part)).collect()
}

/// One process for `part`, or for the whole tree where that is empty.
fn sftp_part(setup: &Setup, index: usize, part: &[OsString]) -> Result<Command, ToolsError> {
    let batch = setup.scratch.join(format!("batch-{index}"));
    let text = if part.is_empty() {
        format!("get -pR {} {}\n", quoted(&setup.source), quoted(&setup.target))
    } else {
        let get = |name| format!("get -pR {} {}\n", quoted(&setup.source.join(name)), quoted(&setup.copy()));
        part.iter().map(get).collect()
    };
    fs::write(&batch, text).map_err(io_error("write", &batch))?;
    let mut command = Command::new("sftp");
    command.args(["-q", "-P", &setup.port.to_string()]).args(options(setup));
    command.arg("-b").arg(batch).arg(bracketed(setup.address));
    Ok(command)
}

fn make_keys(folder: &Path) -> Result<(), ToolsError> {
    for name in ["host", "user"] {
        let mut command = Command::new("ssh-keygen");
        run(command.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.join(name)))?;
    }
    Ok(())
}

/// Eight processes begin at once, which is close to the default limit of ten unfinished logins. Another home
/// keeps the start-up files of the user's shell out: bash reads them for every command over ssh.
fn sshd_configuration(setup: &Setup, folder: &Path) -> String {
    let folder = folder.display();
    let Setup { address, port, .. } = setup;
    format!(
        "Port {port}\nListenAddress {address}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/user.pub\n\
         PermitRootLogin yes\nStrictModes no\nUsePAM no\nPidFile none\nMaxStartups 100\nMaxSessions 100\n\
         Subsystem sftp internal-sftp\nSetEnv HOME={folder}\n"
    )
}

/// What `ssh` and `sftp` both take: our key, no configuration of the user's, no question about the host.
fn options(setup: &Setup) -> Vec<OsString> {
    let key: PathBuf = setup.scratch.join("ssh/user");
    let fixed = [
        "-F",
        "none",
        "-o",
        "StrictHostKeyChecking=no",
        "-o",
        "UserKnownHostsFile=/dev/null",
        "-o",
        "LogLevel=ERROR",
        "-o",
        "BatchMode=yes",
    ];
    let mut options: Vec<OsString> = fixed.into_iter().map(Into::into).collect();
    options.extend(["-i".into(), key.into()]);
    options
}

/// A path as sftp's batch language reads it.
fn quoted(path: &Path) -> String {
    format!("\"{}\"", path.display().to_string().replace('\\', "\\\\").replace('"', "\\\""))
}
