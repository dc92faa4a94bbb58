//! [`Connections`]: how many connections a session has.

use std::{fmt, num::NonZeroU8, str::FromStr};

use crate::limits::CONNECTIONS;

/// A number of connections of one session: 1 to [`CONNECTIONS`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Connections(NonZeroU8);

/// A number of connections that no session has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a session has 1 to {CONNECTIONS} connections")]
pub struct ConnectionsError;

impl Connections {
    /// The one with the control stream.
    pub const ONE: Self = Self(NonZeroU8::MIN);

    /// As many as there may be.
    pub const MOST: Self = Self(NonZeroU8::new(CONNECTIONS).expect("the bound is not zero"));

    /// The number.
    pub fn count(self) -> usize {
        self.0.get().into()
    }
}

impl Default for Connections {
    fn default() -> Self {
        Self::ONE
    }
}

impl TryFrom<u32> for Connections {
    type Error = ConnectionsError;

    fn try_from(count: u32) -> Result<Self, ConnectionsError> {
        let count = u8::try_from(count).ok().and_then(NonZeroU8::new).map(Self);
        count.filter(|count| *count <= Self::MOST).ok_or(ConnectionsError)
    }
}

impl FromStr for Connections {
    type Err = ConnectionsError;

    fn from_str(text: &str) -> Result<Self, ConnectionsError> {
        text.parse::<u32>().map_err(|_| ConnectionsError)?.try_into()
    }
}

impl fmt::Display for Connections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_one_connection_to_the_most() {
        let counts =
            ["0", "1", "16", "17", "257", "-1", "", "x"].map(|text| text.parse::<Connections>().ok());
        assert_eq!(
            counts,
            [None, Some(Connections::ONE), Some(Connections::MOST), None, None, None, None, None]
        );
        assert_eq!(Connections::MOST.count(), usize::from(CONNECTIONS));
    }
}
