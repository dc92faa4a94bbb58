//! The two trees of a sync, opened for a session: wherever they are, whoever dialed.

use std::{
    error::Error as _,
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
    time::{Duration, SystemTime},
};

use ketch_protocol::{
    message::{Equality, Hashes, Place, Policy, Removal, Selection, SessionId, TargetView},
    problem::Reason,
    session::Stop,
};

use super::{
    SyncError,
    event::Direction,
    known_tree::{KnownTree, OpenError, filter},
    receiving::Doing,
    store::Store,
};
use crate::{
    index::Indexes,
    swarm::PeerId,
    tree::{self, Handling, HeldDirectory, NewTrash, Target, TargetError},
    trust::shares::Admitted,
};

/// How often and how long to wait for a target that another session holds: half a second together.
const LOCK_ATTEMPTS: usize = 10;
const LOCK_WAIT: Duration = Duration::from_millis(50);

/// A target, and what is known of it.
#[derive(Debug)]
pub(super) struct OpenTarget {
    pub(super) doing: Doing,
    pub(super) view: TargetView,
    pub(super) free_bytes: u64,
    /// Lists it, where it is to be compared.
    pub(super) own: Option<KnownTree>,
}

/// How a target is opened.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    pub(super) peer: PeerId,
    pub(super) place: Place,
    pub(super) session: SessionId,
    pub(super) selection: Selection,
    pub(super) policy: Policy,
    pub(super) trash: Option<PathBuf>,
    /// Whether the peer keeps its source at a place of its own, or just sends it.
    pub(super) direction: Direction,
    /// What its owner excludes.
    pub(super) exclude: Vec<String>,
    pub(super) indexes: Arc<Indexes>,
}

impl Opening {
    /// What is listed of the target: what the sender is asked for, and the hashes that this side needs.
    fn own_selection(&self) -> Selection {
        let hashes = match (self.policy.equality, self.policy.preview || self.policy.find_moves) {
            (Equality::Checksum, _) => Hashes::Read,
            (Equality::Content | Equality::Size, true) => Hashes::All,
            (Equality::Content | Equality::Size, false) => Hashes::Known,
        };
        Selection { hashes, ..self.selection.clone() }
    }

    fn own_tree(&self, root: &HeldDirectory) -> Result<KnownTree, OpenError> {
        let Self { peer, place, selection, policy, .. } = self;
        let tree = KnownTree::open(root, &self.indexes, &self.own_selection(), &self.exclude)?;
        let tree = tree.paired(*peer, place, selection, policy).marking_root(!policy.preview);
        Ok(match self.direction {
            Direction::Pull => tree.made_from(*peer, place, policy),
            // Who pushes looks after its source itself.
            Direction::Push => tree,
        })
    }
}

/// Opens the target on the side that dials. Where nothing is to be written it may be missing, else it is made.
pub(super) fn open_local_target(path: &Path, opening: &Opening) -> Result<OpenTarget, SyncError> {
    if opening.policy.preview {
        return preview_target(path, HeldDirectory::open(path), opening);
    }
    let root = fs::create_dir_all(path).and_then(|()| HeldDirectory::open(path));
    open_target(root.map_err(|error| TargetError::new(path, error))?, opening)
}

/// Opens the source on the side that dials. Where another directory than before is in its place, nothing may be
/// removed for that: the disk that belongs there may not be mounted.
pub(super) fn open_local_source(
    path: PathBuf,
    selection: &Selection,
    policy: &Policy,
    indexes: &Indexes,
) -> Result<KnownTree, SyncError> {
    let root = match HeldDirectory::open(&path) {
        Ok(root) => root,
        Err(source) => return Err(SyncError::Source { path, source }),
    };
    let tree = KnownTree::open(&root, indexes, selection, &[])?;
    match policy.removal {
        Removal::Nothing => Ok(tree),
        Removal::Extra { force_empty: false, .. } if tree.is_elsewhere() => {
            Err(SyncError::OtherSource { path })
        }
        Removal::Extra { .. } => Ok(tree.marking_root(!policy.preview)),
    }
}

fn open_target(root: HeldDirectory, opening: &Opening) -> Result<OpenTarget, SyncError> {
    let Opening { session, selection, policy, trash, .. } = opening;
    let listed = root.again().map_err(SyncError::LookAtTarget)?;
    let session = format!("{session:?}");
    let trash = trash.as_deref();
    let trash = trash.map(|folder| NewTrash { folder, session: &session, now: SystemTime::now() });
    let options = tree::Options { handling: Handling::of(policy, selection), durability: policy.durability };
    let target = open_alone(&root, options, trash.as_ref())?;
    let unused = target.is_empty().map_err(SyncError::LookAtTarget)? && target.unfinished().files == 0;
    let free_bytes = target.free_bytes().map_err(SyncError::LookAtTarget)?;
    let own = opening.own_tree(&listed)?;
    let view = if unused { TargetView::Empty } else { TargetView::Comparable };
    let doing = Doing::Store(Arc::new(Store::known(target, Some(own.clone()), policy.delta)));
    Ok(OpenTarget { doing, view, free_bytes, own: Some(own) })
}

/// A session that was given up may still be in a system call, and holds the target until that returns.
fn open_alone(
    root: &HeldDirectory,
    options: tree::Options,
    trash: Option<&NewTrash<'_>>,
) -> Result<Target, SyncError> {
    for _ in 0..LOCK_ATTEMPTS {
        let again = root.again().map_err(SyncError::LookAtTarget)?;
        match Target::open_alone(again, options, trash) {
            Err(TargetError::Busy { .. }) => thread::sleep(LOCK_WAIT),
            opened => return Ok(opened?),
        }
    }
    let again = root.again().map_err(SyncError::LookAtTarget)?;
    Ok(Target::open_alone(again, options, trash)?)
}

/// Opens a target that may be missing, to look at it.
fn preview_target(
    path: &Path,
    root: io::Result<HeldDirectory>,
    opening: &Opening,
) -> Result<OpenTarget, SyncError> {
    let own = match root {
        Ok(root) => Some(opening.own_tree(&root)?),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(TargetError::new(path, error).into()),
    };
    let view = if own.is_some() { TargetView::Comparable } else { TargetView::Occupied };
    let filter = filter(&opening.selection, &opening.exclude)?;
    let doing = Doing::Preview { handling: Handling::of(&opening.policy, &opening.selection), filter };
    // Nothing is written: there is always room.
    Ok(OpenTarget { doing, view, free_bytes: u64::MAX, own })
}

/// Opens what a peer may read. It hears what is wrong: it has a right on the share.
pub(super) fn open_shared_source(
    admitted: &Admitted,
    selection: &Selection,
    indexes: &Indexes,
) -> Result<KnownTree, Stop> {
    let opened = HeldDirectory::open_exactly(&admitted.share.root);
    let opened = opened.and_then(|root| match &admitted.path {
        Some(path) => root.below(path),
        None => Ok(root),
    });
    let root = opened.map_err(|error| unavailable(admitted, &error))?;
    let tree = KnownTree::open(&root, indexes, selection, &admitted.share.exclude);
    tree.map_err(|error| Stop::new(Reason::Internal, error))
}

/// Opens what a peer may write into. Below the share it is made where it is missing and something is written.
pub(super) fn open_shared_target(admitted: &Admitted, opening: &Opening) -> Result<OpenTarget, Stop> {
    let preview = opening.policy.preview;
    let share = HeldDirectory::open_exactly(&admitted.share.root);
    let share = share.map_err(|error| unavailable(admitted, &error))?;
    let opened = match &admitted.path {
        Some(path) if preview => share.below(path),
        Some(path) => share.make_below(path),
        None => Ok(share),
    };
    if preview {
        let path = admitted.full_path();
        return preview_target(&path, opened, opening).map_err(|error| stop_of(admitted, &error));
    }
    let root = opened.map_err(|error| unavailable(admitted, &error))?;
    open_target(root, opening).map_err(|error| stop_of(admitted, &error))
}

/// What a peer with a right hears of a directory that can't be opened: where it is stays here.
fn unavailable(admitted: &Admitted, error: &io::Error) -> Stop {
    let path = admitted.path.as_ref().map_or_else(|| "its root".into(), |path| format!("\"{path}\" in it"));
    let detail = format_args!("the share \"{}\": cannot open {path}: {error}", admitted.share.name);
    Stop::new(Reason::Unavailable, detail)
}

/// What a peer hears of a target that can't be written, or looked at.
fn stop_of(admitted: &Admitted, error: &SyncError) -> Stop {
    let (reason, cause) = match error {
        SyncError::LookAtTarget(error) => return unavailable(admitted, error),
        SyncError::Target(error) => {
            (error.reason(), error.source().map_or_else(String::new, |source| format!(": {source}")))
        }
        SyncError::Tree(error) => (Reason::Internal, format!(": {error}")),
        SyncError::Source { .. } | SyncError::OtherSource { .. } | SyncError::Dialed(_) => {
            (Reason::Internal, String::new())
        }
    };
    Stop::new(reason, format_args!("the share \"{}\" cannot be written{cause}", admitted.share.name))
}
