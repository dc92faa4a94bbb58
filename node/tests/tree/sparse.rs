//! Holes.

use std::{
    fs,
    os::unix::fs::{FileExt as _, MetadataExt as _},
    path::Path,
};

use ketch_protocol::limits::{RANGE_BYTES, WHOLE_BYTES};

use crate::setting::{CAREFUL, file, mount_tmpfs, open, skip, with_own_mounts};

fn allocated(path: &Path) -> u64 {
    fs::metadata(path).unwrap().blocks() * 512
}

/// Whether files here can have holes at all.
fn has_holes(folder: &Path) -> bool {
    let probe = fs::File::create(folder.join("probe")).unwrap();
    probe.set_len(1 << 20).unwrap();
    let has_holes = probe.metadata().unwrap().blocks() == 0;
    fs::remove_file(folder.join("probe")).unwrap();
    has_holes
}

#[test]
fn what_is_skipped_reads_as_zeros_and_takes_no_space() {
    let folder = tempfile::tempdir().unwrap();
    if !has_holes(folder.path()) {
        return skip("files here have no holes");
    }
    let target = open(folder.path(), CAREFUL);
    let block = vec![7; 64 * 1024];
    let hole = 1024 * 1024;
    let size = 2 * hole + block.len() as u64;
    for (name, begins_with_hole) in [("begin", true), ("end", false)] {
        let mut new = target.create(&file(name, size)).unwrap();
        new.skip(0).unwrap();
        if begins_with_hole {
            new.skip(hole).unwrap();
            new.skip(hole).unwrap();
            new.write(&block).unwrap();
        } else {
            new.write(&block).unwrap();
            new.skip(2 * hole).unwrap();
        }
        new.commit().unwrap();
        let stored = fs::read(folder.path().join(name)).unwrap();
        let (begin, end) =
            if begins_with_hole { (2 * hole as usize, stored.len()) } else { (0, block.len()) };
        assert_eq!(stored.len() as u64, size);
        assert!(
            stored[begin..end] == block && stored.iter().filter(|&&byte| byte != 0).count() == block.len()
        );
        let most = block.len() as u64 * 105 / 100;
        assert!(
            allocated(&folder.path().join(name)) <= most,
            "{name}: {}",
            allocated(&folder.path().join(name))
        );
    }
}

#[test]
fn what_was_written_before_does_not_show_through_a_hole() {
    let folder = tempfile::tempdir().unwrap();
    no_byte_shows_through(folder.path());
}

#[test]
fn holes_take_no_space_on_a_file_system_of_another_kind() {
    with_own_mounts("sparse::holes_take_no_space_on_a_file_system_of_another_kind", |folder| {
        mount_tmpfs(folder, "size=64m");
        no_byte_shows_through(folder);
    });
}

fn no_byte_shows_through(folder: &Path) {
    let holes = has_holes(folder);
    let target = open(folder, CAREFUL);
    let size = WHOLE_BYTES + RANGE_BYTES;
    let partial = target.partial(&file("large", size)).unwrap();
    partial.write_at(0, &vec![1; RANGE_BYTES as usize * 3]).unwrap();
    partial.skip_at(RANGE_BYTES + 5, RANGE_BYTES).unwrap();
    partial.skip_at(3 * RANGE_BYTES, 4 * RANGE_BYTES).unwrap();
    let mut buffer = vec![9; RANGE_BYTES as usize + 10];
    partial.read_at(&mut buffer, RANGE_BYTES).unwrap();
    assert_eq!(
        (&buffer[..6], &buffer[buffer.len() - 6..]),
        (&[1, 1, 1, 1, 1, 0][..], &[0, 1, 1, 1, 1, 1][..])
    );
    assert!(buffer[5..buffer.len() - 5].iter().all(|&byte| byte == 0));
    if holes {
        let part = fs::read_dir(folder.join(".ketch-partial"))
            .unwrap()
            .map(|found| found.unwrap().path())
            .find(|path| path.extension().is_some_and(|ending| ending == "part"))
            .unwrap();
        assert!(allocated(&part) <= 2 * RANGE_BYTES * 105 / 100, "{}", allocated(&part));
        let held = fs::File::open(&part).unwrap();
        assert_eq!(held.metadata().unwrap().len(), size);
        let mut last = [9];
        held.read_exact_at(&mut last, size - 1).unwrap();
        assert_eq!(last, [0]);
    } else {
        skip("files here have no holes");
    }
    partial.discard();
}
