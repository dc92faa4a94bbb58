//! A directory as a root, with an index, a filter, hard links, owners and attributes.

use std::{
    env,
    fs::{self, File},
    io::{self, BufRead as _, BufReader, Write as _},
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::Path,
    process::{Command, Stdio},
    time::{Duration, SystemTime},
};

use ketch::{
    index::{Changes, Index, Indexes, Seen, StatKey, TreeName, now},
    state::StateFolder,
    tree::{
        Catalogued, Durability, Filter, Found, Handling, Listing, Options, Plan, Source, SourceError, Target,
        Trouble, catalogue,
    },
};
use ketch_protocol::{
    hash::{ContentHash, Hasher},
    limits::ATTRIBUTE_BYTES,
    manifest::{Attribute, Entry, EntryKind, Order, Owner, Timestamp},
    message::{Hashes, Rules, Selection},
    path::EntryPath,
    problem::{Cause, Problem},
};
use rustix::fs::{CWD, Mode, XattrFlags, mkfifoat, setxattr};

use crate::setting::{KEPT, as_plain_user, path, skip};

fn list(root: &Path, listing: Listing) -> (Vec<Entry>, Vec<Problem>) {
    let (mut entries, mut problems) = (Vec::new(), Vec::new());
    for found in Source::open_root(root).unwrap().list(listing).unwrap() {
        match found {
            Found::Entry(entry) => entries.push(entry),
            Found::Problem(problem) => problems.push(problem),
        }
    }
    (entries, problems)
}

fn filter(rules: &[&str]) -> Filter {
    Filter::new(&Rules::new(rules.iter().map(|rule| rule.as_bytes().into()).collect()).unwrap()).unwrap()
}

fn names(entries: &[Entry]) -> Vec<String> {
    entries.iter().map(|entry| entry.path.to_string()).collect()
}

fn write(root: &Path, name: &str, content: &str) {
    let at = root.join(name);
    fs::create_dir_all(at.parent().unwrap()).unwrap();
    fs::write(at, content).unwrap();
}

fn set_mtime(at: &Path, seconds: u64) {
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    File::options().write(true).open(at).unwrap().set_modified(time).unwrap();
}

#[test]
fn a_root_is_listed_without_a_name_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("tree");
    for name in ["b/z", "b/a/x", "b-c", "a", ".ketch-partial/x", "b/.ketch-partial/x"] {
        write(&root, name, name);
    }
    symlink("tree", folder.path().join("link")).unwrap();
    for at in [root.clone(), folder.path().join("link"), root.join("b/..")] {
        let (entries, problems) = list(&at, Listing::default());
        assert_eq!(names(&entries), ["a", "b", "b/a", "b/a/x", "b/z", "b-c"]);
        assert_eq!(problems, []);
        let mut order = Order::default();
        assert!(entries.iter().all(|entry| order.admit(entry).is_ok()));
        let source = Source::open_root(&at).unwrap();
        for entry in entries.iter().filter(|entry| entry.size() > 0) {
            let mut buffer = [0; 8];
            let count = source.open_file(entry).unwrap().read_at(&mut buffer, 0).unwrap();
            assert_eq!(&buffer[..count], entry.path.as_bytes());
        }
    }
}

#[test]
fn an_empty_root_lists_nothing_and_what_is_none_is_named() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(list(folder.path(), Listing::default()), (vec![], vec![]));
    write(folder.path(), "file", "");
    let open = |name: &str| Source::open_root(&folder.path().join(name)).unwrap_err();
    assert!(matches!(open("file"), SourceError::NotADirectory { .. }));
    assert!(matches!(open("missing"), SourceError::Unreachable { .. }));
}

#[test]
fn a_directory_below_a_root_is_opened_without_following_symlinks() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "a/b/x", "x");
    symlink("b", folder.path().join("a/link")).unwrap();
    symlink("/", folder.path().join("out")).unwrap();
    let root = Source::open_root(folder.path()).unwrap();

    let below = root.open_below(&path("a/b")).unwrap();

    let listed: Vec<_> = below.list(Listing::default()).unwrap().collect();
    assert!(matches!(&listed[..], [Found::Entry(entry)] if entry.path == path("x")));
    let full = folder.path().canonicalize().unwrap().join("a/b");
    assert_eq!(*below.tree_name(), TreeName::of_root(&full));
    assert_eq!(below.root().unwrap(), root.root().unwrap());
    for leads_out in ["a/link", "out", "out/etc"] {
        assert!(root.open_below(&path(leads_out)).is_err(), "{leads_out}");
    }
    assert!(matches!(root.open_below(&path("a/b/x")), Err(SourceError::NotADirectory { .. })));
}

#[test]
fn a_root_that_cannot_be_read_does_not_pass_for_an_empty_one() {
    as_plain_user("known::a_root_that_cannot_be_read_does_not_pass_for_an_empty_one", |folder| {
        let root = folder.join("t");
        fs::create_dir(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o0)).unwrap();
        assert!(matches!(Source::open_root(&root), Err(SourceError::Unreachable { .. })));
        fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
        let source = Source::open_root(&root).unwrap();
        fs::set_permissions(&root, fs::Permissions::from_mode(0o0)).unwrap();
        assert!(matches!(source.list(Listing::default()), Err(SourceError::Unreachable { .. })));
        fs::set_permissions(&root, fs::Permissions::from_mode(0o700)).unwrap();
    });
}

#[test]
fn what_a_filter_leaves_out_is_neither_listed_nor_entered_nor_a_problem() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["keep/a.o", "keep/a.c", "build/x", "z.o"] {
        write(folder.path(), name, "");
    }
    for name in ["fifo.o", "fifo"] {
        mkfifoat(CWD, folder.path().join(name), Mode::RWXU).unwrap();
    }
    let filter = filter(&["*.o", "build/", "!z.o"]);

    let (entries, problems) = list(folder.path(), Listing { filter, ..Listing::default() });

    assert_eq!(names(&entries), ["keep", "keep/a.c", "z.o"]);
    assert_eq!(problems.iter().map(|problem| problem.path.clone()).collect::<Vec<_>>(), [path("fifo")]);
}

#[test]
fn further_names_of_a_file_are_hard_links_to_the_first_one_listed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    write(&root, "b/first", "x");
    for name in ["b/second", "z", "a"] {
        fs::hard_link(root.join("b/first"), root.join(name)).unwrap();
    }
    write(&root, "alone", "x");
    write(&root, "outside", "x");
    fs::hard_link(root.join("outside"), folder.path().join("elsewhere")).unwrap();
    let links = |rules: &[&str]| {
        let filter = filter(rules);
        let (entries, _) = list(&root, Listing { filter, hard_links: true, ..Listing::default() });
        let target = |entry: &Entry| match &entry.kind {
            EntryKind::HardLink { target } => Some(target.to_string()),
            EntryKind::File { .. } | EntryKind::Directory | EntryKind::Symlink { .. } => None,
        };
        entries.iter().filter_map(|entry| Some((entry.path.to_string(), target(entry)?))).collect::<Vec<_>>()
    };
    let link = |name: &str, target: &str| (name.to_owned(), target.to_owned());
    assert_eq!(links(&[]), [link("b/first", "a"), link("b/second", "a"), link("z", "a")]);
    assert_eq!(links(&["/a"]), [link("b/second", "b/first"), link("z", "b/first")]);
    let (entries, _) = list(&root, Listing::default());
    assert!(entries.iter().all(|entry| !matches!(entry.kind, EntryKind::HardLink { .. })));
}

#[test]
fn owners_and_attributes_are_listed_when_they_are_asked_for() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "d/file", "x");
    symlink("file", folder.path().join("d/link")).unwrap();
    let set = |name: &str, attribute: &str, value: &[u8]| {
        setxattr(folder.path().join(name), attribute, value, XattrFlags::empty())
    };
    if let Err(error) = set("d/file", "user.z", b"1") {
        return skip(format_args!("no extended attributes here: {error}"));
    }
    set("d/file", "user.a", b"").unwrap();
    set("d", "user.dir", b"\0\xff").unwrap();

    let (entries, problems) =
        list(folder.path(), Listing { owner: true, attributes: true, ..Listing::default() });

    let attribute =
        |name: &str, value: &[u8]| Attribute { name: name.as_bytes().into(), value: value.into() };
    let expected = [
        vec![attribute("user.dir", b"\0\xff")],
        vec![attribute("user.a", b""), attribute("user.z", b"1")],
        vec![],
    ];
    assert_eq!(entries.iter().map(|entry| entry.attributes.clone()).collect::<Vec<_>>(), expected);
    let stat = fs::metadata(folder.path()).unwrap();
    let owner = Owner { user: stat.uid(), group: stat.gid() };
    assert!(entries.iter().all(|entry| entry.owner == Some(owner)));
    assert_eq!(problems, []);
    let (plain, _) = list(folder.path(), Listing::default());
    assert!(plain.iter().all(|entry| entry.owner.is_none() && entry.attributes.is_empty()));
}

#[test]
fn attributes_beyond_the_limits_are_left_out_and_named() {
    // ext4 has room for 4 KiB only, tmpfs for more.
    let shared_memory = tempfile::tempdir_in("/dev/shm");
    let folder = shared_memory.or_else(|_| tempfile::tempdir()).unwrap();
    for name in ["at", "beyond", "many"] {
        write(folder.path(), name, "x");
    }
    let set = |name: &str, attribute: &str, bytes: usize| {
        setxattr(folder.path().join(name), attribute, &vec![7; bytes], XattrFlags::empty())
    };
    if set("at", "user.a", ATTRIBUTE_BYTES - 6).is_err()
        || set("beyond", "user.a", ATTRIBUTE_BYTES - 5).is_err()
    {
        return skip("no attributes of 16 KiB here");
    }
    for number in 0..=256 {
        set("many", &format!("user.{number}"), 1).unwrap();
    }

    let (entries, problems) = list(folder.path(), Listing { attributes: true, ..Listing::default() });

    assert_eq!(entries.iter().map(|entry| entry.attributes.len()).collect::<Vec<_>>(), [1, 0, 0]);
    let named: Vec<_> = problems.iter().map(|problem| (problem.path.clone(), problem.cause)).collect();
    assert_eq!(named, [(path("beyond"), Cause::Metadata), (path("many"), Cause::Metadata)]);
}

/// Indexes in a folder of their own.
fn indexes(folder: &Path) -> Indexes {
    Indexes::new(&StateFolder::locate(Some(folder.join("state")), |_| None).unwrap())
}

fn open_index(indexes: &Indexes, root: &Path) -> Index {
    indexes.open(Source::open_root(root).unwrap().tree_name())
}

/// Reads every file and records what it holds, as if `at` were the time.
fn record(index: &Index, root: &Path, at: Timestamp) {
    let source = Source::open_root(root).unwrap();
    let mut recorder = index.recorder();
    for entry in list(root, Listing::default()).0.iter().filter(|entry| entry.size() > 0) {
        let file = source.open_file(entry).unwrap();
        let mut content = vec![0; entry.size() as usize];
        file.read_at(&mut content, 0).unwrap();
        assert!(file.is_unchanged());
        recorder.read(&entry.path, Seen { stat: file.seen().stat, at }, hash_of(&content));
    }
    drop(recorder);
    index.fold(&Changes::default());
}

fn hash_of(content: &[u8]) -> ContentHash {
    let mut hasher = Hasher::whole();
    hasher.update(content);
    hasher.finish()
}

/// Name and hash of every file, as a scan at that time finds them.
fn hashes(index: &Index, root: &Path, at: Timestamp) -> Vec<(String, Option<ContentHash>)> {
    let known = Some(index.reader(at));
    let (entries, _) = list(root, Listing { known, ..Listing::default() });
    entries
        .iter()
        .filter(|entry| matches!(entry.kind, EntryKind::File { .. }))
        .map(|entry| (entry.path.to_string(), entry.hash))
        .collect()
}

fn in_an_hour() -> Timestamp {
    let now = now();
    Timestamp { seconds: now.seconds + 3_600, ..now }
}

fn known(name: &str, content: &str) -> (String, Option<ContentHash>) {
    (name.to_owned(), Some(hash_of(content.as_bytes())))
}

#[test]
fn what_was_read_is_known_by_the_next_scan_and_an_empty_file_always() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    for name in ["b/z", "b/a/x", "b-c", "a"] {
        write(&root, name, name);
    }
    write(&root, "empty", "");
    let indexes = indexes(folder.path());
    let index = open_index(&indexes, &root);
    let empty = known("empty", "");
    assert_eq!(hashes(&index, &root, now())[4], empty);
    assert_eq!(hashes(&index, &root, now()).iter().filter(|(_, hash)| hash.is_some()).count(), 1);

    record(&index, &root, in_an_hour());

    let expected =
        [known("a", "a"), known("b/a/x", "b/a/x"), known("b/z", "b/z"), known("b-c", "b-c"), empty];
    assert_eq!(hashes(&index, &root, in_an_hour()), expected);
    // A file that came and one that went do not disturb their neighbours.
    write(&root, "b/b", "new");
    fs::remove_file(root.join("b/z")).unwrap();
    let found = hashes(&index, &root, in_an_hour());
    assert_eq!(found.iter().filter(|(_, hash)| hash.is_none()).count(), 1);
    assert_eq!((&found[2].0, found[2].1), (&"b/b".to_owned(), None));
}

#[test]
fn an_edit_of_the_same_size_in_the_same_second_is_never_missed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    write(&root, "f", "0000");
    let indexes = indexes(folder.path());
    let index = open_index(&indexes, &root);
    for round in 0..200 {
        let content = format!("{round:04}");
        write(&root, "f", &content);
        record(&index, &root, now());
        let edited = format!("{:04}", 1_000 + round);
        write(&root, "f", &edited);
        let found = hashes(&index, &root, now());
        assert!(found[0].1.is_none_or(|hash| hash == hash_of(edited.as_bytes())), "round {round}");
    }
}

#[test]
fn an_edit_with_its_mtime_put_back_is_not_missed() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    let at = root.join("f");
    write(&root, "f", "before");
    set_mtime(&at, 1_000);
    let indexes = indexes(folder.path());
    let index = open_index(&indexes, &root);
    record(&index, &root, in_an_hour());
    assert_eq!(hashes(&index, &root, in_an_hour()), [known("f", "before")]);

    let ctime = |at: &Path| fs::metadata(at).map(|stat| (stat.ctime(), stat.ctime_nsec())).unwrap();
    let before = ctime(&at);
    // The clock of the file system is coarse: the first edits may fall into the same tick.
    while ctime(&at) == before {
        File::options().write(true).open(&at).unwrap().write_all(b"edited").unwrap();
        set_mtime(&at, 1_000);
    }

    assert_eq!(hashes(&index, &root, in_an_hour()), [("f".to_owned(), None)]);
}

#[test]
fn a_replaced_file_of_equal_size_and_mtime_is_not_mistaken_for_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    write(&root, "f", "before");
    set_mtime(&root.join("f"), 1_000);
    let indexes = indexes(folder.path());
    let index = open_index(&indexes, &root);
    record(&index, &root, in_an_hour());
    write(folder.path(), "new", "edited");
    set_mtime(&folder.path().join("new"), 1_000);
    fs::rename(folder.path().join("new"), root.join("f")).unwrap();
    assert_eq!(hashes(&index, &root, in_an_hour()), [("f".to_owned(), None)]);
}

#[test]
fn a_file_from_the_future_and_a_clock_set_back_are_read_again() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    for name in ["future", "past"] {
        write(&root, name, name);
    }
    set_mtime(&root.join("future"), 4_000_000_000);
    set_mtime(&root.join("past"), 1_000);
    let indexes = indexes(folder.path());
    let index = open_index(&indexes, &root);
    record(&index, &root, in_an_hour());
    let future = ("future".to_owned(), None);
    assert_eq!(hashes(&index, &root, in_an_hour()), [future.clone(), known("past", "past")]);
    assert_eq!(hashes(&index, &root, now()), [future, ("past".to_owned(), None)]);
}

#[test]
fn another_tree_in_the_place_of_a_known_one_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let (root, other) = (folder.path().join("t"), folder.path().join("other"));
    for (root, content) in [(&root, "known"), (&other, "other")] {
        write(root, "f", content);
        set_mtime(&root.join("f"), 1_000);
    }
    let indexes = indexes(folder.path());
    let index = open_index(&indexes, &root);
    record(&index, &root, in_an_hour());
    index.fold(&Changes::default());
    drop(index);
    fs::rename(&root, folder.path().join("away")).unwrap();
    fs::rename(&other, &root).unwrap();

    let index = open_index(&indexes, &root);

    assert_eq!(hashes(&index, &root, in_an_hour()), [("f".to_owned(), None)]);
}

#[test]
fn a_target_keeps_what_its_index_vouches_for_and_has_the_rest_compared() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    for name in ["a", "b", "c", "d", "e"] {
        write(&root, name, name);
        set_mtime(&root.join(name), 1_000);
    }
    let indexes = indexes(folder.path());
    let index = open_index(&indexes, &root);
    record(&index, &root, in_an_hour());
    write(&root, "b", "x");
    set_mtime(&root.join("b"), 1_000);
    let (mut listed, _) = list(&root, Listing::default());
    for (entry, listed_hash) in listed.iter_mut().zip([Some("a"), Some("b"), Some("other"), None, Some("e")])
    {
        entry.hash = listed_hash.map(|content| hash_of(content.as_bytes()));
    }
    let options = Options { handling: Handling::receiving(false), durability: Durability::None };
    let target = Target::open(&root, options).unwrap();
    let mut known = index.reader(in_an_hour());

    let planned: Vec<_> = listed.iter().map(|entry| target.plan_knowing(entry, &mut known)).collect();

    let [kept, changed, differs, unknown, last] = &planned[..] else { panic!("{planned:?}") };
    assert!([kept, last].iter().all(|planned| matches!(planned, Ok(plan) if *plan == KEPT)), "{planned:?}");
    assert!([changed, unknown].iter().all(|planned| matches!(planned, Ok(Plan::Compare))), "{planned:?}");
    assert!(
        matches!(differs, Err(Trouble::Problem(problem)) if problem.cause == Cause::Exists),
        "{planned:?}"
    );
}

fn catalogued(index: &Index, root: &Path, hashes: Hashes) -> Catalogued {
    let source = Source::open_root(root).unwrap();
    let selection = Selection { hashes, ..Selection::default() };
    catalogue(&source, index, &selection, Filter::default(), [1; 16], || true).unwrap().unwrap()
}

#[test]
fn a_catalogue_has_every_entry_and_what_no_index_knows_is_read_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    for name in ["b/z", "b/a", "c", "empty"] {
        write(&root, name, if name == "empty" { "" } else { name });
        set_mtime(&root.join(name), 1_000);
    }
    mkfifoat(CWD, root.join("fifo"), Mode::RWXU).unwrap();
    let indexes = indexes(folder.path());
    let index = open_index(&indexes, &root);

    let open = catalogued(&index, &root, Hashes::Known);

    assert!(open.catalogue.is_open());
    assert_eq!(open.problems.iter().map(|problem| problem.path.clone()).collect::<Vec<_>>(), [path("fifo")]);
    for hashes in [Hashes::All, Hashes::Read] {
        let read = catalogued(&index, &root, hashes);
        assert!(!read.catalogue.is_open(), "{hashes:?}");
        let entries: Vec<_> = read.catalogue.entries().collect();
        assert_eq!(names(&entries), ["b", "b/a", "b/z", "c", "empty"]);
        assert_eq!(entries[2].hash, Some(hash_of(b"b/z")));
        assert_eq!(entries[4].hash, Some(ContentHash::of_nothing()));
    }
}

#[test]
fn what_was_stored_is_in_a_catalogue_without_being_read() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("t");
    let indexes = indexes(folder.path());
    fs::create_dir(&root).unwrap();
    let index = open_index(&indexes, &root);
    let mut recorder = index.recorder();
    for name in ["a", "b"] {
        write(&root, name, name);
        set_mtime(&root.join(name), 1_000);
        let entry = list(&root, Listing::default()).0.pop().unwrap();
        let seen = Source::open_root(&root).unwrap().open_file(&entry).unwrap().seen();
        recorder.stored(&entry.path, seen, hash_of(name.as_bytes()));
    }
    drop(recorder);
    index.fold(&Changes::default());

    assert!(!catalogued(&index, &root, Hashes::Known).catalogue.is_open());
    fs::remove_file(root.join("a")).unwrap();
    let without = catalogued(&index, &root, Hashes::Known);
    assert!(!without.catalogue.is_open());
    index.fold(&Changes { gone: without.gone, ..Changes::default() });
    write(&root, "a", "a");
    assert!(catalogued(&index, &root, Hashes::Known).catalogue.is_open());
}

/// In the child, where its index is.
const FOLDING: &str = "KETCH_TEST_FOLDING";

/// Files that each round of the child records.
const ROUND_FILES: u64 = 200;

/// Records and folds round after round, and says when one is recorded.
fn fold_until_killed(folder: &Path) {
    let index = indexes(folder).open(&imagined_tree());
    let mut out = io::stdout();
    for round in 0.. {
        let mut recorder = index.recorder();
        for number in round * ROUND_FILES..(round + 1) * ROUND_FILES {
            recorder.read(&imagined_path(number), imagined_state(number), hash_of(&number.to_le_bytes()));
        }
        recorder.flush();
        writeln!(out, "recorded").unwrap();
        index.fold(&Changes::default());
    }
}

fn imagined_tree() -> TreeName {
    TreeName::of_root(Path::new("/imagined"))
}

fn imagined_path(number: u64) -> EntryPath {
    path(&format!("{:02}/{number:08}", number % 7))
}

fn imagined_state(number: u64) -> Seen {
    let time = Timestamp { seconds: 1_000, nanoseconds: 1 };
    let stat = StatKey { size: 1 + number, mtime: time, ctime: time, inode: number };
    Seen { stat, at: Timestamp { seconds: 2_000, nanoseconds: 0 } }
}

#[test]
fn an_index_whose_writer_is_killed_at_any_moment_loses_nothing() {
    const TEST: &str = "known::an_index_whose_writer_is_killed_at_any_moment_loses_nothing";
    if let Some(folder) = env::var_os(FOLDING) {
        return fold_until_killed(Path::new(&folder));
    }
    for rounds in 1..=12 {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new(env::current_exe().unwrap())
            .args(["--exact", TEST, "--nocapture"])
            .env(FOLDING, folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert_eq!(
            lines.filter(|line| line.ends_with("recorded")).take(rounds as usize).count(),
            rounds as usize
        );
        child.kill().unwrap();
        child.wait().unwrap();

        let index = indexes(folder.path()).open(&imagined_tree());

        assert_eq!(index.take_warnings().len(), 0, "killed after {rounds} rounds");
        let mut numbers: Vec<u64> = (0..rounds * ROUND_FILES).collect();
        numbers.sort_by_key(|&number| imagined_path(number));
        let mut reader = index.reader(now());
        for number in numbers {
            let found = reader.hash_of(&imagined_path(number), &imagined_state(number).stat);
            assert_eq!(found, Some(hash_of(&number.to_le_bytes())), "{number} after {rounds} rounds");
        }
    }
}

#[test]
fn a_catalogue_that_is_not_wanted_any_more_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    write(folder.path(), "f", "x");
    let source = Source::open_root(folder.path()).unwrap();
    let indexes = indexes(folder.path());
    let index = open_index(&indexes, folder.path());
    let made = catalogue(&source, &index, &Selection::default(), Filter::default(), [1; 16], || false);
    assert!(made.unwrap().is_none());
}
