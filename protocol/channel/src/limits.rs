//! Every bound of a connection, each with its reason.

use std::time::Duration;

/// Time a TCP connect may take: room for the first, second and third SYN (sent at 0, 1 and 3 seconds).
pub const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Time from the start of a dial until the connection is authenticated and multiplexed. A peer that
/// accepts and stays silent is known for it well before a person gives up (ten seconds).
pub const SETUP_TIMEOUT: Duration = Duration::from_secs(8);

/// Handshakes of unknown peers at a time, over both transports: each costs a signature and a few kilobytes. One beyond
/// takes the place of another.
pub(crate) const HANDSHAKES: usize = 64;

/// Most streams that a peer may have open towards us on a TCP connection; one beyond is refused, and the connection goes
/// on. As many as our side opens at most, and room for those that measure and identify.
pub const YAMUX_STREAMS: usize = OPEN_STREAMS + 64;

/// Streams that were opened and not answered, at most; more wait. The peer's library may drop those beyond.
pub(crate) const UNANSWERED_STREAMS: usize = 256;

/// First congestion window of a QUIC connection, in bytes: what may be sent before anything is known of the path. The
/// specification has ten packets as a rule (RFC 9002, 7.2); 32 are what the most used servers on the web begin with, take
/// 30 ms of 10 Mbit/s, and spare a long path more than one round trip.
pub(crate) const QUIC_FIRST_WINDOW_BYTES: u64 = 32 * 1_200;

/// Time in which a first window is sent. The library would spread it over a round trip, of which it knows nothing but
/// that a third of a second is usual.
pub(crate) const QUIC_FIRST_WINDOW_TIME: Duration = Duration::from_millis(10);

/// Largest receive window of one stream over TCP, in bytes: 1 Gbit/s takes 17.6 MB at a round trip of 141 ms.
pub(crate) const STREAM_WINDOW_BYTES: u32 = 32 * 1024 * 1024;

/// The receive windows of a TCP connection grow as long as they come to no more than this together, in bytes.
pub(crate) const RECEIVE_BYTES: u64 = 64 * 1024 * 1024;

/// Most bytes that a TCP connection keeps for streams that do not read them; a peer that sends more is cut off. Windows
/// begin at 256 KiB by the specification, so this is for peers that fill more than 384 streams which nobody reads.
pub(crate) const UNREAD_BYTES: usize = 96 * 1024 * 1024;

/// Largest content of one frame that is sent, in bytes: large enough that headers and wake-ups cost nothing, small enough
/// that streams take turns.
pub(crate) const FRAME_BYTES: usize = 64 * 1024;

/// Bytes of frames that wait to be sealed and sent, at most; streams wait with more. As much again is on its way.
pub(crate) const WRITE_BUFFER_BYTES: usize = 128 * 1024;

/// How long less than [`PACKET_BYTES`] waits for more behind what was sent last: what streams say at the beginning of a
/// connection comes within it.
pub(crate) const GATHER_TIME: Duration = Duration::from_millis(2);

/// What fills a packet, in bytes, once it is sealed.
pub(crate) const PACKET_BYTES: usize = 1_200;

/// What is sealed by itself at the beginning of a connection, in bytes: it fills a packet of a path of 1,500 bytes, of
/// which IPv4, TCP with timestamps and TLS take 74.
pub(crate) const SMALL_WRITE_BYTES: usize = 1_426;

/// How much of a connection is sealed so, in bytes: what two round trips carry. After that a dozen packets come at once,
/// which is what TLS seals together at most.
pub(crate) const SMALL_WRITES_BYTES: u64 = 48 * 1024;

/// Content of up to this many bytes is gathered, as a buffer of its own would cost more than the copy.
pub(crate) const GATHERED_BYTES: usize = 4 * 1024;

/// Buffers of [`FRAME_BYTES`] that a connection keeps to use them again, at most.
pub(crate) const SPARE_BUFFERS: usize = 16;

/// Refused streams that wait to be told so, at most; a peer that opens more meanwhile is cut off.
pub(crate) const REFUSALS: usize = 1_024;

/// Frames that one turn of a connection reads before others get theirs.
pub(crate) const FRAMES_PER_TURN: usize = 64;

/// Time that closing a TCP connection waits for the peer to take what was written, some 256 KiB at the most. Whatever had
/// to arrive was answered before; a peer that takes nothing, or a path that is gone, must not hold up the end, nor what
/// else waits for it: the work of a lost connection moves on only then.
pub(crate) const TCP_FAREWELL: Duration = Duration::from_secs(2);

/// Time that closing a TCP connection waits for the end of a peer that is likely to be sending. What such a peer sends to a
/// socket that is gone takes back what it has not received yet, the reason of the end first of all; a second is the
/// longest round trip and something sent again.
pub(crate) const CLOSING_TIME: Duration = Duration::from_secs(1);

/// Bytes that are read of such a peer meanwhile: as much as the windows let be on its way.
pub(crate) const CLOSING_BYTES: usize = RECEIVE_BYTES as usize;

/// Time between two measurements of the round trip of a TCP connection.
pub(crate) const ROUND_TRIP_INTERVAL: Duration = Duration::from_secs(10);

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

/// Length of a UDP socket's buffers that is asked for, in bytes. The system's 212,992 hold 2 ms of 100 MB/s, and
/// whatever comes while the process does not read is lost.
pub const UDP_BUFFER_BYTES: u32 = 8 * 1024 * 1024;

/// Slices that a read of a QUIC stream takes from its connection at once, at most. Each is what came in a datagram;
/// these come to 45 to 200 kB, a part of a block.
pub(crate) const QUIC_SLICES: usize = 32;

/// Largest payload of a QUIC datagram, in bytes, where the way to the peer carries it: a packet costs the same
/// whatever it holds. Ten of them, which is what the QUIC library sends at once, fill the 64 KiB of one system call.
pub(crate) const QUIC_DATAGRAM_BYTES: u16 = 6_500;

/// Least payload of a datagram that every path of QUIC carries, in bytes (RFC 9000, section 14).
pub(crate) const QUIC_LEAST_DATAGRAM_BYTES: u16 = 1_200;

/// Payload of a QUIC datagram that is tried on paths of which nothing is known, in bytes: that of Ethernet, less the
/// headers of IPv6 and UDP.
pub(crate) const QUIC_USUAL_DATAGRAM_BYTES: u16 = 1_452;

/// Longest answer of the kernel about one socket, in bytes: it is some 400, and grows with new kernels.
pub(crate) const DIAGNOSIS_BYTES: usize = 4 * 1024;

/// Most that the receive window of one QUIC connection grows to, in bytes, as its streams are read: a
/// gigabit over half a second. A peer that opens streams which nobody reads stays at
/// [`QUIC_CONNECTION_WINDOW_BYTES`].
pub const QUIC_CONNECTION_WINDOW_MAX_BYTES: u32 = 64 * 1024 * 1024;

/// Connection attempts over QUIC that wait to be taken at one socket. The swarm takes them at once; beyond
/// this the newest are refused.
pub const QUIC_INCOMING: usize = 256;

/// Bytes of such attempts that are kept until they are taken.
pub const QUIC_INCOMING_BYTES: u64 = 4 * 1024 * 1024;

/// Time that closing a QUIC connection waits for its last datagram to leave. It leaves as soon as its task
/// runs; a socket that takes nothing must not hold up the end.
pub const QUIC_FAREWELL: Duration = Duration::from_millis(100);

/// Longest pause between two packets that punch a hole, as the specification of DCUtR has it; the shortest is
/// a twentieth of it.
pub const PUNCH_PAUSE: Duration = Duration::from_millis(200);
