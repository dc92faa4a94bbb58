//! Names under which peers leave their addresses at relays, for others that know the name.

use std::{collections::HashMap, time::Duration};

use libp2p::{
    Multiaddr, PeerId,
    rendezvous::{
        ErrorCode, Namespace, Registration,
        client::{Behaviour, Event, RegisterError},
    },
};
use tokio::sync::oneshot;

use super::limits::{DISCOVERED_ADDRESSES, DISCOVERED_PEERS};

/// A name under which peers find each other at a rendezvous point.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct MeetingName(Namespace);

/// Text that is no name: it has more than 255 bytes, or none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the name of a meeting has 1 to 255 bytes")]
pub struct MeetingNameError;

impl MeetingName {
    /// Any text.
    pub fn new(text: String) -> Result<Self, MeetingNameError> {
        if text.is_empty() {
            return Err(MeetingNameError);
        }
        Namespace::new(text).map(Self).map_err(|_| MeetingNameError)
    }

    /// The name under which a peer leaves its addresses for those that know its PeerId, which it does not tell others.
    pub fn of_peer(peer: &PeerId) -> Self {
        let hash = blake3::derive_key("ketch 1 name of a peer at a rendezvous point", &peer.to_bytes());
        let text = format!("ketch/peer/{}", data_encoding::HEXLOWER.encode(&hash[..16]));
        Self::new(text).expect("eleven characters and 32 digits are a name")
    }
}

/// A peer, and where it says it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Who it has to prove to be.
    pub peer: PeerId,
    /// Addresses without its PeerId.
    pub addresses: Vec<Multiaddr>,
}

/// Why nothing could be left or found at a rendezvous point.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RendezvousError {
    /// No relay is known.
    #[error("meeting at a relay: none is known")]
    NoRelay,
    /// It cannot be reached.
    #[error("meeting at a relay: {0}")]
    Unreachable(String),
    /// It said no, or nothing.
    #[error("meeting at the relay {relay}: {why}")]
    Refused {
        /// Which relay.
        relay: PeerId,
        /// What it said.
        why: &'static str,
    },
    /// Nobody could reach this node at any address that it would leave.
    #[error("meeting at a relay: no address is known at which others reach this node")]
    NoAddress,
    /// The node has been shut down.
    #[error("the node has stopped")]
    Stopped,
}

/// What is asked of a rendezvous point that is connected.
pub(super) enum Errand {
    /// To keep our addresses under a name for so long.
    Register { name: MeetingName, time: Duration, reply: RegisterReply },
    /// To forget them.
    Unregister { name: MeetingName },
    /// To show those of others.
    Discover { name: MeetingName, reply: DiscoverReply },
}

type RegisterReply = oneshot::Sender<Result<Duration, RendezvousError>>;
type DiscoverReply = oneshot::Sender<Result<Vec<Found>, RendezvousError>>;

/// What was asked and not answered yet.
#[derive(Default)]
pub(super) struct Errands {
    registering: HashMap<(PeerId, Namespace), Vec<RegisterReply>>,
    discovering: HashMap<(PeerId, Namespace), Vec<DiscoverReply>>,
}

impl Errands {
    /// Asks. Whoever waits is answered in any case.
    pub(super) fn run(&mut self, behaviour: &mut Behaviour, at: PeerId, errand: Errand) {
        match errand {
            Errand::Register { name: MeetingName(name), time, reply } => {
                match behaviour.register(name.clone(), at, Some(time.as_secs())) {
                    Ok(()) => self.registering.entry((at, name)).or_default().push(reply),
                    Err(error) => {
                        let error = match error {
                            RegisterError::NoExternalAddresses => RendezvousError::NoAddress,
                            RegisterError::FailedToMakeRecord(_) => RendezvousError::Refused {
                                relay: at,
                                why: "this node could not sign its addresses",
                            },
                        };
                        // Whoever asked may have given up, here and below.
                        let _ = reply.send(Err(error));
                    }
                }
            }
            Errand::Unregister { name: MeetingName(name) } => behaviour.unregister(name, at),
            Errand::Discover { name: MeetingName(name), reply } => {
                behaviour.discover(Some(name.clone()), None, Some(DISCOVERED_PEERS as u64), at);
                self.discovering.entry((at, name)).or_default().push(reply);
            }
        }
    }

    /// Passes an answer on.
    pub(super) fn on_event(&mut self, event: Event) {
        match event {
            Event::Registered { rendezvous_node, ttl, namespace } => {
                self.registered(rendezvous_node, namespace, Ok(Duration::from_secs(ttl)));
            }
            Event::RegisterFailed { rendezvous_node: relay, namespace, error } => {
                self.registered(
                    relay,
                    namespace,
                    Err(RendezvousError::Refused { relay, why: explain(error) }),
                );
            }
            Event::Discovered { rendezvous_node, registrations, cookie } => {
                let name =
                    cookie.namespace().or(registrations.first().map(|first| &first.namespace)).cloned();
                self.discovered(rendezvous_node, name, Ok(found(&registrations)));
            }
            Event::DiscoverFailed { rendezvous_node: relay, namespace, error } => {
                self.discovered(
                    relay,
                    namespace,
                    Err(RendezvousError::Refused { relay, why: explain(error) }),
                );
            }
            Event::Expired { .. } => {}
        }
    }

    fn registered(&mut self, relay: PeerId, name: Namespace, answer: Result<Duration, RendezvousError>) {
        for reply in self.registering.remove(&(relay, name)).unwrap_or_default() {
            let _ = reply.send(answer.clone());
        }
    }

    /// An answer without a name is to whatever was asked of the relay.
    fn discovered(
        &mut self,
        relay: PeerId,
        name: Option<Namespace>,
        answer: Result<Vec<Found>, RendezvousError>,
    ) {
        let is_meant = |asked: &(PeerId, Namespace)| {
            asked.0 == relay && name.as_ref().is_none_or(|name| asked.1 == *name)
        };
        for (_, replies) in self.discovering.extract_if(|asked, _| is_meant(asked)) {
            for reply in replies {
                let _ = reply.send(answer.clone());
            }
        }
    }
}

/// What was found, each peer once and with a bounded number of addresses.
fn found(registrations: &[Registration]) -> Vec<Found> {
    let mut all = Vec::<Found>::new();
    for registration in registrations {
        let peer = registration.record.peer_id();
        if all.len() == DISCOVERED_PEERS || all.iter().any(|found| found.peer == peer) {
            continue;
        }
        let addresses = registration.record.addresses().iter().take(DISCOVERED_ADDRESSES);
        let addresses = addresses.map(|address| without_peer(address, peer)).collect();
        all.push(Found { peer, addresses });
    }
    all
}

/// The address without that PeerId at its end.
fn without_peer(address: &Multiaddr, peer: PeerId) -> Multiaddr {
    match super::address::split_peer(address.clone()) {
        Some((named, before)) if named == peer => before,
        Some(_) | None => address.clone(),
    }
}

fn explain(error: ErrorCode) -> &'static str {
    match error {
        ErrorCode::InvalidNamespace => "it does not take such a name",
        ErrorCode::InvalidSignedPeerRecord => "it does not take our addresses",
        ErrorCode::InvalidTtl => "it does not keep addresses for that long",
        ErrorCode::InvalidCookie => "it has forgotten what was asked before",
        ErrorCode::NotAuthorized => "it does not let this peer",
        ErrorCode::InternalError => "it failed",
        ErrorCode::Unavailable => "it gave no answer, is no rendezvous point, or has no room",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_peer_is_its_own_and_does_not_show_it() {
        let [a, b] = std::array::from_fn(|_| PeerId::random());
        assert_eq!(MeetingName::of_peer(&a), MeetingName::of_peer(&a));
        assert_ne!(MeetingName::of_peer(&a), MeetingName::of_peer(&b));
        assert!(!MeetingName::of_peer(&a).0.to_string().contains(&a.to_string()));
    }

    #[test]
    fn a_name_has_at_least_one_byte_and_at_most_255() {
        for (length, is_name) in [(0, false), (1, true), (255, true), (256, false)] {
            assert_eq!(MeetingName::new("n".repeat(length)).is_ok(), is_name, "{length}");
        }
    }
}
