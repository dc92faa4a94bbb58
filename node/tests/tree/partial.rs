use std::{
    fs::{self, OpenOptions},
    io::Write as _,
    path::Path,
};

use ketch::tree::{Partial, Plan, Target, Trouble, Unfinished};
use ketch_protocol::{
    hash::{ContentHash, Hasher},
    limits::{RANGE_BYTES, WHOLE_BYTES},
    manifest::Entry,
    problem::Cause,
};

use crate::setting::{CAREFUL, MTIME, NEW, OVERWRITING, file, mode, names, open};

const RANGES: u64 = WHOLE_BYTES / RANGE_BYTES + 1;

fn large() -> Entry {
    file("large", WHOLE_BYTES + 5)
}

fn range(index: u64) -> Vec<u8> {
    let length = if index == RANGES - 1 { 5 } else { RANGE_BYTES as usize };
    vec![index as u8 + 1; length]
}

fn hash(index: u64) -> ContentHash {
    let mut hasher = Hasher::range(index * RANGE_BYTES);
    hasher.update(&range(index));
    hasher.finish()
}

fn store(partial: &Partial, index: u64) {
    partial.write_at(index * RANGE_BYTES, &range(index)).unwrap();
    partial.finish_range(index, hash(index)).unwrap();
}

fn content() -> Vec<u8> {
    (0..RANGES).flat_map(range).collect()
}

fn only(folder: &Path, ending: &str) -> std::path::PathBuf {
    let private = folder.join(".ketch-partial");
    let mut found = names(&private).into_iter().filter(|name| name.ends_with(ending));
    let name = found.next().unwrap();
    assert_eq!(found.next(), None);
    private.join(name)
}

fn cause<T: std::fmt::Debug>(result: Result<T, Trouble>) -> Cause {
    match result {
        Err(Trouble::Problem(problem)) => problem.cause,
        other => panic!("a problem was expected, not {other:?}"),
    }
}

/// A session that stored the first three ranges and was cut.
fn cut_session(folder: &Path) {
    let target = open(folder, CAREFUL);
    assert_eq!(target.plan(&large()).unwrap(), NEW);
    let partial = target.partial(&large()).unwrap();
    (0..3).for_each(|index| store(&partial, index));
}

fn complete(target: &Target) {
    let partial = target.partial(&large()).unwrap();
    (0..RANGES).filter(|&index| partial.finished(index).is_none()).for_each(|index| store(&partial, index));
    partial.commit().unwrap();
}

#[test]
fn a_large_file_is_written_by_threads_and_named_when_whole() {
    let folder = tempfile::tempdir().unwrap();
    let target = open(folder.path(), CAREFUL);
    let partial = target.partial(&large()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let partial = &partial;
            scope.spawn(move || (thread..RANGES).step_by(3).for_each(|index| store(partial, index)));
        }
    });
    assert_eq!(mode(&only(folder.path(), ".part")), 0o600);
    assert!(!folder.path().join("large").exists());
    partial.commit().unwrap();
    drop(partial);
    assert_eq!(target.finish(), []);

    assert_eq!(names(folder.path()), ["large"]);
    assert!(fs::read(folder.path().join("large")).unwrap() == content());
    assert_eq!(mode(&folder.path().join("large")), 0o640);
    let modified = fs::metadata(folder.path().join("large")).unwrap().modified().unwrap();
    let seconds = modified.duration_since(std::time::UNIX_EPOCH).unwrap().as_secs();
    assert_eq!(seconds, MTIME.seconds.unsigned_abs());
}

#[test]
fn a_cut_session_is_resumed_with_what_is_stored() {
    let folder = tempfile::tempdir().unwrap();
    cut_session(folder.path());

    let target = open(folder.path(), CAREFUL);
    let stored = target.unfinished();
    assert_eq!(stored, Unfinished { files: 1, bytes: stored.bytes });
    assert!(stored.bytes >= 3 * RANGE_BYTES && stored.bytes < 5 * RANGE_BYTES);
    assert_eq!(target.plan(&large()).unwrap(), Plan::Resume { kept_bytes: 3 * RANGE_BYTES });
    let partial = target.partial(&large()).unwrap();
    let found: Vec<_> = (0..RANGES).filter(|&index| partial.finished(index) == Some(hash(index))).collect();
    assert_eq!(found, [0, 1, 2]);
    drop(partial);
    complete(&target);
    assert!(fs::read(folder.path().join("large")).unwrap() == content());
}

#[test]
fn a_torn_record_costs_its_last_range_only() {
    let folder = tempfile::tempdir().unwrap();
    cut_session(folder.path());
    let record = only(folder.path(), ".ranges");
    let length = fs::metadata(&record).unwrap().len();
    OpenOptions::new().write(true).open(&record).unwrap().set_len(length - 1).unwrap();

    let target = open(folder.path(), CAREFUL);
    let partial = target.partial(&large()).unwrap();
    assert_eq!((partial.finished(1), partial.finished(2)), (Some(hash(1)), None));
    drop(partial);
    complete(&target);
    assert!(fs::read(folder.path().join("large")).unwrap() == content());
}

#[test]
fn a_recorded_range_whose_content_was_lost_is_not_believed() {
    let folder = tempfile::tempdir().unwrap();
    cut_session(folder.path());
    let part = only(folder.path(), ".part");
    let file = OpenOptions::new().write(true).open(&part).unwrap();
    file.set_len(RANGE_BYTES + 7).unwrap();

    let target = open(folder.path(), CAREFUL);
    let partial = target.partial(&large()).unwrap();
    assert_eq!([0, 1, 2].map(|index| partial.finished(index)), [Some(hash(0)), None, None]);
    drop(partial);
    complete(&target);
    assert!(fs::read(folder.path().join("large")).unwrap() == content());
}

#[test]
fn another_version_of_the_file_does_not_resume() {
    let folder = tempfile::tempdir().unwrap();
    cut_session(folder.path());
    let target = open(folder.path(), CAREFUL);
    let mut newer = large();
    newer.mtime.nanoseconds += 1;
    assert_eq!(target.plan(&newer).unwrap(), NEW);
    assert_eq!(target.plan(&file("large", WHOLE_BYTES + 6)).unwrap(), NEW);
}

#[test]
fn two_receivers_never_share_a_partial_file() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (open(folder.path(), CAREFUL), open(folder.path(), CAREFUL));
    let held = first.partial(&large()).unwrap();
    assert_eq!(cause(second.partial(&large())), Cause::Unwritable);
    drop(held);
    assert!(second.partial(&large()).is_ok());
}

#[test]
fn an_unfinished_file_is_not_named() {
    let folder = tempfile::tempdir().unwrap();
    let target = open(folder.path(), CAREFUL);
    let partial = target.partial(&large()).unwrap();
    (1..RANGES).for_each(|index| store(&partial, index));
    assert_eq!(cause(partial.commit()), Cause::Corrupt);
    store(&partial, 0);
    partial.forget_range(4).unwrap();
    assert_eq!(cause(partial.commit()), Cause::Corrupt);
    assert!(!folder.path().join("large").exists());
}

#[test]
fn a_file_that_appeared_meanwhile_is_replaced_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let final_name = folder.path().join("large");
    for (options, outcome) in [(CAREFUL, Some(Cause::Exists)), (OVERWRITING, None)] {
        let target = open(folder.path(), options);
        let partial = target.partial(&large()).unwrap();
        (0..RANGES)
            .filter(|&index| partial.finished(index).is_none())
            .for_each(|index| store(&partial, index));
        fs::write(&final_name, "theirs").unwrap();
        match outcome {
            Some(expected) => {
                assert_eq!(cause(partial.commit()), expected);
                assert_eq!(fs::read(&final_name).unwrap(), b"theirs");
            }
            None => {
                partial.commit().unwrap();
                assert!(fs::read(&final_name).unwrap() == content());
            }
        }
    }
}

#[test]
fn a_discarded_file_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    cut_session(folder.path());
    let target = open(folder.path(), CAREFUL);
    target.partial(&large()).unwrap().discard();
    target.finish();
    assert_eq!(names(folder.path()), [""; 0]);
}

#[test]
fn what_is_unfinished_outlives_the_target() {
    let folder = tempfile::tempdir().unwrap();
    cut_session(folder.path());
    open(folder.path(), CAREFUL).finish();
    assert!(only(folder.path(), ".part").exists());
    assert!(open(folder.path(), CAREFUL).is_empty().unwrap());
    only(folder.path(), ".ranges").metadata().unwrap();
    OpenOptions::new().append(true).open(only(folder.path(), ".ranges")).unwrap().write_all(b"torn").unwrap();
    complete(&open(folder.path(), CAREFUL));
}
