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

/// Addresses tried in one dial; all are tried at once.
pub(super) const DIAL_ADDRESSES: usize = 32;

/// Time beyond the deadline of a connection's set-up after which a dial ends by itself, whatever the
/// transport does.
pub(super) const DIAL_GRACE: Duration = Duration::from_secs(1);

/// Inbound streams that wait to be taken, over all connections. Beyond it they wait in their connection,
/// where the multiplexer's stream limit bounds them.
pub(super) const INBOUND_QUEUE: usize = 16;

/// Streams of introductions that wait to be taken, over all connections: whoever waits for one guest does not look at
/// more at once. Beyond it they wait in their connection too.
pub(super) const INTRODUCTION_QUEUE: usize = 4;

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
