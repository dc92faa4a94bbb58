//! [`ServeConfig`]: what `ketch serve` is told by its configuration file and its command line together.
//!
//! ```toml
//! listen = ["/ip4/0.0.0.0/tcp/4001"]
//!
//! [share.photos]
//! path = "/srv/photos"
//! trash = "/srv/photos-trash"
//! exclude = ["*.tmp"]
//! allow.laptop = "read"
//! allow.12D3KooW… = "read,mirror"
//! ```
//!
//! Relative paths are meant from the folder of the file. A word that is not known, and a name that is not
//! in the address book, are errors: nothing is served with less protection than its owner wrote down.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
    str::FromStr,
};

use ketch_protocol::message::ShareName;
use serde::Deserialize;

use crate::{
    state::{StateFolder, show},
    swarm::{Multiaddr, PeerId, address::split_peer},
    trust::{PeerReference, Rights},
};

/// Longest configuration file that is read, in bytes: some thousand shares.
const CONFIG_BYTES: u64 = 1024 * 1024;

/// What to serve, and where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ServeConfig {
    /// Addresses to listen on; the usual ones if none is given.
    pub listen: Vec<Multiaddr>,
    /// The shares by name.
    pub shares: BTreeMap<ShareName, ShareConfig>,
}

/// One share as its owner wrote it down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareConfig {
    /// The directory.
    pub path: PathBuf,
    /// Where what a push removes or replaces goes.
    pub trash: Option<PathBuf>,
    /// Lines of gitignore syntax: what they match is neither sent nor changed.
    pub exclude: Vec<String>,
    /// Who may do what.
    pub allow: Vec<(PeerReference, Rights)>,
}

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file can't be read.
    #[error("reading the configuration {}", show(.path))]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The file says something that makes no sense.
    #[error("the configuration {}: {why}", show(.path))]
    Senseless {
        /// Which file.
        path: PathBuf,
        /// What, and where.
        why: String,
    },
    /// One name for two trees.
    #[error("the share \"{0}\" is named twice")]
    Twice(ShareName),
    /// A right on nothing.
    #[error("a right is given on \"{0}\", which is no share")]
    NoShare(ShareName),
}

impl ServeConfig {
    /// Reads a configuration file.
    pub fn read(file: &Path) -> Result<Self, ConfigError> {
        read_file(file, |text| parse(text, file.parent().unwrap_or(Path::new(""))))
    }

    /// Adds a share.
    pub fn share(&mut self, name: ShareName, path: PathBuf) -> Result<(), ConfigError> {
        if self.shares.contains_key(&name) {
            return Err(ConfigError::Twice(name));
        }
        let share = ShareConfig { path, trash: None, exclude: Vec::new(), allow: Vec::new() };
        self.shares.insert(name, share);
        Ok(())
    }

    /// Gives a peer rights on a share.
    pub fn allow(
        &mut self,
        peer: PeerReference,
        share: &ShareName,
        rights: Rights,
    ) -> Result<(), ConfigError> {
        let found = self.shares.get_mut(share).ok_or_else(|| ConfigError::NoShare(share.clone()))?;
        found.allow.push((peer, rights));
        Ok(())
    }
}

/// What every command of a node goes by, from `config.toml` in its state folder.
///
/// ```toml
/// relays = ["/dns4/relay.example/tcp/5383/p2p/12D3KooW…"]
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeConfig {
    /// Addresses of relays, each with the PeerId that stands at its end.
    pub relays: Vec<(PeerId, Multiaddr)>,
}

impl NodeConfig {
    /// Reads the file of a state folder. Where there is none, nothing is configured.
    pub fn read(state: &StateFolder) -> Result<Self, ConfigError> {
        match read_file(&state.path().join("config.toml"), parse_node) {
            Err(ConfigError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                Ok(Self::default())
            }
            read => read,
        }
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredNode {
    #[serde(default)]
    relays: Vec<String>,
}

fn parse_node(text: &str) -> Result<NodeConfig, String> {
    let stored: StoredNode = toml::from_str(text).map_err(|error| place_and_message(text, &error))?;
    let relays =
        stored.relays.iter().map(|relay| relay_address(relay).map_err(|why| format!("in relays: {why}")));
    Ok(NodeConfig { relays: relays.collect::<Result<_, _>>()? })
}

/// The address of a relay with the PeerId at its end, taken apart.
pub fn relay_address(text: &str) -> Result<(PeerId, Multiaddr), String> {
    let shown = || ketch_protocol::path::escape(text.as_bytes());
    let address: Multiaddr =
        text.parse().map_err(|error| format!("\"{}\" is no address: {error}", shown()))?;
    let missing = || format!("\"{}\" does not say which relay is meant: it must end in /p2p/PEERID", shown());
    split_peer(address).ok_or_else(missing)
}

/// Reads and parses a file of bounded length; `parse` says what makes no sense, and where.
pub(crate) fn read_file<T>(
    file: &Path,
    parse: impl FnOnce(&str) -> Result<T, String>,
) -> Result<T, ConfigError> {
    let mut text = String::new();
    let read = File::open(file).and_then(|opened| opened.take(CONFIG_BYTES + 1).read_to_string(&mut text));
    read.map_err(|source| ConfigError::Io { path: file.into(), source })?;
    let parsed = match text.len() as u64 {
        0..=CONFIG_BYTES => parse(&text),
        _ => Err(format!("it has more than {CONFIG_BYTES} bytes")),
    };
    parsed.map_err(|why| ConfigError::Senseless { path: file.into(), why })
}

/// The configuration as it stands in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredConfig {
    #[serde(default)]
    listen: Vec<String>,
    #[serde(default)]
    share: BTreeMap<String, StoredShare>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredShare {
    path: PathBuf,
    trash: Option<PathBuf>,
    #[serde(default)]
    exclude: Vec<String>,
    #[serde(default)]
    allow: BTreeMap<String, String>,
}

fn parse(text: &str, folder: &Path) -> Result<ServeConfig, String> {
    let stored: StoredConfig = toml::from_str(text).map_err(|error| place_and_message(text, &error))?;
    let listen = stored.listen.iter().map(|address| word(address, "listen"));
    let mut config = ServeConfig { listen: listen.collect::<Result<_, _>>()?, shares: BTreeMap::new() };
    for (name, share) in stored.share {
        let within = format!("share.{name}");
        let StoredShare { path, trash, exclude, allow } = share;
        let allow = allow.iter().map(|(peer, rights)| Ok((word(peer, &within)?, word(rights, &within)?)));
        let share = ShareConfig {
            path: folder.join(path),
            trash: trash.map(|trash| folder.join(trash)),
            exclude,
            allow: allow.collect::<Result<_, String>>()?,
        };
        let name = ShareName::parse(&name).map_err(|error| error.to_string())?;
        config.shares.insert(name, share);
    }
    Ok(config)
}

fn word<T: FromStr<Err: std::fmt::Display>>(text: &str, within: &str) -> Result<T, String> {
    let within = ketch_protocol::path::escape(within.as_bytes());
    text.parse().map_err(|error| format!("in {within}: {error}"))
}

/// The line of an error, the field if the line has one, and what is wrong, on one line.
pub(crate) fn place_and_message(text: &str, error: &toml::de::Error) -> String {
    let message = ketch_protocol::path::escape(error.message().as_bytes());
    let Some(before) = error.span().and_then(|span| text.get(..span.start)) else {
        return message.to_string();
    };
    let number = before.matches('\n').count();
    let field = text.lines().nth(number).and_then(|line| line.split_once('=')).map(|(field, _)| field.trim());
    match field.filter(|field| !field.is_empty()) {
        Some(field) => {
            format!("line {}, {}: {message}", number + 1, ketch_protocol::path::escape(field.as_bytes()))
        }
        None => format!("line {}: {message}", number + 1),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn name(text: &str) -> ShareName {
        ShareName::parse(text).unwrap()
    }

    #[test]
    fn a_file_says_what_is_shared_with_whom() {
        let (folder, peer) = (tempfile::tempdir().unwrap(), PeerId::random());
        let file = folder.path().join("serve.toml");
        let text = format!(
            "listen = [\"/ip4/127.0.0.1/tcp/0\"]\n[share.photos]\npath = \"tree\"\ntrash = \"/trash\"\n\
             exclude = [\"*.tmp\"]\nallow.laptop = \"read\"\nallow.{peer} = \"read, mirror\"\n\
             [share.docs]\npath = \"/docs\"\n"
        );
        fs::write(&file, text).unwrap();
        let config = ServeConfig::read(&file).unwrap();
        assert_eq!(config.listen, ["/ip4/127.0.0.1/tcp/0".parse().unwrap()]);
        let photos = &config.shares[&name("photos")];
        assert_eq!(photos.path, folder.path().join("tree"));
        assert_eq!(photos.trash, Some("/trash".into()));
        assert_eq!(photos.exclude, ["*.tmp"]);
        let mut allowed = photos.allow.clone();
        allowed.sort_by_key(|(reference, _)| reference.clone());
        let expected = [
            (PeerReference::Id(peer), "read,mirror".parse().unwrap()),
            (PeerReference::Name("laptop".parse().unwrap()), "read".parse().unwrap()),
        ];
        assert_eq!(allowed, expected);
        assert_eq!(config.shares[&name("docs")].allow, []);
    }

    #[test]
    fn what_is_not_understood_is_named_with_its_line() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("serve.toml");
        let cases = [
            ("[share.a]\npath = \"/a\"\nalow.x = \"read\"\n", "line 3, alow.x"),
            ("[share.a]\n", "path"),
            ("[share.a]\npath = \"/a\"\nallow.x = \"everything\"\n", "everything"),
            ("[share.a]\npath = \"/a\"\nallow.\"x y\" = \"read\"\n", "x y"),
            ("[share.\"a/b\"]\npath = \"/a\"\n", "a/b"),
            ("listen = [\"here\"]\n", "listen"),
            ("[share.a]\npath = \"/a\"\n[share.a]\npath = \"/b\"\n", "line 3"),
            ("\u{1b}", "line 1"),
        ];
        for (text, named) in cases {
            fs::write(&file, text).unwrap();
            let error = ServeConfig::read(&file).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains(&show(&file)), "{text}: {error}");
            assert!(!error.contains(['\u{1b}', '\n']), "{error:?}");
        }
        let missing = ServeConfig::read(&folder.path().join("missing"));
        assert!(matches!(missing, Err(ConfigError::Io { .. })));
    }

    #[test]
    fn relays_of_a_node_stand_in_its_state_folder() {
        let folder = tempfile::tempdir().unwrap();
        let state = StateFolder::locate(Some(folder.path().into()), |_| None).unwrap();
        assert_eq!(NodeConfig::read(&state).unwrap(), NodeConfig::default());
        let (peer, file) = (PeerId::random(), folder.path().join("config.toml"));
        fs::write(&file, format!("relays = [\"/dns4/relay.example/tcp/1/p2p/{peer}\"]\n")).unwrap();
        let relays = vec![(peer, "/dns4/relay.example/tcp/1".parse().unwrap())];
        assert_eq!(NodeConfig::read(&state).unwrap(), NodeConfig { relays });
        for (text, named) in
            [("relay = []", "line 1, relay"), ("relays = [\"/ip4/192.0.2.1/tcp/1\"]", "/p2p/PEERID")]
        {
            fs::write(&file, text).unwrap();
            let error = NodeConfig::read(&state).unwrap_err().to_string();
            assert!(error.contains(named) && error.contains(&show(&file)), "{error}");
        }
    }

    #[test]
    fn the_command_line_adds_and_contradicts_nothing() {
        let mut config = ServeConfig::default();
        config.share(name("docs"), "/docs".into()).unwrap();
        assert!(matches!(config.share(name("docs"), "/other".into()), Err(ConfigError::Twice(_))));
        let (peer, rights): (PeerReference, Rights) = ("laptop".parse().unwrap(), "read".parse().unwrap());
        config.allow(peer.clone(), &name("docs"), rights).unwrap();
        assert_eq!(config.shares[&name("docs")].allow, [(peer.clone(), rights)]);
        assert!(matches!(config.allow(peer, &name("none"), rights), Err(ConfigError::NoShare(_))));
    }
}
