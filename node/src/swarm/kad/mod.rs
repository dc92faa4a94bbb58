//! A DHT (Kademlia, as libp2p specifies it) in which a peer leaves its addresses and others find them by its PeerId
//! alone, without a rendezvous point.
//!
//! [`behaviour`] is the part of the swarm, [`Dht`] what is under way in it: it is told of every event. A node whose
//! address is known to others holds records for them; any other only asks.

mod limits;
mod lookup;
mod record;

use std::collections::HashMap;

use libp2p::{
    Multiaddr, PeerId, StreamProtocol,
    identity::{Keypair, SigningError},
    kad::{
        self, Quorum, Record, StoreInserts,
        store::{self, MemoryStore, MemoryStoreConfig, RecordStore as _},
    },
};
use tokio::sync::oneshot;

pub use limits::{HOLDERS, PARALLELISM, REPLICATION};
use limits::{
    LOOKUP_TIMEOUT, LOOKUPS, MESSAGE_BYTES, PUBLICATION_INTERVAL, RECORD_BYTES, RECORD_TTL, RECORDS,
};
use lookup::Lookup;
pub use lookup::LookupError;
pub use record::{RecordError, Whereabouts, key_of, open, sign};

/// Kademlia with these records is no other network's.
const PROTOCOL: StreamProtocol = StreamProtocol::new("/ketch/kad/1");

/// What takes part in the DHT.
pub type Behaviour = kad::Behaviour<MemoryStore>;

/// Where the answer to a lookup goes.
pub type Answer = oneshot::Sender<Result<Whereabouts, LookupError>>;

/// Why a node could not say where it is reached.
#[derive(Debug, thiserror::Error)]
pub enum PublishError {
    /// The key does not sign.
    #[error("signing the addresses of this node: {0}")]
    Signing(#[from] SigningError),
    /// The record is not taken by the node itself.
    #[error("keeping the addresses of this node: {0}")]
    Store(#[from] store::Error),
}

/// Takes part in the DHT as this peer.
pub fn behaviour(peer: PeerId) -> Behaviour {
    let records = MemoryStoreConfig {
        max_records: RECORDS,
        max_value_bytes: RECORD_BYTES + 1,
        max_provided_keys: 0,
        max_providers_per_key: 0,
    };
    let mut config = kad::Config::new(PROTOCOL);
    config
        .set_query_timeout(LOOKUP_TIMEOUT)
        .set_parallelism(PARALLELISM)
        .set_replication_factor(REPLICATION)
        .set_kbucket_size(REPLICATION)
        .set_record_ttl(Some(RECORD_TTL))
        .set_publication_interval(Some(PUBLICATION_INTERVAL))
        // Whoever left a record says it again; that others do so too would multiply the messages.
        .set_replication_interval(None)
        .set_provider_publication_interval(None)
        .set_record_filtering(StoreInserts::FilterBoth)
        .set_caching(kad::Caching::Disabled)
        .set_max_packet_size(MESSAGE_BYTES);
    kad::Behaviour::with_config(peer, MemoryStore::with_config(peer, records), config)
}

/// What is under way in the DHT.
#[derive(Debug, Default)]
pub struct Dht {
    lookups: HashMap<kad::QueryId, Lookup>,
}

impl Dht {
    /// Gets to know the DHT through peers of it.
    pub fn join(&self, kad: &mut Behaviour, known: &[(PeerId, Multiaddr)]) {
        for (peer, address) in known {
            kad.add_address(peer, address.clone());
        }
        // Without anybody known there is nothing to join.
        let _ = kad.bootstrap();
    }

    /// Leaves the addresses of this node with the peers near its key, now and every hour.
    pub fn publish(
        &self,
        kad: &mut Behaviour,
        key: &Keypair,
        addresses: Vec<Multiaddr>,
    ) -> Result<(), PublishError> {
        let value = sign(key, addresses)?;
        let record = Record::new(key_of(&key.public().to_peer_id()), value);
        kad.put_record(record, Quorum::All)?;
        Ok(())
    }

    /// Looks for the addresses of a peer.
    pub fn find(&mut self, kad: &mut Behaviour, peer: PeerId, answer: Answer) {
        if self.lookups.len() >= LOOKUPS {
            // Whoever asked may have gone.
            let _ = answer.send(Err(LookupError::Busy));
            return;
        }
        let query = kad.get_record(key_of(&peer));
        self.lookups.insert(query, Lookup::new(peer, answer));
    }

    /// Takes an event of the behaviour.
    pub fn on_event(&mut self, kad: &mut Behaviour, event: kad::Event) {
        match event {
            kad::Event::InboundRequest {
                request: kad::InboundRequest::PutRecord { record: Some(record), .. },
            } => store_checked(kad, record),
            kad::Event::OutboundQueryProgressed {
                id,
                result: kad::QueryResult::GetRecord(result),
                step,
                ..
            } => {
                self.on_progress(kad, id, result, step.last);
            }
            kad::Event::InboundRequest { .. }
            | kad::Event::OutboundQueryProgressed { .. }
            | kad::Event::RoutingUpdated { .. }
            | kad::Event::UnroutablePeer { .. }
            | kad::Event::RoutablePeer { .. }
            | kad::Event::PendingRoutablePeer { .. }
            | kad::Event::ModeChanged { .. } => {}
        }
    }

    fn on_progress(
        &mut self,
        kad: &mut Behaviour,
        id: kad::QueryId,
        result: kad::GetRecordResult,
        is_last: bool,
    ) {
        let Some(lookup) = self.lookups.get_mut(&id) else { return };
        lookup.take(result);
        if is_last {
            self.lookups.remove(&id).into_iter().for_each(Lookup::answer);
        } else if lookup.is_content()
            && let Some(mut query) = kad.query_mut(&id)
        {
            query.finish();
        }
    }
}

/// Keeps a record for another peer if that has signed it and no newer one is there.
fn store_checked(kad: &mut Behaviour, record: Record) {
    let Ok(offered) = open(&record.key, &record.value) else { return };
    let store = kad.store_mut();
    let held = store.get(&record.key).and_then(|held| open(&held.key, &held.value).ok());
    if held.is_none_or(|held| held.sequence <= offered.sequence) {
        // A full store takes no more; another peer near the key has room.
        let _ = store.put(record);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_the_peer_of_its_key_has_signed_is_kept() {
        let (key, other) = (Keypair::generate_ed25519(), Keypair::generate_ed25519());
        let under = key_of(&key.public().to_peer_id());
        let mut kad = behaviour(PeerId::random());
        for value in [b"junk".to_vec(), sign(&other, vec![]).unwrap(), vec![0; 3000]] {
            store_checked(&mut kad, Record::new(under.clone(), value));
            assert!(kad.store_mut().get(&under).is_none());
        }
        store_checked(&mut kad, Record::new(under.clone(), sign(&key, vec![]).unwrap()));
        assert!(kad.store_mut().get(&under).is_some());
    }
}
