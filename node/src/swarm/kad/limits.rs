//! Every bound of the DHT, each with its reason.

use std::{num::NonZeroUsize, time::Duration};

/// Peers that hold a record, and peers in a bucket of a routing table: the usual k of Kademlia, with which a record
/// outlives the loss of most of them.
pub const REPLICATION: NonZeroUsize = NonZeroUsize::new(20).expect("it is not zero");

/// Questions of one lookup that are under way at a time: the usual alpha of Kademlia.
pub const PARALLELISM: NonZeroUsize = NonZeroUsize::new(3).expect("it is not zero");

/// Time that a lookup may take. Ten steps over paths with a round trip of 300 ms take half of it, with a peer that is gone
/// on the way.
pub(super) const LOOKUP_TIMEOUT: Duration = Duration::from_secs(15);

/// Lookups at a time: a person looks for one peer, a node that serves for those of its shares.
pub(super) const LOOKUPS: usize = 16;

/// Holders of a record after which a lookup is content. Each may have an old one; the newest counts.
pub const HOLDERS: usize = 3;

/// Addresses in a record, as many as in a ticket.
pub(super) const RECORD_ADDRESSES: usize = 16;

/// A record with as many addresses as it may have, all of them through relays, and its signature.
pub(super) const RECORD_BYTES: usize = 2048;

/// Records that a node holds for others: 32 MiB of the longest ones.
pub(super) const RECORDS: usize = 16_384;

/// Time that a record is held: a peer that is gone is soon forgotten, and one that stays says it again three times within.
pub(super) const RECORD_TTL: Duration = Duration::from_secs(3 * 3600);

/// Time after which a node says again where it is reached.
pub(super) const PUBLICATION_INTERVAL: Duration = Duration::from_secs(3600);

/// Longest message: an answer with [`REPLICATION`] peers, each with a few addresses, and a record.
pub(super) const MESSAGE_BYTES: usize = 16 * 1024;
