//! The frames of yamux (<https://github.com/hashicorp/yamux/blob/master/spec.md>): a header of twelve bytes, and
//! behind that of data its content.

use super::Violation;

/// Length of a header: version, type, flags, stream, length.
pub(super) const HEADER_BYTES: usize = 12;

const VERSION: u8 = 0;

/// What a frame is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Content of a stream: `length` bytes of it follow.
    Data,
    /// The peer may send `length` bytes more on a stream.
    Window,
    /// To be answered with the same `length`.
    Ping,
    /// The connection ends; `length` says why.
    GoAway,
}

/// Begins a stream.
pub(super) const SYN: u16 = 1;
/// Answers the beginning of a stream, or a ping.
pub(super) const ACK: u16 = 2;
/// Nothing more comes on this stream from the side that says it.
pub(super) const FIN: u16 = 4;
/// The stream is given up.
pub(super) const RST: u16 = 8;

/// The header of a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) kind: Kind,
    pub(super) flags: u16,
    /// 0 where the frame is about the connection.
    pub(super) stream: u32,
    pub(super) length: u32,
}

impl Header {
    /// Whether it has this flag.
    pub(super) fn has(self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn encode(self) -> [u8; HEADER_BYTES] {
        let kind = match self.kind {
            Kind::Data => 0,
            Kind::Window => 1,
            Kind::Ping => 2,
            Kind::GoAway => 3,
        };
        let [flags_high, flags_low] = self.flags.to_be_bytes();
        let ([a, b, c, d], [e, f, g, h]) = (self.stream.to_be_bytes(), self.length.to_be_bytes());
        [VERSION, kind, flags_high, flags_low, a, b, c, d, e, f, g, h]
    }

    pub(super) fn decode(bytes: [u8; HEADER_BYTES]) -> Result<Self, Violation> {
        let [version, kind, flags_high, flags_low, a, b, c, d, e, f, g, h] = bytes;
        if version != VERSION {
            return Err(Violation::Version(version));
        }
        let kind = match kind {
            0 => Kind::Data,
            1 => Kind::Window,
            2 => Kind::Ping,
            3 => Kind::GoAway,
            other => return Err(Violation::Kind(other)),
        };
        Ok(Self {
            kind,
            flags: u16::from_be_bytes([flags_high, flags_low]),
            stream: u32::from_be_bytes([a, b, c, d]),
            length: u32::from_be_bytes([e, f, g, h]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_is_read_back_as_it_was_written() {
        for kind in [Kind::Data, Kind::Window, Kind::Ping, Kind::GoAway] {
            let header = Header { kind, flags: SYN | FIN, stream: 0x0102_0304, length: u32::MAX };
            assert_eq!(Header::decode(header.encode()), Ok(header));
        }
    }

    #[test]
    fn the_bytes_are_those_of_the_specification() {
        let header = Header { kind: Kind::Window, flags: ACK, stream: 1, length: 256 };
        assert_eq!(header.encode(), [0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 1, 0]);
    }

    #[test]
    fn another_version_or_kind_is_a_violation() {
        let mut bytes = [0; HEADER_BYTES];
        bytes[1] = 4;
        assert_eq!(Header::decode(bytes), Err(Violation::Kind(4)));
        bytes[0] = 1;
        assert_eq!(Header::decode(bytes), Err(Violation::Version(1)));
    }
}
