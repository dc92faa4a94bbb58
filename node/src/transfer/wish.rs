//! [`ConnectionWish`]: how many connections the side that dials wants for a session.

use std::time::Duration;

use ketch_protocol::message::Connections;
use tokio::time::timeout;

use crate::swarm::{Connection, TransportKind, address::is_loopback};

/// From this round trip on, several TCP connections carry more than one. Below lie networks of one place: a window
/// recovers there from a loss before anybody notices, and more connections only cost handshakes and threads.
const FAR_ROUND_TRIP: Duration = Duration::from_millis(20);

/// Connections over such a path. After a loss one connection has half its window, or less, and takes many round
/// trips to grow back, and each starts with ten packets; of four, three go on meanwhile. The system's default limit
/// of some 4 MiB for one window counts four times too. More of them compete with each other for the queue.
const FAR_CONNECTIONS: u32 = 4;

/// Least content for which the path decides. A new connection takes three round trips to be made and starts slowly; the
/// first has carried some megabytes by the time at which it has caught up, and what it took of less would end last.
const WORTHWHILE_BYTES: u64 = 4 * 1024 * 1024;

/// How many connections a session is to have, the first included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ConnectionWish {
    /// As many as the path deserves.
    #[default]
    Auto,
    /// So many.
    Exactly(Connections),
}

impl ConnectionWish {
    /// How many the other side is asked for before anything is known of the path but its ends.
    pub(super) fn at_most(self, first: &Connection) -> Connections {
        self.over(first, Some(Duration::MAX))
    }

    /// How many to make. A round trip that is not known by the time at which a short one would be is a long one.
    pub(super) async fn decide(self, first: &Connection) -> Connections {
        let round_trip = match self {
            Self::Exactly(_) => None,
            Self::Auto => timeout(FAR_ROUND_TRIP, first.round_trip()).await.unwrap_or(Some(Duration::MAX)),
        };
        self.over(first, round_trip)
    }

    /// Whether a session with so much content may have more than one.
    pub(super) fn deserves_more(self, content_bytes: u64) -> bool {
        match self {
            Self::Auto => content_bytes >= WORTHWHILE_BYTES,
            Self::Exactly(_) => true,
        }
    }

    fn over(self, first: &Connection, round_trip: Option<Duration>) -> Connections {
        match self {
            Self::Exactly(count) => count,
            // The circuits of one relay share its connections and its limits.
            Self::Auto if first.circuit().is_some() => Connections::ONE,
            Self::Auto => automatic(first.transport(), is_loopback(first.remote_address()), round_trip),
        }
    }
}

/// How many connections a path deserves; `round_trip` is `None` where the peer does not answer pings.
fn automatic(transport: TransportKind, is_loopback: bool, round_trip: Option<Duration>) -> Connections {
    let is_far = !is_loopback && round_trip.is_some_and(|round_trip| round_trip >= FAR_ROUND_TRIP);
    match transport {
        TransportKind::Tcp if is_far => Connections::try_from(FAR_CONNECTIONS).unwrap_or_default(),
        // One QUIC connection has windows for a long path already, and its streams do not wait for each other's
        // losses.
        TransportKind::Tcp | TransportKind::Quic => Connections::ONE,
    }
}

#[cfg(test)]
mod tests {
    use super::{
        TransportKind::{Quic, Tcp},
        *,
    };

    #[test]
    fn little_content_deserves_no_more_unless_a_number_was_asked_for() {
        let exactly = ConnectionWish::Exactly(Connections::MOST);
        for (wish, bytes, expected) in [
            (ConnectionWish::Auto, WORTHWHILE_BYTES - 1, false),
            (ConnectionWish::Auto, WORTHWHILE_BYTES, true),
            (exactly, 0, true),
        ] {
            assert_eq!(wish.deserves_more(bytes), expected, "{wish:?} {bytes}");
        }
    }

    #[test]
    fn only_tcp_over_a_long_path_deserves_more_than_one() {
        let ms = |ms| Some(Duration::from_millis(ms));
        let table = [
            (Tcp, false, ms(0), 1),
            (Tcp, false, ms(19), 1),
            (Tcp, false, ms(20), 4),
            (Tcp, false, ms(141), 4),
            (Tcp, false, Some(Duration::MAX), 4),
            (Tcp, false, None, 1),
            (Tcp, true, ms(141), 1),
            (Quic, false, ms(141), 1),
            (Quic, true, ms(0), 1),
        ];
        for (transport, is_loopback, round_trip, expected) in table {
            let count = automatic(transport, is_loopback, round_trip).count();
            assert_eq!(count, expected, "{transport} {is_loopback} {round_trip:?}");
        }
    }
}
