use std::{fs::File, time::Duration};

use ketch_protocol::{difference::RangeHash, hash::ContentHash, path::EntryPath};

use super::*;

const MTIME: Timestamp = Timestamp { seconds: 1_000, nanoseconds: 1 };
const CTIME: Timestamp = Timestamp { seconds: 2_000, nanoseconds: 1 };
const LATER: Timestamp = Timestamp { seconds: 3_000, nanoseconds: 0 };

const ROOT: RootIdentity = RootIdentity { file_system: 1 };

fn path(number: u64) -> EntryPath {
    EntryPath::parse(format!("d{:02}/f{number:05}", number % 20).as_bytes()).unwrap()
}

fn stat(number: u64) -> StatKey {
    StatKey { size: 100 + number, mtime: MTIME, ctime: CTIME, inode: number }
}

fn hash(number: u64) -> ContentHash {
    ContentHash(*blake3::hash(&number.to_le_bytes()).as_bytes())
}

/// A state folder with the index of one tree.
struct Setting {
    folder: tempfile::TempDir,
    tree: TreeName,
}

impl Setting {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), tree: TreeName::of_root(Path::new("/tree")) }
    }

    /// As a process of its own would open them.
    fn indexes(&self, boot: u64) -> Indexes {
        Indexes { folder: self.folder.path().into(), boot: Boot(boot), open: Mutex::default() }
    }

    fn open(&self) -> Index {
        self.indexes(1).open(&self.tree)
    }

    fn file(&self, ending: &str) -> PathBuf {
        self.folder.path().join(format!("{}.{ending}", self.tree.as_str()))
    }
}

fn read(index: &Index, numbers: std::ops::Range<u64>) {
    let mut recorder = index.recorder();
    for number in numbers {
        recorder.read(&path(number), Seen { stat: stat(number), at: LATER }, hash(number));
    }
}

fn stored(index: &Index, numbers: std::ops::Range<u64>) {
    let mut recorder = index.recorder();
    for number in numbers {
        recorder.stored(&path(number), Seen { stat: stat(number), at: LATER }, hash(number));
    }
}

/// Which of `numbers` are known; none may be known wrongly.
fn known(index: &Index, numbers: std::ops::Range<u64>) -> Vec<u64> {
    let mut reader = index.reader(LATER);
    let mut sorted: Vec<u64> = numbers.collect();
    sorted.sort_by_key(|&number| path(number));
    sorted.retain(|&number| {
        let found = reader.hash_of(&path(number), &stat(number));
        assert!(found.is_none_or(|found| found == hash(number)), "a wrong hash of {number}");
        found.is_some()
    });
    sorted.sort();
    sorted
}

fn all(numbers: std::ops::Range<u64>) -> Vec<u64> {
    numbers.collect()
}

fn told(index: &Index) -> Vec<String> {
    index.take_warnings().iter().map(ToString::to_string).collect()
}

#[test]
fn what_was_recorded_is_known_to_the_next_session() {
    let setting = Setting::new();
    let index = setting.open();
    assert_eq!(known(&index, 0..10), [0; 0]);
    read(&index, 0..3_000);
    index.fold(&Changes::default());
    assert_eq!(known(&index, 0..3_001), all(0..3_000));
    drop(index);
    let index = setting.open();
    assert_eq!(known(&index, 0..3_001), all(0..3_000));
    assert_eq!(told(&index), [""; 0]);
}

#[test]
fn what_was_recorded_by_a_killed_session_is_known_to_the_next() {
    let setting = Setting::new();
    let index = setting.open();
    read(&index, 0..10);
    stored(&index, 10..20);
    drop(index);
    assert_eq!(known(&setting.open(), 0..30), all(0..20));
}

#[test]
fn much_content_is_known_at_once_whenever_the_session_is_killed() {
    let setting = Setting::new();
    let index = setting.open();
    let mut recorder = index.recorder();
    let mut store = |number, size| {
        let stat = StatKey { size, ..stat(number) };
        recorder.stored(&path(number), Seen { stat, at: LATER }, hash(number));
        index.0.files.as_ref().unwrap().journal().is_empty()
    };
    assert!(store(1, journal::BATCH_CONTENT_BYTES - 1));
    assert!(!store(2, 1));
    let written = fs::metadata(setting.file("journal")).unwrap().len();
    store(3, journal::BATCH_CONTENT_BYTES - 1);
    assert_eq!(fs::metadata(setting.file("journal")).unwrap().len(), written, "it counts anew");
    store(4, 1);
    assert!(fs::metadata(setting.file("journal")).unwrap().len() > written);
}

#[test]
fn a_session_that_finds_nothing_new_writes_nothing() {
    let setting = Setting::new();
    let index = setting.open();
    read(&index, 0..100);
    index.fold(&Changes::default());
    drop(index);
    let content = || ["redb", "journal"].map(|ending| fs::read(setting.file(ending)).unwrap());
    let before = content();
    let index = setting.open();
    assert_eq!(known(&index, 0..100), all(0..100));
    index.fold(&Changes::default());
    drop(index);
    assert!(content() == before);
}

#[test]
fn what_became_known_later_replaces_what_was_known() {
    let setting = Setting::new();
    let index = setting.open();
    let mut recorder = index.recorder();
    for content in [7, 8] {
        recorder.read(&path(1), Seen { stat: stat(1), at: LATER }, hash(content));
    }
    drop(recorder);
    index.fold(&Changes::default());
    assert_eq!(index.reader(LATER).hash_of(&path(1), &stat(1)), Some(hash(8)));
}

#[test]
fn after_another_boot_only_what_a_checkpoint_covers_counts() {
    for is_folded in [false, true] {
        let setting = Setting::new();
        let index = setting.open();
        stored(&index, 0..10);
        let mark = index.mark();
        stored(&index, 10..20);
        index.checkpoint(mark);
        read(&index, 20..30);
        if is_folded {
            index.fold(&Changes::default());
        }
        drop(index);
        assert_eq!(known(&setting.open(), 0..30), all(0..30), "the same boot, folded {is_folded}");
        let rebooted = setting.indexes(2).open(&setting.tree);
        assert_eq!(known(&rebooted, 0..30), [all(0..10), all(20..30)].concat(), "folded {is_folded}");
    }
}

#[test]
fn files_that_are_gone_are_forgotten() {
    let setting = Setting::new();
    let index = setting.open();
    read(&index, 0..20);
    index.fold(&Changes::default());
    let mut reader = index.reader(LATER);
    let met: Vec<_> =
        [0, 1, 19].into_iter().filter_map(|number| reader.hash_of(&path(number), &stat(number))).collect();
    assert_eq!(met, [0, 1, 19].map(hash));
    index.fold(&Changes { gone: reader.gone(), ..Changes::default() });
    assert_eq!(known(&index, 0..20), [0, 1, 19]);
}

#[test]
fn what_was_just_asked_for_is_told_again() {
    let setting = Setting::new();
    let index = setting.open();
    read(&index, 0..2);
    index.fold(&Changes::default());
    let mut reader = index.reader(LATER);
    let told = [0, 0, 1, 1, 0].map(|number| reader.hash_of(&path(number), &stat(number)));
    assert_eq!(told, [Some(hash(0)), Some(hash(0)), Some(hash(1)), Some(hash(1)), None]);
    assert!(reader.gone().is_empty());
}

#[test]
fn of_what_a_reader_was_not_asked_for_only_what_is_gone_is_forgotten() {
    let setting = Setting::new();
    let index = setting.open();
    read(&index, 0..20);
    index.fold(&Changes::default());
    let mut gone = index.reader(LATER).gone();
    gone.retain(|met| *met == path(3) || *met == path(19));
    index.fold(&Changes { gone, ..Changes::default() });
    assert_eq!(known(&index, 0..20), [all(0..3), all(4..19)].concat());
}

#[test]
fn a_copy_that_begins_forgets_what_an_earlier_one_recorded_and_keeps_what_was_folded() {
    let setting = Setting::new();
    read(&setting.open(), 0..10);
    let index = setting.open();
    index.fold(&Changes { root: Some(ROOT), ..Changes::default() });
    read(&index, 10..20);
    drop(index);
    let index = setting.indexes(1).begin(&setting.tree);
    read(&index, 20..30);
    drop(index);
    let index = setting.open();
    assert_eq!(known(&index, 0..30), [all(0..10), all(20..30)].concat());
    assert_eq!(index.known_root(), Some(ROOT));
    assert_eq!(told(&index), [""; 0]);
}

#[test]
fn a_copy_that_begins_takes_nothing_from_another_of_the_same_process() {
    let setting = Setting::new();
    let indexes = setting.indexes(1);
    let first = indexes.begin(&setting.tree);
    read(&first, 0..10);
    let second = indexes.begin(&setting.tree);
    read(&second, 10..20);
    assert_eq!(known(&indexes.open(&setting.tree), 0..30), all(0..20));
}

#[test]
fn what_cannot_be_folded_now_is_folded_by_the_next_session() {
    let setting = Setting::new();
    let index = setting.open();
    read(&index, 0..5);
    index.fold(&Changes::default());
    let reader = index.reader(LATER);
    read(&index, 5..10);
    index.fold(&Changes::default());
    drop((reader, index));
    let index = setting.open();
    assert_eq!((known(&index, 0..20), told(&index)), (all(0..10), vec![]));
}

#[test]
fn sessions_of_one_process_share_an_index() {
    let setting = Setting::new();
    let indexes = setting.indexes(1);
    let (first, second) = (indexes.open(&setting.tree), indexes.open(&setting.tree));
    read(&first, 0..5);
    second.fold(&Changes::default());
    assert_eq!(known(&first, 0..5), all(0..5));
    assert_eq!(told(&second), [""; 0]);
}

#[test]
fn what_a_session_that_has_not_ended_recorded_is_known_to_the_next() {
    let setting = Setting::new();
    let indexes = setting.indexes(1);
    let first = indexes.open(&setting.tree);
    read(&first, 0..10);
    let second = indexes.open(&setting.tree);
    assert_eq!(known(&second, 0..20), all(0..10));
    stored(&first, 10..20);
    assert_eq!(known(&indexes.open(&setting.tree), 0..20), all(0..20));
}

#[test]
fn another_process_goes_on_without() {
    let setting = Setting::new();
    let first = setting.open();
    read(&first, 0..5);
    first.fold(&Changes::default());
    let second = setting.open();
    read(&second, 5..10);
    second.fold(&Changes::default());
    assert_eq!(known(&second, 0..10), [0; 0]);
    let told = told(&second);
    assert!(told.len() == 1 && told[0].contains("in use by another process"), "{told:?}");
    assert_eq!(known(&first, 0..10), all(0..5));
}

#[test]
fn a_state_folder_that_cannot_be_written_is_named() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let indexes = Indexes { folder: file.path().into(), boot: Boot(1), open: Mutex::default() };
    let index = indexes.open(&Setting::new().tree);
    read(&index, 0..5);
    assert_eq!(known(&index, 0..5), [0; 0]);
    let told = told(&index);
    assert!(told.len() == 1 && told[0].contains("cannot use the index of \"/tree\""), "{told:?}");
}

#[test]
fn agreed_roots_are_remembered_for_its_pair() {
    let setting = Setting::new();
    let index = setting.open();
    let (pair, other) = (PairKey::new(b"p", b"s", None, b""), PairKey::new(b"p", b"t", None, b""));
    assert_eq!(index.agreed(&pair), None);
    let agreed = Agreed { theirs: RangeHash([1; 16]), own: RangeHash([2; 16]) };
    index.fold(&Changes { agreed: Some((pair, agreed)), ..Changes::default() });
    drop(index);
    let index = setting.open();
    assert_eq!((index.agreed(&pair), index.agreed(&other)), (Some(agreed), None));
}

#[test]
fn the_root_is_remembered() {
    let setting = Setting::new();
    let index = setting.open();
    assert_eq!(index.known_root(), None);
    index.fold(&Changes { root: Some(ROOT), ..Changes::default() });
    assert_eq!(index.known_root(), Some(ROOT));
}

#[test]
fn an_index_is_forgotten_when_it_was_not_used_for_a_quarter_of_a_year() {
    const DAY: Duration = Duration::from_secs(24 * 60 * 60);
    let setting = Setting::new();
    let index = setting.open();
    read(&index, 0..50);
    index.fold(&Changes::default());
    let forget = |days| setting.indexes(1).forget_unused(SystemTime::now() + days * DAY);
    let files = || fs::read_dir(setting.folder.path()).unwrap().count();
    forget(91);
    assert_eq!(files(), 2, "it is in use");
    drop(index);
    forget(89);
    assert_eq!(files(), 2);
    // To open it is to use it, even if nothing is written.
    let journal = File::options().write(true).open(setting.file("journal")).unwrap();
    journal.set_modified(SystemTime::now() - 80 * DAY).unwrap();
    drop(setting.open());
    forget(11);
    assert_eq!(files(), 2);
    forget(91);
    assert_eq!(files(), 0);
}

#[test]
fn pairs_are_bounded_and_where_trees_lay_outlives_them() {
    let setting = Setting::new();
    let index = setting.open();
    let agreed = Agreed { theirs: RangeHash([1; 16]), own: RangeHash([2; 16]) };
    let pair = |number: u32| PairKey::new(&number.to_le_bytes(), b"", None, b"");
    let disk = DiskId([3; 16]);
    index.fold(&Changes { root: Some(ROOT), disk: Some((pair(0), disk)), ..Changes::default() });
    for number in 0..=store::PAIRS_KEPT as u32 {
        index.fold(&Changes { agreed: Some((pair(number), agreed)), ..Changes::default() });
    }
    assert_eq!(index.agreed(&pair(0)), None);
    assert_eq!(index.agreed(&pair(store::PAIRS_KEPT as u32)), Some(agreed));
    assert_eq!(index.known_root(), Some(ROOT));
    assert_eq!((index.disk(&pair(0)), index.disk(&pair(1))), (Some(disk), None));
}

#[test]
fn the_index_of_another_tree_knows_nothing_of_this_one() {
    let setting = Setting::new();
    let index = setting.open();
    read(&index, 0..50);
    index.fold(&Changes::default());
    drop(index);
    // The same names in a copied tree have other inodes and ctimes.
    let index = setting.open();
    let mut reader = index.reader(LATER);
    for number in 0..20 {
        let copied = StatKey { inode: number + 1_000, ..stat(number) };
        assert_eq!(reader.hash_of(&path(number), &copied), None);
    }
}

/// The file of an index with some hundred records, folded in two steps.
fn sample() -> (Setting, Vec<u8>) {
    let setting = Setting::new();
    let index = setting.open();
    for numbers in [0..400, 300..600] {
        read(&index, numbers);
        index.fold(&Changes { root: Some(ROOT), ..Changes::default() });
    }
    drop(index);
    let bytes = fs::read(setting.file("redb")).unwrap();
    (setting, bytes)
}

/// A session with a damaged index: what it says is right, and the next one has all that this one read.
fn survives(setting: &Setting, damaged: &[u8], what: &str) -> Vec<String> {
    fs::write(setting.file("redb"), damaged).unwrap();
    let _ = fs::remove_file(setting.file("redb.damaged"));
    let index = setting.open();
    let pair = PairKey::new(b"p", b"s", None, b"");
    assert_eq!(index.agreed(&pair), None, "{what}");
    assert!(index.known_root().is_none_or(|root| root == ROOT), "{what}");
    known(&index, 0..600);
    read(&index, 0..600);
    index.fold(&Changes::default());
    let told = told(&index);
    assert!(told.len() <= 1, "{what}: {told:?}");
    drop(index);
    let next = setting.open();
    assert_eq!(known(&next, 0..600), all(0..600), "{what}");
    assert_eq!(self::told(&next), [""; 0], "{what}");
    told
}

#[test]
fn a_cut_zeroed_or_foreign_index_is_built_anew_with_one_warning() {
    let (setting, bytes) = sample();
    let half = &bytes[..bytes.len() / 2];
    let zeros = vec![0; bytes.len()];
    let zeroed_half = [half, &zeros[half.len()..]].concat();
    for (damaged, what) in [
        (&bytes[..1], "one byte"),
        (half, "half"),
        (&zeros[..], "zeros"),
        (&zeroed_half, "zeros from half on"),
        (b"SQLite format 3\0", "another database"),
    ] {
        let told = survives(&setting, damaged, what);
        assert!(told.len() == 1 && told[0].contains("was damaged and is built anew"), "{what}: {told:?}");
        assert_eq!(fs::read(setting.file("redb.damaged")).unwrap().is_empty(), damaged.is_empty(), "{what}");
    }
    survives(&setting, &bytes[..0], "an empty file");
}

#[test]
fn an_index_of_a_future_format_is_not_read() {
    let (setting, _) = sample();
    store::tests::set_format(&setting.file("redb"), 2);
    let bytes = fs::read(setting.file("redb")).unwrap();
    let told = survives(&setting, &bytes, "another format");
    assert!(told.len() == 1 && told[0].contains("was damaged"), "{told:?}");
}

#[test]
fn with_its_journal_lost_or_of_a_future_version_an_index_is_built_anew() {
    for journal in [&b"ketch journal 9\n..."[..], b""] {
        let (setting, bytes) = sample();
        fs::write(setting.file("journal"), journal).unwrap();
        let told = survives(&setting, &bytes, "without its journal");
        assert!(told.len() == 1 && told[0].contains("was damaged"), "{told:?}");
        assert_eq!(setting.file("journal.damaged").exists(), !journal.is_empty());
    }
}

#[test]
fn a_session_killed_while_it_folded_loses_nothing() {
    let (setting, bytes) = sample();
    let before_folding = fs::read(setting.file("journal")).unwrap();
    let index = setting.open();
    read(&index, 600..700);
    let unfolded = fs::read(setting.file("journal")).unwrap();
    index.0.files.as_ref().unwrap().journal().begin_writing().unwrap();
    let begun = fs::read(setting.file("journal")).unwrap();
    index.fold(&Changes::default());
    drop(index);
    let folded = fs::read(setting.file("redb")).unwrap();
    assert!(before_folding.len() < unfolded.len());
    // Killed before the first write, and after the last one but before the journal was emptied.
    for store in [bytes, folded] {
        fs::write(setting.file("redb"), store).unwrap();
        fs::write(setting.file("journal"), &begun).unwrap();
        let index = setting.open();
        assert_eq!((known(&index, 0..700), told(&index)), (all(0..700), vec![]));
    }
}

#[test]
fn a_flipped_bit_anywhere_never_gives_a_wrong_hash() {
    let (setting, bytes) = sample();
    // All over the file, and in its header more closely.
    let places = (0..bytes.len()).filter(|&byte| byte % if byte < 400 { 23 } else { 40_009 } == 0);
    for byte in places {
        let mut damaged = bytes.clone();
        damaged[byte] ^= 1 << (byte % 8);
        survives(&setting, &damaged, &format!("a bit of byte {byte}"));
    }
}

#[test]
fn readers_and_recorders_go_to_other_threads() {
    fn goes<T: Send>() {}
    goes::<Reader>();
    goes::<Recorder>();
    goes::<Indexes>();
}
