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
    difference::{Catalogue, CatalogueBuilder},
    message::{Policy, Selection, SessionId, TargetView},
    problem::{Problem, Reason},
    session::Stop,
};

use super::{SyncError, receiving::Doing, storing::Store};
use crate::{
    tree::{self, Found, Handling, NewTrash, Root, Source, Target, TargetError},
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
    pub(super) own: Option<OwnTree>,
}

/// A tree to be catalogued.
#[derive(Debug)]
pub(super) struct OwnTree {
    pub(super) source: Source,
}

impl OwnTree {
    /// Lists it all.
    pub(super) fn catalogue(self) -> io::Result<Catalogue> {
        Ok(catalogue(&self.source)?.0)
    }
}

/// The catalogue of a tree, and what of it is no entry.
pub(super) fn catalogue(source: &Source) -> io::Result<(Catalogue, Vec<Problem>)> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(io::Error::other)?;
    let (mut builder, mut problems) = (CatalogueBuilder::new(salt), Vec::new());
    for found in source.scan() {
        match found {
            Found::Entry(entry) => builder.push(&entry),
            Found::Problem(problem) => problems.push(problem),
        }
    }
    Ok((builder.finish(), problems))
}

/// How a target is opened.
#[derive(Debug, Clone)]
pub(super) struct Opening {
    pub(super) session: SessionId,
    pub(super) selection: Selection,
    pub(super) policy: Policy,
    pub(super) trash: Option<PathBuf>,
}

/// Opens the target on the side that dials. Where nothing is to be written it may be missing, else it is made.
pub(super) fn open_local_target(path: &Path, opening: &Opening) -> Result<OpenTarget, SyncError> {
    if opening.policy.preview {
        return preview_target(Root::open(path), opening).map_err(SyncError::LookAtTarget);
    }
    let root = fs::create_dir_all(path).and_then(|()| Root::open(path));
    open_target(root.map_err(|error| TargetError::new(path, error))?, opening)
}

/// Opens the source on the side that dials.
pub(super) fn open_local_source(path: PathBuf) -> Result<Source, SyncError> {
    Root::open(&path).and_then(Source::of_root).map_err(|source| SyncError::Source { path, source })
}

fn open_target(root: Root, opening: &Opening) -> Result<OpenTarget, SyncError> {
    let Opening { session, selection, policy, trash } = opening;
    let listed = root.again().map_err(SyncError::LookAtTarget)?;
    let session = format!("{session:?}");
    let trash = trash.as_deref();
    let trash = trash.map(|folder| NewTrash { folder, session: &session, now: SystemTime::now() });
    let options = tree::Options { handling: Handling::of(policy, selection), durability: policy.durability };
    let target = open_alone(&root, options, trash.as_ref())?;
    let unused = target.is_empty().map_err(SyncError::LookAtTarget)? && target.unfinished().files == 0;
    let free_bytes = target.free_bytes().map_err(SyncError::LookAtTarget)?;
    let (view, own) = match unused {
        true => (TargetView::Empty, None),
        false => {
            let source = Source::of_root(listed).map_err(SyncError::LookAtTarget)?;
            (TargetView::Comparable, Some(OwnTree { source }))
        }
    };
    Ok(OpenTarget { doing: Doing::Store(Arc::new(Store::new(target))), view, free_bytes, own })
}

/// A session that was given up may still be in a system call, and holds the target until that returns.
fn open_alone(
    root: &Root,
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
fn preview_target(root: io::Result<Root>, opening: &Opening) -> io::Result<OpenTarget> {
    let own = match root {
        Ok(root) => Some(OwnTree { source: Source::of_root(root)? }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let view = if own.is_some() { TargetView::Comparable } else { TargetView::Occupied };
    let doing = Doing::Preview(Handling::of(&opening.policy, &opening.selection));
    // Nothing is written: there is always room.
    Ok(OpenTarget { doing, view, free_bytes: u64::MAX, own })
}

/// Opens what a peer may read. It hears what is wrong: it has a right on the share.
pub(super) fn open_shared_source(admitted: &Admitted) -> Result<Source, Stop> {
    let opened = Root::open_exactly(&admitted.share.root);
    let opened = opened.and_then(|root| match &admitted.path {
        Some(path) => root.below(path),
        None => Ok(root),
    });
    opened.and_then(Source::of_root).map_err(|error| unavailable(admitted, &error))
}

/// Opens what a peer may write into. Below the share it is made where it is missing and something is written.
pub(super) fn open_shared_target(admitted: &Admitted, opening: &Opening) -> Result<OpenTarget, Stop> {
    let preview = opening.policy.preview;
    let opened = Root::open_exactly(&admitted.share.root);
    let opened = opened.and_then(|root| match &admitted.path {
        Some(path) if preview => root.below(path),
        Some(path) => root.make_below(path),
        None => Ok(root),
    });
    if preview {
        return preview_target(opened, opening).map_err(|error| unavailable(admitted, &error));
    }
    let root = opened.map_err(|error| unavailable(admitted, &error))?;
    open_target(root, opening).map_err(|error| stop_of(admitted, &error))
}

/// What a peer with a right hears of a directory that can't be opened: where it is stays here.
fn unavailable(admitted: &Admitted, error: &io::Error) -> Stop {
    let path = admitted.path.as_ref().map_or_else(|| "its root".into(), |path| format!("\"{path}\" in it"));
    let detail = format_args!("the share \"{}\": cannot open {path}: {error}", admitted.share.name);
    Stop::new(Reason::Internal, detail)
}

/// What a peer hears of a target that can't be written.
fn stop_of(admitted: &Admitted, error: &SyncError) -> Stop {
    let reason = match error {
        SyncError::Target(error) => error.reason(),
        SyncError::Source { .. }
        | SyncError::LookAtTarget(_)
        | SyncError::Connect(_)
        | SyncError::Session { .. }
        | SyncError::Interrupted
        | SyncError::Random(_) => Reason::Internal,
    };
    let cause = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    Stop::new(reason, format_args!("the share \"{}\" cannot be written{cause}", admitted.share.name))
}
