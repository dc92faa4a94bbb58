//! The file of an index: a redb database, opened for reading while a tree is scanned and for writing only
//! when the journal is folded into it. So a session that finds nothing new writes nothing.
//!
//! redb does not check a page when it is read, and may panic over a damaged one. So the whole file is checked
//! against its seal before it is opened.

use std::{io, path::Path};

use ketch_protocol::{message::DiskId, session::receiver::Agreed};
use redb::{
    AccessGuard, Builder, Database, Error, Range, ReadOnlyDatabase, ReadTransaction, ReadableDatabase as _,
    ReadableTableMetadata as _, TableDefinition, WriteTransaction,
};

use super::{
    Gone, RootIdentity,
    boot::Boot,
    journal::Journal,
    pair::{self, PairKey},
    record::{Origin, RECORD_BYTES},
};

/// What tables are there and how their values are encoded. A file of another format is not read.
const FORMAT: u64 = 2;

/// [`FORMAT`] under [`FORMAT_KEY`].
const FACTS: TableDefinition<&str, u64> = TableDefinition::new("facts");
const FORMAT_KEY: &str = "format";

/// Key of a path -> encoded record.
const RECORDS: TableDefinition<&[u8], &[u8; RECORD_BYTES]> = TableDefinition::new("records");

/// Key of a pair -> agreed roots; [`disk_key`] of a pair -> the disk of its source; and the identity of the root
/// under [`ROOT_KEY`].
const PAIRS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("pairs");
const ROOT_KEY: &[u8] = b"root";

/// Where the disk of the source of a pair is. It is of another length than the key of a pair.
fn disk_key(pair: &PairKey) -> Vec<u8> {
    [b"disk", pair.as_bytes()].concat()
}

/// Most facts of pairs remembered: of one tree with as many others, or by as many selections. Beyond, all agreed
/// roots are forgotten, which costs each pair one comparison.
pub(super) const PAIRS_KEPT: u64 = 1_024;

/// Memory for pages while reading: a scan needs each page once, and the few above them again.
const READ_CACHE_BYTES: usize = 4 * 1024 * 1024;

/// Memory for pages while writing: they are written out when it is full.
const WRITE_CACHE_BYTES: usize = 16 * 1024 * 1024;

/// Why the file can't be used.
#[derive(Debug)]
pub(super) enum StoreError {
    /// There is none yet.
    Missing,
    /// Somebody else has it open.
    Busy,
    /// What is in it can't be right.
    Damaged,
    /// The system refuses.
    Io(io::Error),
}

impl From<io::Error> for StoreError {
    fn from(error: io::Error) -> Self {
        let kind = error.kind();
        // What redb says of a file that ends too early or does not begin as its files do.
        let is_content = matches!(
            kind,
            io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData | io::ErrorKind::InvalidInput
        );
        if kind == io::ErrorKind::NotFound {
            Self::Missing
        } else if is_content {
            Self::Damaged
        } else {
            Self::Io(error)
        }
    }
}

/// Whatever is neither the system's refusal nor another's lock comes from what is in the file.
impl From<Error> for StoreError {
    fn from(error: Error) -> Self {
        if let Error::Io(error) = error {
            return error.into();
        }
        if matches!(error, Error::DatabaseAlreadyOpen) { Self::Busy } else { Self::Damaged }
    }
}

/// redb has an error type for each kind of call, all of which become [`Error`].
fn failed(error: impl Into<Error>) -> StoreError {
    error.into().into()
}

/// The file, open for reading. It sees what was in it when it was opened.
pub(super) struct Reading {
    transaction: ReadTransaction,
    /// Keeps the file open and locked against a writer.
    _database: ReadOnlyDatabase,
}

/// Records in the order of their keys.
pub(super) struct Walk {
    range: Range<'static, &'static [u8], &'static [u8; RECORD_BYTES]>,
    _reading: Reading,
}

/// A key and a value, still in their page.
pub(super) type Pair =
    (AccessGuard<'static, &'static [u8]>, AccessGuard<'static, &'static [u8; RECORD_BYTES]>);

impl Reading {
    /// Opens the file at `path`. One that a killed process left open is put in order first.
    pub(super) fn open(path: &Path) -> Result<Self, StoreError> {
        let mut builder = Builder::new();
        builder.set_cache_size(READ_CACHE_BYTES);
        let database = match builder.open_read_only(path) {
            Err(redb::DatabaseError::RepairAborted) => {
                drop(open_for_writing(path)?);
                builder.open_read_only(path)
            }
            opened => opened,
        }
        .map_err(failed)?;
        let transaction = database.begin_read().map_err(failed)?;
        check_format(&transaction)?;
        Ok(Self { transaction, _database: database })
    }

    /// All records.
    pub(super) fn walk(self) -> Result<Walk, StoreError> {
        let records = self.transaction.open_table(RECORDS).map_err(failed)?;
        let range = records.range::<&[u8]>(..).map_err(failed)?;
        Ok(Walk { range, _reading: self })
    }

    /// On what a pair last agreed.
    pub(super) fn agreed(&self, pair: &PairKey) -> Result<Option<Agreed>, StoreError> {
        self.pair(pair.as_bytes(), pair::decode)
    }

    /// On what the source of a pair lay.
    pub(super) fn disk(&self, pair: &PairKey) -> Result<Option<DiskId>, StoreError> {
        self.pair(&disk_key(pair), |bytes| bytes.try_into().ok().map(DiskId))
    }

    /// What was the root when it was last remembered.
    pub(super) fn root(&self) -> Result<Option<RootIdentity>, StoreError> {
        self.pair(ROOT_KEY, RootIdentity::decode)
    }

    fn pair<T>(&self, key: &[u8], decode: impl Fn(&[u8]) -> Option<T>) -> Result<Option<T>, StoreError> {
        let pairs = self.transaction.open_table(PAIRS).map_err(failed)?;
        let Some(value) = pairs.get(key).map_err(failed)? else { return Ok(None) };
        decode(value.value()).map(Some).ok_or(StoreError::Damaged)
    }
}

impl Walk {
    /// The next record; `None` after the last.
    pub(super) fn next(&mut self) -> Result<Option<Pair>, StoreError> {
        self.range.next().transpose().map_err(failed)
    }
}

fn check_format(transaction: &ReadTransaction) -> Result<(), StoreError> {
    let facts = match transaction.open_table(FACTS) {
        // Made by a process that was killed before it wrote anything.
        Err(redb::TableError::TableDoesNotExist(_)) => return Err(StoreError::Missing),
        opened => opened.map_err(failed)?,
    };
    let format = facts.get(FORMAT_KEY).map_err(failed)?.map(|format| format.value());
    if format == Some(FORMAT) { Ok(()) } else { Err(StoreError::Damaged) }
}

/// What a session found out beside the journal.
#[derive(Debug, Default)]
pub struct Changes {
    /// Files that are gone.
    pub gone: Gone,
    /// On what the pair agrees now.
    pub agreed: Option<(PairKey, Agreed)>,
    /// On what the source of a pair lies now.
    pub disk: Option<(PairKey, DiskId)>,
    /// The root as it is now.
    pub root: Option<RootIdentity>,
}

impl Changes {
    pub(super) fn is_empty(&self) -> bool {
        self.gone.is_empty() && self.agreed.is_none() && self.disk.is_none() && self.root.is_none()
    }
}

/// Writes what is in the journal, and `changes`, to the file at `path`, all or nothing. The journal is left
/// as it is: folded twice, it says the same.
pub(super) fn fold(path: &Path, journal: &Journal, changes: &Changes, boot: Boot) -> Result<(), StoreError> {
    let database = open_for_writing(path)?;
    let transaction = database.begin_write().map_err(failed)?;
    mark_format(&transaction)?;
    fold_records(&transaction, journal, changes, boot)?;
    fold_pairs(&transaction, changes)?;
    transaction.commit().map_err(failed)
}

fn open_for_writing(path: &Path) -> Result<Database, StoreError> {
    Builder::new().set_cache_size(WRITE_CACHE_BYTES).create(path).map_err(failed)
}

fn mark_format(transaction: &WriteTransaction) -> Result<(), StoreError> {
    let mut facts = transaction.open_table(FACTS).map_err(failed)?;
    let before = facts.insert(FORMAT_KEY, FORMAT).map_err(failed)?.map(|format| format.value());
    if before.is_none_or(|format| format == FORMAT) { Ok(()) } else { Err(StoreError::Damaged) }
}

fn fold_records(
    transaction: &WriteTransaction,
    journal: &Journal,
    changes: &Changes,
    boot: Boot,
) -> Result<(), StoreError> {
    let mut records = transaction.open_table(RECORDS).map_err(failed)?;
    for key in &changes.gone.keys {
        records.remove(&**key).map_err(failed)?;
    }
    journal.records(|key, record| {
        // What another boot may have lost says nothing.
        if !matches!(record.origin, Origin::Stored(stored_in) if stored_in != boot) {
            records.insert(key, &record.encode()).map_err(failed)?;
        }
        Ok(())
    })
}

fn fold_pairs(transaction: &WriteTransaction, changes: &Changes) -> Result<(), StoreError> {
    let mut pairs = transaction.open_table(PAIRS).map_err(failed)?;
    if let Some((pair, agreed)) = &changes.agreed {
        if pairs.len().map_err(failed)? > PAIRS_KEPT {
            pairs.retain(|key, _| key.len() != pair::KEY_BYTES).map_err(failed)?;
        }
        let key = pair.as_bytes();
        pairs.insert(key, &pair::encode(*agreed)[..]).map_err(failed)?;
    }
    if let Some((pair, disk)) = &changes.disk {
        pairs.insert(&disk_key(pair)[..], &disk.0[..]).map_err(failed)?;
    }
    if let Some(root) = &changes.root {
        pairs.insert(ROOT_KEY, &root.encode()[..]).map_err(failed)?;
    }
    Ok(())
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Makes the file at `path` one of another format.
    pub(in crate::index) fn set_format(path: &Path, format: u64) {
        let database = open_for_writing(path).unwrap();
        let transaction = database.begin_write().unwrap();
        transaction.open_table(FACTS).unwrap().insert(FORMAT_KEY, format).unwrap();
        transaction.commit().unwrap();
    }
}
