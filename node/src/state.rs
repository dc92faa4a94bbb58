//! The state folder: where a node keeps what must outlive a run.

use std::{
    ffi::OsString,
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use ketch_protocol::path::escape;

/// The folder with the identity, offers and journals of one node. It exists and others cannot write to it.
#[derive(Debug, Clone)]
pub struct StateFolder(PathBuf);

/// Why there is no state folder.
#[derive(Debug, thiserror::Error)]
pub enum StateError {
    /// Neither named nor to be derived from the environment.
    #[error("no state folder: neither XDG_STATE_HOME nor HOME is set, name one with --state")]
    Nowhere,
    /// It can neither be opened nor made.
    #[error("state folder {}: {cause}", show(.path))]
    Unusable {
        /// Which folder.
        path: PathBuf,
        /// What the system said.
        cause: io::Error,
    },
    /// Everybody may replace what is in it.
    #[error(
        "state folder {}: every user of this machine may write to it, run chmod go-w on it",
        show(.0)
    )]
    Open(PathBuf),
}

impl StateFolder {
    /// The folder named by the user, else `ketch` below `XDG_STATE_HOME`, else below `HOME/.local/state`
    /// (XDG Base Directory Specification 0.8). It is made when it is missing. `lookup` reads a variable
    /// of the environment.
    pub fn locate(
        explicit: Option<PathBuf>,
        lookup: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, StateError> {
        let path = explicit.or_else(|| default_path(lookup)).ok_or(StateError::Nowhere)?;
        let unusable = |cause| StateError::Unusable { path: path.clone(), cause };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(unusable)?;
        let mode = fs::metadata(&path).map_err(unusable)?.mode();
        if is_open(mode) {
            return Err(StateError::Open(path));
        }
        Ok(Self(path))
    }

    /// Its path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Waits until nobody else holds the lock of this name; another change takes milliseconds.
    pub(crate) fn lock(&self, name: &str) -> io::Result<File> {
        let file = OpenOptions::new().create(true).append(true).mode(0o600).open(self.0.join(name))?;
        file.lock()?;
        Ok(file)
    }

    /// Replaces a file as a whole: a reader, and whoever comes after a crash, finds the old one or the new one.
    pub(crate) fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        // Made with mode 0600, whatever the umask.
        let mut file = tempfile::NamedTempFile::with_prefix_in(format!(".{name}-"), &self.0)?;
        file.write_all(bytes)?;
        file.as_file().sync_all()?;
        file.persist(self.0.join(name))?;
        File::open(&self.0)?.sync_all()
    }
}

/// The specification wants relative paths ignored; an empty one is relative.
fn default_path(lookup: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let absolute = |name| lookup(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(base.join("ketch"))
}

/// Writable by everybody, without the sticky bit that keeps users from each other's files.
fn is_open(mode: u32) -> bool {
    mode & 0o002 != 0 && mode & 0o1000 == 0
}

/// A path as a person may see it.
pub(crate) fn show(path: &Path) -> String {
    escape(path.as_os_str().as_encoded_bytes()).to_string()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn environment<'a>(pairs: &'a [(&str, &Path)]) -> impl Fn(&str) -> Option<OsString> + 'a {
        |name| pairs.iter().find(|(key, _)| *key == name).map(|(_, path)| path.as_os_str().to_owned())
    }

    #[test]
    fn what_the_user_names_comes_first_then_xdg_then_home() {
        let root = tempfile::tempdir().unwrap();
        let (named, xdg, home) = (root.path().join("n/m"), root.path().join("x"), root.path().join("h"));
        let both = [("XDG_STATE_HOME", &*xdg), ("HOME", &*home)];
        let locate = |explicit, pairs| StateFolder::locate(explicit, environment(pairs)).unwrap().0;
        assert_eq!(locate(Some(named.clone()), &both), named);
        assert_eq!(locate(None, &both), xdg.join("ketch"));
        assert_eq!(locate(None, &both[1..]), home.join(".local/state/ketch"));
        let relative = [("XDG_STATE_HOME", Path::new("x")), ("HOME", &*home)];
        assert_eq!(locate(None, &relative), home.join(".local/state/ketch"));
    }

    #[test]
    fn without_any_hint_the_error_names_the_option() {
        for pairs in [&[][..], &[("HOME", Path::new(""))]] {
            let error = StateFolder::locate(None, environment(pairs)).unwrap_err();
            assert!(error.to_string().contains("--state"), "{error}");
        }
    }

    #[test]
    fn a_new_folder_is_private_and_an_open_one_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let path = root.path().join("state");
        let folder = StateFolder::locate(Some(path.clone()), |_| None).unwrap();
        assert_eq!(fs::metadata(folder.path()).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        let error = StateFolder::locate(Some(path), |_| None).unwrap_err();
        assert!(matches!(error, StateError::Open(_)), "{error}");
    }

    #[test]
    fn a_file_in_its_place_is_named() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let error = StateFolder::locate(Some(file.path().into()), |_| None).unwrap_err();
        assert!(error.to_string().contains(&show(file.path())), "{error}");
    }
}
