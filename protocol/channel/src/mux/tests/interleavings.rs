//! Whatever two sides do at once, all bytes arrive in order, and neither waits for ever: with ourselves, and with the
//! stock multiplexer at either end.

use std::{collections::BTreeSet, pin::pin, sync::Arc};

use futures::future::{Either, select};
use proptest::{collection::vec, prelude::*, sample};
use tokio::{
    io::duplex,
    runtime,
    task::{JoinSet, yield_now},
};
use tokio_util::compat::TokioAsyncReadCompatExt as _;

use super::*;

/// What one side does on a stream.
#[derive(Debug, Clone)]
struct Side {
    /// The lengths of its writes, before each of which it lets others go first so many times.
    writes: Vec<(usize, usize)>,
    /// How much it reads at once, at most.
    read: usize,
    /// Whether it gives the stream up behind its writes, instead of ending it.
    gives_up: bool,
}

/// What both sides do on a stream.
#[derive(Debug, Clone)]
struct Script {
    /// Whether the dialing side opens it.
    from_near: bool,
    opener: Side,
    acceptor: Side,
}

impl Side {
    /// All that it says on stream `seed`.
    fn says(&self, seed: usize) -> Vec<u8> {
        content(seed, self.writes.iter().map(|(length, _)| length).sum())
    }

    /// Writes by the script; whether nothing went wrong.
    async fn write(&self, seed: usize, stream: &mut (impl AsyncWrite + Unpin)) -> bool {
        let says = self.says(seed);
        let mut left = says.as_slice();
        for &(length, pauses) in &self.writes {
            for _ in 0..pauses {
                yield_now().await;
            }
            let (now, later) = left.split_at(length);
            if stream.write_all(now).await.is_err() {
                return false;
            }
            left = later;
        }
        self.gives_up || stream.close().await.is_ok()
    }

    /// Reads to the end; what came, and whether the end was a good one.
    async fn read(&self, stream: &mut (impl AsyncRead + Unpin)) -> (Vec<u8>, bool) {
        let (mut heard, mut buffer) = (Vec::new(), vec![0; self.read]);
        loop {
            match stream.read(&mut buffer).await {
                Ok(0) => return (heard, true),
                Ok(read) => heard.extend_from_slice(&buffer[..read]),
                Err(_) => return (heard, false),
            }
        }
    }

    /// Does all of it on `stream`, on which `other` does its part. Both read while they write, so that neither can wait
    /// for the other by the script.
    async fn act(&self, seed: usize, stream: SubstreamBox, other: &Self) {
        let (mut reading, mut writing) = stream.split();
        let (write, read) = (pin!(self.write(seed, &mut writing)), pin!(self.read(&mut reading)));
        if self.gives_up {
            if let Either::Right((_, write)) = select(write, read).await {
                write.await;
            }
            return;
        }
        let (is_written, (heard, is_whole)) = futures::join!(write, read);
        let said = other.says(seed);
        if other.gives_up {
            assert!(said.starts_with(&heard), "stream {seed}: other bytes than were sent");
        } else {
            let is_all = is_written && is_whole && heard == said;
            assert!(is_all, "stream {seed}: {} of {} bytes", heard.len(), said.len());
        }
    }
}

fn side() -> impl Strategy<Value = Side> {
    // Below and above frames, windows, and what is gathered.
    let length = prop_oneof![4 => 0_usize..300, 3 => 0_usize..70_000, 1 => 200_000_usize..600_000];
    let read = prop_oneof![1_usize..100, 1_000_usize..100_000];
    let gives_up = prop_oneof![4 => Just(false), 1 => Just(true)];
    (vec((length, 0_usize..4), 0..6), read, gives_up).prop_map(|(writes, read, gives_up)| Side {
        writes,
        read,
        gives_up,
    })
}

fn script() -> impl Strategy<Value = Script> {
    (any::<bool>(), side(), side()).prop_map(|(from_near, mut opener, mut acceptor)| {
        // Who reads little at a time is sent little: much of it would take long and show no more.
        opener.writes.iter_mut().for_each(|(length, _)| *length = (*length).min(5_000 * acceptor.read));
        acceptor.writes.iter_mut().for_each(|(length, _)| *length = (*length).min(5_000 * opener.read));
        Script { from_near, opener, acceptor }
    })
}

/// The opener's part; its first byte says which stream it is.
async fn open(seed: u8, script: Script, mut stream: SubstreamBox) {
    if stream.write_all(&[seed]).await.is_ok() {
        script.opener.act(seed.into(), stream, &script.acceptor).await;
    } else {
        assert!(script.acceptor.gives_up);
    }
}

/// The acceptor's part, and which stream it was; nothing of one that was given up before that was heard.
async fn accept(scripts: Arc<Vec<Script>>, mut stream: SubstreamBox) -> Option<usize> {
    let mut seed = [0];
    stream.read_exact(&mut seed).await.ok()?;
    let seed = seed[0].into();
    let Script { opener, acceptor, .. } = &scripts[seed];
    acceptor.act(seed, stream, opener).await;
    Some(seed)
}

/// Plays all scripts at once, over a connection in memory that holds so many bytes each way.
async fn play(ends: Ends, room: usize, scripts: Vec<Script>) {
    let (near, far) = duplex(room);
    let (mut near, mut far) = join(ends, near.compat(), far.compat()).await;
    let scripts = Arc::new(scripts);
    let (mut opening, mut accepting) = (JoinSet::new(), JoinSet::new());
    for (seed, script) in scripts.iter().enumerate() {
        let stream = if script.from_near { near.open().await } else { far.open().await };
        opening.spawn(open(seed as u8, script.clone(), stream));
    }
    let lasting = scripts.iter().enumerate().filter(|(_, script)| !script.opener.gives_up);
    let mut missing: BTreeSet<_> = lasting.map(|(seed, _)| seed).collect();
    while !(missing.is_empty() && opening.is_empty() && accepting.is_empty()) {
        tokio::select! {
            Some(stream) = near.arrived.recv() => drop(accepting.spawn(accept(scripts.clone(), stream))),
            Some(stream) = far.arrived.recv() => drop(accepting.spawn(accept(scripts.clone(), stream))),
            Some(opened) = opening.join_next() => opened.unwrap(),
            Some(accepted) = accepting.join_next() => {
                accepted.unwrap().map(|seed| missing.remove(&seed));
            }
        }
    }
}

proptest! {
    // Some seconds in a debug build.
    #![proptest_config(ProptestConfig { cases: 30, max_shrink_time: 15_000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_two_sides_do_at_once_all_bytes_arrive_in_order(
        ends in sample::select(vec![Ends::Ours, Ends::OursDialsStock, Ends::StockDialsOurs]),
        room in prop_oneof![1 => 16_usize..300, 3 => 4_000_usize..200_000],
        scripts in vec(script(), 1..10),
    ) {
        let runtime = runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async { timeout(PATIENCE, play(ends, room, scripts)).await.unwrap() });
    }
}
