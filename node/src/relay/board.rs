//! [`Board`]: where peers leave signed addresses under a name, for others that know the name.

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    time::{Duration, Instant},
};

use super::limits::{POSTED, POSTED_BY_ORIGIN, POSTED_BY_PEER, SWEEP_INTERVAL};
use crate::swarm::PeerId;

/// Longest name, in bytes, as the specification has it.
pub const NAME_BYTES: usize = 255;

/// Longest record, in bytes: sixteen addresses of 255 bytes, a key and a signature.
pub const RECORD_BYTES: usize = 4_608;

/// Longest time that something is kept: three days, as the specification has it.
pub const LONGEST: Duration = Duration::from_secs(72 * 3600);

/// Time that something is kept whose owner says none, as the specification has it.
pub const USUAL: Duration = Duration::from_secs(2 * 3600);

/// What is shown to one that looks, at most.
pub const SHOWN: usize = 64;

/// What one peer has left under one name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Posted {
    /// The record, as the peer signed it.
    pub record: Vec<u8>,
    /// How much longer it is kept.
    pub left: Duration,
}

/// Why something was not taken, or nothing is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BoardError {
    /// There is none, or it is too long. Nobody is shown everything.
    Name,
    /// It is too long.
    Record,
    /// It is too long, or none.
    Time,
    /// There is no room for more: from this peer, from where it is, or at all.
    Full,
}

/// Where peers leave signed addresses. Times must not run backwards.
#[derive(Debug, Default)]
pub struct Board {
    names: BTreeMap<String, BTreeMap<PeerId, Entry>>,
    by_peer: HashMap<PeerId, usize>,
    by_origin: HashMap<Option<IpAddr>, usize>,
    count: usize,
    numbered: u64,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct Entry {
    record: Vec<u8>,
    origin: Option<IpAddr>,
    until: Instant,
    number: u64,
}

impl Board {
    /// Takes a record of a peer, in the place of what it left under the same name. Says how long it is kept.
    pub fn post(
        &mut self,
        name: &str,
        (peer, origin): (PeerId, Option<IpAddr>),
        record: Vec<u8>,
        time: Option<Duration>,
        now: Instant,
    ) -> Result<Duration, BoardError> {
        check_name(name)?;
        let time = time.unwrap_or(USUAL);
        if time.is_zero() || time > LONGEST {
            return Err(BoardError::Time);
        }
        if record.len() > RECORD_BYTES {
            return Err(BoardError::Record);
        }
        self.sweep(now);
        self.withdraw(name, &peer);
        let is_full = |counted: Option<&usize>, most| counted.is_some_and(|count| *count >= most);
        if self.count >= POSTED
            || is_full(self.by_peer.get(&peer), POSTED_BY_PEER)
            || is_full(self.by_origin.get(&origin), POSTED_BY_ORIGIN)
        {
            return Err(BoardError::Full);
        }
        self.numbered += 1;
        let entry = Entry { record, origin, until: now + time, number: self.numbered };
        self.names.entry(name.into()).or_default().insert(peer, entry);
        *self.by_peer.entry(peer).or_default() += 1;
        *self.by_origin.entry(origin).or_default() += 1;
        self.count += 1;
        Ok(time)
    }

    /// Takes back what a peer has left under a name.
    pub fn withdraw(&mut self, name: &str, peer: &PeerId) {
        let Some(entries) = self.names.get_mut(name) else { return };
        if let Some(entry) = entries.remove(peer) {
            if entries.is_empty() {
                self.names.remove(name);
            }
            self.forget(*peer, entry.origin);
        }
    }

    /// What is left under a name, the newest first, without what has a number up to `after`; and the greatest number.
    pub fn look(
        &self,
        name: &str,
        after: u64,
        most: usize,
        now: Instant,
    ) -> Result<(Vec<Posted>, u64), BoardError> {
        check_name(name)?;
        let entries = self.names.get(name).into_iter().flatten().map(|(_, entry)| entry);
        let mut found: Vec<_> = entries.filter(|entry| entry.number > after && entry.until > now).collect();
        found.sort_by_key(|entry| std::cmp::Reverse(entry.number));
        found.truncate(most.min(SHOWN));
        let shown =
            found.into_iter().map(|entry| Posted { record: entry.record.clone(), left: entry.until - now });
        Ok((shown.collect(), self.numbered))
    }

    /// How much is kept.
    pub fn len(&self) -> usize {
        self.count
    }

    /// Whether nothing is kept.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP_INTERVAL) {
            return;
        }
        self.swept = Some(now);
        let mut expired = Vec::new();
        self.names.retain(|_, entries| {
            entries.retain(|peer, entry| {
                let is_kept = entry.until > now;
                if !is_kept {
                    expired.push((*peer, entry.origin));
                }
                is_kept
            });
            !entries.is_empty()
        });
        expired.into_iter().for_each(|(peer, origin)| self.forget(peer, origin));
    }

    fn forget(&mut self, peer: PeerId, origin: Option<IpAddr>) {
        self.count -= 1;
        subtract(&mut self.by_peer, peer);
        subtract(&mut self.by_origin, origin);
    }
}

fn check_name(name: &str) -> Result<(), BoardError> {
    if name.is_empty() || name.len() > NAME_BYTES { Err(BoardError::Name) } else { Ok(()) }
}

fn subtract<K: Eq + std::hash::Hash>(counts: &mut HashMap<K, usize>, key: K) {
    if let std::collections::hash_map::Entry::Occupied(mut count) = counts.entry(key) {
        *count.get_mut() -= 1;
        if *count.get() == 0 {
            count.remove();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn post(board: &mut Board, name: &str, peer: PeerId, now: Instant) -> Result<Duration, BoardError> {
        board.post(name, (peer, None), b"record".to_vec(), None, now)
    }

    fn shown(board: &Board, name: &str, after: u64, now: Instant) -> usize {
        board.look(name, after, usize::MAX, now).unwrap().0.len()
    }

    #[test]
    fn what_was_left_is_shown_under_its_name_until_it_expires_or_is_withdrawn() {
        let (mut board, now) = (Board::default(), Instant::now());
        let [a, b] = std::array::from_fn(|_| PeerId::random());
        assert_eq!(post(&mut board, "x", a, now), Ok(USUAL));
        let (_, seen) = board.look("x", 0, 10, now).unwrap();
        post(&mut board, "x", b, now).unwrap();
        post(&mut board, "y", a, now).unwrap();
        assert_eq!(
            (shown(&board, "x", 0, now), shown(&board, "x", seen, now), shown(&board, "z", 0, now)),
            (2, 1, 0)
        );
        board.withdraw("x", &a);
        assert_eq!((shown(&board, "x", 0, now), shown(&board, "y", 0, now)), (1, 1));
        assert_eq!(shown(&board, "x", 0, now + USUAL), 0);
        post(&mut board, "z", a, now + USUAL).unwrap();
        assert_eq!(board.len(), 1);
    }

    #[test]
    fn nobody_is_shown_everything() {
        let board = Board::default();
        assert_eq!(board.look("", 0, 10, Instant::now()).unwrap_err(), BoardError::Name);
    }

    #[test]
    fn what_is_too_long_is_not_taken() {
        let (mut board, now, peer) = (Board::default(), Instant::now(), PeerId::random());
        assert_eq!(post(&mut board, &"n".repeat(256), peer, now), Err(BoardError::Name));
        let owner = (peer, None);
        let long = board.post("n", owner, vec![0; RECORD_BYTES + 1], None, now);
        assert_eq!(long, Err(BoardError::Record));
        for time in [Duration::ZERO, LONGEST + Duration::from_secs(1)] {
            assert_eq!(board.post("n", owner, Vec::new(), Some(time), now), Err(BoardError::Time));
        }
        assert!(board.is_empty());
    }

    #[test]
    fn a_peer_that_posts_again_and_again_takes_one_place() {
        let (mut board, now, peer) = (Board::default(), Instant::now(), PeerId::random());
        for _ in 0..1_000 {
            post(&mut board, "n", peer, now).unwrap();
        }
        assert_eq!(board.len(), 1);
        for number in 1..POSTED_BY_PEER {
            post(&mut board, &number.to_string(), peer, now).unwrap();
        }
        assert_eq!(post(&mut board, "one more", peer, now), Err(BoardError::Full));
        assert!(post(&mut board, "n", peer, now).is_ok());
    }

    #[test]
    fn many_identities_behind_one_address_leave_room_for_others() {
        let (mut board, now) = (Board::default(), Instant::now());
        let origin = |last| Some(IpAddr::from([192, 0, 2, last]));
        let mut taken = 0;
        for _ in 0..POSTED_BY_ORIGIN * 2 {
            let owner = (PeerId::random(), origin(1));
            taken += usize::from(board.post("n", owner, Vec::new(), None, now).is_ok());
        }
        assert_eq!(taken, POSTED_BY_ORIGIN);
        assert!(board.post("n", (PeerId::random(), origin(2)), Vec::new(), None, now).is_ok());
    }
}
