//! [`KnownTree`]: a tree of a session, with what takes no part in it and what is remembered of its files.

use std::{
    io,
    sync::{Arc, Mutex},
};

use ketch_protocol::{
    limits::VERSION,
    manifest::{Entry, EntryKind},
    message::{
        Connections, DiskId, Hashes, Message, Place, Policy, Propose, Removal, Rules, RulesError, Selection,
        SessionId, TargetView, encode,
    },
    path::EntryPath,
    problem::{Cause, Problem},
    session::receiver::Agreed,
};

use super::lock;
use crate::{
    index::{Changes, Gone, Index, Indexes, PairKey, Reader, Recorder, RootIdentity, now},
    swarm::PeerId,
    tree::{Catalogued, Filter, FilterError, HeldDirectory, Listing, Scan, Source, SourceError, catalogue},
};

/// A tree that is listed and read, and what is known of it.
#[derive(Debug, Clone)]
pub(super) struct KnownTree {
    pub(super) source: Source,
    pub(super) index: Index,
    means: Means,
    filter: Filter,
    selection: Selection,
    /// Names what it is compared with.
    pair: Option<PairKey>,
    /// Which directory its root is.
    root: Option<RootIdentity>,
    /// Whether a session that ends well makes its root the known one, whatever was known before.
    marks_root: bool,
    /// What it is made the same as, where that is elsewhere.
    from: Option<SourceDisk>,
    /// What changed or vanished in the session before.
    missed: Arc<[EntryPath]>,
    /// What its last scan found gone.
    gone: Arc<Mutex<Gone>>,
}

/// By what it crosses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Means {
    /// By a sync: the next one is likely, and should find all folded.
    Sync,
    /// By a ticket, mostly once: what is learnt stays in the journal, which costs next to nothing, until somebody
    /// asks for it. Further names of a file are files.
    Ticket,
}

/// The source of a target, as far as its place tells.
#[derive(Debug, Clone, Copy)]
struct SourceDisk {
    pair: PairKey,
    /// Where it lay before.
    known: Option<DiskId>,
    /// Where it lies now.
    now: Option<DiskId>,
    marking: Marking,
}

/// Whether a session that ends well makes the place of its source the known one.
#[derive(Debug, Clone, Copy)]
enum Marking {
    Never,
    /// If none was known.
    First,
    /// Whatever was known before.
    Always,
}

/// How a session ended, as far as its trees are concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ended {
    /// Before everything was settled.
    Early,
    /// With all that was listed settled; and the roots of the two trees, if nothing was to be done.
    Complete(Option<Agreed>),
}

impl KnownTree {
    /// The tree below `root`: without what `selection` or `excluded` leave out.
    pub(super) fn open(
        root: &HeldDirectory,
        indexes: &Indexes,
        selection: &Selection,
        excluded: &[String],
    ) -> Result<Self, OpenError> {
        let filter = filter(selection, excluded)?;
        let source = Source::of_root(root)?;
        let (root, index) = (source.root()?, indexes.open(source.tree_name()));
        Ok(Self { filter, root, ..Self::new(source, index, selection.clone(), Means::Sync) })
    }

    /// All that crosses by a ticket: what is sent, or the target that it goes into. Where that is empty, nothing that
    /// is known of either is of use, whatever `hashes` says.
    pub(super) fn by_ticket(source: Source, indexes: &Indexes, target: TargetView, hashes: Hashes) -> Self {
        let (index, hashes) = match target {
            TargetView::Empty => (indexes.begin(source.tree_name()), Hashes::Read),
            TargetView::Occupied | TargetView::Comparable => (indexes.open(source.tree_name()), hashes),
        };
        let selection = Selection { hashes, ..Selection::default() };
        Self::new(source, index, selection, Means::Ticket)
    }

    fn new(source: Source, index: Index, selection: Selection, means: Means) -> Self {
        Self {
            source,
            index,
            means,
            filter: Filter::default(),
            selection,
            pair: None,
            root: None,
            marks_root: false,
            from: None,
            missed: Arc::default(),
            gone: Arc::default(),
        }
    }

    /// Lists it.
    pub(super) fn list(&self) -> Result<Scan, SourceError> {
        self.source.list(self.listing())
    }

    /// What takes part.
    pub(super) fn filter(&self) -> &Filter {
        &self.filter
    }

    /// Lists it all, to be compared.
    pub(super) fn catalogue(&self) -> Result<Catalogued, OpenError> {
        let mut salt = [0; 16];
        getrandom::fill(&mut salt).map_err(|error| OpenError::Salt(io::Error::other(error)))?;
        let filter = self.filter.clone();
        let catalogued = catalogue(&self.source, &self.index, &self.selection, filter, salt, || true)?;
        let mut catalogued = catalogued.expect("it is wanted to the end");
        *lock(&self.gone) = std::mem::take(&mut catalogued.gone);
        catalogued.problems.extend(self.missing());
        Ok(catalogued)
    }

    /// Takes up a session in which entries changed or vanished: each that is missing when it is listed is named.
    pub(super) fn expecting(self, missed: &[EntryPath]) -> Self {
        Self { missed: missed.into(), ..self }
    }

    /// What is missing of that.
    pub(super) fn missing(&self) -> Vec<Problem> {
        // Nobody learns whether there is what its owner leaves out.
        let listed = self.missed.iter().filter(|path| !is_protected(&self.filter, path));
        let missing = listed.filter(|path| self.source.lacks(path));
        missing.map(|path| Problem::new(path.clone(), Cause::Vanished, "it did not come back")).collect()
    }

    /// Says what it is compared with, and on what terms.
    pub(super) fn paired(self, peer: PeerId, place: &Place, selection: &Selection, policy: &Policy) -> Self {
        let terms = Propose {
            version: VERSION,
            session: SessionId([0; 16]),
            place: place.clone(),
            selection: selection.clone(),
            policy: policy.clone(),
            connections: Connections::ONE,
            // It changes nothing of what the two hold.
            controller: None,
        };
        let terms = encode(&Message::Propose(terms));
        Self { pair: Some(pair_key(peer, place, &terms)), ..self }
    }

    /// Says what it is made the same as, of which it remembers where it lay.
    pub(super) fn made_from(self, peer: PeerId, place: &Place, policy: &Policy) -> Self {
        let pair = pair_key(peer, place, b"");
        let known = self.index.disk(&pair);
        let marking = match (policy.preview, policy.removal) {
            (true, _) => Marking::Never,
            (false, Removal::Nothing) => Marking::First,
            (false, Removal::Extra { .. }) => Marking::Always,
        };
        Self { from: Some(SourceDisk { pair, known, now: None, marking }), ..self }
    }

    /// Says where its source lies; whether that is elsewhere than before.
    pub(super) fn comes_from(&mut self, disk: Option<DiskId>) -> bool {
        let Some(from) = &mut self.from else { return false };
        from.now = disk;
        from.known.zip(disk).is_some_and(|(known, now)| known != now)
    }

    /// On what it lies.
    pub(super) fn lies_on(&self) -> Option<DiskId> {
        self.root.map(RootIdentity::disk)
    }

    /// The roots of the two when nothing was to be done.
    pub(super) fn agreed(&self) -> Option<Agreed> {
        self.index.agreed(&self.pair?)
    }

    /// Makes its root the known one when a session ends well. Of a tree that does not do so, it is only if none
    /// was known.
    pub(super) fn marking_root(self, marks_root: bool) -> Self {
        Self { marks_root, ..self }
    }

    /// Whether its root lies elsewhere than the known one: on another disk, or below one that is not mounted.
    pub(super) fn is_elsewhere(&self) -> bool {
        self.known_root().is_some_and(|known| Some(known) != self.root)
    }

    fn known_root(&self) -> Option<RootIdentity> {
        self.index.known_root()
    }

    /// What is known of the files of a target by a ticket, to be asked in the order of the manifest, and given back to
    /// [`KnownTree::note_unlisted`]. A sync compares catalogues.
    pub(super) fn reader(&self) -> Option<Reader> {
        match self.means {
            Means::Sync => None,
            Means::Ticket => self.known(),
        }
    }

    fn known(&self) -> Option<Reader> {
        (self.selection.hashes != Hashes::Read).then(|| self.index.reader(now()))
    }

    /// Notes which files are known and were not listed by the sender: they are gone unless they are there.
    pub(super) fn note_unlisted(&self, reader: Reader) {
        let mut gone = reader.gone();
        gone.retain(|path| self.source.lacks(path));
        *lock(&self.gone) = gone;
    }

    /// Notes which files are known and were not met by a whole scan.
    pub(super) fn note_scanned(&self, scan: Scan) {
        *lock(&self.gone) = scan.into_known().map(Reader::gone).unwrap_or_default();
    }

    /// Keeps what was learnt of it. Nothing is written where nothing is new.
    pub(super) fn fold(&self, ended: Ended) {
        let gone = std::mem::take(&mut *lock(&self.gone));
        let changes = match (self.means, ended) {
            (Means::Sync, _) => self.changes(ended, gone),
            (Means::Ticket, Ended::Complete(_)) if !gone.is_empty() => Changes { gone, ..Changes::default() },
            (Means::Ticket, Ended::Early | Ended::Complete(_)) => return,
        };
        self.index.fold(&changes);
    }

    fn changes(&self, ended: Ended, gone: Gone) -> Changes {
        let known = self.known_root();
        // What is left out, or lies on another disk, is not gone.
        let is_all = self.filter.is_empty() && known.is_some() && known == self.root;
        match ended {
            Ended::Early => Changes::default(),
            Ended::Complete(agreed) => Changes {
                gone: if is_all { gone } else { Gone::default() },
                agreed: self.pair.zip(agreed.filter(|agreed| self.agreed() != Some(*agreed))),
                disk: self.from.and_then(SourceDisk::learnt),
                root: self.root.filter(|_| known.is_none() || (self.marks_root && known != self.root)),
            },
        }
    }

    /// Takes what becomes known of its files.
    pub(super) fn recorder(&self) -> Recorder {
        self.index.recorder()
    }

    fn listing(&self) -> Listing {
        Listing {
            filter: self.filter.clone(),
            known: self.known(),
            hard_links: self.means == Means::Sync,
            owner: self.selection.owner,
            attributes: self.selection.attributes,
        }
    }
}

impl SourceDisk {
    /// Where the source lies, if that is to be remembered from now on.
    fn learnt(self) -> Option<(PairKey, DiskId)> {
        let is_new = match self.marking {
            Marking::Never => false,
            Marking::First => self.known.is_none(),
            Marking::Always => self.known != self.now,
        };
        self.now.filter(|_| is_new).map(|now| (self.pair, now))
    }
}

fn pair_key(peer: PeerId, place: &Place, terms: &[u8]) -> PairKey {
    PairKey::new(&peer.to_bytes(), place.share.as_str().as_bytes(), place.path.as_ref(), terms)
}

/// What takes part in a tree: neither `selection` nor its owner leave it out.
pub(super) fn filter(selection: &Selection, excluded: &[String]) -> Result<Filter, OpenError> {
    let rules = selection.rules.iter().chain(excluded.iter().map(String::as_bytes));
    Ok(Filter::new(&Rules::new(rules.map(Box::from).collect())?)?)
}

/// Whether an entry takes no part, or a directory above it does not.
pub(super) fn is_excluded(filter: &Filter, entry: &Entry) -> bool {
    !filter.is_empty()
        && (filter.leaves_out(&entry.path, entry.kind == EntryKind::Directory)
            || lies_in_excluded(filter, &entry.path))
}

/// Whether a path takes no part, whatever lies there, or a directory above it does not.
pub(super) fn is_protected(filter: &Filter, path: &EntryPath) -> bool {
    !filter.is_empty()
        && (filter.leaves_out(path, false) || filter.leaves_out(path, true) || lies_in_excluded(filter, path))
}

fn lies_in_excluded(filter: &Filter, path: &EntryPath) -> bool {
    let bytes = path.as_bytes();
    let slashes = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(index, _)| index);
    let mut above = slashes.filter_map(|end| EntryPath::parse(&bytes[..end]).ok());
    above.any(|above| filter.leaves_out(&above, true))
}

/// Why a tree of a sync can't be listed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// It can't be opened.
    #[error(transparent)]
    Source(#[from] SourceError),
    /// What is left out is said in a way that can't be understood.
    #[error(transparent)]
    Filter(#[from] FilterError),
    /// Too much is left out.
    #[error(transparent)]
    Rules(#[from] RulesError),
    /// The system gave no random numbers.
    #[error("drawing random numbers")]
    Salt(#[source] io::Error),
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use ketch_protocol::{hash::ContentHash, manifest::Timestamp};

    use super::*;
    use crate::{
        index::{Seen, StatKey},
        state::StateFolder,
    };

    fn indexes(folder: &Path) -> Indexes {
        Indexes::new(&StateFolder::locate(Some(folder.join("state")), |_| None).unwrap())
    }

    fn open(folder: &Path, indexes: &Indexes, excluded: &[String]) -> KnownTree {
        let root = HeldDirectory::open(&folder.join("tree")).unwrap();
        let selection = Selection { hashes: Hashes::All, ..Selection::default() };
        KnownTree::open(&root, indexes, &selection, excluded).unwrap()
    }

    /// A session that compares it and ends well.
    fn compare(tree: &KnownTree) {
        tree.catalogue().unwrap();
        tree.fold(Ended::Complete(None));
    }

    /// Whether its index knows of any file.
    fn knows_any(tree: &KnownTree) -> bool {
        !tree.index.reader(now()).gone().is_empty()
    }

    /// Makes it so that a tree lay on another disk before.
    fn know_another_disk(tree: &KnownTree) {
        let file_system = tree.root.unwrap().file_system + 1;
        let root = Some(RootIdentity { file_system });
        tree.index.fold(&Changes { root, ..Changes::default() });
    }

    #[test]
    fn files_that_are_gone_are_forgotten_unless_they_are_left_out_or_the_disk_is_another() {
        let folder = tempfile::tempdir().unwrap();
        let (root, indexes) = (folder.path().join("tree"), indexes(folder.path()));
        fs::create_dir(&root).unwrap();
        fs::write(root.join("a"), "a").unwrap();
        let tree = open(folder.path(), &indexes, &[]);
        compare(&tree);
        compare(&open(folder.path(), &indexes, &["a".into()]));
        assert!(knows_any(&tree), "what is left out is known on");

        know_another_disk(&tree);
        let other = open(folder.path(), &indexes, &[]);
        assert!(other.is_elsewhere());
        compare(&other);
        assert!(knows_any(&tree), "what another disk does not have is known on");

        compare(&open(folder.path(), &indexes, &[]).marking_root(true));
        fs::remove_file(root.join("a")).unwrap();
        compare(&open(folder.path(), &indexes, &[]));
        assert!(!knows_any(&tree));
    }

    /// Has its index know of a file, whatever is there.
    fn record(tree: &KnownTree, name: &str) {
        let (mtime, ctime, at) = (Timestamp::default(), Timestamp::default(), now());
        let seen = Seen { stat: StatKey { size: 1, mtime, ctime, inode: 1 }, at };
        let path = EntryPath::parse(name.as_bytes()).unwrap();
        tree.recorder().read(&path, seen, ContentHash::of_nothing());
    }

    fn by_ticket(folder: &Path, indexes: &Indexes, target: TargetView) -> KnownTree {
        let root = HeldDirectory::open(&folder.join("tree")).unwrap();
        KnownTree::by_ticket(Source::of_root(&root).unwrap(), indexes, target, Hashes::Known)
    }

    #[test]
    fn of_what_a_ticket_does_not_list_only_what_is_gone_is_forgotten() {
        let folder = tempfile::tempdir().unwrap();
        let (root, indexes) = (folder.path().join("tree"), indexes(folder.path()));
        fs::create_dir(&root).unwrap();
        let first = by_ticket(folder.path(), &indexes, TargetView::Empty);
        assert!(first.reader().is_none(), "an empty target has nothing to be known");
        ["a", "b/x", "c/x"].iter().for_each(|name| record(&first, name));
        first.fold(Ended::Complete(None));
        drop(first);
        fs::create_dir(root.join("c")).unwrap();
        ["a", "b", "c/x"].iter().for_each(|name| fs::write(root.join(name), "").unwrap());

        let next = by_ticket(folder.path(), &indexes, TargetView::Occupied);
        next.note_unlisted(next.reader().unwrap());
        next.fold(Ended::Complete(None));

        let mut left = Vec::new();
        let mut known = next.reader().unwrap().gone();
        known.retain(|path| {
            left.push(path.to_string());
            true
        });
        assert_eq!(left, ["a", "c/x"]);
    }

    #[test]
    fn what_is_missing_is_named_unless_it_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("tree")).unwrap();
        fs::write(folder.path().join("tree/there"), "").unwrap();
        let missed = ["gone", "there", "there/below", "left/out"];
        let missed = missed.map(|name| EntryPath::parse(name.as_bytes()).unwrap());
        let tree = open(folder.path(), &indexes(folder.path()), &["left".into()]).expecting(&missed);
        let named: Vec<_> = tree.catalogue().unwrap().problems.into_iter().map(|found| found.path).collect();
        assert_eq!(named, [missed[0].clone(), missed[2].clone()]);
    }

    #[test]
    fn only_who_marks_its_root_replaces_a_known_one() {
        let folder = tempfile::tempdir().unwrap();
        let (root, indexes) = (folder.path().join("tree"), indexes(folder.path()));
        fs::create_dir(&root).unwrap();
        compare(&open(folder.path(), &indexes, &[]));
        know_another_disk(&open(folder.path(), &indexes, &[]));
        compare(&open(folder.path(), &indexes, &[]));
        assert!(open(folder.path(), &indexes, &[]).is_elsewhere());
        open(folder.path(), &indexes, &[]).marking_root(true).fold(Ended::Early);
        assert!(open(folder.path(), &indexes, &[]).is_elsewhere());
        compare(&open(folder.path(), &indexes, &[]).marking_root(true));
        assert!(!open(folder.path(), &indexes, &[]).is_elsewhere());
    }
}
