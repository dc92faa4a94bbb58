//! What a connection is asked for, and what it got.

use std::time::Duration;

pub use ketch_protocol::controller::{Controller, ControllerNameError};

use crate::limits::{
    QUIC_CONNECTION_WINDOW_BYTES, QUIC_CONNECTION_WINDOW_MAX_BYTES, QUIC_STREAM_WINDOW_BYTES, QUIC_STREAMS,
    RECEIVE_BYTES, STREAM_WINDOW_BYTES, UDP_BUFFER_BYTES, UNANSWERED_STREAMS, UNREAD_BYTES, YAMUX_STREAMS,
};

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

impl QuicBbr {
    /// Its name, as a connection says it when it is asked what it has.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => Controller::Bbr.name(),
            Self::Library => "library-bbr",
        }
    }
}

/// How much of one TCP connection a peer may use, and this side of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFlow {
    /// Streams that the peer may have open.
    pub streams: usize,
    /// Streams that this side may have opened and the peer has not answered; more wait.
    pub unanswered_streams: usize,
    /// Largest receive window of one stream, in bytes. It begins at 256 KiB, whatever this says.
    pub stream_window_bytes: u32,
    /// Windows grow as long as they come to no more than this together, in bytes.
    pub windows_bytes: u64,
    /// Bytes that may have come and not been read; a peer that sends more is cut off.
    pub unread_bytes: usize,
}

impl Default for TcpFlow {
    fn default() -> Self {
        Self {
            streams: YAMUX_STREAMS,
            unanswered_streams: UNANSWERED_STREAMS,
            stream_window_bytes: STREAM_WINDOW_BYTES,
            windows_bytes: RECEIVE_BYTES,
            unread_bytes: UNREAD_BYTES,
        }
    }
}

/// How much of one QUIC connection a peer may use; of our own transport only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QuicFlow {
    /// Streams that the peer may have open.
    pub streams: u32,
    /// Receive window of one stream, in bytes.
    pub stream_window_bytes: u32,
    /// Receive window of the connection when it begins, in bytes.
    pub window_bytes: u32,
    /// What that window grows to, and how much may be sent and not acknowledged, in bytes.
    pub largest_window_bytes: u32,
}

impl Default for QuicFlow {
    fn default() -> Self {
        Self {
            streams: QUIC_STREAMS,
            stream_window_bytes: QUIC_STREAM_WINDOW_BYTES,
            window_bytes: QUIC_CONNECTION_WINDOW_BYTES,
            largest_window_bytes: QUIC_CONNECTION_WINDOW_MAX_BYTES,
        }
    }
}

/// What connections are asked for.
#[derive(Debug, Clone)]
pub struct ChannelSettings {
    /// The congestion controller. Without one, TCP has that of the system and QUIC has CUBIC.
    pub controller: Option<Controller>,
    /// Length of a TCP socket's buffers, in bytes. Without it the system fits them to the path, within its limits.
    pub tcp_buffer_bytes: Option<u32>,
    /// Length of a UDP socket's buffers, in bytes. Without it the system decides.
    pub udp_buffer_bytes: Option<u32>,
    /// Who carries QUIC.
    pub quic: QuicStack,
    /// Whose BBR a connection over our own QUIC gets.
    pub quic_bbr: QuicBbr,
    /// Streams and windows over TCP.
    pub tcp_flow: TcpFlow,
    /// Streams and windows over QUIC.
    pub quic_flow: QuicFlow,
}

impl Default for ChannelSettings {
    fn default() -> Self {
        Self {
            controller: None,
            tcp_buffer_bytes: None,
            udp_buffer_bytes: Some(UDP_BUFFER_BYTES),
            quic: QuicStack::default(),
            quic_bbr: QuicBbr::default(),
            tcp_flow: TcpFlow::default(),
            quic_flow: QuicFlow::default(),
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
    /// The most that the system gives without privileges, in bytes, where that is known.
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
