//! [`Doorway`]: which of those that connect may go on to prove who they are.
//!
//! Nothing is known of whoever comes until its handshake has ended, and whoever says nothing is only known for it by the
//! deadline. So there is room for some at a time, and when it is full a newcomer takes the place of whoever has waited
//! longest among those of the address that has most: a machine that opens connections and says nothing displaces its own.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv6Addr},
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
};

use futures::{
    FutureExt,
    channel::oneshot,
    future::{BoxFuture, Either, select},
};
use libp2p_core::{
    Multiaddr, Transport,
    multiaddr::Protocol,
    transport::{DialOpts, ListenerId, TransportError, TransportEvent},
};

use crate::{
    limits::HANDSHAKES,
    setup::{SetupCause, SetupError, Step},
};

/// A transport behind a doorway.
pub(crate) struct Doorway<T> {
    transport: T,
    room: Room,
}

impl<T> Doorway<T> {
    pub(crate) fn new(transport: T) -> Self {
        Self { transport, room: Room::default() }
    }
}

impl<T> Transport for Doorway<T>
where
    T: Transport<Error = SetupError> + Unpin,
    T::Output: Send + 'static,
    T::ListenerUpgrade: Send + 'static,
{
    type Output = T::Output;
    type Error = SetupError;
    type Dial = T::Dial;
    type ListenerUpgrade = BoxFuture<'static, Result<T::Output, SetupError>>;

    fn listen_on(&mut self, id: ListenerId, address: Multiaddr) -> Result<(), TransportError<SetupError>> {
        self.transport.listen_on(id, address)
    }

    fn remove_listener(&mut self, id: ListenerId) -> bool {
        self.transport.remove_listener(id)
    }

    fn dial(&mut self, address: Multiaddr, options: DialOpts) -> Result<T::Dial, TransportError<SetupError>> {
        self.transport.dial(address, options)
    }

    fn poll(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<TransportEvent<Self::ListenerUpgrade, SetupError>> {
        let event = std::task::ready!(Pin::new(&mut self.transport).poll(context));
        let origin = match &event {
            TransportEvent::Incoming { send_back_addr, .. } => Origin::of(send_back_addr),
            TransportEvent::NewAddress { .. }
            | TransportEvent::AddressExpired { .. }
            | TransportEvent::ListenerClosed { .. }
            | TransportEvent::ListenerError { .. } => Origin(None),
        };
        let room = self.room.clone();
        Poll::Ready(event.map_upgrade(move |upgrade| unless_displaced(room.enter(origin), upgrade).boxed()))
    }
}

async fn unless_displaced<O>(
    mut place: Place,
    upgrade: impl Future<Output = Result<O, SetupError>>,
) -> Result<O, SetupError> {
    let upgrade = std::pin::pin!(upgrade);
    match select(upgrade, &mut place.displaced).await {
        Either::Left((connected, _)) => connected,
        Either::Right(_) => Err(SetupError { step: Step::Security, cause: SetupCause::Displaced }),
    }
}

/// Where somebody comes from: an address of IPv4, or the network of one of IPv6, of which a machine has as many as it
/// likes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Origin(Option<IpAddr>);

impl Origin {
    fn of(address: &Multiaddr) -> Self {
        let Some(first) = address.iter().next() else { return Self(None) };
        if let Protocol::Ip4(ip) = first {
            return Self(Some(ip.into()));
        }
        let Protocol::Ip6(ip) = first else { return Self(None) };
        let [a, b, c, d, ..] = ip.segments();
        Self(Some(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0).into()))
    }
}

/// Those that have not proved who they are. Clones share it.
#[derive(Debug, Clone, Default)]
struct Room(Arc<Mutex<Waiting>>);

#[derive(Debug, Default)]
struct Waiting {
    /// How many have come.
    count: u64,
    /// By their numbers, the longest waiting first.
    places: BTreeMap<u64, (Origin, oneshot::Sender<()>)>,
}

/// A place in the room, free again when it is dropped.
struct Place {
    room: Room,
    number: u64,
    displaced: oneshot::Receiver<()>,
}

impl Room {
    fn enter(&self, origin: Origin) -> Place {
        let mut waiting = self.waiting();
        if waiting.places.len() >= HANDSHAKES
            && let Some(number) = who_leaves(&waiting.places)
            && let Some((_, leave)) = waiting.places.remove(&number)
        {
            // One that is being dropped just now leaves anyway.
            let _ = leave.send(());
        }
        let (leave, displaced) = oneshot::channel();
        waiting.count += 1;
        let number = waiting.count;
        waiting.places.insert(number, (origin, leave));
        drop(waiting);
        Place { room: self.clone(), number, displaced }
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        // Every change is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.room.waiting().places.remove(&self.number);
    }
}

/// Whoever has waited longest of those that came from where most did.
fn who_leaves<T>(places: &BTreeMap<u64, (Origin, T)>) -> Option<u64> {
    let mut counts = HashMap::<Origin, usize>::new();
    places.values().for_each(|(origin, _)| *counts.entry(*origin).or_default() += 1);
    let most = counts.values().copied().max()?;
    places.iter().find(|(_, (origin, _))| counts[origin] == most).map(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn origin(address: &str) -> Origin {
        Origin::of(&address.parse().unwrap())
    }

    #[test]
    fn the_longest_waiting_of_where_most_came_from_leaves() {
        let places = |origins: &[&str]| {
            (1..).zip(origins.iter().map(|address| (origin(address), ()))).collect::<BTreeMap<_, _>>()
        };
        let (ann, bob) = ("/ip4/10.0.0.1/tcp/1", "/ip4/10.0.0.2/tcp/1");
        assert_eq!(who_leaves(&places(&[])), None);
        assert_eq!(who_leaves(&places(&[ann, bob, bob])), Some(2));
        assert_eq!(who_leaves(&places(&[bob, ann, bob, ann])), Some(1));
    }

    #[test]
    fn a_network_of_ipv6_counts_as_one_address() {
        let [one, other, elsewhere] =
            ["2001:db8::1", "2001:db8::2:1", "2001:db8:0:1::1"].map(|ip| origin(&format!("/ip6/{ip}/udp/1")));
        assert_eq!(one, other);
        assert_ne!(one, elsewhere);
    }

    #[test]
    fn a_newcomer_displaces_one_once_the_room_is_full_and_who_left_makes_room() {
        let (room, crowd) = (Room::default(), origin("/ip4/10.0.0.1/tcp/1"));
        let mut first = room.enter(crowd);
        let mut alone = room.enter(origin("/ip4/10.0.0.2/tcp/1"));
        let mut others: Vec<_> = (2..HANDSHAKES).map(|_| room.enter(crowd)).collect();
        let is_displaced = |place: &mut Place| place.displaced.try_recv().is_ok_and(|left| left.is_some());
        assert!(!is_displaced(&mut first));
        let _newcomer = room.enter(crowd);
        assert!(is_displaced(&mut first) && !is_displaced(&mut alone) && !is_displaced(&mut others[0]));
        drop(others.pop());
        let _newcomer = room.enter(crowd);
        assert!(!is_displaced(&mut others[0]));
    }
}
