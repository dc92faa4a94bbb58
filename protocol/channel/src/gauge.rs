//! [`Gauge`]: what one living connection is asked, got and does; and [`Gauges`], by which whoever owns a swarm finds
//! that of each of its connections, as the output of a libp2p transport has no room for it.

use std::{
    collections::BTreeMap,
    io,
    os::fd::OwnedFd,
    pin::Pin,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak},
    task::{Context, Poll},
};

use libp2p_core::{
    Multiaddr,
    muxing::{StreamMuxer, StreamMuxerEvent},
};

use crate::{
    controller::{self, ControllerError},
    diagnosis,
    quic::QuicGauge,
    settings::{Controller, Effective, PathStatistics},
    socket,
};

/// Tells of one connection while it lives. Cheap to clone; it keeps nothing open.
#[derive(Debug, Clone)]
pub struct Gauge(Kind);

#[derive(Debug, Clone)]
enum Kind {
    Tcp { socket: Weak<OwnedFd>, asked_buffer: Option<u32> },
    Quic(QuicGauge),
}

impl Gauge {
    pub(crate) fn tcp(socket: Weak<OwnedFd>, asked_buffer: Option<u32>) -> Self {
        Self(Kind::Tcp { socket, asked_buffer })
    }

    pub(crate) fn quic(gauge: QuicGauge) -> Self {
        Self(Kind::Quic(gauge))
    }

    /// What the connection has now. Fails with [`io::ErrorKind::NotConnected`] once it has ended.
    pub fn effective(&self) -> io::Result<Effective> {
        match &self.0 {
            Kind::Tcp { socket, asked_buffer } => socket::effective(&living(socket)?, *asked_buffer),
            Kind::Quic(gauge) => gauge.effective(),
        }
    }

    /// What is known of its path. Fails with [`io::ErrorKind::NotConnected`] once it has ended.
    pub fn statistics(&self) -> io::Result<PathStatistics> {
        match &self.0 {
            Kind::Tcp { socket, .. } => diagnosis::path_statistics(living(socket)?),
            Kind::Quic(gauge) => gauge.statistics(),
        }
    }

    /// Gives it another congestion controller, at any time of its life.
    pub fn set_controller(&self, controller: Controller) -> Result<(), ControllerError> {
        match &self.0 {
            Kind::Tcp { socket, .. } => {
                let socket =
                    living(socket).map_err(|cause| ControllerError::Failed { asked: controller, cause })?;
                controller::set(socket, controller)
            }
            Kind::Quic(gauge) => gauge.set_controller(controller),
        }
    }
}

fn living(socket: &Weak<OwnedFd>) -> io::Result<Arc<OwnedFd>> {
    socket.upgrade().ok_or_else(|| io::ErrorKind::NotConnected.into())
}

/// Where transports leave the gauges of their connections. Cheap to clone; all clones share them.
#[derive(Debug, Clone, Default)]
pub struct Gauges(Arc<Mutex<Known>>);

type Slot = Arc<OnceLock<Gauge>>;
type Ends = (Multiaddr, Multiaddr);

#[derive(Debug, Default)]
struct Known {
    /// Of the dial that was started last.
    dialed: Option<Slot>,
    /// Of connections that are being accepted, and of those that live and were not taken.
    accepted: BTreeMap<Ends, Slot>,
}

/// The gauge of a connection that is being dialed.
#[derive(Debug, Clone)]
pub struct DialedGauge(Slot);

impl DialedGauge {
    /// The gauge; `None` until the socket is connected.
    pub fn gauge(&self) -> Option<Gauge> {
        self.0.get().cloned()
    }
}

impl Gauges {
    /// The gauge of the dial that was started last. To be called as soon as a dial of one address was started.
    pub fn take_dialed(&self) -> Option<DialedGauge> {
        self.known().dialed.take().map(DialedGauge)
    }

    /// The gauge of an accepted connection, by the addresses that it was announced with.
    pub fn take_accepted(&self, local: &Multiaddr, remote: &Multiaddr) -> Option<Gauge> {
        self.known().accepted.remove(&(local.clone(), remote.clone()))?.get().cloned()
    }

    /// Room for the gauge of a connection that is dialed now.
    pub(crate) fn dialing(&self) -> Place {
        let slot = Slot::default();
        self.known().dialed = Some(slot.clone());
        Place { slot, accepted: None }
    }

    /// Room for the gauge of a connection that is accepted now. It is gone when the place is dropped.
    pub(crate) fn accepting(&self, local: &Multiaddr, remote: &Multiaddr) -> Place {
        let (slot, ends) = (Slot::default(), (local.clone(), remote.clone()));
        self.known().accepted.insert(ends.clone(), slot.clone());
        Place { slot, accepted: Some((self.clone(), ends)) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        // Every change is whole before anything can panic.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Room for one gauge. It is to live as long as the connection, or the attempt to have one.
#[derive(Debug, Default)]
pub(crate) struct Place {
    slot: Slot,
    accepted: Option<(Gauges, Ends)>,
}

impl Place {
    /// Puts the gauge there, once.
    pub(crate) fn fill(&self, gauge: Gauge) {
        let _ = self.slot.set(gauge);
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let Some((gauges, ends)) = &self.accepted else { return };
        let mut known = gauges.known();
        // A later connection may have the same ends.
        if known.accepted.get(ends).is_some_and(|slot| Arc::ptr_eq(slot, &self.slot)) {
            known.accepted.remove(ends);
        }
    }
}

/// A multiplexed connection that keeps its gauge's place until it ends.
#[derive(Debug)]
pub(crate) struct Held<M> {
    muxer: M,
    _place: Place,
}

impl<M> Held<M> {
    pub(crate) fn new(muxer: M, place: Place) -> Self {
        Self { muxer, _place: place }
    }
}

impl<M: StreamMuxer + Unpin> StreamMuxer for Held<M> {
    type Substream = M::Substream;
    type Error = M::Error;

    fn poll_inbound(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<M::Substream, M::Error>> {
        Pin::new(&mut self.muxer).poll_inbound(context)
    }

    fn poll_outbound(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Result<M::Substream, M::Error>> {
        Pin::new(&mut self.muxer).poll_outbound(context)
    }

    fn poll_close(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<(), M::Error>> {
        Pin::new(&mut self.muxer).poll_close(context)
    }

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<StreamMuxerEvent, M::Error>> {
        Pin::new(&mut self.muxer).poll(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ended() -> Gauge {
        Gauge::tcp(Weak::new(), None)
    }

    fn address(port: u16) -> Multiaddr {
        format!("/ip4/127.0.0.1/tcp/{port}").parse().unwrap()
    }

    #[test]
    fn a_gauge_of_an_ended_connection_says_so() {
        assert_eq!(ended().effective().unwrap_err().kind(), io::ErrorKind::NotConnected);
        assert_eq!(ended().statistics().unwrap_err().kind(), io::ErrorKind::NotConnected);
        assert!(matches!(ended().set_controller(Controller::Cubic), Err(ControllerError::Failed { .. })));
    }

    #[test]
    fn a_dialed_gauge_is_taken_at_once_and_filled_later() {
        let gauges = Gauges::default();
        let place = gauges.dialing();
        let taken = gauges.take_dialed().unwrap();
        assert!(taken.gauge().is_none() && gauges.take_dialed().is_none());
        place.fill(ended());
        assert!(taken.gauge().is_some());
    }

    #[test]
    fn an_accepted_gauge_is_found_by_its_ends_until_its_connection_ends() {
        let gauges = Gauges::default();
        let (first, second) =
            (gauges.accepting(&address(1), &address(2)), gauges.accepting(&address(1), &address(3)));
        first.fill(ended());
        second.fill(ended());
        assert!(gauges.take_accepted(&address(1), &address(2)).is_some());
        assert!(gauges.take_accepted(&address(1), &address(2)).is_none());
        drop((first, second));
        assert!(gauges.known().accepted.is_empty());
    }

    #[test]
    fn the_end_of_a_connection_leaves_the_gauge_of_a_later_one_with_the_same_ends() {
        let gauges = Gauges::default();
        let earlier = gauges.accepting(&address(1), &address(2));
        let later = gauges.accepting(&address(1), &address(2));
        later.fill(ended());
        drop(earlier);
        assert!(gauges.take_accepted(&address(1), &address(2)).is_some());
    }
}
