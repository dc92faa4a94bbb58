//! How a node finds others and is found: at the rendezvous points of its relays, where it leaves its addresses and looks
//! for those of others, and on the LAN.

use std::time::Duration;

use futures::future::join_all;
use libp2p::{Multiaddr, PeerId};
use tokio::{
    sync::oneshot,
    time::{sleep, sleep_until, timeout},
};

use super::{
    connection::Connection,
    limits::{
        DISCOVERED_ADDRESSES, NEIGHBOURS_ANSWER, REGISTERED_TIME, RENDEZVOUS_TIMEOUT, WITHDRAWAL_LOOK,
        WITHDRAWAL_TIMEOUT,
    },
    meet::meet,
    node::Node,
    rendezvous::{Errand, Found, MeetingName, RendezvousError},
    reservation::Relay,
    task::Command,
};

impl Node {
    /// Leaves the addresses at which others reach this node at every relay it knows, under a name. Says for how long at
    /// least; it is not renewed. Fails where no relay takes them.
    pub async fn register(&self, name: &MeetingName) -> Result<Duration, RendezvousError> {
        let asked = self.relays.iter().map(|relay| self.register_at(relay, name));
        any_of(join_all(asked).await, Duration::min)
    }

    /// Takes back what was left under a name, and waits until it is gone.
    pub async fn unregister(&self, name: &MeetingName) {
        let withdrawn = self.relays.iter().map(|relay| async {
            match timeout(WITHDRAWAL_TIMEOUT, self.withdraw_from(relay, name)).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "what was left there stays until it expires"),
                Err(_) => tracing::debug!(relay = %relay.peer, "what was left there stays until it expires"),
            }
        });
        join_all(withdrawn).await;
    }

    /// Who has left addresses under a name at any relay that this node knows. Fails where no relay answers.
    pub async fn discover(&self, name: &MeetingName) -> Result<Vec<Found>, RendezvousError> {
        let asked = self.relays.iter().map(|relay| self.discover_at(relay, name));
        any_of(join_all(asked).await, |found, more| [found, more].concat())
    }

    /// Addresses of a peer, as the relays that this node knows have them: those that it left there, and those through
    /// the relays themselves.
    pub async fn addresses_at_relays(&self, peer: PeerId) -> Vec<Multiaddr> {
        let found = self.discover(&MeetingName::of_peer(&peer)).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "no relay says where the peer is");
            Vec::new()
        });
        let left = found.into_iter().filter(|found| found.peer == peer).flat_map(|found| found.addresses);
        let mut addresses = Vec::new();
        for address in left.chain(self.relays.iter().flat_map(Relay::through)) {
            if addresses.len() < DISCOVERED_ADDRESSES && !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        addresses
    }

    /// Whether there is any relay to ask.
    pub fn knows_relays(&self) -> bool {
        !self.relays.is_empty()
    }

    /// Whether this node takes part in the LAN.
    pub fn is_on_lan(&self) -> bool {
        self.on_lan_since.is_some()
    }

    /// Who is on the LAN: all who have answered so far, and within two seconds of this node's start.
    pub async fn neighbours(&self) -> Vec<Found> {
        let Some(since) = self.on_lan_since else { return Vec::new() };
        sleep_until(since + NEIGHBOURS_ANSWER).await;
        let (reply, answered) = oneshot::channel();
        // A node that has stopped knows nobody.
        let _ = self.commands().send(Command::Neighbours(reply)).await;
        answered.await.unwrap_or_default()
    }

    pub(super) async fn register_at(
        &self,
        relay: &Relay,
        name: &MeetingName,
    ) -> Result<Duration, RendezvousError> {
        let (reply, answered) = oneshot::channel();
        let errand = Errand::Register { name: name.clone(), time: REGISTERED_TIME, reply };
        self.send_and_wait(relay, errand, answered).await
    }

    /// There is no answer to this; so it is asked who is there until this node is not.
    async fn withdraw_from(&self, relay: &Relay, name: &MeetingName) -> Result<(), RendezvousError> {
        let _connection = self.send_to(relay, Errand::Unregister { name: name.clone() }).await?;
        while self.discover_at(relay, name).await?.iter().any(|found| found.peer == self.peer()) {
            sleep(WITHDRAWAL_LOOK).await;
        }
        Ok(())
    }

    async fn discover_at(&self, relay: &Relay, name: &MeetingName) -> Result<Vec<Found>, RendezvousError> {
        let (reply, answered) = oneshot::channel();
        self.send_and_wait(relay, Errand::Discover { name: name.clone(), reply }, answered).await
    }

    async fn send_and_wait<T>(
        &self,
        relay: &Relay,
        errand: Errand,
        answered: oneshot::Receiver<Result<T, RendezvousError>>,
    ) -> Result<T, RendezvousError> {
        let answer = async {
            let _connection = self.send_to(relay, errand).await?;
            answered.await.unwrap_or(Err(RendezvousError::Stopped))
        };
        let late = RendezvousError::Refused { relay: relay.peer, why: "it gave no answer in time" };
        timeout(RENDEZVOUS_TIMEOUT, answer).await.unwrap_or(Err(late))
    }

    /// Connects to a relay and asks. The connection is to be kept until the answer.
    async fn send_to(&self, relay: &Relay, errand: Errand) -> Result<Connection, RendezvousError> {
        let met = meet(self.commands(), relay.peer, &relay.addresses, RENDEZVOUS_TIMEOUT).await;
        let connection = met.map_err(|error| RendezvousError::Unreachable(error.to_string()))?;
        let command = Command::Errand { at: relay.peer, errand };
        self.commands().send(command).await.map_err(|_| RendezvousError::Stopped)?;
        Ok(connection)
    }
}

/// What all successes come to; an error where there is none.
fn any_of<T>(
    answers: Vec<Result<T, RendezvousError>>,
    join: impl Fn(T, T) -> T,
) -> Result<T, RendezvousError> {
    let none = Err(RendezvousError::NoRelay);
    answers.into_iter().fold(none, |before, answer| match (before, answer) {
        (Ok(one), Ok(other)) => Ok(join(one, other)),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
        (Err(_), Err(error)) => Err(error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_relay_that_answers_is_enough() {
        let error = || Err(RendezvousError::NoAddress);
        assert_eq!(any_of(vec![error(), Ok(3), error(), Ok(2)], u32::min), Ok(2));
        assert_eq!(any_of(vec![error(), error()], u32::min), error());
        assert_eq!(any_of(Vec::new(), u32::min), Err(RendezvousError::NoRelay));
    }
}
