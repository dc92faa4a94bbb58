//! What lets peers meet across routers: circuits through relays, holes in routers, and the knowledge which of our own
//! addresses others can dial.

use std::{fmt, io, time::Duration};

use libp2p::{
    Multiaddr, PeerId, autonat, dcutr,
    identity::Keypair,
    multiaddr::Protocol,
    relay::{
        self,
        client::transport::Error as CircuitError,
        outbound::hop::{ConnectError, ReserveError},
    },
    rendezvous,
    swarm::{NetworkBehaviour, behaviour::toggle::Toggle},
    upnp,
};

use super::upnp::asking;

/// The behaviours that work together to that end.
#[derive(NetworkBehaviour)]
pub(super) struct Reach {
    relay: relay::client::Behaviour,
    dcutr: dcutr::Behaviour,
    autonat: autonat::v2::client::Behaviour,
    pub(super) rendezvous: rendezvous::client::Behaviour,
    upnp: Toggle<upnp::tokio::Behaviour>,
}

impl Reach {
    /// They, and the transport of circuits that belongs to them.
    pub(super) fn new(keypair: &Keypair, opens_ports: bool) -> (Self, relay::client::Transport) {
        let own = keypair.public().to_peer_id();
        let (circuits, relay) = relay::client::new(own);
        let reach = Self {
            relay,
            dcutr: dcutr::Behaviour::new(own),
            autonat: Default::default(),
            rendezvous: rendezvous::client::Behaviour::new(keypair.clone()),
            upnp: asking(opens_ports),
        };
        (reach, circuits)
    }
}

/// The relay that a connection goes through, and what it allows there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Circuit {
    /// Who relays.
    pub relay: PeerId,
    /// What it allows, as it said.
    pub limit: CircuitLimit,
}

/// What a relay allows on one circuit, both directions together. It cuts a circuit that exceeds it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CircuitLimit {
    /// How many bytes; `None` for any number.
    pub bytes: Option<u64>,
    /// For how long; `None` for ever.
    pub time: Option<Duration>,
}

impl fmt::Display for CircuitLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.bytes, self.time) {
            (None, None) => f.write_str("without limit"),
            (Some(bytes), None) => write!(f, "up to {bytes} bytes"),
            (None, Some(time)) => write!(f, "up to {} s", time.as_secs()),
            (Some(bytes), Some(time)) => write!(f, "up to {bytes} bytes or {} s", time.as_secs()),
        }
    }
}

/// What a relay said of its limit. Nothing and zero both stand for none.
pub(super) fn told_limit(data_bytes: Option<u64>, duration: Option<Duration>) -> CircuitLimit {
    CircuitLimit {
        bytes: data_bytes.filter(|bytes| *bytes > 0),
        time: duration.filter(|time| !time.is_zero()),
    }
}

/// The relay in an address, and the address of the relay before it; `None` for an address without a relay.
pub(super) fn split_relay(address: &Multiaddr) -> Option<(PeerId, Multiaddr)> {
    let before: Multiaddr = address.iter().take_while(|part| *part != Protocol::P2pCircuit).collect();
    if before.len() == address.len() {
        return None;
    }
    super::address::split_peer(before)
}

/// The words a person would use for what went wrong with a circuit or a reservation.
pub(super) fn explain_circuit(error: CircuitError) -> io::Error {
    match error {
        CircuitError::Reservation(error) => explain_reservation(error),
        CircuitError::Connect(error) => explain_connect(error),
        CircuitError::ResponseFromBehaviourCanceled(_) => io::Error::other("the relay cannot be reached"),
        CircuitError::MissingRelayPeerId
        | CircuitError::MissingRelayAddr
        | CircuitError::MissingDstPeerId
        | CircuitError::InvalidHash
        | CircuitError::SendingMessageToBehaviour(_)
        | CircuitError::MultipleCircuitRelayProtocolsUnsupported
        | CircuitError::MalformedMultiaddr => io::Error::other(error),
    }
}

const NO_RELAY: &str = "what answers there is no relay, or does not know that it can be reached";

fn explain_reservation(error: ReserveError) -> io::Error {
    io::Error::other(match error {
        ReserveError::Refused => "the relay refuses to keep a reservation for this peer".into(),
        ReserveError::ResourceLimitExceeded => "the relay has no room for another reservation".into(),
        ReserveError::Unsupported => NO_RELAY.into(),
        ReserveError::Io(error) => return error,
        ReserveError::Protocol(violation) => format!("the relay broke the protocol: {violation}"),
    })
}

fn explain_connect(error: ConnectError) -> io::Error {
    io::Error::other(match error {
        ConnectError::ResourceLimitExceeded => "the relay has no room for another circuit".into(),
        ConnectError::ConnectionFailed => "the relay does not reach the peer any more".into(),
        ConnectError::NoReservation => "the peer has no reservation at the relay".into(),
        ConnectError::PermissionDenied => "the relay does not carry data between these peers".into(),
        ConnectError::Unsupported => NO_RELAY.into(),
        ConnectError::Io(error) => return error,
        ConnectError::Protocol(violation) => format!("the relay broke the protocol: {violation}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_through_a_relay_names_the_relay_and_where_it_is() {
        let (relay, peer) = (PeerId::random(), PeerId::random());
        let through: Multiaddr = format!("/ip4/192.0.2.1/tcp/4001/p2p/{relay}/p2p-circuit").parse().unwrap();
        let at = "/ip4/192.0.2.1/tcp/4001".parse().unwrap();
        assert_eq!(split_relay(&through), Some((relay, at)));
        assert_eq!(split_relay(&through.clone().with(Protocol::P2p(peer))), split_relay(&through));
        let direct: Multiaddr = format!("/ip4/192.0.2.1/tcp/4001/p2p/{peer}").parse().unwrap();
        assert_eq!(split_relay(&direct), None);
        assert_eq!(split_relay(&"/ip4/192.0.2.1/tcp/4001/p2p-circuit".parse().unwrap()), None);
    }

    #[test]
    fn a_limit_of_zero_is_none() {
        assert_eq!(told_limit(Some(0), Some(Duration::ZERO)), CircuitLimit::default());
        assert_eq!(told_limit(None, None).to_string(), "without limit");
        let limit = told_limit(Some(131_072), Some(Duration::from_secs(120)));
        assert_eq!(limit.to_string(), "up to 131072 bytes or 120 s");
    }
}
