//! Every bound of a relay that its owner does not set, each with its reason.

use std::time::Duration;

/// Bytes of a circuit whose relay carries no data: what stock relays allow, so that it is enough for every peer to prove who
/// it is and to agree on a hole.
pub(super) const MEETING_BYTES: u64 = 128 * 1024;

/// Time of such a circuit, as stock relays allow.
pub(super) const MEETING_TIME: Duration = Duration::from_secs(120);

/// The time over which traffic is counted: whoever has used it up waits an hour at most.
pub(super) const TRAFFIC_PERIOD: Duration = Duration::from_secs(3600);

/// Peers whose traffic is counted at a time, some 100 bytes each. Beyond it no circuit is opened for a new one.
pub(super) const COUNTED_PEERS: usize = 65_536;

/// Addresses that peers leave for others, by all of them: at [`super::board::RECORD_BYTES`] each it is 64 MiB at the
/// very most, and some 5 MiB as they usually are.
pub(super) const POSTED: usize = 16_384;

/// What one peer leaves: its name, a few codes that wait, and room.
pub(super) const POSTED_BY_PEER: usize = 16;

/// What those behind one address leave: an office behind one router.
pub(super) const POSTED_BY_ORIGIN: usize = 512;

/// How often what has expired is looked for.
pub(super) const SWEEP_INTERVAL: Duration = Duration::from_secs(10);

/// Connections to the page of counts at a time: there is one that gathers, and perhaps a person who looks.
pub(super) const PAGE_CONNECTIONS: usize = 8;

/// Longest head of a request for that page, in bytes: browsers and Prometheus send less than one.
pub(super) const PAGE_REQUEST_BYTES: usize = 4_096;

/// Time that one request for it may take.
pub(super) const PAGE_TIME: Duration = Duration::from_secs(5);
