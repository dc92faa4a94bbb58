//! Introductions: two peers who share a code or a ticket, and nothing else, prove that to each other and hand over
//! what makes them trust it.
//!
//! The inviter waits with [`Inviting`]; its [`crate::trust::Invitation`] says what is allowed. The guest finds it by
//! [`Meeting`] and runs [`join`]. Both learn the PeerId that the other one proved on the connection, and what it
//! said under a key that only those have who know the code: the keys are in `keys`, the bytes in
//! `ketch_protocol::introduction`.

mod guest;
mod inviter;
mod keys;
mod line;
mod meeting;
mod places;
mod said;

pub use guest::{GuestError, JoinError, Joining, join};
pub use inviter::{InviteError, Inviting, Trouble};
pub use keys::KeyError;
pub use line::LineError;
pub use meeting::{
    AnnounceError, Announced, Direct, Found, InProcess, Meeting, MeetingError, Present, announce, find,
};
pub use places::{AtRelays, OnLan};
pub use said::{CardError, GivenError, PairCard, given_ticket};

use crate::swarm::{Connection, PeerId};

/// Two peers know each other now.
#[derive(Debug)]
pub struct Introduced {
    /// On which they met; it stays open while this is held.
    pub connection: Connection,
    /// What the other side said.
    pub said: Vec<u8>,
}

impl Introduced {
    /// Who the other side is, as it proved.
    pub fn peer(&self) -> PeerId {
        self.connection.peer()
    }
}
