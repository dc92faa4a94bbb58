//! Decides what becomes of a listed entry beside what stands under its name: without looking at a disk, so
//! that a preview decides as a session does.

use ketch_protocol::{
    manifest::{Entry, EntryKind},
    message::{Equality, Policy, Removal, Selection},
};

use crate::tree::metadata::{Carried, carried_mode};

/// Which differences count, and what may be done about them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handling {
    /// What differs is replaced; without it, it stays as it is and is named.
    pub overwrite: bool,
    /// A directory in the way of something else is removed with all it holds; it needs `overwrite` too.
    pub remove: bool,
    /// Only what is there already is changed; nothing is added.
    pub existing: bool,
    /// Only what is missing is added; nothing but directories is changed.
    pub ignore_existing: bool,
    /// A file that is newer than the listed one stays.
    pub update: bool,
    /// Files of the same length are taken to be equal.
    pub size_only: bool,
    /// Owners count and are set.
    pub owner: bool,
    /// Extended attributes count and are set.
    pub attributes: bool,
}

/// What stands under an entry's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Own<'a> {
    /// Nothing.
    Nothing,
    /// Neither a file, a directory nor a symlink.
    Special,
    /// This, with the hash of its content where it is known.
    Entry(&'a Entry),
}

/// What becomes of an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// It is there, equal in all that counts.
    Keep,
    /// Its content is there; its mode, time, owner or attributes differ.
    Describe,
    /// A file of its length is there: hashes must be compared.
    Digest,
    /// It is made, or its content is fetched.
    Store(Over),
    /// What stands there stays.
    Skip(Skip),
}

/// What an entry takes the place of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Over {
    /// Its name is free.
    Nothing,
    /// A file: for another one it is the old version.
    File,
    /// A symlink or something special.
    Other,
    /// A directory, which must be removed before.
    Directory,
}

/// Why an entry is left out on purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Skip {
    /// Something different stands there and nothing is to be replaced.
    Different,
    /// A directory stands there and may not be removed.
    Directory,
    /// What stands there is newer ([`Handling::update`]).
    Newer,
    /// Something stands there ([`Handling::ignore_existing`]).
    Existing,
    /// Nothing stands there ([`Handling::existing`]).
    Missing,
}

impl Skip {
    /// Whether it is what was asked for; otherwise it is a problem.
    pub fn is_wanted(self) -> bool {
        match self {
            Self::Newer | Self::Existing | Self::Missing => true,
            Self::Different | Self::Directory => false,
        }
    }
}

impl Handling {
    /// That of a receiver that stores what it is offered.
    pub const fn receiving(overwrite: bool) -> Self {
        Self {
            overwrite,
            remove: false,
            existing: false,
            ignore_existing: false,
            update: false,
            size_only: false,
            owner: false,
            attributes: false,
        }
    }

    /// That of a session that brings a target up to date.
    pub fn of(policy: &Policy, selection: &Selection) -> Self {
        Self {
            overwrite: true,
            remove: policy.removal != Removal::Nothing,
            existing: policy.existing,
            ignore_existing: policy.ignore_existing,
            update: policy.update,
            size_only: policy.equality == Equality::Size,
            owner: selection.owner,
            attributes: selection.attributes,
        }
    }

    pub(super) fn carried(&self) -> Carried {
        Carried { owner: self.owner, attributes: self.attributes }
    }
}

/// Decides about `listed` beside what stands under its name.
pub fn decide(listed: &Entry, own: Own<'_>, handling: &Handling) -> Decision {
    use EntryKind::{Directory, File, HardLink, Symlink};
    let own = match own {
        Own::Nothing if handling.existing => return Decision::Skip(Skip::Missing),
        Own::Nothing => return Decision::Store(Over::Nothing),
        Own::Special => return replace(Over::Other, handling),
        Own::Entry(own) => own,
    };
    match (&listed.kind, &own.kind) {
        (Directory, Directory) if is_described(listed, own, handling) || !handling.overwrite => {
            Decision::Keep
        }
        (Directory, Directory) => Decision::Describe,
        (File { .. } | Symlink { .. } | HardLink { .. }, Directory) => replace(Over::Directory, handling),
        (File { .. }, File { .. }) => decide_file(listed, own, handling),
        (Symlink { target }, Symlink { target: held }) if target == held => describe(listed, own, handling),
        // A file that is replaced has no other names until they are made again.
        (HardLink { target }, HardLink { target: held }) if target == held && listed.hash == own.hash => {
            Decision::Keep
        }
        (File { .. } | Directory | Symlink { .. } | HardLink { .. }, File { .. } | HardLink { .. }) => {
            replace(Over::File, handling)
        }
        (File { .. } | Directory | Symlink { .. } | HardLink { .. }, Symlink { .. }) => {
            replace(Over::Other, handling)
        }
    }
}

fn decide_file(listed: &Entry, own: &Entry, handling: &Handling) -> Decision {
    let equal = is_content_equal(listed, own, handling);
    if equal == Some(true) && is_described(listed, own, handling) {
        return Decision::Keep;
    }
    if handling.ignore_existing {
        return Decision::Skip(Skip::Existing);
    }
    if handling.update && own.mtime > listed.mtime {
        return Decision::Skip(Skip::Newer);
    }
    match equal {
        Some(true) => describe(listed, own, handling),
        Some(false) => replace(Over::File, handling),
        None => Decision::Digest,
    }
}

/// `None`: only their content can tell.
fn is_content_equal(listed: &Entry, own: &Entry, handling: &Handling) -> Option<bool> {
    if listed.size() != own.size() {
        return Some(false);
    }
    if listed.size() == 0 || handling.size_only {
        return Some(true);
    }
    Some(listed.hash? == own.hash?)
}

/// What becomes of an entry whose content is there.
fn describe(listed: &Entry, own: &Entry, handling: &Handling) -> Decision {
    if !handling.overwrite || is_described(listed, own, handling) {
        Decision::Keep
    } else if handling.ignore_existing {
        Decision::Skip(Skip::Existing)
    } else {
        Decision::Describe
    }
}

fn replace(over: Over, handling: &Handling) -> Decision {
    if handling.ignore_existing {
        return Decision::Skip(Skip::Existing);
    }
    match over {
        Over::Directory if !(handling.overwrite && handling.remove) => Decision::Skip(Skip::Directory),
        Over::Nothing | Over::File | Over::Other | Over::Directory if handling.overwrite => {
            Decision::Store(over)
        }
        Over::Nothing | Over::File | Over::Other | Over::Directory => Decision::Skip(Skip::Different),
    }
}

/// Whether all that is set beside the content is as listed.
pub(super) fn is_described(listed: &Entry, own: &Entry, handling: &Handling) -> bool {
    let is_owner_equal = || !handling.owner || listed.owner.is_none() || listed.owner == own.owner;
    let are_attributes_equal = || !handling.attributes || listed.attributes == own.attributes;
    match listed.kind {
        EntryKind::File { .. } | EntryKind::Directory => {
            carried_mode(listed.mode).as_raw_mode() == own.mode
                && listed.mtime == own.mtime
                && is_owner_equal()
                && are_attributes_equal()
        }
        EntryKind::Symlink { .. } => listed.mtime == own.mtime && is_owner_equal(),
        // The file's first name says it.
        EntryKind::HardLink { .. } => true,
    }
}

#[cfg(test)]
mod tests {
    use ketch_protocol::{
        hash::ContentHash,
        manifest::{Attribute, Owner, Timestamp},
        path::EntryPath,
    };

    use super::*;

    fn entry(kind: EntryKind) -> Entry {
        let path = EntryPath::parse(b"e").unwrap();
        Entry::new(path, kind, 0o644, Timestamp { seconds: 100, nanoseconds: 5 })
    }

    fn file(size: u64, hash: Option<u8>) -> Entry {
        let hash = hash.map(|byte| ContentHash([byte; 32]));
        Entry { hash, ..entry(EntryKind::File { size }) }
    }

    fn symlink(target: &str) -> Entry {
        entry(EntryKind::Symlink { target: target.as_bytes().into() })
    }

    fn hard_link(target: &str) -> Entry {
        entry(EntryKind::HardLink { target: EntryPath::parse(target.as_bytes()).unwrap() })
    }

    fn directory() -> Entry {
        entry(EntryKind::Directory)
    }

    fn at(seconds: i64, entry: Entry) -> Entry {
        Entry { mtime: Timestamp { seconds, nanoseconds: 0 }, ..entry }
    }

    fn with_mode(mode: u32, entry: Entry) -> Entry {
        Entry { mode, ..entry }
    }

    const SYNC: Handling = Handling::receiving(true);

    #[test]
    fn every_pair_has_its_decision() {
        use Decision::{Describe, Digest, Keep, Skip as Left, Store};
        let careful = Handling { overwrite: false, ..SYNC };
        let removing = Handling { remove: true, ..SYNC };
        let existing = Handling { existing: true, ..SYNC };
        let ignoring = Handling { ignore_existing: true, ..SYNC };
        let updating = Handling { update: true, ..SYNC };
        let size_only = Handling { size_only: true, ..SYNC };
        let (a, b) = (Some(1), Some(2));
        let table: &[(&str, Entry, Option<Entry>, Handling, Decision)] = &[
            ("missing", file(1, a), None, SYNC, Store(Over::Nothing)),
            ("missing, careful", directory(), None, careful, Store(Over::Nothing)),
            ("missing, only existing", directory(), None, existing, Left(Skip::Missing)),
            ("missing, ignoring existing", file(1, a), None, ignoring, Store(Over::Nothing)),
            ("equal", file(1, a), Some(file(1, a)), SYNC, Keep),
            ("equal, ignoring existing", file(1, a), Some(file(1, a)), ignoring, Keep),
            ("empty", file(0, None), Some(file(0, None)), SYNC, Keep),
            ("its hash unknown", file(1, None), Some(file(1, a)), SYNC, Digest),
            ("own hash unknown", file(1, a), Some(file(1, None)), SYNC, Digest),
            ("own hash unknown, careful", file(1, a), Some(file(1, None)), careful, Digest),
            ("own hash unknown, size only", file(1, a), Some(file(1, None)), size_only, Keep),
            ("other content, size only", file(1, a), Some(file(1, b)), size_only, Keep),
            ("other length, size only", file(1, a), Some(file(2, b)), size_only, Store(Over::File)),
            ("other content", file(1, a), Some(file(1, b)), SYNC, Store(Over::File)),
            ("other content, careful", file(1, a), Some(file(1, b)), careful, Left(Skip::Different)),
            ("other content, ignoring", file(1, a), Some(file(1, b)), ignoring, Left(Skip::Existing)),
            ("other content, only existing", file(1, a), Some(file(1, b)), existing, Store(Over::File)),
            ("other mode", file(1, a), Some(with_mode(0o600, file(1, a))), SYNC, Describe),
            ("other mode, careful", file(1, a), Some(with_mode(0o600, file(1, a))), careful, Keep),
            (
                "other mode, ignoring",
                file(1, a),
                Some(with_mode(0, file(1, a))),
                ignoring,
                Left(Skip::Existing),
            ),
            ("setuid listed", with_mode(0o4644, file(1, a)), Some(file(1, a)), SYNC, Keep),
            ("setuid held", file(1, a), Some(with_mode(0o4644, file(1, a))), SYNC, Describe),
            ("other time", file(1, a), Some(at(1, file(1, a))), SYNC, Describe),
            ("newer, other content", file(1, a), Some(at(101, file(1, b))), updating, Left(Skip::Newer)),
            ("newer, unknown content", file(1, a), Some(at(101, file(1, None))), updating, Left(Skip::Newer)),
            ("older", file(1, a), Some(at(99, file(1, b))), updating, Store(Over::File)),
            ("as old", file(1, a), Some(file(2, b)), updating, Store(Over::File)),
            ("newer symlink", file(1, a), Some(at(101, symlink("x"))), updating, Store(Over::Other)),
            ("directory", directory(), Some(directory()), SYNC, Keep),
            ("its mode", directory(), Some(with_mode(0o700, directory())), SYNC, Describe),
            ("its mode, ignoring", directory(), Some(with_mode(0o700, directory())), ignoring, Describe),
            ("its mode, careful", directory(), Some(with_mode(0o700, directory())), careful, Keep),
            ("directory over file", directory(), Some(file(1, a)), SYNC, Store(Over::File)),
            ("directory over symlink", directory(), Some(symlink("x")), SYNC, Store(Over::Other)),
            ("file over directory", file(1, a), Some(directory()), SYNC, Left(Skip::Directory)),
            (
                "file over directory, removing",
                file(1, a),
                Some(directory()),
                removing,
                Store(Over::Directory),
            ),
            ("symlink over directory", symlink("x"), Some(directory()), SYNC, Left(Skip::Directory)),
            ("symlink", symlink("x"), Some(symlink("x")), SYNC, Keep),
            ("symlink, other time", symlink("x"), Some(at(1, symlink("x"))), SYNC, Describe),
            ("symlink, other target", symlink("x"), Some(symlink("y")), SYNC, Store(Over::Other)),
            ("symlink over file", symlink("x"), Some(file(1, a)), SYNC, Store(Over::File)),
            ("hard link", hard_link("x"), Some(hard_link("x")), SYNC, Keep),
            ("other hard link", hard_link("x"), Some(hard_link("y")), SYNC, Store(Over::File)),
            ("hard link over file", hard_link("x"), Some(file(1, a)), SYNC, Store(Over::File)),
            ("file over hard link", file(1, a), Some(hard_link("x")), SYNC, Store(Over::File)),
        ];
        for (name, listed, own, handling, decision) in table {
            let own = own.as_ref().map_or(Own::Nothing, Own::Entry);
            assert_eq!(decide(listed, own, handling), *decision, "{name}");
        }
        assert_eq!(decide(&directory(), Own::Special, &SYNC), Store(Over::Other));
        assert_eq!(decide(&file(1, a), Own::Special, &careful), Left(Skip::Different));
    }

    #[test]
    fn owners_and_attributes_count_when_they_are_asked_for() {
        let own = file(1, Some(1));
        let owned = Entry { owner: Some(Owner { user: 1, group: 2 }), ..own.clone() };
        let attribute = |name: &[u8]| Attribute { name: name.into(), value: b"v"[..].into() };
        let attributed = Entry { attributes: vec![attribute(b"user.a")], ..own.clone() };
        let foreign = Entry { attributes: vec![attribute(b"security.selinux")], ..own.clone() };
        let with_owner = Handling { owner: true, ..SYNC };
        let with_attributes = Handling { attributes: true, ..SYNC };
        for (listed, handling, decision) in [
            (&owned, SYNC, Decision::Keep),
            (&owned, with_owner, Decision::Describe),
            (&attributed, SYNC, Decision::Keep),
            (&attributed, with_attributes, Decision::Describe),
            (&foreign, with_attributes, Decision::Describe),
            (&own, with_owner, Decision::Keep),
        ] {
            assert_eq!(decide(listed, Own::Entry(&own), &handling), decision, "{listed:?}");
        }
        assert_eq!(decide(&own, Own::Entry(&attributed), &with_attributes), Decision::Describe);
    }
}
