//! [`Beside`]: what a target has beside what is announced, as both go by in order.

use std::iter::Peekable;

use ketch_protocol::{
    manifest::Entry,
    message::{Removal, Totals},
    path::EntryPath,
    problem::Reason,
    session::Stop,
};

use crate::tree::{Approved, Extras, Spared};

/// Paths named to whoever wanted to remove too much: a dry run shows all.
const PATHS_NAMED: usize = 8;

/// Walks through what of the target equals nothing of the sender, and keeps what the sender does not have.
pub(super) struct Beside<I: Iterator> {
    own: Peekable<I>,
    removal: Removal,
    extras: Extras,
}

impl<I: Iterator<Item = Entry>> Beside<I> {
    /// `own` in manifest order.
    pub(super) fn new(own: I, removal: Removal, spared: Spared) -> Self {
        Self { own: own.peekable(), removal, extras: Extras::sparing(spared) }
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
        match self.removal {
            Removal::Nothing => {}
            Removal::Extra { .. } => self.extras.spare(path),
        }
    }

    /// All that only the target has, once everything was announced.
    pub(super) fn take_extras(&mut self) -> Extras {
        while let Some(extra) = self.own.next() {
            self.is_extra(&extra);
        }
        std::mem::take(&mut self.extras)
    }
}

/// Weighs what only the target has: nothing where nothing is to be removed, a stop where it is too much.
/// `listed` is all that the sender has, `own_entries` what the target had before the session.
pub(super) fn approve(
    extras: Extras,
    removal: Removal,
    listed: Totals,
    own_entries: u64,
) -> Result<Option<Approved>, Stop> {
    let Removal::Extra { limit, force_empty } = removal else { return Ok(None) };
    if listed.entries == 0 && !force_empty && !extras.is_empty() {
        let detail = format!("all {own_entries} entries of the target would be removed");
        return Err(Stop::new(Reason::EmptySource, detail));
    }
    let named = name_some(extras.paths());
    let approved = extras.approve(own_entries, limit);
    approved.map(Some).map_err(|refused| Stop::new(Reason::RemovalLimit, format_args!("{refused}: {named}")))
}

/// The first paths, and how many more there are.
fn name_some<'a>(mut paths: impl ExactSizeIterator<Item = &'a EntryPath>) -> String {
    let named: Vec<_> = paths.by_ref().take(PATHS_NAMED).map(|path| format!("\"{path}\"")).collect();
    let more = match paths.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    named.join(", ") + &more
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
        let mut beside = Beside::new(own(&["a", "a/b", "a-b", "c", "d"]), ALL, Spared::default());
        let found = ["a", "a/a", "c"].map(|text| beside.at(&path(text)).is_some());
        assert_eq!(found, [true, false, true]);
        let approved = beside.take_extras().approve(5, RemovalLimit::Entries(3)).unwrap();
        assert_eq!(approved.count(), 3);
    }

    #[test]
    fn an_empty_source_empties_nothing_unless_it_is_forced() {
        let extras = || Beside::new(own(&["a"]), ALL, Spared::default()).take_extras();
        let forced = Removal::Extra { limit: RemovalLimit::Default, force_empty: true };
        let judge = |removal, entries| {
            let listed = Totals { entries, ..Totals::default() };
            approve(extras(), removal, listed, 1).map(|approved| approved.map(|approved| approved.count()))
        };
        assert_eq!(judge(ALL, 0).unwrap_err().reason, Reason::EmptySource);
        assert_eq!(judge(ALL, 1), Ok(Some(1)));
        assert_eq!(judge(forced, 0), Ok(Some(1)));
        assert_eq!(judge(Removal::Nothing, 0), Ok(None));
        let none = Removal::Extra { limit: RemovalLimit::Entries(0), force_empty: false };
        let refused = judge(none, 1).unwrap_err();
        assert_eq!(refused.reason, Reason::RemovalLimit);
        assert!(refused.detail.ends_with(": \"a\""), "{}", refused.detail);
    }

    #[test]
    fn some_paths_are_named_and_the_rest_is_counted() {
        let paths: Vec<_> = (0..10).map(|name| path(&name.to_string())).collect();
        assert_eq!(name_some(paths[..2].iter()), "\"0\", \"1\"");
        assert!(name_some(paths.iter()).ends_with("\"7\" and 2 more"));
    }

    #[test]
    fn nothing_is_extra_where_nothing_is_removed_or_all_is_spared() {
        let mut beside = Beside::new(own(&["a", "b"]), Removal::Nothing, Spared::default());
        assert!(beside.take_extras().is_empty());
        let mut beside = Beside::new(own(&["a", "a/b"]), ALL, Spared::default());
        beside.spare(&path("a"));
        assert_eq!(beside.take_extras().approve(2, RemovalLimit::Entries(0)).unwrap().count(), 0);
    }
}
