//! File systems of a test's own: small ones and read-only ones, in a mount namespace that ends with the test.

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use tokio::{
    io::{AsyncBufReadExt as _, BufReader},
    process::{Child, Command},
};

/// A process that holds a mount namespace, and with it what is mounted there.
pub(crate) struct Mounts {
    holder: Child,
}

impl Mounts {
    /// Runs a shell script of mounts as root of a namespace; `None`, with the reason printed, where that is
    /// not possible.
    pub(crate) async fn new(script: &str, folder: &Path) -> Option<Self> {
        let mut command = Command::new("unshare");
        // The holder lives until its standard input is closed with this handle.
        command.args(["-rm", "sh", "-ec", &format!("{script}\necho ready\nread end"), "sh"]).arg(folder);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut holder = command.spawn().ok()?;
        let mut first = String::new();
        BufReader::new(holder.stdout.take()?).read_line(&mut first).await.ok()?;
        if first != "ready\n" {
            return skip("no mount namespace can be made here");
        }
        Some(Self { holder })
    }

    /// A tmpfs with these options at `folder`.
    pub(crate) async fn tmpfs(folder: &Path, options: &str) -> Option<Self> {
        std::fs::create_dir_all(folder).unwrap();
        Self::new(&format!("mount -t tmpfs -o {options} tmpfs \"$1\""), folder).await
    }

    /// `program` within the namespace.
    pub(crate) fn within(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.pid(), "--user", "--mount", "--preserve-credentials", program]);
        command
    }

    /// What a path means there.
    pub(crate) fn see(&self, path: &Path) -> PathBuf {
        Path::new("/proc").join(self.pid()).join("root").join(path.strip_prefix("/").unwrap())
    }

    fn pid(&self) -> String {
        self.holder.id().unwrap().to_string()
    }
}

pub(crate) fn skip<T>(reason: &str) -> Option<T> {
    // Written past the harness, which would hide it: CI counts these lines.
    let _ = writeln!(std::io::stderr(), "skipped: {reason}");
    None
}
