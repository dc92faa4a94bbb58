//! The surroundings of a sync: a node that serves, and one that comes.

use std::{
    ffi::{OsStr, OsString},
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use ketch::{
    swarm::TransportKind,
    transfer::Direction::{self, Pull, Push},
};
use serde_json::Value;
use tokio::process::Command;

use crate::{
    mounts::Mounts,
    place::{Place, listen_address},
    process::{Ended, Ketch, ketch, with_arguments},
};

/// A node that serves `shared` of a place under the name `docs`.
pub(crate) struct Serving {
    pub(crate) place: Place,
    pub(crate) serve: Ketch,
    pub(crate) peer: String,
    pub(crate) address: String,
    /// What it was started with.
    arguments: Vec<OsString>,
}

impl Serving {
    /// Serves `docs` with these rights to the nodes `comer` and `other`.
    pub(crate) async fn with(transport: TransportKind, rights: &str) -> Self {
        let place = Place::new();
        fs::create_dir(place.path("shared")).unwrap();
        let arguments = Self::arguments(&place, transport, rights).await;
        Self::start(place, arguments).await
    }

    /// Serves `docs` of a place in surroundings of its own.
    pub(crate) async fn within(place: Place, mounts: &Mounts, rights: &str) -> Self {
        let arguments = Self::arguments(&place, TransportKind::Tcp, rights).await;
        let command = mounts.within(env!("CARGO_BIN_EXE_ketch"));
        Self::serving(with_arguments(command, &place.path("server"), &each(&arguments)), place, arguments)
            .await
    }

    /// What a node is told that gives rights to the nodes `comer` and `other`.
    async fn arguments(place: &Place, transport: TransportKind, rights: &str) -> Vec<OsString> {
        let comer = identity(place, "comer").await;
        let other = identity(place, "other").await;
        let mut share = OsString::from("docs=");
        share.push(place.path("shared"));
        let mut arguments: Vec<OsString> = ["serve", "--json", "--listen"].map(Into::into).into();
        arguments.extend([listen_address(transport).into(), "--share".into(), share]);
        for node in [comer, other] {
            arguments.extend(["--allow".into(), format!("{node}=docs:{rights}").into()]);
        }
        arguments
    }

    /// Serves `docs` with a trash, as a file says: the node `comer` may mirror it.
    pub(crate) async fn with_trash() -> Self {
        let place = Place::new();
        fs::create_dir(place.path("shared")).unwrap();
        let comer = identity(&place, "comer").await;
        let config = place.path("serve.toml");
        let text = format!(
            "listen = [\"/ip4/127.0.0.1/tcp/0\"]\n\
             [share.docs]\npath = \"shared\"\ntrash = \"trash\"\nexclude = [\"*.own\"]\nallow.{comer} = \"mirror\"\n"
        );
        fs::write(&config, text).unwrap();
        let arguments = ["serve".into(), "--json".into(), "--config".into(), config.into()];
        Self::start(place, arguments.into()).await
    }

    async fn start(place: Place, arguments: Vec<OsString>) -> Self {
        let command = ketch(&place.path("server"), &each(&arguments));
        Self::serving(command, place, arguments).await
    }

    async fn serving(command: Command, place: Place, arguments: Vec<OsString>) -> Self {
        let mut serve = Ketch::start(command);
        let serving = serve.event("serving").await;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let (peer, address) = (text(&serving["peer_id"]), text(&serving["addresses"][0]));
        Self { place, serve, peer, address, arguments }
    }

    /// Kills it, and starts it again at the same address; gives back what the killed one said.
    pub(crate) async fn kill_and_start_again(&mut self) -> Ended {
        let mut arguments = self.arguments.clone();
        arguments[3] = self.address.clone().into();
        self.serve.kill().await;
        let mut again = Ketch::start(ketch(&self.place.path("server"), &each(&arguments)));
        again.event("serving").await;
        std::mem::replace(&mut self.serve, again).end().await
    }

    pub(crate) fn shared(&self) -> PathBuf {
        self.place.path("shared")
    }

    /// `PEER:docs/path`.
    pub(crate) fn docs(&self, path: &str) -> String {
        format!("{}:docs{path}", self.peer)
    }

    /// A sync of the node `comer`.
    pub(crate) fn sync(
        &self,
        source: impl Into<OsString>,
        target: impl Into<OsString>,
        options: &[&str],
    ) -> Ketch {
        self.sync_as("comer", source, target, options)
    }

    pub(crate) fn sync_as(
        &self,
        node: &str,
        source: impl Into<OsString>,
        target: impl Into<OsString>,
        options: &[&str],
    ) -> Ketch {
        let arguments = self.sync_arguments(source, target, options);
        Ketch::start(ketch(&self.place.path(node), &each(&arguments)))
    }

    /// What a sync is told.
    fn sync_arguments(
        &self,
        source: impl Into<OsString>,
        target: impl Into<OsString>,
        options: &[&str],
    ) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["sync".into(), source.into(), target.into()];
        arguments.extend(["--json", "--address", &self.address].map(Into::into));
        if !options.contains(&"--durability") {
            // A sync of a busy disk proves nothing here and takes seconds.
            arguments.extend(["--durability", "none"].map(Into::into));
        }
        arguments.extend(options.iter().map(Into::into));
        arguments
    }

    /// Pulls the share into the target, in surroundings of its own.
    pub(crate) async fn pull_within(&self, mounts: &Mounts, options: &[&str]) -> Ended {
        self.sync_within(mounts, self.docs(""), self.place.target(), options).await
    }

    /// A sync of the node `comer`, in surroundings of its own.
    pub(crate) async fn sync_within(
        &self,
        mounts: &Mounts,
        source: impl Into<OsString>,
        target: impl Into<OsString>,
        options: &[&str],
    ) -> Ended {
        let arguments = self.sync_arguments(source, target, options);
        let command = mounts.within(env!("CARGO_BIN_EXE_ketch"));
        Ketch::start(with_arguments(command, &self.place.path("comer"), &each(&arguments))).end().await
    }

    /// Pulls the share into the target.
    pub(crate) async fn pull(&self, options: &[&str]) -> Ended {
        self.sync(self.docs(""), self.place.target(), options).end().await
    }

    /// Pushes the source into the share.
    pub(crate) async fn push(&self, options: &[&str]) -> Ended {
        self.sync(self.place.source(), self.docs(""), options).end().await
    }
}

/// The two trees of a sync, one of which is served.
pub(crate) struct Trees {
    pub(crate) serving: Serving,
    pub(crate) direction: Direction,
}

impl Trees {
    /// Serves one with the right to do so.
    pub(crate) async fn new(transport: TransportKind, direction: Direction) -> Self {
        Self { serving: Serving::with(transport, "read,write").await, direction }
    }

    pub(crate) fn source(&self) -> PathBuf {
        match self.direction {
            Push => self.serving.place.source(),
            Pull => self.serving.shared(),
        }
    }

    pub(crate) fn target(&self) -> PathBuf {
        match self.direction {
            Push => self.serving.shared(),
            Pull => self.serving.place.target(),
        }
    }

    /// A sync of the node `comer`.
    pub(crate) fn sync(&self, options: &[&str]) -> Ketch {
        let docs = self.serving.docs("");
        match self.direction {
            Push => self.serving.sync(self.source(), docs, options),
            Pull => self.serving.sync(docs, self.target(), options),
        }
    }
}

/// The PeerId of a node of a place.
pub(crate) async fn identity(place: &Place, node: &str) -> String {
    let ended = Ketch::start(ketch(&place.path(node), &[&"id", &"--json"])).end().await.expect(0);
    let id: Value = serde_json::from_str(&ended.stdout[0]).unwrap();
    id["peer_id"].as_str().unwrap().to_owned()
}

fn each(arguments: &[OsString]) -> Vec<&dyn AsRef<OsStr>> {
    arguments.iter().map(|argument| argument as &dyn AsRef<OsStr>).collect()
}

/// The changes that were told, with how.
pub(crate) fn changes(ended: &Ended) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut changes: Vec<_> =
        ended.events("changed").iter().map(|event| (text(&event["path"]), text(&event["change"]))).collect();
    changes.sort();
    changes
}

/// A number of the account of a session.
pub(crate) fn number(ended: &Ended, name: &str) -> u64 {
    ended.event("done")[name].as_u64().unwrap()
}

/// Writes a file and what is above it.
pub(crate) fn write(root: &Path, name: &str, content: &str) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Waits until what is stored from now on is clearly younger than what was written so far, as it is where nobody copies
/// a file the moment it was made: the index trusts no other times.
pub(crate) async fn settle() {
    tokio::time::sleep(Duration::from_millis(50)).await;
}
