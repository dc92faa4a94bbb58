//! [`Book`]: the address book, in which a node keeps the peers that its user knows by name.
//!
//! One JSON file in the state folder, `peers.json`, which a person can read. It is replaced as a whole, and
//! whoever changes it holds a lock from the reading to the writing, so that two commands at once lose nothing.
//! A file that cannot be understood is left alone and named: a book that is silently empty would let an old name
//! be given to another key.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use serde::{Deserialize, Serialize};

use super::name::{PeerName, PeerNameError, PeerReference};
use crate::{
    state::{StateFolder, show},
    swarm::{Multiaddr, PeerId, address::split_peer},
};

/// Name of the address book in the state folder.
pub const BOOK_FILE: &str = "peers.json";

/// Name of the file that is locked while the book is changed; the book itself is replaced.
const LOCK_FILE: &str = "peers.lock";

/// Most peers in a book: a hundred times what a person knows by name.
pub const BOOK_PEERS: usize = 4_096;

/// Most addresses of one peer: as many as one dial tries.
pub const PEER_ADDRESSES: usize = 32;

/// Longest book that is read, in bytes: about a kilobyte for each of [`BOOK_PEERS`].
const BOOK_BYTES: u64 = 4 * 1024 * 1024;

/// The peers that are known by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Book {
    peers: BTreeMap<PeerName, Known>,
}

/// What the book has of one peer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Its key.
    pub peer: PeerId,
    /// Where it was said to be, without its PeerId.
    pub addresses: Vec<Multiaddr>,
}

/// Why the book can't be used or changed.
#[derive(Debug, thiserror::Error)]
pub enum BookError {
    /// A file can't be read or written.
    #[error("cannot {action} the address book {}", show(.path))]
    Io {
        /// What was being done, as a verb.
        action: &'static str,
        /// To which file.
        path: PathBuf,
        /// What came.
        source: io::Error,
    },
    /// The file is no address book. It stays as it is.
    #[error(
        "the address book {} is damaged ({why}); it was not changed: mend it, or move it away to begin anew",
        show(.path)
    )]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A name that stands for somebody else.
    #[error("\"{name}\" is the name of {peer} already")]
    Taken {
        /// The name.
        name: PeerName,
        /// Who has it.
        peer: PeerId,
    },
    /// No such name.
    #[error("the address book has no peer \"{0}\"")]
    Unknown(PeerName),
    /// An address that a name does not have.
    #[error("the address book has no address {address} of \"{name}\"")]
    UnknownAddress {
        /// Whose it should be.
        name: PeerName,
        /// Which.
        address: Multiaddr,
    },
    /// An address that names another peer at its end.
    #[error("{address} is an address of another peer than {peer}")]
    OtherPeer {
        /// The address.
        address: Multiaddr,
        /// Whose address it was meant to be.
        peer: PeerId,
    },
    /// More than a book holds.
    #[error("the address book has {BOOK_PEERS} peers, which is all it can hold")]
    Full,
    /// More addresses than one dial tries.
    #[error("{peer} would have {count} addresses, at most {PEER_ADDRESSES} are tried")]
    ManyAddresses {
        /// Whose.
        peer: PeerId,
        /// How many.
        count: usize,
    },
}

impl Book {
    /// Reads the book of a state folder; empty when there is none yet.
    pub fn load(state: &StateFolder) -> Result<Self, BookError> {
        read(&state.path().join(BOOK_FILE))
    }

    /// Changes the book of a state folder while nobody else does. What `change` refuses changes nothing.
    pub fn change<T>(
        state: &StateFolder,
        change: impl FnOnce(&mut Self) -> Result<T, BookError>,
    ) -> Result<T, BookError> {
        let (path, lock) = (state.path().join(BOOK_FILE), state.path().join(LOCK_FILE));
        let _held = state.lock(LOCK_FILE).map_err(failed("lock", &lock))?;
        let before = read(&path)?;
        let mut book = before.clone();
        let done = change(&mut book)?;
        if book != before {
            let written =
                encode(&book).map_err(io::Error::from).and_then(|json| state.replace(BOOK_FILE, &json));
            written.map_err(failed("write", &path))?;
        }
        Ok(done)
    }

    /// Gives a peer a name. One that has the name already gets these addresses beside those it has; nobody
    /// else gets it.
    pub fn add(
        &mut self,
        name: PeerName,
        peer: PeerId,
        addresses: impl IntoIterator<Item = Multiaddr>,
    ) -> Result<(), BookError> {
        let before = match self.peers.get(&name) {
            Some(known) if known.peer != peer => return Err(BookError::Taken { name, peer: known.peer }),
            Some(known) => known.addresses.clone(),
            None if self.peers.len() >= BOOK_PEERS => return Err(BookError::Full),
            None => Vec::new(),
        };
        let addresses = addresses_of(peer, before.into_iter().chain(addresses))?;
        self.peers.insert(name, Known { peer, addresses });
        Ok(())
    }

    /// Forgets a name; what was known of it.
    pub fn remove(&mut self, name: &PeerName) -> Result<Known, BookError> {
        self.peers.remove(name).ok_or_else(|| BookError::Unknown(name.clone()))
    }

    /// Forgets addresses of a name; each must be one that it has.
    pub fn remove_addresses(&mut self, name: &PeerName, addresses: &[Multiaddr]) -> Result<(), BookError> {
        let known = self.peers.get_mut(name).ok_or_else(|| BookError::Unknown(name.clone()))?;
        for address in addresses {
            let bare = bare(address.clone(), known.peer)?;
            let index = known.addresses.iter().position(|known| *known == bare);
            let unknown = || BookError::UnknownAddress { name: name.clone(), address: bare.clone() };
            known.addresses.remove(index.ok_or_else(unknown)?);
        }
        Ok(())
    }

    /// What is known of a name.
    pub fn find(&self, name: &PeerName) -> Result<&Known, BookError> {
        self.peers.get(name).ok_or_else(|| BookError::Unknown(name.clone()))
    }

    /// Who is meant: a PeerId need not be in the book.
    pub fn resolve(&self, reference: &PeerReference) -> Result<PeerId, BookError> {
        match reference {
            PeerReference::Id(peer) => Ok(*peer),
            PeerReference::Name(name) => self.find(name).map(|known| known.peer),
        }
    }

    /// All addresses of a peer, under whatever names it has; some of them more than once.
    pub fn addresses(&self, peer: PeerId) -> impl Iterator<Item = &Multiaddr> {
        let known = self.peers.values().filter(move |known| known.peer == peer);
        known.flat_map(|known| &known.addresses)
    }

    /// Everybody, by name.
    pub fn iter(&self) -> impl Iterator<Item = (&PeerName, &Known)> {
        self.peers.iter()
    }
}

/// Addresses of one peer, each once and without its PeerId.
pub fn addresses_of(
    peer: PeerId,
    addresses: impl IntoIterator<Item = Multiaddr>,
) -> Result<Vec<Multiaddr>, BookError> {
    let mut all = Vec::new();
    for address in addresses {
        let address = bare(address, peer)?;
        if !all.contains(&address) {
            all.push(address);
        }
    }
    match all.len() {
        0..=PEER_ADDRESSES => Ok(all),
        count => Err(BookError::ManyAddresses { peer, count }),
    }
}

/// The address without the PeerId at its end, which must be the one that is meant.
fn bare(address: Multiaddr, peer: PeerId) -> Result<Multiaddr, BookError> {
    match split_peer(address.clone()) {
        Some((named, _)) if named != peer => Err(BookError::OtherPeer { address, peer }),
        Some((_, bare)) => Ok(bare),
        None => Ok(address),
    }
}

/// A peer as it stands in the file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredPeer {
    name: String,
    peer_id: String,
    addresses: Vec<String>,
}

fn read(path: &Path) -> Result<Book, BookError> {
    let mut json = Vec::new();
    let opened = match File::open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Book::default()),
        opened => opened.map_err(failed("open", path))?,
    };
    opened.take(BOOK_BYTES + 1).read_to_end(&mut json).map_err(failed("read", path))?;
    let parsed = match json.len() as u64 {
        0..=BOOK_BYTES => parse(&json),
        _ => Err(format!("it has more than {BOOK_BYTES} bytes")),
    };
    parsed.map_err(|why| BookError::Damaged { path: path.into(), why })
}

/// The book in a file's bytes, or what is wrong with them.
fn parse(json: &[u8]) -> Result<Book, String> {
    let stored: Vec<StoredPeer> = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let mut book = Book::default();
    for StoredPeer { name, peer_id, addresses } in stored {
        let name: PeerName = name.parse().map_err(|error: PeerNameError| error.to_string())?;
        let peer = peer_id.parse().map_err(|error| format!("the PeerId of \"{name}\": {error}"))?;
        let addresses = addresses.iter().map(|address| address.parse());
        let addresses: Vec<Multiaddr> = addresses
            .collect::<Result<_, _>>()
            .map_err(|error| format!("an address of \"{name}\": {error}"))?;
        if book.peers.contains_key(&name) {
            return Err(format!("\"{name}\" is in it twice"));
        }
        book.add(name, peer, addresses).map_err(|error| error.to_string())?;
    }
    Ok(book)
}

fn encode(book: &Book) -> serde_json::Result<Vec<u8>> {
    let stored = book.peers.iter().map(|(name, known)| StoredPeer {
        name: name.to_string(),
        peer_id: known.peer.to_string(),
        addresses: known.addresses.iter().map(Multiaddr::to_string).collect(),
    });
    let mut json = serde_json::to_vec_pretty(&stored.collect::<Vec<_>>())?;
    json.push(b'\n');
    Ok(json)
}

fn failed<'a>(action: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> BookError + 'a {
    move |source| BookError::Io { action, path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn state() -> (tempfile::TempDir, StateFolder) {
        let root = tempfile::tempdir().unwrap();
        let folder = StateFolder::locate(Some(root.path().join("state")), |_| None).unwrap();
        (root, folder)
    }

    fn name(text: &str) -> PeerName {
        text.parse().unwrap()
    }

    fn address(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    #[test]
    fn what_was_added_is_found_by_the_next_command() {
        let ((_root, state), peer) = (state(), PeerId::random());
        let tcp = address("/ip4/192.0.2.7/tcp/4001");
        let named: Multiaddr = format!("{tcp}/p2p/{peer}").parse().unwrap();
        Book::change(&state, |book| book.add(name("laptop"), peer, [named, tcp.clone()])).unwrap();

        let book = Book::load(&state).unwrap();
        assert_eq!(book.find(&name("laptop")).unwrap(), &Known { peer, addresses: vec![tcp.clone()] });
        assert_eq!(book.resolve(&"laptop".parse().unwrap()).unwrap(), peer);
        assert!(book.addresses(peer).eq([&tcp]));
        let mode = fs::metadata(state.path().join(BOOK_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }

    #[test]
    fn a_name_never_comes_to_mean_another_peer_by_itself() {
        let ((_root, state), [ann, eve]) = (state(), [(); 2].map(|()| PeerId::random()));
        Book::change(&state, |book| book.add(name("ann"), ann, [])).unwrap();
        let taken = Book::change(&state, |book| book.add(name("ann"), eve, []));
        assert!(matches!(taken, Err(BookError::Taken { peer, .. }) if peer == ann));
        let removed = Book::change(&state, |book| book.remove(&name("ann"))).unwrap();
        assert_eq!(removed.peer, ann);
        Book::change(&state, |book| book.add(name("ann"), eve, [])).unwrap();
        assert_eq!(Book::load(&state).unwrap().find(&name("ann")).unwrap().peer, eve);
    }

    #[test]
    fn a_name_that_is_unknown_is_an_error_and_a_peer_id_need_not_be_known() {
        let (book, peer) = (Book::default(), PeerId::random());
        assert!(matches!(book.resolve(&PeerReference::Name(name("x"))), Err(BookError::Unknown(_))));
        assert_eq!(book.resolve(&PeerReference::Id(peer)).unwrap(), peer);
        assert_eq!(book.addresses(peer).count(), 0);
    }

    #[test]
    fn an_address_of_somebody_else_and_too_many_are_refused() {
        let (mut book, peer) = (Book::default(), PeerId::random());
        let foreign = address(&format!("/ip4/192.0.2.7/tcp/1/p2p/{}", PeerId::random()));
        let refused = book.add(name("a"), peer, [foreign]);
        assert!(matches!(refused, Err(BookError::OtherPeer { .. })));
        let ports = |count: usize| (1..=count).map(|port| address(&format!("/ip4/192.0.2.7/tcp/{port}")));
        book.add(name("a"), peer, ports(PEER_ADDRESSES)).unwrap();
        let refused = book.add(name("b"), peer, ports(PEER_ADDRESSES + 1));
        assert!(matches!(refused, Err(BookError::ManyAddresses { .. })));
    }

    #[test]
    fn a_damaged_book_is_named_and_stays_as_it_is() {
        let ((_root, state), peer) = (state(), PeerId::random());
        Book::change(&state, |book| book.add(name("laptop"), peer, [])).unwrap();
        let path = state.path().join(BOOK_FILE);
        let good = fs::read_to_string(&path).unwrap();
        let one = good.trim().trim_matches(['[', ']']);
        let damages = [
            "",
            "{}",
            &good[..good.len() / 2],
            &good.replace("laptop", "lap top"),
            &good.replace(&peer.to_string(), "0OIl"),
            &format!("[{one},{one}]"),
        ];
        for bad in damages {
            fs::write(&path, bad).unwrap();
            let error = Book::change(&state, |book| book.add(name("other"), peer, [])).unwrap_err();
            assert!(matches!(error, BookError::Damaged { .. }), "{bad}: {error}");
            assert!(error.to_string().contains(&show(&path)), "{error}");
            assert_eq!(fs::read_to_string(&path).unwrap(), bad);
        }
    }

    #[test]
    fn changes_at_once_lose_nothing() {
        let (_root, state) = state();
        std::thread::scope(|scope| {
            for index in 0..8 {
                let state = &state;
                scope.spawn(move || {
                    let add = |book: &mut Book| book.add(name(&format!("peer{index}")), PeerId::random(), []);
                    Book::change(state, add).unwrap();
                });
            }
        });
        assert_eq!(Book::load(&state).unwrap().iter().count(), 8);
    }
}
