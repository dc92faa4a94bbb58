//! Makes the catalogue of a tree by a scan of it.

use ketch_protocol::{
    difference::{Catalogue, CatalogueBuilder},
    hash::{ContentHash, Hasher},
    limits::BLOCK_BYTES,
    manifest::{Entry, EntryKind},
    message::{Hashes, Selection},
    problem::Problem,
};

use super::{Filter, Found, Listing, Source, SourceError};
use crate::index::{self, Gone, Index, Reader, Recorder, Seen};

/// A tree as it was scanned.
#[derive(Debug)]
pub struct Catalogued {
    /// Its entries.
    pub catalogue: Catalogue,
    /// What is no entry, and which directories could not be listed, in the order of the scan.
    pub problems: Vec<Problem>,
    /// What the index knows and was not met.
    pub gone: Gone,
}

/// Scans what `filter` takes of `source`, with the hashes that `index` knows or that `selection` wants read.
/// `salt` is drawn anew for each catalogue ([`CatalogueBuilder::new`]). `is_wanted` is asked between entries;
/// `None` once it says no.
pub fn catalogue(
    source: &Source,
    index: &Index,
    selection: &Selection,
    filter: Filter,
    salt: [u8; 16],
    mut is_wanted: impl FnMut() -> bool,
) -> Result<Option<Catalogued>, SourceError> {
    let (known, mut recorder) = match selection.hashes {
        Hashes::Known => (Some(index.reader(index::now())), None),
        Hashes::All => (Some(index.reader(index::now())), Some(index.recorder())),
        Hashes::Read => (None, Some(index.recorder())),
    };
    let Selection { owner, attributes, .. } = *selection;
    let mut scan = source.list(Listing { filter, known, hard_links: true, owner, attributes })?;
    let mut builder = CatalogueBuilder::new(salt);
    let mut problems = Vec::new();
    while let Some(found) = scan.next() {
        if !is_wanted() {
            return Ok(None);
        }
        match found {
            Found::Entry(mut entry) => {
                if let Some(recorder) = &mut recorder {
                    complete(source, recorder, &mut entry);
                    entry.hash.iter().for_each(|hash| scan.learn(&entry.path, *hash));
                }
                builder.push(&entry);
            }
            Found::Problem(problem) => problems.push(problem),
        }
    }
    let gone = scan.into_known().map(Reader::gone).unwrap_or_default();
    Ok(Some(Catalogued { catalogue: builder.finish(), problems, gone }))
}

/// Gives a file without a hash one, by reading it. What can't be read as it was listed stays without, and
/// equals nothing: whoever needs its content meets the reason.
fn complete(source: &Source, recorder: &mut Recorder, entry: &mut Entry) {
    let is_unknown = matches!(entry.kind, EntryKind::File { .. }) && entry.hash.is_none();
    if is_unknown && let Some((seen, hash)) = read(source, entry) {
        recorder.read(&entry.path, seen, hash);
        entry.hash = Some(hash);
    }
}

/// The hash of a listed file; `None` when it can't be read as it was listed.
fn read(source: &Source, entry: &Entry) -> Option<(Seen, ContentHash)> {
    let file = source.open_file(entry).ok()?;
    let mut hasher = Hasher::whole();
    let length = entry.size().min(BLOCK_BYTES as u64) as usize;
    let mut buffer = vec![0; length];
    let mut offset = 0;
    while offset < entry.size() {
        let wanted = (entry.size() - offset).min(length as u64) as usize;
        let count = file.read_at(&mut buffer[..wanted], offset).ok()?;
        if count < wanted {
            return None;
        }
        hasher.update(&buffer[..count]);
        offset += count as u64;
    }
    file.is_unchanged().then(|| (file.seen(), hasher.finish()))
}
