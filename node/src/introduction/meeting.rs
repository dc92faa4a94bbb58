//! [`Meeting`]: where an inviter and a guest find each other by the number of a code.
//!
//! Only the number is ever said there. Whoever is found is dialed by its PeerId as always, and believed nothing before
//! it has proved that it knows the code.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::{BoxFuture, ready};

use crate::{
    swarm::{Multiaddr, PeerId},
    trust::code::Nameplate,
};

/// Somebody who may be the inviter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Who has to answer.
    pub peer: PeerId,
    /// Where to dial it.
    pub addresses: Vec<Multiaddr>,
}

/// As long as it is held, its maker can be found; dropping it ends that.
pub type Announcement = Box<dyn Send>;

/// Why a meeting place is of no use.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MeetingError {
    /// Somebody else waits there under this number; another one has to be drawn.
    #[error("somebody else waits under the number {0}")]
    Taken(Nameplate),
    /// It cannot be asked.
    #[error("{place}: {cause}")]
    Unavailable {
        /// What it is.
        place: String,
        /// Why it cannot be asked.
        cause: String,
    },
}

/// A place where peers find each other: a rendezvous point, the local network, or an address that a person says.
pub trait Meeting: Send + Sync {
    /// Lets this node be found under a number.
    fn announce(&self, nameplate: Nameplate) -> BoxFuture<'_, Result<Announcement, MeetingError>>;

    /// Who waits under a number; nobody if nobody does.
    fn find(&self, nameplate: Nameplate) -> BoxFuture<'_, Result<Vec<Found>, MeetingError>>;
}

/// No place at all: a person says the inviter's addresses beside the code.
#[derive(Debug, Clone)]
pub struct Direct(pub Vec<Found>);

impl Meeting for Direct {
    fn announce(&self, _: Nameplate) -> BoxFuture<'_, Result<Announcement, MeetingError>> {
        let nothing: Announcement = Box::new(());
        Box::pin(ready(Ok(nothing)))
    }

    fn find(&self, _: Nameplate) -> BoxFuture<'_, Result<Vec<Found>, MeetingError>> {
        Box::pin(ready(Ok(self.0.clone())))
    }
}

/// A place within this process, at which one node is somebody.
#[derive(Debug, Clone)]
pub struct InProcess {
    waiting: Arc<Mutex<BTreeMap<Nameplate, Found>>>,
    myself: Found,
}

impl InProcess {
    /// A new place, seen by this node.
    pub fn new(myself: Found) -> Self {
        Self { waiting: Arc::default(), myself }
    }

    /// The same place, seen by another node.
    pub fn seen_by(&self, myself: Found) -> Self {
        Self { waiting: Arc::clone(&self.waiting), myself }
    }
}

struct Present {
    waiting: Arc<Mutex<BTreeMap<Nameplate, Found>>>,
    nameplate: Nameplate,
}

impl Drop for Present {
    fn drop(&mut self) {
        lock(&self.waiting).remove(&self.nameplate);
    }
}

impl Meeting for InProcess {
    fn announce(&self, nameplate: Nameplate) -> BoxFuture<'_, Result<Announcement, MeetingError>> {
        let mut waiting = lock(&self.waiting);
        if waiting.contains_key(&nameplate) {
            return Box::pin(ready(Err(MeetingError::Taken(nameplate))));
        }
        waiting.insert(nameplate, self.myself.clone());
        let present: Announcement = Box::new(Present { waiting: Arc::clone(&self.waiting), nameplate });
        Box::pin(ready(Ok(present)))
    }

    fn find(&self, nameplate: Nameplate) -> BoxFuture<'_, Result<Vec<Found>, MeetingError>> {
        let found = lock(&self.waiting).get(&nameplate).cloned().into_iter().collect();
        Box::pin(ready(Ok(found)))
    }
}

/// A panic elsewhere leaves the map whole.
fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    fn somebody() -> Found {
        Found { peer: PeerId::random(), addresses: vec!["/ip4/192.0.2.7/tcp/1".parse().unwrap()] }
    }

    fn now<T>(future: BoxFuture<'_, T>) -> T {
        future.now_or_never().unwrap()
    }

    #[test]
    fn who_announces_itself_is_found_until_it_goes() {
        let (inviter, seven, eight) = (somebody(), Nameplate::new(7).unwrap(), Nameplate::new(8).unwrap());
        let place = InProcess::new(inviter.clone());
        let guest = place.seen_by(somebody());
        let present = now(place.announce(seven)).unwrap();
        assert_eq!(now(guest.find(seven)), Ok(vec![inviter]));
        assert_eq!(now(guest.find(eight)), Ok(vec![]));
        assert_eq!(now(guest.announce(seven)).err(), Some(MeetingError::Taken(seven)));
        drop(present);
        assert_eq!(now(guest.find(seven)), Ok(vec![]));
        assert!(now(guest.announce(seven)).is_ok());
    }

    #[test]
    fn an_address_that_a_person_says_stands_for_any_number() {
        let inviter = somebody();
        let direct = Direct(vec![inviter.clone()]);
        assert_eq!(now(direct.find(Nameplate::new(7).unwrap())), Ok(vec![inviter]));
        assert!(now(direct.announce(Nameplate::new(7).unwrap())).is_ok());
    }
}
