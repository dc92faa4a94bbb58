//! Who may do what: the [`ticket`] that one person hands to another, and the [`offer`]s that wait for it; the
//! [`shares`] of a serving node, the [`book`] of peers that are known by name, and the [`paths`] on which peers were
//! reached.
//!
//! `send` opens [`offers::Offers`], reopens or makes an offer, prints its [`Ticket`] and asks
//! [`HeldOffer::admit`] for every peer that says what it wants. `receive` parses the ticket, dials the peer it
//! pins and shows the secret to nobody else. A [`Code`] stands for a ticket where a person has to say it; an
//! [`Invitation`] decides who may have what it stands for. `serve` opens [`Shares`] and asks [`Shares::judge`] for every
//! peer that says what it wants.

pub mod book;
pub mod code;
pub mod invitation;
pub mod lifetime;
pub mod name;
pub mod offer;
pub mod offers;
pub mod paths;
pub mod qr;
pub mod rights;
mod secret;
pub mod shares;
mod stored;
pub mod ticket;

pub use book::Book;
pub use code::Code;
pub use invitation::Invitation;
pub use ketch_protocol::message::Secret;
pub use lifetime::Lifetime;
pub use name::{PeerName, PeerReference};
pub use offers::{HeldOffer, OfferRequest, Offers};
pub use paths::Paths;
pub use rights::Rights;
pub use shares::Shares;
pub use ticket::Ticket;
