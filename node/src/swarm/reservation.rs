//! [`Reservation`]: a place at a relay, through which other peers reach this node.

use std::{collections::HashMap, io};

use ketch_channel::TransportKind;
use libp2p::{
    Multiaddr, PeerId, Swarm, TransportError, core::transport::ListenerId, multiaddr::Protocol,
    swarm::NetworkBehaviour,
};
use tokio::{sync::watch, task::JoinSet};

use super::{connection::Connection, dial::DialError, limits::RESERVED_ADDRESSES, reach::split_relay};

/// A relay: who it is, and where it can be dialed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relay {
    /// Who it is.
    pub peer: PeerId,
    /// Its addresses, without the PeerId.
    pub addresses: Vec<Multiaddr>,
}

impl Relay {
    /// The addresses of whatever has a reservation there, without a PeerId at the end.
    pub(super) fn through(&self) -> impl Iterator<Item = Multiaddr> + '_ {
        self.addresses.iter().map(|address| through(address, self.peer))
    }
}

/// Why there is no reservation, or none any more.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReservationError {
    /// The relay cannot be reached.
    #[error("reserving at a relay: {0}")]
    Unreachable(String),
    /// The relay said no, or broke the protocol.
    #[error("reserving at the relay {relay}: {why}")]
    Refused {
        /// Which relay.
        relay: PeerId,
        /// What it said.
        why: String,
    },
    /// The connection to the relay ended.
    #[error("the reservation at the relay {0} ended with the connection to it")]
    Lost(PeerId),
    /// The node has been shut down.
    #[error("the node has stopped")]
    Stopped,
}

impl From<DialError> for ReservationError {
    fn from(error: DialError) -> Self {
        Self::Unreachable(error.to_string())
    }
}

/// A reservation that a relay granted. It is kept up by itself until it ends, also when this is dropped.
#[derive(Debug)]
pub struct Reservation {
    relay: PeerId,
    connection: Connection,
    /// Those over other transports, kept as long as this.
    _others: JoinSet<Option<Connection>>,
    state: watch::Receiver<ReservationState>,
}

impl Reservation {
    /// Waits for the relay's answer.
    pub(super) async fn granted(
        relay: PeerId,
        connection: Connection,
        others: JoinSet<Option<Connection>>,
        mut state: watch::Receiver<ReservationState>,
    ) -> Result<Self, ReservationError> {
        let answered = state.wait_for(|state| !matches!(state, ReservationState::Asked)).await;
        let answer = answered.map_err(|_| ReservationError::Stopped)?.clone();
        match answer {
            ReservationState::Ended(error) => Err(error),
            ReservationState::Asked | ReservationState::Held(_) => {
                Ok(Self { relay, connection, _others: others, state })
            }
        }
    }

    /// Where it is.
    pub fn relay(&self) -> PeerId {
        self.relay
    }

    /// The connection to the relay.
    pub fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Addresses at which other peers reach this node through the relay, without this node's PeerId, one for each transport
    /// and family: the one at which this node reached the relay, then what the relay says.
    pub fn addresses(&self) -> Vec<Multiaddr> {
        let told = match &*self.state.borrow() {
            ReservationState::Held(told) => told.clone(),
            ReservationState::Asked | ReservationState::Ended(_) => Vec::new(),
        };
        one_of_each(through(self.connection.remote_address(), self.relay), told)
    }

    /// Resolves when it has ended, with the reason. A relay that answers nothing any more has ended it, too.
    pub async fn ended(&self) -> ReservationError {
        tokio::select! {
            error = told_end(self.state.clone()) => error,
            () = self.connection.silent() => {
                self.connection.close().await;
                ReservationError::Lost(self.relay)
            }
        }
    }
}

async fn told_end(mut state: watch::Receiver<ReservationState>) -> ReservationError {
    let ended = state.wait_for(|state| matches!(state, ReservationState::Ended(_))).await;
    match ended.as_deref() {
        Ok(ReservationState::Ended(error)) => error.clone(),
        Ok(ReservationState::Asked | ReservationState::Held(_)) | Err(_) => ReservationError::Stopped,
    }
}

/// How far a reservation has come.
#[derive(Debug, Clone)]
pub(super) enum ReservationState {
    Asked,
    /// Peers come through these addresses, without our PeerId.
    Held(Vec<Multiaddr>),
    Ended(ReservationError),
}

/// The reservations of a swarm, by the listeners that stand for them.
#[derive(Default)]
pub(super) struct Reservations(HashMap<ListenerId, Listening>);

struct Listening {
    relay: PeerId,
    state: watch::Sender<ReservationState>,
}

impl Reservations {
    /// Asks a relay, which is connected, for a reservation. `address` is that of the connection.
    pub(super) fn ask<B: NetworkBehaviour>(
        &mut self,
        swarm: &mut Swarm<B>,
        relay: PeerId,
        address: &Multiaddr,
        state: watch::Sender<ReservationState>,
    ) {
        match swarm.listen_on(through(address, relay)) {
            Ok(listener) => {
                self.0.insert(listener, Listening { relay, state });
            }
            Err(error) => {
                let why = match error {
                    TransportError::MultiaddrNotSupported(address) => {
                        format!("{address} is no address of a relay")
                    }
                    TransportError::Other(error) => ketch_channel::describe(&error),
                };
                state.send_replace(ReservationState::Ended(ReservationError::Refused { relay, why }));
            }
        }
    }

    /// Whether there is one at this relay, or it is asked for.
    pub(super) fn has(&self, relay: &PeerId) -> bool {
        self.0.values().any(|listening| listening.relay == *relay)
    }

    /// Notes that a listener got an address; whether it is one of a reservation.
    pub(super) fn on_address(&mut self, listener: ListenerId, address: &Multiaddr, own: PeerId) -> bool {
        let Some(listening) = self.0.get(&listener) else { return false };
        let Some(address) = sound(address, listening.relay, own) else { return true };
        listening.state.send_if_modified(|state| match state {
            ReservationState::Held(addresses) => {
                let is_new = addresses.len() < RESERVED_ADDRESSES && !addresses.contains(&address);
                if is_new {
                    addresses.push(address);
                }
                is_new
            }
            ReservationState::Asked | ReservationState::Ended(_) => {
                *state = ReservationState::Held(vec![address]);
                true
            }
        });
        true
    }

    /// Notes that a listener ended; whether it was one of a reservation.
    pub(super) fn on_closed(&mut self, listener: ListenerId, reason: &Result<(), io::Error>) -> bool {
        let Some(Listening { relay, state }) = self.0.remove(&listener) else { return false };
        let error = match reason {
            Ok(()) => ReservationError::Lost(relay),
            Err(error) => ReservationError::Refused { relay, why: ketch_channel::describe(error) },
        };
        state.send_replace(ReservationState::Ended(error));
        true
    }
}

/// The first address of each transport and family: what is written in tickets should be short.
fn one_of_each(first: Multiaddr, others: Vec<Multiaddr>) -> Vec<Multiaddr> {
    let kind = |address: &Multiaddr| {
        let is_ip4 = address.iter().next().is_some_and(|part| matches!(part, Protocol::Ip4(_)));
        (TransportKind::of(address), is_ip4)
    };
    let mut kept = vec![first];
    for other in others {
        if kept.iter().all(|address| kind(address) != kind(&other)) {
            kept.push(other);
        }
    }
    kept
}

/// The address of what is reached through a relay at `address`.
fn through(address: &Multiaddr, relay: PeerId) -> Multiaddr {
    address.clone().with(Protocol::P2p(relay)).with(Protocol::P2pCircuit)
}

/// What a relay says is our address through it, without our PeerId; `None` where it is not.
fn sound(address: &Multiaddr, relay: PeerId, own: PeerId) -> Option<Multiaddr> {
    let (named, _) = split_relay(address)?;
    let (whose, through) = super::address::split_peer(address.clone())?;
    (named == relay && whose == own).then_some(through)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_relay_says_is_believed_only_of_itself_and_of_us() {
        let [relay, own, other] = std::array::from_fn(|_| PeerId::random());
        let said = |relay, whose| {
            format!("/ip4/192.0.2.1/tcp/1/p2p/{relay}/p2p-circuit/p2p/{whose}").parse().unwrap()
        };
        assert_eq!(
            sound(&said(relay, own), relay, own),
            Some(through(&"/ip4/192.0.2.1/tcp/1".parse().unwrap(), relay))
        );
        for lie in [said(other, own), said(relay, other), "/ip4/192.0.2.1/tcp/1".parse().unwrap()] {
            assert_eq!(sound(&lie, relay, own), None, "{lie}");
        }
    }

    #[test]
    fn one_address_of_each_transport_and_family_is_enough() {
        let address = |text: &str| text.parse::<Multiaddr>().unwrap();
        let told = [
            "/ip4/10.0.0.1/tcp/1",
            "/ip4/192.0.2.1/udp/1/quic-v1",
            "/ip4/192.0.2.2/udp/1/quic-v1",
            "/ip6/::1/tcp/1",
        ];
        let kept = one_of_each(address("/ip4/192.0.2.1/tcp/1"), told.map(address).into());
        assert_eq!(
            kept,
            ["/ip4/192.0.2.1/tcp/1", "/ip4/192.0.2.1/udp/1/quic-v1", "/ip6/::1/tcp/1"].map(address)
        );
    }
}
