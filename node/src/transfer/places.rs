//! [`Places`]: how many of something one peer may have at once.

use std::{collections::HashMap, sync::Arc};

use crate::swarm::PeerId;

/// Places for each peer. Without a bound, one peer that opens streams and says nothing would take all of them.
#[derive(Debug)]
pub(super) struct Places {
    per_peer: usize,
    /// By peer, held once here and once by each place that is taken.
    taken: HashMap<PeerId, Arc<()>>,
}

/// A place, free again when it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    _held: Arc<()>,
}

impl Places {
    pub(super) fn new(per_peer: usize) -> Self {
        Self { per_peer, taken: HashMap::new() }
    }

    /// A place for a peer; `None` while it has all of its own.
    pub(super) fn take(&mut self, peer: PeerId) -> Option<Place> {
        self.taken.retain(|_, held| Arc::strong_count(held) > 1);
        let held = self.taken.entry(peer).or_default();
        (Arc::strong_count(held) <= self.per_peer).then(|| Place { _held: Arc::clone(held) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_has_its_places_and_takes_none_from_others() {
        let (mut places, [ann, bob]) = (Places::new(2), [(); 2].map(|()| PeerId::random()));
        let (_one, other) = (places.take(ann).unwrap(), places.take(ann).unwrap());
        assert!(places.take(ann).is_none());
        assert!(places.take(bob).is_some());
        drop(other);
        assert!(places.take(ann).is_some());
    }
}
