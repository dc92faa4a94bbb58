//! Who may fetch what: the [`ticket`] that one person hands to another, and the [`offer`]s that wait for it.
//!
//! `send` opens [`offers::Offers`], reopens or makes an offer, prints its [`ticket::Ticket`] and asks
//! [`offers::HeldOffer::admit`] for every peer that says hello. `receive` parses the ticket, dials the peer
//! it pins and shows the secret to nobody else.

use crate::swarm::{Multiaddr, PeerId};

pub mod lifetime;
pub mod offer;
pub mod offers;
pub mod qr;
pub mod secret;
pub mod ticket;
