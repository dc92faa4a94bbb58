//! [`Offers`]: the offers of this node on disk, so that `send` run again keeps its ticket.
//!
//! One JSON file an offer in `<state>/offers/`, readable by its owner alone. A running `send` holds its offer:
//! the file is locked (flock) and every change is on disk before the call that made it returns. A file is
//! replaced by rename; the new one is locked before it takes the name, and whoever locks a file looks
//! whether the name still means that file, so there is always exactly one holder.

use std::{
    fmt,
    fs::{self, DirBuilder, File, Permissions, TryLockError},
    io::{self, Read as _, Write as _},
    num::NonZeroU32,
    os::unix::{
        ffi::OsStrExt as _,
        fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _},
    },
    path::{Path, PathBuf},
};

use data_encoding::HEXLOWER;
use ketch_protocol::path::escape;

use super::{
    Lifetime, Secret, Ticket,
    offer::{Offer, Refusal},
    secret,
    stored::{encode, parse},
};
use crate::swarm::{Multiaddr, PeerId};

/// Uses of an offer for which none are asked: a ticket is for one peer.
const DEFAULT_USES: NonZeroU32 = NonZeroU32::MIN;

/// The folder of all offers of one node.
#[derive(Debug)]
pub struct Offers {
    folder: PathBuf,
}

/// What `send` asks for.
#[derive(Debug, Clone)]
pub struct OfferRequest {
    /// What to offer, as given on the command line; relative to the current folder.
    pub paths: Vec<PathBuf>,
    /// The only peer that may come, if one is named.
    pub only_for: Option<PeerId>,
    /// How many peers may fetch it; `None` keeps what a reopened offer has left, or is one use.
    pub uses: Option<NonZeroU32>,
    /// How long it stands; `None` keeps the time of a reopened offer, or is [`Lifetime::DEFAULT`].
    pub lifetime: Option<Lifetime>,
    /// Withdraws an offer of the same paths that nobody holds, and makes another.
    pub replace: bool,
}

/// An offer and how it was come by.
#[derive(Debug)]
pub struct Opened {
    /// The offer.
    pub offer: HeldOffer,
    /// Whether it existed before, with a ticket that is known to someone.
    pub reopened: bool,
    /// What else was found in the folder and a person should hear of.
    pub warnings: Vec<Damaged>,
}

/// An offer that could not be read and was moved aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Damaged {
    /// Where it is now.
    pub moved_to: PathBuf,
    /// What is wrong with it.
    pub why: String,
}

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = escape(self.moved_to.as_os_str().as_bytes());
        write!(f, "a stored offer is damaged ({}), its ticket is void; it was moved to {place}", self.why)
    }
}

/// What went wrong with the stored offers.
#[derive(Debug, thiserror::Error)]
pub enum OffersError {
    /// A file or folder.
    #[error("cannot {action} {}", escape(.path.as_os_str().as_bytes()))]
    Io {
        /// What was being done, as a verb.
        action: &'static str,
        /// To what.
        path: PathBuf,
        /// What came.
        source: io::Error,
    },
    /// Nothing to offer.
    #[error("there is nothing to offer: no path was given")]
    NoPath,
    /// The operating system gave no random bytes.
    #[error("cannot make a secret")]
    Random(#[source] getrandom::Error),
}

/// Why an ask was not admitted.
#[derive(Debug, thiserror::Error)]
pub enum AdmitError {
    /// The peer may not; tell it [`Refusal::reason`].
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// The peer may, but its reservation could not be stored.
    #[error(transparent)]
    Store(#[from] OffersError),
}

impl Offers {
    /// Opens the folder in the state folder `state`, which exists; makes it if it is missing.
    pub fn open(state: &Path) -> Result<Self, OffersError> {
        let folder = state.join("offers");
        match DirBuilder::new().mode(0o700).create(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
            Ok(()) | Err(_) => fs::set_permissions(&folder, Permissions::from_mode(0o700)),
        }
        .map_err(failed("make", &folder))?;
        Ok(Self { folder })
    }

    /// Reopens the offer of the same paths to the same peer, or makes one.
    ///
    /// An offer that another `send` holds is left alone. Expired offers are removed on the way, damaged ones
    /// moved aside. `now_s` is the Unix time in seconds.
    pub fn reopen_or_create(&self, request: &OfferRequest, now_s: u64) -> Result<Opened, OffersError> {
        let paths = identify_all(&request.paths)?;
        let mut warnings = Vec::new();
        let mut found = None;
        for file in self.files()? {
            match HeldOffer::take(file)? {
                Taken::Held(held) if held.offer.is_expired(now_s) => held.withdraw()?,
                Taken::Held(held) if !held.offer.is_for(&paths, request.only_for) => {}
                Taken::Held(held) if request.replace => held.withdraw()?,
                Taken::Held(held) => {
                    found.get_or_insert(held);
                }
                Taken::Damaged(damaged) => warnings.push(damaged),
                Taken::Unavailable => {}
            }
        }
        let reopened = found.is_some();
        let offer = match found {
            Some(held) => held.renewed(request, now_s)?,
            None => self.create(paths, request, now_s)?,
        };
        Ok(Opened { offer, reopened, warnings })
    }

    /// Every offer's file, in a fixed order.
    fn files(&self) -> Result<Vec<PathBuf>, OffersError> {
        let read = || -> io::Result<Vec<PathBuf>> {
            fs::read_dir(&self.folder)?.map(|entry| Ok(entry?.path())).collect()
        };
        let mut files = read().map_err(failed("list", &self.folder))?;
        files.retain(|file| file.extension().is_some_and(|extension| extension == "json"));
        files.sort();
        Ok(files)
    }

    fn create(
        &self,
        paths: Vec<PathBuf>,
        request: &OfferRequest,
        now_s: u64,
    ) -> Result<HeldOffer, OffersError> {
        let expires_s = request.lifetime.unwrap_or(Lifetime::DEFAULT).expires_s(now_s);
        let uses = request.uses.unwrap_or(DEFAULT_USES);
        let secret = secret::random().map_err(OffersError::Random)?;
        let mut id = [0; 8];
        getrandom::fill(&mut id).map_err(OffersError::Random)?;
        let path = self.folder.join(format!("{}.json", HEXLOWER.encode(&id)));
        let offer = Offer::new(paths, request.only_for, secret, uses, expires_s);
        let file = store(&offer, &path)?;
        Ok(HeldOffer { offer, path, file })
    }
}

/// An offer that this process alone may change; others find it unavailable until it is dropped.
#[derive(Debug)]
pub struct HeldOffer {
    offer: Offer,
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

enum Taken {
    Held(HeldOffer),
    Damaged(Damaged),
    /// Held by another process, or gone since the folder was listed.
    Unavailable,
}

impl HeldOffer {
    /// The offer as it is on disk.
    pub fn offer(&self) -> &Offer {
        &self.offer
    }

    /// How many peers may still finish: [`Offer::uses_left`].
    pub fn uses_left(&self) -> u32 {
        self.offer.uses_left()
    }

    /// The Unix second from which on nobody new is admitted: [`Offer::expires_s`].
    pub fn expires_s(&self) -> Option<u64> {
        self.offer.expires_s()
    }

    /// The ticket to print: [`Offer::ticket`].
    pub fn ticket(&self, peer: PeerId, addresses: impl IntoIterator<Item = Multiaddr>) -> Ticket {
        self.offer.ticket(peer, addresses)
    }

    /// Admits `peer` and stores its reservation: [`Offer::admit`].
    pub fn admit(&mut self, peer: PeerId, secret: &Secret, now_s: u64) -> Result<(), AdmitError> {
        let mut next = self.offer.clone();
        next.admit(peer, secret, now_s)?;
        Ok(self.replace(next)?)
    }

    /// Takes back the reservation of a peer that declined: [`Offer::release`].
    pub fn release(&mut self, peer: PeerId) -> Result<(), OffersError> {
        let mut next = self.offer.clone();
        next.release(peer);
        self.replace(next)
    }

    /// Spends the use of a peer that is done ([`Offer::spend`]) and says how many are left. With the last
    /// use the file goes too.
    pub fn spend(&mut self, peer: PeerId) -> Result<u32, OffersError> {
        let mut next = self.offer.clone();
        next.spend(peer);
        if next.is_spent() && !self.offer.is_spent() {
            self.remove_file()?;
            self.offer = next;
        } else {
            self.replace(next)?;
        }
        Ok(self.offer.uses_left())
    }

    /// Notes where the offer listens, so that it can ask for the same ports when it is reopened.
    pub fn remember_addresses(&mut self, addresses: Vec<Multiaddr>) -> Result<(), OffersError> {
        self.replace(Offer { addresses, ..self.offer.clone() })
    }

    /// Withdraws the offer: its ticket is void from now on.
    pub fn withdraw(self) -> Result<(), OffersError> {
        self.remove_file()
    }

    fn remove_file(&self) -> Result<(), OffersError> {
        fs::remove_file(&self.path)
            .and_then(|()| sync_folder(&self.path))
            .map_err(failed("remove", &self.path))
    }

    fn renewed(mut self, request: &OfferRequest, now_s: u64) -> Result<Self, OffersError> {
        let mut next = self.offer.clone();
        next.renew(request.uses, request.lifetime.map(|lifetime| lifetime.expires_s(now_s)));
        self.replace(next)?;
        Ok(self)
    }

    /// Stores `next` before it counts.
    fn replace(&mut self, next: Offer) -> Result<(), OffersError> {
        if next != self.offer {
            self.file = store(&next, &self.path)?;
            self.offer = next;
        }
        Ok(())
    }

    /// Locks and reads the offer in the file `path`.
    fn take(path: PathBuf) -> Result<Taken, OffersError> {
        let Some(mut file) = lock(&path).map_err(failed("lock", &path))? else {
            return Ok(Taken::Unavailable);
        };
        let mut json = Vec::new();
        file.read_to_end(&mut json).map_err(failed("read", &path))?;
        match parse(&json) {
            Ok(offer) => Ok(Taken::Held(Self { offer, path, file })),
            Err(why) => set_aside(&path, why).map(Taken::Damaged),
        }
    }
}

/// Opens and locks a file; `None` if another process holds it or the name has come to mean another file.
fn lock(path: &Path) -> io::Result<Option<File>> {
    let absent_is_none = |error: io::Error| {
        if error.kind() == io::ErrorKind::NotFound { Ok(None) } else { Err(error) }
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return absent_is_none(error),
    };
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let (locked, named) = match fs::metadata(path) {
        Ok(named) => (file.metadata()?, named),
        Err(error) => return absent_is_none(error),
    };
    let is_same = (locked.dev(), locked.ino()) == (named.dev(), named.ino());
    Ok(is_same.then_some(file))
}

fn set_aside(path: &Path, why: String) -> Result<Damaged, OffersError> {
    let moved_to = path.with_extension("damaged");
    fs::rename(path, &moved_to).map_err(failed("move aside", path))?;
    Ok(Damaged { moved_to, why })
}

/// Writes an offer to a new file, mode 0600, that is locked before it takes the name `path`.
fn store(offer: &Offer, path: &Path) -> Result<File, OffersError> {
    let write = || -> io::Result<File> {
        let mut file = tempfile::NamedTempFile::new_in(folder_of(path))?;
        file.write_all(&encode(offer)?)?;
        file.as_file().lock()?;
        file.as_file().sync_all()?;
        let file = file.persist(path)?;
        sync_folder(path)?;
        Ok(file)
    };
    write().map_err(failed("write", path))
}

/// Makes a change of the name `path` survive a power cut, or a spent ticket would open the offer again.
fn sync_folder(path: &Path) -> io::Result<()> {
    File::open(folder_of(path))?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    path.parent().expect("an offer's file lies in the folder of offers")
}

/// Absolute paths, sorted and each once. A path's folder is resolved, its leaf is not: a symlink that is
/// offered by name is something else than what it points to.
fn identify_all(paths: &[PathBuf]) -> Result<Vec<PathBuf>, OffersError> {
    let mut identified = paths
        .iter()
        .map(|path| identify(path).map_err(failed("find", path)))
        .collect::<Result<Vec<_>, _>>()?;
    identified.sort();
    identified.dedup();
    if identified.is_empty() { Err(OffersError::NoPath) } else { Ok(identified) }
}

fn identify(path: &Path) -> io::Result<PathBuf> {
    fs::symlink_metadata(path)?;
    match (path.parent(), path.file_name()) {
        (Some(folder), Some(leaf)) => {
            let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
            Ok(folder.canonicalize()?.join(leaf))
        }
        // `/`, `.` and `x/..` have no leaf of their own.
        (None, _) | (_, None) => path.canonicalize(),
    }
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> OffersError + 'a {
    move |source| OffersError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests;
