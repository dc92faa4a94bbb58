//! Says what an entry needs, and makes at once what has no content.

use std::{os::fd::AsFd as _, sync::Arc};

use ketch_protocol::{
    delta::worthwhile,
    limits::WHOLE_BYTES,
    manifest::{Entry, EntryKind},
    message::Fate,
    path::{EntryPath, escape},
    problem::Cause,
};
use rustix::{
    fs::{AtFlags, Mode, mkdirat, unlinkat},
    io::Errno,
};

use super::{
    Absent, Decision, Directory, Over, Skip, Target, decide, is_reserved,
    partial::Identity,
    pending::Origin,
    spelling::Alike,
    standing::{Known, Standing},
    trash::Left,
    trouble::{Trouble, directory_in_the_way, metadata_trouble, write_trouble},
};
use crate::{
    index::Reader,
    tree::{PRIVATE_FOLDER, platform},
};

/// What an entry needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Plan {
    /// Nothing any more.
    Settled(Fate),
    /// All of its content: by [`Target::create`] up to [`WHOLE_BYTES`], by [`Target::partial`] above.
    Content,
    /// A look at the stored file of the same length ([`Target::existing`]), and then [`Target::keep`], or
    /// its content if it [may be replaced](Target::may_replace).
    Compare,
    /// What the stored file of another length lacks of it, by [`Target::rebuild`]; or all of its content.
    Rebuild,
    /// The rest of its content, by [`Target::partial`].
    Resume {
        /// Bytes that an earlier session recorded as stored; they are checked when they are asked for.
        kept_bytes: u64,
    },
    /// A link, by [`Target::link`], once the file that it is another name of is settled.
    Link,
    /// The removal of the directory that stands there, by [`Target::clear`], and then another plan.
    Blocked,
}

impl Target {
    /// Decides about the next entry of the manifest. Directories, symlinks and empty files are made here.
    pub fn plan(&self, entry: &Entry) -> Result<Plan, Trouble> {
        self.plan_with(entry, Known::Nothing)
    }

    /// Decides as [`Target::plan`] does, knowing what was listed of the target itself under the entry's name:
    /// a content hash spares the comparison, as long as the file's length and time are still the same.
    pub fn plan_beside(&self, entry: &Entry, own: Option<&Entry>) -> Result<Plan, Trouble> {
        self.plan_with(entry, own.map_or(Known::Nothing, Known::Listed))
    }

    /// Decides as [`Target::plan`] does, asking an index of the target for the hash of what stands there.
    pub fn plan_knowing(&self, entry: &Entry, index: &mut Reader) -> Result<Plan, Trouble> {
        self.plan_with(entry, Known::Indexed(index))
    }

    fn plan_with(&self, entry: &Entry, mut known: Known<'_>) -> Result<Plan, Trouble> {
        if self.is_skipped_above(&entry.path)? {
            return Ok(Plan::Settled(Fate::Skipped));
        }
        self.check_spelling(&entry.path)?;
        let mut planned = self.plan_entry(entry, &mut known);
        if matches!(&planned, Err(Trouble::Problem(problem)) if problem.cause == Cause::Exists) {
            // Another receiver may have made it between the look and the making; then this look finds it.
            planned = self.plan_entry(entry, &mut known);
        }
        let skipped = matches!(planned, Ok(Plan::Settled(Fate::Skipped)));
        if entry.kind == EntryKind::Directory && (skipped || planned.is_err()) {
            self.0.planned().absent = Some(Absent { path: entry.path.clone(), skipped });
        }
        planned
    }

    /// Refuses reserved names, and what lies below a directory that couldn't be made; says whether it lies
    /// below one that was left out.
    fn is_skipped_above(&self, path: &EntryPath) -> Result<bool, Trouble> {
        if is_reserved(path) {
            let detail = format_args!("\"{PRIVATE_FOLDER}\" is reserved for unfinished files");
            return Err(Trouble::problem(path, Cause::Unwritable, detail));
        }
        let mut planned = self.0.planned();
        match &planned.absent {
            Some(absent) if lies_below(path, &absent.path) => {
                if absent.skipped {
                    return Ok(true);
                }
                let detail = format_args!("its directory \"{}\" could not be made", absent.path);
                Err(Trouble::problem(path, Cause::Unwritable, detail))
            }
            Some(_) | None => {
                planned.absent = None;
                Ok(false)
            }
        }
    }

    /// Refuses a name that the target takes for that of another entry.
    fn check_spelling(&self, path: &EntryPath) -> Result<(), Trouble> {
        let alike = self.0.alike;
        if alike == Alike::default() {
            return Ok(());
        }
        let names = |directory: &[u8]| self.0.names(directory);
        match self.0.planned().spellings.admit(path, alike, names) {
            None => Ok(()),
            Some(other) => {
                let detail = format_args!("its name is that of \"{}\" here", escape(&other));
                Err(Trouble::problem(path, Cause::Collision, detail))
            }
        }
    }

    fn plan_entry(&self, entry: &Entry, known: &mut Known<'_>) -> Result<Plan, Trouble> {
        let trouble = |error| write_trouble(&entry.path, "looking at what is stored there", error);
        let above = self.0.directory_above(&entry.path);
        let above = above.map_err(|error| write_trouble(&entry.path, "opening its directory", error))?;
        let standing = self.0.look(&entry.path, &above, known).map_err(trouble)?;
        let decision = decide(entry, standing.own(), &self.0.options.handling);
        match decision {
            Decision::Keep | Decision::Skip(_) => {}
            Decision::Describe | Decision::Digest | Decision::Store(_) => {
                self.0.remember_above(&entry.path).map_err(trouble)?;
            }
        }
        self.act(entry, decision, &standing, &above)
    }

    fn act(
        &self,
        entry: &Entry,
        decision: Decision,
        standing: &Standing,
        above: &Arc<Directory>,
    ) -> Result<Plan, Trouble> {
        use Decision::{Describe, Digest, Keep, Skip, Store};
        match (&entry.kind, decision) {
            (_, Store(Over::Directory)) => Ok(Plan::Blocked),
            // Whatever stands there: its file may be another one by the time it is settled.
            (EntryKind::HardLink { .. }, _) => Ok(Plan::Link),
            (_, Skip(skip)) if skip.is_wanted() => Ok(Plan::Settled(Fate::Skipped)),
            (_, Skip(skip)) => Err(not_replaced(&entry.path, skip)),
            (EntryKind::Directory, Keep | Describe | Digest | Store(_)) => {
                self.plan_directory(entry, decision, standing, above).map(Plan::Settled)
            }
            (EntryKind::File { .. } | EntryKind::Symlink { .. }, Keep) => Ok(Plan::Settled(Fate::Kept)),
            (EntryKind::File { .. } | EntryKind::Symlink { .. }, Digest) => Ok(Plan::Compare),
            (EntryKind::File { .. } | EntryKind::Symlink { .. }, Describe) => {
                self.0.describe(entry, standing, above).map(Plan::Settled)
            }
            (EntryKind::Symlink { target }, Store(_)) => {
                self.make_symlink(entry, target, above).map(Plan::Settled)
            }
            (EntryKind::File { size: 0 }, Store(_)) => self.create(entry)?.commit().map(Plan::Settled),
            (EntryKind::File { size }, Store(_)) => self.plan_content(entry, *size, standing, above),
        }
    }

    fn plan_directory(
        &self,
        entry: &Entry,
        decision: Decision,
        standing: &Standing,
        above: &Arc<Directory>,
    ) -> Result<Fate, Trouble> {
        let trouble = |error| write_trouble(&entry.path, "making the directory", error);
        let fate = match standing {
            Standing::Entry(own) if own.kind == EntryKind::Directory => {
                open_for_owner(above, entry.path.leaf(), own.mode).map_err(trouble)?;
                if decision == Decision::Describe { Fate::Described } else { Fate::Kept }
            }
            Standing::Nothing | Standing::Special | Standing::Entry(_) => {
                self.make_directory(entry, above).map_err(trouble)?
            }
        };
        if fate == Fate::Described {
            self.0.note_described(entry, standing).map_err(trouble)?;
        }
        self.0.planned().directories.push(&entry.path, entry.mode, entry.mtime, Origin::Listed);
        if fate != Fate::Kept {
            self.0.describe_directory(entry)?;
        }
        Ok(fate)
    }

    fn make_directory(&self, entry: &Entry, above: &Directory) -> Result<Fate, Errno> {
        let leaf = entry.path.leaf();
        let fate = self.0.make_way(&entry.path, above, || Ok(Left::directory()))?;
        if fate == Fate::Updated {
            unlinkat(&above.handle, leaf, AtFlags::empty())?;
        }
        mkdirat(&above.handle, leaf, Mode::RWXU)?;
        Ok(fate)
    }

    fn make_symlink(&self, entry: &Entry, target: &[u8], above: &Arc<Directory>) -> Result<Fate, Trouble> {
        let placed = self.0.place_symlink(entry, target, above);
        let (fate, described) =
            placed.map_err(|error| write_trouble(&entry.path, "making the symlink", error))?;
        described.map(|()| fate).map_err(|unset| metadata_trouble(&entry.path, unset))
    }

    fn plan_content(
        &self,
        entry: &Entry,
        size: u64,
        standing: &Standing,
        above: &Arc<Directory>,
    ) -> Result<Plan, Trouble> {
        let is_worthwhile = match standing {
            Standing::Entry(own) => {
                matches!(own.kind, EntryKind::File { .. }) && worthwhile(own.size(), size).is_some()
            }
            Standing::Nothing | Standing::Special => false,
        };
        let fetched = if is_worthwhile { Plan::Rebuild } else { Plan::Content };
        if size <= WHOLE_BYTES {
            return Ok(fetched);
        }
        let private = self.0.private(above, entry.path.parent());
        let private =
            private.map_err(|error| write_trouble(&entry.path, "opening the private folder", error))?;
        Ok(match Identity::of(entry).recorded_bytes(&private) {
            0 => fetched,
            kept_bytes => Plan::Resume { kept_bytes },
        })
    }
}

/// The problem of an entry that was not left out on purpose.
pub(super) fn not_replaced(path: &EntryPath, skip: Skip) -> Trouble {
    if skip == Skip::Directory {
        return directory_in_the_way(path);
    }
    Trouble::problem(path, Cause::Exists, "its kind, length, content or target differs")
}

pub(super) fn lies_below(path: &EntryPath, directory: &EntryPath) -> bool {
    path.as_bytes().strip_prefix(directory.as_bytes()).is_some_and(|rest| rest.starts_with(b"/"))
}

/// Lets the owner write below an existing directory for the time of the session. Someone else's directory
/// stays as it is: what is stored below then says whether that is enough.
pub(super) fn open_for_owner(above: &Directory, leaf: &[u8], mode: u32) -> Result<(), Errno> {
    let mode = Mode::from_raw_mode(mode);
    if mode.contains(Mode::RWXU) {
        return Ok(());
    }
    match platform::change_mode(above.handle.as_fd(), leaf, mode | Mode::RWXU) {
        Ok(()) | Err(Errno::PERM | Errno::ROFS) => Ok(()),
        Err(error) => Err(error),
    }
}
