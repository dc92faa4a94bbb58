//! [`Agreement`]: what a person has agreed to, which holds for the sessions that go on after one was cut.

use std::sync::{Arc, Mutex};

use ketch_protocol::{message::Totals, path::EntryPath};

use super::lock;

/// What a person was shown, and whether that was agreed to. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Agreement(Arc<Mutex<Asked>>);

#[derive(Debug, Default)]
struct Asked {
    shown: Option<Shown>,
    agreed: bool,
}

/// What a person sees before deciding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Shown {
    pub(super) listed: Totals,
    /// Whether that is all.
    pub(super) complete: bool,
    pub(super) names: Vec<EntryPath>,
}

impl Agreement {
    /// Whether just that was agreed to. If not, it is what a person is shown now: a sender that comes back with
    /// something else gets another question.
    pub(super) fn covers(&self, shown: &Shown) -> bool {
        let mut asked = lock(&self.0);
        if asked.shown.as_ref() != Some(shown) {
            *asked = Asked { shown: Some(shown.clone()), agreed: false };
        }
        asked.agreed
    }

    /// A person has agreed to what was shown last.
    pub(super) fn note(&self) {
        lock(&self.0).agreed = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(entries: u64) -> Shown {
        Shown { listed: Totals { entries, ..Totals::default() }, complete: true, names: Vec::new() }
    }

    #[test]
    fn what_was_agreed_to_is_not_asked_again() {
        let agreement = Agreement::default();
        assert!(!agreement.covers(&shown(1)));
        assert!(!agreement.covers(&shown(1)), "nobody has answered yet");
        agreement.note();
        assert!(agreement.clone().covers(&shown(1)));
    }

    #[test]
    fn something_else_is_asked_anew() {
        let agreement = Agreement::default();
        agreement.covers(&shown(1));
        agreement.note();
        assert!(!agreement.covers(&shown(2)));
        assert!(!agreement.covers(&shown(1)), "another question was asked since");
    }
}
