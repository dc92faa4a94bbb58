//! What a connection is asked for, and what it got.

use std::time::Duration;

pub use ketch_protocol::controller::{Controller, ControllerNameError};

use crate::limits::UDP_BUFFER_BYTES;

/// Who carries QUIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum QuicStack {
    /// Our own transport.
    #[default]
    Own,
    /// The stock `libp2p-quic`, to compare with.
    #[cfg(feature = "stock-quic")]
    Stock,
}

/// Whose BBR a QUIC connection gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum QuicBbr {
    /// Our own.
    #[default]
    Own,
    /// That of the QUIC library, to compare with.
    Library,
}

/// What connections are asked for.
#[derive(Debug, Clone)]
pub struct ChannelSettings {
    /// The congestion controller. Without one, TCP has that of the system and QUIC has CUBIC.
    pub controller: Option<Controller>,
    /// Length of a TCP socket's buffers, in bytes. Without it the system fits them to the path, within its limits.
    pub tcp_buffer_bytes: Option<u32>,
    /// Length of a UDP socket's buffers, in bytes.
    pub udp_buffer_bytes: u32,
    /// Who carries QUIC.
    pub quic: QuicStack,
    /// Whose BBR a connection over our own QUIC gets.
    pub quic_bbr: QuicBbr,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            controller: None,
            tcp_buffer_bytes: None,
            udp_buffer_bytes: UDP_BUFFER_BYTES,
            quic: QuicStack::default(),
            quic_bbr: QuicBbr::default(),
        }
    }
}

/// The length of one buffer of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BufferSize {
    /// What was asked for, in bytes.
    pub asked: Option<u32>,
    /// What it is now, in bytes, as the system says. Linux says twice what was asked for, as it counts what it keeps
    /// for itself too.
    pub effective: u32,
    /// The most that the system gives, in bytes, where that is known.
    pub limit: Option<u32>,
}

/// What a connection has, read back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Effective {
    /// The name of its congestion controller.
    pub controller: String,
    /// Where the system keeps what was written and not acknowledged.
    pub send_buffer: BufferSize,
    /// Where the system keeps what came and was not read.
    pub receive_buffer: BufferSize,
    /// Whether the system cuts large datagrams into packets, or the network card; of UDP only.
    pub gso: Option<bool>,
    /// Whether the system joins packets into large datagrams; of UDP only.
    pub gro: Option<bool>,
}

/// What is known of the path of a connection. What the system does not tell is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct PathStatistics {
    /// The smoothed round trip.
    pub rtt: Option<Duration>,
    /// The congestion window, in bytes.
    pub window_bytes: Option<u64>,
    /// Packets that were lost, or sent again.
    pub lost_packets: Option<u64>,
    /// Packets with content that were sent, those sent again included.
    pub sent_packets: Option<u64>,
    /// The latest rate of delivery, in bytes a second.
    pub rate_bytes_per_s: Option<u64>,
}
