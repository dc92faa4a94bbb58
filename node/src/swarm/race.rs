//! The race of the addresses of a peer: [`race`] begins attempts in the order of [`order`](super::order) and says which
//! connection to keep. [`Field`] decides, without a clock or a socket.
//!
//! The first connection wins. Where one transport is known to be the faster one on this path, another that connects
//! first shows only that the peer can be reached: it is kept in case nothing comes of the faster one.
//!
//! Addresses may come while the race runs, from names that are being resolved and from whoever looks for the peer
//! elsewhere. An attempt that waits for its turn begins at once when no other one runs.

use std::collections::HashSet;

use futures::{StreamExt as _, stream::FuturesUnordered};
use libp2p::Multiaddr;
use tokio::{
    sync::mpsc,
    time::{Instant, sleep_until},
};

use super::{
    dial::{Attempt, AttemptError},
    limits::{FASTER_GRACE, SEEK_TIMEOUT, TRIED_ADDRESSES},
    order::{Order, View, order},
    resolve::is_named,
};

/// How a race ended well.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Won<C> {
    /// The connection to keep.
    pub(super) connection: C,
    /// Others, to be closed.
    pub(super) beaten: Vec<C>,
}

/// Races the known addresses and those that are found meanwhile. Both `connect` and `resolve` take a bounded time. What
/// still runs at the end is dropped.
pub(super) async fn race<C, Connecting, Resolving>(
    known: Vec<Multiaddr>,
    mut found: mpsc::Receiver<Vec<Multiaddr>>,
    view: View,
    connect: impl Fn(Multiaddr) -> Connecting,
    resolve: impl Fn(Multiaddr) -> Resolving,
) -> Result<Won<C>, Vec<Attempt>>
where
    Connecting: Future<Output = Result<C, AttemptError>>,
    Resolving: Future<Output = Result<Vec<Multiaddr>, AttemptError>>,
{
    let (mut field, mut seeking, began) = (Field::new(view), true, Instant::now());
    let (mut running, mut naming) = (FuturesUnordered::new(), FuturesUnordered::new());
    let named = |address: Multiaddr| {
        let resolving = resolve(address.clone());
        async { (address, resolving.await) }
    };
    naming.extend(field.enter(known, began).into_iter().map(named));
    loop {
        let now = Instant::now();
        if let Some(won) = field.winner(now) {
            return Ok(won);
        }
        while let Some(address) = field.next(now) {
            let connecting = connect(address.clone());
            running.push(async { (address, connecting.await) });
        }
        if running.is_empty() && naming.is_empty() && !seeking {
            return Err(field.failed);
        }
        tokio::select! {
            Some((address, tried)) = running.next() => field.tried(address, tried, Instant::now()),
            Some((address, resolved)) = naming.next() => match resolved {
                // What a name stands for is no name.
                Ok(addresses) => drop(field.enter(addresses, Instant::now())),
                Err(cause) => field.failed.push(Attempt { address, cause }),
            },
            more = found.recv(), if seeking => match more {
                Some(more) => naming.extend(field.enter(more, Instant::now()).into_iter().map(named)),
                None => seeking = false,
            },
            () = sleep_until(began + SEEK_TIMEOUT), if seeking => seeking = false,
            () = until(field.alarm()) => {}
        }
    }
}

async fn until(alarm: Option<Instant>) {
    match alarm {
        Some(alarm) => sleep_until(alarm).await,
        None => std::future::pending().await,
    }
}

/// The addresses of a race, and what came of them.
#[derive(Debug)]
struct Field<C> {
    view: View,
    seen: HashSet<Multiaddr>,
    /// What is to be tried, the earliest last.
    waiting: Vec<(Instant, Multiaddr)>,
    running: Vec<Multiaddr>,
    connected: Connected<C>,
    /// Connections that came after one that is as good.
    beaten: Vec<C>,
    failed: Vec<Attempt>,
}

/// What there is of connections.
#[derive(Debug)]
enum Connected<C> {
    None,
    /// Over the slower transport; until then the faster one may still come.
    Slower(C, Instant),
    Best(C),
}

impl<C> Field<C> {
    fn new(view: View) -> Self {
        let (seen, waiting, running, beaten, failed) = Default::default();
        Self { view, seen, waiting, running, connected: Connected::None, beaten, failed }
    }

    /// Takes addresses in; gives those back whose names have to be resolved first. Beyond the bound they are left out.
    fn enter(&mut self, mut addresses: Vec<Multiaddr>, now: Instant) -> Vec<Multiaddr> {
        addresses.retain(|address| self.seen.len() < TRIED_ADDRESSES && self.seen.insert(address.clone()));
        let (named, addresses) = addresses.into_iter().partition(is_named);
        let Order { starts, senseless } = order(addresses, &self.view);
        self.failed.extend(senseless.into_iter().map(|(address, cause)| Attempt { address, cause }));
        self.waiting.extend(starts.into_iter().map(|(after, address)| (now + after, address)).rev());
        self.waiting.sort_by(|(one, _), (other, _)| other.cmp(one));
        named
    }

    /// The next address whose attempt begins now, if there is one.
    fn next(&mut self, now: Instant) -> Option<Multiaddr> {
        let (begins, _) = self.waiting.last()?;
        if *begins > now && !self.running.is_empty() {
            return None;
        }
        let (_, address) = self.waiting.pop()?;
        self.running.push(address.clone());
        Some(address)
    }

    /// When something is to be done though nothing has happened.
    fn alarm(&self) -> Option<Instant> {
        let begins = self.waiting.last().map(|(begins, _)| *begins);
        let ends = if let Connected::Slower(_, ends) = &self.connected { Some(*ends) } else { None };
        begins.into_iter().chain(ends).min()
    }

    /// Notes what came of an attempt.
    fn tried(&mut self, address: Multiaddr, tried: Result<C, AttemptError>, now: Instant) {
        self.running.retain(|running| *running != address);
        let is_best = self.view.faster.is_none() || self.view.prefers(&address);
        let connection = match tried {
            Ok(connection) => connection,
            Err(cause) => return self.failed.push(Attempt { address, cause }),
        };
        self.connected = match std::mem::replace(&mut self.connected, Connected::None) {
            Connected::None if is_best => Connected::Best(connection),
            Connected::None => Connected::Slower(connection, now + FASTER_GRACE),
            Connected::Slower(slower, _) if is_best => {
                self.beaten.push(slower);
                Connected::Best(connection)
            }
            as_good @ (Connected::Slower(..) | Connected::Best(_)) => {
                self.beaten.push(connection);
                as_good
            }
        };
        // The peer can be reached: only what is better is still worth an attempt.
        self.waiting.retain(|(_, address)| self.view.prefers(address));
    }

    /// The connection to keep, once that is decided.
    fn winner(&mut self, now: Instant) -> Option<Won<C>> {
        let better = self.waiting.iter().map(|(_, address)| address).chain(&self.running);
        let may_improve = better.into_iter().any(|address| self.view.prefers(address));
        let connection = match std::mem::replace(&mut self.connected, Connected::None) {
            Connected::None => return None,
            Connected::Slower(slower, ends) if may_improve && now < ends => {
                self.connected = Connected::Slower(slower, ends);
                return None;
            }
            Connected::Slower(connection, _) | Connected::Best(connection) => connection,
        };
        Some(Won { connection, beaten: std::mem::take(&mut self.beaten) })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ketch_channel::TransportKind;
    use tokio::time::sleep;

    use super::*;

    const QUIC: &str = "/ip4/192.0.2.1/udp/1/quic-v1";
    const TCP: &str = "/ip4/192.0.2.1/tcp/1";
    const NAME: &str = "/dns4/example.org/tcp/1";

    /// What comes of an address, and after how many milliseconds.
    type Fate = (&'static str, u64, bool);

    fn address(text: &str) -> Multiaddr {
        text.parse().unwrap()
    }

    async fn connect(fates: &[Fate], address: Multiaddr) -> Result<String, AttemptError> {
        let text = address.to_string();
        let (_, ms, connects) = fates.iter().find(|(known, ..)| *known == text).unwrap();
        sleep(Duration::from_millis(*ms)).await;
        if *connects { Ok(text) } else { Err(AttemptError::Other("dead".into())) }
    }

    /// The name stands for the TCP address, after a second.
    async fn resolve(_: Multiaddr) -> Result<Vec<Multiaddr>, AttemptError> {
        sleep(Duration::from_secs(1)).await;
        Ok(vec![address(TCP)])
    }

    fn nobody_else() -> mpsc::Receiver<Vec<Multiaddr>> {
        mpsc::channel(1).1
    }

    /// Which address wins when the known ones meet these fates, and after how many milliseconds.
    async fn outcome(
        known: &[&str],
        view: View,
        fates: &[Fate],
    ) -> (Result<Won<String>, Vec<Attempt>>, u128) {
        let began = Instant::now();
        let known = known.iter().map(|text| address(text)).collect();
        let won = race(known, nobody_else(), view, |address| connect(fates, address), resolve).await;
        (won, began.elapsed().as_millis())
    }

    async fn winner(known: &[&str], view: View, fates: &[Fate]) -> (String, u128) {
        let (won, ms) = outcome(known, view, fates).await;
        (won.unwrap().connection, ms)
    }

    #[tokio::test(start_paused = true)]
    async fn quic_wins_unless_tcp_is_faster_by_the_stagger() {
        for (quic_ms, wins, after_ms) in [(100, QUIC, 100), (289, QUIC, 289), (291, TCP, 290)] {
            let fates = [(QUIC, quic_ms, true), (TCP, 40, true)];
            let won = winner(&[TCP, QUIC], View::default(), &fates).await;
            assert_eq!(won, (wins.into(), after_ms));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_lets_the_next_begin_at_once() {
        let fates = [(QUIC, 10, false), (TCP, 40, true)];
        assert_eq!(winner(&[QUIC, TCP], View::default(), &fates).await, (TCP.into(), 50));
    }

    #[tokio::test(start_paused = true)]
    async fn the_faster_transport_is_taken_though_another_connects_first() {
        let faster = || View { faster: Some(TransportKind::Tcp), ..View::default() };
        let both = [(QUIC, 20, true), (TCP, 600, true)];
        let (won, ms) = outcome(&[QUIC, TCP], faster(), &both).await;
        let expected = Won { connection: TCP.to_owned(), beaten: vec![QUIC.to_owned()] };
        assert_eq!((won.unwrap(), ms), (expected, 600));
        // QUIC begins after 250 ms, and a second later nothing has come of TCP.
        let silent = [(QUIC, 20, true), (TCP, 9_000, true)];
        assert_eq!(winner(&[QUIC, TCP], faster(), &silent).await, (QUIC.into(), 1_270));
        let dead = [(QUIC, 20, true), (TCP, 300, false)];
        assert_eq!(winner(&[QUIC, TCP], faster(), &dead).await, (QUIC.into(), 300));
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_is_resolved_while_others_run() {
        let fates = [(QUIC, 5_000, true), (TCP, 40, true)];
        let won = winner(&[NAME, QUIC], View::default(), &fates).await;
        // TCP gives QUIC the stagger, counted from when its address was known.
        assert_eq!(won, (TCP.into(), 1_290));
        assert_eq!(winner(&[NAME], View::default(), &fates).await, (TCP.into(), 1_040));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_found_while_it_runs_takes_part() {
        let (finder, found) = mpsc::channel(1);
        let finding = async {
            sleep(Duration::from_millis(700)).await;
            finder.send(vec![address(QUIC)]).await.unwrap();
            finder.closed().await;
        };
        let fates = [(QUIC, 10, true), (TCP, 20, false)];
        let began = Instant::now();
        let known = vec![address(TCP)];
        let racing = race(known, found, View::default(), |address| connect(&fates, address), resolve);
        let (won, ()) = tokio::join!(
            async move {
                let won = racing.await;
                (won, began.elapsed().as_millis())
            },
            finding
        );
        assert_eq!((won.0.unwrap().connection, won.1), (QUIC.to_owned(), 710));
    }

    #[tokio::test(start_paused = true)]
    async fn who_looks_elsewhere_and_finds_nothing_does_not_hold_it_for_ever() {
        let (_finder, found) = mpsc::channel(1);
        let fates = [(TCP, 20, false)];
        let began = Instant::now();
        let failed =
            race(vec![address(TCP)], found, View::default(), |at| connect(&fates, at), resolve).await;
        assert_eq!(failed.unwrap_err().len(), 1);
        assert_eq!(began.elapsed(), SEEK_TIMEOUT);
    }

    #[tokio::test(start_paused = true)]
    async fn every_failure_is_told_once() {
        let fates = [(QUIC, 10, false), (TCP, 20, false)];
        let known = [QUIC, TCP, QUIC, "/ip4/0.0.0.0/tcp/1"];
        let (failed, _) = outcome(&known, View::default(), &fates).await;
        let told: Vec<_> = failed.unwrap_err().iter().map(|attempt| attempt.address.to_string()).collect();
        assert_eq!(told, ["/ip4/0.0.0.0/tcp/1", QUIC, TCP]);
    }

    #[test]
    fn no_more_addresses_take_part_than_the_bound() {
        let mut field = Field::<()>::new(View::default());
        let crowd = |port: u16| format!("/ip4/192.0.2.1/tcp/{port}").parse().unwrap();
        field.enter((1..1000).map(crowd).collect(), Instant::now());
        assert_eq!(field.waiting.len(), TRIED_ADDRESSES);
    }
}
