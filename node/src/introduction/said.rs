//! What the sides of an introduction say under their keys: a ticket, or a [`PairCard`].

use ketch_protocol::{
    introduction::{Card, MessageError},
    limits::{CARD_ADDRESS_BYTES, CARD_ADDRESSES},
};

use super::Introduced;
use crate::{
    swarm::{Multiaddr, PeerId},
    trust::{PeerName, Ticket, book, name::PeerNameError, ticket::TicketError},
};

/// Why what an inviter says is no ticket of its own.
#[derive(Debug, thiserror::Error)]
pub enum GivenError {
    /// It is no text.
    #[error("the peer gave something that is no ticket")]
    Foreign,
    /// It is no ticket.
    #[error("reading the ticket that the peer gave: {0}")]
    Ticket(#[from] TicketError),
    /// It is somebody else's.
    #[error("the peer gave a ticket of {0}, not of its own")]
    OtherPeer(Box<PeerId>),
}

/// The ticket that an inviter gave. It pins that inviter, and its addresses begin with the one where it was met.
pub fn given_ticket(introduced: &Introduced) -> Result<Ticket, GivenError> {
    let text = str::from_utf8(&introduced.said).map_err(|_| GivenError::Foreign)?;
    let ticket = text.parse::<Ticket>()?;
    if ticket.peer() != introduced.peer() {
        return Err(GivenError::OtherPeer(Box::new(ticket.peer())));
    }
    let met = introduced.connection.remote_address().clone();
    let addresses = std::iter::once(met).chain(ticket.addresses().iter().cloned());
    Ok(Ticket::new(ticket.peer(), addresses, *ticket.secret(), ticket.expires_s()))
}

/// What a side that pairs says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairCard {
    /// What it calls itself.
    pub name: PeerName,
    /// Where it says it can be dialed, without its PeerId.
    pub addresses: Vec<Multiaddr>,
}

/// Why what a peer says of itself cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum CardError {
    /// The bytes are no card.
    #[error("reading what the peer says of itself: {0}")]
    Message(#[from] MessageError),
    /// Its name is none.
    #[error("reading what the peer calls itself: {0}")]
    Name(#[from] PeerNameError),
}

impl PairCard {
    /// Its bytes. Addresses beyond what a card holds are left out.
    pub fn encode(&self) -> Vec<u8> {
        let fitting = self.addresses.iter().map(Multiaddr::to_vec);
        let addresses = fitting.filter(|address| address.len() <= CARD_ADDRESS_BYTES).take(CARD_ADDRESSES);
        Card { name: self.name.to_string(), addresses: addresses.collect() }.encode()
    }

    /// The card of this peer. Addresses that this version cannot read, or that are somebody else's, are left out: the
    /// peer is known by its key, wherever it is.
    pub fn decode(bytes: &[u8], peer: PeerId) -> Result<Self, CardError> {
        let Card { name, addresses } = Card::decode(bytes)?;
        let name = name.parse()?;
        let read = addresses.into_iter().filter_map(|address| Multiaddr::try_from(address).ok());
        let own = read.filter_map(|address| book::addresses_of(peer, [address]).ok()).flatten();
        Ok(Self { name, addresses: own.filter(|address| !address.is_empty()).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn card(name: &str, addresses: &[&str]) -> PairCard {
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        PairCard { name: name.parse().unwrap(), addresses }
    }

    #[test]
    fn a_card_comes_back_as_it_was() {
        let card = card("laptop", &["/ip4/192.0.2.7/udp/5382/quic-v1", "/dns4/example.org/tcp/5382"]);
        assert_eq!(PairCard::decode(&card.encode(), PeerId::random()).unwrap(), card);
    }

    #[test]
    fn only_addresses_of_the_peer_itself_are_taken() {
        let (peer, other) = (PeerId::random(), PeerId::random());
        let own = format!("/ip4/192.0.2.7/tcp/1/p2p/{peer}");
        let foreign = format!("/ip4/192.0.2.7/tcp/2/p2p/{other}");
        let read = PairCard::decode(&card("laptop", &[&own, &foreign]).encode(), peer).unwrap();
        assert_eq!(read, card("laptop", &["/ip4/192.0.2.7/tcp/1"]));
        let strange = Card { name: "laptop".into(), addresses: vec![vec![0xff; 9], vec![]] };
        assert_eq!(PairCard::decode(&strange.encode(), peer).unwrap(), card("laptop", &[]));
    }

    #[test]
    fn a_name_that_is_none_is_refused() {
        for name in ["", "a b", "\u{1b}[2J"] {
            let card = Card { name: name.into(), addresses: Vec::new() };
            let error = PairCard::decode(&card.encode(), PeerId::random()).unwrap_err();
            assert!(!error.to_string().contains('\u{1b}'), "{error}");
        }
    }
}
