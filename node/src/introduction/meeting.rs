//! [`Meeting`]: where an inviter and a guest find each other by the number of a code.
//!
//! Only the number is ever said there. Whoever is found is dialed by its PeerId as always, and believed nothing before
//! it has proved that it knows the code.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, PoisonError},
};

use futures::future::{BoxFuture, join_all, ready};

pub use crate::swarm::Found;
use crate::trust::{Code, code::Nameplate};

/// How often a number is drawn: three short ones, and so many long ones that a place with a thousand who wait leaves
/// one of them free.
const DRAWS: u32 = 12;

/// As long as it is held, its maker can be found.
pub trait Present: Send + 'static {
    /// Ends it, so that the number is free again. A place where it is only dropped finds out by and by.
    fn withdraw(self: Box<Self>) -> BoxFuture<'static, ()> {
        drop(self);
        Box::pin(ready(()))
    }
}

/// Nothing that would have to be held.
struct Unseen;

impl Present for Unseen {}

/// The presence of somebody who is found without it.
pub(super) fn unseen() -> Box<dyn Present> {
    Box::new(Unseen)
}

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
    fn announce(&self, nameplate: Nameplate) -> BoxFuture<'_, Result<Box<dyn Present>, MeetingError>>;

    /// Who waits under a number; nobody if nobody does.
    fn find(&self, nameplate: Nameplate) -> BoxFuture<'_, Result<Vec<Found>, MeetingError>>;
}

/// A code that can be found.
pub struct Announced {
    /// The code.
    pub code: Code,
    /// Where it cannot be found though it should.
    pub unavailable: Vec<MeetingError>,
    present: Vec<Box<dyn Present>>,
}

impl Announced {
    /// Takes the number back everywhere.
    pub async fn withdraw(self) {
        withdraw(self.present).await;
    }
}

async fn withdraw(present: Vec<Box<dyn Present>>) {
    join_all(present.into_iter().map(|there| there.withdraw())).await;
}

/// Why no code can be found.
#[derive(Debug, thiserror::Error)]
pub enum AnnounceError {
    /// The system gives no randomness.
    #[error("making a code: {0}")]
    Random(#[from] getrandom::Error),
    /// Every number that was drawn is in use.
    #[error("making a code: {DRAWS} numbers were drawn, and others wait under all of them")]
    Crowded,
}

/// Draws codes until nobody else waits under the number of one, and lets it be found at all places.
pub async fn announce(places: &[Box<dyn Meeting>]) -> Result<Announced, AnnounceError> {
    for draw in 0..DRAWS {
        let code = Code::draw(draw)?;
        let (mut present, mut unavailable, mut is_taken) = (Vec::new(), Vec::new(), false);
        for answer in join_all(places.iter().map(|place| place.announce(code.nameplate()))).await {
            match answer {
                Ok(there) => present.push(there),
                Err(MeetingError::Taken(_)) => is_taken = true,
                Err(error @ MeetingError::Unavailable { .. }) => unavailable.push(error),
            }
        }
        if !is_taken {
            return Ok(Announced { code, unavailable, present });
        }
        withdraw(present).await;
    }
    Err(AnnounceError::Crowded)
}

/// Who waits under a number at any of the places, each once, with all addresses; and the places that do not tell.
pub async fn find(places: &[Box<dyn Meeting>], nameplate: Nameplate) -> (Vec<Found>, Vec<MeetingError>) {
    let (mut all, mut unavailable) = (Vec::<Found>::new(), Vec::new());
    for answer in join_all(places.iter().map(|place| place.find(nameplate))).await {
        match answer {
            Ok(found) => found.into_iter().for_each(|found| add(&mut all, found)),
            Err(error) => unavailable.push(error),
        }
    }
    (all, unavailable)
}

fn add(all: &mut Vec<Found>, found: Found) {
    match all.iter_mut().find(|known| known.peer == found.peer) {
        Some(known) => known.addresses.extend(found.addresses),
        None => all.push(found),
    }
}

/// No place at all: a person says the inviter's addresses beside the code.
#[derive(Debug, Clone)]
pub struct Direct(pub Vec<Found>);

impl Meeting for Direct {
    fn announce(&self, _: Nameplate) -> BoxFuture<'_, Result<Box<dyn Present>, MeetingError>> {
        Box::pin(ready(Ok(unseen())))
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

struct Waiting {
    waiting: Arc<Mutex<BTreeMap<Nameplate, Found>>>,
    nameplate: Nameplate,
}

impl Present for Waiting {}

impl Drop for Waiting {
    fn drop(&mut self) {
        lock(&self.waiting).remove(&self.nameplate);
    }
}

impl Meeting for InProcess {
    fn announce(&self, nameplate: Nameplate) -> BoxFuture<'_, Result<Box<dyn Present>, MeetingError>> {
        let mut waiting = lock(&self.waiting);
        if waiting.contains_key(&nameplate) {
            return Box::pin(ready(Err(MeetingError::Taken(nameplate))));
        }
        waiting.insert(nameplate, self.myself.clone());
        let present: Box<dyn Present> = Box::new(Waiting { waiting: Arc::clone(&self.waiting), nameplate });
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
    use crate::swarm::PeerId;

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
    fn a_code_is_drawn_until_its_number_is_free_everywhere() {
        // given: a place where somebody waits under every short number but one
        let place = InProcess::new(somebody());
        let others = place.seen_by(somebody());
        let numbers = (1..=99).filter_map(Nameplate::new);
        let _taken: Vec<_> = numbers.map(|number| now(others.announce(number)).unwrap()).collect();
        // when: codes are announced there and at a place that has room
        let places: [Box<dyn Meeting>; 2] = [Box::new(Direct(Vec::new())), Box::new(place)];
        let announced = announce(&places).now_or_never().unwrap().unwrap();
        // then: the number is a longer one, and is found
        assert!(announced.code.nameplate().number() > 99);
        let (found, unavailable) = find(&places, announced.code.nameplate()).now_or_never().unwrap();
        assert_eq!((found.len(), unavailable.len(), announced.unavailable.len()), (1, 0, 0));
    }

    #[test]
    fn somebody_found_twice_is_tried_once_with_all_addresses() {
        let one = somebody();
        let other = Found { addresses: vec!["/ip4/192.0.2.7/udp/1/quic-v1".parse().unwrap()], ..one.clone() };
        let places: [Box<dyn Meeting>; 2] = [Box::new(Direct(vec![one])), Box::new(Direct(vec![other]))];
        let (found, _) = find(&places, Nameplate::new(7).unwrap()).now_or_never().unwrap();
        assert_eq!((found.len(), found[0].addresses.len()), (1, 2));
    }

    #[test]
    fn an_address_that_a_person_says_stands_for_any_number() {
        let inviter = somebody();
        let direct = Direct(vec![inviter.clone()]);
        assert_eq!(now(direct.find(Nameplate::new(7).unwrap())), Ok(vec![inviter]));
        assert!(now(direct.announce(Nameplate::new(7).unwrap())).is_ok());
    }
}
