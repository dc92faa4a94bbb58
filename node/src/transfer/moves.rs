//! [`Moves`]: what the target has under other names than the sender, found again by its content.

use std::collections::HashMap;

use ketch_protocol::{
    hash::{ContentHash, Hasher},
    limits::BLOCK_BYTES,
    manifest::{Entry, EntryKind},
    message::Fate,
    path::EntryPath,
};

use crate::tree::{Target, Trouble};

/// Files of the target by their content: about a hundred bytes for each.
#[derive(Debug, Default)]
pub(super) struct Moves(HashMap<ContentHash, EntryPath>);

impl Moves {
    /// Those of `own` whose content is known.
    pub(super) fn of(own: impl Iterator<Item = Entry>) -> Self {
        let files = own.filter(|entry| matches!(entry.kind, EntryKind::File { size: 1.. }));
        Self(files.filter_map(|entry| Some((entry.hash?, entry.path))).collect())
    }

    /// Where the content of an entry may be found.
    pub(super) fn find(&self, entry: &Entry) -> Option<&EntryPath> {
        self.0.get(&entry.hash?)
    }
}

/// Stores an entry with the content of another file of the target, which share it where the file system can; `None` if that is not what it was any more,
/// and nothing is stored.
pub(super) fn copy(target: &Target, from: &EntryPath, entry: &Entry) -> Result<Option<Fate>, Trouble> {
    let named = Entry { path: from.clone(), ..entry.clone() };
    let Ok(old) = target.existing(&named) else { return Ok(None) };
    let mut new = target.create(entry)?;
    let is_shared = new.share(&old);
    let (mut hasher, mut offset) = (Hasher::whole(), 0);
    let mut buffer = vec![0; entry.size().min(BLOCK_BYTES as u64) as usize];
    while offset < entry.size() {
        let wanted = (entry.size() - offset).min(buffer.len() as u64) as usize;
        let part = &mut buffer[..wanted];
        match if is_shared { new.read_at(part, offset) } else { old.read_at(part, offset) } {
            Ok(read) if read == wanted => {}
            // It became shorter, or can't be read: its content comes from the sender.
            Ok(_) | Err(_) => return Ok(None),
        }
        hasher.update(&buffer[..wanted]);
        if !is_shared {
            new.write(&buffer[..wanted])?;
        }
        offset += wanted as u64;
    }
    if Some(hasher.finish()) != entry.hash {
        return Ok(None);
    }
    new.commit().map(Some)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use ketch_protocol::manifest::Timestamp;

    use super::*;
    use crate::tree::{Durability, Handling, Options};

    fn entry(path: &str, content: &[u8]) -> Entry {
        let path = EntryPath::parse(path.as_bytes()).unwrap();
        let kind = EntryKind::File { size: content.len() as u64 };
        let mut hasher = Hasher::whole();
        hasher.update(content);
        let hash = Some(hasher.finish());
        Entry { hash, ..Entry::new(path, kind, 0o644, Timestamp::default()) }
    }

    #[test]
    fn a_file_is_found_by_its_content_and_stored_under_its_new_name() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("old"), "content").unwrap();
        let options = Options { handling: Handling::receiving(true), durability: Durability::None };
        let target = Target::open(folder.path(), options).unwrap();
        let moves = Moves::of([entry("old", b"content"), entry("empty", b"")].into_iter());
        let moved = entry("new", b"content");
        let from = moves.find(&moved).unwrap();
        assert_eq!(copy(&target, from, &moved).unwrap(), Some(Fate::Created));
        assert_eq!(fs::read(folder.path().join("new")).unwrap(), b"content");
        assert!(moves.find(&entry("x", b"")).is_none());
        assert!(moves.find(&entry("x", b"other")).is_none());
    }

    #[test]
    fn what_is_not_what_it_was_is_not_taken() {
        let folder = tempfile::tempdir().unwrap();
        let options = Options { handling: Handling::receiving(true), durability: Durability::None };
        let target = Target::open(folder.path(), options).unwrap();
        let (old, moved) = (entry("old", b"content"), entry("new", b"content"));
        for now in ["CONTENT", "short"] {
            fs::write(folder.path().join("old"), now).unwrap();
            assert_eq!(copy(&target, &old.path, &moved).unwrap(), None);
            assert!(!folder.path().join("new").exists());
        }
    }
}
