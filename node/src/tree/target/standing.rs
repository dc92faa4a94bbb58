//! What stands under an entry's name, looked at as far as it counts.

use ketch_protocol::{
    limits::LINK_TARGET_BYTES,
    manifest::{Attribute, Entry, EntryKind},
    path::EntryPath,
};
use rustix::{
    fs::{AtFlags, FileType, Stat, readlinkat, statat},
    io::Errno,
};

use super::{Directory, Own, Shared};
use crate::{
    index::Reader,
    tree::{attributes, metadata},
};

/// What stands under a name.
#[derive(Debug)]
pub(super) enum Standing {
    Nothing,
    Special,
    Entry(Box<Entry>),
}

/// What was known before of what stands under a name.
#[derive(Debug)]
pub(super) enum Known<'a> {
    Nothing,
    /// As the target was listed.
    Listed(&'a Entry),
    /// As an index tells, which is asked in the order of the manifest.
    Indexed(&'a mut Reader),
}

impl Standing {
    pub(super) fn own(&self) -> Own<'_> {
        match self {
            Self::Nothing => Own::Nothing,
            Self::Special => Own::Special,
            Self::Entry(entry) => Own::Entry(entry),
        }
    }
}

impl Shared {
    /// Looks at `path` in the directory it lies in. What was listed of it is believed as long as its kind, length
    /// and time are the same; what is in an index, as far as that can be sure.
    pub(super) fn look(
        &self,
        path: &EntryPath,
        above: &Directory,
        known: &mut Known<'_>,
    ) -> Result<Standing, Errno> {
        let stat = match statat(&above.handle, path.leaf(), AtFlags::SYMLINK_NOFOLLOW) {
            Err(Errno::NOENT) => return Ok(Standing::Nothing),
            looked => looked?,
        };
        let Some(kind) = kind(path, above, &stat)? else { return Ok(Standing::Special) };
        let mode = if matches!(kind, EntryKind::Symlink { .. }) { 0 } else { metadata::mode(&stat) };
        let mut own = Entry::new(path.clone(), kind, mode, metadata::mtime(&stat));
        own.owner = self.options.handling.owner.then(|| metadata::owner(&stat));
        if self.options.handling.attributes {
            own.attributes = attributes_of(path, above, &own.kind);
        }
        match known {
            Known::Nothing => {}
            Known::Listed(known) => recall(&mut own, known, &stat),
            Known::Indexed(reader) => {
                if matches!(own.kind, EntryKind::File { .. }) {
                    own.hash = reader.hash_of(path, &metadata::stat_key(&stat));
                }
            }
        }
        Ok(Standing::Entry(Box::new(own)))
    }
}

/// Those that can't be read count as different from any that are listed; setting these tells why.
fn attributes_of(path: &EntryPath, above: &Directory, kind: &EntryKind) -> Vec<Attribute> {
    match kind {
        EntryKind::File { .. } | EntryKind::Directory => {
            attributes::read_at(&above.handle, path.leaf()).unwrap_or_default()
        }
        EntryKind::Symlink { .. } | EntryKind::HardLink { .. } => Vec::new(),
    }
}

/// `None` for something special.
fn kind(path: &EntryPath, above: &Directory, stat: &Stat) -> Result<Option<EntryKind>, Errno> {
    Ok(match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Some(EntryKind::File { size: metadata::size(stat) }),
        FileType::Directory => Some(EntryKind::Directory),
        FileType::Symlink => {
            let target = readlinkat(&above.handle, path.leaf(), Vec::new())?.into_bytes();
            (target.len() <= LINK_TARGET_BYTES).then(|| EntryKind::Symlink { target: target.into() })
        }
        FileType::Fifo
        | FileType::Socket
        | FileType::CharacterDevice
        | FileType::BlockDevice
        | FileType::Unknown => None,
    })
}

/// Adds what only the listing of the target knows: the hash of a file, and that it is another name of one.
fn recall(own: &mut Entry, known: &Entry, stat: &Stat) {
    if own.mtime != known.mtime {
        return;
    }
    match (&own.kind, &known.kind) {
        (EntryKind::File { size }, EntryKind::File { size: listed }) if size == listed => {
            own.hash = known.hash;
        }
        (EntryKind::File { .. }, EntryKind::HardLink { .. }) if metadata::names(stat) > 1 => {
            own.kind = known.kind.clone();
        }
        (
            EntryKind::File { .. }
            | EntryKind::Directory
            | EntryKind::Symlink { .. }
            | EntryKind::HardLink { .. },
            EntryKind::File { .. }
            | EntryKind::Directory
            | EntryKind::Symlink { .. }
            | EntryKind::HardLink { .. },
        ) => {}
    }
}
