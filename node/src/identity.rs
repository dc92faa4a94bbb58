//! The identity of a node: an ed25519 key in its state folder, made on first use.
//!
//! `identity.key` holds the key in libp2p's protobuf encoding (`PrivateKey` of
//! <https://github.com/libp2p/specs/blob/master/peer-ids/peer-ids.md>). It contains the public half too, so
//! that damage anywhere in the file is noticed. It is never overwritten.

use std::{
    fs::{File, Metadata, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use rustix::{fs::OFlags, process::geteuid};
use tempfile::NamedTempFile;

use crate::{
    state::{StateFolder, show},
    swarm::Keypair,
};

/// Name of the key file in the state folder.
pub const IDENTITY_FILE: &str = "identity.key";

/// Longest key file that is read, in bytes; an encoded ed25519 key has 68.
const KEY_FILE_BYTES: u64 = 1_024;

/// Why a node has no identity.
#[derive(Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file can neither be read nor made.
    #[error("identity key {}: {cause}", show(.path))]
    Io {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// The file holds no ed25519 key. It is left as it is: another key would be another peer.
    #[error(
        "identity key {}: damaged, {} bytes that are no ed25519 key; it was not overwritten: restore it, \
         or move it away to become another peer",
        show(.path),
        .length
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// How long it is; at most one byte more than is read.
        length: usize,
    },
    /// The name stands for a symlink, a folder or something else that holds no key.
    #[error("identity key {}: not a regular file", show(.0))]
    NotAFile(PathBuf),
    /// Others may have read the key.
    #[error("identity key {}: other users can read it (mode {mode:03o}), run chmod 600 on it", show(.path))]
    Readable {
        /// Which file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Whoever owns the file knows the key.
    #[error("identity key {}: it belongs to another user ({owner})", show(.path))]
    Foreign {
        /// Which file.
        path: PathBuf,
        /// Its owner.
        owner: u32,
    },
}

/// Reads the identity of a state folder, or makes it when there is none. Processes that race for the
/// first use get the same key.
pub fn load_or_create(folder: &StateFolder) -> Result<Keypair, IdentityError> {
    let path = folder.path().join(IDENTITY_FILE);
    if let Some(identity) = load(&path)? {
        return Ok(identity);
    }
    let identity = Keypair::generate_ed25519();
    match store(folder.path(), &path, &identity) {
        Ok(()) => Ok(identity),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => load(&path)?
            .ok_or_else(|| io_error(&path, io::Error::other("it came and went while it was made"))),
        Err(error) => Err(io_error(&path, error)),
    }
}

fn load(path: &Path) -> Result<Option<Keypair>, IdentityError> {
    let file = match open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::LOOP.raw_os_error()) => {
            return Err(IdentityError::NotAFile(path.into()));
        }
        Err(error) => return Err(io_error(path, error)),
    };
    check(path, &file.metadata().map_err(|error| io_error(path, error))?)?;
    let mut bytes = Vec::new();
    file.take(KEY_FILE_BYTES + 1).read_to_end(&mut bytes).map_err(|error| io_error(path, error))?;
    decode(&bytes).map(Some).ok_or_else(|| IdentityError::Damaged { path: path.into(), length: bytes.len() })
}

/// Opens without following a symlink, and without waiting for the writer of a FIFO.
fn open(path: &Path) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits() as i32).open(path)
}

fn check(path: &Path, metadata: &Metadata) -> Result<(), IdentityError> {
    let (mode, owner, user) = (metadata.mode() & 0o777, metadata.uid(), geteuid());
    if !metadata.is_file() {
        return Err(IdentityError::NotAFile(path.into()));
    }
    if owner != user.as_raw() && !user.is_root() {
        return Err(IdentityError::Foreign { path: path.into(), owner });
    }
    if mode & 0o077 != 0 {
        return Err(IdentityError::Readable { path: path.into(), mode });
    }
    Ok(())
}

fn decode(bytes: &[u8]) -> Option<Keypair> {
    let identity = Keypair::from_protobuf_encoding(bytes).ok()?;
    identity.clone().try_into_ed25519().ok()?;
    // Only one encoding is ours; a file with anything behind or between is damaged.
    (identity.to_protobuf_encoding().ok()? == bytes).then_some(identity)
}

/// Writes the key aside and gives it its name only if the name is free.
fn store(folder: &Path, path: &Path, identity: &Keypair) -> io::Result<()> {
    let bytes = identity.to_protobuf_encoding().map_err(io::Error::other)?;
    // Made with mode 0600, whatever the umask.
    let mut file = NamedTempFile::with_prefix_in(".identity-", folder)?;
    file.write_all(&bytes)?;
    file.as_file().sync_all()?;
    file.persist_noclobber(path)?;
    File::open(folder)?.sync_all()
}

fn io_error(path: &Path, cause: io::Error) -> IdentityError {
    IdentityError::Io { path: path.into(), cause }
}

#[cfg(test)]
mod tests {
    use std::{
        fs::{self, Permissions},
        os::unix::fs::{PermissionsExt, symlink},
    };

    use super::*;

    struct Scene {
        _root: tempfile::TempDir,
        folder: StateFolder,
        key: PathBuf,
    }

    fn scene() -> Scene {
        let root = tempfile::tempdir().unwrap();
        let folder = StateFolder::locate(Some(root.path().join("state")), |_| None).unwrap();
        let key = folder.path().join(IDENTITY_FILE);
        Scene { _root: root, folder, key }
    }

    #[test]
    fn the_first_use_makes_a_private_key_and_the_second_finds_it() {
        let scene = scene();
        let first = load_or_create(&scene.folder).unwrap();
        let second = load_or_create(&scene.folder).unwrap();
        assert_eq!(first.public(), second.public());
        assert_eq!(fs::metadata(&scene.key).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(scene.folder.path()).unwrap().count(), 1);
    }

    #[test]
    fn racing_first_uses_get_the_same_key() {
        let scene = scene();
        let peers = std::thread::scope(|scope| {
            let racers = (0..8)
                .map(|_| scope.spawn(|| load_or_create(&scene.folder).unwrap().public().to_peer_id()))
                .collect::<Vec<_>>();
            racers.into_iter().map(|racer| racer.join().unwrap()).collect::<Vec<_>>()
        });
        assert!(peers.iter().all(|peer| *peer == peers[0]), "{peers:?}");
    }

    #[test]
    fn a_damaged_key_is_named_and_left_alone() {
        let scene = scene();
        load_or_create(&scene.folder).unwrap();
        let good = fs::read(&scene.key).unwrap();
        let damages = (0..good.len()).map(|at| {
            let mut bad = good.clone();
            bad[at] ^= 1;
            bad
        });
        for bad in damages.chain([vec![], good[..67].to_vec(), [&good[..], b"\n"].concat()]) {
            fs::write(&scene.key, &bad).unwrap();
            let error = load_or_create(&scene.folder).unwrap_err();
            assert!(matches!(error, IdentityError::Damaged { .. }), "{error}");
            assert!(error.to_string().contains(&show(&scene.key)), "{error}");
            assert_eq!(fs::read(&scene.key).unwrap(), bad);
        }
    }

    #[test]
    fn a_key_that_others_can_read_is_refused() {
        let scene = scene();
        load_or_create(&scene.folder).unwrap();
        fs::set_permissions(&scene.key, Permissions::from_mode(0o644)).unwrap();
        let error = load_or_create(&scene.folder).unwrap_err();
        assert!(matches!(error, IdentityError::Readable { mode: 0o644, .. }), "{error}");
    }

    #[test]
    fn a_symlink_and_a_folder_are_no_key() {
        let scene = scene();
        let elsewhere = scene.folder.path().join("elsewhere");
        fs::write(&elsewhere, Keypair::generate_ed25519().to_protobuf_encoding().unwrap()).unwrap();
        symlink(&elsewhere, &scene.key).unwrap();
        assert!(matches!(load_or_create(&scene.folder), Err(IdentityError::NotAFile(_))));
        fs::remove_file(&scene.key).unwrap();
        fs::create_dir(&scene.key).unwrap();
        assert!(matches!(load_or_create(&scene.folder), Err(IdentityError::NotAFile(_))));
    }

    #[test]
    fn a_missing_folder_is_an_error_and_no_panic() {
        let scene = scene();
        fs::remove_dir(scene.folder.path()).unwrap();
        assert!(matches!(load_or_create(&scene.folder), Err(IdentityError::Io { .. })));
    }
}
