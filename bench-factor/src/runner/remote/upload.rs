//! Bringing the executables of a run to the remote host, and starting one there: a script for `sh`, which is the one command
//! of the control channel, and what it reads. Files are named by their hash and checked by it on either side, so that one
//! that is there already does not cross again.

use std::{
    collections::BTreeMap,
    fs::File,
    io,
    path::{Path, PathBuf},
};

use sha2::{Digest as _, Sha256};

use super::super::error::{RunError, run_io_error};

/// Where executables are kept on the remote host, for `sh` there.
pub(super) const FOLDER: &str = "${XDG_CACHE_HOME:-$HOME/.cache}/bench-factor";

/// In front of every line that the script says, as a login may print lines of its own.
pub(super) const PREFIX: &str = "bench-factor: ";

/// Programs that the script needs; a Debian host always has them.
const NEEDED: [&str; 5] = ["sha256sum", "head", "mkdir", "chmod", "mv"];

/// An executable of this machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Executable {
    path: PathBuf,
    sha256: String,
    bytes: u64,
}

/// What the script says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Said<'a> {
    /// The executable with this hash is to be sent.
    Wants(&'a str),
    /// Everything is there.
    Complete,
    /// A program is missing on the remote host.
    Lacks(&'a str),
    /// What came has another hash than was announced.
    Damaged(&'a str),
}

impl Executable {
    /// Reads the file at `path`.
    pub(super) fn read(path: &Path) -> Result<Self, RunError> {
        let error = || run_io_error("read the program", path);
        let mut file = File::open(path).map_err(error())?;
        let mut hash = Sha256::new();
        let bytes = io::copy(&mut file, &mut hash).map_err(error())?;
        Ok(Self { path: path.to_owned(), sha256: format!("{:x}", hash.finalize()), bytes })
    }

    /// What it is called on the remote host.
    pub(super) fn name(&self) -> String {
        name(&self.sha256)
    }

    pub(super) fn is(&self, sha256: &str) -> bool {
        self.sha256 == sha256
    }

    /// Writes it to `out`: exactly as many bytes as were announced, for the remote host waits for those.
    pub(super) fn send(&self, out: &mut impl io::Write) -> io::Result<()> {
        let file = io::Read::take(File::open(&self.path)?, self.bytes);
        let sent = io::copy(&mut io::BufReader::new(file), out)?;
        if sent == self.bytes { out.flush() } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }
}

/// A file's name by its hash.
fn name(sha256: &str) -> String {
    format!("bench-factor-{sha256}")
}

/// The script: takes what it lacks of `executables`, and becomes the agent that `agent` is.
pub(super) fn script(executables: &BTreeMap<String, Executable>, agent: &Executable) -> String {
    let mut lines = vec![
        "set -eu".to_owned(),
        "umask 077".to_owned(),
        format!(
            "for p in {}; do command -v \"$p\" >/dev/null || {{ echo \"{PREFIX}lacks $p\"; exit 1; }}; done",
            NEEDED.join(" ")
        ),
        format!("d=\"{FOLDER}\""),
        "mkdir -p \"$d\"".to_owned(),
        "cd \"$d\"".to_owned(),
        "is() { echo \"$1  $2\" | sha256sum --check --status 2>/dev/null; }".to_owned(),
        format!(
            "take() {{ f=\"bench-factor-$1\"; is \"$1\" \"$f\" && return; echo \"{PREFIX}wants $1\"; head -c \"$2\" >\"$f.new\"; \
             is \"$1\" \"$f.new\" || {{ echo \"{PREFIX}damaged $1\"; exit 1; }}; chmod 700 \"$f.new\"; mv \"$f.new\" \"$f\"; }}"
        ),
    ];
    lines.extend(executables.values().map(|executable| {
        let Executable { sha256, bytes, .. } = executable;
        format!("take {sha256} {bytes}")
    }));
    lines.push(format!("echo \"{PREFIX}complete\""));
    lines.push(format!("exec \"$d/{}\" host", agent.name()));
    lines.join("\n")
}

/// What a line of the script says; `None` for what somebody else printed.
pub(super) fn hear(line: &str) -> Option<Said<'_>> {
    let said = line.strip_prefix(PREFIX)?;
    match said.split_once(' ') {
        Some(("wants", sha256)) => Some(Said::Wants(sha256)),
        Some(("lacks", program)) => Some(Said::Lacks(program)),
        Some(("damaged", sha256)) => Some(Said::Damaged(sha256)),
        Some(_) => None,
        None => (said == "complete").then_some(Said::Complete),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::{BufRead as _, BufReader, Read as _, Write as _},
        os::unix::fs::PermissionsExt as _,
        process::{Child, Command, Stdio},
    };

    use super::*;

    /// A program that prints its argument, and its place.
    fn executable() -> (tempfile::TempDir, Executable) {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("program");
        fs::write(&path, "#!/bin/sh\necho \"I am a $1\"\n").unwrap();
        let executable = Executable::read(&path).unwrap();
        (place, executable)
    }

    fn start(executable: &Executable, place: &Path) -> Child {
        let script = script(&BTreeMap::from([("current".to_owned(), executable.clone())]), executable);
        let mut command = Command::new("sh");
        command.args(["-c", &script]).env("XDG_CACHE_HOME", place);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap()
    }

    #[test]
    fn an_executable_crosses_once_and_is_started() {
        let (place, executable) = executable();
        // given a host without it
        let mut child = start(&executable, place.path());
        let mut said = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        assert_eq!(hear(line.trim_end()), Some(Said::Wants(&executable.sha256)));
        // when it is sent
        executable.send(child.stdin.as_mut().unwrap()).unwrap();
        let mut rest = String::new();
        said.read_to_string(&mut rest).unwrap();
        // then it runs there
        assert_eq!(rest, format!("{PREFIX}complete\nI am a host\n"));
        assert!(child.wait().unwrap().success());
        let kept = place.path().join("bench-factor").join(executable.name());
        assert_eq!(fs::metadata(kept).unwrap().permissions().mode() & 0o777, 0o700);
        // and the next time it is there
        let output = start(&executable, place.path()).wait_with_output().unwrap();
        assert_eq!(String::from_utf8(output.stdout).unwrap(), rest);
    }

    #[test]
    fn what_comes_damaged_is_not_started() {
        let (place, executable) = executable();
        let mut child = start(&executable, place.path());
        let wrong = vec![b'x'; executable.bytes as usize];
        child.stdin.as_mut().unwrap().write_all(&wrong).unwrap();
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8(output.stdout).unwrap();
        let last = said.lines().last().and_then(hear);
        assert_eq!(last, Some(Said::Damaged(&executable.sha256)));
        assert!(!output.status.success());
        assert!(!place.path().join("bench-factor").join(executable.name()).exists());
    }

    #[test]
    fn what_a_login_prints_is_passed_over() {
        assert_eq!(hear("Welcome!"), None);
        assert_eq!(hear("bench-factor: is great"), None);
        assert_eq!(hear("bench-factor: lacks head"), Some(Said::Lacks("head")));
    }
}
