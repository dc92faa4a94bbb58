//! A flow of QUIC: one connection, with as many streams as a session has.

use std::{
    future::poll_fn,
    io,
    pin::Pin,
    sync::{
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    task::Poll,
    thread,
    time::Instant,
};

use futures::{AsyncReadExt as _, AsyncWriteExt as _, StreamExt as _, future::try_join_all};
use ketch_channel::{ChannelSettings, Deadlines, PathStatistics, transport};
use ketch_lab::{Path, Side};
use libp2p_core::{
    Endpoint, Multiaddr, StreamMuxer as _, Transport as _,
    muxing::{StreamMuxerBox, StreamMuxerExt as _, SubstreamBox},
    transport::{DialOpts, ListenerId, PortUse, TransportEvent},
};
use libp2p_identity::Keypair;

use crate::linux::Failure;

const STREAMS: usize = 16;

const BLOCK_BYTES: usize = 64 * 1024;

/// Fails where the connection ended before its time.
pub(crate) fn run(
    path: &Path,
    settings: ChannelSettings,
    until: Instant,
    arrived: &AtomicU64,
) -> Result<PathStatistics, Failure> {
    let address = format!("/ip4/{}/udp/0/quic-v1", path.address(Side::B)).parse()?;
    let (announce, announced) = mpsc::channel();
    thread::scope(|scope| {
        scope.spawn(move || path.enter(Side::B, move || on_this_host(receive(address, announce, arrived))));
        let address = announced.recv()?;
        path.enter(Side::A, move || on_this_host(send(address, settings, until)))?
    })
}

async fn send(
    address: Multiaddr,
    settings: ChannelSettings,
    until: Instant,
) -> Result<PathStatistics, Failure> {
    let (mut transport, gauges) = transport(&Keypair::generate_ed25519(), Deadlines::default(), settings)?;
    let options = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };
    let (_, mut connection) = transport.dial(address, options)?.await?;
    let gauge = gauges.take_dialed().and_then(|dialed| dialed.gauge()).ok_or("no gauge")?;
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(poll_fn(|context| connection.poll_outbound_unpin(context)).await?);
    }
    let filling = try_join_all(streams.into_iter().map(fill));
    tokio::select! {
        ended = filling => ended.map(drop)?,
        () = tokio::time::sleep_until(until.into()) => {}
    }
    let statistics = gauge.statistics()?;
    poll_fn(|context| connection.poll_close_unpin(context)).await?;
    Ok(statistics)
}

/// Until the connection ends.
async fn fill(mut stream: SubstreamBox) -> io::Result<()> {
    let block = vec![7; BLOCK_BYTES];
    loop {
        stream.write_all(&block).await?;
    }
}

/// Until the sender goes away.
async fn receive(
    address: Multiaddr,
    announce: mpsc::Sender<Multiaddr>,
    arrived: &AtomicU64,
) -> Result<(), Failure> {
    let (mut transport, _gauges) =
        transport(&Keypair::generate_ed25519(), Deadlines::default(), ChannelSettings::default())?;
    transport.listen_on(ListenerId::next(), address)?;
    let mut connection = loop {
        match transport.select_next_some().await {
            TransportEvent::NewAddress { listen_addr, .. } => announce.send(listen_addr)?,
            TransportEvent::Incoming { upgrade, .. } => break upgrade.await?.1,
            TransportEvent::AddressExpired { .. }
            | TransportEvent::ListenerClosed { .. }
            | TransportEvent::ListenerError { .. } => return Err("the listener ended".into()),
        }
    };
    let mut counting = futures::stream::FuturesUnordered::new();
    loop {
        tokio::select! {
            stream = accept(&mut connection) => match stream {
                Ok(stream) => counting.push(count(stream, arrived)),
                Err(_) => return Ok(()),
            },
            Some(()) = counting.next() => {}
        }
    }
}

async fn accept(connection: &mut StreamMuxerBox) -> io::Result<SubstreamBox> {
    poll_fn(|context| {
        if let Poll::Ready(Err(error)) = Pin::new(&mut *connection).poll(context) {
            return Poll::Ready(Err(error));
        }
        Pin::new(&mut *connection).poll_inbound(context)
    })
    .await
}

async fn count(mut stream: SubstreamBox, arrived: &AtomicU64) {
    let mut block = vec![0; BLOCK_BYTES];
    while let Ok(read) = stream.read(&mut block).await
        && read > 0
    {
        arrived.fetch_add(read as u64, Ordering::Relaxed);
    }
}

/// Runs to the end in this thread, so that every socket is made on its host.
fn on_this_host<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime of one thread needs a descriptor or two").block_on(work)
}
