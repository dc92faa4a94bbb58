//! Bulk over a long path that loses packets. A QUIC library ends the whole connection once one stream holds more
//! than 1,024 pieces with gaps between them, which a stream with a large window does within seconds here. Needs
//! network namespaces and /dev/net/tun; where they cannot be had the test says so and is skipped.
#![cfg(target_os = "linux")]

use std::{
    future::poll_fn,
    io::Write as _,
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use futures::{AsyncReadExt, AsyncWriteExt, StreamExt, future::join_all};
use ketch_channel::{ChannelSettings, Controller, Deadlines, PathStatistics, transport};
use ketch_lab::{
    Lab, Side,
    model::{Direction, Loss},
    profile::Profile,
};
use libp2p_core::{
    Endpoint, Multiaddr, Transport,
    muxing::{StreamMuxerBox, StreamMuxerExt, SubstreamBox},
    transport::{DialOpts, ListenerId, PortUse, TransportEvent},
};
use libp2p_identity::Keypair;

/// Long enough for some 50 times the loss that used to end a connection.
const BULK: Duration = Duration::from_secs(30);

/// Streams that carry bulk, as in a session.
const STREAMS: usize = 8;

/// What must arrive at least: a tenth of what the path can carry. How much more it is depends on the machine.
const LEAST_BYTES: u64 = 75_000_000;

const DIALER: DialOpts = DialOpts { role: Endpoint::Dialer, port_use: PortUse::New };

/// A share of a thousandth of the packets, lost by themselves and fifty in a row on average.
const LOSSES: [Loss; 2] =
    [Loss::Independent { probability: 1e-3 }, Loss::GilbertElliott { begins: 2e-5, ends: 0.02 }];

#[test]
fn bulk_over_a_path_that_loses_packets_keeps_its_connection() {
    if let Err(error) = Lab::available() {
        // The harness shows this with --nocapture, and CI counts these lines.
        let _ = writeln!(std::io::stderr(), "skipped: {error}");
        return;
    }
    for loss in LOSSES {
        let (lost, received) = bulk(loss);
        assert!(lost > 100, "{lost} packets were lost: the path tried nothing");
        assert!(received > LEAST_BYTES, "{received} bytes arrived");
    }
}

/// How many packets a sender lost, and how many bytes arrived, over a path that loses packets behind its bottleneck.
fn bulk(loss: Loss) -> (u64, u64) {
    let profile = Profile::named("de-us-200-shallow").unwrap();
    let lossy = Direction { loss, ..profile.a_to_b };
    let path = Lab::path(Profile { name: String::new(), a_to_b: lossy, b_to_a: profile.b_to_a }).unwrap();
    let (announce, announced) = mpsc::channel();
    let address = format!("/ip4/{}/udp/0/quic-v1", path.address(Side::B)).parse().unwrap();
    thread::scope(|scope| {
        let path = &path;
        let receiver = scope.spawn(move || path.enter(Side::B, move || receive(address, announce)).unwrap());
        let address = announced.recv().unwrap();
        let sender = scope.spawn(move || path.enter(Side::A, move || send(address)).unwrap());
        (sender.join().unwrap().lost_packets.unwrap(), receiver.join().unwrap())
    })
}

/// Sends for as long as [`BULK`] says; a connection that ends before that is a panic.
fn send(address: Multiaddr) -> PathStatistics {
    on_this_host(async {
        let settings = ChannelSettings { controller: Some(Controller::Bbr), ..ChannelSettings::default() };
        let (mut transport, gauges) =
            transport(&Keypair::generate_ed25519(), Deadlines::default(), settings).unwrap();
        let (_, mut connection) = transport.dial(address, DIALER).unwrap().await.unwrap();
        let gauge = gauges.take_dialed().unwrap().gauge().unwrap();
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            streams.push(poll_fn(|context| connection.poll_outbound_unpin(context)).await.unwrap());
        }
        let until = Instant::now() + BULK;
        join_all(streams.into_iter().map(|stream| fill(stream, until))).await;
        let statistics = gauge.statistics().unwrap();
        poll_fn(|context| connection.poll_close_unpin(context)).await.unwrap();
        statistics
    })
}

async fn fill(mut stream: SubstreamBox, until: Instant) {
    let block = vec![7; 64 * 1024];
    while Instant::now() < until {
        stream.write_all(&block).await.unwrap();
    }
    stream.close().await.unwrap();
    // The other side answers with the end of its direction once it has everything.
    assert_eq!(stream.read(&mut [0]).await.unwrap(), 0);
}

/// Accepts one connection and counts what its streams bring, each to a clean end.
fn receive(address: Multiaddr, announce: mpsc::Sender<Multiaddr>) -> u64 {
    on_this_host(async {
        let (mut transport, _gauges) =
            transport(&Keypair::generate_ed25519(), Deadlines::default(), ChannelSettings::default())
                .unwrap();
        transport.listen_on(ListenerId::next(), address).unwrap();
        let mut connection = loop {
            match transport.select_next_some().await {
                TransportEvent::NewAddress { listen_addr, .. } => announce.send(listen_addr).unwrap(),
                TransportEvent::Incoming { upgrade, .. } => break upgrade.await.unwrap().1,
                other @ (TransportEvent::AddressExpired { .. }
                | TransportEvent::ListenerClosed { .. }
                | TransportEvent::ListenerError { .. }) => panic!("{other:?}"),
            }
        };
        let mut streams = Vec::new();
        for _ in 0..STREAMS {
            streams.push(accept(&mut connection).await);
        }
        let bytes = join_all(streams.into_iter().map(count)).await.iter().sum();
        // The ends of the streams are under way until the other side has closed.
        assert!(poll_fn(|context| connection.poll_inbound_unpin(context)).await.is_err());
        bytes
    })
}

async fn accept(connection: &mut StreamMuxerBox) -> SubstreamBox {
    poll_fn(|context| connection.poll_inbound_unpin(context)).await.unwrap()
}

async fn count(mut stream: SubstreamBox) -> u64 {
    let mut block = vec![0; 64 * 1024];
    let mut bytes = 0;
    loop {
        match stream.read(&mut block).await.unwrap() {
            0 => break,
            read => bytes += read as u64,
        }
    }
    stream.close().await.unwrap();
    bytes
}

/// Runs to the end in this thread, so that every socket is made on its host.
fn on_this_host<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}
