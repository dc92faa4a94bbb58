//! The record of which ranges of a partial file are stored: fixed-size rows, appended as ranges finish.
//!
//! A row is the index of the range (8 bytes, little-endian), its hash (32 bytes) and a check (the first 8
//! bytes of BLAKE3 of the 40 before). Reading stops at the first row whose check is wrong: after a crash the
//! tail may be torn. The rows only claim; [`super::Partial::finished`] reads the range again before it
//! believes one, since after a power cut rows may be on disk whose content is not.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, Read, Write as _},
    os::fd::OwnedFd,
};

use ketch_protocol::hash::ContentHash;

/// Index, hash and check.
pub(super) const ROW_BYTES: usize = 8 + 32 + 8;

/// The finished ranges, in memory and on disk.
#[derive(Debug)]
pub(super) struct Ranges {
    /// Opened for appending.
    file: File,
    finished: BTreeMap<u64, ContentHash>,
}

impl Ranges {
    /// Reads what an earlier session recorded of a file of `count` ranges, and cuts off a torn tail.
    pub(super) fn load(file: OwnedFd, count: u64) -> io::Result<Self> {
        let mut file = File::from(file);
        let most_bytes = count.saturating_mul(ROW_BYTES as u64);
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(most_bytes).read_to_end(&mut bytes)?;
        let mut finished = BTreeMap::new();
        let mut whole_bytes = 0;
        for (index, hash) in bytes.chunks_exact(ROW_BYTES).map_while(parse_row) {
            if index < count {
                finished.insert(index, hash);
            }
            whole_bytes += ROW_BYTES as u64;
        }
        file.set_len(whole_bytes)?;
        Ok(Self { file, finished })
    }

    pub(super) fn hash(&self, index: u64) -> Option<ContentHash> {
        self.finished.get(&index).copied()
    }

    pub(super) fn count(&self) -> u64 {
        self.finished.len() as u64
    }

    /// Records a range: a new one in one write. One that was recorded before takes the place of its row, so
    /// that a peer that sends it again and again does not fill the disk.
    pub(super) fn finish(&mut self, index: u64, hash: ContentHash) -> io::Result<()> {
        match self.finished.insert(index, hash) {
            None => self.file.write_all(&row(index, hash)),
            Some(before) if before == hash => Ok(()),
            Some(_) => self.write_again(),
        }
    }

    /// Takes a range back.
    pub(super) fn forget(&mut self, index: u64) -> io::Result<()> {
        match self.finished.remove(&index) {
            None => Ok(()),
            Some(_) => self.write_again(),
        }
    }

    /// Writes all rows anew; a crash meanwhile costs ranges, never their truth.
    fn write_again(&mut self) -> io::Result<()> {
        let rows: Vec<u8> = self.finished.iter().flat_map(|(&index, &hash)| row(index, hash)).collect();
        self.file.set_len(0)?;
        self.file.write_all(&rows)
    }
}

fn row(index: u64, hash: ContentHash) -> [u8; ROW_BYTES] {
    let mut row = [0; ROW_BYTES];
    row[..8].copy_from_slice(&index.to_le_bytes());
    row[8..40].copy_from_slice(&hash.0);
    let check = check(&row[..40]);
    row[40..].copy_from_slice(&check);
    row
}

fn parse_row(row: &[u8]) -> Option<(u64, ContentHash)> {
    let (index, rest) = row.split_first_chunk()?;
    let (hash, found) = rest.split_first_chunk()?;
    (found == check(&row[..40])).then_some((u64::from_le_bytes(*index), ContentHash(*hash)))
}

fn check(row: &[u8]) -> [u8; 8] {
    *blake3::hash(row).as_bytes().first_chunk().expect("a hash has 32 bytes")
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    const HASH: ContentHash = ContentHash([7; 32]);

    fn load(path: &Path, count: u64) -> Ranges {
        let file = File::options().read(true).append(true).create(true).open(path).unwrap();
        Ranges::load(file.into(), count).unwrap()
    }

    #[test]
    fn what_was_finished_is_there_after_loading_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ranges");
        let mut ranges = load(&path, 10);
        for index in [3, 0, 9] {
            ranges.finish(index, HASH).unwrap();
        }
        ranges.forget(0).unwrap();
        let again = load(&path, 10);
        assert_eq!([0, 3, 9].map(|index| again.hash(index)), [None, Some(HASH), Some(HASH)]);
    }

    #[test]
    fn a_range_recorded_again_takes_one_row() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ranges");
        let mut ranges = load(&path, 2);
        let other = ContentHash([8; 32]);
        for hash in [HASH, HASH, other, HASH, other] {
            ranges.finish(1, hash).unwrap();
        }
        assert_eq!(fs::read(&path).unwrap(), row(1, other));
    }

    #[test]
    fn a_torn_tail_is_cut_off_at_every_byte() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ranges");
        let two = [row(0, HASH), row(1, HASH)].concat();
        for length in 0..two.len() {
            fs::write(&path, &two[..length]).unwrap();
            let mut ranges = load(&path, 4);
            assert_eq!(ranges.count(), (length / ROW_BYTES) as u64);
            ranges.finish(3, HASH).unwrap();
            assert_eq!(load(&path, 4).hash(3), Some(HASH), "after {length} bytes");
        }
    }

    #[test]
    fn damaged_rows_and_ranges_past_the_end_are_not_believed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ranges");
        let mut damaged = row(1, HASH);
        damaged[20] ^= 1;
        fs::write(&path, [row(u64::MAX, HASH), row(0, HASH), damaged, row(2, HASH)].concat()).unwrap();
        let ranges = load(&path, 3);
        assert_eq!((ranges.count(), ranges.hash(0)), (1, Some(HASH)));
    }
}
