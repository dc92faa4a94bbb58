//! Makes the catalogue of a tree by a scan of it.

use ketch_protocol::{
    difference::{Catalogue, CatalogueBuilder},
    hash::{ContentHash, Hasher},
    limits::BLOCK_BYTES,
    manifest::{Entry, EntryKind},
    problem::Problem,
};

use super::{Found, Listing, Source, SourceError};
use crate::index::{Gone, Recorder, Seen};

/// What becomes of files whose content no index knows.
#[derive(Debug)]
pub enum Unknown<'a> {
    /// They are listed without a hash, and equal nothing until they are compared.
    Leave,
    /// They are read, and what they hold is recorded. One that can't be read, or changes meanwhile, is left.
    Read(&'a mut Recorder),
}

/// A tree as it was scanned.
#[derive(Debug)]
pub struct Catalogued {
    /// Its entries.
    pub catalogue: Catalogue,
    /// What is no entry, and which directories could not be listed, in the order of the scan.
    pub problems: Vec<Problem>,
    /// What an index knows and was not there.
    pub gone: Gone,
}

/// Scans `source`. `salt` is drawn anew for each catalogue ([`CatalogueBuilder::new`]). `is_wanted` is asked
/// between entries; `None` once it says no.
pub fn catalogue(
    source: &Source,
    listing: Listing,
    mut unknown: Unknown<'_>,
    salt: [u8; 16],
    mut is_wanted: impl FnMut() -> bool,
) -> Result<Option<Catalogued>, SourceError> {
    let mut scan = source.list(listing)?;
    let mut builder = CatalogueBuilder::new(salt);
    let mut problems = Vec::new();
    for found in &mut scan {
        if !is_wanted() {
            return Ok(None);
        }
        match found {
            Found::Entry(mut entry) => {
                unknown.settle(source, &mut entry);
                builder.push(&entry);
            }
            Found::Problem(problem) => problems.push(problem),
        }
    }
    let gone = scan.into_known().map(|known| known.gone()).unwrap_or_default();
    Ok(Some(Catalogued { catalogue: builder.finish(), problems, gone }))
}

impl Unknown<'_> {
    fn settle(&mut self, source: &Source, entry: &mut Entry) {
        let is_unknown = matches!(entry.kind, EntryKind::File { .. }) && entry.hash.is_none();
        if let Self::Read(recorder) = self
            && is_unknown
            && let Some((seen, hash)) = read(source, entry)
        {
            recorder.read(&entry.path, seen, hash);
            entry.hash = Some(hash);
        }
    }
}

/// The hash of a listed file; `None` when it can't be read as it was listed. Whoever needs its content
/// meets the reason.
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
