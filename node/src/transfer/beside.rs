//! [`Beside`]: what a target has beside what is announced, as both go by in order.

use std::iter::Peekable;

use ketch_protocol::{manifest::Entry, message::Removal, path::EntryPath};

use crate::tree::Extras;

/// Walks through what of the target equals nothing of the sender, and keeps what the sender does not have.
pub(super) struct Beside<I: Iterator> {
    own: Peekable<I>,
    removal: Removal,
    extras: Extras,
}

impl<I: Iterator<Item = Entry>> Beside<I> {
    /// `own` in manifest order.
    pub(super) fn new(own: I, removal: Removal) -> Self {
        Self { own: own.peekable(), removal, extras: Extras::default() }
    }

    /// What the target has under the next announced path. Paths come in order.
    pub(super) fn at(&mut self, path: &EntryPath) -> Option<Entry> {
        while let Some(extra) = self.own.next_if(|own| own.path < *path) {
            self.is_extra(&extra);
        }
        self.own.next_if(|own| own.path == *path)
    }

    /// Notes an entry that is to be removed.
    pub(super) fn is_extra(&mut self, own: &Entry) {
        match self.removal {
            Removal::Nothing => {}
            Removal::Extra { .. } => self.extras.push(own),
        }
    }

    /// Removes nothing at this path or below.
    pub(super) fn spare(&mut self, path: &EntryPath) {
        self.extras.spare(path);
    }

    /// All that only the target has, once everything was announced.
    pub(super) fn take_extras(&mut self) -> Extras {
        while let Some(extra) = self.own.next() {
            self.is_extra(&extra);
        }
        std::mem::take(&mut self.extras)
    }
}

#[cfg(test)]
mod tests {
    use ketch_protocol::{
        manifest::{EntryKind, Timestamp},
        message::RemovalLimit,
    };

    use super::*;

    const ALL: Removal = Removal::Extra { limit: RemovalLimit::Default, force_empty: false };

    fn path(text: &str) -> EntryPath {
        EntryPath::parse(text.as_bytes()).unwrap()
    }

    fn own(paths: &[&str]) -> impl Iterator<Item = Entry> {
        let entry = |text: &&str| Entry::new(path(text), EntryKind::Directory, 0, Timestamp::default());
        paths.iter().map(entry).collect::<Vec<_>>().into_iter()
    }

    #[test]
    fn what_is_announced_is_found_and_the_rest_is_extra() {
        let mut beside = Beside::new(own(&["a", "a/b", "a-b", "c", "d"]), ALL);
        let found = ["a", "a/a", "c"].map(|text| beside.at(&path(text)).is_some());
        assert_eq!(found, [true, false, true]);
        let approved = beside.take_extras().approve(5, RemovalLimit::Entries(3)).unwrap();
        assert_eq!(approved.count(), 3);
    }

    #[test]
    fn nothing_is_extra_where_nothing_is_removed_or_all_is_spared() {
        let mut beside = Beside::new(own(&["a", "b"]), Removal::Nothing);
        assert!(beside.take_extras().is_empty());
        let mut beside = Beside::new(own(&["a", "a/b"]), ALL);
        beside.spare(&path("a"));
        assert_eq!(beside.take_extras().approve(2, RemovalLimit::Entries(0)).unwrap().count(), 0);
    }
}
