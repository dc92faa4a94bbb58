//! Either end of a sync is killed at any moment: the same command makes the target right, at the cost of what was
//! not stored.
//!
//! `KETCH_KILLS` says how many sessions are killed, `KETCH_KILL_FILES` and `KETCH_KILL_MIB` how many small files and
//! how much of large ones they move, `KETCH_SEED` at which moments.

use std::{
    collections::BTreeMap,
    fs,
    io::{self, Write as _},
    os::unix::fs::MetadataExt as _,
    path::Path,
    str::FromStr,
    time::{Duration, Instant},
};

use ketch::{
    swarm::TransportKind::{self, Quic, Tcp},
    transfer::Direction::{self, Pull, Push},
    tree::PRIVATE_FOLDER,
};
use ketch_fixtures::tree::Shape;
use rustix::process::Signal;
use tokio::time::sleep;

use crate::{
    place::{assert_same, noise},
    process::{Ended, Ketch},
    serving::{Serving, Trees, settle},
};

/// What each small file holds, in bytes.
const SMALL_BYTES: u64 = 4_096;

/// What a killed process may have stored without having said so, in bytes: a block or two for each stream.
const UNSAID_BYTES: u64 = 8 << 20;

/// What may be cut in the middle, in bytes: a range for each stream, and what lies in sockets, which a sender counts.
/// More than a tenth of a small tree.
const CUT_BYTES: u64 = 24 << 20;

#[derive(Debug, Clone, Copy)]
enum Victim {
    Dialer,
    Server,
}

/// What is killed, and when.
#[derive(Debug, Clone, Copy)]
struct Kill {
    transport: TransportKind,
    direction: Direction,
    victim: Victim,
    /// After which part of the time that a whole session takes.
    after: f64,
}

/// All of them, one after another, at moments that depend on the seed.
fn kills(count: usize, seed: u64) -> Vec<Kill> {
    let mut moments = blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof();
    let mut kills = Vec::new();
    for number in 0..count {
        let mut random = [0; 2];
        moments.fill(&mut random);
        kills.push(Kill {
            transport: if number & 1 == 0 { Tcp } else { Quic },
            direction: if number & 2 == 0 { Push } else { Pull },
            victim: if number & 4 == 0 { Victim::Server } else { Victim::Dialer },
            after: f64::from(u16::from_le_bytes(random)) / f64::from(u16::MAX),
        });
    }
    kills
}

fn setting<T: FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

/// Two trees at two ends.
struct Setting {
    trees: Trees,
    /// All the content of the source, in bytes.
    bytes: u64,
}

impl Setting {
    /// A source of small files and two large ones of this length.
    async fn new(kill: &Kill) -> Self {
        let large_bytes = setting("KETCH_KILL_MIB", 110) * (1 << 20) / 2;
        let files = setting("KETCH_KILL_FILES", 2_000);
        let trees = Trees::new(kill.transport, kill.direction).await;
        let small = Shape::Small { files, bytes: SMALL_BYTES };
        small.write(7, &trees.source().join("small")).unwrap();
        for (name, seed) in [("large one", 1), ("very large", 2)] {
            fs::write(trees.source().join(name), noise(large_bytes, seed)).unwrap();
        }
        settle().await;
        Self { trees, bytes: files * SMALL_BYTES + 2 * large_bytes as u64 }
    }

    fn start(&self) -> Ketch {
        self.trees.sync(&["--retry-for", "0s"])
    }

    /// Runs the command and kills one of the two. The other is at rest then, or has yet to notice.
    async fn kill(&mut self, kill: &Kill, whole: Duration) -> Vec<Ended> {
        let dialer = self.start();
        sleep(whole.mul_f64(kill.after)).await;
        let mut ended = Vec::new();
        match (kill.victim, kill.transport) {
            (Victim::Dialer, _) => dialer.signal(Signal::KILL),
            (Victim::Server, Tcp) => ended.push(self.trees.serving.kill_and_start_again().await),
            (Victim::Server, Quic) => {
                ended.push(self.trees.serving.kill_and_start_again().await);
                // Nobody tells it, and it would wait for long.
                dialer.signal(Signal::INT);
            }
        }
        ended.push(dialer.end().await);
        ended
    }

    /// Bytes that are stored of files which are not whole.
    fn unfinished_bytes(&self) -> u64 {
        let Ok(entries) = fs::read_dir(self.trees.target().join(PRIVATE_FOLDER)) else { return 0 };
        entries.map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
    }
}

/// Content that crossed in all sessions of a process, in bytes, as far as it was said.
fn moved(ended: &Ended) -> u64 {
    let mut sessions = BTreeMap::new();
    for event in ["progress", "done"].iter().flat_map(|name| ended.events(name)) {
        let moved = sessions.entry(event["session"].as_u64()).or_default();
        *moved = event["moved_bytes"].as_u64().unwrap().max(*moved);
    }
    sessions.values().sum()
}

/// What the two ends say crossed: the one that said more is right, the other was killed.
fn moved_by_all(ended: &[Ended]) -> u64 {
    let (served, dialed): (Vec<_>, Vec<_>) = ended.iter().partition(|ended| ended.is_server());
    let sum = |all: Vec<&Ended>| all.into_iter().map(moved).sum::<u64>();
    sum(served).max(sum(dialed))
}

fn count_files(folder: &Path) -> u64 {
    let Ok(entries) = fs::read_dir(folder) else { return 0 };
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.map(|path| if path.is_dir() { count_files(&path) } else { 1 }).sum()
}

/// Kills a session, runs the same command again and looks at everything.
async fn kill_and_run_again(kill: &Kill, mut setting: Setting, whole: Duration) {
    let began = Instant::now();
    let mut ended = setting.kill(kill, whole).await;
    let (stored, unfinished) =
        (count_files(&setting.trees.target().join("small")), setting.unfinished_bytes());
    let again = setting.start().end().await;
    assert_eq!(again.code, Some(0), "{kill:?}: {again:#?}");
    let done = again.event("done");
    let number = |name: &str| done[name].as_u64().unwrap();
    assert_same(&setting.trees.source(), &setting.trees.target());
    assert!(number("kept") >= stored, "{kill:?}: {stored} were stored, {done}");
    // What was committed is known without being read.
    assert!(number("found_bytes") <= unfinished + UNSAID_BYTES, "{kill:?}: {unfinished} of parts, {done}");

    let third = setting.start().end().await.expect(0).event("done");
    assert_eq!((&third["moved_bytes"], &third["found_bytes"]), (&0.into(), &0.into()), "{kill:?}");
    ended.extend([again, setting.trees.serving.kill_and_start_again().await]);
    let moved = moved_by_all(&ended);
    assert!(
        moved <= setting.bytes + (setting.bytes / 10).max(CUT_BYTES),
        "{kill:?}: {moved} bytes of {}",
        setting.bytes
    );
    let (took, all) = (began.elapsed(), setting.bytes);
    let _ =
        writeln!(io::stderr(), "{kill:?}: {stored} small files stored, {moved} of {all} bytes in {took:?}");
}

#[tokio::test]
async fn whoever_is_killed_the_same_command_goes_on() {
    let seed = setting("KETCH_SEED", 1);
    // Written past the harness: a failure is repeated with it.
    let _ = writeln!(io::stderr(), "KETCH_SEED={seed}");
    let kills = kills(setting("KETCH_KILLS", 8), seed);
    let undisturbed = Setting::new(&kills[0]).await;
    let began = Instant::now();
    undisturbed.start().end().await.expect(0);
    let whole = began.elapsed();
    for kill in kills {
        let setting = Setting::new(&kill).await;
        kill_and_run_again(&kill, setting, whole).await;
    }
}

#[tokio::test]
async fn a_file_that_is_made_from_its_old_version_goes_on_where_it_was() {
    let mut serving = Serving::with(Tcp, "write").await;
    let half = 100 << 20;
    let (same, old, new) = (noise(half, 1), noise(half, 2), noise(half, 3));
    fs::write(serving.shared().join("large"), [&same[..], &old].concat()).unwrap();
    serving.place.write("large", [&same[..], &new].concat());
    let (source, docs) = (serving.place.source(), serving.docs(""));
    let mut push = serving.sync(&source, &docs, &["--retry-for", "0s"]);
    let most = half as u64 * 6 / 10;
    push.event_where("progress", |progress| progress["moved_bytes"].as_u64().unwrap() > most).await;
    serving.kill_and_start_again().await;
    push.end().await.expect(1);

    let again = serving.sync(&source, &docs, &[]).end().await.expect(0).event("done");
    let moved = again["moved_bytes"].as_u64().unwrap();
    assert!(moved <= half as u64 - most + CUT_BYTES, "{again}");
    assert_same(&source, &serving.shared());
    assert_eq!(fs::read_dir(serving.shared()).unwrap().count(), 1);
}
