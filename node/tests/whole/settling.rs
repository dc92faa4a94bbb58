//! Files that change while a sync reads them: the trees are compared once more, and what does not come to rest is
//! named at both ends.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
};

use ketch::{
    swarm::TransportKind::Tcp,
    transfer::Direction::{self, Pull, Push},
};
use rustix::process::Signal;

use crate::{
    place::{account, assert_same, noise},
    process::{Ended, Ketch},
    serving::Trees,
};

/// Enough to be met in the middle.
const LARGE_BYTES: usize = 200 << 20;

/// A source with a large file and a small one.
struct Setting(Trees);

impl Setting {
    async fn new(direction: Direction) -> Self {
        let setting = Self(Trees::new(Tcp, direction).await);
        fs::write(setting.large(), noise(LARGE_BYTES, 1)).unwrap();
        fs::write(setting.0.source().join("other"), "x").unwrap();
        setting
    }

    fn large(&self) -> PathBuf {
        self.0.source().join("large")
    }

    /// Waits until a part of the large file has crossed, and changes the file while the receiver stands still.
    async fn change_in_the_middle(&self, sync: &mut Ketch, change: fn(&Path)) {
        sync.event_where("progress", |progress| {
            let moved = progress["moved_bytes"].as_u64().unwrap();
            0 < moved && moved < LARGE_BYTES as u64 / 2
        })
        .await;
        let receiver = match self.0.direction {
            Push => &self.0.serving.serve,
            Pull => &*sync,
        };
        receiver.signal(Signal::STOP);
        change(&self.large());
        receiver.signal(Signal::CONT);
    }

    /// What the node that serves says of its last session.
    async fn served(self, sessions: usize) -> Ended {
        let mut serving = self.0.serving;
        for _ in 0..sessions {
            serving.serve.event("done").await;
        }
        serving.serve.signal(Signal::TERM);
        serving.serve.end().await
    }
}

fn grow(path: &Path) {
    let file = File::options().write(true).open(path).unwrap();
    let length = file.metadata().unwrap().len();
    file.set_len(length + 1).unwrap();
}

fn vanish(path: &Path) {
    fs::remove_file(path).unwrap();
}

#[tokio::test]
async fn a_file_that_changed_once_is_stored_as_it_came_to_rest() {
    for direction in [Push, Pull] {
        let setting = Setting::new(direction).await;
        let mut sync = setting.0.sync(&[]);
        setting.change_in_the_middle(&mut sync, grow).await;
        let ended = sync.end().await.expect(0);
        assert_eq!(account(&ended.event("again")), [2, 1, 0, 0, 1], "{direction:?}");
        assert_eq!(account(&ended.event("done")), [2, 1, 1, 0, 0], "{direction:?}");
        assert_same(&setting.0.source(), &setting.0.target());
    }
}

#[tokio::test]
async fn a_file_that_goes_on_changing_is_named_at_both_ends_and_tried_no_more() {
    for direction in [Push, Pull] {
        let setting = Setting::new(direction).await;
        let mut sync = setting.0.sync(&[]);
        setting.change_in_the_middle(&mut sync, grow).await;
        sync.event("again").await;
        setting.change_in_the_middle(&mut sync, grow).await;
        let ended = sync.end().await.expect(4);
        let changed = ("large".to_owned(), "changed".to_owned());
        assert_eq!(ended.problems(), [changed.clone(), changed.clone()], "{direction:?}");
        assert_eq!(account(&ended.event("done")), [2, 0, 1, 0, 1], "{direction:?}");
        assert!(!setting.0.target().join("large").exists());
        let served = setting.served(2).await;
        assert_eq!(served.problems(), [changed.clone(), changed], "{direction:?}");
    }
}

#[tokio::test]
async fn a_file_that_vanished_and_does_not_come_back_is_named_at_both_ends() {
    for direction in [Push, Pull] {
        let setting = Setting::new(direction).await;
        let mut sync = setting.0.sync(&[]);
        setting.change_in_the_middle(&mut sync, vanish).await;
        let ended = sync.end().await.expect(4);
        assert_eq!(account(&ended.event("done")), [2, 0, 1, 0, 1], "{direction:?}");
        // What is gone while it is open has changed, for all that its reader knows.
        let last = ended.problems().pop();
        assert_eq!(last, Some(("large".to_owned(), "vanished".to_owned())), "{direction:?}: {ended:#?}");
        assert_same(&setting.0.source(), &setting.0.target());
        // Only the sync that met it is about it.
        let again = setting.0.sync(&[]).end().await.expect(0);
        assert_eq!(account(&again.event("done")), [1, 0, 1, 0, 0], "{direction:?}");
        let served = setting.served(3).await;
        assert_eq!(served.problems(), ended.problems(), "{direction:?}");
    }
}

#[tokio::test]
async fn a_file_that_vanished_and_came_back_is_stored() {
    for direction in [Push, Pull] {
        let setting = Setting::new(direction).await;
        let mut sync = setting.0.sync(&[]);
        setting.change_in_the_middle(&mut sync, vanish).await;
        // Before anybody looks again: the receiver that would begin anew stands still.
        sync.signal(Signal::STOP);
        fs::write(setting.large(), noise(1 << 20, 2)).unwrap();
        sync.signal(Signal::CONT);
        sync.end().await.expect(0);
        assert_same(&setting.0.source(), &setting.0.target());
    }
}
