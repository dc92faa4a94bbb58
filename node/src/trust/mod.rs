//! Who may fetch what: the [`ticket`] that one person hands to another, and the [`offer`]s that wait for it.
//!
//! `send` opens [`offers::Offers`], reopens or makes an offer, prints its [`Ticket`] and asks
//! [`HeldOffer::admit`] for every peer that says what it wants. `receive` parses the ticket, dials the peer it
//! pins and shows the secret to nobody else.

pub mod lifetime;
pub mod offer;
pub mod offers;
pub mod qr;
mod secret;
mod stored;
pub mod ticket;

pub use ketch_protocol::message::Secret;
pub use lifetime::Lifetime;
pub use offers::{HeldOffer, OfferRequest, Offers};
pub use ticket::Ticket;
