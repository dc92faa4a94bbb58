//! sendme, ffsync and croc.

use std::{fs, process::Command};

use super::{Ends, Ready, Server, Setup, bracketed};
use crate::tools::{
    error::{ToolsError, io_error},
    process::run,
};

/// croc's code phrase. It has to have this form, and guards nothing here.
const CROC_CODE: &str = "1234-ketch-bench-factor";

/// Without `--relay disabled`, sendme waits half a minute for a relay that a closed network lacks. It hashes
/// the whole source before it prints its ticket, which is why a row has `prepare_s`.
pub(super) fn sendme_send(setup: &Setup) -> Result<Server, ToolsError> {
    let mut command = Command::new("sendme");
    command.args(["send", "--relay", "disabled"]).arg(&setup.source).current_dir(&setup.scratch);
    Ok(Server { command, ready: Ready::Says(sendme_ticket), ends: Ends::Told })
}

/// It writes to the folder that it is started in.
pub(super) fn sendme_receive(setup: &Setup, ticket: &str) -> Result<Vec<Command>, ToolsError> {
    let mut command = Command::new("sendme");
    command.args(["receive", "--relay", "disabled", ticket]).current_dir(&setup.target);
    Ok(vec![command])
}

fn sendme_ticket(said: &str) -> Option<String> {
    let whole_lines = said.rsplit_once('\n')?.0;
    let rest = whole_lines.split_once("sendme receive ")?.1;
    rest.split_whitespace().next().map(str::to_owned)
}

/// Both ends use one identity, which trusts itself: the same handshake as two that trust each other.
/// ffsync 1.2.0 puts the tree's content into the folder that it is given.
pub(super) fn ffsync_receive(setup: &Setup) -> Result<Server, ToolsError> {
    let mut command = ffsync(setup);
    let copy = setup.copy();
    fs::create_dir_all(&copy).map_err(io_error("make the folder", &copy))?;
    let own = ffsync_fingerprint(&run(ffsync(setup).arg("fingerprints"))?).unwrap_or_default();
    run(ffsync(setup).args(["trust", &own]))?;
    command.arg("receive").arg(copy).arg(setup.port.to_string());
    Ok(Server { command, ready: Ready::Listens, ends: Ends::Itself })
}

pub(super) fn ffsync_send(setup: &Setup, parallel: u32) -> Result<Vec<Command>, ToolsError> {
    let mut command = ffsync(setup);
    command.arg("send").arg(&setup.source).arg(format!("{}:{}", bracketed(setup.address), setup.port));
    if parallel > 1 {
        command.args(["--parallel", &parallel.to_string()]);
    }
    Ok(vec![command])
}

/// Its identity and pins live below the home folder.
fn ffsync(setup: &Setup) -> Command {
    let mut command = Command::new("ffsync");
    command.env("HOME", &setup.scratch).env("XDG_CONFIG_HOME", setup.scratch.join("config"));
    command
}

/// The first word of 64 hex digits, colons apart.
fn ffsync_fingerprint(said: &str) -> Option<String> {
    let is_hex = |word: &&str| {
        let digits = word.bytes().filter(|&byte| byte != b':');
        digits.clone().count() == 64 && digits.clone().all(|byte| byte.is_ascii_hexdigit())
    };
    said.split_whitespace().find(is_hex).map(str::to_owned)
}

/// croc's own relay on the sender, and no search for another: `--ip` names the sender to the receiver.
pub(super) fn croc_send(setup: &Setup) -> Result<Server, ToolsError> {
    let mut command = croc(setup, "sender");
    command.args(["send", "--no-multi", "--port", &setup.port.to_string()]).arg(&setup.source);
    // Its banner, which goes to standard error, is printed before it can be reached.
    Ok(Server { command, ready: Ready::Listens, ends: Ends::Itself })
}

pub(super) fn croc_receive(setup: &Setup) -> Result<Vec<Command>, ToolsError> {
    let mut command = croc(setup, "receiver");
    command.args(["--yes", "--overwrite", "--ip", &format!("{}:{}", bracketed(setup.address), setup.port)]);
    command.arg("--out").arg(&setup.target);
    Ok(vec![command])
}

fn croc(setup: &Setup, end: &str) -> Command {
    let mut command = Command::new("croc");
    command.env("CROC_SECRET", CROC_CODE).env("CROC_CONFIG_DIR", setup.scratch.join("croc").join(end));
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ticket_of_sendme_is_read_from_whole_lines() {
        let said =
            "imported directory /s/tree, 8 MiB, hash ab\nto get this data, use\nsendme receive blobaa\n";
        assert_eq!(sendme_ticket(said).as_deref(), Some("blobaa"));
        assert_eq!(sendme_ticket(said.trim_end()), None);
    }

    #[test]
    fn the_fingerprint_of_ffsync_is_its_only_long_hex_word() {
        let hex = "0f".repeat(32);
        assert_eq!(ffsync_fingerprint(&format!("this peer: {hex}\npins: none\n")), Some(hex));
        assert_eq!(ffsync_fingerprint("this peer: none"), None);
    }
}
