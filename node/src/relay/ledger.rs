//! [`Ledger`]: who has what of a relay.

use std::{
    collections::HashMap,
    net::IpAddr,
    time::{Duration, Instant},
};

use super::{
    limits::{COUNTED_PEERS, TRAFFIC_PERIOD},
    policy::{Allowance, Carrying, Policy},
};
use crate::swarm::PeerId;

/// Why a relay says no.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Refusal {
    /// As many reservations are held as are allowed.
    Reservations,
    /// As many are held from where the peer comes.
    ReservationsOfAddress,
    /// As many circuits are open as are allowed.
    Circuits,
    /// As many are open from or to one of the peers.
    CircuitsOfPeer,
    /// The peer at the other end has no reservation.
    NoReservation,
    /// As much was carried for one of the peers in this hour as is allowed.
    TrafficOfPeer,
    /// As much was carried in this hour as is allowed.
    Traffic,
    /// The peer at the other end did not take the circuit.
    NotTaken,
}

/// Why a circuit is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Cut {
    /// It carried as many bytes as it may.
    Bytes,
    /// It lasted as long as it may.
    Time,
    /// As much was carried for one of its peers in this hour as is allowed.
    TrafficOfPeer,
    /// As much was carried in this hour as is allowed.
    Traffic,
}

/// What has happened since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counts {
    /// Reservations that were granted, renewals left out.
    pub reservations: u64,
    /// Circuits that were opened.
    pub circuits: u64,
    /// Bytes that circuits carried.
    pub bytes: u64,
    /// What was refused, by reason.
    pub refused: HashMap<Refusal, u64>,
    /// Circuits that were cut, by reason.
    pub cut: HashMap<Cut, u64>,
}

/// Names an open circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct CircuitNumber(u64);

/// Who has what of a relay. Times must not run backwards.
#[derive(Debug)]
pub struct Ledger {
    policy: Policy,
    reservations: HashMap<PeerId, Reserved>,
    circuits: HashMap<CircuitNumber, Open>,
    opened: u64,
    traffic_of: HashMap<PeerId, Traffic>,
    traffic: Traffic,
    counts: Counts,
}

#[derive(Debug)]
struct Reserved {
    origin: Option<IpAddr>,
    until: Instant,
}

#[derive(Debug)]
struct Open {
    ends: [PeerId; 2],
    allowance: Allowance,
    /// Whether what each of its peers has carried in an hour has a limit.
    is_counted: bool,
    carried: u64,
}

/// Bytes in the hour that began at a time.
#[derive(Debug, Clone, Copy, Default)]
struct Traffic {
    since: Option<Instant>,
    bytes: u64,
}

impl Traffic {
    fn at(&self, now: Instant) -> u64 {
        if self.is_over(now) { 0 } else { self.bytes }
    }

    fn add(&mut self, bytes: u64, now: Instant) -> u64 {
        if self.is_over(now) {
            *self = Self { since: Some(now), bytes: 0 };
        }
        self.bytes += bytes;
        self.bytes
    }

    fn is_over(&self, now: Instant) -> bool {
        self.since.is_none_or(|since| now.duration_since(since) >= TRAFFIC_PERIOD)
    }
}

impl Ledger {
    /// A relay at its start.
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            reservations: HashMap::new(),
            circuits: HashMap::new(),
            opened: 0,
            traffic_of: HashMap::new(),
            traffic: Traffic::default(),
            counts: Counts::default(),
        }
    }

    /// What it goes by.
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// What has happened.
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// How many reservations are held at a time.
    pub fn held(&self, now: Instant) -> usize {
        self.reservations.values().filter(|reserved| reserved.until > now).count()
    }

    /// How many circuits are open.
    pub fn open_circuits(&self) -> usize {
        self.circuits.len()
    }

    /// Gives a peer a reservation, or renews the one it has. Says how long it lasts, and what circuits to the peer may
    /// carry at least.
    pub fn reserve(
        &mut self,
        peer: PeerId,
        origin: Option<IpAddr>,
        now: Instant,
    ) -> Result<(Duration, Allowance), Refusal> {
        let is_new = !self.has_reservation(&peer, now);
        if is_new {
            self.reservations.retain(|_, reserved| reserved.until > now);
            self.check_room(origin).map_err(|refusal| self.refused(refusal))?;
            self.counts.reservations += 1;
        }
        let time = self.policy.reservation_time;
        self.reservations.insert(peer, Reserved { origin, until: now + time });
        Ok((time, self.policy.allowance(self.policy.carrying_for(&peer))))
    }

    fn check_room(&self, origin: Option<IpAddr>) -> Result<(), Refusal> {
        if self.reservations.len() >= self.policy.reservations {
            return Err(Refusal::Reservations);
        }
        let near = self.reservations.values().filter(|reserved| reserved.origin == origin).count();
        if near >= self.policy.reservations_per_address {
            return Err(Refusal::ReservationsOfAddress);
        }
        Ok(())
    }

    /// Ends a peer's reservation.
    pub fn release(&mut self, peer: &PeerId) {
        self.reservations.remove(peer);
    }

    /// Opens a circuit, which is to be closed.
    pub fn open(
        &mut self,
        from: PeerId,
        to: PeerId,
        now: Instant,
    ) -> Result<(CircuitNumber, Allowance), Refusal> {
        self.check_circuit(from, to, now).map_err(|refusal| self.refused(refusal))?;
        let carrying = self.policy.carrying_for(&from).max(self.policy.carrying_for(&to));
        let allowance = self.policy.allowance(carrying);
        self.opened += 1;
        let number = CircuitNumber(self.opened);
        let is_counted = carrying != Carrying::On;
        self.circuits.insert(number, Open { ends: [from, to], allowance, is_counted, carried: 0 });
        Ok((number, allowance))
    }

    fn check_circuit(&mut self, from: PeerId, to: PeerId, now: Instant) -> Result<(), Refusal> {
        if !self.has_reservation(&to, now) {
            return Err(Refusal::NoReservation);
        }
        if self.circuits.len() >= self.policy.circuits {
            return Err(Refusal::Circuits);
        }
        let most = self.policy.circuits_per_peer;
        if [from, to].iter().any(|peer| self.circuits_of(peer) >= most) {
            return Err(Refusal::CircuitsOfPeer);
        }
        if self.traffic_of.len() + 2 > COUNTED_PEERS {
            self.traffic_of.retain(|_, traffic| !traffic.is_over(now));
        }
        let bytes_of = |peer: &PeerId| self.traffic_of.get(peer).map_or(0, |traffic| traffic.at(now));
        let is_used_up = |peer: &PeerId| {
            let is_exempt = self.policy.carrying_for(peer) == Carrying::On;
            !is_exempt && self.policy.hourly_bytes_per_peer.is_some_and(|most| bytes_of(peer) >= most)
        };
        if is_used_up(&from) || is_used_up(&to) || self.traffic_of.len() + 2 > COUNTED_PEERS {
            return Err(Refusal::TrafficOfPeer);
        }
        if self.policy.hourly_bytes.is_some_and(|most| self.traffic.at(now) >= most) {
            return Err(Refusal::Traffic);
        }
        Ok(())
    }

    /// Notes that the other end took the circuit.
    pub fn taken(&mut self) {
        self.counts.circuits += 1;
    }

    /// Asks to carry bytes over a circuit. After a no the circuit is to be closed.
    pub fn carry(&mut self, number: CircuitNumber, bytes: u64, now: Instant) -> Result<(), Cut> {
        let Some(circuit) = self.circuits.get_mut(&number) else { return Err(Cut::Time) };
        circuit.carried += bytes;
        let is_over = circuit.allowance.bytes.is_some_and(|most| circuit.carried > most);
        let (ends, is_counted) = (circuit.ends, circuit.is_counted);
        if is_over {
            return Err(self.cut(Cut::Bytes));
        }
        let of_peers = ends.map(|peer| self.traffic_of.entry(peer).or_default().add(bytes, now));
        let most = self.policy.hourly_bytes_per_peer.filter(|_| is_counted);
        if most.is_some_and(|most| of_peers.iter().any(|carried| *carried > most)) {
            return Err(self.cut(Cut::TrafficOfPeer));
        }
        let of_all = self.traffic.add(bytes, now);
        if self.policy.hourly_bytes.is_some_and(|most| of_all > most) {
            return Err(self.cut(Cut::Traffic));
        }
        self.counts.bytes += bytes;
        Ok(())
    }

    /// Counts a circuit that is cut, for the reason given.
    pub fn cut(&mut self, cut: Cut) -> Cut {
        *self.counts.cut.entry(cut).or_default() += 1;
        cut
    }

    /// Counts a refusal.
    pub fn refused(&mut self, refusal: Refusal) -> Refusal {
        *self.counts.refused.entry(refusal).or_default() += 1;
        refusal
    }

    /// Ends a circuit.
    pub fn close(&mut self, number: CircuitNumber) {
        self.circuits.remove(&number);
    }

    fn has_reservation(&self, peer: &PeerId, now: Instant) -> bool {
        self.reservations.get(peer).is_some_and(|reserved| reserved.until > now)
    }

    fn circuits_of(&self, peer: &PeerId) -> usize {
        self.circuits.values().filter(|circuit| circuit.ends.contains(peer)).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: Duration = Duration::from_secs(3600);

    fn origin(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([192, 0, 2, last]))
    }

    fn small() -> Policy {
        Policy {
            reservations: 3,
            reservations_per_address: 2,
            reservation_time: HOUR,
            circuits: 3,
            circuits_per_peer: 2,
            circuit: Allowance { bytes: Some(100), time: None },
            hourly_bytes_per_peer: Some(150),
            hourly_bytes: Some(400),
            ..Policy::default()
        }
    }

    fn peers<const N: usize>() -> [PeerId; N] {
        std::array::from_fn(|_| PeerId::random())
    }

    #[test]
    fn reservations_are_limited_by_address_and_in_all_and_renewals_are_not_counted() {
        let (mut ledger, now, [a, b, c, d, e]) = (Ledger::new(small()), Instant::now(), peers());
        for (peer, origin, granted) in [
            (a, origin(1), Ok(())),
            (b, origin(1), Ok(())),
            (c, origin(1), Err(Refusal::ReservationsOfAddress)),
            (a, origin(1), Ok(())),
            (d, origin(2), Ok(())),
            (e, origin(3), Err(Refusal::Reservations)),
            (d, origin(2), Ok(())),
        ] {
            assert_eq!(ledger.reserve(peer, origin, now).map(|_| ()), granted);
        }
        assert_eq!((ledger.held(now), ledger.counts().reservations), (3, 3));
        assert_eq!(ledger.counts().refused[&Refusal::Reservations], 1);
    }

    #[test]
    fn a_thousand_identities_behind_one_address_get_the_share_of_one_address() {
        let (mut ledger, now) = (Ledger::new(Policy::default()), Instant::now());
        let granted = (0..1_000).filter(|_| ledger.reserve(PeerId::random(), origin(1), now).is_ok()).count();
        assert_eq!(granted, Policy::default().reservations_per_address);
        assert_eq!(ledger.counts().refused[&Refusal::ReservationsOfAddress], 1_000 - granted as u64);
        assert!(ledger.reserve(PeerId::random(), origin(2), now).is_ok());
    }

    #[test]
    fn a_reservation_that_ends_or_expires_makes_room() {
        let (mut ledger, now, [a, b, c, d]) = (Ledger::new(small()), Instant::now(), peers());
        for (last, peer) in [a, b, c].into_iter().enumerate() {
            ledger.reserve(peer, origin(last as u8), now).unwrap();
        }
        ledger.release(&a);
        assert!(ledger.reserve(d, origin(9), now).is_ok());
        assert_eq!(
            ledger.reserve(a, origin(0), now + HOUR - Duration::from_secs(1)),
            Err(Refusal::Reservations)
        );
        assert!(ledger.reserve(a, origin(0), now + HOUR).is_ok());
        assert_eq!(ledger.held(now + HOUR), 1);
    }

    #[test]
    fn a_circuit_takes_a_reservation_at_its_other_end_and_room() {
        let (mut ledger, now, [a, b, c]) = (Ledger::new(small()), Instant::now(), peers());
        assert_eq!(ledger.open(a, b, now).unwrap_err(), Refusal::NoReservation);
        for (last, peer) in [a, b, c].into_iter().enumerate() {
            ledger.reserve(peer, origin(last as u8), now).unwrap();
        }
        let (first, _) = ledger.open(a, b, now).unwrap();
        ledger.open(b, a, now).unwrap();
        assert_eq!(ledger.open(a, c, now).unwrap_err(), Refusal::CircuitsOfPeer);
        assert_eq!(ledger.open(c, b, now).unwrap_err(), Refusal::CircuitsOfPeer);
        ledger.open(c, c, now).unwrap();
        assert_eq!(ledger.open(c, c, now).unwrap_err(), Refusal::Circuits);
        ledger.close(first);
        assert!(ledger.open(a, c, now).is_ok());
        assert_eq!(ledger.open(a, b, now + HOUR).unwrap_err(), Refusal::NoReservation);
    }

    #[test]
    fn a_circuit_is_cut_beyond_its_bytes_and_those_of_its_peers_in_an_hour() {
        let (mut ledger, now, [a, b]) = (Ledger::new(small()), Instant::now(), peers());
        ledger.reserve(b, origin(1), now).unwrap();
        let (first, allowance) = ledger.open(a, b, now).unwrap();
        assert_eq!(allowance.bytes, Some(100));
        assert_eq!(ledger.carry(first, 100, now), Ok(()));
        assert_eq!(ledger.carry(first, 1, now), Err(Cut::Bytes));
        ledger.close(first);
        let (second, _) = ledger.open(a, b, now).unwrap();
        assert_eq!(ledger.carry(second, 50, now), Ok(()));
        assert_eq!(ledger.carry(second, 1, now), Err(Cut::TrafficOfPeer));
        ledger.close(second);
        assert_eq!(ledger.open(a, b, now).unwrap_err(), Refusal::TrafficOfPeer);
        ledger.reserve(b, origin(1), now + HOUR).unwrap();
        assert!(ledger.open(a, b, now + HOUR).is_ok());
        assert_eq!(ledger.counts().bytes, 150);
    }

    #[test]
    fn a_listed_peer_carries_what_all_together_may() {
        let [friend, other] = peers();
        let policy = Policy { listed: [(friend, Carrying::On)].into(), ..small() };
        let (mut ledger, now) = (Ledger::new(policy), Instant::now());
        ledger.reserve(friend, origin(1), now).unwrap();
        let (circuit, allowance) = ledger.open(other, friend, now).unwrap();
        assert_eq!(allowance, Allowance::default());
        assert_eq!(ledger.carry(circuit, 400, now), Ok(()));
        assert_eq!(ledger.carry(circuit, 1, now), Err(Cut::Traffic));
        ledger.close(circuit);
        assert_eq!(ledger.open(friend, friend, now).unwrap_err(), Refusal::Traffic);
    }
}
