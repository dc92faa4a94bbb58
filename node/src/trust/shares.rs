//! [`Shares`]: the trees that a serving node offers, and who may do what with each.
//!
//! Nobody has a right that was not given. A peer that asks for a share that does not exist and one that may not
//! use it hear the same; which it was stands in the local log. Nothing of a share is looked at before the
//! judgement.

use std::{
    collections::BTreeMap,
    ffi::OsStr,
    fmt, fs, io,
    os::unix::{ffi::OsStrExt as _, fs::DirBuilderExt as _},
    path::{Path, PathBuf},
};

use ketch_protocol::{
    message::{Place, Policy, Removal, ShareName},
    path::EntryPath,
    problem::Reason,
};

use super::{
    book::{Book, BookError},
    rights::{Rights, Writing},
};
use crate::{config::ShareConfig, state::show, swarm::PeerId};

/// The shares of a node.
#[derive(Debug, Clone, Default)]
pub struct Shares {
    shares: BTreeMap<ShareName, Share>,
}

/// One share.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// Its name, as peers ask for it.
    pub name: ShareName,
    /// The tree: an absolute path without a symlink in it.
    pub root: PathBuf,
    /// Where what a push removes or replaces goes; nowhere if not given.
    pub trash: Option<PathBuf>,
    /// Lines of gitignore syntax: what they match is neither sent nor changed.
    pub exclude: Vec<String>,
    allowed: BTreeMap<PeerId, Rights>,
}

/// What a peer wants to do with a share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Access {
    /// Fetch what is in it.
    Read,
    /// Add to it and change what is there.
    Change,
    /// Remove from it too.
    Remove,
}

/// What a peer that was admitted may work on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The share.
    pub share: Share,
    /// The directory below its root; the root itself if none is named.
    pub path: Option<EntryPath>,
}

/// Why a peer was not admitted, for the local log. The peer hears [`Refusal::reason`] and nothing more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// There is no such share.
    #[error("it asked for \"{0}\", which is no share")]
    Unknown(ShareName),
    /// It has no right on the share.
    #[error("it may not use \"{0}\" at all")]
    Stranger(ShareName),
    /// It has another right than it needs.
    #[error("it may {rights} on \"{share}\", and wanted to {access}")]
    Right {
        /// The share.
        share: ShareName,
        /// What it may.
        rights: Rights,
        /// What it wanted.
        access: Access,
    },
}

/// Why the shares of a configuration can't be served.
#[derive(Debug, thiserror::Error)]
pub enum SharesError {
    /// Its tree can't be found.
    #[error("the share \"{share}\": cannot open {}", show(.path))]
    Unreachable {
        /// Which share.
        share: ShareName,
        /// Its path.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Its path is a file.
    #[error("the share \"{share}\": {} is not a directory", show(.path))]
    NotDirectory {
        /// Which share.
        share: ShareName,
        /// Its path.
        path: PathBuf,
    },
    /// Its trash would be part of a tree that is shared.
    #[error("the trash {} of the share \"{share}\" lies in the share \"{other}\"", show(.path))]
    SharedTrash {
        /// Whose trash.
        share: ShareName,
        /// Where it is.
        path: PathBuf,
        /// The share that it lies in.
        other: ShareName,
    },
    /// It is allowed to somebody who is not known.
    #[error("the share \"{share}\"")]
    Peer {
        /// Which share.
        share: ShareName,
        /// Who.
        source: Box<BookError>,
    },
}

/// Something about the shares that their owner may not have meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Two trees share files, so that a right on one is a right on the other.
    Overlap(ShareName, ShareName),
    /// Nobody may use it.
    Unused(ShareName),
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Overlap(inner, outer) => write!(
                f,
                "the share \"{inner}\" lies in the share \"{outer}\": a right on one is a right on its part of the other"
            ),
            Self::Unused(share) => {
                write!(f, "nobody may use the share \"{share}\"; give a right with --allow")
            }
        }
    }
}

impl Shares {
    /// Finds the trees and the peers of a configuration.
    pub fn open(configured: &BTreeMap<ShareName, ShareConfig>, book: &Book) -> Result<Self, SharesError> {
        let shares =
            configured.iter().map(|(name, share)| Ok((name.clone(), open_share(name, share, book)?)));
        let shares = Self { shares: shares.collect::<Result<_, _>>()? };
        shares.check_trash()?;
        Ok(shares)
    }

    /// All of them, by name.
    pub fn iter(&self) -> impl Iterator<Item = &Share> {
        self.shares.values()
    }

    /// What their owner should look at.
    pub fn warnings(&self) -> Vec<Warning> {
        let mut warnings = Vec::new();
        for inner in self.iter() {
            let outer = self.iter().find(|outer| outer.name != inner.name && covers(outer, inner));
            warnings.extend(outer.map(|outer| Warning::Overlap(inner.name.clone(), outer.name.clone())));
            if inner.allowed.is_empty() {
                warnings.push(Warning::Unused(inner.name.clone()));
            }
        }
        warnings
    }

    /// Whether `peer` may do what it asks for.
    pub fn judge(&self, peer: PeerId, place: &Place, access: Access) -> Result<Admitted, Refusal> {
        let Place { share: name, path } = place;
        let share = self.shares.get(name).ok_or_else(|| Refusal::Unknown(name.clone()))?;
        let rights = share.allowed.get(&peer).ok_or_else(|| Refusal::Stranger(name.clone()))?;
        if access.is_within(*rights) {
            return Ok(Admitted { share: share.clone(), path: path.clone() });
        }
        Err(Refusal::Right { share: name.clone(), rights: *rights, access })
    }

    fn check_trash(&self) -> Result<(), SharesError> {
        for share in self.iter() {
            let Some(trash) = &share.trash else { continue };
            if let Some(other) = self.iter().find(|other| trash.starts_with(&other.root)) {
                let (path, other) = (trash.clone(), other.name.clone());
                return Err(SharesError::SharedTrash { share: share.name.clone(), path, other });
            }
        }
        Ok(())
    }
}

impl Admitted {
    /// Where the directory is meant to be; it may not be there.
    pub fn full_path(&self) -> PathBuf {
        let below = self.path.as_ref().map_or(&[][..], EntryPath::as_bytes);
        self.share.root.join(OsStr::from_bytes(below))
    }
}

impl Share {
    /// What a peer may do with it.
    pub fn rights(&self, peer: PeerId) -> Rights {
        self.allowed.get(&peer).copied().unwrap_or_default()
    }
}

impl Access {
    /// What a push with this policy needs. One that only looks needs as much: it tells what would be done.
    pub fn of_push(policy: &Policy) -> Self {
        match policy.removal {
            Removal::Nothing => Self::Change,
            Removal::Extra { .. } => Self::Remove,
        }
    }

    fn is_within(self, rights: Rights) -> bool {
        match self {
            Self::Read => rights.read,
            Self::Change => rights.writing >= Writing::Change,
            Self::Remove => rights.writing >= Writing::Remove,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Read => "read",
            Self::Change => "write",
            Self::Remove => "mirror",
        })
    }
}

impl Refusal {
    /// What the peer is told: the same in every case.
    pub fn reason(&self) -> Reason {
        match self {
            Self::Unknown(_) | Self::Stranger(_) | Self::Right { .. } => Reason::NotAdmitted,
        }
    }
}

/// Whether `inner` lies in the tree of `outer`. Two names of one tree: the one that comes later lies in the other.
fn covers(outer: &Share, inner: &Share) -> bool {
    inner.root.starts_with(&outer.root) && (inner.root != outer.root || outer.name < inner.name)
}

fn open_share(name: &ShareName, configured: &ShareConfig, book: &Book) -> Result<Share, SharesError> {
    let ShareConfig { path, trash, exclude, allow } = configured;
    let unreachable = |source| SharesError::Unreachable { share: name.clone(), path: path.clone(), source };
    let root = path.canonicalize().map_err(unreachable)?;
    if !fs::metadata(&root).map_err(unreachable)?.is_dir() {
        return Err(SharesError::NotDirectory { share: name.clone(), path: path.clone() });
    }
    let trash = trash.as_deref().map(locate_trash).transpose();
    let trash =
        trash.map_err(|(path, source)| SharesError::Unreachable { share: name.clone(), path, source })?;
    let mut allowed = BTreeMap::<PeerId, Rights>::new();
    for (reference, rights) in allow {
        let peer = book.resolve(reference);
        let peer = peer.map_err(|source| SharesError::Peer { share: name.clone(), source: source.into() })?;
        let given = allowed.entry(peer).or_default();
        *given = given.and(*rights);
    }
    Ok(Share { name: name.clone(), root, trash, exclude: exclude.clone(), allowed })
}

/// The trash as an absolute path without symlinks; made, for its owner alone, if it is missing.
fn locate_trash(path: &Path) -> Result<PathBuf, (PathBuf, io::Error)> {
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(path);
    made.and_then(|()| path.canonicalize()).map_err(|error| (path.to_owned(), error))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Folders `outer` and `outer/inner`.
    fn place() -> tempfile::TempDir {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir_all(place.path().join("outer/inner")).unwrap();
        fs::write(place.path().join("file"), "").unwrap();
        place
    }

    fn name(text: &str) -> ShareName {
        ShareName::parse(text).unwrap()
    }

    fn root_of(share: &str) -> Place {
        Place { share: name(share), path: None }
    }

    fn config(path: PathBuf, allow: &[(PeerId, &str)]) -> ShareConfig {
        let reference = |peer: &PeerId| peer.to_string().parse().unwrap();
        let allow = allow.iter().map(|(peer, rights)| (reference(peer), rights.parse().unwrap())).collect();
        ShareConfig { path, trash: None, exclude: Vec::new(), allow }
    }

    fn open<const N: usize>(configured: [(&str, ShareConfig); N]) -> Result<Shares, SharesError> {
        let configured = configured.map(|(text, config)| (name(text), config)).into();
        Shares::open(&configured, &Book::default())
    }

    #[test]
    fn each_right_opens_what_it_says_and_no_more() {
        use Access::{Change, Read, Remove};
        let place = place();
        let cases: [(&str, &[Access]); 5] = [
            ("read", &[Read]),
            ("write", &[Change]),
            ("mirror", &[Change, Remove]),
            ("read,write", &[Read, Change]),
            ("read,mirror", &[Read, Change, Remove]),
        ];
        for (rights, open_to) in cases {
            let peer = PeerId::random();
            let shares = open([("docs", config(place.path().join("outer"), &[(peer, rights)]))]).unwrap();
            for access in [Read, Change, Remove] {
                let judged = shares.judge(peer, &root_of("docs"), access);
                assert_eq!(judged.is_ok(), open_to.contains(&access), "{rights}: {access}");
            }
        }
    }

    #[test]
    fn a_stranger_can_not_tell_a_share_from_none() {
        let (place, [ann, eve]) = (place(), [(); 2].map(|()| PeerId::random()));
        let shares = open([("docs", config(place.path().join("outer"), &[(ann, "write")]))]).unwrap();
        let refusals = [
            shares.judge(eve, &root_of("docs"), Access::Read).unwrap_err(),
            shares.judge(eve, &root_of("none"), Access::Read).unwrap_err(),
            shares.judge(ann, &root_of("docs"), Access::Read).unwrap_err(),
            shares.judge(ann, &root_of("docs"), Access::Remove).unwrap_err(),
        ];
        assert!(refusals.iter().all(|refusal| refusal.reason() == Reason::NotAdmitted));
        assert_eq!(refusals[3].to_string(), "it may write on \"docs\", and wanted to mirror");
    }

    #[test]
    fn rights_given_twice_add_up() {
        let (place, peer) = (place(), PeerId::random());
        let allow = [(peer, "read"), (peer, "mirror")];
        let shares = open([("docs", config(place.path().join("outer"), &allow))]).unwrap();
        let rights = shares.iter().next().unwrap().rights(peer);
        assert_eq!(rights, "read,mirror".parse().unwrap());
    }

    #[test]
    fn a_share_is_a_directory_that_is_there() {
        let place = place();
        let missing = open([("docs", config(place.path().join("missing"), &[]))]);
        assert!(matches!(missing, Err(SharesError::Unreachable { .. })));
        let file = open([("docs", config(place.path().join("file"), &[]))]);
        assert!(matches!(file, Err(SharesError::NotDirectory { .. })));
    }

    #[test]
    fn a_name_that_nobody_has_opens_nothing() {
        let place = place();
        let mut unknown = config(place.path().join("outer"), &[]);
        unknown.allow.push(("laptop".parse().unwrap(), "read".parse().unwrap()));
        assert!(matches!(open([("docs", unknown)]), Err(SharesError::Peer { .. })));
    }

    #[test]
    fn shares_that_overlap_and_one_for_nobody_are_warned_of() {
        let (place, peer) = (place(), PeerId::random());
        let at = |path| config(place.path().join(path), &[(peer, "read")]);
        let overlapping = open([("a", at("outer/inner")), ("b", at("outer"))]).unwrap();
        assert_eq!(overlapping.warnings(), [Warning::Overlap(name("a"), name("b"))]);
        let twice = open([("a", at("outer")), ("b", at("outer"))]).unwrap();
        assert_eq!(twice.warnings(), [Warning::Overlap(name("b"), name("a"))]);
        let unused = open([("a", config(place.path().join("outer"), &[]))]).unwrap();
        assert_eq!(unused.warnings(), [Warning::Unused(name("a"))]);
    }

    #[test]
    fn a_trash_in_a_share_is_refused() {
        let place = place();
        let mut with_trash = config(place.path().join("outer"), &[]);
        with_trash.trash = Some(place.path().join("outer/trash"));
        assert!(matches!(open([("docs", with_trash.clone())]), Err(SharesError::SharedTrash { .. })));
        with_trash.trash = Some(place.path().join("trash"));
        let shares = open([("docs", with_trash)]).unwrap();
        assert!(shares.iter().next().unwrap().trash.as_ref().unwrap().is_dir());
    }
}
