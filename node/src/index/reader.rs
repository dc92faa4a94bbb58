//! Reads an index beside a scan: both have the order of a manifest, so each record is met once and nothing
//! is searched for.

use std::{cmp::Ordering, fmt, sync::Arc};

use ketch_protocol::{hash::ContentHash, manifest::Timestamp, path::EntryPath};

use super::{
    Shared, StatKey,
    key::{compare, path_of},
    record::Record,
    store::{Pair, Reading, StoreError, Walk},
};

/// Most bytes of keys that are remembered as gone; further ones are found by the next scan.
const GONE_BYTES: usize = 4 * 1024 * 1024;

/// The hashes of a tree as they were known when it was made. Without an index it knows none.
#[derive(Debug)]
pub struct Reader {
    open: Option<Open>,
    now: Timestamp,
    gone: Gone,
}

/// Files that an index knows and a reader was not asked for, to be given to [`super::Changes::gone`]: after a scan only
/// of one without a filter, and of a root that is what it was, or what is left out now is read again later; else only
/// those that [are gone](Gone::retain).
#[derive(Debug, Default)]
pub struct Gone {
    pub(super) keys: Vec<Box<[u8]>>,
    bytes: usize,
}

struct Open {
    shared: Arc<Shared>,
    walk: Walk,
    /// The first record that was not passed yet.
    next: Option<Pair>,
    /// Whether it was asked for.
    is_met: bool,
}

impl Reader {
    pub(super) fn new(shared: &Arc<Shared>, now: Timestamp) -> Self {
        let open = shared.files.as_ref().and_then(|files| {
            match Reading::open(&files.store).and_then(|reading| Open::begin(reading, shared)) {
                Ok(open) => Some(open),
                Err(error) => {
                    shared.met(error);
                    None
                }
            }
        });
        Self { open, now, gone: Gone::default() }
    }

    /// The hash of the file at `path` that looks like `stat`, when it is known for sure. To be asked in the
    /// order of [`EntryPath`]; the latest path may be asked for again.
    pub fn hash_of(&mut self, path: &EntryPath, stat: &StatKey) -> Option<ContentHash> {
        loop {
            let open = self.open.as_mut()?;
            let (key, value) = open.next.as_ref()?;
            match compare(path, key.value()) {
                Ordering::Less => return None,
                Ordering::Greater => self.advance(),
                Ordering::Equal => {
                    let Some(record) = Record::decode(value.value()) else {
                        self.fail(StoreError::Damaged);
                        return None;
                    };
                    open.is_met = true;
                    return record.vouches_for(stat, self.now, open.shared.boot).then_some(record.hash);
                }
            }
        }
    }

    /// What it knows and was not asked for. Ends its use of the index.
    pub fn gone(mut self) -> Gone {
        while self.gone.bytes < GONE_BYTES && self.open.as_ref().is_some_and(|open| open.next.is_some()) {
            self.advance();
        }
        self.gone
    }

    /// Passes a record; one that was not asked for is gone.
    fn advance(&mut self) {
        if let Some(Open { next: Some((key, _)), is_met: false, .. }) = &self.open {
            self.gone.add(key.value());
        }
        if let Some(Err(error)) = self.open.as_mut().map(Open::advance) {
            self.fail(error);
        }
    }

    /// Goes on without.
    fn fail(&mut self, error: StoreError) {
        if let Some(open) = self.open.take() {
            open.shared.met(error);
        }
        // In a damaged file, what is missing may only be out of place.
        self.gone = Gone::default();
    }
}

impl Open {
    fn begin(reading: Reading, shared: &Arc<Shared>) -> Result<Self, StoreError> {
        let mut walk = reading.walk()?;
        let next = walk.next()?;
        Ok(Self { shared: Arc::clone(shared), walk, next, is_met: false })
    }

    fn advance(&mut self) -> Result<(), StoreError> {
        let next = self.walk.next()?;
        if let (Some((before, _)), Some((after, _))) = (&self.next, &next)
            && before.value() >= after.value()
        {
            return Err(StoreError::Damaged);
        }
        (self.next, self.is_met) = (next, false);
        Ok(())
    }
}

impl Gone {
    /// Whether none are.
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Keeps the paths of which `is_gone` says so.
    pub fn retain(&mut self, mut is_gone: impl FnMut(&EntryPath) -> bool) {
        // A key that is no path is of no file.
        self.keys.retain(|key| path_of(key).is_none_or(|path| is_gone(&path)));
    }

    fn add(&mut self, key: &[u8]) {
        if self.bytes < GONE_BYTES {
            self.bytes += key.len();
            self.keys.push(key.into());
        }
    }
}

impl fmt::Debug for Open {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Open").finish_non_exhaustive()
    }
}
