//! [`Routing`]: the routing tables of many peers, without a network between them. The library fills each table, as it
//! does in a node; the walk from one to the next is that of Kademlia, told here once more, since the library walks only
//! over connections, and since ten thousand of its tables at a time take 12 GB.

use std::collections::{BTreeMap, HashMap, HashSet};

use ketch::swarm::{
    PeerId,
    kad::{self, HOLDERS, PARALLELISM, REPLICATION},
};
use libp2p::{
    identity::Keypair,
    kad::{KBucketDistance, KBucketKey, RecordKey},
};

/// Neighbours, on each side, that a peer has met: buckets of the near are full with them.
const NEAR: usize = 200;

/// Others that a peer has met: buckets of the far are full with them.
const FAR: usize = 400;

/// What came of a lookup.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    pub(crate) found: bool,
    /// Peers on the way to the first holder of the record, itself included: each was named by the one before.
    pub(crate) steps: u32,
    /// Peers that were asked, and those of them that did not answer.
    pub(crate) questions: u32,
    pub(crate) unanswered: u32,
}

/// A peer, by its place on the ring of hashed names.
type Place = usize;

/// Peers that know some of each other.
pub(crate) struct Routing {
    ring: Vec<KBucketKey<PeerId>>,
    tables: Vec<Vec<Place>>,
    holders: HashMap<Place, Vec<Place>>,
    gone: HashSet<Place>,
}

/// Whom a walk has heard of, the nearest first, and how many peers lie between.
type Heard = BTreeMap<KBucketDistance, (Place, u32)>;

impl Routing {
    /// Peers that have been there for long: their tables are as full as there are peers for them.
    pub(crate) fn new(count: usize) -> Self {
        let mut ring: Vec<_> = (0..count).map(|number| KBucketKey::from(peer(number))).collect();
        ring.sort_by(|left, right| left.hashed_bytes().cmp(right.hashed_bytes()));
        let places = ring.iter().enumerate().map(|(place, key)| (*key.preimage(), place)).collect();
        let mut draws = Draws::default();
        let tables = (0..count).map(|place| table(place, &ring, &places, &mut draws)).collect();
        Self { ring, tables, holders: HashMap::new(), gone: HashSet::new() }
    }

    /// A peer leaves its addresses, and another looks for it.
    pub(crate) fn publish_and_find(&mut self, number: usize) -> Lookup {
        let (from, to) = self.pair(number);
        let (heard, _) = self.walk(to, to, usize::MAX);
        let nearest = heard.into_values().take(REPLICATION.get()).map(|(place, _)| place);
        self.holders.insert(to, nearest.collect());
        self.find(from, to)
    }

    /// The same lookup, if who looked and who is looked for are still there.
    pub(crate) fn find_again(&mut self, number: usize) -> Option<Lookup> {
        let (from, to) = self.pair(number);
        let stayed = !self.gone.contains(&from) && !self.gone.contains(&to);
        stayed.then(|| self.find(from, to))
    }

    /// Every so manyth peer is gone without a word.
    pub(crate) fn lose_every(&mut self, nth: usize) {
        self.gone = (0..self.ring.len()).step_by(nth).collect();
    }

    /// Who looks in a lookup, and for whom: both all over the ring, and each looked for once.
    fn pair(&self, number: usize) -> (Place, Place) {
        let count = self.ring.len();
        (Draws(number as u64).below(count), number * 10 % count)
    }

    fn find(&self, from: Place, to: Place) -> Lookup {
        self.walk(from, to, HOLDERS).1
    }

    /// Asks those nearest to the record of a peer, a few at a time, until so many hold it or all of the nearest have
    /// been asked.
    fn walk(&self, from: Place, to: Place, holders: usize) -> (Heard, Lookup) {
        let key = KBucketKey::new(kad::key_of(self.ring[to].preimage()));
        let holding = self.holders.get(&to).map(Vec::as_slice).unwrap_or_default();
        let mut heard = self.answer(from, &key, 1);
        let (mut asked, mut held, mut lookup) = (HashSet::from([from]), 0, Lookup::default());
        while held < holders {
            let nearest = heard.iter().take(REPLICATION.get()).map(|(distance, named)| (*distance, *named));
            let unasked = nearest.filter(|(_, (place, _))| !asked.contains(place));
            let next: Vec<_> = unasked.take(PARALLELISM.get()).collect();
            if next.is_empty() {
                break;
            }
            for (distance, (place, steps)) in next {
                asked.insert(place);
                lookup.questions += 1;
                if self.gone.contains(&place) {
                    lookup.unanswered += 1;
                    heard.remove(&distance);
                    continue;
                }
                if holding.contains(&place) {
                    held += 1;
                    lookup.steps = if lookup.found { lookup.steps } else { steps };
                    lookup.found = true;
                }
                for (distance, named) in self.answer(place, &key, steps + 1) {
                    let is_known_gone = asked.contains(&named.0) && self.gone.contains(&named.0);
                    if !is_known_gone {
                        heard.entry(distance).or_insert(named);
                    }
                }
            }
        }
        (heard, lookup)
    }

    /// What a peer answers: those nearest to a key of whom it knows.
    fn answer(&self, place: Place, key: &KBucketKey<RecordKey>, steps: u32) -> Heard {
        let known = self.tables[place].iter().map(|known| (self.ring[*known].distance(key), (*known, steps)));
        known.collect::<Heard>().into_iter().take(REPLICATION.get()).collect()
    }
}

/// The same one for the same number.
fn peer(number: usize) -> PeerId {
    let secret = *blake3::hash(&number.to_le_bytes()).as_bytes();
    Keypair::ed25519_from_bytes(secret).unwrap().public().to_peer_id()
}

/// Whom of all that it has met a peer keeps in its table.
fn table(
    place: Place,
    ring: &[KBucketKey<PeerId>],
    places: &HashMap<PeerId, Place>,
    draws: &mut Draws,
) -> Vec<Place> {
    let mut table = kad::behaviour(*ring[place].preimage());
    let near = place.saturating_sub(NEAR)..(place + NEAR).min(ring.len());
    let far = (0..FAR).map(|_| draws.below(ring.len()));
    for met in near.chain(far).filter(|met| *met != place) {
        table.add_address(ring[met].preimage(), "/memory/1".parse().unwrap());
    }
    let kept = table
        .kbuckets()
        .flat_map(|bucket| bucket.iter().map(|entry| places[entry.node.key.preimage()]).collect::<Vec<_>>());
    kept.collect()
}

/// Numbers that are the same each time.
#[derive(Default)]
struct Draws(u64);

impl Draws {
    fn below(&mut self, bound: usize) -> usize {
        self.0 += 1;
        let drawn = blake3::hash(&self.0.to_le_bytes());
        let drawn = u64::from_le_bytes(*drawn.as_bytes().first_chunk().unwrap());
        (drawn % bound as u64) as usize
    }
}
