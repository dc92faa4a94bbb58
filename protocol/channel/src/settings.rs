//! What a connection is asked to be, and what it turned out to be.

use std::{fmt, str::FromStr, time::Duration};

use crate::limits::UDP_BUFFER_BYTES;

/// How the sending rate follows the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Controller {
    /// CUBIC: the window grows until packets are lost.
    Cubic,
    /// BBR: the rate follows the measured bandwidth and round trip.
    Bbr,
}

/// A word that names no controller.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is no controller, use cubic or bbr", ketch_protocol::path::escape(.0.as_bytes()))]
pub struct ControllerNameError(String);

impl fmt::Display for Controller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Cubic => "cubic",
            Self::Bbr => "bbr",
        })
    }
}

impl FromStr for Controller {
    type Err = ControllerNameError;

    fn from_str(word: &str) -> Result<Self, ControllerNameError> {
        match word {
            "cubic" => Ok(Self::Cubic),
            "bbr" => Ok(Self::Bbr),
            other => Err(ControllerNameError(other.into())),
        }
    }
}

/// Which implementation carries QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum QuicStack {
    /// Ours, with a controller and buffers that can be chosen.
    #[default]
    Own,
    /// Stock `libp2p-quic`, to compare with. Only in builds with the feature `stock-quic`.
    Stock,
}

/// What is asked of every connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChannelSettings {
    /// The controller; `None` leaves the system's for TCP, and means cubic for QUIC.
    pub controller: Option<Controller>,
    /// Send and receive buffer of a TCP socket; `None` leaves them to the system's own tuning.
    pub tcp_buffer_bytes: Option<u32>,
    /// Send and receive buffer of a UDP socket.
    pub udp_buffer_bytes: u32,
    /// Which implementation carries QUIC.
    pub quic: QuicStack,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            controller: None,
            tcp_buffer_bytes: None,
            udp_buffer_bytes: UDP_BUFFER_BYTES,
            quic: QuicStack::default(),
        }
    }
}

/// A socket buffer: what was asked, what the system gave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSize {
    /// What was asked; `None` when it was left to the system.
    pub asked: Option<u32>,
    /// What the system says it is. Linux counts its own bookkeeping too, and answers twice what was asked.
    pub effective: u32,
    /// The most that the system gives to a process without privileges, where that is known.
    pub limit: Option<u32>,
}

/// What a connection turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The controller, as read back.
    pub controller: String,
    /// The send buffer of its socket.
    pub send_buffer: BufferSize,
    /// The receive buffer of its socket.
    pub receive_buffer: BufferSize,
    /// Whether the system cuts one write into many datagrams; `None` where there are no datagrams.
    pub gso: Option<bool>,
    /// Whether the system joins many datagrams into one read; `None` where there are no datagrams.
    pub gro: Option<bool>,
}

/// What a connection measured on its path so far; `None` where it cannot tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathStatistics {
    /// Smoothed round-trip time.
    pub rtt: Option<Duration>,
    /// Bytes that the controller allows in flight.
    pub window_bytes: Option<u64>,
    /// Packets sent, retransmitted ones included.
    pub sent_packets: Option<u64>,
    /// Packets taken for lost.
    pub lost_packets: Option<u64>,
    /// What the controller takes for the bandwidth of the path.
    pub rate_bytes_per_s: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_controller_is_read_back_from_its_name() {
        for controller in [Controller::Cubic, Controller::Bbr] {
            assert_eq!(controller.to_string().parse(), Ok(controller));
        }
        assert_eq!(
            "reno\n".parse::<Controller>().unwrap_err().to_string(),
            "\"reno\\n\" is no controller, use cubic or bbr"
        );
    }
}
