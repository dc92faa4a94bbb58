//! After a power cut only what is known to be on the disk is taken as stored; the rest is read again.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    time::Duration,
};

use ketch::{swarm::TransportKind::Tcp, tree::PRIVATE_FOLDER};
use ketch_fixtures::tree::Shape;
use rustix::process::Signal;
use tokio::time::{sleep, timeout};

use crate::{
    mounts::Mounts,
    place::{assert_same, noise},
    process::PATIENCE,
    serving::Serving,
};

const SMALL_FILES: u64 = 300;
const SMALL_BYTES: u64 = 65_536;

/// Where the frames of a journal begin, in bytes.
const JOURNAL_HEADER_BYTES: usize = 16 + 25;

/// Pulls until all small files are stored and a very large one is not, lets `await_disk` see the target's state
/// folder, and kills the receiver. Says how many bytes it has to read again after another boot, beside those of the
/// file that was not whole.
async fn found_after_reboot(durability: &str, await_disk: impl AsyncFn(&Path)) -> Option<u64> {
    let serving = Serving::with(Tcp, "read").await;
    let (place, boot) = (&serving.place, serving.place.path("boot"));
    fs::create_dir(&boot).unwrap();
    fs::write(boot.join("id"), "another one").unwrap();
    let mounts = Mounts::new("mount --bind \"$1/id\" /proc/sys/kernel/random/boot_id", &boot).await?;
    let small = Shape::Small { files: SMALL_FILES, bytes: SMALL_BYTES };
    small.write(7, &serving.shared().join("small")).unwrap();
    fs::write(serving.shared().join("very large"), noise(300 << 20, 1)).unwrap();

    let mut pull = serving.sync(serving.docs(""), place.target(), &["--durability", durability]);
    let are_stored = |progress: &serde_json::Value| progress["sent"].as_u64().unwrap() >= SMALL_FILES;
    pull.event_where("progress", are_stored).await;
    serving.serve.signal(Signal::STOP);
    await_disk(&place.path("comer")).await;
    pull.kill().await;
    serving.serve.signal(Signal::CONT);

    let unfinished = unfinished_bytes(&place.target());
    let again = serving.pull_within(&mounts, &[]).await.expect(0);
    assert_same(&serving.shared(), &place.target());
    Some(again.event("done")["found_bytes"].as_u64().unwrap().saturating_sub(unfinished))
}

/// Bytes that are stored of files which are not whole.
fn unfinished_bytes(target: &Path) -> u64 {
    let entries = fs::read_dir(target.join(PRIVATE_FOLDER)).unwrap();
    entries.map(|entry| entry.unwrap().metadata().unwrap().blocks() * 512).sum()
}

/// Whether a checkpoint covers all records of the journal.
fn is_covered(state: &Path) -> bool {
    let Some(journal) = journal(state) else { return false };
    let content = fs::read(journal).unwrap();
    let (mut offset, mut records_end, mut covered) = (JOURNAL_HEADER_BYTES, 0, 0);
    while let Some((length, payload)) = content.get(offset..).and_then(<[u8]>::split_first_chunk) {
        let payload = payload.get(8..).unwrap_or_default();
        offset += 12 + u32::from_le_bytes(*length) as usize;
        match payload {
            [2, mark @ ..] => covered = mark.first_chunk().map_or(0, |mark| u64::from_le_bytes(*mark)),
            [_records, ..] => records_end = offset as u64,
            [] => {}
        }
    }
    records_end > 0 && covered >= records_end
}

fn journal(state: &Path) -> Option<PathBuf> {
    let entries = fs::read_dir(state.join("index")).ok()?;
    entries
        .map(|entry| entry.unwrap().path())
        .find(|path| path.extension().is_some_and(|end| end == "journal"))
}

#[tokio::test]
async fn what_was_only_in_memory_is_read_again() {
    let Some(found) = found_after_reboot("none", async |_: &Path| {}).await else { return };
    // Of the file that was not whole, more may be stored than is known.
    assert!(found >= SMALL_FILES * SMALL_BYTES / 2, "{found} bytes");
}

#[tokio::test]
async fn what_a_checkpoint_covers_is_not_read_again() {
    let checkpoint = async |state: &Path| {
        let waited = timeout(PATIENCE, async {
            while !is_covered(state) {
                sleep(Duration::from_millis(20)).await;
            }
        });
        waited.await.expect("no checkpoint covers what was stored while the session ran");
    };
    let Some(found) = found_after_reboot("session", checkpoint).await else { return };
    assert_eq!(found, 0, "bytes were read again");
}
