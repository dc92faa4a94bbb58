//! Messages of the relay protocol (<https://github.com/libp2p/specs/blob/master/relay/circuit-v2.md>) and of rendezvous
//! (<https://github.com/libp2p/specs/blob/master/rendezvous/README.md>): protocol buffers, each with its length before it.

use std::io;

use futures::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use prost::{Enumeration, Message};

/// Longest message of the relay protocol, in bytes, as in other implementations.
pub(super) const RELAY_BYTES: usize = 4_096;

/// Bytes of the length before a message, at most: 28 bits.
const LENGTH_BYTES: usize = 4;

/// Reads one message of at most `most` bytes, and not a byte behind it.
pub(super) async fn read<M: Message + Default>(
    io: &mut (impl AsyncRead + Unpin),
    most: usize,
) -> io::Result<M> {
    let mut length = 0;
    for index in 0.. {
        let mut byte = [0];
        io.read_exact(&mut byte).await?;
        if index == LENGTH_BYTES {
            return Err(broken("the length of a message has no end"));
        }
        length |= usize::from(byte[0] & 0x7f) << (7 * index);
        if byte[0] < 0x80 {
            break;
        }
    }
    if length > most {
        return Err(broken("a message is too long"));
    }
    let mut bytes = vec![0; length];
    io.read_exact(&mut bytes).await?;
    M::decode(&*bytes).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

/// Writes one message.
pub(super) async fn write(io: &mut (impl AsyncWrite + Unpin), message: &impl Message) -> io::Result<()> {
    io.write_all(&message.encode_length_delimited_to_vec()).await?;
    io.flush().await
}

pub(super) fn broken(what: &'static str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// What a peer and its relay say to each other.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Hop {
    #[prost(enumeration = "HopKind", required, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) peer: Option<Peer>,
    #[prost(message, optional, tag = "3")]
    pub(super) reservation: Option<Granted>,
    #[prost(message, optional, tag = "4")]
    pub(super) limit: Option<Limit>,
    #[prost(enumeration = "Status", optional, tag = "5")]
    pub(super) status: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub(super) enum HopKind {
    Reserve = 0,
    Connect = 1,
    Status = 2,
}

/// What a relay and the other end of a circuit say to each other.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Stop {
    #[prost(enumeration = "StopKind", required, tag = "1")]
    pub(super) kind: i32,
    #[prost(message, optional, tag = "2")]
    pub(super) peer: Option<Peer>,
    #[prost(message, optional, tag = "3")]
    pub(super) limit: Option<Limit>,
    #[prost(enumeration = "Status", optional, tag = "4")]
    pub(super) status: Option<i32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub(super) enum StopKind {
    Connect = 0,
    Status = 1,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Peer {
    #[prost(bytes = "vec", required, tag = "1")]
    pub(super) id: Vec<u8>,
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(super) addresses: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Granted {
    /// Until this second since 1970.
    #[prost(uint64, required, tag = "1")]
    pub(super) expire: u64,
    /// Those of the relay.
    #[prost(bytes = "vec", repeated, tag = "2")]
    pub(super) addresses: Vec<Vec<u8>>,
}

#[derive(Clone, Copy, PartialEq, Eq, Message)]
pub(super) struct Limit {
    /// In seconds; 0 for none.
    #[prost(uint32, optional, tag = "1")]
    pub(super) duration: Option<u32>,
    /// In bytes; 0 for none.
    #[prost(uint64, optional, tag = "2")]
    pub(super) data: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub(super) enum Status {
    /// Never said; what a missing status is read as.
    Unused = 0,
    Ok = 100,
    ReservationRefused = 200,
    ResourceLimitExceeded = 201,
    PermissionDenied = 202,
    ConnectionFailed = 203,
    NoReservation = 204,
    MalformedMessage = 400,
    UnexpectedMessage = 401,
}

/// What a peer and a rendezvous point say to each other.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Rendezvous {
    #[prost(enumeration = "RendezvousKind", optional, tag = "1")]
    pub(super) kind: Option<i32>,
    #[prost(message, optional, tag = "2")]
    pub(super) register: Option<Register>,
    #[prost(message, optional, tag = "3")]
    pub(super) registered: Option<Registered>,
    #[prost(message, optional, tag = "4")]
    pub(super) unregister: Option<Unregister>,
    #[prost(message, optional, tag = "5")]
    pub(super) discover: Option<Discover>,
    #[prost(message, optional, tag = "6")]
    pub(super) discovered: Option<Discovered>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub(super) enum RendezvousKind {
    Register = 0,
    Registered = 1,
    Unregister = 2,
    Discover = 3,
    Discovered = 4,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Register {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) record: Option<Vec<u8>>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) time_s: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Registered {
    #[prost(enumeration = "RendezvousStatus", optional, tag = "1")]
    pub(super) status: Option<i32>,
    #[prost(string, optional, tag = "2")]
    pub(super) text: Option<String>,
    #[prost(uint64, optional, tag = "3")]
    pub(super) time_s: Option<u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Unregister {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Discover {
    #[prost(string, optional, tag = "1")]
    pub(super) name: Option<String>,
    #[prost(uint64, optional, tag = "2")]
    pub(super) most: Option<u64>,
    #[prost(bytes = "vec", optional, tag = "3")]
    pub(super) cookie: Option<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct Discovered {
    #[prost(message, repeated, tag = "1")]
    pub(super) found: Vec<Register>,
    #[prost(bytes = "vec", optional, tag = "2")]
    pub(super) cookie: Option<Vec<u8>>,
    #[prost(enumeration = "RendezvousStatus", optional, tag = "3")]
    pub(super) status: Option<i32>,
    #[prost(string, optional, tag = "4")]
    pub(super) text: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Enumeration)]
pub(super) enum RendezvousStatus {
    Ok = 0,
    InvalidName = 100,
    InvalidRecord = 101,
    InvalidTime = 102,
    InvalidCookie = 103,
    NotAuthorized = 200,
    Unavailable = 400,
}

#[cfg(test)]
mod tests {
    use futures::{executor::block_on, io::Cursor};

    use super::*;

    #[test]
    fn a_message_is_read_back_and_nothing_behind_it() {
        let message = Hop {
            kind: HopKind::Connect.into(),
            peer: Some(Peer { id: vec![7; 300], addresses: vec![] }),
            ..Hop::default()
        };
        let mut bytes = message.encode_length_delimited_to_vec();
        bytes.extend(b"more");
        let mut io = Cursor::new(bytes);
        let mut rest = Vec::new();
        block_on(async {
            assert_eq!(read::<Hop>(&mut io, RELAY_BYTES).await.unwrap(), message);
            io.read_to_end(&mut rest).await.unwrap();
        });
        assert_eq!(rest, b"more");
    }

    #[test]
    fn what_is_too_long_or_no_message_is_refused_before_room_is_made() {
        for bytes in [&[0xff, 0xff, 0xff, 0xff, 0x01][..], &[0x81, 0x20], &[0x01], &[0x02, 0xff, 0xff]] {
            let read = block_on(read::<Hop>(&mut Cursor::new(bytes), RELAY_BYTES));
            assert!(read.is_err(), "{bytes:?}");
        }
    }
}
