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

/// Addresses of one reservation that are believed: a relay has a few interfaces, each with two transports. A ticket has
/// room for sixteen in all.
pub(super) const RESERVED_ADDRESSES: usize = 4;

/// Connections that a relay has with one peer: one over each transport, and as many that are being replaced.
pub(super) const RELAY_CONNECTIONS_PER_PEER: u32 = 4;

/// Connections that a relay has with all peers: every one with a reservation has one, and as many that come and go.
pub(super) const RELAY_CONNECTIONS: u32 = 4_096;

/// Reservations that a node keeps: with two, peers still reach it while a lost one is replaced.
pub(super) const RESERVATIONS: usize = 2;

/// Rest of a relay that failed or was lost before it is asked again: it may just have been started anew.
pub(super) const RESERVE_FIRST_WAIT: Duration = Duration::from_secs(1);

/// Longest rest of a relay that keeps failing: a laptop that comes back to a network is reachable within it, and a relay
/// that is gone for good costs two attempts a minute.
pub(super) const RESERVE_LONGEST_WAIT: Duration = Duration::from_secs(30);

/// Time in which a direct connection must come about beside a circuit: three tries over a long path, and soon enough that
/// a person who waits is told within 15 s.
pub(super) const DIRECT_LIMIT: Duration = Duration::from_secs(12);

/// Peers that are believed about how they see this node, over each transport: it knows a few relays, and the first ones
/// tell enough.
pub(super) const VIEWS: usize = 32;

/// Time that a router has to open ports before others are told how to reach this node: it answers within milliseconds,
/// and where none does a person waits that long.
pub(super) const PORTS_LIMIT: Duration = Duration::from_secs(2);

/// Time that a connection of a relay may stay without a stream and without a reservation: long enough for two peers to
/// meet and to ask what they want to know.
pub(super) const RELAY_IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// Streams that a relay serves on one connection at a time: its circuits, and a few questions. One beyond is reset.
pub(super) const RELAY_STREAMS: usize = 64;

/// Circuits that wait for a stream to their other end, on one connection.
pub(super) const RELAY_ASKS: usize = 16;

/// Time that a stream from a relay to the other end of a circuit may take to open.
pub(super) const RELAY_STREAM_TIMEOUT: Duration = Duration::from_secs(10);

/// Time that a peer has to say what it wants of a relay, and to answer it.
pub(super) const RELAY_REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Bytes that a circuit holds in each direction. Windows of the connections hold more; this is what one look at the
/// account covers.
pub(super) const CARRIED_BYTES: usize = 16 * 1024;

/// Peers that are taken of what a rendezvous point shows under one name. There is one under the name of a peer, and
/// few that wait with the same code.
pub(super) const DISCOVERED_PEERS: usize = 16;

/// Addresses that are taken of each of them: as many as in a ticket.
pub(super) const DISCOVERED_ADDRESSES: usize = 16;

/// Time that addresses are kept at a rendezvous point, unless they are left anew: what all of them take.
pub(super) const REGISTERED_TIME: Duration = Duration::from_secs(2 * 3600);

/// Time that leaving may wait for a rendezvous point to forget this node: a few round trips.
pub(super) const WITHDRAWAL_TIMEOUT: Duration = Duration::from_secs(2);

/// Time between looks whether a rendezvous point has forgotten this node: most have by the first one.
pub(super) const WITHDRAWAL_LOOK: Duration = Duration::from_millis(100);

/// Time in which a rendezvous point is reached and answers. One that is slower would hold up a dial.
pub(super) const RENDEZVOUS_TIMEOUT: Duration = Duration::from_secs(10);

/// Addresses of peers that a relay tries at a time; one beyond is not tried. Each is a socket for as long as nothing answers.
pub(super) const RELAY_DIALS: u32 = 32;

/// Connections that a relay takes from one IPv4 address or IPv6 network of 64 bits, unless it may have more reservations: an
/// office behind one router, and an eighth of [`RELAY_CONNECTIONS`] for somebody with many identities.
pub(super) const RELAY_CONNECTIONS_PER_ADDRESS: usize = 512;
/// How long others remember what this node says on the LAN: an address that is gone is soon forgotten.
pub(super) const LAN_TTL: Duration = Duration::from_secs(120);

/// Time between queries on the LAN once somebody has answered; until then they come after half a second, one, two, and so
/// on. Often enough that what is there never expires, and little beside anything else on a LAN.
pub(super) const LAN_QUERY_INTERVAL: Duration = Duration::from_secs(45);

/// Time after which a dial asks the LAN anew. What asked before lives until the next answer, so this bounds how many of
/// them there are.
pub(super) const LAN_PATIENCE: Duration = Duration::from_secs(15);

/// Time after a node's start in which those on the LAN answer who are there: two queries, of which one may be lost.
pub(super) const NEIGHBOURS_ANSWER: Duration = Duration::from_secs(2);

/// Addresses remembered of the LAN: hundreds of machines, and about 200 KiB.
pub(super) const LAN_ADDRESSES: usize = 1_024;

/// Dials that wait for an answer from the LAN.
pub(super) const LAN_SEEKERS: usize = 64;
