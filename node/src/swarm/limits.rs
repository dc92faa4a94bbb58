//! Every bound of the swarm, each with its reason. Those of one connection are in `ketch_channel::limits`.

use std::time::Duration;

/// Time a connection may stay without handle and stream, unless the options say otherwise. It covers the pause between identify and the
/// first stream, and costs an idle peer no more than one slot of [`CONNECTIONS`].
pub(super) const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Time that a connection which both sides dialed at once may stay without a stream, unless the options say
/// otherwise: enough that whoever dialed it has begun what it dialed for, over any path.
pub(super) const DUPLICATE_GRACE: Duration = Duration::from_secs(5);

/// Time in which the listeners get their first addresses. A wildcard gets none where no interface has an address of
/// its family, for instance where IPv6 is switched off, and nothing ever says so.
pub(super) const LISTEN_TIMEOUT: Duration = Duration::from_secs(1);

/// Time a stream may take to open. It covers waiting for a peer that has many unanswered streams.
pub(super) const OPEN_TIMEOUT: Duration = Duration::from_secs(30);

/// Connections with one peer: sixteen of a session, as many again that are being replaced.
pub(super) const CONNECTIONS_PER_PEER: u32 = 32;

/// Connections with all peers.
pub(super) const CONNECTIONS: u32 = 256;

/// Addresses that one dial is given. All of them may be tried at once in the end.
pub(super) const DIAL_ADDRESSES: usize = 32;

/// Addresses tried in one dial, with those that names stand for and those that are found meanwhile, which strangers may
/// have made up.
pub(super) const TRIED_ADDRESSES: usize = 2 * DIAL_ADDRESSES;

/// Attempts of one transport that begin at once: both families of a machine with a public address, one at home, one of a
/// VPN and one of containers.
pub(super) const DIAL_BATCH: usize = 8;

/// Time between attempts of one batch and those of the next (RFC 8305, 5).
pub(super) const DIAL_STAGGER: Duration = Duration::from_millis(250);

/// Time that the transport which is known to be the faster one has after another has connected. It began first, so
/// this covers the two round trips more that TCP takes on a path of half a second.
pub(super) const FASTER_GRACE: Duration = Duration::from_secs(1);

/// Time in which a dial takes addresses that are found while it runs: three queries on the LAN, of which two may be lost.
pub(super) const SEEK_TIMEOUT: Duration = Duration::from_secs(3);

/// Batches of found addresses on their way to a dial. Beyond it they are left out: a dial that has these has enough.
pub(super) const FOUND_QUEUE: usize = 16;

/// Time that a name may take to be resolved: what the system's resolver takes where its first server is down.
pub(super) const NAME_TIMEOUT: Duration = Duration::from_secs(6);

/// Addresses taken of one name.
pub(super) const NAME_ADDRESSES: usize = 8;

/// Names that may lead to each other before one has addresses.
pub(super) const NAME_DEPTH: u32 = 3;

/// Time beyond the deadline of a connection's set-up after which a dial ends by itself, whatever the
/// transport does.
pub(super) const DIAL_GRACE: Duration = Duration::from_secs(1);

/// Inbound streams that wait to be taken, over all connections. Beyond it they wait in their connection,
/// where the multiplexer's stream limit bounds them.
pub(super) const INBOUND_QUEUE: usize = 16;

/// Open requests on their way to one connection.
pub(super) const OPEN_QUEUE: usize = 64;

/// Commands on their way to the event loop.
pub(super) const COMMAND_QUEUE: usize = 64;

/// Time that closing all connections may take. A peer that reads nothing must not hold up the end.
pub(super) const SHUTDOWN_TIMEOUT: Duration = Duration::from_millis(450);

/// Time that a ping waits for the peer to name its program.
pub(super) const AGENT_TIMEOUT: Duration = Duration::from_secs(2);

/// Time that one ping may take, unless the options say otherwise.
pub(super) const PING_TIMEOUT: Duration = Duration::from_secs(10);

/// Time between the pings of a connection, unless the options say otherwise: below the 30 seconds after
/// which impatient NATs forget a flow.
pub(super) const PING_INTERVAL: Duration = Duration::from_secs(15);

/// How long others remember what this node says on the LAN: an address that is gone is soon forgotten.
pub(super) const LAN_TTL: Duration = Duration::from_secs(120);

/// Time between queries on the LAN once somebody has answered; until then they come after half a second, one, two, and so
/// on. Often enough that what is there never expires, and little beside anything else on a LAN.
pub(super) const LAN_QUERY_INTERVAL: Duration = Duration::from_secs(45);

/// Time after which a dial asks the LAN anew. What asked before lives until the next answer, so this bounds how many of
/// them there are.
pub(super) const LAN_PATIENCE: Duration = Duration::from_secs(15);

/// Addresses remembered of the LAN: hundreds of machines, and about 200 KiB.
pub(super) const LAN_ADDRESSES: usize = 1_024;

/// Dials that wait for an answer from the LAN.
pub(super) const LAN_SEEKERS: usize = 64;
