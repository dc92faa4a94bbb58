//! Every program that can do the work, as one table: what it is like, how its server is started, and the
//! commands that are timed. A program that is not in the table is not known; adding one adds a row.
//!
//! A session is always the same: the server starts and gets ready, the clock starts, the commands run, the
//! clock stops when all have ended well, the server ends or is ended.

mod image;
mod ketch;
mod others;
mod rsync;
mod ssh;
mod tar;

use std::{
    fmt,
    net::IpAddr,
    path::{Path, PathBuf},
    process::Command,
};

use serde::Deserialize;

use super::{error::ToolsError, plan::Scenario, target::FileSystem};

/// Last component of the source, and of the copy beneath the target.
pub(crate) const TREE: &str = "tree";

/// A row of the table.
#[derive(Clone, Copy, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Tool(&'static Adapter);

/// What a program is like and how it is run.
pub(crate) struct Adapter {
    pub(crate) name: &'static str,
    /// What must be installed.
    pub(crate) needs: &'static [&'static str],
    /// Whether what crosses the wire is encrypted.
    pub(crate) encrypted: bool,
    /// Whether it moves less than a whole file that has changed.
    pub(crate) delta: Delta,
    /// What survives a power cut when it exits.
    pub(crate) durability: Durability,
    pub(crate) source: Source,
    /// Whether its server changes users or groups when it is root, which the root of a user namespace may not.
    pub(crate) changes_user: bool,
    /// The only file system it can copy to, if there is one.
    pub(crate) only_on: Option<FileSystem>,
    /// Whether it can copy to where its own earlier copy is.
    pub(crate) repeats: bool,
    /// Whether it removes from the target what the source lacks.
    pub(crate) deletes: bool,
    /// What it leaves beside the files it copies, as digest patterns.
    pub(crate) sidecars: &'static [&'static str],
    /// Which side the timed commands are.
    pub(crate) timed: Timed,
    /// How ketch is to move it, where the program is ketch.
    pub(crate) ketch: Ketch,
    /// What answers them, if anything must.
    pub(crate) server: Option<Serve>,
    /// What is timed, all started at once. The text is what made the server ready.
    pub(crate) commands: fn(&Setup, &str) -> Result<Vec<Command>, ToolsError>,
}

/// Describes a tool's server for one session.
type Serve = fn(&Setup) -> Result<Server, ToolsError>;

/// Whether a program moves less than a whole file that has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Delta {
    /// Parts of files.
    Parts,
    /// Whole files, but only those that have changed.
    Files,
    /// Everything, always.
    Nothing,
}

/// What survives a power cut when a program has exited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Durability {
    /// What the kernel has happened to write.
    None,
    /// Everything, synced once at the end.
    Session,
    /// Everything, each file synced by itself.
    File,
}

/// What a program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Source {
    /// A folder.
    Folder,
    /// A read-only subvolume of a Btrfs image.
    Subvolume,
    /// An ext4 image that holds the tree.
    Image,
}

/// Which side the timed commands are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Timed {
    /// They receive, and a server sends.
    Receiver,
    /// They send, and a server receives.
    Sender,
    /// They do both by themselves, without a network.
    Both,
}

/// One end that is started before the clock.
pub(crate) struct Server {
    pub(crate) command: Command,
    pub(crate) ready: Ready,
    pub(crate) ends: Ends,
}

/// When a server can be used.
#[derive(Clone, Copy)]
pub(crate) enum Ready {
    /// When its host listens on the session's TCP port.
    Listens,
    /// When this finds something in its output, which the timed commands are given.
    Says(fn(&str) -> Option<String>),
}

/// How a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Ends {
    /// By itself, after one session.
    Itself,
    /// When it is told to.
    Told,
}

/// What a session is about. Paths are absolute.
pub(crate) struct Setup {
    /// The program that does it.
    pub(crate) adapter: &'static Adapter,
    /// The tree to copy, called [`TREE`]; an image for those that read one.
    pub(crate) source: PathBuf,
    /// The folder to copy it into.
    pub(crate) target: PathBuf,
    /// Keys, state and lists go here; kept between the sessions of one observation.
    pub(crate) scratch: PathBuf,
    /// The server's side, as the other side dials it; another one each session.
    pub(crate) address: IpAddr,
    /// A port on which nobody listens yet; another one each session.
    pub(crate) port: u16,
    /// Whether the target is to become equal to the source, an earlier copy being there.
    pub(crate) again: bool,
    /// The `ketch` program.
    pub(crate) ketch: PathBuf,
    /// This program.
    pub(crate) bench_factor: PathBuf,
}

/// How ketch is told to move a tree.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ketch {
    pub(crate) transport: &'static str,
    pub(crate) layout: &'static str,
    /// Its own choice where there is none.
    pub(crate) controller: Option<&'static str>,
    /// As the controller.
    pub(crate) connections: Option<&'static str>,
    /// As the controller.
    pub(crate) udp_buffers: Option<&'static str>,
}

const TCP: Ketch =
    Ketch { transport: "tcp", layout: "bundle", controller: None, connections: None, udp_buffers: None };

const QUIC: Ketch = Ketch { transport: "quic", ..TCP };

/// What needs to be the same on every machine, to compare numbers of connections.
const TCP_CUBIC: Ketch = Ketch { controller: Some("cubic"), ..TCP };

const QUIC_CUBIC: Ketch = Ketch { controller: Some("cubic"), ..QUIC };

/// The most usual row, to be changed where a program differs.
const PLAIN: Adapter = Adapter {
    name: "",
    needs: &[],
    encrypted: true,
    delta: Delta::Nothing,
    durability: Durability::None,
    source: Source::Folder,
    changes_user: false,
    only_on: None,
    repeats: true,
    deletes: false,
    sidecars: &[],
    timed: Timed::Receiver,
    ketch: TCP,
    server: None,
    commands: |_, _| Ok(vec![]),
};

const KETCH: Adapter = Adapter {
    needs: &["ketch"],
    delta: Delta::Files,
    server: Some(ketch::send),
    commands: ketch::receive,
    ..PLAIN
};

const KETCH_SYNC: Adapter = Adapter {
    delta: Delta::Parts,
    deletes: true,
    server: Some(ketch::serve),
    commands: ketch::sync,
    ..KETCH
};

const RSYNC: Adapter = Adapter { needs: &["rsync"], delta: Delta::Parts, deletes: true, ..PLAIN };

const RSYNC_SSH: Adapter = Adapter {
    needs: &["rsync", "sshd", "ssh", "ssh-keygen"],
    changes_user: true,
    server: Some(ssh::serve),
    ..RSYNC
};

const SFTP: Adapter =
    Adapter { needs: &["sftp", "sshd", "ssh-keygen"], changes_user: true, server: Some(ssh::serve), ..PLAIN };

const FFSYNC: Adapter = Adapter {
    needs: &["ffsync"],
    delta: Delta::Parts,
    deletes: true,
    sidecars: &[".ffsync-*", "*.ffsync-index", "*.ffsync-tmp"],
    timed: Timed::Sender,
    server: Some(others::ffsync_receive),
    ..PLAIN
};

static TABLE: &[Adapter] = &[
    Adapter { name: "ketch-tcp", ketch: TCP, ..KETCH },
    Adapter { name: "ketch-tcp-cubic", ketch: TCP_CUBIC, ..KETCH },
    Adapter { name: "ketch-tcp-cubic-1", ketch: Ketch { connections: Some("1"), ..TCP_CUBIC }, ..KETCH },
    Adapter { name: "ketch-tcp-cubic-4", ketch: Ketch { connections: Some("4"), ..TCP_CUBIC }, ..KETCH },
    Adapter { name: "ketch-tcp-cubic-8", ketch: Ketch { connections: Some("8"), ..TCP_CUBIC }, ..KETCH },
    Adapter { name: "ketch-tcp-cubic-16", ketch: Ketch { connections: Some("16"), ..TCP_CUBIC }, ..KETCH },
    Adapter { name: "ketch-tcp-bbr", ketch: Ketch { controller: Some("bbr"), ..TCP }, ..KETCH },
    Adapter { name: "ketch-tcp-4", ketch: Ketch { connections: Some("4"), ..TCP }, ..KETCH },
    Adapter { name: "ketch-tcp-8", ketch: Ketch { connections: Some("8"), ..TCP }, ..KETCH },
    Adapter { name: "ketch-tcp-files", ketch: Ketch { layout: "files", ..TCP }, ..KETCH },
    Adapter { name: "ketch-tcp-session", ketch: TCP, durability: Durability::Session, ..KETCH },
    Adapter { name: "ketch-quic", ketch: QUIC, ..KETCH },
    Adapter { name: "ketch-quic-cubic", ketch: QUIC_CUBIC, ..KETCH },
    Adapter { name: "ketch-quic-cubic-1", ketch: Ketch { connections: Some("1"), ..QUIC_CUBIC }, ..KETCH },
    Adapter { name: "ketch-quic-cubic-4", ketch: Ketch { connections: Some("4"), ..QUIC_CUBIC }, ..KETCH },
    Adapter { name: "ketch-quic-cubic-8", ketch: Ketch { connections: Some("8"), ..QUIC_CUBIC }, ..KETCH },
    Adapter { name: "ketch-quic-cubic-16", ketch: Ketch { connections: Some("16"), ..QUIC_CUBIC }, ..KETCH },
    Adapter { name: "ketch-quic-bbr", ketch: Ketch { controller: Some("bbr"), ..QUIC }, ..KETCH },
    Adapter { name: "ketch-quic-4", ketch: Ketch { connections: Some("4"), ..QUIC }, ..KETCH },
    Adapter { name: "ketch-quic-system", ketch: Ketch { udp_buffers: Some("system"), ..QUIC }, ..KETCH },
    Adapter { name: "ketch-quic-files", ketch: Ketch { layout: "files", ..QUIC }, ..KETCH },
    Adapter { name: "ketch-quic-session", ketch: QUIC, durability: Durability::Session, ..KETCH },
    Adapter { name: "ketch-sync-tcp", ketch: TCP, ..KETCH_SYNC },
    Adapter { name: "ketch-sync-quic", ketch: QUIC, ..KETCH_SYNC },
    Adapter { name: "ketch-sync-tcp-session", ketch: TCP, durability: Durability::Session, ..KETCH_SYNC },
    Adapter {
        name: "rsync-local",
        encrypted: false,
        timed: Timed::Both,
        commands: |setup, _| rsync::local(setup),
        ..RSYNC
    },
    Adapter {
        name: "rsync-daemon",
        encrypted: false,
        changes_user: true,
        server: Some(rsync::daemon),
        commands: |setup, _| rsync::from_daemon(setup, &[]),
        ..RSYNC
    },
    Adapter {
        name: "rsync-daemon-z",
        encrypted: false,
        server: Some(rsync::daemon),
        commands: |setup, _| rsync::from_daemon(setup, &["--compress"]),
        ..RSYNC
    },
    Adapter { name: "rsync-ssh", commands: |setup, _| rsync::over_ssh(setup, &[]), ..RSYNC_SSH },
    Adapter {
        name: "rsync-ssh-fsync",
        durability: Durability::File,
        commands: |setup, _| rsync::over_ssh(setup, &["--fsync"]),
        ..RSYNC_SSH
    },
    Adapter {
        name: "rsync-ssh-8",
        // It deletes within its parts only, and the top of the tree is in none.
        deletes: false,
        commands: |setup, _| rsync::in_parts(setup, 8),
        ..RSYNC_SSH
    },
    Adapter { name: "sftp", commands: |setup, _| ssh::sftp(setup, 1), ..SFTP },
    Adapter { name: "sftp-8", commands: |setup, _| ssh::sftp(setup, 8), ..SFTP },
    Adapter {
        name: "tar-tcp",
        needs: &["tar"],
        encrypted: false,
        server: Some(tar::serve),
        commands: |setup, _| tar::from_tcp(setup),
        ..PLAIN
    },
    Adapter {
        name: "tar-ssh",
        needs: &["tar", "sshd", "ssh", "ssh-keygen"],
        changes_user: true,
        server: Some(ssh::serve),
        commands: |setup, _| tar::over_ssh(setup),
        ..PLAIN
    },
    Adapter {
        name: "sendme",
        needs: &["sendme"],
        repeats: false,
        server: Some(others::sendme_send),
        commands: others::sendme_receive,
        ..PLAIN
    },
    Adapter { name: "ffsync", commands: |setup, _| others::ffsync_send(setup, 1), ..FFSYNC },
    Adapter { name: "ffsync-8", commands: |setup, _| others::ffsync_send(setup, 8), ..FFSYNC },
    Adapter {
        name: "croc",
        needs: &["croc"],
        server: Some(others::croc_send),
        commands: |setup, _| others::croc_receive(setup),
        ..PLAIN
    },
    Adapter {
        name: "btrfs-send",
        needs: &["btrfs", "mkfs.btrfs"],
        encrypted: false,
        source: Source::Subvolume,
        only_on: Some(FileSystem::Btrfs),
        repeats: false,
        server: Some(image::btrfs_send),
        commands: |setup, _| image::btrfs_receive(setup),
        ..PLAIN
    },
    Adapter {
        name: "image-tcp",
        needs: &["mkfs.ext4", "mount"],
        encrypted: false,
        source: Source::Image,
        repeats: false,
        server: Some(image::send),
        commands: |setup, _| image::receive_and_mount(setup),
        ..PLAIN
    },
];

/// Every tool, in the order of the table.
pub(crate) fn all() -> impl Iterator<Item = Tool> {
    TABLE.iter().map(Tool)
}

impl Tool {
    /// Its row.
    pub(crate) fn adapter(self) -> &'static Adapter {
        self.0
    }

    /// Why it cannot be run in `scenario` on `target`, wherever that is; installed or not.
    pub(crate) fn unfit(self, scenario: Scenario, target: FileSystem) -> Option<String> {
        let Adapter { only_on, repeats, source, .. } = self.0;
        if let Some(only) = only_on.filter(|&only| only != target) {
            return Some(format!("copies to {only} only"));
        }
        if *source == Source::Image && target == FileSystem::Folder {
            return Some("mounts its copy, which a plain folder is not made for".into());
        }
        let cannot = scenario.has_copy() && !repeats;
        cannot.then(|| "cannot copy to where its own copy is".into())
    }
}

impl Setup {
    /// Where the copy of the tree is expected.
    pub(crate) fn copy(&self) -> PathBuf {
        self.target.join(TREE)
    }

    /// The folder that holds the source.
    fn source_parent(&self) -> &Path {
        self.source.parent().expect("the source is an absolute path below the scratch folder")
    }

    /// `bench-factor pipe`, which joins a command's input and output to a TCP connection.
    fn pipe(&self, role: &str) -> Command {
        let mut pipe = Command::new(&self.bench_factor);
        pipe.args(["pipe", role, &format!("{}:{}", bracketed(self.address), self.port), "--"]);
        pipe
    }
}

/// An address as it stands before a colon and a port.
fn bracketed(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

impl TryFrom<String> for Tool {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        all().find(|tool| tool.0.name == name).ok_or_else(|| {
            let known: Vec<_> = TABLE.iter().map(|adapter| adapter.name).collect();
            format!("no tool is called {name}; known are {}", known.join(", "))
        })
    }
}

impl PartialEq for Tool {
    fn eq(&self, other: &Self) -> bool {
        self.0.name == other.0.name
    }
}

impl Eq for Tool {}

impl fmt::Debug for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.name)
    }
}

impl fmt::Display for Tool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.0.name)
    }
}

impl fmt::Display for Delta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Parts => "parts",
            Self::Files => "files",
            Self::Nothing => "none",
        })
    }
}

impl fmt::Display for Durability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::None => "none",
            Self::Session => "session",
            Self::File => "file",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_is_found_by_its_name_alone() {
        for tool in all() {
            assert_eq!(Tool::try_from(tool.adapter().name.to_owned()), Ok(tool));
            assert_eq!(all().filter(|&other| other == tool).count(), 1, "{tool}");
        }
        let error = Tool::try_from("rsink".to_owned()).unwrap_err();
        assert!(error.contains("rsink") && error.contains("rsync-ssh"), "{error}");
    }

    #[test]
    fn a_tool_has_a_server_unless_it_does_both_ends_itself() {
        for tool in all() {
            let Adapter { server, timed, needs, .. } = tool.adapter();
            assert_eq!(server.is_none(), *timed == Timed::Both, "{tool}");
            assert!(!needs.is_empty(), "{tool}");
        }
    }

    #[test]
    fn the_guide_names_every_tool() {
        let guide = include_str!("../../../docs/benchmarks/tools.md");
        for tool in all() {
            assert!(guide.contains(&format!("`{tool}`")), "{tool}");
        }
    }

    #[test]
    fn a_tool_says_why_it_is_unfit() {
        let tool = |name: &str| Tool::try_from(name.to_owned()).unwrap();
        let unfit = |name, scenario, target| tool(name).unfit(scenario, target);
        assert_eq!(unfit("rsync-ssh", Scenario::Unchanged, FileSystem::Ext4), None);
        assert_eq!(unfit("btrfs-send", Scenario::Fresh, FileSystem::Btrfs), None);
        assert!(unfit("btrfs-send", Scenario::Fresh, FileSystem::Ext4).unwrap().contains("btrfs"));
        assert!(unfit("sendme", Scenario::Unchanged, FileSystem::Ext4).is_some());
        assert!(unfit("image-tcp", Scenario::Fresh, FileSystem::Folder).is_some());
    }

    #[test]
    fn an_address_of_either_family_stands_before_a_port() {
        assert_eq!(bracketed("127.0.0.1".parse().unwrap()), "127.0.0.1");
        assert_eq!(bracketed("fd00::1".parse().unwrap()), "[fd00::1]");
    }
}
