//! Every bound of a connection, each with its reason.

use std::time::Duration;

/// Time a TCP connect may take: room for the first, second and third SYN (sent at 0, 1 and 3 seconds).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time from the start of a dial until the connection is authenticated and multiplexed. A peer that
/// accepts and stays silent is known for it well before a person gives up (ten seconds).
pub const SETUP_TIMEOUT: Duration = Duration::from_secs(8);

/// Most streams on one yamux connection, both directions together. One stream above it ends the whole
/// connection and closed streams are collected late, so our side never opens more than
/// [`OPEN_STREAMS`]: with both peers at that bound half of this is still free.
pub const YAMUX_STREAMS: usize = 2_048;

/// Most streams that one side keeps open on a connection; further opens wait. Twice the file streams of
/// a session, so that a second session fits beside the first.
pub const OPEN_STREAMS: usize = 512;

/// Most streams a peer may have open towards us on a QUIC connection; QUIC makes it wait by itself.
pub const QUIC_STREAMS: u32 = 1_024;

/// Receive window of one QUIC stream, in bytes. The QUIC library ends the connection once a stream holds
/// more than 1,024 out-of-order spans; with more than 1 MiB in flight on one stream loss leads there.
pub const QUIC_STREAM_WINDOW_BYTES: u32 = 1024 * 1024;

/// Receive window of one QUIC connection, in bytes: 119 MB/s at a round trip of 141 ms.
pub const QUIC_CONNECTION_WINDOW_BYTES: u32 = 16 * 1024 * 1024;

/// Interval of QUIC keep-alives: below the 30 seconds after which common NATs forget a UDP flow.
pub const QUIC_KEEP_ALIVE: Duration = Duration::from_secs(5);

/// Silence after which a QUIC connection is lost: six missed keep-alives.
pub const QUIC_IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes gathered below yamux before they are sealed and sent. yamux writes a frame header and at most
/// 16 KiB at a time; without the gathering each would be a TLS record and a system call of its own.
pub const WRITE_BUFFER_BYTES: usize = 128 * 1024;

/// Most that the receive window of one QUIC connection grows to, in bytes, as its streams are read: a
/// gigabit over half a second. A peer that opens streams which nobody reads stays at
/// [`QUIC_CONNECTION_WINDOW_BYTES`].
pub const QUIC_CONNECTION_WINDOW_MAX_BYTES: u32 = 64 * 1024 * 1024;

/// Connection attempts over QUIC that wait to be taken at one socket. The swarm takes them at once; beyond
/// this the newest are refused.
pub const QUIC_INCOMING: usize = 256;

/// Bytes of such attempts that are kept until they are taken.
pub const QUIC_INCOMING_BYTES: u64 = 4 * 1024 * 1024;

/// Send and receive buffer asked for a UDP socket: some 110 ms at 70 MB/s. At the default of most
/// systems (208 KiB, 2 ms) packets are lost whenever the reading task is scheduled late.
pub const UDP_BUFFER_BYTES: u32 = 8 * 1024 * 1024;

/// Time that closing a QUIC connection waits for its last datagram to leave. It leaves as soon as its task
/// runs; a socket that takes nothing must not hold up the end.
pub const QUIC_FAREWELL: Duration = Duration::from_millis(100);

/// Longest pause between two packets that punch a hole, as the specification of DCUtR has it; the shortest is
/// a twentieth of it.
pub const PUNCH_PAUSE: Duration = Duration::from_millis(200);
