//! The two trees of a sync, opened for a session: wherever they are, whoever dialed.

use ketch_protocol::message::{Durability, Policy, TargetView};

use super::SyncError;
use crate::tree::{self, Root, Target};

/// A target, and what is known of it.
#[derive(Debug)]
pub(super) struct OpenTarget {
    pub(super) target: Target,
    pub(super) view: TargetView,
    pub(super) free_bytes: u64,
}

/// Opens a target to write into it.
pub(super) fn open_target(root: Root, options: tree::Options) -> Result<OpenTarget, SyncError> {
    let target = Target::of_root(root, options)?;
    let unused = target.is_empty().map_err(SyncError::LookAtTarget)? && target.unfinished().files == 0;
    let view = if unused { TargetView::Empty } else { TargetView::Occupied };
    let free_bytes = target.free_bytes().map_err(SyncError::LookAtTarget)?;
    Ok(OpenTarget { target, view, free_bytes })
}

/// How a policy has a target written.
pub(super) fn options_of(policy: &Policy) -> tree::Options {
    let durability = match policy.durability {
        Durability::None => tree::Durability::None,
        Durability::Session => tree::Durability::Session,
        Durability::File => tree::Durability::File,
    };
    tree::Options { overwrite: true, durability }
}

/// Opens what a peer may read. It hears what is wrong: it has a right on the share.
pub(super) fn open_shared_source(admitted: &Admitted) -> Result<Source, Stop> {
    let opened = Root::open_exactly(&admitted.share.root);
    let opened = opened.and_then(|root| match &admitted.path {
        Some(path) => root.below(path),
        None => Ok(root),
    });
    opened.map(Source::of_root).map_err(|error| unavailable(admitted, &error))
}

/// Opens what a peer may write into; makes it below the share where it is missing.
pub(super) fn open_shared_target(admitted: &Admitted, options: tree::Options) -> Result<OpenTarget, Stop> {
    let opened = Root::open_exactly(&admitted.share.root);
    let opened = opened.and_then(|root| match &admitted.path {
        Some(path) => root.make_below(path),
        None => Ok(root),
    });
    let root = opened.map_err(|error| unavailable(admitted, &error))?;
    open_target(root, options).map_err(|error| stop_of(admitted, &error))
}
