//! Every bound of an observation, each with its reason. Those that the study's method states are not to be changed
//! without another method.

use std::time::Duration;

/// Where a source listens where nothing else is said; the method names it, as firewalls are opened for it.
pub(crate) const PORT: u16 = 32_943;

/// Bytes of one read of a source file: stated by the method.
pub(super) const READ_BLOCK_BYTES: usize = 64 * 1024;

/// Messages that wait between a thread and a stream, at most: stated by the method. With [`READ_BLOCK_BYTES`] they hold
/// 1 MiB.
pub(super) const QUEUE_MESSAGES: usize = 16;

/// Bytes that are gathered for a stream before they are written, and taken from it at once: stated by the method.
pub(super) const STREAM_BUFFER_BYTES: usize = 256 * 1024;

/// Files of one connection whose streams are not closed on both sides, at most: stated by the method.
pub(super) const FILES_IN_FLIGHT: usize = 4_096;

/// Streams that either side allows the other on one connection: stated by the method. Twice the files in flight, as a
/// multiplexer may count a stream for a while after both sides have closed it.
pub(super) const STREAMS: u32 = 8_192;

/// Receive window of every yamux stream when it begins, in bytes: by yamux's specification.
pub(super) const FIRST_WINDOW_BYTES: u64 = 256 * 1024;

/// By how much windows of a TCP connection may grow together, in bytes: stated by the method.
pub(super) const HEADROOM_BYTES: u64 = 16_515_072;

/// What the profile `seed` gives one stream and one QUIC connection, in bytes: stated by the method.
pub(super) const SEED_WINDOW_BYTES: u32 = 16_777_216;

/// What the profile `seed` asks for a UDP socket's buffers, in bytes. Linux keeps as much again for itself and says
/// 212,992, which is what a socket has that asks for nothing.
pub(super) const SEED_UDP_BUFFER_BYTES: u32 = 106_496;

/// Window of a stream with the profile `tuned`, in bytes: QUIC libraries end a connection of which one stream has more than
/// 1,024 gaps, and with more than this in flight loss leads there.
pub(super) const TUNED_WINDOW_BYTES: u32 = 1024 * 1024;

/// Streams of one connection in the layout `bundle` with the profile `tuned`: with windows of 1 MiB they carry 119 MB/s at
/// a round trip of 141 ms, as one stream of the profile `seed`.
pub(super) const TUNED_STREAMS: usize = 16;

/// Time after which an observation is stopped and counts as censored: stated by the method.
pub(crate) const OBSERVATION_LIMIT: Duration = Duration::from_secs(900);

/// Time between two samples of the progress.
pub(super) const PROGRESS_INTERVAL: Duration = Duration::from_secs(1);

/// Time between two looks at the data connections: stated by the method.
pub(super) const SOCKETS_INTERVAL: Duration = Duration::from_secs(2);

/// Looks at its data connections that a source may tell of beyond those that fit into the limit: it began earlier, and ends
/// later.
pub(super) const MORE_LOOKS: u64 = 60;

/// Time that the other end may take over one answer when no content is under way.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Time in which the other end may still say why it broke off, once a connection is lost.
pub(super) const REASON_TIMEOUT: Duration = Duration::from_secs(2);

/// Time in which all data connections of an observation must have come to the source: more than the slowest handshake
/// takes.
pub(super) const ARRIVAL_TIMEOUT: Duration = Duration::from_secs(30);

/// Time that closing a connection may take.
pub(super) const DRAIN_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which the sockets of the last observation must be gone: a QUIC socket outlives its last connection by three of
/// its probe timeouts.
pub(super) const PORT_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between two attempts at a port that is still in use.
pub(super) const PORT_PAUSE: Duration = Duration::from_millis(20);

/// Longest message of a control stream, in bytes: the account of sixteen connections has some 10 KiB.
pub(super) const MESSAGE_BYTES: u32 = 256 * 1024;

/// Longest manifest, in bytes: a million lines have some 100 MB.
pub(super) const MANIFEST_BYTES: u64 = 1024 * 1024 * 1024;

/// Longest text that is taken over from the other end, in characters: a line or two.
pub(super) const REASON_CHARACTERS: usize = 500;

/// Paths that an error names of those that differ, at most.
pub(super) const NAMED_DIFFERENCES: usize = 5;
