//! Finds names that a target takes for one another: `README` and `readme`, or `é` as one character and as
//! two. What is stored under the second would replace the first.

use std::{borrow::Cow, collections::HashMap};

use icu_normalizer::DecomposingNormalizer;
use ketch_protocol::path::EntryPath;

/// Which differences between names a file system does not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Alike {
    /// Upper and lower case.
    pub(super) case: bool,
    /// Composed and decomposed characters.
    pub(super) form: bool,
}

impl Alike {
    /// A name without these differences. Names that are not UTF-8 are what they are: file systems
    /// that take names for one another take these as bytes or not at all.
    fn key<'a>(self, name: &'a [u8]) -> Cow<'a, [u8]> {
        let Ok(text) = str::from_utf8(name) else { return Cow::Borrowed(name) };
        let mut key = Cow::Borrowed(text);
        if self.case {
            // There and back: some letters have one partner in one direction only (ſ, ß, ς).
            key = Cow::Owned(key.to_uppercase().to_lowercase());
        }
        if self.form {
            key = Cow::Owned(DecomposingNormalizer::new_nfd().normalize(&key).into_owned());
        }
        Cow::Owned(key.into_owned().into_bytes())
    }
}

/// The names of the directories above the latest path: those that are there and those that were admitted.
#[derive(Debug, Default)]
pub(super) struct Spellings {
    /// From the top down.
    levels: Vec<Level>,
}

#[derive(Debug)]
struct Level {
    directory: Box<[u8]>,
    /// By what is alike for all that are taken for one another.
    names: HashMap<Box<[u8]>, Box<[u8]>>,
}

impl Spellings {
    /// Admits a path unless one of its components is there in another spelling: that one's path is given
    /// back. In manifest order `list` is asked once for the names in each directory.
    pub(super) fn admit(
        &mut self,
        path: &EntryPath,
        alike: Alike,
        mut list: impl FnMut(&[u8]) -> Vec<Box<[u8]>>,
    ) -> Option<Box<[u8]>> {
        let mut end = 0;
        for (depth, component) in path.components().enumerate() {
            let directory = &path.as_bytes()[..end];
            if self.levels.get(depth).is_none_or(|level| &*level.directory != directory) {
                self.levels.truncate(depth);
                self.levels.push(Level::new(directory, alike, list(directory)));
            }
            if let Some(other) = self.levels[depth].admit(component, alike) {
                let above = if directory.is_empty() { &b""[..] } else { b"/" };
                return Some([directory, above, &other].concat().into());
            }
            end += component.len() + usize::from(depth > 0);
        }
        None
    }
}

impl Level {
    fn new(directory: &[u8], alike: Alike, names: Vec<Box<[u8]>>) -> Self {
        let by_key = names.into_iter().map(|name| (alike.key(&name).into(), name));
        Self { directory: directory.into(), names: by_key.collect() }
    }

    /// The name that stands in the way of this one.
    fn admit(&mut self, name: &[u8], alike: Alike) -> Option<Box<[u8]>> {
        let held = self.names.entry(alike.key(name).into()).or_insert_with(|| name.into());
        (**held != *name).then(|| held.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use ketch_protocol::{
        manifest::{Entry, EntryKind, Timestamp},
        message::{Durability, Fate},
        problem::Cause,
    };

    use super::*;
    use crate::tree::target::{Handling, Options, Plan, Target, Trouble};

    const CASE: Alike = Alike { case: true, form: false };
    const FORM: Alike = Alike { case: false, form: true };
    const BOTH: Alike = Alike { case: true, form: true };

    fn path(text: &str) -> EntryPath {
        EntryPath::parse(text.as_bytes()).unwrap()
    }

    /// Admits paths where only `there` is stored at the top; the collisions by path.
    fn collisions(alike: Alike, there: &[&str], paths: &[&str]) -> Vec<(String, String)> {
        let mut spellings = Spellings::default();
        let list = |directory: &[u8]| {
            let names = if directory.is_empty() { there } else { &[] };
            names.iter().map(|name| name.as_bytes().into()).collect()
        };
        let text = |bytes: Box<[u8]>| String::from_utf8(bytes.into()).unwrap();
        paths
            .iter()
            .filter_map(|text_of| {
                let other = spellings.admit(&path(text_of), alike, list)?;
                Some(((*text_of).to_owned(), text(other)))
            })
            .collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|&(path, other)| (path.to_owned(), other.to_owned())).collect()
    }

    #[test]
    fn names_that_differ_in_case_collide_and_the_first_is_kept() {
        let paths = ["A", "B", "a", "d", "d/README", "d/Readme", "d/other", "straße", "STRASSE", "z"];
        let expected = [("a", "A"), ("d/Readme", "d/README"), ("STRASSE", "straße")];
        assert_eq!(collisions(CASE, &[], &paths), pairs(&expected));
        assert_eq!(collisions(FORM, &[], &paths), []);
    }

    #[test]
    fn composed_and_decomposed_names_collide() {
        let paths = ["e\u{301}", "\u{c9}", "\u{e9}"];
        assert_eq!(collisions(FORM, &[], &paths), pairs(&[("\u{e9}", "e\u{301}")]));
        assert_eq!(collisions(BOTH, &[], &paths), pairs(&[("\u{c9}", "e\u{301}"), ("\u{e9}", "e\u{301}")]));
    }

    #[test]
    fn what_is_stored_in_another_spelling_is_in_the_way_of_all_below_it() {
        let paths = ["Docs", "Docs/a", "Docs/b", "docs", "docs/a"];
        let expected = [("Docs", "docs"), ("Docs/a", "docs"), ("Docs/b", "docs")];
        assert_eq!(collisions(CASE, &["docs"], &paths), pairs(&expected));
    }

    #[test]
    fn names_of_different_directories_do_not_meet() {
        let paths = ["a", "a/x", "a/x/y", "a/z", "b", "b/X", "b/x/Y", "c/x"];
        assert_eq!(collisions(CASE, &[], &paths), pairs(&[("b/x/Y", "b/X")]));
    }

    /// A target that does not see case, as far as it knows.
    #[test]
    fn a_collision_is_found_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("stored"), "").unwrap();
        let options = Options { handling: Handling::receiving(true), durability: Durability::None };
        let mut target = Target::open(folder.path(), options).unwrap();
        Arc::get_mut(&mut target.0).unwrap().alike = CASE;
        let plan = |text: &str, kind| target.plan(&Entry::new(path(text), kind, 0o700, Timestamp::default()));
        let file = EntryKind::File { size: 0 };
        assert_eq!(plan("D", EntryKind::Directory).unwrap(), Plan::Settled(Fate::Created));
        assert_eq!(plan("D/f", file.clone()).unwrap(), Plan::Settled(Fate::Created));
        for (text, kind, other) in [
            ("D/F", file.clone(), "D/f"),
            ("d", EntryKind::Directory, "D"),
            ("d/new", file.clone(), "D"),
            ("Stored", file, "stored"),
        ] {
            let Err(Trouble::Problem(problem)) = plan(text, kind) else { panic!("{text} was planned") };
            assert!(problem.detail.contains(&format!("\"{other}\"")), "{problem}");
            // Below a directory that was refused everything is.
            assert!(matches!(problem.cause, Cause::Collision | Cause::Unwritable), "{problem}");
        }
        assert_eq!(fs::read_dir(folder.path().join("D")).unwrap().count(), 1);
        assert!(!folder.path().join("d").exists() && !folder.path().join("Stored").exists());
    }

    #[test]
    fn names_that_are_not_utf8_are_taken_as_bytes() {
        let mut spellings = Spellings::default();
        for name in [&b"A\xff"[..], b"a\xff"] {
            let path = EntryPath::parse(name).unwrap();
            assert_eq!(spellings.admit(&path, BOTH, |_| Vec::new()), None);
        }
    }
}
