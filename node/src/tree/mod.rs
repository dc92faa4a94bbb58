//! The trees on disk: what is sent ([`Source`]) and what is written ([`Target`]). Nothing else in this crate
//! touches the user's files.
//!
//! Everything here blocks; callers run it on threads of their own. Every path is opened beneath a directory
//! handle without following a symlink, so that whoever changes the tree meanwhile, or names its paths, can
//! not lead a read or a write out of it.
//!
//! A sender opens a [`Source`], lists it with [`Source::scan`] or [`Source::list`] and reads with
//! [`Source::open_file`]. A
//! receiver opens a [`Target`], asks [`Target::plan`] about every entry in manifest order, stores content by
//! [`Target::create`] or [`Target::partial`] on any thread, and ends with [`Target::finish`] and
//! [`Target::sync`]. Dropping any of these at any time is safe: a file under its final name is always whole.

mod attributes;
mod catalogue;
mod filter;
mod handles;
mod held;
mod metadata;
mod platform;
mod scan;
mod source;
mod target;

pub use catalogue::{Catalogued, catalogue};
pub use filter::{Filter, FilterError, excluding, including, rules_in};
pub use held::HeldDirectory;
pub use platform::Extent;
pub use scan::{Found, Listing, Scan};
pub use source::{Source, SourceError, SourceFile};
pub use target::{
    Approved, Decision, Durability, Existing, Extras, Handling, Link, NewFile, NewTrash, Options, Over, Own,
    Partial, Plan, Rebuild, Skip, Spared, Target, TargetError, TooMany, TrashError, Trouble, UndoError,
    Undone, Unfinished, decide, undo,
};

/// The one folder that holds what is not yet complete, at the top of each file system of a target. It is
/// never scanned, sent or counted, and no entry may have its name.
pub const PRIVATE_FOLDER: &str = ".ketch-partial";
