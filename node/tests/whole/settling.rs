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
    serving::Serving,
};

/// Enough to be met in the middle.
const LARGE_BYTES: usize = 200 << 20;

/// A source with a large file and a small one.
struct Setting {
    serving: Serving,
    direction: Direction,
}

impl Setting {
    async fn new(direction: Direction) -> Self {
        let setting = Self { serving: Serving::with(Tcp, "read,write").await, direction };
        fs::write(setting.large(), noise(LARGE_BYTES, 1)).unwrap();
        fs::write(setting.source().join("other"), "x").unwrap();
        setting
    }

    fn source(&self) -> PathBuf {
        match self.direction {
            Push => self.serving.place.source(),
            Pull => self.serving.shared(),
        }
    }

    fn target(&self) -> PathBuf {
        match self.direction {
            Push => self.serving.shared(),
            Pull => self.serving.place.target(),
        }
    }

    fn large(&self) -> PathBuf {
        self.source().join("large")
    }

    fn start(&self) -> Ketch {
        match self.direction {
            Push => self.serving.sync(self.source(), self.serving.docs(""), &[]),
            Pull => self.serving.sync(self.serving.docs(""), self.target(), &[]),
        }
    }

    /// Waits until a part of the large file has crossed, and changes the file while the receiver stands still.
    async fn change_in_the_middle(&self, sync: &mut Ketch, change: fn(&Path)) {
        sync.event_where("progress", |progress| {
            let moved = progress["moved_bytes"].as_u64().unwrap();
            0 < moved && moved < LARGE_BYTES as u64 / 2
        })
        .await;
        let receiver = match self.direction {
            Push => &self.serving.serve,
            Pull => &*sync,
        };
        receiver.signal(Signal::STOP);
        change(&self.large());
        receiver.signal(Signal::CONT);
    }

    /// What the node that serves says of its last session.
    async fn served(self, sessions: usize) -> Ended {
        let Self { mut serving, .. } = self;
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
        let mut sync = setting.start();
        setting.change_in_the_middle(&mut sync, grow).await;
        let ended = sync.end().await.expect(0);
        assert_eq!(account(&ended.event("again")), [2, 1, 0, 0, 1], "{direction:?}");
        assert_eq!(account(&ended.event("done")), [2, 1, 1, 0, 0], "{direction:?}");
        assert_same(&setting.source(), &setting.target());
    }
}

#[tokio::test]
async fn a_file_that_goes_on_changing_is_named_at_both_ends_and_tried_no_more() {
    for direction in [Push, Pull] {
        let setting = Setting::new(direction).await;
        let mut sync = setting.start();
        setting.change_in_the_middle(&mut sync, grow).await;
        sync.event("again").await;
        setting.change_in_the_middle(&mut sync, grow).await;
        let ended = sync.end().await.expect(4);
        let changed = ("large".to_owned(), "changed".to_owned());
        assert_eq!(ended.problems(), [changed.clone(), changed.clone()], "{direction:?}");
        assert_eq!(account(&ended.event("done")), [2, 0, 1, 0, 1], "{direction:?}");
        assert!(!setting.target().join("large").exists());
        let served = setting.served(2).await;
        assert_eq!(served.problems(), [changed.clone(), changed], "{direction:?}");
    }
}

#[tokio::test]
async fn a_file_that_vanished_is_not_listed_the_second_time() {
    for direction in [Push, Pull] {
        let setting = Setting::new(direction).await;
        let mut sync = setting.start();
        setting.change_in_the_middle(&mut sync, vanish).await;
        let ended = sync.end().await.expect(0);
        assert_eq!(ended.problems().len(), 1, "{direction:?}: {ended:#?}");
        assert_eq!(account(&ended.event("done")), [1, 0, 1, 0, 0], "{direction:?}");
        assert_same(&setting.source(), &setting.target());
    }
}
